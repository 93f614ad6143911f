"""Which changes concern the first rows of a bag, when these are all that is known of it.

ORDER BY with LIMIT n has no key: in principle any row of its input may come up. But let ``known`` be the n first rows
at a csn, in a total order, and the *bound* the last of them (without bound if there are fewer than n: then these are
all rows). Every row that is not known stands at the bound or behind it. So of a later change only what stands **at the
bound or before it** matters (``near``), as long as at every csn at least n rows stand there: what is known, with the
changes so far. If more rows have gone than came at some csn, rows that nobody has kept come up (``falls_short``), and
they must be looked for. Even then no more than the n + r first rows are needed of the bag as it was, where r rows are
taken away in all: n of them are left whatever is taken.

These functions are the executable specification; ``headwater.sql.first_rows`` has them as SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from headwater.algebra.zset import Row, ZSet

Order: TypeAlias = Callable[[Row], Any]
"""Rows as values that compare; equal only of rows that are the same."""


def near(known: Sequence[Row], change: ZSet, limit: int, order: Order) -> ZSet:
    """The part of a timed change that concerns the first rows."""
    if len(known) < limit:
        return change
    if not known:  # LIMIT 0
        return ZSet()
    bound = max(map(order, known))
    return ZSet.of(entry for entry in change if order(entry[0]) <= bound)


def falls_short(known: Sequence[Row], near: ZSet, limit: int) -> bool:
    """Whether at some csn fewer rows are left up to the bound than are wanted."""
    if len(known) < limit:
        return False
    moments = sorted({csn for _, _, csn in near if csn is not None})
    return any(sum(n for _, n, csn in near if csn is not None and csn <= moment) < 0 for moment in moments)


def rows_needed(change: ZSet, limit: int) -> int:
    """How many of the first rows of the bag before a change give its first rows at every csn of it."""
    return limit - sum(count for _, count, _ in change if count < 0)
