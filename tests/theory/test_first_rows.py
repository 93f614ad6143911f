"""The first rows of an order, from what was known of them: right at every csn, or told that they don't suffice."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from headwater.algebra.first_rows import falls_short, near, rows_needed
from headwater.algebra.nodes import transitions
from headwater.algebra.time import Csn, Interval
from headwater.algebra.zset import Row, ZSet
from tests.theory.test_transitions import histories, rows_of

LIMITS = st.integers(0, 4)


def first(bag: ZSet, limit: int) -> list[Row]:
    return sorted(rows_of(bag.net_effect()), key=repr)[:limit]


def all_answers(state: ZSet, change: ZSet, interval: Interval, limit: int) -> list[list[Row]]:
    """The first rows at every csn."""
    csns = range(interval.start, interval.end + 1)
    return [first(state + change.select(Interval(interval.start, Csn(csn))).untimed(), limit) for csn in csns]


def kept(state: ZSet, change: ZSet, interval: Interval, limit: int) -> list[list[Row]]:
    """The same from a state that may lack rows: what is taken away and is not there does not count."""

    def answer(bag: ZSet) -> ZSet:
        return ZSet.from_rows(first(ZSet.of(entry for entry in bag.net_effect() if entry[1] > 0), limit))

    moved = transitions(answer, lambda row: (), state, change, interval)
    csns = range(interval.start, interval.end + 1)
    before = answer(state)
    return [
        sorted(rows_of(before + moved.select(Interval(interval.start, Csn(csn))).untimed()), key=repr) for csn in csns
    ]


# A row comes, pushes the last known one out, and that one goes, then the new one.
COME_AND_GONE = (
    ZSet.from_rows([(1, 0), (2, 0)]),
    ZSet.of([((None, 0), 1, Csn(1)), ((1, 0), -1, Csn(2)), ((None, 0), -1, Csn(3))]),
    Interval(Csn(0), Csn(3)),
)


@given(history=histories(), limit=LIMITS)
@example(history=COME_AND_GONE, limit=1)
def test_what_is_near_decides_unless_it_falls_short(history: tuple[ZSet, ZSet, Interval], limit: int) -> None:
    state, change, interval = history
    known = first(state, limit)
    concerned = near(known, change, limit, repr)
    wanted = all_answers(state, change, interval, limit)
    if not falls_short(known, concerned, limit):
        assert kept(ZSet.from_rows(known), concerned, interval, limit) == wanted
    else:
        assert len(known) == limit
        assert any(count < 0 for _, count, _ in concerned)


@given(history=histories(), limit=LIMITS)
def test_no_more_rows_are_needed_than_are_taken_away(history: tuple[ZSet, ZSet, Interval], limit: int) -> None:
    state, change, interval = history
    prefix = ZSet.from_rows(first(state, rows_needed(change, limit)))
    assert kept(prefix, change, interval, limit) == all_answers(state, change, interval, limit)


def test_a_row_that_comes_up_is_not_known() -> None:
    state, change, _ = COME_AND_GONE
    known = first(state, 1)
    assert falls_short(known, near(known, change, 1, repr), 1)
