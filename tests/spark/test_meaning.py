"""What a text means is kept: the settings that it was created under, and the names of fields."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from headwater.engine.meaning import MEANING
from tests.spark.oracle import World

pytestmark = pytest.mark.heavy


@pytest.fixture(scope="module")
def world(make_world: Callable[..., World]) -> World:
    world = make_world("meaning")
    world.make("r", "k INT, v INT", "(1, 6), (2, 7)")
    world.make("s", "k INT, w INT", "(1, 5)")
    world.make("t", "k INT, u INT", "(1, 10), (9, 90)")
    world.make("p", "k INT, st STRUCT<`a-b`: INT, `1`: STRUCT<`x``y`: INT>>", "(1, named_struct('a-b', 5, '1', NULL))")
    world.look()
    return world


def test_every_setting_is_one_of_sparks(world: World) -> None:
    assert len(set(MEANING)) == len(MEANING)
    unset = {key for key in MEANING if world.spark.conf.get(key) is None}  # one that Spark does not know raises
    assert unset == {
        "spark.sql.legacy.nullInEmptyListBehavior",
        "spark.sql.legacy.json.enableDateTimeParsingFallback",
    }


def test_a_setting_that_nobody_had_set_is_kept(world: World) -> None:
    """Its later value once held in every session that was begun after it."""
    world.create("inserted", "SELECT k, array_insert(array(v), -1, 0) AS a FROM r", "OPTIONS (refresh = 'incremental')")
    world.run("INSERT INTO {r} VALUES (3, 8)")
    with (
        world.setting("spark.sql.legacy.negativeIndexInArrayInsert", "true"),
        ThreadPoolExecutor(1) as another,  # a thread computes in a session of its own
    ):
        report = another.submit(world.lake.refresh, "inserted").result()
    assert report.mode == "incremental"
    world.check("inserted")
    world.check_law("inserted")


def test_a_setting_that_decides_how_joins_are_read_is_kept(world: World) -> None:
    """The text is then read otherwise than we read it, so it is computed from scratch: as it was read at CREATE."""
    with world.setting("spark.sql.ansi.relationPrecedence", "true"):
        world.create("joined", "SELECT r.k, s.w, t.u FROM r, s RIGHT JOIN t ON s.k = t.k")
        world.check("joined")
        world.run("INSERT INTO {t} VALUES (8, 80)")
        report = world.refresh("joined")
        assert (report.mode, report.reason) == ("full", "MISREAD")


def test_fields_whose_names_need_quotes(world: World) -> None:
    """The branch of a union that does not change is made of NULLs of the columns' types."""
    sql = "SELECT k, st.`a-b` AS x, st.`1` AS y FROM p UNION ALL SELECT k, v, NULL FROM r"
    world.create("quoted", sql, "OPTIONS (refresh = 'incremental')")
    world.run("INSERT INTO {p} VALUES (4, named_struct('a-b', 8, '1', named_struct('x`y', 3)))")
    assert world.refresh("quoted").mode == "incremental"
    world.run("UPDATE {r} SET v = v + 1 WHERE k = 1")
    assert world.refresh("quoted").mode == "incremental"
    world.check_law("quoted")
