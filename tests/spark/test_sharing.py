"""Views that are refreshed together share what they need, and each still holds what Spark says."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from headwater.context import Sizes
from tests.spark.histories import COLUMNS, commit, rows
from tests.spark.oracle import WAYS, World, assert_rows_equal

JOIN = "r x JOIN s y ON x.k = y.k"
VIEWS = {
    "plain": f"SELECT x.k, y.v, x.s FROM {JOIN}",
    "turned": "SELECT b.s AS a, a.s AS b FROM s a JOIN r b ON a.k = b.k",
    "grouped": f"SELECT x.s, count(*) AS n, sum(y.v) AS total FROM {JOIN} GROUP BY x.s",
    "smallest": f"SELECT y.s, min(x.v) AS least FROM {JOIN} GROUP BY y.s",
    "wider": f"SELECT x.k, z.s FROM {JOIN} JOIN t z ON z.k = y.v",
    "alone": "SELECT k, count(*) AS n FROM r GROUP BY k",
    "filtered": f"SELECT x.k, y.s FROM {JOIN} WHERE x.v > 0",
}


def strategies(world: World, view: str) -> list[str]:
    """Of the last step's blocks."""
    record = world.lake._context.catalog.view(view)
    steps = world.lake._context.catalog.done_steps(record.view_id, "propagate", limit=1)
    return [block["strategy"] for step in steps for block in (step.outcome or {})["blocks"]]


def make(make_world: Callable[..., World], name: str, rng: random.Random, views: dict[str, str]) -> World:
    world = make_world(name)
    for table in ("r", "s", "t"):
        world.make(table, COLUMNS, rows(rng, 6))
    world.look()
    for view, text in views.items():
        world.create(view, text)
    return world


def history(make_world: Callable[..., World], seed: int, rounds: int) -> None:
    rng = random.Random(seed)
    world = make(make_world, f"sharing{seed}", rng, VIEWS)
    story = [f"seed {seed}"]
    try:
        for number in range(rounds):
            world.lake._context.sizes = WAYS[(seed + number) % len(WAYS)]
            story += [commit(rng, world) for _ in range(rng.randint(2, 4))]
            done = world.lake.refresh_all()
            story.append(str({view: strategies(world, view) for view in VIEWS}))
            assert not done.failed
            assert {report.mode for report in done.reports} <= {"incremental", "none"}
            for view in VIEWS:
                world.check(view)
        for view in VIEWS:
            world.check_law(view)
    except Exception as error:
        raise AssertionError(f"{type(error).__name__}: {error}\n" + "\n".join(story)) from error


def test_a_join_of_several_views_is_computed_once(make_world: Callable[..., World]) -> None:
    rng = random.Random(3)
    world = make(make_world, "shared", rng, {name: VIEWS[name] for name in ("plain", "turned", "grouped", "alone")})
    world.run("INSERT INTO {r} VALUES (1, 1, 'new'), (2, NULL, NULL)")
    world.run("UPDATE {s} SET v = v + 1 WHERE k = 1")
    done = world.lake.refresh_all()
    assert [report.view for report in done.reports] == ["alone", "grouped", "plain", "turned"]
    assert {report.mode for report in done.reports} == {"incremental"}
    assert strategies(world, "grouped") == ["n-term"]
    assert strategies(world, "plain") == ["as computed for grouped"]
    assert strategies(world, "turned") == ["as computed for grouped"]
    for view in ("plain", "turned", "grouped", "alone"):
        world.check(view)
    # A view that is refreshed by itself shares nothing.
    world.run("INSERT INTO {s} VALUES (1, 3, 'old')")
    world.refresh("turned")
    assert strategies(world, "turned") == ["n-term"]
    # Now it starts from another moment than the others, so it goes on by itself.
    world.run("INSERT INTO {r} VALUES (1, 5, 'newer')")
    world.lake.release()
    assert strategies(world, "plain") == ["as computed for grouped"]
    assert strategies(world, "turned") == ["n-term"]
    for view in ("plain", "turned", "grouped", "alone"):
        world.check(view)


