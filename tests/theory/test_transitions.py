"""The change of a node by touched keys obeys the law at every csn, whatever the node computes key by key."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.algebra.nodes import Key, transitions
from headwater.algebra.time import Csn, Interval
from headwater.algebra.zset import Row, ZSet

KEYS = st.sampled_from([None, 1, 2])
ROWS = st.tuples(KEYS, st.integers(0, 2))


def rows_of(bag: ZSet) -> list[Row]:
    return [row for row, count in bag.counts().items() for _ in range(count)]


def by_key(bag: ZSet) -> dict[Key, list[Row]]:
    found: dict[Key, list[Row]] = {}
    for row in rows_of(bag):
        found.setdefault(row[0], []).append(row)
    return found


def count_and_sum(bag: ZSet) -> ZSet:
    return ZSet.from_rows((k, len(rows), sum(row[1] for row in rows)) for k, rows in by_key(bag).items())


def distinct(bag: ZSet) -> ZSet:
    return ZSet.from_rows(bag.counts())


def ranked(bag: ZSet) -> ZSet:
    return ZSet.from_rows(
        (*row, sum(other[1] < row[1] for other in rows)) for rows in by_key(bag).values() for row in rows
    )


def counted_always(bag: ZSet) -> ZSet:
    return ZSet.from_rows([(len(rows_of(bag)),)])


def first_two(bag: ZSet) -> ZSet:
    return ZSet.from_rows(sorted(rows_of(bag), key=repr)[:2])


NODES: dict[str, tuple[Callable[[ZSet], ZSet], Callable[[Row], Key]]] = {
    "aggregate": (count_and_sum, lambda row: row[0]),
    "distinct": (distinct, lambda row: row),
    "window": (ranked, lambda row: row[0]),
    "global aggregate": (counted_always, lambda row: ()),
    "top": (first_two, lambda row: ()),
}


@st.composite
def histories(draw: st.DrawFn) -> tuple[ZSet, ZSet, Interval]:
    """A state and changes after it that never take away what is not there, cancelling ones included."""
    start = draw(st.integers(0, 3))
    state = draw(st.lists(ROWS, max_size=5))
    present = list(state)
    changes = []
    end = start
    for _ in range(draw(st.integers(0, 5))):
        end += draw(st.integers(0, 2))  # several changes at one csn, and csns without any
        if present and draw(st.booleans()):
            row = draw(st.sampled_from(present))
            present.remove(row)
            changes.append((row, -1, Csn(max(end, start + 1))))
        else:
            row = draw(ROWS)
            present.append(row)
            changes.append((row, 1, Csn(max(end, start + 1))))
    return ZSet.from_rows(state), ZSet.of(changes), Interval(Csn(start), Csn(max(end, start + 1)))


@pytest.mark.parametrize("name", NODES)
@given(history=histories())
def test_the_law_at_every_csn(name: str, history: tuple[ZSet, ZSet, Interval]) -> None:
    function, key = NODES[name]
    state, delta, interval = history
    change = transitions(function, key, state, delta, interval)
    before = function(state.net_effect())
    for csn in range(interval.start, interval.end + 1):
        so_far = Interval(interval.start, Csn(csn))
        expected = function((state + delta.select(so_far).untimed()).net_effect())
        assert (before + change.select(so_far)).net_effect() == expected.net_effect()


@given(history=histories())
def test_untouched_keys_do_not_appear(history: tuple[ZSet, ZSet, Interval]) -> None:
    state, delta, interval = history
    touched = {row[0] for row, _, _ in delta}
    change = transitions(count_and_sum, lambda row: row[0], state, delta, interval)
    assert {row[0] for row, _, _ in change} <= touched


def test_a_change_outside_the_interval_is_an_error() -> None:
    with pytest.raises(ValueError, match="is not in"):
        transitions(distinct, lambda row: row, ZSet(), ZSet.of([((1, 1), 1, Csn(5))]), Interval(Csn(0), Csn(4)))
