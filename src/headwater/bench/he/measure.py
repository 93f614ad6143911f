"""Figures 4 and 5 measured, 6 and 7 simulated over what was measured [He05 §5].

Figure 4: cost functions of PartSupp and Supplier updates, from steps of doubling size: of the join's leaves, as the
scheduler uses them (``Lake.calibrate``), and of the paper's MIN view in one piece.
Figure 5: three plans (NAIVE, ONLINE, the best LGM plan) over one stream, each carried out on a view of its own, beside
what the simulator says that they cost.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.algebra.time import Csn
from headwater.bench.he.picture import draw
from headwater.bench.he.simulated import ADAPTED_TO, FULL_AFTER, POLICIES, figure_6, figure_7, limit
from headwater.bench.he.stream import LOWEST, OFFERS, PARTSUPP, SUPPLIER, Stream, load
from headwater.bench.report import Target, at_most, write
from headwater.calibration import part_targets
from headwater.engine.session import describe_machine, local_session
from headwater.lake import Lake, connect
from headwater.measured import ViewMeasure
from headwater.propagate.driver import propagate_leaves
from headwater.schedule.calibration import batch_sizes
from headwater.schedule.cost import CostFunction
from headwater.schedule.fit import Sample, fit
from headwater.schedule.plan import MaintenancePlan
from headwater.schedule.problem import Promise
from headwater.schedule.search import best_lgm_plan
from headwater.schedule.simulate import simulate
from headwater.schedule.streams import constant

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAMES = ("partsupp", "supplier")
WITHIN = 0.10
STABLE, UNSTABLE = 1.10, 1.25
Busy = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Scale:
    rows: int  # of one modification: enough that more of them take longer, not only the first
    steps: int  # sizes of batches that are measured
    rounds: int
    plan_steps: int  # T of Figure 5
    plan_full_after: int
    refresh_times: tuple[int, ...]

    @classmethod
    def of(cls, sf: float, repeats: int | None) -> Scale:
        """The figures of the paper from scale factor 0.1 on; below, enough to see that everything works."""
        if sf >= 0.1:
            return cls(max(4, 4 * round(2500 * min(1.0, sf))), 4, repeats or 3, 24, 6, tuple(range(100, 1001, 100)))
        return cls(4, 2, repeats or 1, 4, 2, (50, 100))

    @property
    def changed(self) -> int:
        """Rows of a modification as the log counts them: an update takes one away and gives one."""
        return 2 * self.rows

    @property
    def commits(self) -> int:
        """Of each table, so that the smallest batch is one modification."""
        return int(2**self.steps) - 1


def run(*, sf: float | None, json_path: Path | None, progress: Busy, repeats: int | None = None) -> dict[str, Any]:
    scale_factor = sf or 1.0
    scale = Scale.of(scale_factor, repeats)
    folder = Path(tempfile.mkdtemp(prefix="headwater-he-"))
    spark = local_session("headwater-bench", master="local[2]", memory="3g")
    try:
        progress(f"generating TPC-H data at scale factor {scale_factor:g}")
        places = load(spark, folder, scale_factor)
        with connect(folder / "lake", spark=spark, progress=progress) as lake:
            for name, place in places.items():
                lake.track(name, place)
            stream = Stream(spark, places, scale.rows)
            lake.sql(f"CREATE MATERIALIZED VIEW offers AS {OFFERS}")
            lake.sql(f"CREATE MATERIALIZED VIEW lowest AS {LOWEST}")
            whole = _figure_4(lake, stream, scale, progress)
            views = ["offers", *(f"offers_{plan}" for plan in ("naive", "online", "opt_lgm"))]
            for view in views[1:]:
                lake.sql(f"CREATE MATERIALIZED VIEW {view} AS {OFFERS}")
            measure = lake.costs("offers")
            costs = _functions(measure)
            figure_5 = _figure_5(lake, stream, scale, costs, progress)
            equal = _equal(spark, lake, places, [*views, "lowest"])
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    progress("simulating refresh times")
    six = figure_6(costs, scale.changed, scale.refresh_times)
    progress("simulating streams")
    seven = figure_7(costs, scale.changed, scale.refresh_times[-1])
    report = {
        "benchmark": "he",
        "command": f"headwater bench he --sf {scale_factor:g}",
        "machine": describe_machine(spark),
        "data": {"scale_factor": scale_factor, "rows_of_a_modification": scale.rows, "rounds": scale.rounds},
        "view": LOWEST,
        "join": OFFERS,
        "equal": equal,
        "figure_4": {
            "leaves": {
                name: _curve(measure.costs.parts[leaf], measure.samples[leaf]) for leaf, name in enumerate(NAMES)
            },
            "view_in_one_piece": whole,
            "overhead": {"capture": _one(measure.costs.capture), "apply": _one(measure.costs.apply)},
        },
        "figure_5": figure_5,
        "figure_6": {
            "cost_limit": limit(costs, scale.changed),
            "full_after": FULL_AFTER,
            "adapted_to": ADAPTED_TO,
            "runs": six,
        },
        "figure_7": {"cost_limit": limit(costs, scale.changed) * 20 / 12, "runs": seven},
    }
    if json_path is not None:
        json_path.parent.mkdir(parents=True, exist_ok=True)
        draw(report, json_path.with_suffix(".svg"))
    return write(json_path, report, _targets(figure_5, seven, equal=equal))


# ---------------------------------------------------------------------- Figure 4


def _figure_4(lake: Lake, stream: Stream, scale: Scale, progress: Busy) -> dict[str, Any]:
    """Rounds of commits and calibrations; what the view in one piece took of updates of one table alone."""
    samples: dict[str, list[Sample]] = {name: [] for name in NAMES}
    for number in range(scale.rounds):
        for leaf, name in enumerate(NAMES):
            progress(f"round {number + 1} of {scale.rounds}: {scale.commits} commits to {name}")
            for _ in range(scale.commits):
                stream.both[leaf]()
            samples[name] += _one_piece(lake, scale, warm_up=number == 0 and leaf == 0)
        lake.calibrate("offers", steps=scale.steps)
    return {
        name: {"samples": [[each.rows, round(each.seconds, 3)] for each in found], "fitted": fit(found).to_dict()}
        for name, found in samples.items()
    }


def _one_piece(lake: Lake, scale: Scale, *, warm_up: bool) -> list[Sample]:
    """The MIN view over what one table's commits changed, in batches of doubling size."""
    context = lake._context  # noqa: SLF001 (the drivers one by one, to time each)
    start, newest = lake.status().newest_csn, lake.capture()
    leaves = len(context.catalog.leaves(context.catalog.view("lowest").view_id))
    found: list[Sample] = []
    reached = start
    for size in batch_sizes(newest - start, scale.steps):
        rows = sum(unit.rows or 0 for unit in lake.units_of_work() if reached < unit.csn <= reached + size)
        reached += size
        began = time.monotonic()
        propagate_leaves(context, "lowest", [Csn(reached)] * leaves)
        found.append(Sample(max(1, rows), time.monotonic() - began))
    return found[1:] if warm_up and len(found) > 1 else found


