"""Our reading of a text against Spark's own, over made-up rows: the last check before a view is made.

A view's first rows come from the user's own text, so a plan that means something else would show only when the first
change makes the view wrong. Here both are answered over the same few rows (``headwater.sql.made_up``), and so is the
plan with its sums put together from totals, as a change of them is.

A text that fails over the rows, say because it divides by a column or casts text to numbers, is tried with others, and
then believed. A text that Spark may answer in several ways, by the order of rows that tie, is answered by our plan with
ties broken one way and the other: if both come to the same, ties don't matter over these rows, and Spark must agree.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from headwater.algebra.nodes import Aggregate, Nodes
from headwater.algebra.plan import Plan
from headwater.algebra.time import BEGINNING
from headwater.engine.spark import SparkEngine
from headwater.sql.constructs import refuse
from headwater.sql.dialect import bigint, column, named, to_text
from headwater.sql.made_up import MadeUp, Pools
from headwater.sql.render import named_state
from headwater.sql.storage import over_relations
from headwater.sql.transitions import NodeRelations, SummedRelations, with_ties_reversed

logger = logging.getLogger(__name__)

_SHOWN = 3
_TRIES = 3


def require_same_answer(
    engine: SparkEngine,
    text: str,
    plan: Plan,
    nodes: Nodes,
    output: Sequence[tuple[str, str]],
    columns: Mapping[str, Sequence[tuple[str, str]]],
    *,
    ties: bool,
) -> None:
    """Refuse a text that the plan answers otherwise; ``columns`` are those of the tables and views that it names.

    ``output`` are its own, with types. ``ties``: Spark may answer it in several ways.
    """
    pools = Pools(distinct_in_order=ties)
    for _ in range(_TRIES):
        rows = MadeUp(columns, text, pools)
        try:
            different = engine.query(_differences(text, plan, nodes, output, rows, ties=ties)).collect()
        except Exception as error:  # noqa: BLE001 (the text itself may fail over rows that nobody made for it)
            logger.debug("Not compared over made-up rows: %s", error)
            pools = _others(pools, str(error))
            continue
        if different and not (ties and different[0].undecided):
            found = "; ".join(f"{'too few' if row.n > 0 else 'too many'}: {tuple(row)[2:]}" for row in different)
            raise refuse("MISREAD", f"another answer than Spark's over made-up rows ({found})", None, text)
        return


def _others(pools: Pools, failure: str) -> Pools:
    """Rows over which what has failed may not fail."""
    if "DIVIDE_BY_ZERO" in failure:
        return replace(pools, above_zero=True)
    return replace(pools, numbers_only=True)


def _differences(
    text: str, plan: Plan, nodes: Nodes, output: Sequence[tuple[str, str]], rows: MadeUp, *, ties: bool
) -> str:
    """Rows that stand more often in Spark's answer (above zero) or in ours (below).

    First those, if there are any, in which two answers of ours differ (``undecided``).
    """
    names = [name for name, _ in output]
    summed = named_state(plan, names, BEGINNING, SummedRelations(nodes, rows, rows, BEGINNING).sources)
    ours = [summed]
    if ties:
        ours.append(with_ties_reversed(summed))
    elif any(isinstance(node, Aggregate) and node.sums is not None for node in nodes.values()):
        ours.append(named_state(plan, names, BEGINNING, NodeRelations(nodes, rows, rows, BEGINNING).sources))
    answers = [over_relations(text, rows.relations), *map(to_text, ours)]
    counts = [f"__hw_n{place}" for place in range(len(answers))]
    places = [f"c{place}" for place in range(len(names))]
    # Another order of rows gives a sum of doubles other last digits.
    kinds = [kind if ties else "" for _, kind in output]
    shown = ", ".join(
        f"round({place}, 8) AS {place}" if kind in ("float", "double") else place
        for place, kind in zip(places, kinds, strict=True)
    )
    parts = []
    for number, answer in enumerate(answers):
        marks = ", ".join(f"{int(place == number)}L AS {name}" for place, name in enumerate(counts))
        parts.append(f"SELECT {marks}, {shown} FROM (\n{answer}\n) AS q ({', '.join(places)})")
    spark, first, *others = (exp.Sum(this=column(name)) for name in counts)
    undecided = exp.or_(exp.false(), *(exp.NEQ(this=first.copy(), expression=each.copy()) for each in others))
    wrong = [exp.Sub(this=spark.copy(), expression=each.copy()) for each in (first, *others)]
    n = exp.Coalesce(this=exp.Nullif(this=wrong[0], expression=bigint(0)), expressions=[wrong[-1]])
    found = exp.select(named(undecided, "undecided"), named(n, "n"), *(column(each) for each in places))
    found = found.from_("__hw_both").group_by(*(column(each) for each in places))
    found = found.having(exp.or_(*(exp.NEQ(this=each.copy(), expression=bigint(0)) for each in wrong)))
    found = found.order_by(exp.Ordered(this=column("undecided"), desc=True)).limit(_SHOWN)
    return f"WITH `__hw_both` AS ({' UNION ALL '.join(parts)}) {to_text(found)}"
