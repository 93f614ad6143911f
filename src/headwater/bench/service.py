"""``headwater run`` on a live stream.

A writer commits updates of PartSupp and Supplier at random moments, in the same Spark session, a share (``mix``) of
them to PartSupp. Beside it the join view of [He05 §5] is calibrated first, as anybody would whose tables are never
quiet, and a response time is promised by what that measured. From then on, for some minutes, the service keeps the view
within it, and a reader asks for the newest state at random moments and waits. Then:

- how many of these refreshes were answered within the response time, from the question to the answer;
- whether the view was right at each of them: read at its csn, against Spark's own answer over the tables' versions;
- what it spends beside NAIVE on the same recorded stream with the same refreshes: other views of the same text, which
  nobody kept meanwhile, are taken through the recorded commits by real steps, one by the service's policy and one by
  NAIVE as published, which knows nothing of what parts share. Both with nobody else on the machine; what the service
  spent live, beside the writer, is told too.
"""

from __future__ import annotations

import io
import json
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from headwater.algebra.time import Csn
from headwater.bench.he.simulated import limit
from headwater.bench.he.stream import OFFERS, PARTSUPP, SUPPLIER, Stream, load
from headwater.bench.report import Target, at_most, write
from headwater.engine.session import describe_machine, local_session
from headwater.errors import InvalidInput, ServiceStopped
from headwater.lake import Lake, connect
from headwater.measured import backlog_of, gather
from headwater.schedule.keeping import HEADROOM, Memory, Seen, decide, done
from headwater.schedule.service_level import ServiceLevel
from headwater.schedule.view_costs import CONFIDENCE, JointCosts
from headwater.service.loop import Demand, Loop, LoopSettings
from headwater.service.run import RunSettings
from headwater.service.run import run as keep
from headwater.service.spark_lake import SparkLake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MINUTES = 10.0
MIX = 0.5
POLICY = "ahead"
REPLAYED = {POLICY: "replayed_policy", "naive": "replayed_naive"}  # and the view that it is replayed on
HIT_RATE = 0.99
OF_NAIVE = 0.7
_FULL_AFTER = 5  # commits of each table that make the backlog full, by the sum of the cost functions
# Seconds between commits and between questions, on average. A refresh empties every backlog, so what a policy saves it
# saves between two of them.
_PAUSE, _ASK = 3.0, 120.0
_ROUNDS, _PENDING = 2, 14  # of calibration, and commits that each of them finds pending
_TOGETHER = 4  # refreshes from which it is learned beforehand what parts share
_FEW = 3  # commits that each of these finds pending
_CHECKED = 40  # refreshes that are compared with recomputation, evenly chosen


def run(
    *,
    sf: float | None,
    json_path: Path | None,
    progress: Callable[[str], None],
    minutes: float | None = None,
    mix: float = MIX,
) -> dict[str, Any]:
    scale_factor, seconds = sf or 1.0, 60 * (minutes or MINUTES)
    if not 0 < mix < 1:
        raise InvalidInput(f"A share of {mix} leaves no mixed stream.", remedy="Give one between 0 and 1.")
    rows = max(4, 4 * round(2500 * min(1.0, scale_factor)))
    folder = Path(tempfile.mkdtemp(prefix="headwater-service-"))
    spark = local_session("headwater-bench", master="local[2]", memory="3g")
    try:
        progress(f"generating TPC-H data at scale factor {scale_factor:g}")
        places = load(spark, folder, scale_factor)
        with connect(folder / "lake", spark=spark) as lake:
            for name, place in places.items():
                lake.track(name, place)
            for view in ("kept", *REPLAYED.values()):
                lake.sql(f"CREATE MATERIALIZED VIEW {view} AS {OFFERS}")
            live = _Live(lake, _Writer(Stream(spark, places, rows), Random(1), mix), progress)  # noqa: S311 moments, not secrets
            with live.writer:
                promised = _promise(lake, live.writer, rows, progress)
                live.run(seconds)
            progress("checking the view at its refreshes")
            wrong = _wrong(spark, lake, places, [asked.refreshed.csn for asked in live.answered if asked.refreshed])
            spent = _spent(lake, "kept", live.began)
            replayed = {}
            for policy, view in REPLAYED.items():
                progress(f"replaying the stream for {policy}")
                replayed[policy] = _replayed(lake, view, policy, promised, live)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    report = {
        "benchmark": "service",
        "command": f"headwater bench service --sf {scale_factor:g} --minutes {seconds / 60:g} --mix {mix:g}",
        "machine": describe_machine(spark),
        "data": {
            "scale_factor": scale_factor,
            "rows_of_a_commit": rows,
            "mix": mix,
            "seconds": seconds,
            "commits": live.commits(),
        },
        "view": OFFERS,
        "response_time": promised,
        "demands": [asked.as_dict() for asked in live.answered],
        "propagation_seconds": {"live": round(spent, 3), **{name: round(own, 3) for name, own in replayed.items()}},
        "wrong": wrong,
        "decisions": live.decisions(),
    }
    return write(json_path, report, _targets(live.answered, replayed[POLICY], replayed["naive"], wrong))


