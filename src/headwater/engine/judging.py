"""What the types of a view's nodes say: judged by Spark at CREATE, and kept with the definition.

- An aggregate whose value depends on the order of rows must get them in order: its answer of today is taken away
  tomorrow, and must be the same then.
- An aggregate that adds up exactly may be kept by adding its changes.
- An equality between values of different kinds ('01' = 1) is a condition, but no key: equal values would be different
  keys. A subquery that is tied by one to the query around it can't be grouped by it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from sqlglot import exp

from headwater.algebra.apart import numbered_anew
from headwater.algebra.nodes import Aggregate, Match, Nodes, Verdict, Window
from headwater.algebra.plan import Filter, Generate, Join, Plan, Project, Scan, Union
from headwater.algebra.time import Csn
from headwater.engine.analysis import require_comparable
from headwater.engine.spark import SparkEngine
from headwater.sql.constructs import ADDING_AGGREGATES, ADDING_AS_DOUBLE, ORDER_BOUND_AGGREGATES, refuse
from headwater.sql.dialect import named, subquery, to_text
from headwater.sql.grouping import is_tied_key
from headwater.sql.relations import Sources
from headwater.sql.render import state_relation
from headwater.sql.summing import AVERAGES, averaged, summable, total_type
from headwater.sql.transitions import breaks_ties, state_of

_FLOATING = re.compile(r"\b(double|float)\b")
_WHOLE_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
_MOST_DIGITS = 38
_TIMES = ("timestamp", "timestamp_ntz")


def judge(engine: SparkEngine, plan: Plan, nodes: Nodes, csn: Csn, sources: Sources, text: str) -> dict[str, Verdict]:
    """Node to verdict, for those that need one; refuses what can't be kept."""
    found: dict[str, Verdict] = {}
    for part in (plan, *(part for node in nodes.values() for part in node.inputs)):
        for children, conditions in _joins(part):
            tied = [each for each in conditions if _is_tie(each)]
            inputs = [state_relation(numbered_anew(child), csn, sources) for child in children] if tied else []
            _require_alike(engine, tied, [_kinds(engine, each) for each in inputs], text)
    for name, node in nodes.items():
        kinds = _kinds(engine, state_of(node, csn, sources))
        inputs = [state_relation(plan, csn, sources) for plan in node.inputs]
        for state in inputs:
            kinds |= _kinds(engine, state)
        require_comparable(name, kinds, text)
        match node:
            case Match(conditions=conditions):
                _require_alike(engine, [each for each in conditions if _is_tie(each)], [kinds], text)
        match node:
            case Match(keys=keys) if not all(_alike(kinds[one], kinds[other]) for one, other in keys):
                found[name] = "keyless"
            case Aggregate(values=values) if any(_depends_on_order(engine, value, inputs[0]) for _, value in values):
                doubles = [output for output, value in values if _averages_bigints(engine, value, inputs[0])]
                found[name] = {"doubles": {output: [] for output in doubles}} if doubles else "ordered"
            case Aggregate():
                types = _sum_types(engine, node, kinds, inputs[0])
                if types is not None:
                    found[name] = {"summed": types}
            case Window(values=values):
                for _, value in values:
                    if not breaks_ties(value) and _depends_on_order(engine, value.this, inputs[0]):
                        raise refuse("ORDER_BOUND", to_text(value), None, text)
    return found


def _sum_types(
    engine: SparkEngine, node: Aggregate, kinds: Mapping[str, str], rows: exp.Query
) -> dict[str, list[str]] | None:
    """The types of each value and of its total, if all add up exactly."""
    parts = {output: summable(value) for output, value in node.values}
    if any(part is None for part in parts.values()):
        return None
    over = {output: part[1] for output, part in parts.items() if part is not None and part[1] is not None}
    typed: dict[str, str] = {}
    if over:
        items = [exp.alias_(argument.copy(), output, quoted=True) for output, argument in over.items()]
        typed = _kinds(engine, exp.select(*items).from_(subquery(rows.copy(), "i")))
    found: dict[str, list[str]] = {}
    for output, part in parts.items():
        total = total_type(part[0], typed.get(output, "bigint")) if part is not None else None
        if total is None or (total.startswith("decimal") and not engine.fails_on_overflow):
            return None  # a total that has overflowed to NULL can't be taken from
        found[output] = [kinds[output], total]
    return found


def _kinds(engine: SparkEngine, query: exp.Query) -> dict[str, str]:
    return dict(engine.columns(engine.query(to_text(query))))


def _alike(one: str, other: str) -> bool:
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
    """Refuse a subquery grouped by what it is tied by, where groups that differ would compare as equal."""
    columns = {name: kind for each in known for name, kind in each.items()}
    nothing = [named(exp.Cast(this=exp.null(), to=exp.var(kind)), name) for name, kind in columns.items()]
    for tie in ties:
        items = [named(side.copy(), f"side{place}") for place, side in enumerate((tie.this, tie.expression))]
        kinds = _kinds(engine, exp.select(*items).from_(subquery(exp.select(*nothing), "n")))
        if not _alike(*kinds.values()):
            found = f"a subquery tied by an equality of {' and '.join(kinds.values())}"
            raise refuse("CORRELATION", found, None, text)


def _depends_on_order(engine: SparkEngine, value: exp.Expr, rows: exp.Query) -> bool:
    """Whether an aggregate gives another answer if the same rows come in another order."""
    either = ORDER_BOUND_AGGREGATES | ADDING_AGGREGATES
    call = next((part for part in value.find_all(exp.Anonymous) if part.name.lower() in either), None)
    if call is None:
        return False
    function = call.name.lower()
    if function in ORDER_BOUND_AGGREGATES | ADDING_AS_DOUBLE:
        return True
    first = call.expressions[0]
    arguments = first.expressions if isinstance(first, exp.Distinct) else [first]
    kinds = _argument_kinds(engine, arguments, rows)
    # The sum of whole numbers is exact in a double as long as they are not huge; avg adds up as double. So does all
    # that adds up text.
    huge = function not in ("sum", "try_sum") and "bigint" in kinds
    return huge or any(_FLOATING.search(kind) or kind == "string" for kind in kinds)


def _averages_bigints(engine: SparkEngine, value: exp.Expr, rows: exp.Query) -> bool:
    """Whether Spark, taking the order to be of no account, would leave out the order in which it adds up doubles."""
    calls = [part for part in value.find_all(exp.Anonymous) if part.name.lower() in AVERAGES]
    return bool(calls) and "bigint" in _argument_kinds(engine, [averaged(calls[0])], rows)


def _argument_kinds(engine: SparkEngine, arguments: Sequence[exp.Expr], rows: exp.Query) -> list[str]:
    flat = [exp.alias_(part.copy(), f"a{i}") for i, part in enumerate(arguments)]
    return list(_kinds(engine, exp.select(*flat).from_(subquery(rows.copy(), "i"))).values())
