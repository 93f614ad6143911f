"""Garbage collection over a lake in memory: nothing goes that somebody needs, all else does, at every crash."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from headwater.algebra.time import Csn, Interval
from headwater.catalog import Horizon, RetentionSettings
from headwater.catalog.records import ReleasedView
from headwater.errors import InternalError, MomentBeforeHistory, MomentInFuture, SnapshotExpired
from headwater.serve.collecting import GarbagePlan, LogGarbage, ViewGarbage
from headwater.serve.garbage import Collected, collect
from headwater.serve.snapshots import Snapshot, open_snapshot
from tests.serve.fake_lake import SECOND, FakeLake, Gone, HandClock

NOTHING = RetentionSettings(tags=frozenset())


def opened(lake: FakeLake, at: int | None = None, ttl: float = 3600) -> Snapshot[str]:
    return open_snapshot(lake.catalog, lake, lake, clock=lake.clock, at=at, ttl=ttl, beat=False)


def swept(lake: FakeLake, grace: int = 0) -> Collected:
    return collect(lake.catalog, lake, clock=lake.clock, grace=grace)


def delta_rows(lake: FakeLake) -> list[int]:
    return sorted(csn or 0 for csn, _ in lake.tables["/v_delta"].versions[-1])


def test_what_nobody_needs_goes(lake: FakeLake) -> None:
    lake.catalog.set_retention(NOTHING)
    for _ in range(4):
        lake.step(2)
        lake.clock.passes(7200)
    lake.write()
    lake.refresh("v", lake.capture())
    found = swept(lake)
    assert (found.views, found.busy) == (("v",), ())
    assert [release.csn for release in lake.catalog.releases()] == [8]
    assert delta_rows(lake) == [9]
    assert lake.tables["/v"].readable_from == 4  # the version of the release of csn 8
    assert lake.catalog.view("v").kept_from == 8
    assert lake.catalog.horizon() == Horizon(Csn(8))
    lake.ran.clear()
    swept(lake)
    assert delta_rows(lake) == [9]


def test_what_settings_tags_and_leases_need_stays(lake: FakeLake) -> None:
    for _ in range(5):
        lake.step(2)
        lake.clock.passes(7200)
    lake.catalog.tag_release("june", Csn(2))
    lake.catalog.set_retention(RetentionSettings(count=2, tags=frozenset({"june"})))
    with opened(lake, 5) as between:
        swept(lake)
        assert [release.csn for release in lake.catalog.releases()] == [2, 6, 8, 10]
        assert delta_rows(lake) == [6, 9, 10]
        assert lake.rows_of(between.table("v")) == [1, 2, 3, 4, 5]
        with opened(lake, 9) as window, opened(lake, 2) as tagged:
            assert lake.rows_of(window.table("v")) == list(range(1, 10))
            assert lake.rows_of(tagged.table("v")) == [1, 2]
    lake.catalog.untag_release("june")
    swept(lake)
    assert [release.csn for release in lake.catalog.releases()] == [8, 10]
    assert delta_rows(lake) == [9, 10]


def test_the_view_delta_of_a_view_that_is_being_applied_is_left_for_the_next_time(lake: FakeLake) -> None:
    lake.catalog.set_retention(NOTHING)
    lake.step(2)
    lake.step(2)
    with lake.catalog.lease("apply:v-id"):
        assert swept(lake).busy == ("v",)
    assert delta_rows(lake) == [1, 2, 3, 4]
    assert lake.catalog.view("v").kept_from == 0
    assert swept(lake).busy == ()
    assert delta_rows(lake) == []


def test_files_that_a_running_statement_may_read_stay_for_the_grace(lake: FakeLake) -> None:
    lake.catalog.set_retention(NOTHING)
    lake.step(2)
    lake.clock.passes(7200)
    lake.step(2)
    for passed, oldest in ((1800, 1), (1800, 1), (3700, 2)):  # and up to an hour more, by rounding
        lake.clock.passes(passed)
        swept(lake, grace=3600 * SECOND)
        assert lake.tables["/v"].readable_from == oldest


def test_files_put_aside_long_before_the_commit_that_replaces_them_stay_for_the_release_that_needs_them(
    lake: FakeLake,
) -> None:
    """Delta dates a file by when a statement puts it aside, not by its commit: the grace makes up for it."""
    lake.catalog.set_retention(NOTHING)
    lake.step(2)
    lake.clock.passes(7200)
    lake.takes = 7200
    lake.write()
    lake.refresh("v", lake.capture())
    swept(lake, grace=7300 * SECOND)
    with opened(lake) as snapshot:
        assert lake.rows_of(snapshot.table("v")) == [1, 2]


def test_what_a_log_no_longer_tells_is_not_vacuumed(lake: FakeLake) -> None:
    lake.step(2)
    lake.write()
    lake.refresh("v", lake.capture())
    lake.clock.passes(36_000)
    lake.committed_at = lambda location, version: None  # type: ignore[method-assign]
    swept(lake)
    assert not any(text.startswith("VACUUM delta.`/v` ") for text in lake.ran)
    assert any(text.startswith("VACUUM delta.`/v_delta` ") for text in lake.ran)


def test_a_plan_carried_out_long_after_it_was_made_takes_no_more(lake: FakeLake) -> None:
    """Hours to retain were once counted from when the plan was made, and VACUUM counts back from when it runs."""
    lake.catalog.set_retention(NOTHING)
    lake.step(2)
    run, lake.run = lake.run, failing_at(lake, 0)  # type: ignore[method-assign]
    with pytest.raises(ConnectionError):
        swept(lake)
    lake.run = run  # type: ignore[method-assign]
    lake.clock.passes(3600)
    lake.step(1)
    with opened(lake, 2) as snapshot:
        lake.clock.passes(36_000)
        snapshot.heartbeat()
        lake.step(1)
        lake.clock.passes(10)
        swept(lake)
        assert lake.rows_of(snapshot.table("v")) == [1, 2]


def failing_at(lake: FakeLake, number: int):  # type: ignore[no-untyped-def]
    run, count = lake.run, [0]

    def cut_short(text: str, doing: str) -> None:
        if count[0] == number:
            raise ConnectionError(doing)
        count[0] += 1
        run(text, doing)

    return cut_short


@pytest.mark.parametrize("number", range(3))
def test_a_collection_cut_short_is_finished_by_the_next(lake: FakeLake, number: int) -> None:
    """After each statement in turn; between them readers come and go."""
    lake.catalog.set_retention(NOTHING)
    for _ in range(3):
        lake.step(2)
        lake.clock.passes(7200)
    run, lake.run = lake.run, failing_at(lake, number)  # type: ignore[method-assign]
    with pytest.raises(ConnectionError):
        swept(lake)
    lake.run = run  # type: ignore[method-assign]
    assert lake.catalog.open_collection() is not None
    with pytest.raises(MomentBeforeHistory):
        opened(lake, 3)
    with opened(lake) as snapshot:
        lake.step(2)
        swept(lake)
        assert lake.catalog.open_collection() is None
        assert lake.rows_of(snapshot.table("v")) == [1, 2, 3, 4, 5, 6]
    assert delta_rows(lake) == []
    assert [release.csn for release in lake.catalog.releases()] == [6, 8]


def test_a_view_dropped_before_its_garbage_was_swept_is_passed_over(lake: FakeLake) -> None:
    lake.step(2)
    run, lake.run = lake.run, failing_at(lake, 0)  # type: ignore[method-assign]
    with pytest.raises(ConnectionError):
        swept(lake)
    lake.run = run  # type: ignore[method-assign]
    with lake.catalog.lease("t") as lease:
        lake.catalog.begin_drop(lease, "v-id", {})
    assert swept(lake).views == ()
    assert lake.ran == []


def test_timelines_are_pruned_to_the_moments_kept(lake: FakeLake) -> None:
    lake.create("w", layout="timeline")
    lake.catalog.set_retention(NOTHING)
    lake.step(2)
    lake.step(2)
    lake.step(2)
    with opened(lake, 3):
        run: list[str] = []
        lake.run = lambda text, doing: run.append(text)  # type: ignore[method-assign]
        swept(lake)
    assert (
        "DELETE FROM delta.`/w` WHERE `__hw_t_max` <= 6 AND "
        "NOT (`__hw_t_min` <= 3 AND (`__hw_t_max` > 3 OR `__hw_t_max` IS NULL))"
    ) in run


def test_a_view_delta_of_before_a_recomputation_stays_while_a_release_needs_it(lake: FakeLake) -> None:
    """It was once removed at once, and with it every moment between two earlier releases."""
    lake.catalog.set_retention(RetentionSettings(count=2, tags=frozenset()))
    lake.step(1)
    lake.step(2)
    lake.write()
    lake.capture()
    lake.recompute("v", "/v_delta-2")
    assert "/v_delta" in lake.tables
    with opened(lake, 2) as between:
        assert lake.rows_of(between.table("v")) == [1, 2]
        lake.step(1)
        swept(lake)
        assert lake.rows_of(between.table("v")) == [1, 2]
    lake.step(1)
    lake.clock.passes(7200)
    swept(lake)
    assert [release.csn for release in lake.catalog.releases()] == [5, 6]
    assert "/v_delta" not in lake.tables


def test_a_release_noted_before_a_recomputation_and_published_after_it_promises_no_way_back(lake: FakeLake) -> None:
    """It promised one by a view delta that nobody had kept for it."""
    lake.write()
    lake.refresh("v", lake.capture())
    noted = ReleasedView.standing(lake.catalog.view("v"))
    lake.write()
    lake.capture()
    lake.recompute("v", "/v_delta-2")
    assert "/v_delta" not in lake.tables
    with lake.catalog.lease("publish") as lease:
        lake.catalog.publish_release(lease, Csn(1), [noted])
    with opened(lake, 0) as snapshot, pytest.raises(MomentBeforeHistory):
        snapshot.table("v")
    with opened(lake, 1) as snapshot:
        assert lake.rows_of(snapshot.table("v")) == [1]


def test_logs_are_trimmed_to_what_is_kept_and_forget_nothing_else(lake: FakeLake) -> None:
    lake.catalog.set_retention(RetentionSettings(count=2, tags=frozenset({"june"})))
    day = 86_400
    for _ in range(6):
        lake.step(1)
        lake.clock.passes(20 * day)
    lake.catalog.tag_release("june", Csn(3))
    swept(lake)
    table = lake.tables["/v"]
    assert table.log_from > 1  # versions 0 and 1 are of before csn 3
    assert table.keeps_all
    assert lake.tables["/v_delta"].keeps_all
    for csn in (3, 5, 6):
        with opened(lake, csn) as snapshot:
            assert lake.rows_of(snapshot.table("v")) == list(range(1, csn + 1))
    commits = len(table.versions)
    swept(lake)
    assert len(table.versions) == commits  # nothing is worth trimming now


def test_a_log_that_delta_does_not_trim_is_not_tried_again_at_every_collection(lake: FakeLake) -> None:
    """Delta keeps what is between a version that is needed and the checkpoint before it."""
    lake.catalog.set_retention(RetentionSettings(count=1, tags=frozenset({"june"})))
    lake.step(1)
    lake.clock.passes(60 * 86_400)
    lake.step(1)
    lake.clock.passes(3600)
    for table in lake.tables.values():
        table.trims = False
    for _ in range(3):
        swept(lake)
        lake.clock.passes(86_400)
    assert sum("'delta.enableExpiredLogCleanup' = 'true'" in text and "`/v`" in text for text in lake.ran) == 1


def test_a_table_whose_log_was_left_to_delta_is_guarded_from_the_first_collection_on(lake: FakeLake) -> None:
    lake.step(1)
    lake.tables["/v"].keeps_all = False
    swept(lake)
    assert lake.tables["/v"].keeps_all


def test_a_plan_is_what_was_recorded() -> None:
    plan = GarbagePlan(
        Horizon(Csn(4), frozenset({Csn(1)})),
        17,
        3,
        {"id": ViewGarbage("v", "/v", "timeline", 4, "/d", (Interval(Csn(1), Csn(3)),), Csn(3))},
        {"m": LogGarbage("orders", "/log", Csn(2))},
    )
    assert GarbagePlan.of_json(plan.as_json()) == plan
    assert (plan.files_since(), plan.files_since(10), plan.files_since(20)) == (14, 7, 14)


@dataclass
class Open:
    snapshot: Snapshot[str]
    readable: bool
    handed_out: list[str]


class GarbageMachine(RuleBasedStateMachine):
    """Writers, drivers, readers and the collector in any order, the collector cut short now and then."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.lake = FakeLake(Path(self.folder.name), HandClock())
        self.lake.compacts = True
        self.lake.create("v")
        self.lake.release()
        self.readers: list[Open] = []
        self.expired: list[tuple[int, list[str]]] = []

    def teardown(self) -> None:
        self.lake.catalog.close()
        self.folder.cleanup()

    @rule(writes=st.integers(0, 3))
    def publish(self, writes: int) -> None:
        self.lake.step(writes)

    @rule()
    def refresh(self) -> None:
        self.lake.write()
        self.lake.refresh("v", self.lake.capture())

    @rule(anew=st.booleans())
    def recompute(self, anew: bool) -> None:
        self.lake.write()
        self.lake.capture()
        self.lake.recompute("v", f"/v_delta-{self.lake.clock()}" if anew else None)

    @rule(seconds=st.sampled_from([1, 1800, 4000, 20_000, 900_000]))
    def time_passes(self, seconds: int) -> None:
        self.lake.clock.passes(seconds)

    @rule(count=st.integers(1, 3), age=st.sampled_from([0, 5000 * SECOND]), tags=st.booleans())
    def keep(self, count: int, age: int, tags: bool) -> None:
        self.lake.catalog.set_retention(RetentionSettings(count, age, None if tags else frozenset()))

    @rule(which=st.integers(0, 5), name=st.sampled_from(["june", "july"]))
    def tag(self, which: int, name: str) -> None:
        releases = self.lake.catalog.releases()
        self.lake.catalog.tag_release(name, releases[which % len(releases)].csn)

    @rule(csn=st.none() | st.integers(0, 12))
    def open(self, csn: int | None) -> None:
        try:
            snapshot = opened(self.lake, csn)
        except (MomentBeforeHistory, MomentInFuture):
            return
        try:
            self.readers.append(Open(snapshot, True, [snapshot.table("v")]))
        except MomentBeforeHistory:
            self.readers.append(Open(snapshot, False, []))

    @rule(which=st.integers(0, 3), close=st.booleans())
    def leave(self, which: int, close: bool) -> None:
        """Properly, or by falling silent."""
        if self.readers:
            reader = self.readers.pop(which % len(self.readers))
            self.expired.append((reader.snapshot.csn, reader.handed_out))
            if close:
                reader.snapshot.close()

    @rule(fails=st.none() | st.integers(0, 2), grace=st.sampled_from([0, 1000 * SECOND]))
    def collect(self, fails: int | None, grace: int) -> None:
        for reader in self.readers:
            reader.snapshot.heartbeat()
        run = self.lake.run
        if fails is not None:
            self.lake.run = failing_at(self.lake, fails)  # type: ignore[method-assign]
        with suppress(ConnectionError):
            swept(self.lake, grace)
        self.lake.run = run  # type: ignore[method-assign]

    @invariant()
    def who_is_there_reads_its_moment_and_nothing_else(self) -> None:
        for reader in self.readers:
            if reader.readable:
                moment = list(range(1, reader.snapshot.csn + 1))
                reader.handed_out.append(reader.snapshot.table("v"))
                assert all(self.lake.rows_of(text) == moment for text in reader.handed_out[-2:] + reader.handed_out[:1])

    @invariant()
    def who_is_gone_reads_its_moment_or_nothing(self) -> None:
        for csn, handed_out in self.expired:
            for text in handed_out[:1] + handed_out[-1:]:
                with suppress(Gone):
                    assert self.lake.rows_of(text) == list(range(1, csn + 1))

    @invariant()
    def every_release_can_be_read(self) -> None:
        for release in self.lake.catalog.releases():
            for view in release.views:
                table = self.lake.tables[view.location]
                assert sorted(row for _, row in table.read(view.version)) == list(range(1, release.csn + 1))

    @invariant()
    def the_view_can_go_on(self) -> None:
        """Its delta holds all beyond its csn, up to the mark."""
        view = self.lake.catalog.view("v")
        mark = min(leaf.time for leaf in self.lake.catalog.leaves("v-id"))
        rows = {csn for csn, _ in self.lake.tables[view.delta_location].versions[-1]}
        assert set(range(view.csn + 1, mark + 1)) <= rows
        assert set(range(view.kept_from + 1, mark + 1)) <= rows


