"""A version of a table is looked up once, under a name of the thread that needs it."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.engine import versions
from headwater.engine.versions import Version, Versions
from tests.spark.oracle import World
from tests.support.bags import assert_bag_equal

if TYPE_CHECKING:
    import pytest
    from pyspark.sql import SparkSession


def write(spark: SparkSession, place: Path, *rows: int) -> None:
    frame = spark.createDataFrame([(row,) for row in rows], "k int")
    frame.coalesce(1).write.format("delta").mode("append").save(str(place))


def rows_under(spark: SparkSession, name: str | None) -> list[int]:
    assert name is not None
    return sorted(row[0] for row in spark.sql(f"SELECT k FROM {name}").collect())


def test_a_version_keeps_its_rows_and_its_name(spark: SparkSession, tmp_path: Path) -> None:
    own, place = Versions(lambda: spark), tmp_path / "t"
    write(spark, place, 1)
    write(spark, place, 2)
    first, second = (own.named(Version(str(place), "id", version)) for version in (0, 1))
    write(spark, place, 3)
    assert rows_under(spark, first) == [1]
    assert rows_under(spark, second) == [1, 2]
    assert own.named(Version(str(place), "id", 0)) == first


def test_a_table_put_in_the_place_of_another_is_another(spark: SparkSession, tmp_path: Path) -> None:
    own, place = Versions(lambda: spark), tmp_path / "t"
    write(spark, place, 1)
    before = own.named(Version(str(place), "one", 0))
    shutil.rmtree(place)
    write(spark, place, 7, 8)
    after = own.named(Version(str(place), "other", 0))
    assert before != after
    assert rows_under(spark, after) == [7, 8]


def test_what_can_not_be_had_has_no_name(spark: SparkSession, tmp_path: Path) -> None:
    own, place = Versions(lambda: spark), tmp_path / "t"
    assert own.named(Version(str(place), "id", 0)) is None
    write(spark, place, 1)
    assert own.named(Version(str(place), "id", 5)) is None
    assert rows_under(spark, own.named(Version(str(place), "id", 0))) == [1]


def test_the_last_used_stay_and_each_thread_has_names_of_its_own(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions, "MOST", 2)
    own, place = Versions(lambda: spark), tmp_path / "t"
    for row in range(3):
        write(spark, place, row)
    names = [own.named(Version(str(place), "id", version)) for version in (0, 1, 2)]
    assert own.named(Version(str(place), "id", 0)) == names[0]
    assert all(spark.catalog.tableExists(str(name)) for name in names)
    own.trim()
    assert [spark.catalog.tableExists(str(name)) for name in names] == [True, False, True]
    other: list[str | None] = []
    thread = threading.Thread(target=lambda: other.append(own.named(Version(str(place), "id", 0))))
    thread.start()
    thread.join()
    assert other[0] not in names
    assert rows_under(spark, other[0]) == [0]


def test_a_view_stays_right_when_a_table_of_it_is_put_in_the_place_of_another(make_world: Callable[..., World]) -> None:
    """The versions of the new table are numbered as those of the old one were."""
    world = make_world("versions")
    world.make("c", "k INT, name STRING", "(1, 'a'), (2, 'b')")
    world.make("o", "k INT, c INT", "(1, 1), (2, 2)")
    world.create("v", "SELECT o.k, c.name FROM o JOIN c ON o.c = c.k")
    world.run("INSERT INTO {o} VALUES (3, 1)")
    world.run("INSERT INTO {c} VALUES (3, 'c')")
    assert world.refresh("v").mode == "incremental"
    place, orders, customers = world.path("o"), world.ref("o"), world.ref("c")
    shutil.rmtree(place)
    properties = "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
    world.spark.sql(f"CREATE TABLE {orders} (k INT, c INT) USING DELTA {properties}")
    world.spark.sql(f"INSERT INTO {orders} VALUES (10, 1), (11, 3)")
    world.lake.resync("o")
    world.spark.sql(f"INSERT INTO {orders} VALUES (12, 2)")
    world.spark.sql(f"UPDATE {customers} SET name = 'x' WHERE k = 1")
    world.lake.refresh("v")
    world.spark.sql(f"DELETE FROM {orders} WHERE k = 11")
    assert world.lake.refresh("v").mode == "incremental"
    now = world.spark.sql(f"SELECT o.k, c.name FROM {orders} o JOIN {customers} c ON o.c = c.k")
    assert_bag_equal(world.lake.read("v"), now)
