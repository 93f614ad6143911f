"""The command line as a user has it, on the one Spark session of the run."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from headwater.cli.main import app

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Outcome:
    code: int
    stdout: str
    stderr: str

    def json(self) -> Any:
        return json.loads(self.stdout)


Run = Callable[..., Outcome]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs ``headwater`` with arguments; ``code`` is the exit code that is expected."""
    monkeypatch.delenv("HEADWATER_LAKE", raising=False)
    monkeypatch.delenv("HEADWATER_DEBUG", raising=False)
    monkeypatch.delenv("COLUMNS", raising=False)  # xdist tells its workers the width of a terminal

    def run(*arguments: object, code: int = 0, stdin: str | None = None) -> Outcome:
        result = CliRunner().invoke(app, [str(each) for each in arguments], input=stdin)
        assert result.exit_code == code, f"exit code {result.exit_code}\n{result.stdout}\n{result.stderr}"
        return Outcome(result.exit_code, result.stdout, result.stderr)

    return run


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two Delta tables, ``people`` and ``pets``; the change feed of ``pets`` is off."""
    folder = tmp_path_factory.mktemp("tables")
    people = spark.createDataFrame([(1, "Ada"), (2, "Bo"), (3, None)], "id int, name string")
    people.coalesce(1).write.format("delta").option("delta.enableChangeDataFeed", "true").save(str(folder / "people"))
    pets = spark.createDataFrame(
        [(1, "cat", "3.50"), (1, "dog", "10.00"), (2, "cat", "4.25")], "owner int, kind string, kg string"
    )
    pets.selectExpr("owner", "kind", "cast(kg as decimal(6,2)) kg").coalesce(1).write.format("delta").save(
        str(folder / "pets")
    )
    return folder
