"""Small random problems, and answers found by looking at everything.

Costs are multiples of 1/4, so that sums are exact and equal costs are equal.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import combinations, product
from typing import Any

from hypothesis import strategies as st

from headwater.schedule.cost import Blocks, CostFunction, Linear, PiecewiseLinear
from headwater.schedule.plan import Action, MaintenancePlan, is_lgm, is_valid
from headwater.schedule.problem import Arrivals, Counts, Promise, add, subtract


@dataclass(frozen=True, slots=True)
class Tabulated:
    """Any monotone, subadditive function, as a table; beyond its end it stays as it is."""

    values: tuple[float, ...]

    @classmethod
    def below(cls, heights: list[float]) -> Tabulated:
        """The largest monotone, subadditive function that lies nowhere above the running maximum of ``heights``."""
        values = [0.0]
        for rows in range(1, len(heights) + 1):
            together = max(heights[:rows])
            values.append(min([together, *(values[part] + values[rows - part] for part in range(1, rows))]))
        return cls(tuple(values))

    def __call__(self, rows: int) -> float:
        return self.values[min(rows, len(self.values) - 1)]

    @property
    def is_concave(self) -> bool:
        return False

    def to_dict(self) -> dict[str, Any]:
        return {"form": "tabulated", "values": list(self.values)}


quarters = st.integers(0, 16).map(lambda units: units / 4)
positive_quarters = st.integers(1, 16).map(lambda units: units / 4)
linear_costs = st.builds(Linear, positive_quarters, quarters)


@st.composite
def concave_costs(draw: st.DrawFn) -> CostFunction:
    slopes = sorted(draw(st.lists(quarters, min_size=1, max_size=3)), reverse=True)
    points = [(0, draw(quarters))]
    for slope in slopes:
        width = draw(st.integers(1, 4))
        points.append((points[-1][0] + width, points[-1][1] + slope * width))
    return PiecewiseLinear(tuple(points))


def subadditive_costs() -> st.SearchStrategy[CostFunction]:
    return st.one_of(
        linear_costs,
        concave_costs(),
        st.builds(Blocks, st.integers(1, 4), positive_quarters),
        st.lists(quarters, min_size=1, max_size=14).map(Tabulated.below),
    )


@dataclass(frozen=True, slots=True)
class Instance:
    arrivals: Arrivals
    promise: Promise


@st.composite
def instances(
    draw: st.DrawFn,
    costs: st.SearchStrategy[CostFunction] | None = None,
    *,
    tables: int = 2,
    refresh_time: int = 4,
    most: int = 2,
) -> Instance:
    number = draw(st.integers(1, tables))
    steps = draw(
        st.lists(
            st.tuples(*[st.integers(0, most)] * number), min_size=min(2, refresh_time + 1), max_size=refresh_time + 1
        )
    )
    functions = draw(st.tuples(*[subadditive_costs() if costs is None else costs] * number))
    # a limit within reach, so that plans are forced to act
    whole = sum(function(sum(step[table] for step in steps)) for table, function in enumerate(functions))
    limit = draw(st.integers(0, int(4 * whole) + 1)) / 4
    return Instance(Arrivals.of(steps), Promise(functions, limit))


def best_plan(instance: Instance) -> tuple[float, MaintenancePlan]:
    """OPT: the best of all valid plans, greedy or not."""
    arrivals, promise = instance.arrivals, instance.promise

    @cache
    def onwards(time: int, left: Counts) -> tuple[float, tuple[Action, ...]]:
        backlog = add(left, arrivals.steps[time])
        if time == arrivals.refresh_time:
            return promise.cost(backlog), (Action(backlog),)
        best: tuple[float, tuple[Action, ...]] | None = None
        for counts in product(*(range(count + 1) for count in backlog)):
            after = subtract(backlog, counts)
            if promise.cost(after) <= promise.cost_limit:
                cost, actions = onwards(time + 1, after)
                cost += promise.cost(counts)
                if best is None or cost < best[0]:
                    best = cost, (Action(counts), *actions)
        assert best is not None
        return best

    cost, actions = onwards(0, (0,) * arrivals.tables)
    return cost, MaintenancePlan(actions)


def greedy_plans(instance: Instance) -> list[MaintenancePlan]:
    """Every plan whose actions each empty some of the tables."""
    arrivals = instance.arrivals
    tables = range(arrivals.tables)
    subsets = [frozenset(chosen) for size in range(len(tables) + 1) for chosen in combinations(tables, size)]

    def from_step(time: int, left: Counts) -> list[tuple[Action, ...]]:
        backlog = add(left, arrivals.steps[time])
        if time == arrivals.refresh_time:
            return [(Action(backlog),)]
        found = {Action.emptying(chosen, backlog) for chosen in subsets}
        return [(action, *rest) for action in found for rest in from_step(time + 1, subtract(backlog, action.counts))]

    return [MaintenancePlan(actions) for actions in from_step(0, (0,) * arrivals.tables)]


def lgm_plans(instance: Instance) -> list[MaintenancePlan]:
    """Every plan that Definitions 1 to 3 admit."""
    arrivals, promise = instance.arrivals, instance.promise
    return [
        plan for plan in greedy_plans(instance) if is_valid(plan, arrivals, promise) and is_lgm(plan, arrivals, promise)
    ]


@st.composite
def valid_plans(draw: st.DrawFn, instance: Instance) -> MaintenancePlan:
    """Any valid plan: what it processes at a step is drawn, and more is added while the backlog would be full."""
    arrivals, promise = instance.arrivals, instance.promise
    left = (0,) * arrivals.tables
    actions = []
    for time, arrived in enumerate(arrivals.steps):
        backlog = add(left, arrived)
        if time == arrivals.refresh_time:
            counts = list(backlog)
        else:
            counts = [draw(st.integers(0, count)) for count in backlog]
            while promise.is_full(subtract(backlog, tuple(counts))):
                table = draw(st.sampled_from([i for i, count in enumerate(backlog) if counts[i] < count]))
                counts[table] += 1
        actions.append(Action(tuple(counts)))
        left = subtract(backlog, tuple(counts))
    return MaintenancePlan(tuple(actions))
