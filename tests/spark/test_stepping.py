"""A change meets large tables one at a time, and reads of them what it needs; tiny tables are taken for large ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.context import Sizes
from tests.spark.oracle import World

HIGH = (0, 1000, 2000, 3000)


def test_a_node_that_two_changed_tables_meet_is_limited_by_each_of_them_alone(make_world: Callable[..., World]) -> None:
    """What one of the queries needs of the node was once all that the other one got."""
    world = make_world("limited")
    world.make("a", "k INT, v INT", "(1, 10), (2, 20), (3, 30), (3, 31), (NULL, 5)")
    world.make("b", "k INT, w INT", "(1, 100), (2, 200), (3, 300)")
    world.make("c", "k INT, n INT", "(1, 1), (2, 2), (2, 3), (3, 3), (NULL, 4)")
    world.look()
    world.create(
        "v",
        "SELECT a.k, v, w, total FROM a JOIN b ON a.k = b.k "
        "JOIN (SELECT k, count(*) AS total, max(n) AS most FROM c GROUP BY k) s ON s.k = a.k AND s.k = b.k",
    )
    world.lake._context.sizes = Sizes(large_table=1)
    for statements in (
        ["INSERT INTO {a} VALUES (1, 11)", "INSERT INTO {b} VALUES (2, 201)"],
        ["DELETE FROM {a} WHERE v = 31", "UPDATE {b} SET w = w + 1 WHERE k = 1", "INSERT INTO {c} VALUES (3, 9)"],
        [
            "UPDATE {a} SET k = 2 WHERE k = 3",
            "INSERT INTO {b} VALUES (2, 202), (3, 301)",
            "DELETE FROM {c} WHERE n = 1",
        ],
    ):
        for statement in statements:
            world.run(statement)
        assert world.refresh("v").mode == "incremental"
    world.check_law("v")


def test_many_csns_are_gone_through_in_steps(make_world: Callable[..., World]) -> None:
    """The rows of a touched key are had at each csn, from all changes up to there: that is quadratic."""
    world = make_world("csns")
    world.make("a", "k INT, v INT", "(1, 10), (2, 20), (NULL, 5)")
    world.make("b", "k INT, w INT", "(1, 100), (2, 200), (3, 300)")
    world.look()
    world.create("v", "SELECT b.w, max(v) AS most FROM b LEFT JOIN a ON a.k = b.k GROUP BY b.w")
    world.lake._context.sizes = Sizes(csns=2)
    for number in range(3):
        world.run(f"INSERT INTO {{a}} VALUES (3, {number}), (1, {number + 11})")
        world.run(f"UPDATE {{b}} SET w = w + 1 WHERE k = {number + 1}")
    world.run("DELETE FROM {a} WHERE k = 3")
    report = world.refresh("v")
    assert (report.mode, report.csn - report.from_csn) == ("incremental", 7)
    catalog = world.lake._context.catalog
    steps = catalog.done_steps(catalog.view("v").view_id, "propagate", limit=10)
    assert [step.intent["after"][0] - step.intent["before"][0] for step in steps] == [1, 2, 2, 2]
    world.check_law("v")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT big.k, small.v, big.w FROM small JOIN big ON small.k = big.k",
        "SELECT g, sum(w) AS total, max(w) AS most FROM big WHERE k IN (SELECT k FROM small) GROUP BY g",
    ],
    ids=["join", "touched keys"],
)
def test_files_without_a_key_of_the_change_are_not_read(make_world: Callable[..., World], sql: str) -> None:
    """They are taken away before the refresh, which does not notice."""
    world = make_world("files")
    world.make("small", "k BIGINT, v INT", "(5, 1), (2003, 2), (NULL, 3)")
    world.make("big", "k BIGINT, g BIGINT, w INT")
    for first in HIGH:
        values = ", ".join(f"({first + n}, {first + n}, {n})" for n in range(10))
        world.run(f"INSERT INTO {{big}} VALUES {values}")
    world.lake.capture()
    world.create("v", sql)
    world.lake._context.sizes = Sizes(large_table=1)
    world.run("INSERT INTO {small} VALUES (3, 30)")
    assert world.refresh("v").mode == "incremental"
    for place in Path(world.path("big")).glob("*.parquet"):
        keys = {row.k for row in world.spark.read.parquet(str(place)).collect()}
        if not keys & set(range(2000, 2010)):
            place.unlink()
    world.run("INSERT INTO {small} VALUES (2005, 50), (2006, 60), (NULL, 1)")
    assert world.refresh("v").mode == "incremental"
    world.run("DELETE FROM {small} WHERE k = 2003")
    assert world.refresh("v").mode == "incremental"


UNITED = (
    "SELECT a.k, a.x, u.v FROM a JOIN (SELECT k, v, 'b' AS tag FROM b UNION ALL SELECT k, v, 'c' AS tag FROM c) u "
    "ON a.k = u.k AND a.tag = u.tag"
)


@pytest.mark.parametrize("known", [False, True], ids=["tree", "fates"])
def test_a_table_beside_a_union_that_is_told_apart_by_a_tag(make_world: Callable[..., World], known: bool) -> None:
    """One product of the union once got the changes that the other's tag had left."""
    world = make_world("united")
    world.make("a", "k INT, tag STRING, x INT", "(1, 'b', 10), (2, 'c', 20)")
    world.make("b", "k INT, v INT", "(1, 100)")
    world.make("c", "k INT, v INT", "(2, 200)")
    if known:
        world.lake.declare("a", primary_key="k")
        world.lake.declare("b", foreign_key={"k": "a.k"})
        world.lake.declare("c", foreign_key={"k": "a.k"})
    world.create("v", UNITED, "" if known else "OPTIONS (strategy = 'tree')")
    assert all(each.holds for each in world.lake.verify())
    world.lake._context.sizes = Sizes(large_table=1, checked=0)
    world.run("UPDATE {a} SET x = x + 1")
    assert world.refresh("v").mode == "incremental"
    world.run("INSERT INTO {a} VALUES (3, 'b', 30), (4, 'c', 40)")
    world.run("INSERT INTO {b} VALUES (3, 300), (4, 400)")
    world.run("INSERT INTO {c} VALUES (3, 301), (4, 401)")
    assert world.refresh("v").mode == "incremental"
    world.check_law("v")
