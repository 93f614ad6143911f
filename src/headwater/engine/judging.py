"""What the types of a view's nodes say: judged by Spark at CREATE, and kept with the definition.

- An aggregate whose value depends on the order of rows must get them in order: its answer of today is taken away
  tomorrow, and must be the same then.
- An aggregate that adds up exactly may be kept by adding its changes.
- Floating-point numbers that an expression above may make into text must not lose the sign of -0.0 on their way.
- An equality between values of different kinds ('01' = 1) is a condition, but no key: equal values would be different
  keys. A subquery that is tied by one to the query around it can't be grouped by it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sqlglot import exp

from headwater.algebra.nodes import Aggregate, Match, Nodes, Verdict, Window
from headwater.algebra.plan import Attribute, Plan
from headwater.algebra.time import Csn
from headwater.engine.alike import alike, require_ties_alike
from headwater.engine.analysis import kinds_of, require_comparable
from headwater.engine.spark import SparkEngine
from headwater.sql.constructs import ADDING_AGGREGATES, ADDING_AS_DOUBLE, ORDER_BOUND_AGGREGATES, refuse
from headwater.sql.dialect import subquery, to_text
from headwater.sql.relations import Sources
from headwater.sql.render import state_relation
from headwater.sql.summing import AVERAGES, averaged, summable, total_type
from headwater.sql.transitions import breaks_ties, state_of

_FLOATING = re.compile(r"\b(double|float)\b")


class Judgement(NamedTuple):
    """By node: its verdict, and its attributes that hold floating-point numbers; for those that have any."""

    verdicts: Mapping[str, Verdict]
    floating: Mapping[str, tuple[Attribute, ...]]


def judge(engine: SparkEngine, plan: Plan, nodes: Nodes, csn: Csn, sources: Sources, text: str) -> Judgement:
    """Refuses what can't be kept."""
    found: dict[str, Verdict] = {}
    floating: dict[str, tuple[Attribute, ...]] = {}
    require_ties_alike(engine, plan, nodes, csn, sources, text)
    for name, node in nodes.items():
        kinds = kinds_of(engine, state_of(node, csn, sources))
        inputs = [state_relation(plan, csn, sources) for plan in node.inputs]
        for state in inputs:
            kinds |= kinds_of(engine, state)
        require_comparable(name, kinds, text)
        if numbers := tuple(sorted(each for each, kind in kinds.items() if _FLOATING.search(kind))):
            floating[name] = numbers
        match node:
            case Match(keys=keys) if not all(alike(kinds[one], kinds[other]) for one, other in keys):
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
    return Judgement(found, floating)


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
        typed = kinds_of(engine, exp.select(*items).from_(subquery(rows.copy(), "i")))
    found: dict[str, list[str]] = {}
    for output, part in parts.items():
        total = total_type(part[0], typed.get(output, "bigint")) if part is not None else None
        if total is None or (total.startswith("decimal") and not engine.fails_on_overflow):
            return None  # a total that has overflowed to NULL can't be taken from
        found[output] = [kinds[output], total]
    return found


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
    return list(kinds_of(engine, exp.select(*flat).from_(subquery(rows.copy(), "i"))).values())
