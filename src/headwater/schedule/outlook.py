"""Will a promise still be kept tomorrow? Steps that get slower as tables grow, seen before they are too slow.

Each sample is set in relation to what the fitted function says of a batch of its size, so that batches of all sizes
can be compared: r = seconds / f(rows). A straight line through r over time (least squares) tells by which share of
f steps get slower in a second, and what they take by now. The line counts only if its slope lies above two of its
standard errors: noise alone has such a slope once in forty cases, and the warning is worth that.

If f_i(1) grows by g seconds a second, so does the floor; it reaches C after (C - floor) / g seconds. A floor whose
upper bound is beyond C already leaves the promise to luck, which is *at risk* whatever the trend.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

from headwater.schedule.fit import FittedCost
from headwater.schedule.view_costs import CONFIDENCE, Measured, ViewCosts

LEAST_SAMPLES = 12
HORIZON = 7 * 86400.0
"""Seconds ahead that a warning is given for."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """``floor`` now and with confidence; ``broken_in`` seconds until it passes C at the present growth, if it will."""

    response_time: float
    floor: float
    floor_upper: float
    growth_per_day: float | None = None  # seconds
    broken_in: float | None = None

    @property
    def state(self) -> str:
        if self.floor > self.response_time:
            return "impossible"
        if self.floor_upper > self.response_time or (self.broken_in is not None and self.broken_in < HORIZON):
            return "at risk"
        return "sound"

    def __str__(self) -> str:
        against = f"the floor of {self.floor:.1f} s against a response time of {self.response_time:g} s"
        match self.state:
            case "impossible":
                return f"can't be kept any more: {against}"
            case "at risk" if self.broken_in is not None and self.broken_in < HORIZON:
                return f"will be broken in about {_about(self.broken_in)} at the present growth: {against}"
            case "at risk":
                return f"hangs on luck: {against}, and one refresh in twenty takes {self.floor_upper:.1f} s or more"
            case _:
                return f"sound: {against}"


def outlook(response_time: float, costs: ViewCosts, samples: Sequence[Sequence[Measured]]) -> Outlook | None:
    """``samples`` of each part; None while nothing is known of the view."""
    floor, upper = costs.floor(), costs.floor(CONFIDENCE)
    if floor is None or upper is None:
        return None
    trend = _trend(costs.part(floor.part), samples[floor.part])
    if trend is None or not floor.propagate > 0:
        return Outlook(response_time, floor.seconds, upper.seconds)
    now = floor.seconds + (trend.level - 1) * floor.propagate
    growth = trend.growth * floor.propagate
    return Outlook(
        response_time,
        now,
        max(now, upper.seconds),
        growth_per_day=86400 * growth,
        broken_in=max(0.0, (response_time - now) / growth),
    )


@dataclass(frozen=True, slots=True)
class _Trend:
    """In shares of f: what steps take now, and by how much that grows in a second."""

    level: float
    growth: float


def _trend(function: FittedCost | None, samples: Sequence[Measured]) -> _Trend | None:
    """None unless it is seen to grow."""
    warm = [sample for sample in samples if not sample.cold]
    if function is None or len(warm) < LEAST_SAMPLES:
        return None
    times = [sample.at for sample in warm]
    ratios = [sample.seconds / max(function(sample.rows), 1e-9) for sample in warm]
    middle_time, middle = sum(times) / len(times), sum(ratios) / len(ratios)
    spread = sum((time - middle_time) ** 2 for time in times)
    if spread <= 0 or middle <= 0:
        return None
    slope = sum((time - middle_time) * (ratio - middle) for time, ratio in zip(times, ratios, strict=True)) / spread
    left = [ratio - middle - slope * (time - middle_time) for time, ratio in zip(times, ratios, strict=True)]
    error = sqrt(sum(each**2 for each in left) / (len(left) - 2) / spread)
    newest = middle + slope * (max(times) - middle_time)
    return _Trend(newest, slope) if slope > 2 * error and newest > 0 else None


def _about(seconds: float) -> str:
    for size, unit in ((86400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
