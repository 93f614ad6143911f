"""The layout ``timeline`` on Spark: every moment kept from one version of one table, in chunks of any size."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import headwater
from tests.spark.oracle import World, assert_rows_equal

PAIRS = "SELECT r.k, r.v, s.w FROM r JOIN s ON r.k = s.k"
COUNTS = "SELECT k, count(*) AS n, sum(v) AS total FROM r GROUP BY k"
ABOVE = "SELECT k, count(*) AS n FROM pairs GROUP BY k"
ABOVE_TABLES = f"SELECT k, count(*) AS n FROM ({PAIRS}) GROUP BY k"


@pytest.fixture(scope="module")
def world(make_world: Callable[..., World]) -> World:
    world = make_world("timeline")
    world.make("r", "k int, v int", "(1, 1), (1, 1), (2, 5), (NULL, 7)")
    world.make("s", "k int, w string", "(1, 'a'), (2, 'b')")
    world.look()
    world.create("pairs", PAIRS, "OPTIONS (layout = 'timeline')")
    world.create("counts", COUNTS, "OPTIONS (layout = 'TIMELINE', chunk_size = '2')")
    world.create("above", ABOVE)
    for statement in (
        "INSERT INTO {r} VALUES (1, 1), (2, 5), (3, 9)",
        "DELETE FROM {r} WHERE v = 1",
        "INSERT INTO {r} VALUES (1, 1), (1, 1)",  # as it was before
        "UPDATE {s} SET w = NULL WHERE k = 1",
        "DELETE FROM {r} WHERE k = 3",
        "INSERT INTO {s} VALUES (1, 'a'), (3, 'c')",
    ):
        world.run(statement)
    world.lake.capture()
    return world


def versions(world: World, view: str) -> int:
    return world.lake._context.catalog.view(view).version


def test_every_moment_is_read_from_one_version(world: World) -> None:
    world.refresh("pairs", to=2)
    world.lake.propagate("pairs", to=4)
    world.check("pairs", at=4, label="beyond the table, by the view delta:")
    world.refresh("pairs")
    assert world.check_law("pairs") == 7
    context = world.lake._context
    record = context.catalog.view("pairs")
    table = f"delta.`{record.location}` VERSION AS OF {record.version}"
    for csn in (0, 3, 6):
        visible = f"__hw_t_min <= {csn} AND (__hw_t_max > {csn} OR __hw_t_max IS NULL)"
        by_predicate = world.spark.sql(f"SELECT sum(__hw_count) AS n FROM {table} WHERE {visible}").collect()[0][0]
        assert (by_predicate or 0) == world.expected(PAIRS, csn).count()


def test_it_goes_back_and_forward_again(world: World) -> None:
    world.lake.refresh("pairs", to=6)
    before = world.spark.sql(f"SELECT * FROM delta.`{world.lake._context.catalog.view('pairs').location}`").collect()
    world.refresh("pairs", to=1)
    world.refresh("pairs", to=6)
    again = world.spark.sql(f"SELECT * FROM delta.`{world.lake._context.catalog.view('pairs').location}`").collect()
    assert sorted(map(str, before)) == sorted(map(str, again))


def test_an_aggregate_with_hidden_columns_comes_in_chunks(world: World) -> None:
    world.refresh("counts")
    story = world.lake._context.catalog.refreshes("counts")
    assert [each.csn for each in reversed(story)] == [0, 1, 2, 3, 6]  # csns 4 and 6 change another table
    assert world.check_law("counts") == 7


def test_a_view_on_a_timeline_and_a_snapshot_of_both(world: World) -> None:
    released = world.lake.release()
    assert released.left_out == {}
    world.run("INSERT INTO {r} VALUES (2, 8)")
    world.lake.release()
    for csn in (released.csn, released.csn + 1):
        with world.lake.snapshot(at=csn) as snapshot:
            assert_rows_equal(snapshot.table("pairs"), world.expected(PAIRS, csn))
            assert_rows_equal(snapshot.table("counts"), world.expected(COUNTS, csn))
            assert_rows_equal(snapshot.table("above"), world.expected(ABOVE_TABLES, csn))
            told = snapshot.versions()["pairs"]
            assert told.where == f"`__hw_t_min` <= {csn} AND (`__hw_t_max` > {csn} OR `__hw_t_max` IS NULL)"
    world.lake.collect()
    with world.lake.snapshot() as snapshot:
        assert_rows_equal(snapshot.table("pairs"), world.expected(PAIRS, csn))
    assert world.kept_from("pairs") == csn
    world.run("DELETE FROM {r} WHERE k = 2")
    world.refresh("pairs")
    world.refresh("pairs", to=csn)


def test_what_a_layout_does_not_allow_is_told(world: World) -> None:
    with pytest.raises(headwater.HeadwaterError) as unknown:
        world.create("odd", PAIRS, "OPTIONS (layout = 'spiral')")
    assert unknown.value.code == "INVALID_INPUT"
    with pytest.raises(headwater.HeadwaterError) as stored:
        world.lake.sql("ALTER MATERIALIZED VIEW pairs SET OPTIONS (layout = 'current')")
    assert stored.value.code == "INVALID_INPUT"
