"""The problem: modifications arrive, a view must stay refreshable within a cost limit [He05 §2].

Time is a sequence of steps 0, ..., T. At each step ``arrivals[t]`` modifications of each table arrive (d_t); the
backlog holds those that are not processed yet (the state s: *pre-action* after the arrivals of t, *post-action*
after the action at t). A backlog is *full* when refreshing from it, Σ f_i(s[i]), would exceed the cost limit C.

A backlog from before step 0 is part of ``arrivals[0]``.

*A shared cost.* In the paper tables that are processed together cost what they cost apart. Here they go in one step,
whose statements and whose commit are paid once: of m tables processed together, m - 1 save ``shared``. With
g_i = f_i - shared, an action costs shared + Σ g_i, so a backlog is full when Σ g_i(s[i]) > C - shared: the paper's
problem again, with an entrance fee for each action (``without_shared``). With shared = 0 it is the paper's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeAlias

from headwater.errors import InvalidInput
from headwater.schedule.cost import ROUNDING, CostFunction, Lowered

Counts: TypeAlias = tuple[int, ...]
"""A number of modifications for each table: an n-vector."""


@dataclass(frozen=True, slots=True)
class Promise:
    """The response-time constraint: a refresh costs at most ``cost_limit`` whenever it is asked for."""

    costs: tuple[CostFunction, ...]  # f_i
    cost_limit: float  # C
    shared: float = 0.0  # what each table saves that is processed together with another; at most the least f_i(1)
    expected: Promise | None = None  # what actions will probably cost, where ``costs`` are bounds

    def __post_init__(self) -> None:
        if not self.costs:
            raise InvalidInput("A view has at least one table.")
        if not self.cost_limit >= 0:
            raise InvalidInput(f"A cost limit of {self.cost_limit} can't be kept.", remedy="Give 0 or more.")
        if self.shared and not 0 <= self.shared <= min(cost(1) for cost in self.costs):
            raise InvalidInput(
                f"Tables can't save {self.shared} by being processed together.",
                remedy="Give 0 or more, and no more than the cheapest of them costs alone.",
            )

    @property
    def tables(self) -> int:
        return len(self.costs)

    def cost(self, counts: Counts) -> float:
        """f(v) = Σ f_i(v[i]), less what is shared: of a refresh from this backlog, or of an action on these counts."""
        apart = sum(cost(count) for cost, count in zip(self.costs, counts, strict=True))
        return apart - self.shared * max(0, sum(count > 0 for count in counts) - 1) if self.shared else apart

    def expected_cost(self, counts: Counts) -> float:
        """What to choose by: the limit must hold surely, but what is spent is spent on average."""
        return self.cost(counts) if self.expected is None else self.expected.cost(counts)

    def is_full(self, backlog: Counts) -> bool:
        return self.cost(backlog) > self.cost_limit

    def without_shared(self) -> Promise:
        """The g_i and what they may cost, for lower bounds: an action costs no less than here, and is due no later."""
        if not self.shared:
            return self
        lowered = tuple(Lowered(cost, self.shared) for cost in self.costs)
        # A little more than is left: differences round, and what is not full here must not be full there.
        return Promise(lowered, max(0.0, self.cost_limit - self.shared) + ROUNDING * max(1.0, self.cost_limit))


@dataclass(frozen=True, slots=True)
class Arrivals:
    """d_0, ..., d_T: what arrives at each step."""

    steps: tuple[Counts, ...]

    def __post_init__(self) -> None:
        if not self.steps:
            raise InvalidInput("An arrival sequence has at least the step at which the view is refreshed.")
        if any(len(step) != len(self.steps[0]) or min(step, default=0) < 0 for step in self.steps):
            raise InvalidInput("Each step of an arrival sequence has one count, 0 or more, for each table.")

    @classmethod
    def of(cls, steps: Iterable[Sequence[int]]) -> Arrivals:
        return cls(tuple(tuple(step) for step in steps))

    @property
    def tables(self) -> int:
        return len(self.steps[0])

    @property
    def refresh_time(self) -> int:
        """T: the step at which the view is refreshed."""
        return len(self.steps) - 1

    def totals(self) -> tuple[Counts, ...]:
        """What has arrived up to and including each step."""
        return tuple(accumulate(self.steps, add))

    def until(self, refresh_time: int) -> Arrivals:
        """The sequence of a refresh at another time: cut short, or repeated over and over."""
        period = len(self.steps)
        return Arrivals(tuple(self.steps[time % period] for time in range(refresh_time + 1)))


def add(left: Counts, right: Counts) -> Counts:
    return tuple(a + b for a, b in zip(left, right, strict=True))


def subtract(left: Counts, right: Counts) -> Counts:
    return tuple(a - b for a, b in zip(left, right, strict=True))


def nothing(tables: int) -> Counts:
    return (0,) * tables
