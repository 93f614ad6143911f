"""Snapshots: one moment for every name, a lease that lives by its heartbeat, a bound on staleness."""

from __future__ import annotations

import time
from datetime import timezone
from pathlib import Path

import pytest

from headwater.algebra.time import Csn
from headwater.catalog import RetentionSettings
from headwater.errors import (
    InvalidInput,
    LeaseLost,
    MomentBeforeHistory,
    MomentInFuture,
    NothingReleased,
    SnapshotExpired,
    SqlAnalysisError,
    TooStale,
    UnknownName,
    WouldRecompute,
)
from headwater.moments import Moment
from headwater.serve.garbage import collect
from headwater.serve.snapshots import Freshness, Snapshot, open_snapshot
from tests.serve.fake_lake import SECOND, FakeLake, Gone, HandClock


def opened(
    lake: FakeLake,
    at: Moment | None = None,
    *,
    tag: str | None = None,
    freshness: Freshness | None = None,
    ttl: float = 60,
    beat: bool = False,
) -> Snapshot[str]:
    return open_snapshot(
        lake.catalog, lake, lake, clock=lake.clock, at=at, tag=tag, freshness=freshness, ttl=ttl, beat=beat
    )


def sees(lake: FakeLake, snapshot: Snapshot[str], name: str = "v") -> list[int]:
    return lake.rows_of(snapshot.table(name))


class TestOneMoment:
    def test_it_shows_the_newest_release_whatever_happens_meanwhile(self, lake: FakeLake) -> None:
        lake.step(3)
        with opened(lake) as snapshot:
            lake.write()
            lake.refresh("v", lake.capture())
            assert (snapshot.csn, sees(lake, snapshot), sees(lake, snapshot, "r")) == (3, [1, 2, 3], [1, 2, 3])
            lake.step()
            lake.catalog.set_retention(RetentionSettings(tags=frozenset()))
            collect(lake.catalog, lake, clock=lake.clock, grace=0)
            assert (sees(lake, snapshot), sees(lake, snapshot, "r")) == ([1, 2, 3], [1, 2, 3])
        with opened(lake) as later:
            assert (later.csn, sees(lake, later)) == (5, [1, 2, 3, 4, 5])

    def test_any_moment_between_releases(self, lake: FakeLake) -> None:
        lake.step(2)
        lake.step(4)
        for csn in range(7):
            with opened(lake, csn) as snapshot:
                assert sees(lake, snapshot) == list(range(1, csn + 1))

    def test_a_timestamp_is_looked_for_after_a_capture(self, lake: FakeLake) -> None:
        lake.step()
        lake.clock.passes(10)
        lake.write()
        lake.clock.passes(10)
        lake.release()
        lake.write()
        when = lake.catalog.units()[1].committed_at
        moment = "2023-11-14T22:13:31+00:00"
        with opened(lake, moment) as snapshot:
            assert snapshot.csn == 2
            assert snapshot.timestamp is not None
            assert snapshot.timestamp.astimezone(timezone.utc).timestamp() == pytest.approx(when / SECOND)
        assert lake.catalog.newest_csn() == 3
        with opened(lake, 0) as snapshot:
            assert snapshot.timestamp is None

    def test_a_tag(self, lake: FakeLake) -> None:
        lake.step(2)
        lake.catalog.tag_release("june")
        lake.step(2)
        with opened(lake, tag="june") as snapshot:
            assert (snapshot.csn, sees(lake, snapshot)) == (2, [1, 2])
        with pytest.raises(UnknownName, match="Did you mean 'june'"):
            opened(lake, tag="juni")
        with pytest.raises(InvalidInput, match="not both"):
            opened(lake, 2, tag="june")

    def test_what_can_not_be_opened(self, lake: FakeLake) -> None:
        with pytest.raises(NothingReleased, match=r"lake\.release"):
            opened(lake)
        lake.step(2)
        lake.write()
        lake.capture()
        with pytest.raises(MomentInFuture, match="newest release is of csn 2"):
            opened(lake, 3)
        with pytest.raises(MomentInFuture, match="not given yet"):
            opened(lake, 9)
        assert lake.catalog.readers() == []


