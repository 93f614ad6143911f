"""Changes of Delta tables that a view answers for by its own rows; tiny tables are taken for large ones."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headwater.context import Sizes
from tests.spark.oracle import World

SHOWN = "SELECT o.k, o.line, o.v, o.v + 1 AS more, c.k AS customer, c.name FROM o JOIN c ON o.c = c.k WHERE o.line < 9"


def made(make_world: Callable[..., World], name: str, options: str = "CLUSTER BY (k)") -> World:
    world = make_world(name)
    orders = ", ".join(f"({k}, {line}, {k % 5}, {k * line})" for k in range(20) for line in range(2))
    world.make("o", "k BIGINT, line INT, c INT, v INT", orders)
    world.make("c", "k INT, name STRING", "(0, 'ann'), (1, 'bob'), (2, NULL), (3, 'dan')")
    world.look()
    world.lake.declare("o", primary_key=["k", "line"])
    world.lake.declare("c", primary_key="k")
    assert all(each.holds for each in world.lake.verify())
    world.lake._context.sizes = Sizes(large_table=1, small_view=0)
    world.create("v", SHOWN, options)
    return world


def blocks(world: World) -> list[dict[str, Any]]:
    """What the last propagation step of the view says of how it went."""
    catalog = world.lake._context.catalog
    (step,) = catalog.done_steps(catalog.view("v").view_id, "propagate", limit=1)
    return (step.outcome or {})["blocks"]  # type: ignore[no-any-return]


def test_updates_and_deletions_by_a_shown_key_read_no_other_table(make_world: Callable[..., World]) -> None:
    """Whose files are away meanwhile."""
    world = made(make_world, "told")
    away = [(place, place.with_suffix(".away")) for place in Path(world.path("c")).glob("*.parquet")]
    for here, there in away:
        shutil.move(here, there)
    for statement in ("UPDATE {o} SET v = v + 1 WHERE k = 3", "DELETE FROM {o} WHERE k IN (4, 5) AND line = 1"):
        world.run(statement)
        assert world.lake.refresh("v").mode == "incremental"
        assert [block["strategy"] for block in blocks(world)] == ["own rows"]
    for here, there in away:
        shutil.move(there, here)
    world.check_law("v")
    assert "own rows" in str(world.lake.explain("v"))


def test_new_keys_and_columns_of_conditions_are_joined_as_ever(make_world: Callable[..., World]) -> None:
    world = made(make_world, "mixed")
    world.run(
        "MERGE INTO {o} AS t USING (SELECT * FROM VALUES (1L, 0, 3, 70), (2L, 1, 2, 80), (90L, 0, 1, 90), "
        "(1L, 1, 1, 1) AS s (k, line, c, v)) AS s ON t.k = s.k AND t.line = s.line "
        "WHEN MATCHED THEN UPDATE SET c = s.c, v = s.v WHEN NOT MATCHED THEN INSERT *"
    )
    world.refresh("v")
    assert [block["strategy"] for block in blocks(world)] == ["own rows"]
    world.run("INSERT INTO {o} VALUES (91, 0, 1, 1)")
    world.refresh("v")
    assert [block["strategy"] for block in blocks(world)] == ["n-term"]
    # Both changed, the view is not kept in the order of customers, and one commit takes back what the other did.
    world.run("UPDATE {c} SET name = 'eve' WHERE k = 1")
    world.run("UPDATE {o} SET v = 0 WHERE k = 1")
    world.refresh("v")
    world.run("UPDATE {c} SET name = 'fay' WHERE k = 1")
    world.refresh("v")
    assert [block["strategy"] for block in blocks(world)] == ["n-term"]
    world.check_law("v")


@pytest.mark.heavy
def test_a_small_view_answers_by_any_key_that_it_shows(make_world: Callable[..., World]) -> None:
    world = made(make_world, "small", "")
    world.lake._context.sizes = Sizes(large_table=40, small_view=0)
    world.run("DELETE FROM {o} WHERE k < 10")
    world.refresh("v")
    world.lake._context.statistics.forget(world.lake._context.catalog.base_table("o").location)
    world.run("UPDATE {c} SET name = upper(name)")
    world.refresh("v")
    assert [block["strategy"] for block in blocks(world)] == ["n-term"]  # orders are few by now
    world.lake._context.sizes = Sizes(large_table=19, small_view=0)
    world.run("UPDATE {c} SET name = lower(name) WHERE k < 3")
    world.refresh("v")
    assert [block["strategy"] for block in blocks(world)] == ["own rows"]
    world.check_law("v")


@pytest.mark.heavy
def test_a_key_that_the_data_breaks_is_not_relied_on(make_world: Callable[..., World]) -> None:
    world = made(make_world, "broken")
    world.run("INSERT INTO {o} VALUES (3, 0, 1, 5)")
    world.run("UPDATE {o} SET v = 6 WHERE v = 5 AND k = 3")
    world.refresh("v")
    broken = {each.name: each.broken for each in world.lake.constraints("o")}
    assert broken["o_pkey"] is not None
    world.run("DELETE FROM {o} WHERE v = 6")
    world.refresh("v")
    assert [block["strategy"] for block in blocks(world)] == ["n-term"]
    world.check_law("v")


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(2))
def test_random_histories(make_world: Callable[..., World], seed: int) -> None:
    world = made(make_world, f"random {seed}")
    chosen = random.Random(seed)
    told = 0
    for number in range(5):
        for _ in range(chosen.randint(1, 3)):
            k, line, c = chosen.randint(0, 21), chosen.randint(0, 1), chosen.choice(["0", "1", "9", "NULL"])
            there = f"(SELECT 1 FROM {{o}} WHERE k = {k} AND line = {line})"
            statements = [
                f"UPDATE {{o}} SET v = v + {number} WHERE k = {k}",
                f"UPDATE {{o}} SET v = NULL WHERE k < {k}",
                f"UPDATE {{o}} SET c = {c} WHERE k = {k}",
                f"DELETE FROM {{o}} WHERE k = {k} AND line = {line}",
                f"INSERT INTO {{o}} SELECT {k}, {line}, {c}, {number} WHERE NOT EXISTS {there}",
            ]
            world.run(chosen.choice(statements))
        world.refresh("v")
        told += bool(blocks(world)) and blocks(world)[0]["strategy"] == "own rows"
    assert told
    world.check_law("v")
