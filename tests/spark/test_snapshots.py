"""Releases and snapshots on Spark: views and tables at one moment, whatever is committed and refreshed meanwhile."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import headwater
from tests.spark.constructs import TABLES
from tests.spark.oracle import World, assert_rows_equal

COUNTS = "SELECT k, count(*) AS n FROM r GROUP BY k"
PAIRS = "SELECT r.k, r.v, s.w FROM r JOIN s ON r.k = s.k"
# Rows if, and only if, the view and the table that it counts are of two moments.
DISAGREEMENT = "SELECT sum(n) AS n FROM counts HAVING sum(n) <> (SELECT count(*) FROM r)"


@pytest.fixture(scope="module")
def world(make_world: Callable[..., World]) -> World:
    world = make_world("snapshots")
    for name in ("r", "s"):
        world.make(name, *TABLES[name])
    world.look()
    world.create("counts", COUNTS)
    world.create("pairs", PAIRS)
    return world


def test_a_snapshot_stays_at_its_moment(world: World) -> None:
    with pytest.raises(headwater.HeadwaterError) as nothing:
        world.lake.snapshot()
    assert nothing.value.code == "NOTHING_RELEASED"
    world.run("INSERT INTO {r} VALUES (1, 5, 'a', 1.0)")
    released = world.lake.release()
    with world.lake.snapshot() as old:
        assert old.csn == released.csn
        world.run("INSERT INTO {r} VALUES (1, 6, 'a', 1.0), (2, 6, 'b', 2.0)")
        world.run("DELETE FROM {s} WHERE k = 1")
        newer = world.lake.release()
        assert newer.csn == old.csn + 2
        with world.lake.snapshot() as new:
            assert new.csn == newer.csn
            for snapshot in (old, new):
                for name, text in (("counts", COUNTS), ("pairs", PAIRS)):
                    label = f"{name} in the snapshot at csn {snapshot.csn}"
                    assert_rows_equal(snapshot.table(name), world.expected(text, snapshot.csn), label=label)
                assert snapshot.sql(DISAGREEMENT).collect() == []
                assert_rows_equal(snapshot.table("r"), world.expected("SELECT * FROM r", snapshot.csn))
            assert old.versions()["counts"].version < new.versions()["counts"].version
    with world.lake.snapshot(at=newer.csn - 1) as between:
        assert_rows_equal(between.table("pairs"), world.expected(PAIRS, between.csn))
        assert between.sql(DISAGREEMENT).collect() == []


def test_a_tag_finds_its_release_again(world: World) -> None:
    csn = world.lake.release().csn
    assert world.lake.tag("before") == csn
    world.run("INSERT INTO {r} VALUES (3, 7, 'c', 1.0)")
    world.lake.release()
    with world.lake.snapshot(tag="before") as tagged:
        assert tagged.csn == csn
        assert_rows_equal(tagged.table("counts"), world.expected(COUNTS, csn))


def test_what_is_too_stale_is_told_or_made_fresh(world: World) -> None:
    world.lake.release()
    world.run("INSERT INTO {r} VALUES (3, 8, 'c', 1.0)")
    with pytest.raises(headwater.HeadwaterError) as stale:
        world.lake.snapshot(max_staleness=0)
    assert stale.value.code == "TOO_STALE"
    with world.lake.snapshot(max_staleness=60, refresh=True) as snapshot:
        assert snapshot.staleness <= 60
        assert_rows_equal(snapshot.table("counts"), world.expected(COUNTS, snapshot.csn))
