"""Time: commit sequence numbers and half-open intervals of them.

A csn numbers one committed unit of work in the total order over all tracked tables; the numbers are dense
and start at 1, and 0 is the state at which a lake began [Salem00 §5]. Every interval is half-open, (start, end],
so that consecutive intervals tile the line and the state at ``end`` is the state at ``start`` plus exactly
the changes numbered inside.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NewType

Csn = NewType("Csn", int)

BEGINNING = Csn(0)


@dataclass(frozen=True, slots=True, order=True)
class Interval:
    """The csns in ``(start, end]``; empty when the two are equal."""

    start: Csn
    end: Csn

    def __post_init__(self) -> None:
        if self.start < BEGINNING or self.end < self.start:
            raise ValueError(f"({self.start}, {self.end}] is not an interval of csns")

    def __contains__(self, csn: object) -> bool:
        return isinstance(csn, int) and self.start < csn <= self.end

    def __str__(self) -> str:
        return f"({self.start}, {self.end}]"

    @property
    def is_empty(self) -> bool:
        return self.start == self.end