class TestNames:
    def test_a_query_has_its_names_bound_and_its_words_kept(self, lake: FakeLake) -> None:
        lake.step(2)
        with opened(lake) as snapshot:
            text = snapshot.sql("SELECT count(*) FROM V JOIN r USING (a) -- both")
            assert "\nSELECT count(*) FROM V JOIN r USING (a) -- both\n" in text
            assert text.startswith("WITH `v` AS (SELECT `a` FROM (SELECT `__hw_count`, `a` FROM delta.`/v` VERSION AS")
            assert "`r` AS (SELECT * FROM delta.`/r` VERSION AS OF 2)" in text
            assert snapshot.sql("SELECT 1") == "SELECT 1"
            with pytest.raises(SqlAnalysisError, match=r"x is no view .* Known: r, v\."):
                snapshot.sql("SELECT * FROM x")
            with pytest.raises(UnknownName, match=r"no view or table 'x'. Known: r, v\."):
                snapshot.table("x")
            assert snapshot.table("R") == snapshot.table("r")

    def test_a_view_that_has_no_way_to_the_moment_is_refused_and_the_others_are_read(self, lake: FakeLake) -> None:
        lake.step(2)
        lake.create("w")
        lake.step(2)
        with opened(lake, 1) as snapshot:
            with pytest.raises(MomentBeforeHistory, match="'w' was created at csn 2, after csn 1"):
                snapshot.table("w")
            assert sees(lake, snapshot) == [1]
        lake.broken["w"] = WouldRecompute("no")
        lake.step()
        with opened(lake) as snapshot:
            with pytest.raises(MomentBeforeHistory, match="'w' is in no release of csn 5 or later"):
                snapshot.sql("SELECT * FROM w")
            assert sees(lake, snapshot) == [1, 2, 3, 4, 5]

    def test_no_view_delta_leads_across_a_recomputation(self, lake: FakeLake) -> None:
        """The view delta goes on at the same place, with a gap: what it says of csn 3 and 4 is not there."""
        lake.step(2)
        lake.write()
        lake.write()
        lake.capture()
        lake.recompute("v")
        lake.step(2)
        for csn in (3, 1):
            with opened(lake, csn) as snapshot:
                if csn == 1:
                    assert sees(lake, snapshot) == [1]
                else:
                    with pytest.raises(MomentBeforeHistory, match=r"recomputed, .* csn 6, which is a release"):
                        snapshot.table("v")
                assert sees(lake, snapshot, "r") == list(range(1, csn + 1))
        for csn in (2, 4, 5, 6):
            with opened(lake, csn) as snapshot:
                assert sees(lake, snapshot) == list(range(1, csn + 1))

    def test_a_view_dropped_meanwhile(self, lake: FakeLake) -> None:
        lake.step(2)
        with opened(lake) as snapshot:
            with lake.catalog.lease("t") as lease:
                lake.catalog.begin_drop(lease, "v-id", {})
            with pytest.raises(UnknownName, match="dropped after the snapshot"):
                snapshot.table("v")
            lake.create("w")
            with pytest.raises(UnknownName):
                snapshot.table("w")

    def test_timelines_are_read_by_their_predicate(self, lake: FakeLake) -> None:
        lake.create("w", layout="timeline")
        lake.step(2)
        lake.step(2)
        with opened(lake, 3) as snapshot:
            assert "`__hw_t_min` <= 3 AND (`__hw_t_max` > 3 OR `__hw_t_max` IS NULL)" in snapshot.table("w")
            found = snapshot.versions(["w"])["w"]
            assert (found.location, found.version, found.counted) == ("/w", 2, True)
            assert found.where == "`__hw_t_min` <= 3 AND (`__hw_t_max` > 3 OR `__hw_t_max` IS NULL)"


