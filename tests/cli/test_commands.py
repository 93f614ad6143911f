"""Every command on a lake with two tables and a view."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cli.conftest import Run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VIEW = "SELECT name, kind, kg FROM people JOIN pets ON owner = id"


@pytest.fixture
def lake(run: Run, lake_dir: Path) -> Path:
    run("init", "--lake", lake_dir)
    return lake_dir


def test_a_life_of_a_lake(
    run: Run, lake: Path, tables: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWATER_LAKE", str(lake))
    monkeypatch.chdir(tables)

    # track: a folder beside us, by its bare name
    assert "Tracking people" in run("track", "people", "people").stdout
    refused = run("track", "pets", tables / "pets", "--json", code=1).json()
    assert refused["code"] == "CHANGE_FEED_DISABLED"
    tracked = run("track", "pets", tables / "pets", "--enable-change-feed", "--json").json()
    assert (tracked["name"], tracked["mode"]) == ("pets", "versioned")
    assert run("track", "pets", tables / "pets", "--json", code=1).json()["code"] == "NAME_TAKEN"

    # sql: several statements at once, with a semicolon in quotes
    made = run(
        "sql", f"CREATE MATERIALIZED VIEW owners AS {VIEW}; SELECT ';' AS a FROM owners LIMIT 1", "--json"
    ).json()
    assert [result["rows"] for result in made["results"]] == [[["owners", True]], [[";"]]]

    # changes, capture
    spark.sql(f"INSERT INTO delta.`{tables}/pets` VALUES (2, 'fish', 0.10), (3, 'owl', 1.00)")
    spark.sql(f"DELETE FROM delta.`{tables}/pets` WHERE kind = 'dog'")
    captured = run("capture", "--json").json()
    assert captured["csn"] == 2
    assert [unit["operation"] for unit in captured["units_of_work"]] == ["WRITE", "DELETE"]
    assert "Newest csn 2, 0 new" in run("capture").stdout

    # status before: the view waits
    text = run("status").stdout
    assert "owners" in text
    waiting = run("status", "--json").json()["views"][0]
    assert (waiting["csn"], waiting["newest_csn"]) == (0, 2)
    assert waiting["staleness"] > 0

    # explain, without touching anything
    explained = run("explain", "owners", "--json").json()
    assert explained["queries"]
    assert "SELECT" in explained["sql"]
    assert "Next propagation" in run("explain", "owners", "--sql").stdout

    # propagate and refresh, to a csn, by timestamp, to the newest, and back
    assert run("propagate", "owners", "--to", 1, "--json").json() == {"view": "owners", "high_water_mark": 1}
    drawn = run("explain", "owners", "--svg", lake / "owners.svg").stdout
    assert "Last propagation" in drawn
    assert "Δ(people ⋈ pets)" in (lake / "owners.svg").read_text()
    assert (
        run("explain", "owners", "--svg", lake / "no" / "folder.svg", "--json", code=1).json()["code"]
        == "INVALID_INPUT"
    )
    assert "csn 2" in run("propagate", "owners").stdout
    moments = [unit["committed_at"] for unit in captured["units_of_work"]]
    report = run("refresh", "owners", "--to", moments[0], "--json").json()
    assert (report["from_csn"], report["csn"], report["mode"], report["rows"]) == (0, 1, "incremental", 2)
    assert "csn 1 -> 2, incremental (CHANGES_APPLIED), 1 row changed" in run("refresh", "owners").stdout
    assert run("refresh", "owners", "--json").json()["mode"] == "none"
    together = run("refresh", "--all", "--to", "0", "--json").json()
    assert (together["csn"], [report["csn"] for report in together["views"]], together["failed"]) == (0, [0], {})
    assert "owners: csn 0 -> 2" in run("refresh", "--all").stdout
    assert run("refresh", "owners", "--to", "0", "--json").json()["csn"] == 0

    # read: the present, another moment, each format
    assert sorted(row[1] for row in run("read", "owners", "--json").json()["rows"]) == ["cat", "cat", "dog"]
    newest = run("read", "owners", "--at", 2, "--format", "json").json()
    assert sorted(map(tuple, newest["rows"]), key=str) == [
        ("Ada", "cat", "3.50"),
        ("Bo", "cat", "4.25"),
        ("Bo", "fish", "0.10"),
        (None, "owl", "1.00"),
    ]
    assert newest["columns"][2] == {"name": "kg", "type": "decimal(6,2)"}
    assert newest["more"] is False
    short = run("read", "owners", "--at", moments[1], "--limit", 1, "--json").json()
    assert (len(short["rows"]), short["more"]) == (1, True)
    found = list(csv.reader(io.StringIO(run("read", "owners", "--at", "2", "--format", "csv").stdout)))
    assert found[0] == ["name", "kind", "kg"]
    assert ["", "owl", "1.00"] in found
    printed = run("read", "pets", "--limit", 2)
    assert "first 2 rows; there are more" in printed.stdout
    assert "reading pets" in printed.stderr

    # statements of the language, from a file and from stdin
    file = lake.parent / "statements.sql"
    file.write_text("REFRESH MATERIALIZED VIEW owners TO CSN 1;\nSHOW MATERIALIZED VIEWS;")
    results = run("sql", "--file", file, "--json").json()["results"]
    assert results[0]["rows"][0][:3] == ["owners", 1, "incremental"]
    assert results[1]["rows"][0][:2] == ["owners", 1]
    assert "Materialized view owners" in run("sql", "-", stdin="EXPLAIN MATERIALIZED VIEW owners").stdout

    # resync, untrack, drop
    used = run("untrack", "pets", code=1)
    assert "owners" in used.stderr
    assert run("resync", "pets", "--json").json()["name"] == "pets"
    rebuilt = run("refresh", "owners", "--json").json()
    assert rebuilt["mode"] == "full"
    run("sql", "DROP MATERIALIZED VIEW owners")
    assert run("untrack", "pets", "--json").json() == {"name": "pets", "tracked": False}
    assert "no longer tracked" in run("untrack", "people").stdout
    assert run("status", "--json").json()["tables"] == []


def test_errors(run: Run, lake: Path, tables: Path, tmp_path: Path) -> None:
    def code(*arguments: object) -> str:
        return str(run("--lake", lake, "--json", *arguments, code=1).json()["code"])

    run("--lake", lake, "track", "people", tables / "people")
    assert code("refresh", "nothing") == "UNKNOWN_NAME"
    assert code("propagate", "nothing") == "UNKNOWN_NAME"
    assert code("read", "nothing") == "UNKNOWN_NAME"
    assert code("explain", "nothing") == "UNKNOWN_NAME"
    assert code("untrack", "nothing") == "UNKNOWN_NAME"
    assert code("resync", "nothing") == "UNKNOWN_NAME"
    assert code("track", "two words", tables / "people") == "INVALID_INPUT"
    assert code("track", "nowhere", tmp_path / "nowhere") == "NOT_A_DELTA_TABLE"
    assert code("sql", "SELEC 1") == "SQL_SYNTAX"
    assert code("sql", " ; ") == "SQL_SYNTAX"
    assert code("sql", "SELECT 'open") == "SQL_SYNTAX"
    assert code("sql", "SELECT no_such_column FROM people") == "SQL_ANALYSIS"
    assert code("sql", "CREATE MATERIALIZED VIEW v AS SELECT rand() AS r FROM people") == "NONDETERMINISTIC"
    assert code("read", "people", "--at", "99") == "MOMENT_IN_FUTURE"
    assert code("read", "people", "--at", "yesterday") == "INVALID_INPUT"
    assert code("read", "people", "--at", "2999-01-01") == "MOMENT_IN_FUTURE"

    told = run("--lake", lake, "sql", "CREATE MATERIALIZED VIEW v AS\nSELECT nope FROM people", code=1)
    assert told.stdout == ""
    assert "error [SQL_ANALYSIS]" in told.stderr
    assert "line 2" in told.stderr
    assert run("status", "--lake", lake, "--json").json()["views"] == []


def test_a_statement_that_fails_keeps_what_was_done_before(run: Run, lake: Path, tables: Path) -> None:
    run("track", "people", tables / "people", "--lake", lake)
    text = "CREATE MATERIALIZED VIEW named AS SELECT * FROM people WHERE name IS NOT NULL; SELECT * FROM nowhere"
    told = run("sql", text, "--lake", lake, code=1)
    assert "named" in told.stdout
    assert "nowhere" in told.stderr
    assert [view["name"] for view in run("status", "--lake", lake, "--json").json()["views"]] == ["named"]
