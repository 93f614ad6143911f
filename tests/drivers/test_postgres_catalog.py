"""A lake whose catalog is a PostgreSQL database, from CREATE to refreshes by two processes and a crash."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.durable import DurablePoint as Point
from tests.postgres_server import running_postgres
from tests.support.cluster import ConnectServer
from tests.support.driver import DriverFailed, Watch
from tests.support.world import VIEWS, World, world

pytestmark = pytest.mark.connect


@pytest.fixture(scope="module")
def shared(connect_server: ConnectServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder: Path = tmp_path_factory.mktemp("postgres-catalog")
    with running_postgres() as server:
        catalog = server.create_database("headwater")
        with world(connect_server.url, folder, views=("steps",), catalog=catalog) as made:
            assert not (made.setup.folder / "catalog.db").exists()
            yield made


def test_create_refresh_and_read(shared: World) -> None:
    assert shared.keeper.call("status")["catalog"].startswith("postgresql")
    shared.keeper.call("statement", VIEWS["rolling"])
    shared.change(2)
    newest = shared.newest()
    for view in ("steps", "rolling"):
        assert shared.keeper.call("refresh", view, newest - 1).csn == newest - 1
        assert shared.keeper.call("refresh", view).csn == newest
        assert shared.keeper.call("refresh", view, newest - 2).csn == newest - 2
        assert shared.check(view)["high_water_mark"] == newest
    shared.keeper.call("statement", "DROP MATERIALIZED VIEW rolling")
    assert shared.keeper.call("directories") == shared.keeper.call("expected_directories")


def test_two_processes_and_a_crash(shared: World) -> None:
    since = shared.keeper.call("refresh", "steps").csn
    shared.change(2)
    with shared.driver(die_at=Watch(Point.PROPAGATE_APPENDED)) as victim:
        assert victim.dies("refresh", "steps")[-1] == "PROPAGATE_APPENDED"
    with (
        shared.driver(lease_wait=0.0, hold_at=Watch(Point.APPLY_INTENDED)) as first,
        shared.driver(lease_wait=0.0) as second,
    ):
        first.start("refresh", "steps")
        first.held()
        with pytest.raises(DriverFailed, match=f"pid {first.pid} ") as refused:
            second.call("refresh", "steps")
        assert refused.value.code == "LEASE_HELD"
        first.go()
        assert first.result().csn == since + 2
    assert shared.check("steps", since)["csn"] == since + 2


def test_a_zombie(shared: World) -> None:
    since = shared.keeper.call("refresh", "steps").csn
    shared.change(2)
    with shared.driver(lease_ttl=1.5, stop_at=Watch(Point.PROPAGATE_INTENDED)) as zombie:
        zombie.start("refresh", "steps")
        zombie.stopped()
        assert shared.keeper.call("refresh", "steps").csn == since + 2
        zombie.resume()
        with pytest.raises(DriverFailed) as lost:
            zombie.result()
        assert lost.value.code == "LEASE_LOST"
    assert shared.check("steps", since)["csn"] == since + 2