def _functions(measure: ViewMeasure) -> tuple[CostFunction, ...]:
    found = [measure.costs.part(leaf) for leaf in (PARTSUPP, SUPPLIER)]
    return tuple(each for each in found if each is not None)


def _curve(function: Any, samples: Any) -> dict[str, Any]:
    warm = [[sample.rows, round(sample.seconds, 3)] for sample in samples if not sample.cold]
    return {"samples": warm, "fitted": None if function is None else function.to_dict()}


def _one(function: Any) -> float | None:
    return None if function is None else round(function(1), 3)


# ---------------------------------------------------------------------- Figure 5


def _figure_5(
    lake: Lake, stream: Stream, scale: Scale, costs: tuple[CostFunction, ...], progress: Busy
) -> dict[str, Any]:
    arrivals = constant((scale.changed, scale.changed), scale.plan_steps)
    promise = Promise(costs, limit(costs, scale.changed, scale.plan_full_after))
    plans = {name: simulate(POLICIES[name], arrivals, promise).plan for name in ("naive", "online")}
    plans["opt_lgm"] = best_lgm_plan(arrivals, promise).plan
    for commit in stream.both:  # the first step of a view takes longer than any after it
        commit()
    newest = lake.capture()
    for name in plans:
        lake.refresh(f"offers_{name}", to=newest)
    actual: dict[str, list[float]] = {name: [] for name in plans}
    for step in range(scale.plan_steps + 1):
        progress(f"three plans: step {step} of {scale.plan_steps}")
        for commit in stream.both:
            commit()
        csn = lake.capture()
        for name, plan in plans.items():
            if plan.actions[step].touched:
                actual[name].append(_act(lake, f"offers_{name}", plan, step, csn))
    found = {}
    for name, plan in plans.items():
        simulated, taken = plan.cost(promise), sum(actual[name])
        found[name] = {
            "actions": [list(action.counts) for action in plan.actions],
            "seconds": [round(seconds, 3) for seconds in actual[name]],  # of each action that does anything
            "simulated": round(simulated, 3),
            "actual": round(taken, 3),
            "off_by": round(simulated / taken - 1, 4),
        }
    return {"cost_limit": promise.cost_limit, "refresh_time": scale.plan_steps, "plans": found}


def _act(lake: Lake, view: str, plan: MaintenancePlan, step: int, csn: int) -> float:
    """Carry out one action, leaf after leaf; the seconds that it took."""
    context = lake._context  # noqa: SLF001 (the drivers one by one, to time each)
    record = context.catalog.view(view)
    everything = sum(unit.rows or 0 for unit in lake.units_of_work()) + 1
    began = time.monotonic()
    for leaf in sorted(plan.actions[step].touched):
        propagate_leaves(context, view, part_targets(context, record, leaf, everything, Csn(csn)))
    return time.monotonic() - began


def _equal(spark: SparkSession, lake: Lake, places: dict[str, Path], views: list[str]) -> bool:
    """All views, brought to the end, hold what Spark's own answer to their text holds."""
    for name, place in places.items():
        spark.read.format("delta").load(str(place)).createOrReplaceTempView(name)
    right = True
    for view in views:
        lake.refresh(view)
        own, other = lake.read(view), spark.sql(LOWEST if view == "lowest" else OFFERS)
        right = right and not own.exceptAll(other).count() and not other.exceptAll(own).count()
    return right


def _targets(figure_5: dict[str, Any], seven: list[dict[str, Any]], *, equal: bool) -> list[Target]:
    found = [
        at_most(f"simulated against actual, {name}", WITHIN, abs(run["off_by"]))
        for name, run in figure_5["plans"].items()
    ]
    for policy in ("online", "ahead"):
        for stable, most in ((True, STABLE), (False, UNSTABLE)):
            worst = max(run["over_opt"][policy] for run in seven if run["stable"] is stable)
            kind = "stable" if stable else "unstable"
            found.append(at_most(f"{policy} over OPT_LGM, {kind} streams", most, worst))
    return [*found, Target("views equal to recomputation", "yes", float(equal), equal)]
