"""Every query of TPC-H as a view: a refresh beside a recomputation, for changes of several sizes.

The rounds of changes follow one another on one lake. After each, the commits are captured, and then for each view, in
the same session: the refresh is timed (propagate and apply, as ``lake.refresh`` chooses) and the recomputation (the
view's text over the newest tables, written over a Delta table), and the two answers are compared. Who is second finds
the new versions of the tables looked up and their files in memory, so the two take turns in going first: from view to
view, and from round to round. Two rounds of the smallest size come first and are not counted. With several rounds a
figure is the median, and a ratio that of the pairs.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.bench.observed import SETTINGS, Work
from headwater.bench.report import Target, at_most, write
from headwater.bench.tpch.oracle import Difference, bound
from headwater.bench.tpch.picture import draw
from headwater.bench.tpch.queries import NUMBERS, TpchQuery, query
from headwater.bench.tpch.refresh import Kind, Round, require_fraction
from headwater.bench.tpch.tables import load
from headwater.bench.tpch.written import RowsObserver
from headwater.demo.check import compare
from headwater.engine.session import describe_machine, local_session
from headwater.errors import HeadwaterError, InvalidInput
from headwater.lake import Lake, connect
from headwater.values import RefreshReport

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FRACTIONS = (0.001, 0.01, 0.1)
REPEATS = 3
WARM_UP = 2  # rounds that are not counted: in the first one `auto` tries the changes, in the second it may do otherwise
SLOWEST = 1.2
SMALL = 0.001
GAIN = 4.0
# A statement of a large plan is remembered with all its nodes.
_SETTINGS = SETTINGS | {"spark.sql.ui.retainedExecutions": "300"}


@dataclass(frozen=True, slots=True)
class Pair:
    """One refresh, and the recomputation beside it."""

    report: RefreshReport
    refresh: Work
    recompute: Work
    difference: Difference

    @property
    def ratio(self) -> float:
        """Above 1, the refresh was the faster one."""
        return self.recompute.seconds / self.refresh.seconds


def run(
    *,
    sf: float | None,
    json_path: Path | None,
    progress: Callable[[str], None],
    queries: Sequence[int] = NUMBERS,
    fractions: Sequence[float] = FRACTIONS,
    repeats: int = REPEATS,
    changes: str = Kind.VALUES.value,
    warm_up: int = WARM_UP,
) -> dict[str, Any]:
    scale_factor = 1.0 if sf is None else sf
    if not 0 < scale_factor <= 100:
        raise InvalidInput(f"A scale factor of {scale_factor} is out of range.", remedy="Give one above 0, up to 100.")
    if not queries or not fractions or repeats < 1 or warm_up < 0:
        raise InvalidInput("There is nothing to measure.", remedy="Give at least one query, one size and one repeat.")
    for fraction in fractions:
        require_fraction(fraction)
    if changes not in {each.value for each in Kind}:
        raise InvalidInput(f"{changes!r} is no kind of changes.", remedy="Say values or attributes.")
    chosen = [query(number, scale_factor) for number in queries]
    folder = Path(tempfile.mkdtemp(prefix="headwater-tpch-"))
    spark = local_session("headwater-bench", extra=_SETTINGS)
    try:
        places = load(spark, folder / "tables", scale_factor, progress)
        with connect(folder / "lake", spark=spark) as lake:
            for name, place in places.items():
                lake.track(name, place)
            bench = _Bench(spark, lake, places, folder / "recomputed", Kind(changes), progress)
            bench.create(chosen)
            for _ in range(warm_up):
                bench.round(min(fractions))
            sizes = {fraction: [bench.round(fraction) for _ in range(repeats)] for fraction in sorted(fractions)}
            machine = describe_machine(spark)
            newest = lake.capture()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    figures = [
        _figures(each, fraction, [pairs[each.number] for pairs in rounds if each.number in pairs])
        for each in chosen
        for fraction, rounds in sizes.items()
        if any(each.number in pairs for pairs in rounds)
    ]
    report = {
        "benchmark": "tpch",
        "command": _command(scale_factor, queries, fractions, repeats, changes, warm_up),
        "machine": machine,
        "data": {
            "scale_factor": scale_factor,
            "fractions": sorted(fractions),
            "changes": changes,
            "repeats": repeats,
            "warm_up": warm_up,
            "csns": newest,
        },
        "equal": all(each["equal"] for each in figures),
        "failed": bench.failed,
        "queries": figures,
    }
    if json_path is not None and figures:
        json_path.parent.mkdir(parents=True, exist_ok=True)
        draw(figures, scale_factor, json_path.with_suffix(".svg"))
    return write(json_path, report, _targets(figures))


class _Bench:
    """The lake under test. A view that can't be made or refreshed is told in ``failed`` and left out from then on."""

    def __init__(
        self,
        spark: SparkSession,
        lake: Lake,
        places: dict[str, Path],
        recomputed: Path,
        kind: Kind,
        progress: Callable[[str], None],
    ) -> None:
        self._spark = spark
        self._lake = lake
        self._places = places
        self._recomputed = recomputed
        self._kind = kind
        self._progress = progress
        self._observer = RowsObserver(spark)
        self._views: list[TpchQuery] = []
        self._rounds = 0
        self.failed: dict[str, dict[str, Any]] = {}

    def create(self, queries: Sequence[TpchQuery]) -> None:
        for each in queries:
            self._progress(f"creating {each.name}")
            try:
                self._lake.sql(f"CREATE MATERIALIZED VIEW {each.name} OPTIONS (refresh = 'auto') AS\n{each.text}")
            except HeadwaterError as error:
                self.failed[each.name] = {"at": "create", **error.as_dict()}
            else:
                self._views.append(each)

    def round(self, fraction: float) -> dict[int, Pair]:
        """Change the tables, then bring every view to them; by the query's number."""
        self._rounds += 1
        label = f"round {self._rounds}, {fraction:.1%}"
        changes = Round(self._spark, self._places, fraction, seed=self._rounds, kind=self._kind)
        changes.write(lambda what: self._progress(f"{label}: {what}"))
        self._progress(f"{label}: capturing the commits")
        csn = self._lake.capture()
        pairs = {}
        for position, view in enumerate(tuple(self._views), start=1):
            self._progress(f"{label}: {view.name}, {position} of {len(self._views)}")
            try:
                pairs[view.number] = self._measure(view, csn, refresh_first=(self._rounds + position) % 2 == 0)
            except HeadwaterError as error:
                self.failed[view.name] = {"at": label, **error.as_dict()}
                self._views.remove(view)
        return pairs

    def _measure(self, view: TpchQuery, csn: int, *, refresh_first: bool) -> Pair:
        before = self._refresh(view, csn) if refresh_first else None
        recomputing = self._recompute(view)
        report, refreshing = before or self._refresh(view, csn)
        recomputed = self._spark.read.format("delta").load(self._place(view))
        difference = Difference(*compare(self._lake.read(view.name), recomputed))
        return Pair(report, refreshing, recomputing, difference)

    def _refresh(self, view: TpchQuery, csn: int) -> tuple[RefreshReport, Work]:
        with self._observer.watch() as work:
            report = self._lake.refresh(view.name, to=csn)
        return report, work

    def _recompute(self, view: TpchQuery) -> Work:
        read = self._spark.read.format("delta")
        with self._observer.watch() as work:
            with bound(self._spark, {name: read.load(str(self._places[name])) for name in view.tables}):
                answer = self._spark.sql(view.text)
            answer.write.format("delta").mode("overwrite").save(self._place(view))
        return work

    def _place(self, view: TpchQuery) -> str:
        return str(self._recomputed / view.name)


