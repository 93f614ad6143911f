"""How fast modifications arrive: the v_t of [He05 §4.3], and the steps until a backlog is full.

The paper asks for "recent" rates and leaves open how recent. Two estimators, with one form, v ← v + w·(d - v):

- ``RecentRate``, the baseline: w is constant, so a step counts half after some steps. It follows a change of the
  stream within these steps, and in a stream that does not change it takes noise for change.
- ``SettledRate``: w = 1/t at first, down to a small constant. Until the constant is reached, v is the mean of all
  steps seen: for independent steps of one distribution, the weighted mean of the least variance. After that, it is a
  recent rate with a long memory, so that it still gets over a change.

The second estimates steady streams better; whether ONLINE gains by it depends on the cost functions (``compare`` says
how much).

TIMETOFULL(s) is the first step k >= 1 at which s + k·v, rounded down, would be full.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import floor
from typing import Protocol

from headwater.schedule.problem import Counts, Promise

NEVER = 1_000_000
"""Steps until a backlog is full, when at this rate it never will be; large, and still a number to divide by."""


@dataclass(frozen=True, slots=True)
class Rates:
    """``per_step`` of each table, after so many steps."""

    per_step: tuple[float, ...]
    steps: int = 0

    @classmethod
    def unknown(cls, tables: int) -> Rates:
        return cls((0.0,) * tables)

    def moved(self, arrived: Counts, weight: float) -> Rates:
        return Rates(
            tuple(rate + weight * (count - rate) for rate, count in zip(self.per_step, arrived, strict=True)),
            self.steps + 1,
        )


class RateEstimator(Protocol):
    def observe(self, rates: Rates, arrived: Counts) -> Rates: ...


@dataclass(frozen=True, slots=True)
class RecentRate:
    """A moving average in which the last ``steps`` steps weigh most."""

    steps: int = 10

    def observe(self, rates: Rates, arrived: Counts) -> Rates:
        return rates.moved(arrived, 1.0 if rates.steps == 0 else 2.0 / (self.steps + 1))


@dataclass(frozen=True, slots=True)
class SettledRate:
    """The mean of all steps, until there are ``steps``; then a moving average over about so many."""

    steps: int = 500

    def observe(self, rates: Rates, arrived: Counts) -> Rates:
        return rates.moved(arrived, 1.0 / min(rates.steps + 1, self.steps))


def time_to_full(backlog: Counts, rates: Rates, promise: Promise) -> int:
    """TIMETOFULL: steps until this backlog, which is not full, would be; at most ``NEVER``."""

    def full_after(steps: int) -> bool:
        return promise.is_full(
            tuple(floor(count + steps * rate) for count, rate in zip(backlog, rates.per_step, strict=True))
        )

    high = 1
    while not full_after(high):
        if high >= NEVER:
            return NEVER
        high = min(2 * high, NEVER)
    low = high // 2 + 1 if high > 1 else 1
    while low < high:
        middle = (low + high) // 2
        if full_after(middle):
            high = middle
        else:
            low = middle + 1
    return low
