"""Releases, snapshots, retention and staleness on the command line; what is read from the catalog needs no Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headwater.algebra.time import Csn
from tests.cli.conftest import Run
from tests.serve.fake_lake import FakeLake, HandClock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The catalog of a lake with two releases; its tables are nowhere."""
    made = FakeLake(tmp_path, HandClock())
    made.create("v")
    made.step(2)
    made.step(1)
    made.catalog.tag_release("first", Csn(2))
    made.catalog.close()
    return tmp_path


def test_releases_and_tags(run: Run, folder: Path) -> None:
    found = run("releases", "--lake", folder, "--json").json()["releases"]
    assert [(each["csn"], each["versions"], each["tags"]) for each in found] == [
        (2, {"v": 1}, ["first"]),
        (3, {"v": 2}, []),
    ]
    assert "first" in run("releases", "--lake", folder).stdout
    assert run("tag", "close", "--lake", folder, "--json").json() == {"tag": "close", "csn": 3}
    assert run("tag", "x", "--at", 1, "--lake", folder, "--json", code=1).json()["code"] == "UNKNOWN_NAME"
    run("untag", "first", "--lake", folder)
    assert run("untag", "first", "--lake", folder, "--json", code=1).json()["code"] == "UNKNOWN_NAME"


def test_retention_is_shown_and_changed(run: Run, folder: Path) -> None:
    before = run("retention", "--lake", folder, "--json").json()
    assert (before["count"], before["age"], before["tags"], before["readers"]) == (1, 0, None, [])
    after = run("retention", "--count", 5, "--age", "7 days", "--tags", "june,july", "--lake", folder, "--json").json()
    assert (after["count"], after["age"], after["tags"]) == (5, 604_800, ["july", "june"])
    text = run("retention", "--lake", folder).stdout
    assert "the newest 5 releases" in text
    assert "the past 7 d 0 h; releases tagged july or june" in text
    assert run("retention", "--tags", "any", "--lake", folder, "--json").json()["tags"] is None
    for wrong in (["--count", 0], ["--age", "soon"]):
        refused = run("retention", *wrong, "--lake", folder, "--json", code=1).json()
        assert refused["code"] == "INVALID_INPUT"
    assert run("retention", "--lake", folder, "--json").json()["count"] == 5


def test_versions_for_other_engines(run: Run, folder: Path) -> None:
    newest = run("snapshot", "versions", "--lake", folder, "--json").json()
    assert newest["csn"] == 3
    found = {each["name"]: each for each in newest["tables"]}
    assert found["v"] == {
        "name": "v",
        "kind": "view",
        "location": "/v",
        "version": 2,
        "counted": True,
        "where": None,
        "columns": ["a"],
        "duckdb": 'SELECT "a" FROM (SELECT "a", unnest(range("__hw_count")) AS "__hw_copy" '
        "FROM delta_scan('/v', version=2)) AS q",
    }
    assert found["r"]["version"] == 3
    tagged = run("--json", "snapshot", "versions", "--tag", "first", "--lake", folder).json()
    assert [each["version"] for each in tagged["tables"]] == [2, 1]
    between = run("snapshot", "versions", "--at", 1, "--lake", folder, "--json").json()
    assert [each["name"] for each in between["tables"]] == ["r"]
    assert "Csn 3" in run("snapshot", "versions", "--lake", folder).stdout
    refused = run("snapshot", "versions", "--at", 9, "--lake", folder, "--json", code=1).json()
    assert refused["code"] == "MOMENT_IN_FUTURE"
    assert run("retention", "--lake", folder, "--json").json()["readers"] == []


@pytest.mark.heavy
def test_a_lake_that_is_released_read_and_collected(
    run: Run, tables: Path, spark: SparkSession, lake_dir: Path
) -> None:
    lake = ("--lake", lake_dir)
    run("init", *lake)
    run("track", "people", tables / "people", *lake)
    run("sql", "CREATE MATERIALIZED VIEW names AS SELECT name, count(*) AS n FROM people GROUP BY name", *lake)
    assert run("snapshot", "sql", "SELECT * FROM names", *lake, "--json", code=1).json()["code"] == "NOTHING_RELEASED"
    spark.sql(f"INSERT INTO delta.`{tables}/people` VALUES (4, 'Ada')")
    released = run("release", "--tag", "one", *lake, "--json").json()
    assert (released["csn"], released["tags"], released["left_out"]) == (1, ["one"], {})
    spark.sql(f"DELETE FROM delta.`{tables}/people` WHERE name = 'Ada'")
    assert "Released csn 2 with 1 view" in run("release", *lake).stdout
    both = "SELECT (SELECT count(*) FROM people) AS rows, (SELECT sum(n) FROM names) AS counted"
    for moment, expected in ((("--tag", "one"), [4, 4]), ((), [2, 2])):
        answer = run("snapshot", "sql", both, *moment, *lake, "--json").json()
        assert answer["rows"] == [expected]
    measured = run("staleness", "--svg", lake_dir / "s.svg", *lake, "--json").json()["views"][0]
    assert measured["measured"]["updates"] == 3
    assert measured["measured"]["vs"] == pytest.approx(measured["measured"]["s1"] + measured["measured"]["s2"])
    assert (lake_dir / "s.svg").read_text().count("<svg") == 1
    assert run("status", *lake, "--json").json()["views"][0]["measured"]["updates"] == 3
    assert "advised chunk" in run("staleness", "names", *lake).stdout
    run("untag", "one", *lake)
    collected = run("collect", *lake, "--json").json()
    assert (collected["releases"], collected["views"], collected["busy"]) == ([1], ["names"], [])
    assert run("snapshot", "versions", "--at", 1, *lake, "--json", code=1).json()["code"] == "MOMENT_BEFORE_HISTORY"
