"""A driver that was paused until its lease ran out, and wakes up when another has taken over.

It can neither move the frontier nor write the view: the catalog refuses its token (LeaseLost), and Delta passes
over its commit, whose number has been used or passed.
"""

from __future__ import annotations

from typing import Any

import pytest

from headwater.durable import DurablePoint as Point
from tests.support.driver import Driver, DriverFailed, Watch
from tests.support.world import World

pytestmark = pytest.mark.connect

TTL = 1.5


def wake(zombie: Driver) -> DriverFailed:
    """Let it go on; what it ends with."""
    zombie.resume()
    with pytest.raises(DriverFailed) as lost:
        zombie.result()
    return lost.value


@pytest.mark.parametrize(
    ("view", "point"),
    [
        ("steps", Point.CAPTURE_LOOKED),
        ("steps", Point.PROPAGATE_INTENDED),
        pytest.param("steps", Point.PROPAGATE_APPENDED, marks=pytest.mark.soak),
        ("steps", Point.APPLY_INTENDED),
        pytest.param("steps", Point.APPLY_COMMITTED, marks=pytest.mark.soak),
        pytest.param("rolling", Point.ROLLING_INTENDED, marks=pytest.mark.soak),
        ("rolling", Point.ROLLING_APPENDED),
        pytest.param("rolling", Point.ROLLING_RECORDED, marks=pytest.mark.soak),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_a_zombie_changes_nothing(lake: World, view: str, point: Point) -> None:
    since, newest = lake.standing(view)["high_water_mark"], lake.newest()
    lake.change(2)
    with lake.driver(lease_ttl=TTL, stop_at=Watch(point)) as zombie:
        zombie.start("refresh", view)
        zombie.stopped()
        assert lake.keeper.call("refresh", view).csn == newest + 2
        lake.change(1)
        assert lake.keeper.call("refresh", view).csn == newest + 3
        before = _commits(lake, view)
        assert wake(zombie).code == "LEASE_LOST"
    assert _commits(lake, view) == before
    assert lake.check(view, since)["csn"] == newest + 3


def test_a_zombie_changes_nothing_while_its_step_is_replayed(lake: World) -> None:
    """Both go on with one and the same step at once: Delta takes one of the two commits."""
    since = lake.keeper.call("refresh", "steps").csn
    lake.change(2)
    with (
        lake.driver(lease_ttl=TTL, stop_at=Watch(Point.APPLY_INTENDED)) as zombie,
        lake.driver(hold_at=Watch(Point.APPLY_COMMITTED)) as heir,
    ):
        zombie.start("refresh", "steps")
        zombie.stopped()
        heir.start("refresh", "steps")
        heir.held()
        before = _commits(lake, "steps")
        assert wake(zombie).code == "LEASE_LOST"
        assert _commits(lake, "steps") == before
        heir.go()
        assert heir.result().csn == since + 2
    assert lake.check("steps", since)["csn"] == since + 2


def test_a_zombie_of_a_recomputation_changes_nothing(lake: World) -> None:
    lake.change(2)
    lake.keeper.call("resync", "regions")
    with lake.driver(lease_ttl=TTL, stop_at=Watch(Point.APPLY_INTENDED)) as zombie:
        zombie.start("refresh", "places")
        zombie.stopped()
        assert lake.keeper.call("refresh", "places").mode == "full"
        lake.change(2)
        lake.keeper.call("refresh", "places")
        assert wake(zombie).code == "LEASE_LOST"
    assert lake.check("places")["csn"] == lake.newest()


@pytest.mark.parametrize("kind", ["propagate", "apply"])
def test_a_lease_taken_by_hand_is_lost(lake: World, kind: str) -> None:
    since, newest = lake.standing("steps")["high_water_mark"], lake.newest()
    lake.change(2)
    held = {"propagate": Point.PROPAGATE_APPENDED, "apply": Point.APPLY_COMMITTED}[kind]
    with lake.driver(lease_ttl=TTL, stop_at=Watch(held)) as zombie:
        zombie.start("refresh", "steps")
        zombie.stopped()
        before = lake.standing("steps")
        resource = f"{kind}:{lake.keeper.call('view_id', 'steps')}"
        token = lake.keeper.call("take_lease", resource)
        lost = wake(zombie)
        assert (lost.code, lost.fields["resource"]) == ("LEASE_LOST", resource)
        after = lake.standing("steps")
        assert (after["high_water_mark"], after["csn"]) == (before["high_water_mark"], before["csn"])
        assert lake.keeper.call("take_lease", resource) == token + 1
        # It may ask for the lease again, as anybody may, and goes on from what the catalog says.
        assert zombie.call("refresh", "steps").csn == newest + 2
    lake.check("steps", since)


def test_an_execution_time_is_that_of_the_commit_that_was_made(lake: World) -> None:
    """Zombie and heir both found no commit for a query; the zombie's comes first, and as of an earlier csn."""
    since = lake.keeper.call("refresh", "rolling").csn
    lake.change(2)
    with (
        lake.driver(lease_ttl=TTL, stop_at=Watch("as of csn")) as zombie,
        lake.driver(hold_at=Watch("as of csn")) as heir,
    ):
        zombie.start("propagate", "rolling", lake.newest())
        zombie.stopped()
        lake.change(2)
        heir.start("propagate", "rolling", lake.newest())
        heir.held()
        assert wake(zombie).code == "LEASE_LOST"
        heir.go()
        heir.result()
    lake.keeper.call("refresh", "rolling")
    lake.check("rolling", since)


def _commits(lake: World, view: str) -> list[Any]:
    return [lake.keeper.call("commits", view, which) for which in ("view", "view delta")]
