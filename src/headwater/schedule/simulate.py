"""Any policy over any arrivals, without running anything [He05 §5, "Simulation and validation"].

The policy decides by the cost functions of the promise; what its actions cost may be told by others (``actual``),
such as functions measured later, or the same with a margin taken off. Whatever a policy does, at T the rest is
processed.

A *violation* is a step before T after whose action a refresh would really have cost more than the limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from headwater.errors import InternalError
from headwater.schedule.cost import CostFunction
from headwater.schedule.plan import Action, MaintenancePlan
from headwater.schedule.policy import Policy, Situation
from headwater.schedule.problem import Arrivals, Counts, Promise, add, nothing, subtract

Memory = TypeVar("Memory")


@dataclass(frozen=True, slots=True)
class Run:
    """What a policy did, and what came of it."""

    plan: MaintenancePlan
    total_cost: float
    actions: int  # steps at which something was processed, the refresh included
    violations: tuple[int, ...]  # steps
    backlog: tuple[Counts, ...]  # after the action of each step
    refresh_cost: tuple[float, ...]  # what a refresh would have cost then; at T, what it did cost

    @property
    def worst_refresh(self) -> float:
        return max(self.refresh_cost)


def simulate(
    policy: Policy[Memory],
    arrivals: Arrivals,
    promise: Promise,
    *,
    actual: tuple[CostFunction, ...] | None = None,
) -> Run:
    """The policy from a refreshed view at step 0 to the refresh at T."""
    real = promise
    if actual is not None:
        real = Promise(actual, promise.cost_limit, min(promise.shared, *(f(1) for f in actual)))
    memory = policy.begin(arrivals.tables)
    left = nothing(arrivals.tables)
    spent = 0.0
    actions, backlogs, refresh_costs = [], [], []
    for time, arrived in enumerate(arrivals.steps):
        before = add(left, arrived)
        if time == arrivals.refresh_time:
            action = Action(before)
            refresh_costs.append(real.cost(before))
        else:
            decision = policy.decide(memory, Situation(time, arrived, before, spent, promise))
            action, memory = decision.action, decision.memory
        left = subtract(before, action.counts)
        if min(*action.counts, *left) < 0:
            raise InternalError(f"{policy.name} processes {action.counts} of {before} at step {time}")
        if time < arrivals.refresh_time:
            refresh_costs.append(real.cost(left))
        spent += real.cost(action.counts)
        actions.append(action)
        backlogs.append(left)
    return Run(
        plan=MaintenancePlan(tuple(actions)),
        total_cost=spent,
        actions=sum(not action.is_none for action in actions),
        violations=tuple(time for time, cost in enumerate(refresh_costs[:-1]) if cost > promise.cost_limit),
        backlog=tuple(backlogs),
        refresh_cost=tuple(refresh_costs),
    )
