"""ORDER BY with LIMIT: the first rows follow from the view's own where these suffice, and from the tables where not."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tests.spark.histories import COLUMNS, commit, rows
from tests.spark.oracle import World

WENT = "first rows went"
OWN, INPUT = "changes among the view's own rows", "from the first rows of its input"
WHOLE = "one key for all rows"

VIEWS = {
    "plain": ("SELECT k, v, s FROM r ORDER BY v DESC, k, s LIMIT 3", OWN),
    "nulls_last": ("SELECT v FROM r ORDER BY v ASC NULLS LAST LIMIT 2", OWN),
    "order_is_not_selected": ("SELECT s FROM r ORDER BY coalesce(v, 0) + coalesce(k, 0) DESC, s LIMIT 3", OWN),
    "sums": ("SELECT k, sum(v) AS t FROM r GROUP BY k ORDER BY t DESC, k LIMIT 2", OWN),
    "a_value_over_them": ("SELECT k * 2 AS d, s FROM (SELECT k, s FROM r ORDER BY k, s LIMIT 4)", OWN),
    "joined": ("SELECT r.k, q.s FROM r JOIN s q ON r.k = q.k ORDER BY q.s DESC, r.k LIMIT 3", OWN),
    "none": ("SELECT k FROM r ORDER BY k LIMIT 0", OWN),
    "offset": ("SELECT k, v FROM r ORDER BY v, k LIMIT 2 OFFSET 1", INPUT),
    "doubles": ("SELECT DOUBLE(v) AS d FROM r ORDER BY d DESC LIMIT 2", WHOLE),
    "filtered": ("SELECT k FROM (SELECT k, v FROM r ORDER BY v DESC, k LIMIT 3) WHERE v > 0", INPUT),
    "counted": ("SELECT count(*) AS n, sum(v) AS t FROM (SELECT v, k FROM r ORDER BY v DESC, k LIMIT 3)", INPUT),
}


@pytest.fixture(scope="module")
def told() -> list[str]:
    return []


@pytest.fixture(scope="module")
def world(make_world: Callable[..., World], told: list[str]) -> World:
    world = make_world("first", progress=told.append)
    world.make("r", COLUMNS, "(1, 10, 'a'), (2, 20, 'b'), (3, 30, 'c'), (4, 40, 'd'), (5, 50, 'e')")
    world.create("top", "SELECT k, v FROM r ORDER BY v DESC, k LIMIT 2")
    return world


def refreshed(world: World, told: list[str], statements: list[str]) -> tuple[int, bool]:
    """Rows that changed in the view, and whether the tables were looked at for what comes up."""
    del told[:]
    for each in statements:
        world.run(each)
    report = world.refresh("top")
    assert report.mode == "incremental"
    world.check_law("top")
    return report.rows, any(WENT in line for line in told)


def test_a_change_further_back_changes_nothing(world: World, told: list[str]) -> None:
    assert refreshed(world, told, ["DELETE FROM {r} WHERE k = 1", "INSERT INTO {r} VALUES (6, 15, 'f')"]) == (0, False)


def test_a_row_that_comes_before_the_last_one_takes_its_place(world: World, told: list[str]) -> None:
    assert refreshed(world, told, ["INSERT INTO {r} VALUES (7, 45, 'g')"]) == (2, False)


def test_one_goes_and_another_comes(world: World, told: list[str]) -> None:
    statements = ["INSERT INTO {r} VALUES (8, 60, 'h')", "DELETE FROM {r} WHERE k = 5"]
    assert refreshed(world, told, statements) == (2, False)


def test_what_comes_up_is_looked_for(world: World, told: list[str]) -> None:
    assert refreshed(world, told, ["DELETE FROM {r} WHERE k = 8"]) == (2, True)


def test_what_comes_up_for_a_while_is_looked_for(world: World, told: list[str]) -> None:
    """In the end the same rows are first, but not at every csn."""
    statements = ["DELETE FROM {r} WHERE k = 7", "INSERT INTO {r} VALUES (7, 45, 'g')"]
    assert refreshed(world, told, statements) == (0, True)


@pytest.mark.heavy
def test_a_copy_of_the_last_row_is_near(world: World, told: list[str]) -> None:
    assert refreshed(world, told, ["INSERT INTO {r} VALUES (4, 40, 'again')"]) == (0, False)
    assert refreshed(world, told, ["DELETE FROM {r} WHERE s = 'g'"])[1]
    assert refreshed(world, told, ["DELETE FROM {r} WHERE s = 'again'"])[1]


@pytest.mark.heavy
def test_fewer_rows_than_wanted_are_all_known(world: World, told: list[str]) -> None:
    assert refreshed(world, told, ["DELETE FROM {r} WHERE k <> 4"])[1]
    assert refreshed(world, told, ["DELETE FROM {r} WHERE true", "INSERT INTO {r} VALUES (1, 1, 'a')"]) == (2, False)
    assert refreshed(world, told, ["INSERT INTO {r} VALUES (2, 2, 'b'), (3, 3, 'c')"]) == (3, False)


QUICK = ("order_is_not_selected", "sums", "offset")


@pytest.mark.parametrize(
    ("seed", "views", "rounds"), [(1, QUICK, 2), pytest.param(2, tuple(VIEWS), 4, marks=pytest.mark.heavy)]
)
def test_random_histories(seed: int, views: tuple[str, ...], rounds: int, make_world: Callable[..., World]) -> None:
    rng = random.Random(seed)
    world = make_world(f"first{seed}")
    for name in ("r", "s"):
        world.make(name, COLUMNS, rows(rng, 6))
    world.look()
    for name in views:
        text, how = VIEWS[name]
        world.create(name, text)
        assert how in str(world.lake.explain(name)), name
    story = []
    for _ in range(rounds):
        story += [commit(rng, world) for _ in range(rng.randint(1, 4))]
        for name in views:
            report = world.refresh(name, label=f"{story}")
            assert report.mode in ("incremental", "none"), report
    for name in views:
        world.check_law(name, label=f"{story}")
