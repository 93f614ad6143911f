"""Types whose values compare as they group, and subqueries that depend on it.

A subquery that is tied to the query around it by an equality is grouped by its own side of it, and joined. That is
right as long as values that are different groups also differ when they are compared: '1' and '01' are two groups, but
both equal the number 1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from sqlglot import exp

from headwater.algebra.apart import numbered_anew
from headwater.algebra.nodes import Match, Nodes
from headwater.algebra.plan import Filter, Generate, Join, Plan, Project, Scan, Union
from headwater.algebra.time import Csn
from headwater.engine.analysis import kinds_of
from headwater.engine.spark import SparkEngine
from headwater.sql.constructs import refuse
from headwater.sql.dialect import named, subquery
from headwater.sql.grouping import is_tied_key
from headwater.sql.relations import Sources
from headwater.sql.render import state_relation

_WHOLE_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
_MOST_DIGITS = 38
_TIMES = ("timestamp", "timestamp_ntz")


def require_ties_alike(engine: SparkEngine, plan: Plan, nodes: Nodes, csn: Csn, sources: Sources, text: str) -> None:
    """Refuse a subquery grouped by what it is tied by, where groups that differ would compare as equal."""
    joins = [
        found for part in (plan, *(part for node in nodes.values() for part in node.inputs)) for found in _joins(part)
    ]
    joins += [(node.inputs, node.conditions) for node in nodes.values() if isinstance(node, Match)]
    for children, conditions in joins:
        ties = [each for each in conditions if _is_tie(each)]
        if ties:
            states = [state_relation(numbered_anew(child), csn, sources) for child in children]
            _require_alike(engine, ties, [kinds_of(engine, each) for each in states], text)


def alike(one: str, other: str) -> bool:
    """Whether values of both types can be told apart as well when both are cast to one, as for comparing them."""
    if one == other or {one, other} <= {"float", "double"} or {one, other} in ({"date", each} for each in _TIMES):
        return True
    ours, theirs = _digits(one), _digits(other)
    if ours is None or theirs is None:
        return False
    return max(ours[0], theirs[0]) + max(ours[1], theirs[1]) <= _MOST_DIGITS


def _digits(kind: str) -> tuple[int, int] | None:
    """How many digits an exact number has before and after its point."""
    if kind in _WHOLE_DIGITS:
        return _WHOLE_DIGITS[kind], 0
    found = re.fullmatch(r"decimal\((\d+),(\d+)\)", kind)
    return None if found is None else (int(found[1]) - int(found[2]), int(found[2]))


def _joins(plan: Plan) -> Iterator[tuple[tuple[Plan, ...], tuple[exp.Expr, ...]]]:
    """Every join and filter of a plan: what it is over, and its conditions."""
    match plan:
        case Join(children=children, conditions=conditions):
            yield children, conditions
        case Filter(child=child, condition=condition):
            children = (child,)
            yield children, (condition,)
        case Union(children=children):
            pass
        case Project(child=child) | Generate(child=child):
            children = (child,)
        case Scan():
            children = ()
    for child in children:
        yield from _joins(child)


def _is_tie(condition: exp.Expr) -> bool:
    """Whether a condition compares a key by which a subquery is tied to the query around it."""
    sides = (condition.this, condition.expression) if isinstance(condition, exp.EQ | exp.NullSafeEQ) else ()
    return any(isinstance(side, exp.Column) and is_tied_key(side.name) for side in sides)


def _require_alike(
    engine: SparkEngine, ties: Sequence[exp.Expr], known: Sequence[Mapping[str, str]], text: str
) -> None:
    columns = {name: kind for each in known for name, kind in each.items()}
    nothing = [named(exp.Cast(this=exp.null(), to=exp.var(kind)), name) for name, kind in columns.items()]
    for tie in ties:
        items = [named(side.copy(), f"side{place}") for place, side in enumerate((tie.this, tie.expression))]
        kinds = kinds_of(engine, exp.select(*items).from_(subquery(exp.select(*nothing), "n")))
        if not alike(*kinds.values()):
            found = f"a subquery tied by an equality of {' and '.join(kinds.values())}"
            raise refuse("CORRELATION", found, None, text)