def _figures(view: TpchQuery, fraction: float, pairs: list[Pair]) -> dict[str, Any]:
    return {
        "query": view.name,
        "fraction": fraction,
        "incremental_seconds": round(statistics.median(pair.refresh.seconds for pair in pairs), 3),
        "recompute_seconds": round(statistics.median(pair.recompute.seconds for pair in pairs), 3),
        "ratio": round(statistics.median(pair.ratio for pair in pairs), 3),
        "ratios": [round(pair.ratio, 3) for pair in pairs],
        "modes": [pair.report.mode for pair in pairs],
        "reasons": [pair.report.reason for pair in pairs],
        "expected_seconds": [pair.report.alternatives for pair in pairs],
        "rows_changed": [pair.report.rows for pair in pairs],
        "rows": [pair.difference.rows for pair in pairs],
        "incremental": _work([pair.refresh for pair in pairs]),
        "recompute": _work([pair.recompute for pair in pairs]),
        "equal": all(pair.difference.equal for pair in pairs),
        "surplus": [pair.difference.surplus for pair in pairs],
        "missing": [pair.difference.missing for pair in pairs],
    }


def _work(works: list[Work]) -> dict[str, int]:
    counted = ("jobs", "tasks", "files_read", "bytes_read", "rows_read")
    found = {name: int(statistics.median(getattr(work, name) for work in works)) for name in counted}
    return {**found, "rows_written": int(statistics.median(work.extra["rows_written"] for work in works))}


def _targets(figures: list[dict[str, Any]]) -> list[Target]:
    found = []
    if figures:
        slowest = max(1 / each["ratio"] for each in figures)
        found.append(at_most("slowest refresh / recomputation, any query and size", SLOWEST, slowest))
    small = [each["ratio"] for each in figures if each["fraction"] == SMALL]
    if small:
        gain = statistics.geometric_mean(small)
        name = f"recomputation / refresh for {SMALL:.1%} changed, geometric mean (set for scale factor 10)"
        found.append(Target(name, f"at least {GAIN}", round(gain, 3), gain >= GAIN))
    return found


def _command(
    scale_factor: float, queries: Sequence[int], fractions: Sequence[float], repeats: int, changes: str, warm_up: int
) -> str:
    parts = [f"headwater bench tpch --sf {scale_factor:g}"]
    if tuple(queries) != NUMBERS:
        parts.append(f"--queries {','.join(map(str, queries))}")
    if tuple(fractions) != FRACTIONS:
        parts.append(f"--fractions {','.join(f'{each:g}' for each in fractions)}")
    if repeats != REPEATS:
        parts.append(f"--repeats {repeats}")
    if changes != Kind.VALUES.value:
        parts.append(f"--changes {changes}")
    if warm_up != WARM_UP:
        parts.append(f"--warm-up {warm_up}")
    return " ".join(parts)
