"""Where on a table's range of keys the keys of a change lie, found without listing them.

The whole numbers from a table's smallest to its largest key are cut into cells of one width. A change tells which cells
its keys fall into: at most as many numbers as there are cells, however large the change is. Neighbouring cells become
ranges (``headwater.algebra.key_ranges``), and a scan by literal ranges leaves out files by their statistics.

The first and the last cell have no outer end, so what is known of the table may be old: every key is in some cell.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TypeAlias

from headwater.algebra.key_ranges import key_ranges

WHOLE_NUMBERS = frozenset({"tinyint", "smallint", "int", "bigint"})
CELLS = 1024
RANGES = 16  # at most in a condition
WORTH = 0.5  # ranges that cover more of the table than this leave out too little
_LARGEST = 2**62

Span: TypeAlias = tuple[int | None, int | None]
"""Keys from one to another, both included; None has no end."""


@dataclass(frozen=True, slots=True)
class Grid:
    low: int
    width: int
    cells: int

    @classmethod
    def over(cls, low: int, high: int) -> Grid | None:
        """A grid from the smallest to the largest key; None where there is nothing to cut, or no room to count in."""
        keys = high - low + 1
        if keys < 2 or max(abs(low), abs(high)) >= _LARGEST:
            return None
        width = -(-keys // CELLS)
        return cls(low, width, -(-keys // width))

    def cell(self, key: int) -> int:
        return min(self.cells - 1, max(0, (key - self.low) // self.width))

    def spans(self, found: Collection[int]) -> tuple[Span, ...] | None:
        """The keys of these cells as a few spans; None where they cover so much that it would not help."""
        ranges = [(int(each.low), int(each.high)) for each in key_ranges(found, RANGES).ranges]  # type: ignore[arg-type]
        if sum(last - first + 1 for first, last in ranges) > WORTH * self.cells:
            return None
        return tuple(
            (
                None if first == 0 else self.low + first * self.width,
                None if last == self.cells - 1 else self.low + (last + 1) * self.width - 1,
            )
            for first, last in ranges
        )
