"""The paper's process, run and timed: transactions into base tables, and a view update whenever a chunk is full."""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.genesis.arrivals import UpdateRate
from headwater.genesis.mauve import TABLES, discontinuous_streams, table_sizes, update_sizes
from headwater.genesis.stream import Transaction, initial_rows, transactions
from headwater.genesis.workload import Workload
from headwater.lake import Lake, connect
from headwater.serve.advisor import ViewUpdateSample, advise
from headwater.serve.staleness import Process, UpdateTimes, average, predicted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TRANSACTIONS = 12  # in every run: each is a commit to either table, which costs about the same whatever its size
PHASES = (1, 2, 3, 4, 6, 12)
STREAM_PHASES = (1, 2, 4, 12)
VIEW = "SELECT r.key AS r_key, s.key AS s_key, r.a FROM r JOIN s ON r.a = s.a"
_SCHEMA = "key long, a long, padding string"


@dataclass(frozen=True, slots=True)
class Timed:
    """A transaction: seconds from the beginning of the run."""

    updates: int
    arrived: float
    begun: float
    applied: float


@dataclass(slots=True)
class Run:
    """What happened: chunks of transactions, each with the begin and end of its view update."""

    chunks: list[tuple[list[Timed], float, float]] = field(default_factory=list)
    lag: float = 0.0

    def figures(self) -> dict[str, Any]:
        """S1, S2 and VS over all updates, U, V_n, the lag, and what Eq. 7 says of them."""
        timed = [(each, end) for members, _, end in self.chunks for each in members]
        undisturbed, times = 0.0, []
        for each, installed in timed:
            undisturbed = max(undisturbed, each.arrived) + each.applied - each.begun
            # What the stops cost can't be negative, but clocks round.
            times.append((UpdateTimes(min(undisturbed, each.applied), each.applied, installed), each.updates))
        own = average(times)
        views = [end - begin for _, begin, end in self.chunks]
        base = sum(each.applied - each.begun for each, _ in timed)
        phases, view_seconds = len(views), statistics.fmean(views)
        return {
            "phases": phases,
            "chunk_size": -(-own.updates // phases),
            "s1": round(own.s1, 3),
            "s2": round(own.s2, 3),
            "vs": round(own.vs, 3),
            "base_seconds": round(base, 3),
            "view_seconds": round(view_seconds, 3),
            "lag_seconds": round(self.lag, 3),
            "theoretic_2": round(predicted(phases, base, view_seconds, Process.INTERLEAVED).vs, 3),
            "samples": [
                [sum(each.updates for each in members), round(end - begin, 4)] for members, begin, end in self.chunks
            ],
        }


@contextmanager
def laboratory(spark: SparkSession, progress: Callable[[str], None]) -> Iterator[Laboratory]:
    folder = Path(tempfile.mkdtemp(prefix="headwater-mauve-"))
    try:
        yield Laboratory(spark, folder, progress)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@dataclass(slots=True)
class Laboratory:
    spark: SparkSession
    folder: Path
    progress: Callable[[str], None]
    _capacity: float | None = None
    _number: int = 0

    # ------------------------------------------------------------------ the figures

    def update_sizes(self, scale: float) -> list[dict[str, Any]]:
        """Figures 8 to 11, and for each size the chunk size that the advisor picks beside the best one measured.

        Both run once more, one after the other: a single run of either may have met a slow minute of the machine.
        """
        found = []
        for workload in update_sizes(self.capacity(scale), scale=scale):
            prepared = _in_transactions(workload)
            runs = [self._run(prepared, phases) for phases in PHASES]
            updates = prepared.updates
            base = statistics.fmean(run["base_seconds"] for run in runs)
            samples = [ViewUpdateSample(size, seconds) for run in runs for size, seconds in run["samples"] if size]
            advice = advise(updates, base, samples).chosen
            advised_phases = max(1, min(TRANSACTIONS, advice.prediction.phases))
            best_phases = min(runs, key=lambda run: run["vs"])["phases"]
            again = [self._run(prepared, phases) for phases in dict.fromkeys((advised_phases, best_phases))]
            usual = statistics.fmean(run["view_seconds"] for run in runs)
            for run in runs:
                run["theoretic"] = round(predicted(run["phases"], base, usual, Process.INTERLEAVED).vs, 3)
            found.append(
                {
                    "updates": updates,
                    "rows": prepared.tables[0].rows,
                    "runs": runs,
                    "advised_chunk": advice.chunk,
                    "advised_prediction": round(advice.prediction.vs, 3),
                    "advised": again[0],
                    "best_again": again[-1],
                }
            )
        return found

    def streams(self, scale: float) -> dict[str, list[dict[str, Any]]]:
        """Figures 13 (high) and 14 (medium); 15 is the lag of the last stream of the medium ones."""
        found: dict[str, list[dict[str, Any]]] = {}
        for rate in (UpdateRate.HIGH, UpdateRate.MEDIUM):
            own = found[rate.name.lower()] = []
            for workload in discontinuous_streams(rate, self.capacity(scale), scale=scale):
                prepared = _in_transactions(workload)
                idle = getattr(workload.stream, "idle", 0.0)
                own.append({"idle": idle, "runs": [self._run(prepared, phases) for phases in STREAM_PHASES]})
        return found

    def table_sizes(self, scale: float) -> list[dict[str, Any]]:
        """Figure 16."""
        return [
            {
                "rows": workload.tables[0].rows,
                "runs": [self._run(_in_transactions(workload), phases) for phases in STREAM_PHASES],
            }
            for workload in table_sizes(self.capacity(scale), scale=scale)
        ]

    def capacity(self, scale: float) -> float:
        """Updates a second that go into base tables here; from one run that is not used otherwise."""
        if self._capacity is None:
            warm_up = _in_transactions(update_sizes(1e9, scale=scale)[0])
            self._run(warm_up, 2)  # the first statements of a session take many times as long
            measured = self._run(warm_up, 1)
            self._capacity = warm_up.updates / measured["base_seconds"]
        return self._capacity

    # ------------------------------------------------------------------ one run

    def _run(self, workload: Workload, phases: int) -> dict[str, Any]:
        self._number += 1
        idle = getattr(workload.stream, "idle", 0.0)
        self.progress(
            f"run {self._number}: {workload.updates} updates on {workload.tables[0].rows} rows, "
            f"idle {idle:.0%}, {phases} view update{'' if phases == 1 else 's'}"
        )
        place = self.folder / f"run-{self._number}"
        prepare(self.spark, self._tables(workload), place)
        with connect(place / "lake", spark=self.spark) as lake:
            for name in TABLES:
                lake.track(name, place / name)
            lake.sql(f"CREATE MATERIALIZED VIEW v AS {VIEW}")
            found = self._process(lake, workload, place, phases)
        shutil.rmtree(place, ignore_errors=True)
        return found.figures()

    def _process(self, lake: Lake, workload: Workload, place: Path, phases: int) -> Run:
        run, members = Run(), []
        size = -(-workload.updates // phases)
        filled = taken = 0
        began = time.monotonic()
        for transaction in transactions(workload):
            free = time.monotonic() - began
            if transaction.at > free:
                run.lag += transaction.at - free
                time.sleep(transaction.at - free)
            begun = time.monotonic() - began
            commit(self.spark, lake, transaction, place)
            applied = time.monotonic() - began
            members.append(Timed(transaction.operations, transaction.at, begun, applied))
            filled += transaction.operations
            taken += transaction.operations
            if filled >= size or taken == workload.updates:
                lake.refresh("v")
                run.chunks.append((members, applied, time.monotonic() - began))
                members, filled = [], 0
        return run

    def _tables(self, workload: Workload) -> Path:
        """The tables with which runs on so many rows begin; made once."""
        made = self.folder / f"tables-{workload.tables[0].rows}"
        if not made.exists():
            self.progress(f"making two tables of {workload.tables[0].rows} rows")
            make_tables(self.spark, workload, made)
        return made


def _in_transactions(workload: Workload) -> Workload:
    return replace(workload, transaction_size=max(1, -(-workload.updates // TRANSACTIONS)))


def make_tables(spark: SparkSession, workload: Workload, place: Path) -> None:
    for shape in workload.tables:
        rows = spark.createDataFrame(list(initial_rows(workload, shape.name)), _SCHEMA)
        writer = rows.repartition(2).write.format("delta").option("delta.enableChangeDataFeed", "true")
        writer.save(str(place / shape.name))


def prepare(spark: SparkSession, tables: Path, place: Path) -> None:
    for name in TABLES:
        spark.read.format("delta").load(str(tables / name)).write.format("delta").option(
            "delta.enableChangeDataFeed", "true"
        ).save(str(place / name))


def commit(spark: SparkSession, lake: Lake, transaction: Transaction, place: Path) -> None:
    """A transaction: one MERGE into each table that it changes, all of them one unit of work."""
    key = "spark.databricks.delta.commitInfo.userMetadata"
    spark.conf.set(key, lake.unit_of_work(f"transaction {transaction.number}", len(transaction.changes)))
    try:
        for change in transaction.changes:
            rows: list[tuple[Any, ...]] = [("i", *row) for row in change.inserted]
            rows += [("u", *row) for row in change.updated] + [("d", gone, None, None) for gone in change.deleted]
            spark.createDataFrame(rows, f"op string, {_SCHEMA}").createOrReplaceTempView("hw_bench_changes")
            spark.sql(
                f"MERGE INTO delta.`{place / change.table}` t USING hw_bench_changes c ON t.key = c.key "
                "WHEN MATCHED AND c.op = 'd' THEN DELETE "
                "WHEN MATCHED THEN UPDATE SET t.a = c.a, t.padding = c.padding "
                "WHEN NOT MATCHED AND c.op = 'i' THEN INSERT (key, a, padding) VALUES (c.key, c.a, c.padding)"
            )
    finally:
        spark.conf.unset(key)
