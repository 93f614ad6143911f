"""Arrival sequences to try policies on: the paper's, and others. Randomness is passed in.

[He05 §5]: at each step, with probability p, ⌈X⌉ modifications of a table arrive, X normal with mean μ = 1 and
deviation σ, on condition that X > 0. Slow and fast streams have p = 0.5 and 0.9, stable and unstable ones σ = 1 and
5. The paper does not say whether tables share their steps; ours draw for each table alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil, exp
from random import Random

from headwater.errors import InvalidInput
from headwater.schedule.problem import Arrivals

MOST_STEPS = 1_000_000  # that a trace is cut into
_POISSON_PIECE = 500.0  # exp(-rate) must not vanish


@dataclass(frozen=True, slots=True)
class NormalStream:
    """[He05 §5, non-uniform arrivals]"""

    probability: float  # p
    deviation: float  # σ
    mean: float = 1.0  # μ

    def draw(self, random: Random) -> int:
        if random.random() >= self.probability:
            return 0
        while (drawn := random.gauss(self.mean, self.deviation)) <= 0:
            pass
        return ceil(drawn)


PAPER_STREAMS = {
    "SS": NormalStream(0.5, 1.0),
    "SU": NormalStream(0.5, 5.0),
    "FS": NormalStream(0.9, 1.0),
    "FU": NormalStream(0.9, 5.0),
}
"""Slow or fast, stable or unstable [He05 Fig. 7]."""


@dataclass(frozen=True, slots=True)
class PoissonStream:
    """``rate`` modifications a step on average, each on its own."""

    rate: float

    def draw(self, random: Random) -> int:
        drawn, left = 0, self.rate
        while left > 0:
            # a Poisson number is the sum of Poisson numbers of smaller rates
            piece = min(left, _POISSON_PIECE)
            left -= piece
            floor, product = exp(-piece), random.random()
            while product > floor:
                drawn += 1
                product *= random.random()
        return drawn


def constant(step: Iterable[int], refresh_time: int) -> Arrivals:
    """The same at every step [He05 Fig. 6]."""
    counts = tuple(step)
    return Arrivals((counts,) * (refresh_time + 1))


def drawn(streams: Iterable[NormalStream | PoissonStream], refresh_time: int, random: Random) -> Arrivals:
    """Each table by a stream of its own."""
    sources = tuple(streams)
    return Arrivals.of([source.draw(random) for source in sources] for _ in range(refresh_time + 1))


def bursts(
    quiet: Iterable[PoissonStream],
    busy: Iterable[PoissonStream],
    refresh_time: int,
    random: Random,
    *,
    quiet_steps: float = 100.0,
    busy_steps: float = 20.0,
) -> Arrivals:
    """All tables quiet, then all busy, and so on; each spell lasts so many steps on average, without memory."""
    spells = ((tuple(quiet), 1 / quiet_steps), (tuple(busy), 1 / busy_steps))
    steps = []
    now = 0
    for _ in range(refresh_time + 1):
        sources, ends = spells[now]
        steps.append([source.draw(random) for source in sources])
        if random.random() < ends:
            now = 1 - now
    return Arrivals.of(steps)


def recorded(events: Iterable[tuple[float, int, int]], tables: int, step: float) -> Arrivals:
    """A trace (seconds, table, rows), such as the units of work of a lake, cut into steps of ``step`` seconds.

    Step 0 begins with the first event.
    """
    if not step > 0:
        raise InvalidInput(f"Steps of {step} seconds can't be counted.", remedy="Give a length above 0.")
    told = sorted(events)
    if not told:
        return constant((0,) * tables, 0)
    start = told[0][0]
    span = told[-1][0] - start
    if span > MOST_STEPS * step:
        raise InvalidInput(
            f"Steps of {step:g} s cut the {span:g} s recorded into {span / step:,.0f}; {MOST_STEPS:,} are the most.",
            remedy=f"Give a step of {ceil(span / MOST_STEPS)}s or more.",
        )
    steps = [[0] * tables for _ in range(int(span // step) + 1)]
    for seconds, table, rows in told:
        steps[int((seconds - start) // step)][table] += rows
    return Arrivals.of(steps)
