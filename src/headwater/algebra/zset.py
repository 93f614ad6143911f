"""The timed Z-set: a bag of rows with signed counts and csns [Salem00 §2, Definition 4.1].

Base tables, base deltas, view deltas and query answers are all of this one form. A row of a state carries no csn
(None): it is older than every change. Many bags mean the same (two insertions and a deletion, or one insertion), so
bags are compared by their ``net_effect``: counts summed by row, csns forgotten, zeros dropped, in one fixed order.
Two timed Z-sets of equal net effect are the same state; that their selections by *every* interval have equal net
effects is the stronger law that a view delta must keep.

The identities of [Salem00 §4] hold, with one that needs care: a projection can make different rows equal, so
φ(π(R)) is φ(π(φ(R))) and not, as printed, π(φ(R)).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from headwater.algebra.time import Csn, Interval

Row: TypeAlias = tuple[Any, ...]
Entry: TypeAlias = tuple[Row, int, Csn | None]
"""(row, count, csn)"""


@dataclass(frozen=True, slots=True)
class ZSet:
    entries: tuple[Entry, ...] = ()

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> ZSet:
        return cls(tuple(entries))

    @classmethod
    def from_rows(cls, rows: Iterable[Row]) -> ZSet:
        """A state: each row once, without a csn."""
        return cls(tuple((row, 1, None) for row in rows))

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __add__(self, other: ZSet) -> ZSet:
        return ZSet(self.entries + other.entries)

    def __neg__(self) -> ZSet:
        return ZSet(tuple((row, -count, csn) for row, count, csn in self.entries))

    def __sub__(self, other: ZSet) -> ZSet:
        return self + -other

    def add(self, other: ZSet) -> ZSet:
        """Bag union, R + S."""
        return self + other

    def negate(self) -> ZSet:
        """-R: every count with the other sign."""
        return -self

    def select(self, interval: Interval) -> ZSet:
        """σ(a, b]: the entries whose csn lies in the interval; entries without a csn never do."""
        return ZSet(tuple(entry for entry in self.entries if entry[2] is not None and entry[2] in interval))

    def where(self, predicate: Callable[[Row], bool]) -> ZSet:
        return ZSet(tuple(entry for entry in self.entries if predicate(entry[0])))

    def project(self, function: Callable[[Row], Row]) -> ZSet:
        return ZSet(tuple((function(row), count, csn) for row, count, csn in self.entries))

    def untimed(self) -> ZSet:
        """The same rows and counts without csns."""
        return ZSet(tuple((row, count, None) for row, count, _ in self.entries))

    def counts(self) -> dict[Row, int]:
        """Row to summed count, without zeros: the net effect as a mapping."""
        sums: dict[Row, int] = {}
        for row, count, _ in self.entries:
            sums[row] = sums.get(row, 0) + count
        return {row: count for row, count in sums.items() if count}

    def net_effect(self) -> ZSet:
        """φ(R): counts summed by row, no csn, no zeros. Bags of equal net effect give equal values."""
        counts = self.counts()
        return ZSet(tuple((row, counts[row], None) for row in sorted(counts, key=_row_order)))

    def consolidate(self) -> ZSet:
        """Counts summed by row *and* csn, no zeros: the smallest bag that no selection can tell from this one."""
        sums: dict[tuple[Row, Csn | None], int] = {}
        for row, count, csn in self.entries:
            sums[row, csn] = sums.get((row, csn), 0) + count
        order = sorted(sums, key=lambda key: (_row_order(key[0]), -1 if key[1] is None else key[1]))
        return ZSet(tuple((row, sums[row, csn], csn) for row, csn in order if sums[row, csn]))


def _row_order(row: Row) -> tuple[tuple[bool, str, Any], ...]:
    """A total order on rows that may hold NULLs and values of several types."""
    return tuple((value is not None, type(value).__name__, 0 if value is None else value) for value in row)
