"""The demo's tables: TPC-H data as Delta tables with the change feed on, and the orders that arrive later.

A share of the orders is held back, to come in as new business, and another share is deleted, in the manner of TPC-H's
refresh functions RF1 and RF2. Shares are cut by ``bucket``: TPC-H numbers orders in runs of 8 out of every 32
keys, and each run belongs to one of 100 buckets.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.errors import EngineUnavailable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TABLES = ("customer", "orders", "lineitem", "supplier", "partsupp")
KEYS = {"orders": "o_orderkey", "lineitem": "l_orderkey"}
_TIMEOUT = 600.0


def bucket(key: str) -> str:
    return f"({key} DIV 32) % 100"


def generate(folder: Path, scale_factor: float, tables: Sequence[str] = TABLES) -> None:
    """Write the tables as Parquet files."""
    program = shutil.which("tpchgen-cli", path=str(Path(sys.executable).parent)) or shutil.which("tpchgen-cli")
    if program is None:
        raise EngineUnavailable(
            "TPC-H data is made by tpchgen-cli, which is not installed.", remedy="pip install 'headwater[demo]'"
        )
    command = [program, "parquet", "-s", str(scale_factor), "--output-dir", str(folder), "--tables", ",".join(tables)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT, check=False)
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise EngineUnavailable(
            f"tpchgen-cli failed: {said[-1] if said else f'exit code {done.returncode}'}",
            remedy=f"Run it by hand to see more: {' '.join(command)}",
        )


def held_back(spark: SparkSession, parquet: Path, table: str, number: int) -> DataFrame:
    """The rows of ``orders`` or ``lineitem`` that arrive in a round."""
    rows = spark.read.parquet(str(parquet / f"{table}.parquet"))
    return rows.where(f"{bucket(KEYS[table])} = {number}")


def load(spark: SparkSession, parquet: Path, tables: Path, rounds: int, busy: Callable[[str], None]) -> dict[str, Path]:
    """Write what is there at the beginning as Delta tables; where each of them is."""
    places = {}
    for table in TABLES:
        busy(f"writing table {table}")
        rows = spark.read.parquet(str(parquet / f"{table}.parquet"))
        if table in KEYS:
            rows = rows.where(f"{bucket(KEYS[table])} >= {rounds}")
        places[table] = tables / table
        write_table(rows, places[table])
    return places


def write_table(rows: DataFrame, place: Path) -> None:
    """A new Delta table with its change feed on."""
    rows.write.format("delta").option("delta.enableChangeDataFeed", "true").save(str(place))