class TestVersions:
    def test_of_a_release_all_are_told(self, lake: FakeLake) -> None:
        lake.step(2)
        with opened(lake) as snapshot:
            lake.step(2)
            found = snapshot.versions()
            assert {name: (v.kind, v.location, v.version, v.counted) for name, v in found.items()} == {
                "r": ("table", "/r", 2, False),
                "v": ("view", "/v", 1, True),
            }
            assert snapshot.versions(["V"]) == {"v": found["v"]}

    def test_between_releases_a_view_has_none(self, lake: FakeLake) -> None:
        lake.step(1)
        lake.step(2)
        with opened(lake, 2) as snapshot:
            assert set(snapshot.versions()) == {"r"}
            with pytest.raises(MomentBeforeHistory, match="between two releases"):
                snapshot.versions(["v"])
            with pytest.raises(UnknownName):
                snapshot.versions(["x"])


class TestStaleness:
    def test_it_is_the_age_of_the_oldest_change_not_shown(self, lake: FakeLake) -> None:
        lake.step()
        with opened(lake) as snapshot:
            assert snapshot.staleness == 0
            lake.write()
            lake.clock.passes(30)
            lake.write()
            assert snapshot.staleness == 0  # nobody has captured
            lake.capture()
            assert snapshot.staleness == pytest.approx(30, abs=0.01)
            lake.step()
            lake.clock.passes(5)
            assert snapshot.staleness == pytest.approx(35, abs=0.01)

    def test_too_stale_says_how_stale(self, lake: FakeLake) -> None:
        lake.step()
        lake.write()
        lake.clock.passes(90)
        with pytest.raises(TooStale, match=r"Csn 1 is 90\.0 seconds stale; at most 60 .*refresh=True") as caught:
            opened(lake, freshness=Freshness(60))
        assert caught.value.staleness == pytest.approx(90, abs=0.01)
        assert caught.value.as_dict()["max_staleness"] == 60
        assert lake.catalog.readers() == []
        with opened(lake, freshness=Freshness(100)) as snapshot:
            assert snapshot.csn == 1

    def test_on_request_it_refreshes_first(self, lake: FakeLake) -> None:
        with opened(lake, freshness=Freshness(60, refresh=True)) as snapshot:
            assert snapshot.csn == 0  # nothing had been released
        lake.write()
        lake.clock.passes(30)
        with opened(lake, freshness=Freshness(60, refresh=True)) as snapshot:
            assert snapshot.csn == 0
        lake.clock.passes(31)
        with opened(lake, freshness=Freshness(60, refresh=True)) as snapshot:
            assert (snapshot.csn, snapshot.staleness, sees(lake, snapshot)) == (1, 0, [1])
        assert lake.catalog.readers() == []

    def test_a_named_moment_does_not_get_fresher(self, lake: FakeLake) -> None:
        lake.step()
        lake.write()
        lake.clock.passes(90)
        with pytest.raises(TooStale, match="later moment"):
            opened(lake, 1, freshness=Freshness(60, refresh=True))
        assert lake.catalog.newest_release() is not None
        assert [release.csn for release in lake.catalog.releases()] == [1]

    @pytest.mark.parametrize("bound", [-1, float("nan")])
    def test_no_bound_at_all(self, bound: float) -> None:
        with pytest.raises(InvalidInput):
            Freshness(bound)


