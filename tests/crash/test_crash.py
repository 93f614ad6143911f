"""``kill -9`` at every durable point, and then simply running again.

The process that dies is a Headwater driver (a client of one Spark Connect server), killed by itself inside the
listener of the durable point. The one that runs again is a new process which waits for no lease: that of the dead
one must pass at once. Then the view must be the oracle's answer at every csn up to the mark, its view delta the exact
difference at each csn, no step open, and no directory left that no view owns.

The cases share one lake, one after another, as a lake that lives through many crashes would.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from headwater.durable import DurablePoint as Point
from tests.support.cluster import ConnectServer
from tests.support.driver import DriverDied, DriverFailed, Watch
from tests.support.world import PAIR, World, world

pytestmark = pytest.mark.connect


@dataclass(frozen=True)
class Crash:
    """``driver`` says what is run; it dies at ``point``, the ``nth`` time that it comes there."""

    driver: str
    point: Point
    nth: int = 1

    def __str__(self) -> str:
        return f"{self.point.name}-{self.nth}"


CRASHES = [
    Crash("capture", Point.CAPTURE_LOOKED),
    Crash("capture", Point.CAPTURE_NUMBERED),
    Crash("propagate", Point.PROPAGATE_INTENDED),
    Crash("propagate", Point.PROPAGATE_APPENDED),
    Crash("propagate", Point.PROPAGATE_ADVANCED),
    Crash("rolling", Point.ROLLING_INTENDED),
    Crash("rolling", Point.ROLLING_APPENDED, nth=2),
    Crash("rolling", Point.ROLLING_RECORDED),
    Crash("rolling", Point.ROLLING_ADVANCED),
    Crash("apply", Point.APPLY_INTENDED),
    Crash("apply", Point.APPLY_COMMITTED),
    Crash("apply", Point.APPLY_RECORDED),
    Crash("recompute", Point.APPLY_INTENDED),
    Crash("recompute", Point.APPLY_COMMITTED),
    Crash("recompute", Point.APPLY_RECORDED),
    Crash("create", Point.CREATE_INTENDED),
    Crash("create", Point.CREATE_STORED),
    Crash("create", Point.CREATE_RECORDED),
    Crash("drop", Point.DROP_FORGOTTEN),
    Crash("drop", Point.DROP_REMOVED),
]


def test_every_durable_point_has_its_crash() -> None:
    # Those of serving are in tests/serve/test_crashes.py, of mirrored rounds in tests/sources/postgres/test_mirror.py.
    elsewhere = {point for point in Point if point.name.startswith(("RELEASE_", "COLLECT_", "ROUND_"))}
    assert {crash.point for crash in CRASHES} == set(Point) - elsewhere


@pytest.fixture(scope="module")
def lake(connect_server: ConnectServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(connect_server.url, tmp_path_factory.mktemp("crash")) as made:
        yield made


def crashes_of(driver: str) -> Any:
    return pytest.mark.parametrize("crash", [crash for crash in CRASHES if crash.driver == driver], ids=str)


def die(lake: World, crash: Crash, *call: Any) -> None:
    with lake.driver(die_at=Watch(crash.point, crash.nth)) as victim:
        passed = victim.dies(*call)
    assert passed[-1] == crash.point.name
    assert passed.count(crash.point.name) == crash.nth


def run_again(lake: World, *call: Any) -> Any:
    with lake.driver(lease_wait=0.0) as again:
        return again.call(*call)


@crashes_of("capture")
def test_capture(lake: World, crash: Crash) -> None:
    before = lake.newest()
    lake.change(1)
    die(lake, crash, "capture")
    numbered = lake.keeper.call("status")["newest_csn"]
    assert numbered == (before if crash.point is Point.CAPTURE_LOOKED else before + 1)
    assert run_again(lake, "capture") == before + 1
    units = [unit.csn for unit in lake.keeper.call("units_of_work")]
    assert units == list(range(1, before + 2))


@crashes_of("propagate")
def test_propagate(lake: World, crash: Crash) -> None:
    before = lake.standing("steps")["high_water_mark"]
    lake.change(2)
    newest = lake.newest()
    die(lake, crash, "propagate", "steps")
    assert run_again(lake, "propagate", "steps") == newest
    lake.check("steps", before)


@crashes_of("rolling")
def test_rolling(lake: World, crash: Crash) -> None:
    before = lake.standing("rolling")["high_water_mark"]
    lake.change(2)
    newest = lake.newest()
    die(lake, crash, "propagate", "rolling")
    # The world goes on before it is run again: queries of one iteration are answered as of different csns.
    lake.change(1)
    assert run_again(lake, "propagate", "rolling") >= newest
    lake.check("rolling", before)


@crashes_of("apply")
def test_apply_forward_and_back(lake: World, crash: Crash) -> None:
    mark = lake.keeper.call("propagate", "steps")
    far, near = mark - 4, mark - 1
    lake.keeper.call("refresh", "steps", far)
    die(lake, crash, "refresh", "steps", near)
    assert run_again(lake, "refresh", "steps", near).csn == near
    assert lake.check("steps", far)["csn"] == near
    die(lake, crash, "refresh", "steps", far)
    # Elsewhere than where the dead one was going: its step is finished first.
    assert run_again(lake, "refresh", "steps", far + 1).csn == far + 1
    assert lake.check("steps", far)["csn"] == far + 1


@crashes_of("recompute")
def test_recompute_after_resync(lake: World, crash: Crash) -> None:
    lake.keeper.call("run", f"INSERT INTO {lake.table('regions')} VALUES (1, '{crash.point.name}')")
    lake.keeper.call("resync", "regions")
    die(lake, crash, "refresh", "places")
    lake.change(1)
    again = run_again(lake, "refresh", "places")
    recorded = crash.point is Point.APPLY_RECORDED
    assert again.mode in (("incremental", "none") if recorded else ("full",))
    assert lake.check("places")["csn"] == lake.newest()
    if recorded:
        # The old view delta's directory outlived its last user; the next recomputation (or DROP) finds it.
        lake.keeper.call("resync", "regions")
        assert run_again(lake, "refresh", "places").mode == "full"
    assert lake.keeper.call("directories") == lake.keeper.call("expected_directories")


def test_create_and_drop(lake: World) -> None:
    """One story of a name: each CREATE finds what the one before it left."""
    text = f"CREATE MATERIALIZED VIEW made AS {PAIR}"
    others = lake.keeper.call("expected_directories")
    for crash in CRASHES:
        if crash.driver != "create":
            continue
        die(lake, crash, "statement", text)
        named = [view["name"] for view in lake.keeper.call("status")["views"]]
        left = [each for each in lake.keeper.call("directories") if each not in others]
        if crash.point is Point.CREATE_RECORDED:
            assert "made" in named
            with pytest.raises(DriverFailed) as refused:
                run_again(lake, "statement", text)
            assert refused.value.code == "NAME_TAKEN"
            assert lake.keeper.call("directories") == lake.keeper.call("expected_directories")
            lake.check("made")
        else:
            assert "made" not in named
            assert len(left) == (0 if crash.point is Point.CREATE_INTENDED else 2)
    for crash in CRASHES:
        if crash.driver != "drop":
            continue
        die(lake, crash, "statement", "DROP MATERIALIZED VIEW made")
        assert run_again(lake, "statement", "DROP MATERIALIZED VIEW IF EXISTS made") == [("made", False)]
        assert lake.keeper.call("directories") == lake.keeper.call("expected_directories") == others
        assert lake.keeper.call("open_steps") == []
        assert run_again(lake, "statement", text) == [("made", True)]
    lake.change(1)
    run_again(lake, "refresh", "made")
    lake.check("made")
    assert run_again(lake, "statement", "DROP MATERIALIZED VIEW made") == [("made", True)]
    assert lake.keeper.call("directories") == others


def test_create_is_simply_run_again(lake: World) -> None:
    """Killed before it had its name: the same statement works, and the dead one's directories are gone."""
    others = lake.keeper.call("directories")
    die(lake, Crash("create", Point.CREATE_STORED), "statement", f"CREATE MATERIALIZED VIEW again AS {PAIR}")
    assert len(lake.keeper.call("directories")) == len(others) + 2
    assert run_again(lake, "statement", f"CREATE MATERIALIZED VIEW again AS {PAIR}") == [("again", True)]
    assert lake.keeper.call("directories") == lake.keeper.call("expected_directories")
    lake.check("again")
    assert run_again(lake, "statement", "DROP MATERIALIZED VIEW again") == [("again", True)]


