"""The daily case: RF1 and RF2 of TPC-H below the six-way join and a revenue aggregate, refreshed and recomputed.

A day is 0.1 % of the orders new with their line items, and as many old ones gone: four commits of a writer that knows
nothing of Headwater. Then the commits are captured, and for each view, in the same session: refreshed (timed with its
propagate and its apply) and recomputed (its text over the newest tables, written over a Delta table); both must hold
the same rows. A day of 2 %, as other systems were measured, follows; and the same absolute change below tables of half,
once and twice the size, which shows whether cost follows the change or the tables. Some days come first that are not
counted: a service keeps its session, and the first dozen statements of a shape take Spark several times as long. In the
last of them the views are recomputed too.

Twins of both views are refreshed together each day, in one round, which computes once what both need, unless
``together`` is off.

The keys and foreign keys along which the views join are declared and verified before, unless ``constraints`` is off.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.bench.curves import Curve, draw_curves
from headwater.bench.observed import SETTINGS, Observer, Work
from headwater.bench.report import Target, at_least, at_most, write
from headwater.bench.six_way import (
    REVENUE,
    SIX_WAY,
    TABLES,
    RefreshFunctions,
    declare,
    digest,
    recompute,
    require_scale,
    track,
)
from headwater.bench.tpch.refresh import require_fraction
from headwater.bench.tpch.tables import load
from headwater.engine.session import describe_machine, local_session
from headwater.errors import InvalidInput
from headwater.lake import Lake, connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY, PEERS = 0.001, 0.02
SCALES = (0.5, 1.0, 2.0)
REPEATS = 3
WARM_UP = 3  # days that are not counted
VIEWS = {"six_way": SIX_WAY, "revenue": REVENUE}
DAILY_GAIN, DAILY_GAIN_AT_10, PEERS_GAIN, DOUBLING = 6.0, 20.0, 4.0, 1.25


@dataclass(frozen=True, slots=True)
class Together:
    """Both views over one day, refreshed in one round; ``apart``: seconds of both, one after the other."""

    fraction: float
    round: Work
    apart: float
    equal: bool

    def as_dict(self) -> dict[str, Any]:
        gain = round(self.apart / self.round.seconds, 3)
        own = {"fraction": self.fraction, "round": _work(self.round), "apart_seconds": round(self.apart, 3)}
        return {**own, "gain": gain, "equal": self.equal}


@dataclass(frozen=True, slots=True)
class Day:
    """One view over one day."""

    view: str
    scale_factor: float
    fraction: float
    csn: int
    changed_rows: int
    capture: Work
    propagate: Work
    apply: Work
    recompute: Work
    mode: str
    rows: int
    equal: bool
    last: dict[str, Any]

    @property
    def refresh_seconds(self) -> float:
        return self.capture.seconds + self.propagate.seconds + self.apply.seconds

    @property
    def gain(self) -> float:
        return self.recompute.seconds / self.refresh_seconds

    def as_dict(self) -> dict[str, Any]:
        phases = {"capture": self.capture, "propagate": self.propagate, "apply": self.apply}
        return {
            "view": self.view,
            "scale_factor": self.scale_factor,
            "fraction": self.fraction,
            "changed_rows": self.changed_rows,
            "refresh_seconds": round(self.refresh_seconds, 3),
            "recompute_seconds": round(self.recompute.seconds, 3),
            "gain": round(self.gain, 3),
            "phases": {name: _work(work) for name, work in phases.items()},
            "recompute": _work(self.recompute),
            "mode": self.mode,
            "view_rows_changed": self.rows,
            "equal": self.equal,
            "integrity": self.last.get("integrity"),
            "blocks": self.last.get("blocks"),
        }


def run(
    *,
    sf: float | None,
    json_path: Path | None,
    progress: Callable[[str], None],
    fractions: Sequence[float] = (DAY, PEERS),
    scales: Sequence[float] = SCALES,
    repeats: int = REPEATS,
    strategy: str = "n-term",
    constraints: bool = True,
    together: bool = True,
    warm_up: int = WARM_UP,
) -> dict[str, Any]:
    scale_factor = 1.0 if sf is None else sf
    if repeats < 1 or warm_up < 0:
        raise InvalidInput("There is nothing to measure.", remedy="Give at least one repeat, and no negative numbers.")
    for scale in (1.0, *scales):
        require_scale(scale_factor * scale)
    for fraction in fractions:
        require_fraction(fraction)
    spark = local_session("headwater-bench", extra=SETTINGS)
    bench = _Bench(spark, repeats, warm_up, strategy, constraints, progress)
    days = bench.days(scale_factor, sorted(fractions), twins=together)
    scaled = [day for scale in scales if scale != 1.0 for day in bench.days(scale_factor * scale, [DAY / scale])]
    if 1.0 in scales:
        scaled += [day for day in days if day.fraction == DAY]
    options = "" if tuple(fractions) == (DAY, PEERS) else f" --fractions {','.join(f'{each:g}' for each in fractions)}"
    options += "" if tuple(scales) == SCALES else f" --scales {','.join(f'{each:g}' for each in scales)}"
    options += "" if repeats == REPEATS else f" --repeats {repeats}"
    options += "" if warm_up == WARM_UP else f" --warm-up {warm_up}"
    options += "" if constraints else " --no-constraints"
    options += "" if together else " --no-together"
    options += "" if strategy == "n-term" else f" --strategy {strategy}"
    report = {
        "benchmark": "daily",
        "command": f"headwater bench daily --sf {scale_factor:g}{options}",
        "machine": describe_machine(spark),
        "data": {
            "scale_factor": scale_factor,
            "repeats": repeats,
            "warm_up": warm_up,
            "strategy": strategy,
            "constraints": constraints,
        },
        "views": VIEWS,
        "equal": all(day.equal for day in (*days, *scaled)) and all(each.equal for each in bench.together),
        "days": [day.as_dict() for day in days],
        "together": [each.as_dict() for each in bench.together],
        "same_change": [day.as_dict() for day in sorted(scaled, key=lambda day: day.scale_factor)],
    }
    if json_path is not None and len(scales) > 1:
        json_path.parent.mkdir(parents=True, exist_ok=True)
        curves = [_curve(f"{view}, {what}", view, what, scaled) for view in VIEWS for what in ("refresh", "recompute")]
        draw_curves(
            curves,
            json_path.with_suffix(".svg"),
            title="The same change below tables of several sizes",
            across="scale factor",
        )
    return write(json_path, report, _targets(days, scaled, scale_factor))


class _Bench:
    def __init__(
        self,
        spark: SparkSession,
        repeats: int,
        warm_up: int,
        strategy: str,
        constraints: bool,
        progress: Callable[[str], None],
    ) -> None:
        self._spark = spark
        self._repeats = repeats
        self._warm_up = warm_up
        self._strategy = strategy
        self._constraints = constraints
        self._progress = progress
        self._observer = Observer(spark)
        self.together: list[Together] = []

    def days(self, scale_factor: float, fractions: Sequence[float], *, twins: bool = False) -> list[Day]:
        """``twins``: the views once more, to be refreshed together."""
        folder = Path(tempfile.mkdtemp(prefix="headwater-daily-"))
        try:
            places = load(self._spark, folder / "tables", scale_factor, self._progress, TABLES)
            with connect(folder / "lake", spark=self._spark) as lake:
                track(lake, places)
                made = VIEWS | ({_twin(name): text for name, text in VIEWS.items()} if twins else {})
                for name, text in made.items():
                    self._progress(f"SF {scale_factor:g}: creating {name}")
                    lake.sql(f"CREATE MATERIALIZED VIEW {name} OPTIONS (strategy = '{self._strategy}') AS\n{text}")
                if self._constraints:
                    self._progress(f"SF {scale_factor:g}: verifying constraints")
                    declare(lake)
                counted = [fraction for fraction in fractions for _ in range(self._repeats)]
                found = []
                for number, fraction in enumerate([*[fractions[0]] * self._warm_up, *counted], start=1):
                    label = f"SF {scale_factor:g}, day {number}, {fraction:.2%}"
                    recomputing = number >= self._warm_up
                    day = self._day(lake, places, folder, scale_factor, fraction, number, label, recomputing)
                    if number > self._warm_up:
                        found += day
                    if twins:
                        self._progress(f"{label}: both in one round")
                        both = self._round(lake, fraction, day)
                        self.together += [both] if number > self._warm_up else []
                return found
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _day(
        self,
        lake: Lake,
        places: dict[str, Path],
        folder: Path,
        scale_factor: float,
        fraction: float,
        number: int,
        label: str,
        recomputing: bool,
    ) -> list[Day]:
        """Every view over one day; compared with its recomputation if there is one."""
        before = lake.capture()
        changes = RefreshFunctions(self._spark, places, fraction, seed=number)
        changes.write(lambda what: self._progress(f"{label}: {what}"))
        with self._observer.watch() as capturing:
            csn = lake.capture()
        changed = sum(unit.rows or 0 for unit in lake.units_of_work() if unit.csn > before)
        found = []
        for view, text in VIEWS.items():
            self._progress(f"{label}: {view}")
            with self._observer.watch() as propagating:
                lake.propagate(view, csn)
            with self._observer.watch() as applying:
                report = lake.refresh(view, to=csn)
            anew, equal = Work(), True
            if recomputing:
                place = folder / f"recomputed-{view}"
                with self._observer.watch() as anew:
                    recompute(self._spark, places, text, place)
                equal = digest(lake.read(view)) == digest(self._spark.read.format("delta").load(str(place)))
            last = lake.explain(view).last or {}
            works = (capturing, propagating, applying, anew)
            found.append(Day(view, scale_factor, fraction, csn, changed, *works, report.mode, report.rows, equal, last))
        return found

    def _round(self, lake: Lake, fraction: float, days: Sequence[Day]) -> Together:
        with self._observer.watch() as working:
            lake.refresh_all(map(_twin, VIEWS), to=days[0].csn)
        apart = sum(day.propagate.seconds + day.apply.seconds for day in days)
        equal = all(digest(lake.read(view)) == digest(lake.read(_twin(view))) for view in VIEWS)
        return Together(fraction, working, apart, equal)


def _twin(view: str) -> str:
    return f"{view}_together"


def _work(work: Work) -> dict[str, float]:
    counted = ("jobs", "tasks", "files_read", "bytes_read", "rows_read")
    return {"seconds": round(work.seconds, 3), **{name: getattr(work, name) for name in counted}}


def _curve(name: str, view: str, what: str, days: Sequence[Day]) -> Curve:
    places = sorted({day.scale_factor for day in days})
    seconds = [
        statistics.median(
            day.refresh_seconds if what == "refresh" else day.recompute.seconds
            for day in days
            if day.view == view and day.scale_factor == place
        )
        for place in places
    ]
    return Curve(name, places, seconds)


def _targets(days: Sequence[Day], scaled: Sequence[Day], scale_factor: float) -> list[Target]:
    found = []
    daily = DAILY_GAIN_AT_10 if scale_factor >= 10 else DAILY_GAIN
    for fraction, wanted in ((DAY, daily), (PEERS, PEERS_GAIN)):
        for view in VIEWS:
            gains = [day.gain for day in days if day.fraction == fraction and day.view == view]
            if gains:
                name = f"recomputing / refreshing {view} for {fraction:.1%}"
                found.append(at_least(name, wanted, statistics.median(gains)))
    for view in VIEWS:
        curve = _curve(view, view, "refresh", scaled)
        pairs = zip(curve.places, curve.seconds, curve.places[1:], curve.seconds[1:], strict=False)
        slower = [other / one for place, one, after, other in pairs if after == 2 * place]
        if slower:
            name = f"the same change of {view} with tables twice as large, slowest doubling"
            found.append(at_most(name, DOUBLING, max(slower)))
    return found