class TestLease:
    def test_it_is_given_back(self, lake: FakeLake) -> None:
        lake.step()
        with opened(lake) as snapshot:
            (lease,) = lake.catalog.readers()
            assert (lease.snapshot_id, lease.csn) == (snapshot.snapshot_id, 1)
            assert lease.holder.startswith("pid ")
        assert lake.catalog.readers() == []
        snapshot.close()
        for ask in (lambda: snapshot.table("v"), lambda: snapshot.sql("SELECT 1"), snapshot.versions):
            with pytest.raises(InvalidInput, match="closed"):
                ask()
        with pytest.raises(InvalidInput, match="closed"):
            snapshot.heartbeat()

    def test_with_a_heartbeat_it_holds_and_without_it_is_told(self, lake: FakeLake) -> None:
        lake.catalog.set_retention(RetentionSettings(tags=frozenset()))
        lake.step(2)
        snapshot, lost = opened(lake, ttl=60), opened(lake, ttl=60)
        handed_out = lost.table("v")
        for _ in range(3):
            lake.clock.passes(40)
            snapshot.heartbeat()
            lake.step()
            collect(lake.catalog, lake, clock=lake.clock, grace=0)
        assert sees(lake, snapshot) == [1, 2]
        for ask in (lambda: lost.table("v"), lambda: lost.sql("SELECT 1"), lost.versions, lost.heartbeat):
            with pytest.raises(SnapshotExpired, match="Open a new snapshot"):
                ask()
        lost.close()
        assert lake.rows_of(handed_out) == [1, 2]  # another holds the same moment
        snapshot.close()
        lake.clock.passes(7200)
        lake.step()
        lake.clock.passes(7200)
        collect(lake.catalog, lake, clock=lake.clock, grace=0)
        with pytest.raises(Gone):
            lake.rows_of(handed_out)

    def test_a_thread_renews_it(self, tmp_path: Path) -> None:
        class RealClock(HandClock):
            def __call__(self) -> int:
                return time.time_ns() // 1000

        lake = FakeLake(tmp_path, RealClock())
        lake.create("v")
        lake.step()
        with opened(lake, ttl=0.3, beat=True) as snapshot:
            first = lake.catalog.reader(snapshot.snapshot_id)
            deadline = time.monotonic() + 10
            while lake.catalog.reader(snapshot.snapshot_id).heartbeat_at == first.heartbeat_at:
                assert time.monotonic() < deadline
                time.sleep(0.02)
        assert lake.catalog.readers() == []
        lake.catalog.close()


class TestRounds:
    def test_a_view_that_fails_is_left_out_and_said_so(self, lake: FakeLake) -> None:
        lake.create("w")
        lake.broken["w"] = WouldRecompute("it would", remedy="Allow it.")
        lake.write()
        found = lake.release()
        assert found.release.csn == 1
        assert [view.view_id for view in found.release.views] == ["v-id"]
        assert found.left_out == {"w": lake.broken["w"]}

    def test_what_is_wrong_with_the_lake_stops_the_round(self, lake: FakeLake) -> None:
        lake.write()
        lake.broken["v"] = LeaseLost("gone")
        with pytest.raises(LeaseLost):
            lake.release()
        assert lake.catalog.releases() == []

    def test_a_view_that_is_further_is_not_taken_back(self, lake: FakeLake) -> None:
        """Another driver refreshes between the round's capture and its refresh; the next round holds."""
        refresh = lake.refresh
        calls = []

        def overtaken(view: str, to: Csn) -> None:
            calls.append(to)
            if len(calls) == 1:
                lake.write()
                refresh(view, lake.capture())
            else:
                refresh(view, to)

        lake.refresh = overtaken  # type: ignore[method-assign]
        lake.write()
        found = lake.release()
        assert (found.release.csn, dict(found.left_out)) == (2, {})
        assert lake.catalog.view("v").csn == 2

    def test_a_view_that_is_always_further_is_left_out(self, lake: FakeLake) -> None:
        refresh = lake.refresh

        def overtaken(view: str, to: Csn) -> None:
            lake.write()
            refresh(view, lake.capture())

        lake.refresh = overtaken  # type: ignore[method-assign]
        lake.write()
        found = lake.release()
        assert found.release.views == ()
        assert "another driver" in str(found.left_out["v"])
