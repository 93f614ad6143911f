"""Readers beside writers, releases and garbage collection that never pause; and alone, before and after.

Alone before *and* after, for half of the time each: the writer leaves tables of more and smaller files behind, which
take longer to read whoever else is there.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.bench.mauve.experiments import VIEW, commit, make_tables
from headwater.engine.priority import IDLE, give_way
from headwater.errors import HeadwaterError, InvalidInput
from headwater.genesis.mauve import TABLES, workload
from headwater.genesis.stream import transactions
from headwater.lake import Lake, connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from typing_extensions import Self

PACE = 1.0
_START = 20.0  # seconds that a reader's process may take to begin
NICENESS = IDLE
GRACE = 60.0  # seconds: more than any statement here takes
VIEWS = {
    "v": VIEW,
    "buckets": "SELECT a % 10 AS bucket, count(*) AS n FROM r GROUP BY a % 10",
    "pairs_of_r": "SELECT key, a FROM r",
    "above": "SELECT a, count(*) AS n FROM v GROUP BY a",
}


def measure(
    spark: SparkSession, scale: float, *, minutes: float, readers: int, progress: Callable[[str], None]
) -> dict[str, Any]:
    if importlib.util.find_spec("duckdb") is None:
        raise InvalidInput(
            "The readers of this benchmark use DuckDB, which is not installed.",
            remedy="Install it: pip install 'headwater[readers]'.",
        )
    folder = Path(tempfile.mkdtemp(prefix="headwater-readers-"))
    try:
        # Enough updates for any machine: the writer stops when the readers do.
        stream = workload(10_000_000, rate=1e9, megabytes=50 * scale, transaction_size=max(10, round(1000 * scale)))
        make_tables(spark, stream, folder)
        with connect(folder / "lake", spark=spark) as lake:
            for name in TABLES:
                lake.track(name, folder / name)
            for name, text in VIEWS.items():
                lake.sql(f"CREATE MATERIALIZED VIEW {name} AS {text}")
            lake.set_retention(count=2)
            lake.release()
            give_way(NICENESS)  # Spark alone: the readers are processes of our own
            progress(f"{readers} readers alone for {minutes / 2:g} min")
            before = _read(folder / "lake", minutes * 30, readers)
            progress(f"{readers} readers beside maintenance for {minutes:g} min")
            with _Maintenance(spark, lake, stream, folder) as maintenance:
                beside = _read(folder / "lake", minutes * 60, readers)
            progress(f"{readers} readers alone for {minutes / 2:g} min")
            after = _read(folder / "lake", minutes * 30, readers)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    alone = [*before, *after]
    both = [*alone, *beside]
    return {
        "readers": readers,
        "minutes": minutes,
        "niceness_of_maintenance": NICENESS,
        "alone": _summary(alone),
        "alone_before": _summary(before),
        "alone_after": _summary(after),
        "beside": _summary(beside),
        "ratio": round(_median(beside) / _median(alone), 3),
        "violations": sum(len(each["violations"]) for each in both),
        "errors": sum(len(each["errors"]) for each in both) + len(maintenance.errors),
        "maintenance": maintenance.counts,
        "first_problems": [text for each in both for text in (*each["violations"], *each["errors"])][:5]
        + maintenance.errors[:5],
    }


def _read(lake: Path, seconds: float, readers: int) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "headwater.bench.mauve.reader", str(lake), str(seconds), str(PACE)]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(readers)]
    found = []
    for each in started:
        try:
            text, _ = each.communicate(timeout=seconds + 10 * _START)
        except subprocess.TimeoutExpired:
            each.kill()
            each.communicate()
            text = ""
        empty = {"latencies": [], "violations": [], "errors": [f"reader ended with code {each.returncode}"], "csns": []}
        found.append(json.loads(text) if text else empty)
    return found


def _median(found: list[dict[str, Any]]) -> float:
    latencies = [seconds for each in found for seconds in each["latencies"]]
    return statistics.median(latencies) if latencies else float("inf")


def _summary(found: list[dict[str, Any]]) -> dict[str, Any]:
    latencies = sorted(seconds for each in found for seconds in each["latencies"])
    return {
        "snapshots": len(latencies),
        "releases_seen": len({csn for each in found for csn in each["csns"]}),
        "median_seconds": round(statistics.median(latencies), 4) if latencies else None,
        "p95_seconds": round(latencies[int(0.95 * len(latencies))], 4) if latencies else None,
    }


class _Maintenance:
    """A writer, a publisher and a collector, each in a thread, without a pause until the block ends."""

    def __init__(self, spark: SparkSession, lake: Lake, stream: Any, folder: Path) -> None:
        self._spark, self._lake, self._stream, self._folder = spark, lake, stream, folder
        self._stop = threading.Event()
        self.errors: list[str] = []
        self.counts = {"transactions": 0, "releases": 0, "collections": 0}
        self._threads = [
            threading.Thread(target=work, daemon=True) for work in (self._write, self._release, self._collect)
        ]

    def __enter__(self) -> Self:
        for each in self._threads:
            each.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for each in self._threads:
            each.join()

    def _write(self) -> None:
        writing = self._spark.newSession()  # whose settings name its commits
        for transaction in transactions(self._stream):
            if self._stop.is_set():
                return
            self._attempt(partial(commit, writing, self._lake, transaction, self._folder), "transactions")

    def _release(self) -> None:
        while not self._stop.is_set():
            self._attempt(self._lake.release, "releases")

    def _collect(self) -> None:
        while not self._stop.wait(1.0):
            self._attempt(partial(self._lake.collect, grace=GRACE), "collections")

    def _attempt(self, work: Callable[[], object], what: str) -> None:
        began = time.monotonic()
        try:
            work()
            self.counts[what] += 1
        except HeadwaterError as error:
            self.errors.append(f"{what} after {time.monotonic() - began:.1f} s: {error}")
