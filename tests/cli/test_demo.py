"""The demo at its smallest: every answer equal, a lake left behind, and nothing of the user's ever removed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headwater.demo.check import compare
from headwater.demo.schedule import ReadAt, ToCsn, ToNewest, ToTimestamp, visits
from headwater.demo.views import VIEWS
from tests.cli.conftest import Run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAMES = {view.name for view in VIEWS}


def test_demo(run: Run, tmp_path: Path, spark: SparkSession) -> None:
    into = tmp_path / "demo"
    told = run("demo", "--into", into, "--sf", "0.001", "--rounds", 1, "--json")
    report = told.json()
    assert report["all_equal"] is True
    assert {check["view"] for check in report["checks"]} == NAMES
    assert all(check["equal"] and check["rows"] > 0 for check in report["checks"])
    assert all(check["mode"] in ("incremental", "none", "read") for check in report["checks"])
    assert any(check["rows_changed"] for check in report["checks"])
    assert "writing table" in told.stderr
    views = run("status", "--lake", into, "--json").json()["views"]
    # The one that was asked for the moment of csn 3 stays there.
    assert {view["name"]: view["csn"] for view in views} == {"shipments": 4, "attention": 3, "thin_margin": 4}
    assert sorted(path.name for path in into.iterdir() if path.is_dir()) == ["deltas", "tables", "views"]


@pytest.mark.parametrize("rounds", [1, 2, 5])
def test_every_kind_of_moment_is_visited(rounds: int) -> None:
    found = [
        visit for number in range(rounds) for visit in visits(number, rounds, range(4 * number + 1, 4 * number + 5))
    ]
    assert {type(visit) for visit in found} == {ToNewest, ToCsn, ToTimestamp, ReadAt}
    assert {visit.view for visit in found} == NAMES


def test_refuses_a_folder_of_the_users(run: Run, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("precious")
    assert "left alone" in run("demo", "--into", tmp_path, code=1).stderr
    assert (tmp_path / "thesis.txt").read_text() == "precious"
    assert run("demo", "--into", tmp_path / "thesis.txt", "--json", code=1).json()["code"] == "INVALID_INPUT"


@pytest.mark.parametrize("arguments", [["--sf", "0"], ["--sf", "1000"], ["--rounds", "0"], ["--rounds", "99"]])
def test_refuses_what_is_out_of_range(run: Run, tmp_path: Path, arguments: list[str]) -> None:
    told = run("demo", "--into", tmp_path / "new", *arguments, code=1)
    assert re.search("out of range", told.stderr)
    assert not (tmp_path / "new").exists()


def test_the_judge_sees_every_difference(spark: SparkSession) -> None:
    def frame(*rows: tuple[int | None, str]) -> object:
        return spark.createDataFrame(list(rows), "a int, b string")

    assert compare(frame((1, "x"), (1, "x"), (None, "y")), frame((None, "y"), (1, "x"), (1, "x"))) == (3, 0, 0)
    assert compare(frame((1, "x"), (1, "x")), frame((1, "x"))) == (2, 1, 0)
    assert compare(frame((1, "x")), frame((1, "x"), (None, "x"))) == (1, 0, 1)
    assert compare(frame((1, "x"), (2, "x")), frame((1, "x"), (3, "x"))) == (2, 1, 1)
    assert compare(frame(), frame()) == (0, 0, 0)
