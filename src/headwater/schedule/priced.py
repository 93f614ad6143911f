"""A lower bound that knows of the shared cost limit: each table pays rent for its backlog.

The bounds of ``heuristic`` let every table have the whole cost limit for itself, which is far from true for three
tables or more. Here the limit is relaxed by Lagrange instead of being forgotten. In a valid plan, the backlog after
the action at each step u < T costs Σ f_i(s_u[i]) <= C. So for any price λ >= 0 of one unit of cost held over one
step, the cost of what is left after step t is at least

    min over plans { Σ actions + λ·Σ_{t<u<T} (Σ_i f_i(s_u[i]) - C) }  =  Σ_i R_i(t, j_i) - λ·C·(T - 1 - t),

and the minimum is taken for each table alone: R_i is the least of actions and rent for table i, last emptied after
arrival j_i, by the same recursion as ``AloneBound``, which is the case λ = 0.

*Consistent:* along an edge from t to t' the backlogs are not full, so rent less λ·C is never above 0 there, and the
edge followed by the best of the relaxation from t' is one of the choices of the relaxation from t.

*The price.* The bound at the source is a concave function of λ; a few prices in proportion to what a step costs on
average are tried and the best is kept. It depends on the time as well, so it is the one bound that asks for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

from headwater.schedule.cost import CostFunction
from headwater.schedule.problem import Arrivals, Counts, Promise, nothing

_PRICES = (0.05, 0.1, 0.2)  # of the average cost of a step, for each unit of the limit


@dataclass(frozen=True, slots=True)
class _Emptied:
    """What is to come for a table that was emptied at ``time``, by the steps since."""

    time: int
    least: tuple[float, ...]  # actions and rent counted from ``time``, when it is emptied again after the k-th step
    rent: tuple[float, ...]  # of the first k steps


@dataclass(frozen=True, slots=True)
class PricedBound:
    price: float  # λ
    cost_limit: float
    refresh_time: int
    tables: tuple[dict[int, _Emptied], ...]  # by what has been processed

    @classmethod
    def at_price(cls, price: float, arrivals: Arrivals, promise: Promise) -> PricedBound:
        totals = arrivals.totals()
        return cls(
            price,
            promise.cost_limit,
            arrivals.refresh_time,
            tuple(
                _renting(cost, promise.cost_limit, price, [total[table] for total in totals])
                for table, cost in enumerate(promise.costs)
            ),
        )

    @classmethod
    def of(cls, arrivals: Arrivals, promise: Promise) -> PricedBound:
        """At the best of a few prices."""
        none = nothing(arrivals.tables)
        free = cls.at_price(0.0, arrivals, promise)
        if not promise.cost_limit > 0:
            return free
        usual = free(-1, none) / (promise.cost_limit * len(arrivals.steps))
        priced = [cls.at_price(part * usual, arrivals, promise) for part in _PRICES]
        return max((free, *priced), key=lambda bound: bound(-1, none))

    def __call__(self, time: int, processed: Counts) -> float:
        total = -self.price * self.cost_limit * max(0, self.refresh_time - 1 - time)
        for table, done in zip(self.tables, processed, strict=True):
            emptied = table[done]
            total += emptied.least[time - emptied.time] - emptied.rent[time - emptied.time]
        return total


def _renting(function: CostFunction, limit: float, price: float, totals: list[int]) -> dict[int, _Emptied]:
    """R of one table; ``totals`` is what has arrived up to each step."""
    last = len(totals) - 1
    onwards = [0.0] * (last + 1)  # R right after the table was emptied at a step
    known: dict[int, float] = {}
    found: dict[int, _Emptied] = {}
    for time in range(last - 1, -2, -1):
        done = totals[time] if time >= 0 else 0
        ways = []
        rents = [0.0]
        for step in range(time + 1, last + 1):
            rows = totals[step] - done
            cost = known.get(rows)
            if cost is None:
                cost = known[rows] = function(rows)
            ways.append(rents[-1] + cost + onwards[step])
            if cost > limit:
                break
            rents.append(rents[-1] + price * cost)
        if time >= 0:
            onwards[time] = min(ways)
        # of the steps between two arrivals the first is kept: from there on, all others are reached by waiting
        later = tuple(accumulate(reversed(ways), min))[::-1]
        found[done] = _Emptied(time, later, tuple(rents[: len(ways)]))
    # everything processed: nothing to come but steps without rent
    settled = found.get(totals[last])
    start = last if settled is None else settled.time
    found[totals[last]] = _Emptied(start, (0.0,) * (last + 1 - start), (0.0,) * (last + 1 - start))
    return found
