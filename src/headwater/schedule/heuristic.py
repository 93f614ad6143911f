"""Lower bounds on what is left to pay: the h of A* [He05 §4.1, Lemma 7].

A node of the search knows, for each table, how many modifications have been processed and how many are still to
come: N_i, pending or not yet arrived. Both bounds here are sums over tables of a function of N_i alone, so they
ignore that tables share the cost limit, which can only force more actions.

*Lemma 7 as printed does not hold.* Its h is Σ ⌊N_i / b_i⌋·f_i(b_i), with b_i the largest batch that can ever come
up: the largest that is not full by itself, and the most that arrives at once. (1) It is not consistent, even for
linear costs: take N = b and an action on one of them; h falls by f(b), for an action that costs f(1). A* that never
expands a node twice may then miss the optimum. (2) It is not admissible when f is not concave: with f(k) = ⌈k/B⌉, C
= 1 and one arrival at a time, b = B + 1 and f(b) = 2, but batches of B (which another table may force) cost 1. Both
are shown by tests.

``BatchBound`` is the paper's idea put right: the least cost of N modifications in batches of at most b,

    L(N) = min { f(q) + L(N - q) : 1 <= q <= min(b, N) },   L(0) = 0.

It is consistent by its definition, whatever f: an action on q of N modifications costs f(q) >= L(N) - L(N - q). It
is admissible since it is consistent and L(0) = 0. For concave f it is ⌊N/b⌋·f(b) + f(N mod b): a sum of concave
functions over a polytope is least at a corner, where at most one batch is neither empty nor b. So for concave costs
one more term repairs the lemma. Otherwise it is tabulated.

``AloneBound`` is sharper, and the default: the least cost of table i alone *with its real arrivals*, if no other
table were there. In an LGM plan, table i has been emptied last after some arrival j and is emptied next after some
arrival j' > j; the post-action backlog before that was not full, so that f_i of what arrived after j and before the
last arrival j' is at most C:

    W(j) = min { f_i(A(j, j']) + W(j') : j' > j, f_i(A(j, j' - 1]) <= C },   W(last) = 0.

Consistent for the same reason: every edge of the graph that empties table i is one of the choices in the minimum.
Each of its batches is at most b_i, so W >= L.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from headwater.schedule.cost import CostFunction, largest_batch
from headwater.schedule.problem import Arrivals, Counts, Promise


class LowerBound(Protocol):
    def __call__(self, time: int, processed: Counts, /) -> float:
        """At most the cost of what is left after the action at ``time``, when so much of each table is processed.

        Asked only for counts at which an LGM plan can stand: of each table, all that had arrived by some step.
        """
        ...


@dataclass(frozen=True, slots=True)
class BatchBound:
    """The paper's bound, repaired: all that is left, in batches as large as can ever come up."""

    totals: Counts
    tables: tuple[_Batches, ...]

    @classmethod
    def of(cls, arrivals: Arrivals, promise: Promise) -> BatchBound:
        totals = arrivals.totals()[-1]
        return cls(
            totals,
            tuple(
                _Batches.of(cost, promise.cost_limit, total, max(step[table] for step in arrivals.steps))
                for table, (cost, total) in enumerate(zip(promise.costs, totals, strict=True))
            ),
        )

    def __call__(self, time: int, processed: Counts) -> float:  # noqa: ARG002 the same at any time
        return sum(table(total - done) for table, total, done in zip(self.tables, self.totals, processed, strict=True))


@dataclass(frozen=True, slots=True)
class _Batches:
    """L of one table."""

    function: CostFunction
    largest: int  # b_i
    tabulated: tuple[float, ...] = field(default=(), repr=False)  # of a function that is not concave

    @classmethod
    def of(cls, function: CostFunction, limit: float, total: int, most_at_once: int) -> _Batches:
        largest = max(1, most_at_once + largest_batch(function, limit, total))
        if function.is_concave:
            return cls(function, largest)
        costs = [function(rows) for rows in range(min(largest, total) + 1)]
        least = [0.0]
        for rows in range(1, total + 1):
            least.append(min(costs[q] + least[rows - q] for q in range(1, min(largest, rows) + 1)))
        return cls(function, largest, tuple(least))

    def __call__(self, left: int) -> float:
        if self.tabulated:
            return self.tabulated[left]
        whole, rest = divmod(left, self.largest)
        return whole * self.function(self.largest) + self.function(rest)


@dataclass(frozen=True, slots=True)
class AloneBound:
    """Each table as if it were the only one, with its real arrivals."""

    tables: tuple[dict[int, float], ...]  # W, by what has been processed

    @classmethod
    def of(cls, arrivals: Arrivals, promise: Promise) -> AloneBound:
        totals = arrivals.totals()
        return cls(
            tuple(
                _alone(cost, promise.cost_limit, sorted({0, *(total[table] for total in totals)}))
                for table, cost in enumerate(promise.costs)
            )
        )

    def __call__(self, time: int, processed: Counts) -> float:  # noqa: ARG002 the same at any time
        return sum(table[done] for table, done in zip(self.tables, processed, strict=True))


def _alone(function: CostFunction, limit: float, reached: list[int]) -> dict[int, float]:
    """W; ``reached`` are the numbers of modifications that have arrived after each arrival, ascending from 0."""
    last = len(reached) - 1
    bound = {reached[last]: 0.0}
    known: dict[int, float] = {}
    for start in range(last - 1, -1, -1):
        least = float("inf")
        for end in range(start + 1, last + 1):
            rows = reached[end] - reached[start]
            cost = known.get(rows)
            if cost is None:
                cost = known[rows] = function(rows)
            least = min(least, cost + bound[reached[end]])
            if cost > limit:
                break
        bound[reached[start]] = least
    return bound
