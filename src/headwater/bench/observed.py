"""How much Spark did: jobs, tasks, files, rows and bytes, from the REST interface of its own UI on loopback."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {"spark.ui.enabled": "true", "spark.ui.port": "0", "spark.sql.ui.retainedExecutions": "2000"}
_UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


@dataclass(slots=True)
class Work:
    """What happened between the beginning and the end of a measured block."""

    seconds: float = 0.0
    jobs: int = 0
    tasks: int = 0
    files_read: int = 0
    bytes_read: int = 0
    rows_read: int = 0
    extra: dict[str, Any] = field(default_factory=dict)


class Observer:
    def __init__(self, spark: SparkSession) -> None:
        context = spark.sparkContext
        self._base = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}"

    def _get(self, path: str) -> list[dict[str, Any]]:
        with urlopen(f"{self._base}/{path}") as answer:  # noqa: S310 (Spark's UI on loopback)
            found: list[dict[str, Any]] = json.load(answer)
            return found

    @contextmanager
    def watch(self) -> Iterator[Work]:
        jobs_before = {job["jobId"] for job in self._get("jobs")}
        queries_before = {query["id"] for query in self._get("sql?details=false&length=100000")}
        work = Work()
        started = time.perf_counter()
        yield work
        work.seconds = time.perf_counter() - started
        time.sleep(0.5)  # the UI follows the session at a small distance
        for job in self._get("jobs"):
            if job["jobId"] not in jobs_before:
                work.jobs += 1
                work.tasks += job["numCompletedTasks"]
        for query in self._get("sql?details=true&planDescription=false&length=100000"):
            if query["id"] not in queries_before:
                self._add_scans(query, work)

    def _add_scans(self, query: dict[str, Any], work: Work) -> None:
        for node in query.get("nodes", []):
            if not node["nodeName"].startswith("Scan"):
                continue
            metrics = {metric["name"]: metric["value"] for metric in node["metrics"]}
            work.files_read += _number(metrics.get("number of files read"))
            work.rows_read += _number(metrics.get("number of output rows"))
            work.bytes_read += _number(metrics.get("size of files read"))


def _number(text: str | None) -> int:
    """``1,234`` or ``12.5 MiB`` or a total followed by its spread."""
    if not text:
        return 0
    found = re.search(r"([\d,.]+)\s*(B|KiB|MiB|GiB)?", text.split("\n")[-1])
    return int(float(found[1].replace(",", "")) * _UNITS.get(found[2] or "B", 1)) if found else 0
