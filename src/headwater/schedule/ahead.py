"""AHEAD: choose as one goes, by what a step costs until one will have to act again.

ONLINE [He05 §4.3] compares actions by the average cost of a step from the last refresh up to the next action. What is
behind is paid, whatever is chosen now, but it weighs: soon after a refresh little has been spent over many steps, so
the cheapest action looks best however soon the next one follows; later the steps that an action buys count as much
as the past was dear. Ahead leaves the past out:

    H'(q) = f(q) / TIMETOFULL(s_t - q),

the cost of a step in the cycle that q begins. If all cycles were like it, no other action would do better in the long
run; and nothing has to be remembered but the rates.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from headwater.schedule.online import Online
from headwater.schedule.policy import Situation
from headwater.schedule.rates import RateEstimator, SettledRate


@dataclass(frozen=True, slots=True)
class Ahead(Online):
    rate: RateEstimator = field(default_factory=SettledRate)

    @property
    def name(self) -> str:
        return "ahead"

    def score(self, cost: float, steps: int, situation: Situation) -> float:  # noqa: ARG002 the past is no matter
        return cost / steps
