"""Rows written, beside what the observer sees read: from the stages in the REST interface of Spark's own UI."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from headwater.bench.observed import Observer, Work


class RowsObserver(Observer):
    @contextmanager
    def watch(self) -> Iterator[Work]:
        before = set(self._written())
        with super().watch() as work:
            yield work
        work.extra["rows_written"] = sum(rows for stage, rows in self._written().items() if stage not in before)

    def _written(self) -> dict[tuple[int, int], int]:
        return {(stage["stageId"], stage["attemptId"]): stage["outputRecords"] for stage in self._get("stages")}
