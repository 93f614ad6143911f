"""A cost function from steps that were run: a monotone, subadditive f, and how far to trust it.

[He05 §2] leaves open where cost functions come from ("measured by experiments or from past experience"). We fit the
concave ones by least squares:

    f(k) = b + a·k + Σ_j c_j·min(k, κ_j),   b, a, c_j >= 0,   f(0) = 0.

*Why this is monotone and subadditive.* Each part is: b is paid once for two batches that are put together, a·k is
additive, min(k, κ) is concave and 0 at 0. Both properties survive sums and factors >= 0, so every admissible choice
of coefficients has them, and the fit has nothing to repair afterwards.

*Why nothing concave is missed.* A concave, non-decreasing function that is >= 0 at 0 is, at the sizes κ_1 < ... <
κ_m that were sampled, one of these sums: c_j is the fall of its slope at κ_j (>= 0: concave), a its last slope (>=
0: non-decreasing), b its value continued to 0 (>= 0). So the optimum over coefficients is the least-squares fit
among *all* such functions, a convex problem (``least_squares``). A function that is subadditive and not concave,
such as block steps, is met by its nearest concave one; the margin below covers the difference.

*Outside the samples.* Below the smallest batch the line goes on to b, above the largest it goes on with the last
slope: κ_1 and κ_m are no knots, since no sample tells b from c_1·min(k, κ_1) or a·k from c_m·min(k, κ_m). Both
choices are the larger ones. ``smallest`` and ``largest`` tell the range.

*Weights.* Seconds vary in proportion to themselves, so errors are taken relative to a first, unweighted fit.
Weighing by the seconds themselves would pull f below the middle. Samples can carry weights of their own (recent ones
more).

*Confidence.* The samples are dealt into five parts; each part is predicted by a fit of the other four, and
``ratios`` holds measured / predicted, sorted. The ⌈(n+1)q⌉-th of them is a factor under which a new step of the same
kind stays with probability about q, whatever the distribution of the noise (cross-conformal prediction); beyond the
last, one can't say, and ``factor`` gives None. f times that factor is again monotone and subadditive.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, sqrt
from typing import Any

from headwater.errors import InvalidInput
from headwater.schedule.cost import PiecewiseLinear, Scaled
from headwater.schedule.least_squares import non_negative_least_squares

MOST_KNOTS = 24
_PARTS = 5


@dataclass(frozen=True, slots=True)
class Sample:
    """A step that processed ``rows`` modifications of the table in ``seconds``."""

    rows: int
    seconds: float
    weight: float = 1.0

    def __post_init__(self) -> None:
        if self.rows < 1 or not 0 <= self.seconds < float("inf") or not 0 < self.weight < float("inf"):
            raise InvalidInput(f"{self} is no measurement of a batch.", remedy="Rows from 1, seconds from 0.")


@dataclass(frozen=True, slots=True)
class FittedCost:
    """A fitted function, with what is known about its errors."""

    function: PiecewiseLinear
    samples: int
    smallest: int  # the batch sizes seen; outside them the function is continued
    largest: int
    relative_error: float  # root mean square of measured / predicted - 1, on samples that the fit had not seen
    ratios: tuple[float, ...]  # measured / predicted, each by a fit without it; ascending

    def __call__(self, rows: int) -> float:
        return self.function(rows)

    @property
    def is_concave(self) -> bool:
        return True

    def factor(self, confidence: float) -> float | None:
        """f times this stays above a new step with this probability; None if that can't be told."""
        if not 0 < confidence < 1:
            raise InvalidInput(f"A confidence of {confidence} can't be had.", remedy="Choose between 0 and 1.")
        rank = ceil((len(self.ratios) + 1) * confidence)
        return self.ratios[rank - 1] if rank <= len(self.ratios) else None

    def upper(self, confidence: float) -> Scaled:
        """The function times ``factor``; with too few samples for one, times the largest ratio seen, at least 1."""
        factor = self.factor(confidence)
        return Scaled(self.function, max(self.ratios[-1], 1.0) if factor is None else factor)

    def to_dict(self) -> dict[str, Any]:
        return {
            "form": "fitted",
            "function": self.function.to_dict(),
            "samples": self.samples,
            "smallest": self.smallest,
            "largest": self.largest,
            "relative_error": self.relative_error,
            "ratios": list(self.ratios),
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> FittedCost:
        match value:
            case {"form": "fitted", "function": {"form": "piecewise_linear", "points": [*points]}}:
                return cls(
                    PiecewiseLinear(tuple((int(rows), float(cost)) for rows, cost in points)),
                    int(value["samples"]),
                    int(value["smallest"]),
                    int(value["largest"]),
                    float(value["relative_error"]),
                    tuple(map(float, value["ratios"])),
                )
            case _:
                raise InvalidInput(f"{dict(value)} is not a fitted cost function.")


def fit(samples: Iterable[Sample]) -> FittedCost:
    """The concave function nearest to the samples, and how well such a function foretells samples it has not seen."""
    ordered = sorted(samples, key=lambda sample: (sample.rows, sample.seconds, sample.weight))
    if not ordered:
        raise InvalidInput("There is no cost function without a sample.", remedy="Run a step, then fit.")
    function = _fit(ordered)
    ratios = []
    for part in range(min(_PARTS, len(ordered))):
        seen = [sample for position, sample in enumerate(ordered) if position % _PARTS != part]
        judge = _fit(seen) if seen else function
        ratios += [_ratio(sample.seconds, judge(sample.rows)) for sample in ordered[part::_PARTS]]
    return FittedCost(
        function,
        samples=len(ordered),
        smallest=ordered[0].rows,
        largest=ordered[-1].rows,
        relative_error=sqrt(sum((ratio - 1) ** 2 for ratio in ratios) / len(ratios)),
        ratios=tuple(sorted(ratios)),
    )


def _fit(samples: Sequence[Sample]) -> PiecewiseLinear:
    first = _weighted(samples, [sample.weight for sample in samples])
    middle = sum(sample.seconds for sample in samples) / len(samples)
    if middle == 0:
        return first
    # a floor, so that batches predicted as free do not decide everything
    scales = [max(first(sample.rows) / middle, 0.01) for sample in samples]
    return _weighted(samples, [sample.weight / scale**2 for sample, scale in zip(samples, scales, strict=True)])


def _weighted(samples: Sequence[Sample], weights: Sequence[float]) -> PiecewiseLinear:
    knots = _knots([sample.rows for sample in samples])
    roots = [sqrt(weight) for weight in weights]
    # Of samples of one size nobody can tell what a row adds: the whole is taken for fixed.
    slopes = [[root * sample.rows for root, sample in zip(roots, samples, strict=True)]]
    several = len({sample.rows for sample in samples}) > 1
    columns = [
        roots,
        *(slopes if several else []),
        *([root * min(sample.rows, knot) for root, sample in zip(roots, samples, strict=True)] for knot in knots),
    ]
    values = [root * sample.seconds for root, sample in zip(roots, samples, strict=True)]
    fixed, *rates = non_negative_least_squares(columns, values)
    per_row, *bends = rates if several else [0.0]

    def at(rows: int) -> float:
        return fixed + per_row * rows + sum(bend * min(rows, knot) for bend, knot in zip(bends, knots, strict=True))

    bent = [knot for bend, knot in zip(bends, knots, strict=True) if bend > 0]
    ends = [0, *bent, 2 * bent[-1] if bent else 1]
    return PiecewiseLinear(tuple((rows, at(rows)) for rows in ends))


def _knots(sizes: Sequence[int]) -> list[int]:
    """The distinct sizes strictly between the smallest and the largest; of many, some, evenly by rank."""
    inner = sorted(set(sizes))[1:-1]
    if len(inner) <= MOST_KNOTS:
        return inner
    return [inner[position * (len(inner) - 1) // (MOST_KNOTS - 1)] for position in range(MOST_KNOTS)]


def _ratio(measured: float, predicted: float) -> float:
    """1 when both are nothing; else large but finite where nothing was foretold."""
    return measured / max(predicted, 1e-9) if measured or predicted else 1.0
