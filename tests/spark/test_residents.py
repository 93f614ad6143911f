"""Small tables that stay as they are while others change are held in memory, and never make a view wrong."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.context import Sizes
from headwater.engine import residents
from headwater.engine.residents import Residents
from headwater.engine.versions import Version, Versions
from tests.spark.oracle import World
from tests.support.bags import assert_bag_equal

if TYPE_CHECKING:
    import pytest
    from pyspark.sql import SparkSession

VIEW = "SELECT o.k, c.name, p.name AS referrer, o.v FROM o JOIN c ON o.c = c.k JOIN c p ON c.by = p.k"


def is_read_from_memory(world: World, name: str, csn: int) -> bool:
    """Whether Spark answers a statement of ours about the table at a csn from memory; nobody else's is."""
    context = world.lake._context
    version = world.version_at(name, csn)
    plain = f"SELECT name FROM {world.ref(name)} VERSION AS OF {version} WHERE k > 0"
    plan: str = world.spark.newSession().sql(f"EXPLAIN {plain}").collect()[0][0]
    assert "InMemoryTableScan" not in plan
    record = context.catalog.base_table(name)
    named = context.engine.versions.named(Version(record.location, record.table_uuid, version))
    plan = context.engine.compute(f"EXPLAIN SELECT name FROM {named} WHERE k > 0").collect()[0][0]
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
    own = Residents(Versions(lambda: spark))

    def held() -> set[str]:
        return {name for name, place in places.items() if own.holds_few(place)}

    def met(name: str, rows: int) -> None:
        own.met(Version(places[name], "id", 0), rows)

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
        spark.range(2).write.format("delta").mode("append").save(places["one"])
        own.met(Version(places["one"], "id", 1), 20)  # another version
        assert held() == {"three"}
        own.met(Version(places["three"], "another", 0), 20)  # another table in its place
        assert held() == set()
        own.met(Version(places["three"], "another", 0), 20)
        assert held() == {"three"}
        nowhere = Version(str(tmp_path / "nowhere"), "id", 0)
        own.met(nowhere, 20)
        own.met(nowhere, 20)  # the statement that needs it tells what is wrong
        assert held() == {"three"}
    finally:
        own.close()
    assert held() == set()


def test_nan_in_a_table_that_is_held_is_found(make_world: Callable[..., World]) -> None:
    """Spark leaves out what it holds by its smallest and largest numbers, among which it does not count NaN."""
    world = make_world("nan")
    world.make("d", "k INT, x DOUBLE, y FLOAT", "(1, double('NaN'), float('NaN')), (2, 1.0D, 1.0F)")
    world.make("f", "k INT, d INT", "(1, 1), (2, 2)")
    world.create("above", "SELECT f.k, d.x FROM f JOIN d ON f.d = d.k WHERE d.x > 5.0")
    world.create("narrow", "SELECT f.k, d.y FROM f JOIN d ON f.d = d.k WHERE d.y > 5.0")
    for key in (10, 20, 30):
        world.run(f"INSERT INTO {{f}} VALUES ({key}, 1), ({key + 1}, 2)")
        for view in world.views:
            assert world.refresh(view).mode == "incremental"
    world.run("DELETE FROM {f} WHERE k < 15")
    for view in world.views:
        assert world.refresh(view).mode == "incremental"
        world.check_law(view)


def test_nan_in_changes_that_are_kept_is_found(make_world: Callable[..., World]) -> None:
    world = make_world("nan changes")
    world.lake._context.sizes = Sizes(large_table=2)
    world.make("t", "k INT, p INT, x DOUBLE", "(1, 1, 1.0D), (2, 1, 7.0D), (3, 2, double('NaN'))")
    world.create("pairs", "SELECT a.k, b.k AS other, a.x FROM t a JOIN t b ON a.k = b.p WHERE a.x > 5.0")
    world.run("INSERT INTO {t} VALUES (9, 9, double('NaN')), (9, 9, double('NaN'))")
    assert world.refresh("pairs").mode == "incremental"
    world.run("UPDATE {t} SET x = double('NaN'), p = 3 WHERE k = 1")
    assert world.refresh("pairs").mode == "incremental"
    world.run("DELETE FROM {t} WHERE k = 9")
    assert world.refresh("pairs").mode == "incremental"
    world.check_law("pairs")


def test_a_held_table_that_another_is_put_in_the_place_of_is_not_read_any_more(
    make_world: Callable[..., World],
) -> None:
    """The versions of the new table are numbered as those of the old one were."""
    world = make_world("replaced resident")
    world.make("c", "k INT, name STRING", "(1, 'a'), (2, 'b')")
    world.make("o", "k INT, c INT", "(1, 1), (2, 2)")
    text = "SELECT o.k, c.name FROM o JOIN c ON o.c = c.k"
    world.create("v", text)
    for key in (10, 20, 30):
        world.run(f"INSERT INTO {{o}} VALUES ({key}, 1)")
        world.refresh("v")
    assert is_read_from_memory(world, "c", world.newest_csn())
    shutil.rmtree(world.path("c"))
    properties = "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
    world.spark.sql(f"CREATE TABLE {world.ref('c')} (k INT, name STRING) USING DELTA {properties}")
    world.spark.sql(f"INSERT INTO {world.ref('c')} VALUES (1, 'new'), (3, 'other')")
    world.lake.resync("c")
    for key in (40, 50, 60):
        world.spark.sql(f"INSERT INTO {world.ref('o')} VALUES ({key}, {key // 20 + 1})")
        world.lake.refresh("v")
        tables = {name: world.ref(name) for name in ("o", "c")}
        now = text.replace("FROM o JOIN c", f"FROM {tables['o']} o JOIN {tables['c']} c")
        assert_bag_equal(world.lake.read("v"), world.spark.sql(now))
