"""What the types of a view's nodes say: judged by Spark at CREATE, and kept with the definition.

- An aggregate whose value depends on the order of rows must get them in order: its answer of today is taken away
  tomorrow, and must be the same then.
- An aggregate that adds up exactly may be kept by adding its changes.
- An equality between values of different kinds ('01' = 1) is a condition, but no key: equal values would be different
  keys.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from sqlglot import exp

from headwater.algebra.nodes import Aggregate, Match, Nodes, Verdict, Window
from headwater.algebra.time import Csn
from headwater.engine.analysis import require_comparable
from headwater.engine.spark import SparkEngine
from headwater.sql.constructs import ADDING_AGGREGATES, ADDING_AS_DOUBLE, ORDER_BOUND_AGGREGATES, refuse
from headwater.sql.dialect import subquery, to_text
from headwater.sql.relations import Sources
from headwater.sql.render import state_relation
from headwater.sql.summing import summable, total_type
from headwater.sql.transitions import state_of, ties_are_broken

_FLOATING = re.compile(r"\b(double|float)\b")
_NUMBER = re.compile(r"tinyint|smallint|int|bigint|float|double|decimal\(.*\)")
_TIME = re.compile(r"date|timestamp|timestamp_ntz")


def judge(engine: SparkEngine, nodes: Nodes, csn: Csn, sources: Sources, text: str) -> dict[str, Verdict]:
    """Node to verdict, for those that need one; refuses what can't be kept."""
    found: dict[str, Verdict] = {}
    for name, node in nodes.items():
        kinds = _kinds(engine, state_of(node, csn, sources))
        inputs = [state_relation(plan, csn, sources) for plan in node.inputs]
        for state in inputs:
            kinds |= _kinds(engine, state)
        require_comparable(name, kinds, text)
        match node:
            case Match(keys=keys) if not all(_alike(kinds[one], kinds[other]) for one, other in keys):
                found[name] = "keyless"
            case Aggregate(values=values) if any(_depends_on_order(engine, value, inputs[0]) for _, value in values):
                found[name] = "ordered"
            case Aggregate():
                types = _sum_types(engine, node, kinds, inputs[0])
                if types is not None:
                    found[name] = {"summed": types}
            case Window(values=values):
                for _, value in values:
                    broken = value.args.get("order") and ties_are_broken(value)
                    if not broken and _depends_on_order(engine, value.this, inputs[0]):
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
        if total is None:
            return None
        found[output] = [kinds[output], total]
    return found


def _kinds(engine: SparkEngine, query: exp.Query) -> dict[str, str]:
    return dict(engine.columns(engine.query(to_text(query))))


def _alike(one: str, other: str) -> bool:
    """Whether values are equal exactly if they are equal as values of one common type."""
    return one == other or any(kind.fullmatch(one) and kind.fullmatch(other) for kind in (_NUMBER, _TIME))


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
    flat = [exp.alias_(part.copy(), f"a{i}") for i, part in enumerate(arguments)]
    kinds = _kinds(engine, exp.select(*flat).from_(subquery(rows.copy(), "i"))).values()
    # The sum of whole numbers is exact in a double as long as they are not huge; avg adds up as double.
    huge = function not in ("sum", "try_sum") and "bigint" in kinds
    return huge or any(_FLOATING.search(kind) for kind in kinds)
