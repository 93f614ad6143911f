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
from tests.support.driver import DriverFailed, Watch
from tests.support.world import PAIR, World, world


@dataclass(frozen=True)
class Crash:
    """``driver`` says what is run; it dies at ``point``, the ``nth`` time that it comes there."""

    driver: str
    point: Point
    nth: int = 1

    def __str__(self) -> str:
        return f"{self.driver}-{self.point.name}-{self.nth}"


CRASHES = [
    Crash("capture", Point.CAPTURE_LOOKED),
    Crash("capture", Point.CAPTURE_NUMBERED),
    Crash("propagate", Point.PROPAGATE_INTENDED),
    Crash("propagate", Point.PROPAGATE_INTENDED, nth=3),
    Crash("propagate", Point.PROPAGATE_APPENDED),
    Crash("propagate", Point.PROPAGATE_APPENDED, nth=2),
    Crash("propagate", Point.PROPAGATE_ADVANCED),
    Crash("rolling", Point.ROLLING_INTENDED),
    Crash("rolling", Point.ROLLING_APPENDED),
    Crash("rolling", Point.ROLLING_APPENDED, nth=2),
    Crash("rolling", Point.ROLLING_RECORDED),
    Crash("rolling", Point.ROLLING_ADVANCED),
    Crash("forward", Point.APPLY_INTENDED),
    Crash("forward", Point.APPLY_COMMITTED),
    Crash("forward", Point.APPLY_RECORDED),
    Crash("back", Point.APPLY_INTENDED),
    Crash("back", Point.APPLY_COMMITTED),
    Crash("back", Point.APPLY_RECORDED),
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
    assert {crash.point for crash in CRASHES} == set(Point)


@pytest.fixture(scope="module")
def lake(connect_server: ConnectServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(connect_server.url, tmp_path_factory.mktemp("crash")) as made:
        yield made


def of(driver: str) -> Any:
    crashes = [crash for crash in CRASHES if crash.driver == driver]
    return pytest.mark.parametrize("crash", crashes, ids=str)


def die(lake: World, crash: Crash, *call: Any) -> None:
    with lake.driver(die_at=Watch(crash.point, crash.nth)) as victim:
        passed = victim.dies(*call)
    assert passed[-1] == crash.point.name
    assert passed.count(crash.point.name) == crash.nth


def run_again(lake: World, *call: Any) -> Any:
    with lake.driver(lease_wait=0.0) as again:
        return again.call(*call)


@pytest.mark.connect
@of("capture")
def test_capture(lake: World, crash: Crash) -> None:
    before = lake.newest()
    lake.change(2)
    die(lake, crash, "capture")
    numbered = lake.keeper.call("status")["newest_csn"]
    assert numbered == (before if crash.point is Point.CAPTURE_LOOKED else before + 2)
    assert run_again(lake, "capture") == before + 2
    assert run_again(lake, "refresh", "steps").csn == before + 2
    lake.check("steps", before)


@pytest.mark.connect
@of("propagate")
def test_propagate(lake: World, crash: Crash) -> None:
    before = lake.standing("steps")["high_water_mark"]
    lake.change()
    newest = lake.newest()
    die(lake, crash, "propagate", "steps")
    assert run_again(lake, "propagate", "steps") == newest
    lake.check("steps", before)


@pytest.mark.connect
@of("rolling")
def test_rolling(lake: World, crash: Crash) -> None:
    before = lake.standing("rolling")["high_water_mark"]
    lake.change()
    newest = lake.newest()
    die(lake, crash, "propagate", "rolling")
    # The world goes on before it is run again: execution times of the two runs differ.
    lake.change(2)
    assert run_again(lake, "propagate", "rolling") >= newest
    assert run_again(lake, "refresh", "rolling").csn == newest + 2
    lake.check("rolling", before)


@pytest.mark.connect
@of("forward")
def test_apply_forward(lake: World, crash: Crash) -> None:
    before = run_again(lake, "refresh", "steps").csn
    lake.change()
    die(lake, crash, "refresh", "steps")
    again = run_again(lake, "refresh", "steps")
    assert again.csn == before + 3
    assert lake.check("steps", before)["csn"] == before + 3


@pytest.mark.connect
@of("back")
def test_apply_back(lake: World, crash: Crash) -> None:
    lake.change(2)
    newest = run_again(lake, "refresh", "steps").csn
    die(lake, crash, "refresh", "steps", newest - 2)
    assert run_again(lake, "refresh", "steps", newest - 2).csn == newest - 2
    assert lake.check("steps", newest - 4)["csn"] == newest - 2
    # And elsewhere than where the dead one went.
    die(lake, crash, "refresh", "steps", newest)
    assert run_again(lake, "refresh", "steps", newest - 1).csn == newest - 1
    lake.check("steps", newest - 4)


@pytest.mark.connect
@of("recompute")
def test_recompute_after_resync(lake: World, crash: Crash) -> None:
    lake.change(2)
    lake.keeper.call("resync", "regions")
    die(lake, crash, "refresh", "places")
    lake.change(2)
    again = run_again(lake, "refresh", "places")
    assert again.mode == ("full" if crash.point is not Point.APPLY_RECORDED else "incremental")
    assert lake.check("places")["csn"] == lake.newest()
    assert lake.keeper.call("directories") == lake.keeper.call("expected_directories")


@pytest.mark.connect
@of("create")
def test_create(lake: World, crash: Crash) -> None:
    text = f"CREATE MATERIALIZED VIEW made AS {PAIR}"
    die(lake, crash, "statement", text)
    named = crash.point is Point.CREATE_RECORDED
    assert ("made" in [view["name"] for view in lake.keeper.call("status")["views"]]) == named
    if named:
        with pytest.raises(DriverFailed) as refused:
            run_again(lake, "statement", text)
        assert refused.value.code == "NAME_TAKEN"
    else:
        assert run_again(lake, "statement", text) == [("made", True)]
    lake.change(2)
    run_again(lake, "refresh", "made")
    lake.check("made")
    assert lake.keeper.call("directories") == lake.keeper.call("expected_directories")
    assert run_again(lake, "statement", "DROP MATERIALIZED VIEW made") == [("made", True)]
    assert lake.keeper.call("directories") == lake.keeper.call("expected_directories")


@pytest.mark.connect
@of("drop")
def test_drop(lake: World, crash: Crash) -> None:
    lake.keeper.call("statement", f"CREATE MATERIALIZED VIEW going AS {PAIR}")
    kept = lake.keeper.call("directories")
    die(lake, crash, "statement", "DROP MATERIALIZED VIEW going")
    assert run_again(lake, "statement", "DROP MATERIALIZED VIEW IF EXISTS going") == [("going", False)]
    left = lake.keeper.call("directories")
    assert left == lake.keeper.call("expected_directories")
    assert len(left) == len(kept) - 2
    assert lake.keeper.call("open_steps") == []


@pytest.mark.connect
def test_killed_at_any_moment(lake: World) -> None:
    _any_moment(lake, times=3, seed=7)


@pytest.mark.soak
@pytest.mark.connect
def test_killed_at_any_moment_often(lake: World) -> None:
    _any_moment(lake, times=40, seed=int(os.environ.get("HEADWATER_SEED", time.time_ns())))


def _any_moment(lake: World, *, times: int, seed: int) -> None:
    moments = random.Random(seed)
    seconds = 3.0
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
