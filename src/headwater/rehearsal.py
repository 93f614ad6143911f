"""What each policy would have done with the commits that a lake has recorded, without running anything.

The arrivals are the units of work of the view's tables, the costs are the functions that were measured, and the cost
limit is what the service would leave for the backlog right after a refresh. So a bound and a policy can be tried before
they are promised. A policy decides by bounds, as it does in the service; what its actions cost is what is expected.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headwater.catalog.store import Catalog
from headwater.errors import InvalidInput, NothingPending
from headwater.measured import arrivals_of, costs_below, gather, measure_of, require_feasible
from headwater.schedule.keeping import Seen, cost_limit
from headwater.schedule.problem import nothing
from headwater.schedule.service_level import POLICIES, ServiceLevel
from headwater.schedule.simulate import Run, simulate


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """One policy: seconds of processing, steps at which it acted, and at how many a refresh would have been late."""

    policy: str
    seconds: float
    actions: int
    late: int
    worst_refresh: float
    most_pending: int
    run: Run

    def as_dict(self) -> dict[str, Any]:
        return {
            "policy": self.policy,
            "seconds": round(self.seconds, 3),
            "actions": self.actions,
            "late": self.late,
            "worst_refresh": round(self.worst_refresh, 3),
            "most_pending": self.most_pending,
            "backlog": [sum(counts) for counts in self.run.backlog],
        }


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """``limit`` is what the backlog may cost; ``rows`` arrived at each part, in ``steps`` of ``step`` seconds."""

    view: str
    response_time: float
    limit: float
    steps: int
    step: float
    rows: dict[str, int]
    policies: tuple[Rehearsed, ...]

    def as_dict(self) -> dict[str, Any]:
        return {
            "view": self.view,
            "response_time": self.response_time,
            "limit": round(self.limit, 3),
            "steps": self.steps,
            "step": round(self.step, 3),
            "rows": self.rows,
            "policies": [each.as_dict() for each in self.policies],
        }


def rehearse(catalog: Catalog, name: str, response_time: float | None, step: float | None) -> Rehearsal:
    """``response_time``: the view's own unless given; ``step``: how often the loop looks, in seconds."""
    view = catalog.view(name)
    level = ServiceLevel.of(view.options)
    wanted = level.response_time if response_time is None else response_time
    if wanted is None:
        raise InvalidInput(
            f"View {name!r} promises no response time, so there is no bound to simulate with.",
            remedy="Give one: headwater simulate VIEW --response-time 10s.",
        )
    if not wanted > 0 or (step is not None and not step > 0):
        raise InvalidInput("A response time and a step are lengths of time above 0.", remedy="Write them as '10s'.")
    gather(catalog, view)
    level = ServiceLevel(response_time=wanted, policy=level.policy)
    require_feasible(catalog, level, view, name)
    measure, below = measure_of(catalog, view), costs_below(catalog, view)
    arrivals, length = arrivals_of(catalog, view, step)
    parts, costs = measure.parts, measure.costs
    pending = nothing(len(parts))
    fresh = Seen(name, level, parts.labels, pending, 1, 0.0, costs, below_bound=below.bound, apart=parts.apart)
    limit = cost_limit(fresh)
    promise = None if limit is None else costs.promise(limit)
    totals = arrivals.totals()[-1]
    if limit is None or promise is None or not any(totals):
        raise NothingPending(
            f"View {name!r} has nothing to simulate: "
            + ("no commit of its tables was captured." if promise is not None else "its steps were never measured."),
            remedy=f"Measure it when its tables have changed: headwater calibrate {name}.",
            view=name,
        )
    expected = promise.expected.costs if promise.expected is not None else None
    found = []
    for policy_name, policy in POLICIES.items():
        run = simulate(policy, arrivals, promise, actual=expected)
        most = max(sum(counts) for counts in run.backlog)
        worst = run.worst_refresh + costs.overhead(1) + below.expected
        found.append(Rehearsed(policy_name, run.total_cost, run.actions, len(run.violations), worst, most, run))
    rows = dict(zip(parts.labels, totals, strict=True))
    return Rehearsal(name, wanted, limit, len(arrivals.steps), length, rows, tuple(found))
