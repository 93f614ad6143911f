"""Our reading of a text against Spark's own, over made-up rows: the last check before a view is made.

A view's first rows come from the user's own text, so a plan that means something else would show only when the first
change makes the view wrong. Here both are answered over the same few rows (``headwater.sql.made_up``). A text that
fails over them, say because it casts text to numbers, is tried with text that is all numbers, and then believed.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from sqlglot import exp

from headwater.algebra.nodes import Nodes
from headwater.algebra.plan import Plan
from headwater.algebra.time import BEGINNING
from headwater.engine.spark import SparkEngine
from headwater.sql.constructs import refuse
from headwater.sql.dialect import column, named, to_text
from headwater.sql.made_up import MadeUp
from headwater.sql.render import named_state
from headwater.sql.storage import over_relations
from headwater.sql.transitions import NodeRelations

logger = logging.getLogger(__name__)

_SHOWN = 3


def require_same_answer(
    engine: SparkEngine,
    text: str,
    plan: Plan,
    nodes: Nodes,
    names: Sequence[str],
    columns: Mapping[str, Sequence[tuple[str, str]]],
) -> None:
    """Refuse a text that the plan answers otherwise; ``columns`` are those of the tables and views that it names."""
    for numbers_only in (False, True):
        rows = MadeUp(columns, text, numbers_only=numbers_only)
        try:
            different = engine.query(_differences(text, plan, nodes, names, rows)).limit(_SHOWN).collect()
        except Exception as error:  # noqa: BLE001 (the text itself may fail over rows that nobody made for it)
            logger.debug("Not compared over made-up rows: %s", error)
            continue
        if different:
            found = "; ".join(f"{'too few' if row[0] > 0 else 'too many'}: {tuple(row)[1:]}" for row in different)
            raise refuse("MISREAD", f"another answer than Spark's over made-up rows ({found})", None, text)
        return


def _differences(text: str, plan: Plan, nodes: Nodes, names: Sequence[str], rows: MadeUp) -> str:
    """Rows that stand more often in Spark's answer (above zero) or in ours (below)."""
    sources = NodeRelations(nodes, rows, rows, BEGINNING).sources
    signed = (
        (1, over_relations(text, rows.relations)),
        (-1, to_text(named_state(plan, names, BEGINNING, sources))),
    )
    places = [f"c{place}" for place in range(len(names))]
    own, ours = (f"SELECT {sign}L AS n, * FROM (\n{query}\n) AS q ({', '.join(places)})" for sign, query in signed)
    total = exp.Sum(this=column("n"))
    counted = exp.select(named(total, "n"), *(column(each) for each in places)).from_("__hw_both")
    counted = counted.group_by(*(column(each) for each in places))
    counted = counted.having(exp.NEQ(this=total.copy(), expression=exp.Literal.number(0)))
    return f"WITH `__hw_both` AS ({own} UNION ALL {ours}) {to_text(counted)}"
