"""What ``versions()`` tells is really read by DuckDB and by delta-rs, and is what Spark reads in the snapshot."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.spark.oracle import World

duckdb = pytest.importorskip("duckdb")
deltalake = pytest.importorskip("deltalake")

PAIRS = "SELECT r.k, r.v, s.w FROM r JOIN s ON r.k = s.k"
TOTALS = "SELECT k, sum(v) AS total, avg(v) AS mean, count(*) AS n FROM r GROUP BY k"
ODD = "SELECT k, v + 1 FROM r"  # a column that Delta stores only with column mapping
VIEWS = {
    "pairs": (PAIRS, ""),
    "past": (PAIRS, "OPTIONS (layout = 'timeline')"),
    "totals": (TOTALS, ""),
    "odd": (ODD, ""),
}


@pytest.fixture(scope="module")
def world(make_world: Callable[..., World]) -> World:
    world = make_world("engines")
    world.make("r", "k int, v int", "(1, 1), (1, 1), (2, 5), (NULL, 7)")
    world.make("s", "k int, w string", "(1, 'a'), (2, NULL)")
    world.look()
    for name, (text, options) in VIEWS.items():
        world.create(name, text, options)
    # MERGE marks rows as deleted in place, which a rewritten view never has.
    world.lake._context.sizes = type(world.lake._context.sizes)(small_view=0)
    world.run("INSERT INTO {r} VALUES (1, 1), (2, 6), (3, 3)")
    world.lake.release()
    world.run("DELETE FROM {r} WHERE v = 5")
    world.run("UPDATE {s} SET w = 'c' WHERE k = 1")
    world.lake.release()
    return world


def spark_rows(snapshot: Any, name: str) -> list[str]:
    return sorted(str(tuple(row)) for row in snapshot.table(name).collect())


@pytest.mark.parametrize("which", [0, 1])
def test_duckdb_reads_what_spark_reads(world: World, which: int) -> None:
    from headwater.bench.mauve.reader import connection

    database = connection()
    with world.lake.snapshot(at=world.lake.releases()[which].csn) as snapshot:
        told = snapshot.versions()
        assert sorted(told) == sorted([*VIEWS, "r", "s"])
        for name, version in told.items():
            rows = database.execute(version.duckdb_sql()).fetchall()
            assert sorted(map(str, rows)) == spark_rows(snapshot, name), name


@pytest.mark.parametrize("which", [0, 1])
def test_delta_rs_reads_what_spark_reads(world: World, which: int) -> None:
    import pyarrow

    with world.lake.snapshot(at=world.lake.releases()[which].csn) as snapshot:
        told = snapshot.versions()
        for name, version in told.items():
            table = deltalake.DeltaTable(version.location, version=version.version)
            query = deltalake.QueryBuilder().register(name, table).execute(version.datafusion_sql())
            found = pyarrow.table(query.read_all())
            rows = [tuple(row.values()) for row in found.to_pylist()]
            assert sorted(map(str, rows)) == spark_rows(snapshot, name), name


def test_a_view_with_deletion_vectors_is_there_to_be_read(world: World) -> None:
    """Else the two tests above would show less than they seem to."""
    with world.lake.snapshot() as snapshot:
        location = snapshot.versions()["past"].location
    detail = world.spark.sql(f"DESCRIBE DETAIL delta.`{location}`").collect()[0]
    assert "deletionVectors" in detail["tableFeatures"]
    from pathlib import Path

    assert list(Path(location).glob("*deletion_vector*"))


def test_another_process_needs_no_spark(world: World) -> None:
    code = (
        "import json, sys, headwater\n"
        "from headwater.bench.mauve.reader import connection\n"
        "lake = headwater.connect(sys.argv[1], create=False)\n"
        "with lake.snapshot() as s:\n"
        "    text = s.versions(['pairs'])['pairs'].duckdb_sql()\n"
        "    print(json.dumps([s.csn, len(connection().execute(text).fetchall())]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, world.lake.location], capture_output=True, text=True, timeout=120, check=True
    )
    with world.lake.snapshot() as snapshot:
        assert json.loads(done.stdout) == [snapshot.csn, snapshot.table("pairs").count()]
