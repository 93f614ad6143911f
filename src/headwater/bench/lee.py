"""[Lee01 §5] on Spark: the six-way join kept by a delta tree, by n terms, and recomputed, side by side.

Figure 4: 2 to 10 % of the base tables change. Figure 5: tables of half, once and twice the size, 5 % of which change.
Two views of one text differ in their strategy alone; after each round of changes, in turns, the change of each is
computed and appended to its view delta, and the text is computed anew and written to a Delta table: the same kind
of sink. Then both changes are applied, which is timed on its own, and all three must hold the same rows. A first round
warms up and is not counted.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.bench.curves import Curve, draw_curves
from headwater.bench.observed import SETTINGS, Observer, Work
from headwater.bench.report import Target, at_least, write
from headwater.bench.six_way import SIX_WAY, TABLES, BaseChanges, digest, recompute, require_scale, track
from headwater.bench.tpch.refresh import require_fraction
from headwater.bench.tpch.tables import load
from headwater.engine.session import describe_machine, local_session
from headwater.lake import Lake, connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FRACTIONS = (0.02, 0.04, 0.06, 0.08, 0.10)
SCALES = (0.5, 1.0, 2.0)
SCALED_FRACTION = 0.05
REPEATS = 1
VIEWS = {"n-term": "by_n_terms", "tree": "by_tree"}
TREE_AT_2, TREE_AT_10, TREE_TO_N_TERM = 2.5, 1.5, 1.8


@dataclass(frozen=True, slots=True)
class Round:
    """What one change of the base tables took, by strategy; ``applied`` beside it, which is no part of it."""

    scale_factor: float
    fraction: float
    changed_rows: int
    computed: dict[str, Work]
    applied: dict[str, float]
    equal: bool
    reports: dict[str, Any]

    def seconds(self, strategy: str) -> float:
        return self.computed[strategy].seconds

    def as_dict(self) -> dict[str, Any]:
        return {
            "scale_factor": self.scale_factor,
            "fraction": self.fraction,
            "changed_rows": self.changed_rows,
            "seconds": {name: round(work.seconds, 3) for name, work in self.computed.items()},
            "apply_seconds": {name: round(seconds, 3) for name, seconds in self.applied.items()},
            "work": {name: _work(work) for name, work in self.computed.items()},
            "equal": self.equal,
            "blocks": self.reports,
        }


def run(
    *,
    sf: float | None,
    json_path: Path | None,
    progress: Callable[[str], None],
    fractions: Sequence[float] = FRACTIONS,
    scales: Sequence[float] = SCALES,
    repeats: int = REPEATS,
) -> dict[str, Any]:
    scale_factor = 1.0 if sf is None else sf
    for scale in (1.0, *scales):
        require_scale(scale_factor * scale)
    for fraction in fractions:
        require_fraction(fraction / 2)
    spark = local_session("headwater-bench", extra=SETTINGS)
    scaled = [SCALED_FRACTION] if 1.0 in scales else []
    rounds = _series(spark, scale_factor, sorted({*fractions, *scaled}), repeats, progress)
    by_change = [each for each in rounds if each.fraction in fractions]
    by_scale = [each for each in rounds if each.fraction in scaled]
    for scale in scales:
        if scale != 1.0:
            by_scale += _series(spark, scale_factor * scale, [SCALED_FRACTION], repeats, progress)
    machine = describe_machine(spark)
    report = {
        "benchmark": "lee",
        "command": f"headwater bench lee --sf {scale_factor:g}",
        "machine": machine,
        "view": SIX_WAY,
        "equal": all(each.equal for each in (*by_change, *by_scale)),
        "by_change": [each.as_dict() for each in by_change],
        "by_scale": [each.as_dict() for each in sorted(by_scale, key=lambda each: each.scale_factor)],
    }
    if json_path is not None:
        json_path.parent.mkdir(parents=True, exist_ok=True)
        _draw(by_change, by_scale, scale_factor, json_path)
    return write(json_path, report, _targets(by_change))


def _series(
    spark: SparkSession, scale_factor: float, fractions: Sequence[float], repeats: int, progress: Callable[[str], None]
) -> list[Round]:
    folder = Path(tempfile.mkdtemp(prefix="headwater-lee-"))
    try:
        places = load(spark, folder / "tables", scale_factor, progress, TABLES)
        with connect(folder / "lake", spark=spark) as lake:
            track(lake, places)
            for strategy, name in VIEWS.items():
                progress(f"SF {scale_factor:g}: creating {name}")
                lake.sql(f"CREATE MATERIALIZED VIEW {name} OPTIONS (strategy = '{strategy}') AS\n{SIX_WAY}")
            bench = _Bench(spark, lake, places, folder / "recomputed", scale_factor, progress)
            bench.round(min(fractions))
            return [bench.round(fraction) for fraction in sorted(fractions) for _ in range(repeats)]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _Bench:
    def __init__(
        self,
        spark: SparkSession,
        lake: Lake,
        places: dict[str, Path],
        recomputed: Path,
        scale_factor: float,
        progress: Callable[[str], None],
    ) -> None:
        self._spark = spark
        self._lake = lake
        self._places = places
        self._recomputed = recomputed
        self._scale_factor = scale_factor
        self._progress = progress
        self._observer = Observer(spark)
        self._rounds = 0

    def round(self, fraction: float) -> Round:
        self._rounds += 1
        label = f"SF {self._scale_factor:g}, round {self._rounds}, {fraction:.1%}"
        before = self._lake.capture()
        changes = BaseChanges(self._spark, self._places, fraction / 2, seed=self._rounds)
        changes.write(lambda what: self._progress(f"{label}: {what}"))
        csn = self._lake.capture()
        ways: list[tuple[str, Callable[[], object]]] = [
            (strategy, partial(self._lake.propagate, name, csn)) for strategy, name in VIEWS.items()
        ]
        ways.append(("recompute", lambda: recompute(self._spark, self._places, SIX_WAY, self._recomputed)))
        # In turns, so that no strategy always finds what another has just read.
        turn = self._rounds % len(ways)
        computed = {}
        for name, compute in ways[turn:] + ways[:turn]:
            self._progress(f"{label}: {name}")
            with self._observer.watch() as work:
                compute()
            computed[name] = work
        applied = {}
        for strategy, name in VIEWS.items():
            self._progress(f"{label}: applying {name}")
            started = time.perf_counter()
            self._lake.refresh(name, to=csn)
            applied[strategy] = time.perf_counter() - started
        self._progress(f"{label}: comparing")
        rows = [self._spark.read.format("delta").load(str(self._recomputed))]
        rows += [self._lake.read(name) for name in VIEWS.values()]
        units = [unit for unit in self._lake.units_of_work() if unit.csn > before]
        return Round(
            self._scale_factor,
            fraction,
            sum(unit.rows or 0 for unit in units),
            computed,
            applied,
            len({digest(each) for each in rows}) == 1,
            {strategy: self._reports(name) for strategy, name in VIEWS.items()},
        )

    def _reports(self, view: str) -> Any:
        return ((self._lake.explain(view).last) or {}).get("blocks")


def _work(work: Work) -> dict[str, int]:
    return {name: getattr(work, name) for name in ("jobs", "tasks", "files_read", "bytes_read", "rows_read")}


def _targets(rounds: Sequence[Round]) -> list[Target]:
    found = []
    for fraction, wanted in ((0.02, TREE_AT_2), (0.10, TREE_AT_10)):
        own = [each for each in rounds if each.fraction == fraction]
        if own:
            gain = statistics.median(each.seconds("recompute") / each.seconds("tree") for each in own)
            found.append(at_least(f"recomputing / tree at {fraction:.0%}", wanted, gain))
    if rounds:
        series = statistics.geometric_mean(each.seconds("n-term") / each.seconds("tree") for each in rounds)
        found.append(at_least("n terms / tree over the series, geometric mean", TREE_TO_N_TERM, series))
    return found


def _draw(by_change: Sequence[Round], by_scale: Sequence[Round], scale_factor: float, json_path: Path) -> None:
    names = ("recompute", *VIEWS)

    def curves(rounds: Sequence[Round], at: Callable[[Round], float]) -> list[Curve]:
        places = sorted({at(each) for each in rounds})
        return [
            Curve(
                name,
                places,
                [statistics.median(each.seconds(name) for each in rounds if at(each) == place) for place in places],
            )
            for name in names
        ]

    if by_change:
        draw_curves(
            curves(by_change, lambda each: 100 * each.fraction),
            json_path.with_suffix(".svg"),
            title=f"Six-way join at scale factor {scale_factor:g}: computing the change [Lee01, Fig. 4]",
            across="changed tuples of the base tables, %",
        )
    if by_scale:
        draw_curves(
            curves(by_scale, lambda each: each.scale_factor),
            json_path.with_name(f"{json_path.stem}-scale.svg"),
            title=f"Six-way join, {SCALED_FRACTION:.0%} changed, by size of the base tables [Lee01, Fig. 5]",
            across="scale factor",
        )
