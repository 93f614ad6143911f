"""Small tables that stay as they are while others change are held in memory, and never make a view wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.engine import residents
from headwater.engine.residents import Residents
from tests.spark.oracle import World

if TYPE_CHECKING:
    import pytest
    from pyspark.sql import SparkSession

VIEW = "SELECT o.k, c.name, p.name AS referrer, o.v FROM o JOIN c ON o.c = c.k JOIN c p ON c.by = p.k"


def is_read_from_memory(world: World, name: str, csn: int) -> bool:
    """Whether Spark answers a statement about the table at a csn, of whatever session, from memory."""
    text = f"SELECT name FROM {world.ref(name)} VERSION AS OF {world.version_at(name, csn)} WHERE k > 0"
    plan: str = world.spark.newSession().sql(f"EXPLAIN {text}").collect()[0][0]
    return "InMemoryTableScan" in plan


def orders(world: World, *keys: int) -> int:
    """New orders, refreshed and compared; the csn."""
    values = ", ".join(f"({key}, {1 + key % 3}, {key})" for key in keys)
    world.run(f"INSERT INTO {{o}} VALUES {values}")
    report = world.refresh("v")
    assert report.mode == "incremental"
    return int(report.csn)


def test_a_table_that_stays_is_held_from_the_second_step_on_until_it_changes(make_world: Callable[..., World]) -> None:
    world = make_world("resident")
    world.make("c", "k INT, name STRING, by INT", "(1, 'a', 2), (2, 'b', 1), (2, 'b', 1), (3, NULL, NULL)")
    world.make("o", "k INT, c INT, v INT", "(1, 1, 0), (2, 2, 0)")
    world.create("v", VIEW)
    first = orders(world, 10, 11, 12)
    assert not is_read_from_memory(world, "c", first)  # two leaves of one step are one use
    second = orders(world, 20, 21)
    assert is_read_from_memory(world, "c", second)
    world.run("UPDATE {o} SET v = v + 1 WHERE k = 10")
    world.run("DELETE FROM {o} WHERE k = 21")
    assert world.refresh("v").mode == "incremental"
    # Its own change is computed with what it was before, which is held; afterwards it is another.
    world.run("UPDATE {c} SET name = 'x' WHERE k = 2")
    world.run("INSERT INTO {c} VALUES (1, 'c', 3)")
    world.run("INSERT INTO {o} VALUES (30, 1, 0), (31, 3, 0)")
    changed = world.refresh("v")
    assert changed.mode == "incremental"
    assert not is_read_from_memory(world, "c", changed.csn)
    orders(world, 40)
    assert not is_read_from_memory(world, "c", first)
    last = orders(world, 50)
    assert is_read_from_memory(world, "c", last)
    world.check_law("v")
    world.lake.close()
    assert not is_read_from_memory(world, "c", last)


def test_what_is_held_is_bounded_and_the_last_used_stays(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(residents, "MOST_ROWS", 50)
    monkeypatch.setattr(residents, "MOST_VALUES", 40)
    places = {}
    for name in ("one", "two", "three", "wide", "long"):
        places[name] = str(tmp_path / name)
        columns = ["id", *(f"id AS c{n}" for n in range(60))] if name == "wide" else ["id"]
        spark.range(3).selectExpr(*columns).write.format("delta").save(places[name])
    own = Residents(lambda: spark)

    def held() -> set[str]:
        return {name for name, place in places.items() if own.holds_few(place)}

    def met(name: str, rows: int) -> None:
        own.met(places[name], 0, rows)

    try:
        for name, rows in (("one", 20), ("two", 20), ("three", 20), ("wide", 3), ("long", 51)):
            met(name, rows)
        assert held() == set()
        met("one", 20)
        met("two", 20)
        assert held() == {"one", "two"}
        met("one", 20)  # used again
        met("three", 20)
        assert held() == {"one", "three"}
        met("wide", 3)  # more values than may be held
        met("long", 51)  # more rows
        assert held() == {"one", "three"}
        own.met(places["one"], 1, 20)  # another version
        assert held() == {"three"}
    finally:
        own.close()
    assert held() == set()
