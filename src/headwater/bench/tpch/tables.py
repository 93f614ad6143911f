"""The eight tables of TPC-H as Delta tables with the change feed on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.demo.tpch import generate, write_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLES = ("region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem")


def load(
    spark: SparkSession,
    folder: Path,
    scale_factor: float,
    busy: Callable[[str], None] = lambda _: None,
    tables: Sequence[str] = TABLES,
) -> dict[str, Path]:
    """Make the tables in ``folder``, each at its version 0; where each of them is."""
    parquet = folder / "parquet"
    busy(f"generating TPC-H data at scale factor {scale_factor}")
    generate(parquet, scale_factor, tables)
    places = {}
    for table in tables:
        busy(f"writing table {table}")
        source = parquet / f"{table}.parquet"
        places[table] = folder / table
        write_table(spark.read.parquet(str(source)), places[table])
        source.unlink()
    parquet.rmdir()
    return places