def test_a_drop_is_whole_or_has_not_begun(lake: World) -> None:
    """Killed after each of its writes to the catalog, named or not; then another view is created."""
    text = f"CREATE MATERIALIZED VIEW whole AS {PAIR}"
    lake.keeper.call("statement", text)
    writes = 0
    while True:
        writes += 1
        with lake.driver(die_after_write=writes) as victim:
            try:
                victim.dies("statement", "DROP MATERIALIZED VIEW whole")
            except AssertionError:
                break
        # What any CREATE does first: remove what dead ones have left. It must not touch a view that has its name.
        lake.keeper.call("failing", "sql", "CREATE MATERIALIZED VIEW nothing AS SELECT * FROM nowhere")
        assert lake.keeper.call("directories") == lake.keeper.call("expected_directories")
        if "whole" in [view["name"] for view in lake.keeper.call("status")["views"]]:
            lake.check("whole")
        else:
            lake.keeper.call("statement", text)
    assert writes > 3
    assert lake.keeper.call("directories") == lake.keeper.call("expected_directories")


def test_killed_at_any_moment(lake: World) -> None:
    _any_moment(lake, times=3, seed=7)


def test_after_all_this_every_moment_can_be_read(lake: World) -> None:
    for view in ("steps", "rolling"):
        lake.keeper.call("refresh", view)
        lake.check(view, lake.newest() - 6, read_all=True)


