"""What a view's refresh takes, from what its steps have taken: f_i for each part, and what every refresh pays.

The *parts* of a view are what can be processed apart, the tables of [He05]: the leaves of a join block, each with its
own frontier; all leaves together where they can't be told apart (nodes, other methods); the whole of a view that is
recomputed. A refresh from a backlog s takes

    capture + Σ f_i(s[i]) - (m - 1)·shared + apply(u),    u = the changed rows that the view's table does not show yet

for m parts that are pending, since they go in one step (``problem``). What they share is the middle of what such steps,
at least three, took less than the sum of their parts, and at most what a row of the cheapest part costs. What a step
took over the sum less what is shared is a ratio like those of ``fit``: the middle one corrects what is expected, so
that steps of several parts that take longer than they did are seen though nobody processes parts alone any more, and a
high one bounds it. Steps from before the newest samples of a part are left out: its f is of another time.

Capture and apply are not in the paper, whose cost is propagation alone; a reader waits for them too, so they count
against C here. What is left for the backlog is the cost limit of ``Promise``.

*Which f.* Samples of the newest steps weigh more; a process's first step of a kind is slow and kept apart (``cold``).
A part without samples is taken for as dear as the dearest measured thing it may be: steps of several parts together
cost at least what each would. A view of which nothing is known has no f; then nothing is promised.

*Bounds and expectations.* Whether a backlog is full is decided by ``upper``, f times a factor under which steps stay
with the given confidence; what to do then by what it is expected to cost, f itself, and so is what people are told.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from statistics import median
from typing import Any

from headwater.schedule.cost import AtLeast, CostFunction, Scaled
from headwater.schedule.fit import FittedCost, Sample, fit
from headwater.schedule.problem import Counts, Promise

CONFIDENCE = 0.95
RECENT = 200  # samples that a function is fitted from
HALF_LIFE = 50  # samples after which one weighs half
RECENT_STEPS = 20  # of several parts, from which it is learned what they share
_ENOUGH = 3


@dataclass(frozen=True, slots=True)
class Measured:
    """A measurement as it is kept: ``at`` in seconds of any clock, the same for all."""

    rows: int
    seconds: float
    at: float
    cold: bool = False
    by_part: Counts | None = None  # rows of each part, of a step of several


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
    joint: JointCosts = field(default_factory=lambda: JointCosts())

    def part(self, number: int) -> FittedCost | None:
        """f_i, or what stands for it while it is not measured."""
        return self.parts[number] or self.together or _dearest(self.parts)

    @property
    def is_known(self) -> bool:
        return self._known() is not None

    def are_measured(self, backlog: Counts) -> bool:
        """Whether several parts are pending, each of which was measured alone."""
        pending = [own for own, rows in zip(self.parts, backlog, strict=True) if rows]
        return len(pending) > 1 and all(own is not None for own in pending)

    def upper(self, confidence: float = CONFIDENCE) -> tuple[CostFunction, ...] | None:
        """The bounds by which a policy decides; None while nothing is known."""
        promise = self.promise(0.0, confidence)
        return None if promise is None else promise.costs

    def promise(self, cost_limit: float, confidence: float = CONFIDENCE) -> Promise | None:
        """What a policy decides by: bounds of each part and of what they share; None while nothing is known.

        With u_i at least the bound U of the ratios, Σ u_i·f_i less U·shared for each part but one is at least
        U·(Σ f_i less what is shared), which bounds steps of several parts.
        """
        known = self._known()
        if known is None:
            return None
        several = self.joint.factor(confidence)
        bounds = [Scaled(each, max(each.upper(confidence).factor, several)) for each in known]
        expected = self._promise(known, cost_limit, self.joint.shared)
        return replace(self._promise(bounds, cost_limit, several * self.joint.shared), expected=expected)

    def _promise(self, functions: Sequence[CostFunction], cost_limit: float, shared: float) -> Promise:
        """A part that was never measured alone does not keep the others from sharing."""
        least = min([shared, *(f(1) for f, own in zip(functions, self.parts, strict=True) if own is not None)])
        costs = [f if own is not None else AtLeast(f, least) for f, own in zip(functions, self.parts, strict=True)]
        return Promise(tuple(costs), cost_limit, least)

    def _known(self) -> tuple[FittedCost, ...] | None:
        """The f_i; of a view that can't be looked at not even the parts are known."""
        found = [self.part(number) for number in range(len(self.parts))]
        known = tuple(each for each in found if each is not None)
        return known if known and len(known) == len(found) else None

    def overhead(self, unapplied: int, confidence: float | None = None) -> float:
        """Capture and apply; 0 for what was never measured."""
        return _at(self.capture, 1, confidence) + _at(self.apply, unapplied, confidence)

    def expected(self, backlog: Counts, unapplied: int) -> float | None:
        """What a refresh now is expected to take; parts that are pending together are processed together."""
        pending = [number for number, rows in enumerate(backlog) if rows]
        if not self.parts or any(self.part(number) is None for number in pending):
            return None
        propagation = sum(_at(self.part(number), backlog[number], None) for number in pending)
        if len(pending) > 1:
            propagation = self.joint.expected(propagation, len(pending))
        return propagation + self.overhead(unapplied)

    def bound(self, backlog: Counts, unapplied: int, confidence: float = CONFIDENCE) -> float | None:
        """What a refresh now stays under, with that confidence in each of its parts."""
        promise = self.promise(0.0, confidence)
        return None if promise is None else promise.cost(backlog) + self.overhead(unapplied, confidence)

    def again(self, confidence: float = CONFIDENCE) -> float:
        """What one more refresh takes, for what is committed while one is running: of the dearest part that came up."""
        bounds = self.upper(confidence) or ()
        steps = [bound(1) for bound, own in zip(bounds, self.parts, strict=False) if own is not None]
        return max(steps) + self.overhead(1, confidence) if steps else 0.0

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
            "shared": round(self.joint.shared, 3),
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


