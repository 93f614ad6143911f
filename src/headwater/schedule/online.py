"""ONLINE: choose as one goes, knowing neither the future nor the refresh time [He05 §4.3].

When the backlog is full, the greedy and minimal action q with the least

    H(q) = (F_t + f(q)) / (t + TIMETOFULL(s_t - q))

is taken: the average cost of a step up to the moment at which one will have to act again. So the plan is LGM; where
tables share a cost (``problem``), lazy and greedy.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from headwater.schedule.plan import Action, greedy_actions
from headwater.schedule.policy import Alternative, Decision, Situation
from headwater.schedule.problem import subtract
from headwater.schedule.rates import RateEstimator, Rates, RecentRate, time_to_full


@dataclass(frozen=True, slots=True)
class Online:
    """The paper's heuristic, with rates estimated as told."""

    rate: RateEstimator = field(default_factory=RecentRate)

    @property
    def name(self) -> str:
        return "online"

    def begin(self, tables: int) -> Rates:
        return Rates.unknown(tables)

    def decide(self, memory: Rates, situation: Situation) -> Decision[Rates]:
        rates = self.rate.observe(memory, situation.arrived)
        if not situation.is_full:
            return Decision(Action.none(len(situation.backlog)), rates)
        considered = tuple(
            self._weigh(action, rates, situation) for action in greedy_actions(situation.backlog, situation.promise)
        )
        return Decision(min(considered, key=lambda each: each.score).action, rates, considered)

    def score(self, cost: float, steps: int, situation: Situation) -> float:
        """H of an action that costs so much and is the last for so many steps."""
        return (situation.spent + cost) / (situation.time + steps)

    def _weigh(self, action: Action, rates: Rates, situation: Situation) -> Alternative:
        cost = situation.promise.expected_cost(action.counts)
        steps = time_to_full(subtract(situation.backlog, action.counts), rates, situation.promise)
        return Alternative(action, cost, self.score(cost, steps, situation))
