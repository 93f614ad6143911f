"""The layout timeline: every retained moment is V(t), in whatever chunks it was installed [Mauve98 §2]."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.algebra.time import Csn, Interval
from headwater.algebra.zset import Row, ZSet
from headwater.errors import InternalError, MomentBeforeHistory, MomentInFuture
from headwater.serve.timeline import (
    Run,
    Timeline,
    advance,
    change,
    coarse,
    install,
    needed,
    prune,
    rewind,
)

LAST = 8
ROWS: tuple[Row, ...] = ((None, "x"), (0, "x"), (0, None), (1, "y"))


@dataclass(frozen=True)
class ViewHistory:
    """A view that begins at ``begin`` and changes by ``view_delta``, which may hold what cancels and duplicates."""

    begin: Csn
    initial: ZSet
    view_delta: ZSet

    def state(self, at: int) -> ZSet:
        return (self.initial + self.view_delta.select(Interval(self.begin, Csn(at)))).net_effect()

    def timeline(self, to: int = LAST) -> Timeline:
        return advance(Timeline.beginning(self.initial, self.begin), self.view_delta, Csn(to))


@st.composite
def view_histories(draw: st.DrawFn) -> ViewHistory:
    """Counts never fall below zero at the end of a csn, whatever happens inside it."""
    begin = draw(st.integers(0, 3))
    held = {row: draw(st.integers(0, 3)) for row in ROWS}
    initial = ZSet.of((row, count, None) for row, count in held.items())
    entries = []
    for csn in range(begin + 1, LAST + 1):
        for row in draw(st.lists(st.sampled_from(ROWS), max_size=4)):
            step = draw(st.integers(-held[row], 2))
            held[row] += step
            entries.append((row, step, Csn(csn)))
            if draw(st.booleans()):
                entries += [(row, 1, Csn(csn)), (row, -1, Csn(csn))]
    return ViewHistory(Csn(begin), initial, ZSet.of(draw(st.permutations(entries))))


@st.composite
def chunked(draw: st.DrawFn) -> tuple[ViewHistory, list[Csn]]:
    """A view with the ends of the chunks in which it is maintained."""
    history = draw(view_histories())
    inner = draw(st.sets(st.integers(history.begin + 1, LAST - 1), max_size=4))
    return history, [Csn(end) for end in sorted(inner | {LAST})]


@given(chunked())
@settings(max_examples=30)
def test_every_moment_read_from_the_timeline_is_the_view_at_that_moment(case: tuple[ViewHistory, list[Csn]]) -> None:
    history, ends = case
    timeline = Timeline.beginning(history.initial, history.begin)
    for end in ends:
        timeline = advance(timeline, history.view_delta, end)
        timeline.validate()
        for moment in range(history.begin, end + 1):
            assert timeline.at(Csn(moment)) == history.state(moment)


@given(chunked())
@settings(max_examples=30)
def test_chunks_of_any_size_give_the_same_timeline(case: tuple[ViewHistory, list[Csn]]) -> None:
    history, ends = case
    timeline = Timeline.beginning(history.initial, history.begin)
    for end in ends:
        timeline = advance(timeline, history.view_delta, end)
    assert timeline == history.timeline()


@given(view_histories())
@settings(max_examples=30)
def test_a_row_stands_in_at_most_one_run_at_a_time_and_a_run_ends_only_where_the_count_changes(
    history: ViewHistory,
) -> None:
    runs = history.timeline().runs
    for row in ROWS:
        counts = [history.state(moment).counts().get(row, 0) for moment in range(history.begin, LAST + 1)]
        changes = sum(now != then for now, then in zip([0, *counts], counts, strict=False))
        falls_to_zero = sum(now > 0 == then for now, then in pairwise(counts))
        assert sum(run.row == row for run in runs) == changes - falls_to_zero


@given(chunked())
@settings(max_examples=30)
def test_a_change_touches_open_runs_of_changed_rows_and_nothing_else(case: tuple[ViewHistory, list[Csn]]) -> None:
    history, (end, *_) = case
    before = Timeline.beginning(history.initial, history.begin)
    found = change(before, history.view_delta, end)
    changed = {row for row, _, _ in history.view_delta.select(found.interval).consolidate()}
    assert {run.row for run in found.closed | found.opened} <= changed
    assert all(run.t_min <= before.csn < (run.t_max or 0) for run in found.closed)
    assert all(run.t_min > before.csn for run in found.opened)
    after = install(before, found)
    assert len(after.runs) == len(before.runs) + len(found.opened)


@given(view_histories(), st.data())
@settings(max_examples=30)
def test_rewinding_undoes_advancing(history: ViewHistory, data: st.DataObject) -> None:
    to = data.draw(st.integers(history.begin, LAST))
    assert rewind(history.timeline(), Csn(to)) == history.timeline(to)


@st.composite
def pruned(draw: st.DrawFn) -> tuple[ViewHistory, Csn, frozenset[Csn]]:
    history = draw(view_histories())
    kept_from = Csn(draw(st.integers(history.begin, LAST)))
    pinned = draw(st.frozensets(st.integers(history.begin, LAST).map(Csn), max_size=3))
    return history, kept_from, pinned


@given(pruned())
@settings(max_examples=30)
def test_pruning_keeps_every_moment_that_it_should_and_no_run_that_none_of_them_shows(
    case: tuple[ViewHistory, Csn, frozenset[Csn]],
) -> None:
    history, kept_from, pinned = case
    timeline = prune(history.timeline(), kept_from, pinned)
    timeline.validate()
    readable = [moment for moment in range(history.begin, LAST + 1) if moment >= kept_from or moment in pinned]
    for moment in range(history.begin, LAST + 1):
        if moment in readable:
            assert timeline.at(Csn(moment)) == history.state(moment)
        else:
            with pytest.raises(MomentBeforeHistory):
                timeline.at(Csn(moment))
    for run in timeline.runs:
        assert any(run.visible(Csn(moment)) for moment in readable)
        assert needed(run, kept_from, timeline.pinned)


@given(pruned(), st.data())
@settings(max_examples=30)
def test_pruning_again_and_advancing_after_pruning_commute(
    case: tuple[ViewHistory, Csn, frozenset[Csn]], data: st.DataObject
) -> None:
    history, kept_from, pinned = case
    once = prune(history.timeline(), kept_from, pinned)
    assert prune(once, kept_from, pinned) == once
    middle = Csn(data.draw(st.integers(kept_from, LAST)))
    early = prune(history.timeline(middle), kept_from, pinned & {Csn(csn) for csn in range(kept_from)})
    assert advance(early, history.view_delta, Csn(LAST)) == once


class TestLifeCycleOfSection21:
    """[Mauve98 §2.1]: inserted at T_ir, deleted at T_dr, and physically gone some time later."""

    INSERTED, DELETED = Csn(3), Csn(6)

    def timeline(self) -> Timeline:
        view_delta = ZSet.of([((1,), 1, self.INSERTED), ((1,), -1, self.DELETED)])
        return advance(Timeline.beginning(ZSet(), Csn(1)), view_delta, Csn(8))

    def test_the_deletion_only_sets_t_max(self) -> None:
        assert self.timeline().runs == {Run((1,), 1, self.INSERTED, self.DELETED)}

    @pytest.mark.parametrize(("moment", "seen"), [(2, False), (3, True), (5, True), (6, False), (8, False)])
    def test_equations_1_and_2_visible_from_t_min_until_before_t_max(self, moment: int, seen: bool) -> None:
        (run,) = self.timeline().runs
        assert run.visible(Csn(moment)) is seen
        assert self.timeline().at(Csn(moment)) == (ZSet.from_rows([(1,)]) if seen else ZSet())

    def test_t_max_null_is_visible_for_ever(self) -> None:
        assert Run((1,), 1, Csn(3)).visible(Csn(10**9))

    def test_it_is_physically_deleted_once_no_moment_kept_is_before_its_end(self) -> None:
        assert len(prune(self.timeline(), Csn(5)).runs) == 1
        assert len(prune(self.timeline(), Csn(6)).runs) == 0
        assert len(prune(self.timeline(), Csn(7), pinned=[Csn(4)]).runs) == 1
        assert len(prune(self.timeline(), Csn(7), pinned=[Csn(2)]).runs) == 0


def test_copies_of_a_row_share_a_run_with_their_count() -> None:
    view_delta = ZSet.of([((1,), 2, Csn(1)), ((1,), 1, Csn(3)), ((1,), -3, Csn(4)), ((1,), 1, Csn(6))])
    assert advance(Timeline.beginning(ZSet(), Csn(0)), view_delta, Csn(6)).runs == {
        Run((1,), 2, Csn(1), Csn(3)),
        Run((1,), 3, Csn(3), Csn(4)),
        Run((1,), 1, Csn(6)),
    }


def join(left: ZSet, right: ZSet) -> ZSet:
    """On the first column; NULL joins nothing."""
    return ZSet.of(
        (a + b, m * n, None) for a, m, _ in left for b, n, _ in right if a[0] is not None and a[0] == b[0]
    ).net_effect()


class TestSection23:
    @given(view_histories(), view_histories())
    @settings(max_examples=30)
    def test_equation_3_from_timestamp_arithmetic(self, r: ViewHistory, s: ViewHistory) -> None:
        """V' = V - D_R ⋈ S - R⁻ ⋈ D_S + R⁻ ⋈ I_S + I_R ⋈ S': the deleted pairs of Eq. 3 written out for bags."""
        left, right = r.timeline(), s.timeline()
        view = join(r.state(max(r.begin, s.begin)), s.state(max(r.begin, s.begin)))
        for csn in map(Csn, range(max(r.begin, s.begin) + 1, LAST + 1)):
            old_s = right.at(Csn(csn - 1))
            survivors = left.surviving_at(csn)
            assert survivors == (left.at(Csn(csn - 1)) - left.deleted_at(csn)).net_effect()
            view = (
                view
                - join(left.deleted_at(csn), old_s)
                - join(survivors, right.deleted_at(csn))
                + join(survivors, right.inserted_at(csn))
                + join(left.inserted_at(csn), right.at(csn))
            ).net_effect()
            assert view == join(r.state(csn), s.state(csn))

    def test_a_tuple_inserted_and_deleted_in_one_update_phase_leaves_no_trace(self) -> None:
        """The hidden assumption of Eq. 3: as printed, such a tuple would stay in the view."""
        view_delta = ZSet.of([((1,), 1, Csn(2)), ((1,), -1, Csn(2)), ((2,), 1, Csn(2))])
        timeline = advance(Timeline.beginning(ZSet(), Csn(1)), view_delta, Csn(2))
        assert timeline.runs == {Run((2,), 1, Csn(2))}
        assert timeline.inserted_at(Csn(2)) == ZSet.from_rows([(2,)])

    @given(chunked())
    @settings(max_examples=30)
    def test_coarse_timestamps_are_right_at_the_ends_of_chunks(self, case: tuple[ViewHistory, list[Csn]]) -> None:
        history, ends = case
        timeline = Timeline.beginning(history.initial, history.begin)
        for end in ends:
            timeline = advance(timeline, coarse(history.view_delta, Interval(timeline.csn, end)), end)
            timeline.validate()
        for end in (history.begin, *ends):
            assert timeline.at(end) == history.state(end)
        assert len(timeline.runs) <= len(history.timeline().runs)

    def test_coarse_timestamps_are_wrong_inside_a_chunk(self) -> None:
        view_delta = ZSet.of([((1,), 1, Csn(1)), ((2,), 1, Csn(2))])
        timeline = advance(Timeline.beginning(ZSet(), Csn(0)), coarse(view_delta, Interval(Csn(0), Csn(2))), Csn(2))
        assert timeline.at(Csn(1)) == ZSet()


class TestRefusals:
    TIMELINE = advance(Timeline.beginning(ZSet.from_rows([(1,)]), Csn(2)), ZSet.of([((2,), 1, Csn(4))]), Csn(5))

    def test_moments_that_are_not_there(self) -> None:
        with pytest.raises(MomentInFuture):
            self.TIMELINE.at(Csn(6))
        with pytest.raises(MomentBeforeHistory):
            self.TIMELINE.at(Csn(1))

    def test_a_delta_that_takes_away_more_than_there_is(self) -> None:
        with pytest.raises(InternalError, match="too often at csn 6"):
            advance(self.TIMELINE, ZSet.of([((1,), -2, Csn(6))]), Csn(6))

    def test_a_change_of_another_interval_or_of_another_timeline(self) -> None:
        found = change(self.TIMELINE, ZSet.of([((1,), -1, Csn(6))]), Csn(6))
        with pytest.raises(InternalError, match="does not continue"):
            install(advance(self.TIMELINE, ZSet(), Csn(6)), found)
        with pytest.raises(InternalError, match="not open"):
            install(Timeline.beginning(ZSet(), Csn(5)), found)

    def test_going_back_before_what_is_kept(self) -> None:
        with pytest.raises(MomentBeforeHistory):
            rewind(prune(self.TIMELINE, Csn(4)), Csn(3))

    def test_keeping_what_is_gone(self) -> None:
        gone = prune(self.TIMELINE, Csn(4))
        with pytest.raises(InternalError, match="csn 3"):
            prune(gone, Csn(3))
        with pytest.raises(InternalError, match="csn 3"):
            prune(gone, Csn(5), pinned=[Csn(3)])

    @pytest.mark.parametrize(
        "broken",
        [
            lambda: Timeline(frozenset(), Csn(1), Csn(2)),
            lambda: Timeline(frozenset(), Csn(3), Csn(2), frozenset({Csn(2)})),
            lambda: Timeline(frozenset({Run((1,), 0, Csn(1))}), Csn(2), Csn(1)),
            lambda: Timeline(frozenset({Run((1,), 1, Csn(3))}), Csn(2), Csn(1)),
            lambda: Timeline(frozenset({Run((1,), 1, Csn(1), Csn(3))}), Csn(2), Csn(1)),
            lambda: Timeline(frozenset({Run((1,), 1, Csn(2), Csn(2))}), Csn(2), Csn(1)),
            lambda: Timeline(frozenset({Run((1,), 1, Csn(1)), Run((1,), 2, Csn(2))}), Csn(2), Csn(1)),
            lambda: Timeline(frozenset({Run((1,), 1, Csn(1), Csn(2)), Run((1,), 1, Csn(2))}), Csn(2), Csn(1)),
        ],
    )
    def test_timelines_that_break_their_invariants(self, broken: Callable[[], Timeline]) -> None:
        with pytest.raises(InternalError):
            broken().validate()
