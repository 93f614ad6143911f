"""Figures 6 and 7, simulated over measured cost functions [He05 §5]; pure.

The paper's limits (12 and 20 seconds) are for its own functions, which it does not print. Ours is what makes a backlog
full after ``FULL_AFTER`` steps without any action, and for Figure 7 as many times more as 20 is of 12.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from statistics import fmean
from typing import Any

from headwater.schedule.adapt import Adapt
from headwater.schedule.ahead import Ahead
from headwater.schedule.cost import CostFunction
from headwater.schedule.online import Online
from headwater.schedule.policy import Naive, Policy
from headwater.schedule.problem import Arrivals, Promise
from headwater.schedule.search import best_lgm_plan
from headwater.schedule.simulate import simulate
from headwater.schedule.streams import PAPER_STREAMS, constant, drawn

FULL_AFTER = 12
ADAPTED_TO = 500
SEEDS = 3
POLICIES: dict[str, Policy[Any]] = {"naive": Naive(), "online": Online(), "ahead": Ahead()}


def limit(costs: Sequence[CostFunction], rows: int, steps: int = FULL_AFTER) -> float:
    """What a refresh costs after so many steps with one modification of each table."""
    return sum(f(steps * rows) for f in costs)


def figure_6(costs: tuple[CostFunction, ...], rows: int, refresh_times: Sequence[int]) -> list[dict[str, Any]]:
    """One modification of each table a step; the refresh sooner or later."""
    promise = Promise(costs, limit(costs, rows))
    step = (rows,) * len(costs)
    adapted = Adapt.to(constant(step, min(ADAPTED_TO, max(refresh_times))), promise)
    found = []
    for refresh_time in refresh_times:
        arrivals = constant(step, refresh_time)
        runs = {name: simulate(policy, arrivals, promise) for name, policy in {**POLICIES, "adapt": adapted}.items()}
        found.append(
            {
                "refresh_time": refresh_time,
                "opt_lgm": best_lgm_plan(arrivals, promise).cost,
                **{name: run.total_cost for name, run in runs.items()},
                "violations": {name: len(run.violations) for name, run in runs.items()},
            }
        )
    return found


def figure_7(
    costs: tuple[CostFunction, ...], rows: int, refresh_time: int, seeds: Sequence[int] = range(SEEDS)
) -> list[dict[str, Any]]:
    """Slow and fast, stable and unstable streams."""
    promise = Promise(costs, limit(costs, rows) * 20 / 12)
    found = []
    for name, kind in PAPER_STREAMS.items():
        totals: dict[str, list[float]] = {}
        for seed in seeds:
            counted = drawn([kind] * len(costs), refresh_time, Random(seed))  # noqa: S311 streams, not secrets
            arrivals = Arrivals(tuple(tuple(rows * count for count in step) for step in counted.steps))
            best = best_lgm_plan(arrivals, promise).cost
            totals.setdefault("opt_lgm", []).append(best)
            for policy_name, policy in POLICIES.items():
                totals.setdefault(policy_name, []).append(simulate(policy, arrivals, promise).total_cost)
        best_costs = totals["opt_lgm"]
        found.append(
            {
                "stream": name,
                "stable": name.endswith("S"),
                "seconds": {each: fmean(costs_) for each, costs_ in totals.items()},
                "over_opt": {
                    each: max(cost / best for cost, best in zip(costs_, best_costs, strict=True))
                    for each, costs_ in totals.items()
                },
            }
        )
    return found
