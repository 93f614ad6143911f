"""Value distributions over whole numbers, each as its quantile function: u in [0, 1) to a value in low..high.

[Mauve98 §4] draws values by the techniques of [GSE+94] (Gray and others, Quickly Generating Billion-Record Synthetic
Databases, SIGMOD 1994) and [PTVF92] (Numerical Recipes). Every distribution here is drawn by inversion, so that a
value costs exactly one uniform number: two workloads that differ in one distribution agree in everything else that
they draw.

- uniform: every value alike;
- Zipf: the i-th value with probability proportional to 1 / i^theta;
- normal: cut to low..high, by inverting only the part of the distribution between the two ends, so that nothing piles
  up there;
- self-similar [GSE+94]: the first h of the values gets 1 - h of the draws, and so again inside the first h; h = 0.2
  is the rule of 80 and 20, h = 0.5 is uniform.

*Where we depart.* [GSE+94] approximates Zipf by a closed formula that is exact for the first two values and needs
theta < 1. We search the exact cumulative sums (one table of a double for each value), for any theta; the formula
stands in the tests.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from statistics import NormalDist
from typing import Any, TypeAlias

from headwater.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class Uniform:
    low: int
    high: int

    def __post_init__(self) -> None:
        _require_range(self)


@dataclass(frozen=True, slots=True)
class Zipf:
    low: int
    high: int
    theta: float = 1.0

    def __post_init__(self) -> None:
        _require_range(self)
        _require(self.theta >= 0, f"a Zipf exponent of {self.theta}", "a number not below 0")


@dataclass(frozen=True, slots=True)
class Normal:
    low: int
    high: int
    mean: float
    deviation: float

    def __post_init__(self) -> None:
        _require_range(self)
        _require(self.deviation > 0, f"a standard deviation of {self.deviation}", "a positive number")
        _require(self.low <= self.mean <= self.high, f"a mean of {self.mean}", f"one in {self.low}..{self.high}")


@dataclass(frozen=True, slots=True)
class SelfSimilar:
    low: int
    high: int
    h: float = 0.2

    def __post_init__(self) -> None:
        _require_range(self)
        _require(0 < self.h <= 0.5, f"a self-similar h of {self.h}", "a number in (0, 0.5]")


Distribution: TypeAlias = Uniform | Zipf | Normal | SelfSimilar
Quantile: TypeAlias = Callable[[float], int]

_KINDS: dict[str, type[Distribution]] = {
    "uniform": Uniform,
    "zipf": Zipf,
    "normal": Normal,
    "self-similar": SelfSimilar,
}


def quantile(distribution: Distribution) -> Quantile:
    """The smallest value whose cumulative probability exceeds u, for u in [0, 1)."""
    low = distribution.low
    width = distribution.high - low + 1
    last = width - 1
    match distribution:
        case Uniform():
            return lambda u: low + int(u * width)
        case SelfSimilar(h=h):
            exponent = skew_exponent(h)
            # The product may round up to the width itself.
            return lambda u: low + min(last, int(width * u**exponent))
        case Zipf(theta=theta):
            sums = array("d", accumulate(rank**-theta for rank in range(1, width + 1)))
            total = sums[-1]
            return lambda u: low + bisect_right(sums, u * total, 0, last)
        case Normal(high=high, mean=mean, deviation=deviation):
            bell = NormalDist(mean, deviation)
            below, inside = bell.cdf(low), bell.cdf(high + 1) - bell.cdf(low)
            inverse = bell.inv_cdf
            # The inverse has no value at 0 and 1, to which a bell far narrower than low..high rounds.
            first, final = math.ulp(0.0), 1 - math.ulp(0.5)
            return lambda u: min(high, max(low, math.floor(inverse(min(final, max(first, below + u * inside))))))


def skew_exponent(h: float) -> float:
    """u to this power lies in the first h of [0, 1) with probability 1 - h [GSE+94]."""
    return math.log(h) / math.log(1 - h)


def exponential_gap(mean: float, u: float) -> float:
    """The negative-exponential quantile, for the length of a period without updates [Mauve98 §4.2, footnote 4]."""
    return -mean * math.log1p(-u)


def distribution_as_json(distribution: Distribution) -> dict[str, Any]:
    kind = next(name for name, cls in _KINDS.items() if isinstance(distribution, cls))
    return {"kind": kind} | {name: getattr(distribution, name) for name in distribution.__dataclass_fields__}


def distribution_of_json(found: Mapping[str, Any]) -> Distribution:
    kind = found.get("kind")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise InvalidInput(f"There is no value distribution {kind!r}.", remedy=f"Choose among {', '.join(_KINDS)}.")
    return _KINDS[kind](**{name: value for name, value in found.items() if name != "kind"})


def _require_range(distribution: Distribution) -> None:
    _require(distribution.low <= distribution.high, f"values in {distribution.low}..{distribution.high}", "low <= high")


def _require(holds: bool, given: str, wanted: str) -> None:
    if not holds:
        raise InvalidInput(f"A distribution can't have {given}.", remedy=f"Give {wanted}.")
