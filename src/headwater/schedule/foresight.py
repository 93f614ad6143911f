"""FORESIGHT: choose as one goes, by the best plan for the arrivals that are to be expected.

ONLINE [He05 §4.3] compares actions by the average cost up to the next one and says nothing about the backlog in
which they leave the view: two actions that buy as many steps at the same price count as equal, though one leaves
behind what is dear to process. With exact rates it can therefore be *worse* than with noisy ones, and no better
TIMETOFULL cures that. Foresight keeps the rest of the algorithm (act when full; greedy, minimal actions; rates and
nothing else to remember) and replaces H by

    H'(q) = f(q) + OPT_LGM of the backlog s_t - q followed by the expected arrivals, with a refresh at the horizon.

So it is the paper's offline search over a forecast, made anew at each action, of which only the first action is
used. The horizon is ``cycles`` times the steps in which an empty view would become full. All alternatives are
charged for what they leave at the horizon, so the end favours none of them.

*Effort.* Long horizons are cut into at most ``MOST_STEPS`` coarse steps. For one or two tables a decision takes
some milliseconds; the search is content with plans within 1 %, for more tables within 5 %.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil, floor

from headwater.schedule.heuristic import AloneBound
from headwater.schedule.plan import Action, greedy_actions
from headwater.schedule.policy import Alternative, Decision, Situation
from headwater.schedule.problem import Arrivals, Counts, Promise, nothing, subtract
from headwater.schedule.rates import NEVER, RateEstimator, Rates, SettledRate, time_to_full
from headwater.schedule.search import best_lgm_plan

MOST_STEPS = 96


@dataclass(frozen=True, slots=True)
class Foresight:
    rate: RateEstimator = field(default_factory=SettledRate)
    cycles: float = 3.0

    @property
    def name(self) -> str:
        return "foresight"

    def begin(self, tables: int) -> Rates:
        return Rates.unknown(tables)

    def decide(self, memory: Rates, situation: Situation) -> Decision[Rates]:
        rates = self.rate.observe(memory, situation.arrived)
        tables = len(situation.backlog)
        if not situation.is_full:
            return Decision(Action.none(tables), rates)
        promise = situation.promise
        actions = greedy_actions(situation.backlog, promise)
        expected = self._expected(rates, promise)
        considered = []
        for action in actions if len(actions) > 1 else ():
            cost = promise.cost(action.counts)
            ahead = Arrivals((subtract(situation.backlog, action.counts), *expected))
            within = 0.01 if tables <= 2 else 0.05
            found = best_lgm_plan(ahead, promise, within=within, bound=AloneBound.of(ahead, promise))
            considered.append(Alternative(action, cost, cost + found.cost))
        chosen = min(considered, key=lambda each: each.score).action if considered else actions[0]
        return Decision(chosen, rates, tuple(considered))

    def _expected(self, rates: Rates, promise: Promise) -> list[Counts]:
        """What arrives in each step up to the horizon, at these rates."""
        cycle = time_to_full(nothing(promise.tables), rates, promise)
        horizon = self.cycles * (cycle if cycle < NEVER else 1)
        stride = ceil(horizon / MOST_STEPS)
        reached = [
            tuple(floor(step * stride * rate) for rate in rates.per_step) for step in range(ceil(horizon / stride) + 1)
        ]
        return [subtract(later, earlier) for earlier, later in pairwise(reached)]
