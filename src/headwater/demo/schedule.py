"""Which view is brought to which moment after a round of changes: pure, so that it can be read and tested."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class ToNewest:
    view: str


@dataclass(frozen=True, slots=True)
class ToCsn:
    view: str
    csn: int


@dataclass(frozen=True, slots=True)
class ToTimestamp:
    """The moment at which this csn was committed, given as a timestamp."""

    view: str
    csn: int


@dataclass(frozen=True, slots=True)
class ReadAt:
    """A read of another moment than the one at which the view stands."""

    view: str
    csn: int


Visit: TypeAlias = ToNewest | ToCsn | ToTimestamp | ReadAt


def visits(number: int, rounds: int, csns: Sequence[int]) -> list[Visit]:
    """The visits after round ``number`` (from 0), whose units of work have these csns."""
    early, late = csns[len(csns) // 3], csns[2 * len(csns) // 3]
    first, last = number == 0, number == rounds - 1
    found: list[Visit] = []
    if first:
        found += [ToCsn("shipments", early), ToTimestamp("attention", late)]
    if not first and not last:
        found += [ToNewest("shipments"), ToTimestamp("attention", late)]
    if last:
        found += [ToNewest("shipments"), ToCsn("shipments", early), ToNewest("shipments")]
        found += [ReadAt("shipments", late), ToNewest("thin_margin")]
    return found
