"""Spark as the garbage collector needs it (``headwater.serve.garbage.Sweeper``)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from headwater.apply.driver import remove_past_deltas
from headwater.catalog.records import Micros, ViewRecord
from headwater.context import Context
from headwater.engine.failures import translated
from headwater.sql.dialect import to_text
from headwater.sql.pruning import KEEP_ALL, compact_sql
from headwater.sql.relations import current_table

# A table in the order of a key is read by a few of its files: they should not become large either.
FILE_BYTES = 8 * 2**20
FEW_FILES = 32  # which nobody minds

_SETTINGS = {
    # Delta refuses to retain less than a table's own setting, which is for ever; how long is safe, the collector knows.
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    # Delta now goes by that setting alone, and ignores how long a VACUUM is told to retain.
    "spark.databricks.delta.vacuum.retentionWindowIgnore.enabled": "false",
    # Two commits for each VACUUM, in a log that is to be kept short; the catalog knows of every collection.
    "spark.databricks.delta.vacuum.logging.enabled": "false",
    "spark.databricks.delta.optimize.maxFileSize": str(FILE_BYTES),
    "spark.databricks.delta.optimize.minFileSize": str(FILE_BYTES),
}

# VACUUM lists a table's files in so many tasks, 10,000 if nothing is said: a minute for a handful of files on 2 cores.
_LISTING = "spark.sql.sources.parallelPartitionDiscovery.parallelism"


class SparkSweeper:
    def __init__(self, context: Context) -> None:
        self._context = context

    def run(self, text: str, doing: str) -> None:
        engine = self._context.engine
        tasks = engine.spark.conf.get("spark.sql.shuffle.partitions")
        with translated(doing), engine.under({**_SETTINGS, _LISTING: str(tasks)}):
            engine.compute(text)

    def newest_version(self, location: str) -> int:
        return self._context.engine.newest_version(location)

    def committed_at(self, location: str, version: int) -> Micros | None:
        return self._commit(location, f"version = {version}", "max")

    def standing_at(self, location: str, moment: Micros) -> Micros | None:
        return self._commit(location, f"unix_micros(timestamp) <= {moment}", "max")

    def log_since(self, location: str) -> Micros:
        found = self._commit(location, "true", "min")
        return self._context.clock() if found is None else found

    def last_trimmed(self, location: str) -> Micros | None:
        return self._commit(location, "operation = 'SET TBLPROPERTIES'", "max")

    def keeps_all(self, location: str) -> bool:
        kept = self._properties(location)
        return all(kept.get(key) == value for key, value in KEEP_ALL.items())

    def compact(self, location: str) -> None:
        files, size = self._detail(location, "numFiles", "sizeInBytes")
        if files > FEW_FILES + 2 * -(-size // FILE_BYTES):
            self.run(compact_sql(location), f"joining small files of {location}")

    def remove_past_deltas(self, view: ViewRecord, kept: Collection[str]) -> None:
        remove_past_deltas(self._context, view, kept)

    def _commit(self, location: str, condition: str, which: str) -> Micros | None:
        """The time of the first or last of some commits; the log is read by Spark, and one row comes of it."""
        history = f"DESCRIBE HISTORY {to_text(current_table(location))}"
        with translated(f"reading the log of {location}"):
            commits = self._context.engine.compute(history).where(condition)
            found = commits.selectExpr(f"{which}(unix_micros(timestamp))").collect()[0][0]  # one row
        return None if found is None else int(found)

    def _properties(self, location: str) -> Mapping[str, str]:
        return dict(self._detail(location, "properties")[0])

    def _detail(self, location: str, *names: str) -> tuple[Any, ...]:
        text = f"DESCRIBE DETAIL {to_text(current_table(location))}"
        with translated(f"looking at {location}"):
            return tuple(self._context.engine.compute(text).select(*names).collect()[0])  # one row
