"""Two drivers at once: one waits, or is told who holds the lease; and both end with the right view."""

from __future__ import annotations

import random
import time

import pytest

from headwater.durable import DurablePoint as Point
from tests.support.driver import Driver, DriverFailed, Watch
from tests.support.world import World

pytestmark = pytest.mark.connect


@pytest.mark.parametrize("point", [Point.PROPAGATE_INTENDED, Point.APPLY_INTENDED, Point.CAPTURE_LOOKED])
def test_the_second_waits_or_is_told_who_holds_the_lease(lake: World, point: Point) -> None:
    since = lake.standing("steps")["high_water_mark"]
    lake.change(2)
    with lake.driver(hold_at=Watch(point)) as first, lake.driver() as second, lake.driver(lease_wait=0.0) as third:
        first.start("refresh", "steps")
        first.held()
        with pytest.raises(DriverFailed) as refused:
            third.call("refresh", "steps")
        assert refused.value.code == "LEASE_HELD"
        assert refused.value.fields["pid"] == first.pid
        assert refused.value.fields["holder"] in str(refused.value)
        second.start("refresh", "steps")
        assert second.is_busy(2.0)
        first.go()
        reports = [first.result(), second.result()]
        # The one that was refused has harmed nobody, and may try again.
        reports.append(third.call("refresh", "steps"))
    newest = lake.newest()
    assert [report.csn for report in reports] == [newest] * 3
    # Exactly one of them moved the view; which one is open where they wait for each other more than once.
    assert sorted(report.mode for report in reports) == ["incremental", "none", "none"]
    assert lake.check("steps", since)["csn"] == newest


def test_a_wait_that_is_too_short_ends_in_lease_held(lake: World) -> None:
    lake.change(1)
    with lake.driver(hold_at=Watch(Point.APPLY_COMMITTED)) as first, lake.driver(lease_wait=1.0) as second:
        first.start("refresh", "steps")
        first.held()
        started = time.monotonic()
        with pytest.raises(DriverFailed, match=f"pid {first.pid} ") as refused:
            second.call("refresh", "steps")
        assert refused.value.code == "LEASE_HELD"
        assert time.monotonic() - started >= 1.0
        first.go()
        first.result()
    lake.check("steps")


def test_two_processes_race(lake: World) -> None:
    since = lake.standing("rolling")["high_water_mark"]
    with lake.driver() as first, lake.driver() as second:
        for _ in range(2):
            lake.change(2)
            for view in ("steps", "rolling"):
                for each in (first, second):
                    each.start("refresh", view)
                newest = lake.newest()
                assert [each.result().csn for each in (first, second)] == [newest, newest]
    for view in ("steps", "rolling"):
        assert lake.check(view, since)["csn"] == newest


@pytest.mark.parametrize("own_lakes", [True, False], ids=["a-lake-each", "one-lake"])
def test_threads_of_one_process_race(lake: World, own_lakes: bool) -> None:
    """On one Spark session, and different views at the same time too."""
    since = lake.standing("steps")["high_water_mark"]
    lake.change(2)
    calls = [("refresh", (view,)) for view in ("steps", "rolling", "places", "steps")]
    with lake.driver() as process:
        answers = process.call("in_threads", calls, own_lakes=own_lakes)
    assert [getattr(answer, "csn", answer) for answer in answers] == [lake.newest()] * len(calls)
    for view in ("steps", "rolling", "places"):
        lake.check(view, since)


def test_a_refresh_to_the_newest_state_never_takes_a_view_back(lake: World) -> None:
    """It waited while another one, begun later, brought the view further."""
    lake.change(1)
    with lake.driver(hold_at=Watch("lease apply:")) as late:
        late.start("refresh", "steps")
        late.held()
        lake.change(2)
        further = lake.keeper.call("refresh", "steps").csn
        late.go()
        report = late.result()
    assert lake.check("steps", further - 3)["csn"] == further
    assert (report.csn, report.mode) == (further, "none")


def test_capture_propagate_and_apply_in_processes_that_stop_and_go_on_at_any_moment(lake: World) -> None:
    lake.keeper.call("refresh", "steps")
    since = lake.newest()
    goal = since + 6
    moments = random.Random(11)
    with lake.driver() as capture, lake.driver() as propagate, lake.driver() as apply:
        drivers: list[Driver] = [capture, propagate, apply]
        capture.start("capture_until", goal)
        propagate.start("propagate_to_newest", "steps", goal)
        apply.start("apply_to_mark", "steps", goal)
        for _ in range(6):
            stopped = moments.sample(drivers, moments.randint(1, 2))
            for each in stopped:
                each.pause()
            lake.change(1)
            for each in stopped:
                each.resume()
        for each in drivers:
            assert each.result() == goal
    assert lake.check("steps", since)["csn"] == goal


def test_a_driver_suspended_for_good_does_not_hold_up_the_others(lake: World) -> None:
    """Propagate stands still at its step; the view is brought to any moment up to the mark, and read, all the same."""
    mark = lake.keeper.call("propagate", "steps")
    lake.change(2)
    lake.newest()
    with lake.driver(stop_at=Watch(Point.PROPAGATE_APPENDED)) as stopped:
        stopped.start("propagate", "steps")
        stopped.stopped()
        assert lake.keeper.call("refresh", "steps", mark - 1).csn == mark - 1
        assert lake.keeper.call("refresh", "steps", mark).csn == mark
        assert lake.keeper.call("failing", "read", "steps", mark + 1) == "BEYOND_HIGH_WATER_MARK"
        stopped.resume()
        assert stopped.result() == mark + 2
    lake.check("steps", mark - 1)


def test_writers_in_the_same_session_are_left_alone(lake: World) -> None:
    """A user's own writes, from another thread of the session in which a view is being refreshed, all arrive."""
    lake.change(2)
    newest = lake.keeper.call("refresh", "steps").csn
    with lake.driver() as process:
        moments = [newest - 2, newest] * 2
        lost, tagged = process.call("write_while_refreshing", "steps", lake.table("customers"), 900, moments)
    assert (lost, tagged) == (0, [])
    lake.keeper.call("refresh", "steps")
    lake.check("steps")


def test_a_view_that_is_finished_while_another_create_looks_for_orphans_is_none(lake: World) -> None:
    create = "CREATE MATERIALIZED VIEW {} AS SELECT c.name, r.place FROM customers c, regions r WHERE c.region = r.id"
    with (
        lake.driver(hold_at=Watch(Point.CREATE_STORED)) as maker,
        lake.driver(hold_at=Watch("lease name:first")) as other,
    ):
        maker.start("statement", create.format("first"))
        maker.held()
        other.start("statement", create.format("second"))
        other.held()  # it has read that the making of `first` is under way
        maker.go()
        assert maker.result() == [("first", True)]
        other.go()
        assert other.result() == [("second", True)]
    assert lake.keeper.call("directories") == lake.keeper.call("expected_directories")
    lake.check("first")
    for name in ("first", "second"):
        lake.keeper.call("statement", f"DROP MATERIALIZED VIEW {name}")
