"""The judge: Spark's own answer to a query's text over the versions of the tables that a csn means.

The versions are the largest that ``lake.units_of_work()`` numbers up to the csn; the tables began at version 0. None of
the code that keeps the views is used.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.bench.tpch.queries import TpchQuery
from headwater.demo.check import compare
from headwater.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Difference:
    """``surplus`` and ``missing``: rows that the view has too often or lacks, as bags."""

    rows: int
    surplus: int
    missing: int

    @property
    def equal(self) -> bool:
        return self.surplus == 0 and self.missing == 0


@dataclass(slots=True)
class Oracle:
    """``hold`` is done once to each version of a table, such as caching it."""

    lake: Lake
    places: Mapping[str, Path]
    hold: Callable[[DataFrame], DataFrame] = lambda frame: frame
    _held: dict[tuple[str, int], DataFrame] = field(default_factory=dict)
    _binding: threading.Lock = field(default_factory=threading.Lock)  # names are bound one query at a time

    def answer(self, query: TpchQuery, csn: int) -> DataFrame:
        with self._binding, bound(self.lake.spark, {table: self._table(table, csn) for table in query.tables}):
            return self.lake.spark.sql(query.text)

    def difference(self, actual: DataFrame, query: TpchQuery, csn: int) -> Difference:
        return Difference(*compare(actual, self.answer(query, csn)))

    def _table(self, name: str, csn: int) -> DataFrame:
        numbered = [unit.version for unit in self.lake.units_of_work() if unit.table == name and unit.csn <= csn]
        version = max(numbered, default=0)
        if (name, version) not in self._held:
            reader = self.lake.spark.read.format("delta").option("versionAsOf", version)
            self._held[name, version] = self.hold(reader.load(str(self.places[name])))
        return self._held[name, version]


@contextmanager
def bound(spark: SparkSession, tables: Mapping[str, DataFrame]) -> Iterator[None]:
    """Temp views of these names; a query that is analysed inside keeps them."""
    for name, frame in tables.items():
        frame.createOrReplaceTempView(name)
    try:
        yield
    finally:
        for name in tables:
            spark.catalog.dropTempView(name)
