"""Point-in-time refresh and reads: csn, timestamp, datetime, forward and back."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from headwater.errors import BeyondHighWaterMark, InvalidInput, MomentBeforeHistory, MomentInFuture
from tests.spark.oracle import World, newest_version


@pytest.fixture(scope="module")
def world(make_world: Callable[..., World]) -> World:
    """A view at csn 1 of 5, propagated nowhere; csn 1 lies before it was created."""
    world = make_world("moments")
    world.make("a", "k INT, v INT", "(1, 1)")
    world.run("INSERT INTO {a} VALUES (1, 2)")
    assert world.lake.capture() == 1
    world.create("v", "SELECT k, v, k + v AS t FROM a")
    for i in range(4):
        time.sleep(0.01)
        world.run(f"INSERT INTO {{a}} VALUES ({i}, {i}), (1, 1)" if i != 2 else "DELETE FROM {a} WHERE k = 1")
    assert world.lake.capture() == 5
    return world


def view_location(world: World) -> str:
    return str(world.lake._context.catalog.view("v").location)


def committed_at(world: World, csn: int) -> datetime:
    return next(unit.committed_at for unit in world.lake.units_of_work() if unit.csn == csn)


def test_refresh_forward_and_back_is_one_commit_each(world: World) -> None:
    for to in (3, 1, 5, 4):
        before = newest_version(view_location(world))
        report = world.refresh("v", to)
        assert (report.csn, report.mode) == (to, "incremental")
        assert newest_version(view_location(world)) == before + 1
    assert world.mark("v") == 5
    assert world.refresh("v", 4).mode == "none"


def test_read_at_a_csn_leaves_the_view_alone(world: World) -> None:
    before, csn = newest_version(view_location(world)), world.view_csn("v")
    for at in (1, 5, 2):
        world.check("v", at=at)
    assert newest_version(view_location(world)) == before
    assert world.view_csn("v") == csn
    world.check("v")


def test_refresh_to_a_timestamp_is_the_newest_csn_at_or_before_it(world: World) -> None:
    exact = committed_at(world, 3)
    for moment, csn in (
        (exact, 3),
        (exact - timedelta(microseconds=1), 2),
        (exact.isoformat(), 3),
        (exact.astimezone(timezone(timedelta(hours=9))).isoformat(), 3),
        (exact.replace(tzinfo=None) if datetime.now().astimezone().utcoffset() == timedelta(0) else exact, 3),
        (datetime.now(timezone.utc), 5),
    ):
        report = world.lake.refresh("v", to=moment)
        assert report.csn == csn, moment
    world.check("v")
    stamp = committed_at(world, 2).strftime("%Y-%m-%d %H:%M:%S.%f+00:00")
    row = world.lake.sql(f"REFRESH MATERIALIZED VIEW v TO TIMESTAMP '{stamp}'").collect()[0]
    assert (row["csn"], row["mode"]) == (2, "incremental")
    world.check("v")
    assert world.lake.sql("REFRESH MATERIALIZED VIEW v TO CSN 5").collect()[0]["csn"] == 5
    actual = world.lake.read("v", at=exact)
    assert sorted(map(tuple, actual.collect())) == sorted(map(tuple, world.expected(world.views["v"], 3).collect()))


def test_moments_that_cannot_be(world: World) -> None:
    before, csn = newest_version(view_location(world)), world.view_csn("v")
    cases: list[tuple[Any, type[Exception]]] = [
        (6, MomentInFuture),
        (datetime.now(timezone.utc) + timedelta(days=1), MomentInFuture),
        ("2999-01-01 00:00:00", MomentInFuture),
        (0, MomentBeforeHistory),
        ("2001-01-01 00:00:00", MomentBeforeHistory),
        (-1, InvalidInput),
        ("yesterday", InvalidInput),
        (True, InvalidInput),
        (2.5, InvalidInput),
    ]
    for moment, kind in cases:
        for call in (world.lake.refresh, world.lake.read):
            with pytest.raises(kind) as caught:
                call("v", moment)
            assert caught.value.remedy, moment  # type: ignore[attr-defined]
    assert newest_version(view_location(world)) == before
    assert world.view_csn("v") == csn


def test_a_target_beyond_the_mark_is_propagated_first_and_a_read_is_not(world: World) -> None:
    world.run("INSERT INTO {a} VALUES (8, 8)")
    world.run("INSERT INTO {a} VALUES (9, 9)")
    newest = world.lake.capture()
    assert world.mark("v") < newest
    with pytest.raises(BeyondHighWaterMark) as caught:
        world.lake.read("v", at=newest)
    assert "propagate" in (caught.value.remedy or "").lower()
    assert world.refresh("v", newest - 1).mode == "incremental"
    assert world.mark("v") >= newest - 1
    assert world.lake.propagate("v") == newest
    assert world.view_csn("v") == newest - 1  # propagation does not touch the view
    world.check("v", at=newest)
    world.check("v")


def test_queries_see_views_and_tables_at_the_present(world: World) -> None:
    world.lake.refresh("v")
    total = world.lake.sql("SELECT count(*) AS n FROM v").collect()[0]["n"]
    assert total == world.expected(world.views["v"], world.view_csn("v")).count()
    joined = world.lake.sql("SELECT v.k, a.v FROM v JOIN a ON v.k = a.k AND v.v = a.v ORDER BY 1, 2 LIMIT 2").collect()
    assert [tuple(row) for row in joined] == sorted(tuple(row) for row in joined)
    assert world.lake.sql("WITH v AS (SELECT 1 AS one) SELECT * FROM v -- a comment").collect()[0][0] == 1
    assert world.lake.read("a").count() == world.spark.sql(f"SELECT * FROM {world.ref('a')}").count()
    assert world.lake.read("a", at=1).count() == 2
