"""What ``versions()`` tells is really read by DuckDB and by delta-rs, and is what Spark reads in the snapshot."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.spark.oracle import World

duckdb = pytest.importorskip("duckdb")
deltalake = pytest.importorskip("deltalake")

VIEWS = {
    # Hidden columns, deletion vectors, rows of other moments.
    "totals": ("SELECT k, sum(v) AS total, count(*) AS n FROM r GROUP BY k", "OPTIONS (layout = 'timeline')"),
    # A column that Delta stores only with column mapping; a row that stands more than once.
    "odd": ("SELECT k, v + 1 FROM r", ""),
}


@pytest.fixture(scope="module")
def world(make_world: Callable[..., World]) -> World:
    world = make_world("engines")
    world.make("r", "k int, v int", "(1, 1), (1, 1), (2, 5), (NULL, 7)")
    for name, (text, options) in VIEWS.items():
        world.create(name, text, options)
    # MERGE marks rows as deleted in place, which a rewritten view never has.
    world.lake._context.sizes = type(world.lake._context.sizes)(small_view=0)
    world.lake.set_retention(count=2)
    world.run("INSERT INTO {r} VALUES (1, 1), (2, 6), (3, 3)")
    world.lake.release()
    world.run("DELETE FROM {r} WHERE v IN (1, 5)")
    world.lake.release()
    return world


def by_duckdb(version: Any) -> list[str]:
    from headwater.bench.mauve.reader import connection

    return sorted(map(str, connection().execute(version.duckdb_sql()).fetchall()))


def by_delta_rs(version: Any) -> list[str]:
    import pyarrow

    table = deltalake.DeltaTable(version.location, version=version.version)
    query = deltalake.QueryBuilder().register(version.name, table).execute(version.datafusion_sql())
    found = pyarrow.table(query.read_all())
    return sorted(map(str, zip(*(column.to_pylist() for column in found.columns), strict=True)))


def test_other_engines_read_what_spark_reads(world: World) -> None:
    for release in world.lake.releases():
        with world.lake.snapshot(at=release.csn) as snapshot:
            told = snapshot.versions()
            assert sorted(told) == ["odd", "r", "totals"]
            for name, version in told.items():
                expected = sorted(str(tuple(row)) for row in snapshot.table(name).collect())
                assert by_duckdb(version) == expected, name
                assert by_delta_rs(version) == expected, name


def test_the_views_have_what_makes_reading_hard(world: World) -> None:
    """Else the test above would show less than it seems to."""
    with world.lake.snapshot() as snapshot:
        told = snapshot.versions()
    features = {
        name: world.spark.sql(f"DESCRIBE DETAIL delta.`{told[name].location}`").collect()[0]["tableFeatures"]
        for name in VIEWS
    }
    assert "columnMapping" in features["odd"]
    assert all("deletionVectors" in each for each in features.values())
    assert all(list(Path(told[name].location).rglob("*deletion_vector*")) for name in VIEWS)


def test_another_process_needs_no_spark(world: World) -> None:
    code = (
        "import json, sys, headwater\n"
        "from headwater.bench.mauve.reader import connection\n"
        "lake = headwater.connect(sys.argv[1], create=False)\n"
        "with lake.snapshot() as s:\n"
        "    text = s.versions(['odd'])['odd'].duckdb_sql()\n"
        "    print(json.dumps([s.csn, len(connection().execute(text).fetchall())]))\n"
    )
    environment = {"PYTHONPATH": ":".join(sys.path), "JAVA_HOME": "/nowhere", "PATH": "/nowhere"}
    done = subprocess.run(
        [sys.executable, "-c", code, world.lake.location],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        env=environment,
    )
    newest = world.lake.releases()[-1].csn
    assert json.loads(done.stdout) == [newest, world.expected(VIEWS["odd"][0], newest).count()]


@pytest.mark.heavy
def test_what_a_collection_leaves_of_a_timeline_is_read_alike(world: World) -> None:
    world.lake.set_retention(count=1)
    newest = world.lake.releases()[-1].csn
    report = world.lake.collect()
    assert (report.kept_from, report.views) == (newest, ("odd", "totals"))
    with world.lake.snapshot() as snapshot:
        version = snapshot.versions()["totals"]
        expected = sorted(str(tuple(row)) for row in world.expected(VIEWS["totals"][0], newest).collect())
        assert by_duckdb(version) == expected
    world.run("INSERT INTO {r} VALUES (2, 8)")
    world.refresh("totals")
    world.refresh("totals", to=newest)