@dataclass
class _Writer:
    """Commits at random moments, in a thread, as long as it is open."""

    stream: Stream
    random: Random
    mix: float  # the share of commits to PartSupp
    commits: int = 0
    _closed: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> None:
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        if self._thread is not None:
            self._thread.join(60.0)

    def wait_for(self, commits: int) -> None:
        """Until there are so many more."""
        until = self.commits + commits
        while self.commits < until and self._thread is not None and self._thread.is_alive():
            time.sleep(0.1)

    def _write(self) -> None:
        while not self._closed.wait(self.random.expovariate(1 / _PAUSE)):
            (commit,) = self.random.choices(self.stream.both, weights=(self.mix, 1 - self.mix))
            commit()
            self.commits += 1


def _promise(lake: Lake, writer: _Writer, rows: int, progress: Callable[[str], None]) -> float:
    """Measure beside the writer, then promise what makes a backlog of some commits full."""
    for number in range(_ROUNDS):
        progress(f"calibrating, round {number + 1} of {_ROUNDS}: waiting for {_PENDING} commits")
        writer.wait_for(_PENDING)
        progress(f"calibrating, round {number + 1} of {_ROUNDS}")
        lake.calibrate("kept", steps=3)
    for number in range(_TOGETHER):
        progress(f"refreshing, {number + 1} of {_TOGETHER}")
        writer.wait_for(_FEW)
        lake.refresh("kept")
    costs = lake.costs("kept").costs
    functions = costs.upper()
    if functions is None:
        raise AssertionError("a calibrated view has cost functions")
    changed = 2 * rows  # an update takes a row away and gives one
    backlog = limit([functions[leaf] for leaf in (PARTSUPP, SUPPLIER)], changed, _FULL_AFTER)
    paid = costs.overhead(changed, CONFIDENCE) + backlog
    promised = round(max(paid + costs.again(), paid / (1 - HEADROOM)), 1)  # as ``keeping`` keeps back
    lake.sql(f"ALTER MATERIALIZED VIEW kept SET OPTIONS (response_time = '{promised}s', policy = '{POLICY}')")
    for view in ("kept", *REPLAYED.values()):
        lake.refresh(view)
    return promised


@dataclass
class _Live:
    """The service and the reader beside the writer, for some time."""

    lake: Lake
    writer: _Writer
    progress: Callable[[str], None]
    answered: list[Demand] = field(default_factory=list)
    log: io.StringIO = field(default_factory=io.StringIO)
    began: float = 0.0
    _written_before: int = 0

    def commits(self) -> int:
        return self.writer.commits - self._written_before

    def run(self, seconds: float) -> None:
        stop = threading.Event()
        self.began, self._written_before = time.time(), self.writer.commits
        until = time.monotonic() + seconds
        threads: list[threading.Thread] = []

        def started(loop: Loop, _port: int | None) -> None:
            threads.append(threading.Thread(target=self._ask, args=(loop, stop), daemon=True))
            threads[-1].start()
            threading.Timer(seconds, stop.set).start()

        settings = RunSettings(views=["kept"], loop=LoopSettings(tick=1.0), port=None)
        keep(self.lake, self.log, settings, stop=stop, started=started)
        for thread in threads:
            thread.join(max(60.0, until - time.monotonic()))
        # A question that the end cut short was not answered by the service; any other error is a promise broken.
        self.answered = [asked for asked in self.answered if not isinstance(asked.error, ServiceStopped)]

    def _ask(self, loop: Loop, stop: threading.Event) -> None:
        moments = Random(2)  # noqa: S311 moments, not secrets
        while not stop.wait(moments.expovariate(1 / _ASK)):
            asked = loop.demand("kept")
            while not asked.finished.wait(1.0) and not stop.is_set():
                pass
            asked.finished.wait(60.0)
            self.answered.append(asked)
            if asked.finished.is_set():
                self.progress(f"{len(self.answered)} refreshes, the last in {asked.seconds or 0.0:.1f} s")

    def decisions(self) -> list[dict[str, Any]]:
        events = [json.loads(line) for line in self.log.getvalue().splitlines()]
        return [event for event in events if event["event"] in ("decision", "done", "pressure", "promise")]


