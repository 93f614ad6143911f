"""Policies side by side on the streams of [He05 §5]: what each costs, as a multiple of OPT_LGM.

    python -m headwater.schedule.compare [--seeds N] [--refresh-time T] [--json]

Figure 7's streams and refresh time (1000 steps, limit 20) with cost functions of the *shape* of Figure 4, whose
numbers the paper does not print: one that hardly grows after an initial rise (updates of PartSupp, which find small
tables in memory) and one that grows by the row (updates of Supplier, which meet a large table). With our numbers the
first never fills the limit alone, so the best plan nearly always empties the second: easy for whoever looks ahead.
Two linear pairs stand beside it that are harder: one with a fixed cost that dominates, one that is nearly even. The
limit is 20 for all of them; arrivals of both tables are drawn from one kind of stream.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from random import Random
from statistics import fmean
from typing import Any

from headwater.schedule.adapt import Adapt
from headwater.schedule.ahead import Ahead
from headwater.schedule.cost import CostFunction, Linear, PiecewiseLinear
from headwater.schedule.online import Online
from headwater.schedule.policy import Naive, Policy
from headwater.schedule.problem import Arrivals, Promise
from headwater.schedule.rates import SettledRate
from headwater.schedule.search import best_lgm_plan
from headwater.schedule.simulate import simulate
from headwater.schedule.streams import PAPER_STREAMS, NormalStream, drawn

SHAPES: Mapping[str, tuple[CostFunction, ...]] = {
    "figure 4": (PiecewiseLinear(((0, 2.0), (20, 6.0), (1000, 7.0))), Linear(0.15, 1.0)),
    "fixed cost": (Linear(0.01, 8.0), Linear(0.2, 2.0)),
    "nearly even": (Linear(0.1, 4.0), Linear(0.2, 2.0)),
}
COST_LIMIT = 20.0

POLICIES: Mapping[str, Policy[Any]] = {
    "naive": Naive(),
    "online": Online(),
    "online, settled rate": Online(SettledRate()),
    "ahead": Ahead(),
}


@dataclass(frozen=True, slots=True)
class Measured:
    """A policy on a kind of stream: total cost over OPT_LGM, and violations, over all seeds."""

    shape: str
    stream: str
    policy: str
    mean_ratio: float
    worst_ratio: float
    violations: int


def ratios(
    shape: str,
    stream: str,
    *,
    seeds: Iterable[int],
    refresh_time: int = 1000,
    policies: Mapping[str, Policy[Any]] = POLICIES,
) -> list[Measured]:
    """Each policy, and ADAPT to a stream of the same kind that is not the one it meets, with half the refresh time."""
    promise = Promise(SHAPES[shape], COST_LIMIT)
    kind = PAPER_STREAMS[stream]
    costs: dict[str, list[float]] = {}
    broken: dict[str, int] = {}
    for seed in seeds:
        arrivals = _arrivals(kind, refresh_time, seed)
        foreseen = _arrivals(kind, refresh_time // 2, -1 - seed)
        best = best_lgm_plan(arrivals, promise).cost
        for name, policy in {**policies, "adapt": Adapt.to(foreseen, promise)}.items():
            run = simulate(policy, arrivals, promise)
            costs.setdefault(name, []).append(run.total_cost / best)
            broken[name] = broken.get(name, 0) + len(run.violations)
    return [
        Measured(shape, stream, name, round(fmean(found), 3), round(max(found), 3), broken[name])
        for name, found in costs.items()
    ]


def _arrivals(kind: NormalStream, refresh_time: int, seed: int) -> Arrivals:
    return drawn([kind, kind], refresh_time, Random(seed))  # noqa: S311 streams to try out, not secrets


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m headwater.schedule.compare", description="Policies over OPT_LGM.")
    parser.add_argument("--seeds", type=int, default=3, help="arrival sequences of each kind (3)")
    parser.add_argument("--refresh-time", type=int, default=1000, help="steps (1000)")
    parser.add_argument("--json", action="store_true", help="one JSON list instead of lines")
    told = parser.parse_args(arguments)
    found = []
    for shape in SHAPES:
        for stream in PAPER_STREAMS:
            measured = ratios(shape, stream, seeds=range(told.seeds), refresh_time=told.refresh_time)
            found += measured
            if not told.json:
                cells = (f"{each.policy} {each.mean_ratio:.3f} (worst {each.worst_ratio:.3f})" for each in measured)
                sys.stdout.write(f"{shape:12} {stream}: " + ", ".join(cells) + "\n")
                sys.stdout.flush()
    if told.json:
        sys.stdout.write(json.dumps([asdict(each) for each in found], indent=2) + "\n")


if __name__ == "__main__":
    main()
