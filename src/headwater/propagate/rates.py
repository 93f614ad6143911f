"""Seconds for what a step goes through, learned from the steps that were run.

    seconds = Σ rate · amount, over rows, shuffled rows, statements and the relations in them

The rates are those that fit the lake's last steps best, each by its relative error, so that a step of a second counts
as much as one of a minute. Where the steps tell little, the rates stay near what was measured on two cores: these
count as ``PRIOR`` of a step for each rate (ridge regression towards them), and no rate leaves ``BOUNDS`` around them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

PRIOR = 0.1
BOUNDS = (0.05, 20.0)
_ROUNDS = 200  # of coordinate descent; four rates settle long before


@dataclass(frozen=True, slots=True)
class Load:
    """``rows`` that a few broadcast ones go through, ``shuffled`` rows that all meet one another, ``statements``, and
    the ``relations`` in them."""

    rows: float
    shuffled: float
    statements: float
    relations: float

    def parts(self) -> tuple[float, ...]:
        return self.rows, self.shuffled, self.statements, self.relations


@dataclass(frozen=True, slots=True)
class Rates:
    """Seconds for each; as measured on two cores, where nothing else is said."""

    row: float = 2e-7
    shuffled: float = 3e-7
    statement: float = 0.4
    relation: float = 0.14

    def parts(self) -> tuple[float, ...]:
        return self.row, self.shuffled, self.statement, self.relation

    def seconds(self, load: Load) -> float:
        return sum(rate * amount for rate, amount in zip(self.parts(), load.parts(), strict=True))


MEASURED = Rates()


def fitted(seen: Sequence[tuple[Load, float]], prior: Rates = MEASURED) -> Rates:
    """The rates that explain loads and their seconds."""
    told = [(load, seconds) for load, seconds in seen if seconds > 0]
    # By how much each rate of the prior explains a step: were the factors right, each line would add up to one.
    lines = [
        [rate * amount / seconds for rate, amount in zip(prior.parts(), load.parts(), strict=True)]
        for load, seconds in told
    ]
    factors = [1.0] * len(prior.parts())
    for _ in range(_ROUNDS):
        for place in range(len(factors)):
            others = [
                sum(f * x for k, (f, x) in enumerate(zip(factors, line, strict=True)) if k != place) for line in lines
            ]
            own = [line[place] for line in lines]
            wanted = sum(x * (1 - rest) for x, rest in zip(own, others, strict=True)) + PRIOR
            best = wanted / (sum(x * x for x in own) + PRIOR)
            factors[place] = min(BOUNDS[1], max(BOUNDS[0], best))
    return Rates(*(factor * rate for factor, rate in zip(factors, prior.parts(), strict=True)))
