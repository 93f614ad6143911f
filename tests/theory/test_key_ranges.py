"""Keys merged into ranges: none is lost, there are not too many, and no other so many ranges cover less."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timezone
from decimal import Decimal
from itertools import combinations, pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.algebra.key_ranges import Key, KeyRange, KeyRanges, key_ranges, measured, step

ints = st.integers(-30, 30) | st.integers(-(2**63), 2**63 - 1)
decimals = st.decimals(-1000, 1000, places=2, allow_nan=False, allow_infinity=False)
dates = st.dates(date(2020, 1, 1), date(2020, 3, 1)) | st.dates()
texts = st.text("abz", max_size=4) | st.text(max_size=3)
moments = st.datetimes(timezones=st.just(timezone.utc))
kinds = (ints, decimals, dates, texts, moments)
keys_of_a_kind = st.one_of(*(st.lists(st.none() | kind, max_size=8) for kind in kinds))


def covered(keys: Sequence[Any], ranges: Sequence[tuple[Any, Any]]) -> Any:
    """What the ranges cover; of whole numbers and days, how many."""
    places = dict(zip(keys, measured(list(keys)), strict=True))
    return sum(places[high] - places[low] + step(low) for low, high in ranges)


def all_ways(keys: Sequence[Any], limit: int) -> list[list[tuple[Any, Any]]]:
    """Every way to cut sorted keys into at most ``limit`` runs."""
    ways = []
    for cuts in range(min(limit, len(keys))):
        for places in combinations(range(1, len(keys)), cuts):
            bounds = [0, *places, len(keys)]
            ways.append([(keys[first], keys[end - 1]) for first, end in pairwise(bounds)])
    return ways


@settings(max_examples=200, deadline=None)
@given(keys_of_a_kind, st.integers(1, 6))
def test_no_key_is_lost_and_no_other_ranges_cover_less(keys: list[Key | None], limit: int) -> None:
    found = key_ranges(keys, limit)
    present = sorted({key for key in keys if key is not None})  # type: ignore[type-var]
    assert len(found.ranges) <= limit
    assert found.has_null == (None in keys)
    assert all(any(each.low <= key <= each.high for each in found.ranges) for key in present)  # type: ignore[operator]
    ends = [end for each in found.ranges for end in (each.low, each.high)]
    assert ends == sorted(ends)  # type: ignore[type-var]
    assert set(ends) <= set(present)
    if present:
        least = min(covered(present, way) for way in all_ways(present, limit))
        assert covered(present, [(each.low, each.high) for each in found.ranges]) == least


def ranges(*pairs: tuple[Key, Key]) -> tuple[KeyRange, ...]:
    return tuple(KeyRange(low, high) for low, high in pairs)


def test_the_largest_gaps_are_left_out() -> None:
    keys = [1, 2, 3, 10, 12, 500, 501, 1000]
    assert key_ranges(keys, 1).ranges == ranges((1, 1000))
    assert key_ranges(keys, 3).ranges == ranges((1, 12), (500, 501), (1000, 1000))
    assert key_ranges(keys, 99).ranges == ranges((1, 3), (10, 10), (12, 12), (500, 501), (1000, 1000))


def test_days_and_strings_have_gaps_too() -> None:
    days = [date(2024, 2, 28), date(2024, 2, 29), date(2024, 3, 1), date(2024, 6, 1)]
    assert key_ranges(days, 2).ranges == ranges((days[0], days[2]), (days[3], days[3]))
    names = ["Customer#000000001", "Customer#000000002", "Supplier#1", "Supplier#2"]
    assert key_ranges(names, 2).ranges == ranges((names[0], names[1]), (names[2], names[3]))


def test_strings_stand_in_the_order_of_their_bytes() -> None:
    """UTF-16 would put the second before the first."""
    assert key_ranges(["\uff5e", "\U0001f600"], 1).ranges == ranges(("\uff5e", "\U0001f600"))
    assert "\uff5e".encode() < "\U0001f600".encode()


def test_equal_decimals_are_one_key_and_nulls_are_none() -> None:
    assert key_ranges([Decimal("1.0"), None, Decimal("1.00")], 3) == KeyRanges(ranges((Decimal(1), Decimal(1))), True)
    assert key_ranges([None], 3) == KeyRanges((), True)
    assert key_ranges([], 3) == KeyRanges((), False)


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ([1, "a"], "of one kind, not int, str"),
        ([1, Decimal(1)], "of one kind"),
        ([date(2024, 1, 1), datetime(2024, 1, 1)], "of one kind"),
        ([datetime(2024, 1, 1), datetime(2024, 1, 1, tzinfo=timezone.utc)], "of one kind"),
        ([1.5], "not float"),
        ([True, False], "not bool"),
        ([Decimal("NaN")], "is a number"),
    ],
)
def test_keys_that_have_no_place_are_refused(keys: list[Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        key_ranges(keys, 2)


def test_there_is_at_least_one_range() -> None:
    with pytest.raises(ValueError, match="one range or more"):
        key_ranges([1], 0)
