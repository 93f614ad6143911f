"""Staleness from the catalog's rows: each update once, at its first showing; chunks that end with units of work."""

from __future__ import annotations

from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.algebra.time import Csn
from headwater.catalog.records import RefreshRecord, UnitOfWorkRow
from headwater.durations import seconds_of
from headwater.errors import InvalidInput
from headwater.serve.chunks import chunk_ends, updates_of, wanted_chunk
from headwater.serve.measured import measure
from headwater.serve.staleness import Process, UpdateTimes, average, predicted

SECOND = 1_000_000


def unit(csn: int, at: float, rows: int | None = 1) -> UnitOfWorkRow:
    return UnitOfWorkRow(Csn(csn), "r", csn, round(at * SECOND), "WRITE", rows)


def refreshed(start: int, csn: int, begun: float, installed: float) -> RefreshRecord:
    finished = round(installed * SECOND)
    return RefreshRecord("id", "v", Csn(start), Csn(csn), "incremental", None, 0, installed - begun, finished)


def test_an_update_waits_for_its_refresh_and_for_its_end() -> None:
    found = measure(Csn(0), [refreshed(0, 2, 10, 13)], [unit(1, 4, 3), unit(2, 10, 1)])
    own = found.staleness
    assert (own.updates, own.s1, own.s2, own.worst) == (4, 18 / 4, 3.0, 9.0)
    assert found.span == 6.0
    assert [(each.updates, each.seconds) for each in found.samples()] == [(4, 3.0)]


def test_going_back_and_forward_again_shows_an_update_once() -> None:
    stories = [refreshed(0, 3, 10, 11), refreshed(3, 1, 12, 13), refreshed(1, 3, 14, 15), refreshed(3, 4, 20, 21)]
    found = measure(Csn(0), stories, [unit(csn, csn) for csn in range(1, 5)])
    assert [(chunk.csn, chunk.staleness.updates) for chunk in found.chunks] == [(3, 3), (4, 1)]


def test_nothing_measured_gives_no_advice() -> None:
    found = measure(Csn(0), [refreshed(0, 3, 10, 11)], [])
    assert (found.chunks, found.staleness.vs, found.span, found.advice()) == ((), 0.0, 0.0, None)


@given(
    commits=st.lists(st.tuples(st.floats(0.1, 9), st.integers(0, 5)), min_size=1, max_size=12),
    ends=st.lists(st.integers(1, 12), min_size=1, max_size=6),
)
def test_the_measured_average_is_that_of_every_update_on_its_own(
    commits: list[tuple[float, int]], ends: list[int]
) -> None:
    clock, units = 0.0, []
    for csn, (gap, rows) in enumerate(commits, start=1):
        clock += gap
        units.append(unit(csn, clock, rows))
    now, before, stories = clock, 0, []
    for end in ends:
        stories.append(refreshed(before, min(end, len(units)), now + 1, now + 4))
        now, before = now + 4, min(end, len(units))
    found = measure(Csn(0), stories, units)
    expected = []
    for each in units:
        story = next((s for s in stories if s.csn >= each.csn), None)
        if story is not None:
            installed = story.finished_at / SECOND
            at = each.committed_at / SECOND
            expected.append((UpdateTimes(at, installed - story.seconds, installed), each.rows or 0))
    assert found.staleness.vs == pytest.approx(average(expected).vs)
    assert found.staleness.updates == sum(rows for _, rows in expected)


def test_the_advice_is_near_the_best_of_the_formula() -> None:
    """Updates every second, view updates of 2 s + 10 ms for each: the formula's best n, from measured samples alone."""
    units = [unit(csn, csn) for csn in range(1, 401)]
    stories, before = [], 0
    for end in (10, 60, 100, 250, 400):
        cost = 2 + 0.01 * (end - before)
        begun = max(end, stories[-1].finished_at / SECOND if stories else 0)
        stories.append(refreshed(before, end, begun, begun + cost))
        before = end
    advice = measure(Csn(0), stories, units).advice()
    assert advice is not None
    best = min(predicted(n, 399, 2 + 0.01 * 400 / n, Process.CONCURRENT).vs for n in range(1, 401))
    assert advice.chosen.prediction.vs <= 1.15 * best


@given(
    rows=st.lists(st.tuples(st.integers(1, 30), st.integers(0, 9)), max_size=20),
    size=st.integers(1, 20),
    beyond=st.integers(0, 3),
)
def test_a_chunk_ends_with_the_unit_of_work_that_fills_it(rows: list[tuple[int, int]], size: int, beyond: int) -> None:
    units = [(Csn(csn), updates) for csn, updates in sorted(rows)]
    to = Csn(max((csn for csn, _ in units), default=0) + beyond)
    ends = chunk_ends(units, size, to)
    assert ends == sorted(set(ends))
    assert ends[-1] == to
    totals = {csn: sum(n for _, n in group) for csn, group in groupby(units, key=lambda each: each[0])}
    start = Csn(0)
    for end in ends[:-1]:
        inside = [totals[csn] for csn in sorted(totals) if start < csn <= end]
        assert sum(inside) >= size
        assert sum(inside[:-1]) < size
        start = end
    rest = [totals[csn] for csn in sorted(totals) if start < csn <= to]
    assert sum(rest[:-1]) < size or len(rest) <= 1


def test_a_commit_that_does_not_tell_its_rows_is_taken_for_one_like_the_others() -> None:
    assert [n for _, n in updates_of([unit(1, 1, 10), unit(2, 2, None), unit(3, 3, 20)])] == [10, 15, 20]
    assert [n for _, n in updates_of([unit(1, 1, None)])] == [1]


def test_chunk_sizes_and_lengths_of_time_are_read_as_people_write_them() -> None:
    assert wanted_chunk({}) is None
    assert [wanted_chunk({"chunk_size": text}) for text in ("auto", "10")] == ["auto", 10]
    for wrong in ("0", "-1", "many", ""):
        with pytest.raises(InvalidInput):
            wanted_chunk({"chunk_size": wrong})
    lengths = {"90": 90, "90 s": 90, "10min": 600, "1.5 h": 5400, "7 days": 604_800, "2 Hours": 7200, "1 d": 86_400}
    assert {text: seconds_of(text) for text in lengths} == lengths
    for wrong in ("", "soon", "-1 s", "3 weeks", "1 h 5 min"):
        with pytest.raises(InvalidInput):
            seconds_of(wrong)
