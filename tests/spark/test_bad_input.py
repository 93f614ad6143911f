"""Bad input: each is a HeadwaterError with a code and a way out, and leaves nothing half made."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import headwater
from headwater.errors import (
    CatalogUnavailable,
    HeadwaterError,
    InvalidInput,
    LakeTooNew,
    NameTaken,
    NotALake,
    SqlAnalysisError,
    SqlSyntaxError,
    StorageFull,
    UnknownName,
)
from tests.spark.oracle import FEED, World
from tests.spark.test_sql_front_end import left_behind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def world(make_world: Callable[..., World]) -> World:
    world = make_world("bad_input")
    world.make("orders", "k INT, v INT", "(1, 1)")
    world.make("customers", "k INT, w INT", "(1, 10)")
    world.create("totals", "SELECT orders.k, v, w FROM orders JOIN customers USING (k)")
    return world


def failing(world: World, kind: type[HeadwaterError], call: Callable[[], object]) -> HeadwaterError:
    before = left_behind(world), world.lake.status().tables
    with pytest.raises(kind) as caught:
        call()
    assert (left_behind(world), world.lake.status().tables) == before
    assert caught.value.code in str(caught.value)
    return caught.value


def test_unknown_names_come_with_suggestions(world: World) -> None:
    lake = world.lake
    for call in (
        lambda: lake.refresh("total"),
        lambda: lake.propagate("total"),
        lambda: lake.read("total"),
        lambda: lake.explain("total"),
        lambda: lake.set_width("total", "orders", rows=1),
        lambda: lake.sql("DROP MATERIALIZED VIEW total"),
        lambda: lake.sql("REFRESH MATERIALIZED VIEW total"),
        lambda: lake.sql("EXPLAIN MATERIALIZED VIEW total"),
    ):
        error = failing(world, UnknownName, call)
        assert "totals" in str(error)
    for call in (lambda: lake.untrack("order"), lambda: lake.resync("order")):
        assert "orders" in str(failing(world, UnknownName, call))
    error = failing(world, UnknownName, lambda: lake.set_width("totals", "order", rows=1))
    assert "orders" in str(error)
    assert lake.sql("DROP MATERIALIZED VIEW IF EXISTS total").collect()[0]["dropped"] is False


def test_a_taken_name_is_taken_whatever_its_case_and_kind(world: World) -> None:
    lake = world.lake
    for name in ("totals", "Totals", "orders", "ORDERS"):
        failing(
            world, NameTaken, lambda name=name: lake.sql(f"CREATE MATERIALIZED VIEW {name} AS SELECT k FROM orders")
        )
        failing(world, NameTaken, lambda name=name: lake.track(name, world.path("orders")))
    made = lake.sql("CREATE MATERIALIZED VIEW IF NOT EXISTS TOTALS AS SELECT k FROM orders").collect()[0]
    assert made["created"] is False
    assert world.lake.read("totals").columns == ["k", "v", "w"]
    failing(
        world,
        NameTaken,
        lambda: lake.sql("CREATE MATERIALIZED VIEW IF NOT EXISTS orders AS SELECT k FROM orders"),
    )


SYNTAX = [
    # statement, line and column of the place, counted from 1 in the whole statement
    ("CREATE MATERIALIZED VIEW x AS\nSELECT k\nFROM orders\nWHERE k = = 1", 4, 11),
    ("CREATE MATERIALIZED VIEW x AS SELECT k FROM orders WHERE (k = 1", 1, None),
    ("CREATE MATERIALIZED VIEW x\nSELECT k FROM orders", 2, 1),
    ("CREATE MATERIALIZED VIEW x OPTIONS (width '5 csn') AS SELECT k FROM orders", 1, 43),
    ("CREATE VIEW x AS SELECT k FROM orders", 1, 8),
    ("CREATE MATERIALIZED VIEW a.b AS SELECT k FROM orders", 1, None),
    ("CREATE MATERIALIZED VIEW x AS", None, None),
    ("CREATE MATERIALIZED VIEW x AS SELECT k FROM orders; SELECT 1", None, None),
    ("REFRESH MATERIALIZED VIEW totals TO CSN 'one'", 1, 41),
    ("REFRESH MATERIALIZED VIEW totals TO NOON", 1, 37),
    ("DROP MATERIALIZED VIEW totals CASCADE", 1, 31),
    ("DELETE FROM orders", 1, 1),
    ("  ", None, None),
    ("CREATE MATERIALIZED VIEW x AS SELECT 'open FROM orders", None, None),
]


@pytest.mark.parametrize(("statement", "line", "column"), SYNTAX, ids=[s for s, _, _ in SYNTAX])
def test_sql_that_does_not_parse(statement: str, line: int | None, column: int | None, world: World) -> None:
    error = failing(world, SqlSyntaxError, lambda: world.lake.sql(statement))
    assert isinstance(error, SqlSyntaxError)
    assert line is None or error.line == line, str(error)
    assert column is None or error.column == column, str(error)


ANALYSIS = [
    ("CREATE MATERIALIZED VIEW x AS\nSELECT k,\n       nosuch\nFROM orders", 3, 8, "nosuch"),
    ("CREATE MATERIALIZED VIEW x\nOPTIONS (width = '1 csn')\nAS SELECT o.k, o.w FROM orders o", 3, 16, "w"),
    ("CREATE MATERIALIZED VIEW x AS\nSELECT k\nFROM nosuch", 3, 6, "nosuch"),
    ("CREATE MATERIALIZED VIEW x AS SELECT k FROM orders JOIN customers ON orders.k = customers.k", 1, 38, "k"),
    ("CREATE MATERIALIZED VIEW x AS\nSELECT k, upper(k, 3) AS u FROM orders", 2, 11, "upper"),
    ("CREATE MATERIALIZED VIEW x AS SELECT k FROM orders UNION ALL SELECT k, w FROM customers", 1, None, ""),
    ("CREATE MATERIALIZED VIEW x AS SELECT no_such_function(k) AS u FROM orders", 1, 38, "no_such_function"),
    ("CREATE MATERIALIZED VIEW x AS SELECT k FROM delta.`/tmp/nowhere`", 1, None, ""),
]


@pytest.mark.parametrize(("statement", "line", "column", "named"), ANALYSIS, ids=[s for s, _, _, _ in ANALYSIS])
def test_sql_that_does_not_analyse(statement: str, line: int, column: int | None, named: str, world: World) -> None:
    error = failing(world, SqlAnalysisError, lambda: world.lake.sql(statement))
    assert isinstance(error, SqlAnalysisError)
    assert error.line == line, str(error)
    assert column is None or error.column == column, str(error)
    assert named in error.message
    assert error.remedy


def test_bad_options(world: World) -> None:
    for options, named in (
        ("OPTIONS (width = 'many')", "many"),
        ("OPTIONS (width = '0 rows')", "0 rows"),
        ("OPTIONS ('width.nosuch' = '1 csn')", "nosuch"),
        ("OPTIONS (method = 'magic')", "magic"),
        ("OPTIONS (colour = 'red')", "colour"),
        ("CLUSTER BY (nosuch)", "nosuch"),
    ):
        statement = f"CREATE MATERIALIZED VIEW x {options} AS SELECT k FROM orders"
        error = failing(world, InvalidInput, lambda statement=statement: world.lake.sql(statement))
        assert named in error.message
        assert error.remedy
    twice = "CREATE MATERIALIZED VIEW x OPTIONS (width='1 csn', width='2 csn') AS SELECT k FROM orders"
    failing(world, SqlSyntaxError, lambda: world.lake.sql(twice))
    for arguments in ({"rows": 0}, {"csns": -1}, {"rows": 1, "csns": 1}):
        failing(world, InvalidInput, lambda arguments=arguments: world.lake.set_width("totals", "orders", **arguments))
    failing(world, InvalidInput, lambda: world.lake.track("a b", world.path("orders")))
    failing(world, InvalidInput, lambda: world.lake.track("", world.path("orders")))
    failing(world, InvalidInput, lambda: world.lake.track("x", world.path("orders"), mode="fast"))


def test_a_table_that_a_view_uses_stays_tracked(world: World) -> None:
    error = failing(world, HeadwaterError, lambda: world.lake.untrack("orders"))
    assert "totals" in str(error)
    assert error.remedy
    world.run("INSERT INTO {orders} VALUES (1, 2)")
    assert world.refresh("totals").mode == "incremental"


# ---------------------------------------------------------------------- lakes


def test_a_lake_that_is_none(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("not a lake")
    with pytest.raises(NotALake) as caught:
        headwater.connect(file, spark=spark)
    assert caught.value.remedy
    with pytest.raises(NotALake):
        headwater.connect(file / "below", spark=spark)
    with pytest.raises(HeadwaterError):
        headwater.connect(tmp_path / "missing", spark=spark, create=False)
    assert not (tmp_path / "missing").exists()
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "catalog.db").write_bytes(b"this is not a database, and quite long enough to be read as one" * 20)
    with pytest.raises(HeadwaterError) as damaged:
        headwater.connect(broken, spark=spark)
    assert damaged.value.remedy
    with pytest.raises(InvalidInput):
        headwater.connect("s3://bucket/lake", spark=spark)  # needs a catalog of its own


def test_a_lake_of_a_newer_version_is_left_alone(spark: SparkSession, tmp_path: Path) -> None:
    headwater.connect(tmp_path / "lake", spark=spark).close()
    file = tmp_path / "lake" / "catalog.db"
    with sqlite3.connect(file) as database:
        columns = [row[1] for row in database.execute("PRAGMA table_info(hw_lake)")]
        version = next(name for name in columns if "version" in name)
        database.execute(f"UPDATE hw_lake SET {version} = 999")  # the newest that this release does not know
    with pytest.raises(LakeTooNew) as caught:
        headwater.connect(tmp_path / "lake", spark=spark)
    assert "999" in caught.value.message
    assert caught.value.remedy
    with sqlite3.connect(file) as database:
        assert database.execute(f"SELECT {version} FROM hw_lake").fetchone() == (999,)


# ---------------------------------------------------------------------- a full disk


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 MiB, where we may mount one."""
    place = tmp_path / "disk"
    place.mkdir()
    mount, unmount = shutil.which("mount"), shutil.which("umount")
    command = [str(mount), "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(place)]
    if mount is None or os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("needs the right to mount a small file system")
    try:
        yield place
    finally:
        subprocess.run([str(unmount), "-l", str(place)], check=False)


def fill(disk: Path) -> Path:
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as output:
        for size in (65536, 1024, 1):
            with suppress(OSError):
                while True:
                    output.write(b"\0" * size)
    return filler


def test_a_full_disk(spark: SparkSession, tmp_path: Path, small_disk: Path) -> None:
    lake = headwater.connect(small_disk / "lake", spark=spark)
    world = World(spark, lake, tmp_path)
    world.make("a", "k INT, v STRING", "(1, 'x')")
    world.create("v", "SELECT k, v FROM a")
    world.run("INSERT INTO {a} SELECT id, uuid() FROM range(2000)")
    before = left_behind(world)
    filler = fill(small_disk)
    for call in (
        lambda: lake.sql("CREATE MATERIALIZED VIEW w AS SELECT k FROM a"),
        lambda: lake.refresh("v"),
        lambda: lake.refresh("v"),
    ):
        with pytest.raises((StorageFull, CatalogUnavailable)) as caught:
            call()
        assert caught.value.remedy
        assert isinstance(caught.value, StorageFull), str(caught.value)
    world.check("v", at=0)
    filler.unlink()
    # Space is there again: everything goes on as if nothing had been.
    assert world.refresh("v").mode == "incremental"
    world.create("w", "SELECT k FROM a")
    world.check("w")
    after = left_behind(world)
    assert len(after[0]) == len(before[0]) + 1
    assert len(after[1]) == len(before[1]) + 1
    world.run("DELETE FROM {a} WHERE k > 5")
    assert world.refresh("v").mode == "incremental"
    lake.close()


def test_nothing_of_a_table_without_feed_is_kept(world: World) -> None:
    """CREATE on a table that was tracked and then lost its feed: told, and nothing made."""
    world.make("fading", "k INT", "(1)")
    world.run("ALTER TABLE {fading} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'false')")
    error = failing_after_capture(world, lambda: world.lake.sql("CREATE MATERIALIZED VIEW x AS SELECT k FROM fading"))
    assert error.code == "CHANGE_FEED_DISABLED"
    world.lake.untrack("fading")
    del world.tables["fading"]
    shutil.rmtree(world.path("fading"))
    world.spark.sql(f"CREATE TABLE {world.ref('fading')} (k INT) USING delta {FEED}")


def failing_after_capture(world: World, call: Callable[[], object]) -> HeadwaterError:
    """As ``failing``, where the call may note a table's problem."""
    before = left_behind(world)
    with pytest.raises(HeadwaterError) as caught:
        call()
    assert left_behind(world) == before
    assert caught.value.remedy
    return caught.value
