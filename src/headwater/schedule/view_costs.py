"""What a view's refresh takes, from what its steps have taken: f_i for each part, and what every refresh pays.

The *parts* of a view are what can be processed apart, the tables of [He05]: the leaves of a join block, each with its
own frontier; all leaves together where they can't be told apart (nodes, other methods); the whole of a view that is
recomputed. A refresh from a backlog s takes

    capture + Σ f_i(s[i]) - (m - 1)·shared + apply(u),    u = the changed rows that the view's table does not show yet

for m parts that are pending, since they go in one step (``problem``). What they share is learned from such steps: each
says by how much it stayed below the sum of its parts. The middle of that is expected; and for the bound the sum of the
parts' bounds may be lowered by as much as leaves such steps below it with the given confidence, so by what almost all
of them saved against *that* sum. Neither is ever more than the cheapest part's f(0+). No such step, nothing shared.

Capture and apply are not in the paper, whose cost is propagation alone; a reader waits for them too, so they count
against C here. What is left for the backlog is the cost limit of ``Promise``.

*Which f.* Samples of the newest steps weigh more; a process's first step of a kind is slow and kept apart (``cold``).
A part without samples is taken for as dear as the dearest measured thing it may be: steps of several parts together
cost at least what each would. A view of which nothing is known has no f; then nothing is promised.

*Bounds and expectations.* Policies decide by ``upper``, f times a factor under which steps stay with the given
confidence; predictions that are told to people are f itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import floor
from statistics import median
from typing import Any

from headwater.schedule.cost import CostFunction
from headwater.schedule.fit import FittedCost, Sample, fit
from headwater.schedule.problem import Counts, Promise

CONFIDENCE = 0.95
RECENT = 200  # samples that a function is fitted from
HALF_LIFE = 50  # samples after which one weighs half


@dataclass(frozen=True, slots=True)
class Measured:
    """A measurement as it is kept: ``at`` in seconds of any clock, the same for all."""

    rows: int
    seconds: float
    at: float
    cold: bool = False
    by_part: Counts | None = None  # rows of each part, of a step of several


@dataclass(frozen=True, slots=True)
class Joint:
    """A step of several parts: rows of each, and what they took together."""

    by_part: Counts
    seconds: float


def like(samples: Sequence[Measured], *, cold: bool) -> Sequence[Measured]:
    """Those like the steps to come if there are any, else all."""
    return [sample for sample in samples if sample.cold is cold] or samples


def fitted(samples: Sequence[Measured], *, cold: bool = False) -> FittedCost | None:
    """The function of samples, newest first."""
    alike = like(samples, cold=cold)
    if not alike:
        return None
    return fit(
        Sample(sample.rows, sample.seconds, weight=0.5 ** (age / HALF_LIFE))
        for age, sample in enumerate(alike[:RECENT])
    )


@dataclass(frozen=True, slots=True)
class ViewCosts:
    parts: tuple[FittedCost | None, ...]
    together: FittedCost | None = None  # steps of several parts, by all their rows
    apply: FittedCost | None = None
    capture: FittedCost | None = None
    joint: tuple[Joint, ...] = ()  # newest first

    def part(self, number: int) -> FittedCost | None:
        """f_i, or what stands for it while it is not measured."""
        return self.parts[number] or self.together or _dearest(self.parts)

    @property
    def is_known(self) -> bool:
        return all(self.part(number) is not None for number in range(len(self.parts)))

    def upper(self, confidence: float = CONFIDENCE) -> tuple[CostFunction, ...] | None:
        """The functions by which a policy decides; None while nothing is known."""
        known = self._known()
        return None if known is None else tuple(each.upper(confidence) for each in known)

    def promise(self, cost_limit: float, confidence: float = CONFIDENCE) -> Promise | None:
        """What a policy decides by: bounds of each part, and what they surely share; None while nothing is known."""
        functions = self.upper(confidence)
        if functions is None:
            return None
        saved = sorted(self._saved(functions))
        if not saved:
            return Promise(functions, cost_limit)
        # As ``FittedCost.factor`` from below: with too few for a quantile, the least.
        rank = max(1, floor((len(saved) + 1) * (1 - confidence)))
        return Promise(functions, cost_limit, _within(saved[rank - 1], functions))

    @property
    def shared(self) -> float:
        """What each part beyond the first is expected to save in a step of several."""
        known = self._known()
        saved = [] if known is None else self._saved(known)
        return _within(median(saved), known) if known is not None and saved else 0.0

    def _known(self) -> tuple[FittedCost, ...] | None:
        found = [self.part(number) for number in range(len(self.parts))]
        known = tuple(each for each in found if each is not None)
        return known if len(known) == len(found) else None

    def _saved(self, functions: Sequence[CostFunction]) -> list[float]:
        """By each step of several parts, for each part beyond the first, against the sum of these."""
        found = []
        for step in self.joint[:RECENT]:
            if len(step.by_part) == len(functions) and (others := sum(rows > 0 for rows in step.by_part) - 1) > 0:
                apart = sum(f(rows) for f, rows in zip(functions, step.by_part, strict=True))
                found.append((apart - step.seconds) / others)
        return found

    def overhead(self, unapplied: int, confidence: float | None = None) -> float:
        """Capture and apply; 0 for what was never measured."""
        return _at(self.capture, 1, confidence) + _at(self.apply, unapplied, confidence)

    def expected(self, backlog: Counts, unapplied: int) -> float | None:
        """What a refresh now is expected to take; parts that are pending together are processed together."""
        pending = [number for number, rows in enumerate(backlog) if rows]
        if any(self.part(number) is None for number in pending):
            return None
        propagation = sum(_at(self.part(number), backlog[number], None) for number in pending)
        return propagation - self.shared * max(0, len(pending) - 1) + self.overhead(unapplied)

    def bound(self, backlog: Counts, unapplied: int, confidence: float = CONFIDENCE) -> float | None:
        """What a refresh now stays under, with that confidence in each of its parts."""
        promise = self.promise(0.0, confidence)
        return None if promise is None else promise.cost(backlog) + self.overhead(unapplied, confidence)

    def floor(self, confidence: float | None = None) -> Floor | None:
        """What a refresh takes after one changed row, of the part for which that is dearest."""
        each = [_at(self.part(number), 1, confidence) for number in range(len(self.parts))]
        if not self.is_known:
            return None
        dearest = max(range(len(each)), key=lambda number: each[number])
        return Floor(_at(self.capture, 1, confidence), each[dearest], _at(self.apply, 1, confidence), dearest)

    def as_dict(self, labels: Sequence[str]) -> dict[str, Any]:
        """For ``--json``; ``labels`` name the parts."""
        return {
            "parts": {label: _described(function) for label, function in zip(labels, self.parts, strict=True)},
            "together": _described(self.together),
            "shared": round(self.shared, 3),
            "apply": _described(self.apply),
            "capture": _described(self.capture),
        }


@dataclass(frozen=True, slots=True)
class Floor:
    """The least that a refresh can take, and of what it is made."""

    capture: float
    propagate: float
    apply: float
    part: int  # the one whose row is dearest

    @property
    def seconds(self) -> float:
        return self.capture + self.propagate + self.apply

    def __str__(self) -> str:
        return f"capture {self.capture:.1f} s + propagate {self.propagate:.1f} s + apply {self.apply:.1f} s"


def _within(saved: float, functions: Sequence[CostFunction]) -> float:
    """No part costs less than nothing: at most what a row of the cheapest costs."""
    return min(max(0.0, saved), *(f(1) for f in functions))


def _dearest(functions: Iterable[FittedCost | None]) -> FittedCost | None:
    known = [function for function in functions if function is not None]
    return max(known, key=lambda function: function(1), default=None)


def _at(function: FittedCost | None, rows: int, confidence: float | None) -> float:
    if function is None:
        return 0.0
    return function(rows) if confidence is None else function.upper(confidence)(rows)


def _described(function: FittedCost | None) -> dict[str, Any] | None:
    if function is None:
        return None
    found = function.to_dict()
    del found["ratios"]
    return {**found, "one_row": round(function(1), 3), "upper_factor": round(function.upper(CONFIDENCE).factor, 3)}
