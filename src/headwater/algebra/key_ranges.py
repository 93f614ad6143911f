"""The keys of a small change as a bounded number of ranges.

File statistics tell the smallest and the largest value of a column in a file, so a scan can leave out files only by
literal ranges. A list of all keys of a change would be as long as the change; one range from the smallest to the
largest would cover the table. Between the two: n ranges that cover all keys and as little else as possible.

With the keys sorted, any n ranges that cover them leave out at most n - 1 of the gaps between neighbours, and what they
cover is the whole extent less the gaps left out. So the least is covered by leaving out the n - 1 **largest gaps**.
Whole numbers and days that follow one another have nothing between them and are never put apart.

*How wide is a gap?* Numbers: their difference. Dates and timestamps: days and microseconds. Strings stand as UTF-8, by
whose bytes Spark compares them, and a string is the number that its bytes are the digits of, all made as long as the
longest: the order is kept, and strings that share a beginning are near.

NULL is in no range. Equality never meets it, so it is left out; ``has_null`` tells who needs to know.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import TypeAlias

Key: TypeAlias = int | Decimal | str | date | datetime

_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class KeyRange:
    """All values from ``low`` to ``high``, both included."""

    low: Key
    high: Key


@dataclass(frozen=True, slots=True)
class KeyRanges:
    """Rising, without overlaps; none for no keys."""

    ranges: tuple[KeyRange, ...]
    has_null: bool

    @property
    def is_empty(self) -> bool:
        return not self.ranges and not self.has_null


def key_ranges(keys: Iterable[Key | None], limit: int) -> KeyRanges:
    """At most ``limit`` ranges that hold all keys that are not NULL, of the least total span."""
    if limit < 1:
        raise ValueError(f"keys are merged into one range or more, not {limit}")
    listed = list(keys)
    present = [key for key in listed if key is not None]
    has_null = len(present) < len(listed)
    if not present:
        return KeyRanges((), has_null)
    _require_one_kind(present)
    found: list[Key] = sorted(set(present))
    places = measured(found)
    gaps = [(after - before, at) for at, (before, after) in enumerate(pairwise(places))]
    # Values without anything in between stay together even where more ranges were allowed.
    apart = [(width, at) for width, at in gaps if width > step(found[0])]
    cuts = sorted(at for _, at in heapq.nlargest(limit - 1, apart, key=lambda gap: (gap[0], -gap[1])))
    ends = zip([0, *(at + 1 for at in cuts)], [*cuts, len(found) - 1], strict=True)
    return KeyRanges(tuple(KeyRange(found[first], found[last]) for first, last in ends), has_null)


def measured(keys: Sequence[Key]) -> list[Fraction]:
    """Where keys of one kind lie on a line: in their order, differences are the widths of gaps."""
    texts = [key.encode() for key in keys if isinstance(key, str)]
    if texts:
        longest = max(map(len, texts))
        return [Fraction(int.from_bytes(text.ljust(longest, b"\0"), "big")) for text in texts]
    return [_place(key) for key in keys]


def _place(key: Key) -> Fraction:
    match key:
        case datetime():
            start = datetime(1970, 1, 1, tzinfo=timezone.utc if key.tzinfo else None)
            return Fraction((key - start) // _MICROSECOND)
        case date():
            return Fraction(key.toordinal())
        case int() | Decimal():
            return Fraction(key)
        case str():
            raise ValueError(f"the place of {key!r} depends on the other strings")


def step(key: Key) -> int:
    """The width of a gap with nothing inside."""
    return 0 if isinstance(key, str | Decimal) else 1


def _require_one_kind(keys: Collection[Key]) -> None:
    kinds = {(type(key).__name__, isinstance(key, datetime) and key.tzinfo is not None) for key in keys}
    if len(kinds) > 1:
        raise ValueError(f"keys of one column are of one kind, not {', '.join(sorted(name for name, _ in kinds))}")
    if {type(key) for key in keys} - {int, Decimal, str, date, datetime}:
        raise ValueError(f"keys are whole numbers, decimals, strings, dates or timestamps, not {kinds.pop()[0]}")
    if any(isinstance(key, Decimal) and not key.is_finite() for key in keys):
        raise ValueError("a decimal key is a number")
