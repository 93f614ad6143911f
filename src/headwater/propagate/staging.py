"""Which changes are few enough to be sent to every task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from headwater.algebra.plan import LeafId, Plan, scans
from headwater.algebra.query import BaseDelta, Query
from headwater.algebra.time import Interval

# A change of up to this many rows is sent whole to every task instead of shuffling the table that it meets.
BROADCAST_ROWS = 100_000


class CountedLog(Protocol):
    def known_rows(self, name: str, interval: Interval) -> int | None: ...


def few(rows: int | None) -> bool:
    return rows is not None and rows <= BROADCAST_ROWS


def small_leaves(plan: Plan, queries: Sequence[Query], log: CountedLog) -> frozenset[LeafId]:
    """The leaves whose changes are known to be few in every query."""
    known: dict[LeafId, int | None] = {}
    for query in queries:
        for scan in scans(plan):
            term = query.terms[scan.leaf]
            if isinstance(term, BaseDelta):
                rows = log.known_rows(scan.table, term.interval)
                before = known.get(scan.leaf, 0)
                known[scan.leaf] = None if rows is None or before is None else max(rows, before)
    return frozenset(leaf for leaf, rows in known.items() if few(rows))