TestGarbageMachine = GarbageMachine.TestCase
TestGarbageMachine.settings = settings(max_examples=5, stateful_step_count=20, deadline=None)


def test_a_lease_that_is_lost_can_not_be_renewed_even_if_nothing_of_its_moment_went(lake: FakeLake) -> None:
    lake.step(2)
    snapshot = opened(lake, ttl=1)
    lake.clock.passes(2)
    swept(lake)
    with pytest.raises(SnapshotExpired):
        snapshot.heartbeat()
    with lake.catalog.lease("collect") as lease, pytest.raises(InternalError):
        lake.catalog.finish_collection(lease, 99)


def test_the_versions_that_an_open_snapshot_reads_outlive_every_collection(lake: FakeLake) -> None:
    """Of the view delta too, of which it reads one version for as long as it is open."""
    lake.catalog.set_retention(NOTHING)
    lake.step(2)
    lake.step(2)
    with opened(lake, 3) as snapshot:
        first = snapshot.table("v")
        for _ in range(3):
            lake.step()
            lake.clock.passes(20_000)
            snapshot.heartbeat()
            swept(lake)
        assert lake.newest_version("/v_delta") > 4
        assert snapshot.table("v") == first
        assert lake.rows_of(first) == [1, 2, 3]
    lake.clock.passes(20_000)
    swept(lake)
    with pytest.raises(Gone):
        lake.rows_of(first)


def test_wider_settings_promise_no_moment_that_went(lake: FakeLake) -> None:
    for _ in range(3):
        lake.step(2)
    lake.catalog.tag_release("june", Csn(2))
    swept(lake)
    lake.catalog.set_retention(RetentionSettings(count=3))
    swept(lake)
    assert [release.csn for release in lake.catalog.releases()] == [2, 6]
    assert lake.catalog.horizon() == Horizon(Csn(6), frozenset({Csn(2)}))
    with pytest.raises(MomentBeforeHistory):
        opened(lake, 4)
    with opened(lake, 2) as snapshot:
        assert lake.rows_of(snapshot.table("v")) == [1, 2]