@pytest.mark.soak
def test_killed_at_any_moment_often(lake: World) -> None:
    _any_moment(lake, times=40, seed=int(os.environ.get("HEADWATER_SEED", time.time_ns())))


@pytest.mark.soak
@pytest.mark.parametrize("view", ["steps", "rolling", "places"])
def test_killed_after_every_write_to_the_catalog(lake: World, view: str) -> None:
    """Named or not: the list of durable points is complete only if there is nowhere else to die."""
    write = 0
    finished = False
    while not finished:
        write += 1
        since = lake.standing(view)["high_water_mark"]
        lake.change(3)
        if view == "places":
            lake.keeper.call("resync", "regions")
        with lake.driver(die_after_write=write) as victim:
            try:
                victim.call("refresh", view)
                finished = True
            except DriverDied:
                finished = False
        run_again(lake, "refresh", view)
        assert lake.check(view, since)["csn"] == lake.newest(), f"write {write}"
    assert lake.keeper.call("directories") == lake.keeper.call("expected_directories")


def _any_moment(lake: World, *, times: int, seed: int) -> None:
    moments = random.Random(seed)
    seconds = 4.0
    for number in range(times):
        view = ("steps", "rolling")[number % 2]
        since = lake.standing(view)["high_water_mark"]
        lake.change(2)
        with lake.driver() as victim:
            victim.call("status")
            started = time.monotonic()
            victim.start("refresh", view)
            if victim.is_busy(moments.uniform(0, seconds)):
                victim.kill()
            else:
                seconds = time.monotonic() - started
        run_again(lake, "refresh", view)
        assert lake.check(view, since)["csn"] == lake.newest(), f"seed {seed}, kill {number}"