@dataclass(frozen=True, slots=True)
class JointCosts:
    """Steps of several parts against the sum of these."""

    shared: float = 0.0  # what each part beyond the first saves
    ratios: tuple[float, ...] = ()  # measured / (sum less what is shared), ascending

    @classmethod
    def of(
        cls,
        parts: Sequence[FittedCost | None],
        samples: Sequence[Sequence[Measured]],
        steps: Sequence[Measured],
    ) -> JointCosts:
        """``samples`` are those that the parts were fitted from; all newest first."""
        known = {number: f for number, f in enumerate(parts) if f is not None}
        since = {number: samples[number][:HALF_LIFE][-1].at for number in known}
        found = []
        for step in steps[:RECENT_STEPS]:
            touched = {number: rows for number, rows in enumerate(step.by_part or ()) if rows}
            if len(touched) > 1 and all(number in known and step.at >= since[number] for number in touched):
                apart = sum(known[number](rows) for number, rows in touched.items())
                found.append((apart, len(touched) - 1, step.seconds))
        saved = [(apart - seconds) / others for apart, others, seconds in found]
        shared = min(max(0.0, median(saved)), *(f(1) for f in known.values())) if len(saved) >= _ENOUGH else 0.0
        ratios = [seconds / max(apart - others * shared, 1e-9) for apart, others, seconds in found]
        return cls(shared, tuple(sorted(ratios)))

    @property
    def is_known(self) -> bool:
        """Whether enough steps of several parts were seen that are not too old."""
        return len(self.ratios) >= _ENOUGH

    def expected(self, apart: float, parts: int) -> float:
        """What parts take together that take ``apart`` one by one."""
        return (apart - (parts - 1) * self.shared) * (median(self.ratios) if self.ratios else 1.0)

    def factor(self, confidence: float) -> float:
        """What the ratios stay under with this probability, as ``FittedCost.upper``; 0 where none is known."""
        rank = min(len(self.ratios), ceil((len(self.ratios) + 1) * confidence))
        return self.ratios[rank - 1] if self.ratios else 0.0


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