@pytest.mark.heavy
def test_changes_that_come_to_nothing_are_shared_too(make_world: Callable[..., World]) -> None:
    world = make(make_world, "nothing", random.Random(4), {name: VIEWS[name] for name in ("plain", "turned")})
    world.lake._context.sizes = Sizes(large_table=1)
    world.run("INSERT INTO {r} VALUES (77, 1, 'meets nothing')")
    assert {report.rows for report in world.lake.refresh_all().reports} == {0}
    for view in ("plain", "turned"):
        world.check(view)


def test_a_column_that_one_view_lost_does_not_stop_the_others(make_world: Callable[..., World]) -> None:
    world = make_world("lost")
    world.make("r", COLUMNS, "(1, 1, 'a')")
    world.make("s", COLUMNS, "(1, 1, 'a')")
    world.run(
        "ALTER TABLE {s} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.minReaderVersion' = '2', "
        "'delta.minWriterVersion' = '5')"
    )
    world.look()
    world.create("keeps", f"SELECT x.k, x.s FROM {JOIN}")
    world.create("loses", f"SELECT x.k, y.s FROM {JOIN}")
    world.run("INSERT INTO {r} VALUES (1, 2, 'b')")
    world.run("ALTER TABLE {s} DROP COLUMN s")
    world.run("INSERT INTO {s} VALUES (1, 3)")
    done = world.lake.refresh_all()
    assert [report.view for report in done.reports] == ["keeps"]
    assert set(done.failed) == {"loses"}
    assert done.as_dict()["failed"]["loses"]["code"]
    world.check("keeps")


@pytest.mark.heavy
def test_a_view_that_does_not_start_with_the_others_reads_columns_of_its_own(make_world: Callable[..., World]) -> None:
    """It had been given changes without its columns: those that other views share."""
    world = make(make_world, "apart", random.Random(6), {})
    world.create("a", "SELECT k FROM r")
    world.create("b", "SELECT k, count(*) AS n FROM r GROUP BY k")
    world.create("narrow", "SELECT v FROM r")
    world.create("mid", "SELECT s, count(*) AS n FROM r GROUP BY s")
    world.create("top", "SELECT m.s, r.k FROM mid m JOIN r ON r.s = m.s")
    world.lake.set_width("narrow", "r", csns=1)
    for number in range(3):
        world.run(f"INSERT INTO {{r}} VALUES ({number}, {number}, 'new')")
    assert not world.lake.refresh_all(["a", "b", "narrow", "top"]).failed
    for view in ("a", "b", "narrow"):
        world.check(view)
    inlined = "SELECT m.s, r.k FROM (SELECT s, count(*) AS n FROM r GROUP BY s) m JOIN r ON r.s = m.s"
    assert_rows_equal(world.lake.read("top"), world.expected(inlined, world.view_csn("top")))
    world.lake.refresh_all()
    world.check("mid")


@pytest.mark.heavy
def test_what_a_step_of_a_round_took_says_nothing_of_a_view_alone(make_world: Callable[..., World]) -> None:
    world = make(make_world, "samples", random.Random(7), {name: VIEWS[name] for name in ("plain", "turned")})
    world.run("INSERT INTO {r} VALUES (1, 1, 'new')")
    world.lake.refresh_all()
    assert not world.lake.costs("turned").costs.is_known
    world.run("INSERT INTO {r} VALUES (1, 1, 'newer')")
    world.lake.refresh("turned")
    assert world.lake.costs("turned").costs.is_known


@pytest.mark.heavy
def test_views_are_named_or_all_are_meant(make_world: Callable[..., World]) -> None:
    world = make(make_world, "named", random.Random(5), {name: VIEWS[name] for name in ("plain", "turned")})
    world.run("INSERT INTO {r} VALUES (1, 1, 'new')")
    csn = world.lake.capture()
    done = world.lake.refresh_all(["turned"], to=csn)
    assert [(report.view, report.csn) for report in done.reports] == [("turned", csn)]
    assert world.lake.refresh_all(to=csn).csn == csn
    told: dict[str, Any] = done.as_dict()
    assert told["views"][0]["view"] == "turned"


@pytest.mark.heavy
def test_views_that_share_hold_what_spark_says(make_world: Callable[..., World]) -> None:
    history(make_world, 1, rounds=1)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(2, 10))
def test_views_that_share_hold_what_spark_says_over_many_histories(make_world: Callable[..., World], seed: int) -> None:
    history(make_world, seed, rounds=4)