def _spent(lake: Lake, view: str, since: float) -> float:
    """Seconds of the view's propagation steps."""
    catalog = lake._context.catalog  # noqa: SLF001 (what steps took is not public)
    record = catalog.view(view)
    gather(catalog, record)
    samples = catalog.cost_samples(record.view_id, "propagate")
    return sum(sample.seconds for sample in samples if sample.measured_at >= since * 1e6)


def _replayed(lake: Lake, view: str, policy: str, response_time: float, live: _Live) -> float:
    """A policy over the recorded commits and refreshes, by real steps of a view that nobody kept.

    By the rules of the service and what it knew of costs in the end, at each commit.
    """
    context = lake._context  # noqa: SLF001 (the drivers one by one)
    costs, level = lake.costs("kept").costs, ServiceLevel(response_time=response_time, policy=policy)
    acting = SparkLake(context, lambda: 0, lambda: None)
    if policy == "naive":
        costs = replace(costs, joint=JointCosts())
    refreshed = {asked.refreshed.csn for asked in live.answered if asked.refreshed is not None}
    start, began = context.catalog.view(view).csn, time.time()
    memory: Memory | None = None
    for csn, moment in sorted({(unit.csn, unit.committed_at) for unit in lake.units_of_work() if unit.csn > start}):
        backlog, now = backlog_of(context.catalog, context.catalog.view(view), Csn(csn)), moment.timestamp()
        labels = tuple(f"part {number}" for number in range(len(backlog.pending)))
        seen = Seen(view, level, labels, backlog.pending, backlog.unapplied, 0.0, costs)
        memory = Memory.begin(seen, now) if memory is None else memory
        verdict, memory = decide(seen, memory, now, tick=1.0, demanded=csn in refreshed)
        acted = time.monotonic()
        if verdict.deed == "refresh":
            lake.refresh(view, to=csn)
        elif verdict.deed == "process":
            acting.process(view, verdict.counts, csn)
        if verdict.deed != "wait":
            memory = done(memory, verdict, now, time.monotonic() - acted)
    return _spent(lake, view, began)


def _wrong(spark: SparkSession, lake: Lake, places: dict[str, Path], csns: Sequence[int]) -> list[int]:
    """The csns, of some evenly chosen, at which the view is not what its text says of the tables' versions."""
    distinct = sorted(set(csns))
    stride = max(1, len(distinct) // _CHECKED)
    units = lake.units_of_work()
    first = {table.name: table.version for table in lake.status().tables}
    for unit in reversed(units):
        first[unit.table] = unit.version - 1
    found = []
    for csn in distinct[::stride]:
        for name, place in places.items():
            versions = [unit.version for unit in units if unit.table == name and unit.csn <= csn]
            reader = spark.read.format("delta").option("versionAsOf", max(versions, default=first[name]))
            reader.load(str(place)).createOrReplaceTempView(name)
        own, other = lake.read("kept", at=csn), spark.sql(OFFERS)
        if own.exceptAll(other).count() or other.exceptAll(own).count():
            found.append(csn)
    return found


def _targets(answered: Sequence[Demand], spent: float, naive: float, wrong: Sequence[int]) -> list[Target]:
    met = sum(asked.met is True for asked in answered) / max(1, len(answered))
    return [
        Target("refreshes within the response time", f"at least {HIT_RATE}", round(met, 4), met >= HIT_RATE),
        at_most("propagation time over NAIVE's", OF_NAIVE, spent / naive if naive else float("inf")),
        Target("wrong refreshes", "0", float(len(wrong)), not wrong),
    ]
