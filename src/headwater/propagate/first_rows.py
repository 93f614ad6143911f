"""What a change of ORDER BY with LIMIT needs to be computed from (``headwater.algebra.first_rows``).

A view that is the first rows of something has them in its own table. Of a change of the input only what stands among
or before them matters, most often nothing; what they were computed from is not read. Where more of them went than came,
and where the first rows are not the view's own, the input's state is read, but only as many of its first rows as can
come up.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from headwater.algebra.nodes import Top
from headwater.context import Context
from headwater.propagate.stepping import Stepping
from headwater.sql.dialect import to_text
from headwater.sql.first_rows import first_of, near_changes, shortfall, taken_away
from headwater.sql.transitions import InputChange


@dataclass(frozen=True, slots=True)
class Needed:
    """The changes that matter, and the rows before them."""

    change: InputChange
    before: exp.Query


def first_rows_needed(
    context: Context, node: Top, change: InputChange, known: exp.Query | None, state: exp.Query, stepping: Stepping
) -> Needed | None:
    """``known`` are the first rows before the change, where the view has them, ``state`` is all that there was.

    None: the first rows stay what they are.
    """
    if known is not None:
        near = stepping.stage(to_text(near_changes(node, change.table, known.copy())))
        if not near.rows:
            return None
        if not near.retracts or not context.engine.number(to_text(shortfall(node, near.name))):
            return Needed(InputChange(near.name, near.retracts, near.rows), known)
        context.progress("first rows went: what comes up is computed from the tables")
    if node.floating:  # -0.0 and 0.0 tie, so which of them is the last one is nobody's to say
        return Needed(change, state)
    taken = context.engine.number(to_text(taken_away(change.table))) if change.retracts else 0
    return Needed(change, first_of(node, state, node.limit + node.offset + taken))
