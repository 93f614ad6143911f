"""The advisor: a chunk size from measured times [Mauve98 §2.4, §3.3, §4.1].

Given are how many updates there are, U, and how long view updates of a few sizes took. The paper predicts with one V
for every n and finds it far off where V depends on the size of a chunk (§4.1: 3000 for one view update against 570 on
average for the others); its remedy, the V_n of each point (the curve "theoretic-2"), is what we do. Between the sizes
that were measured V is interpolated by chunk size, in which a fixed cost with a cost for each row is a straight line.

Outside of them we promise nothing that was not seen: a chunk smaller than any measured is taken to cost as much as
the smallest, and a larger one to cost in proportion to the largest (what batching saves beyond it is unknown, and
view updates are subadditive). View updates near the advised size then replace what was assumed.

Looked at are all n up to 200, and beyond that steps of at most 1 %, over which U/2n and n V/2 change by no more.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from headwater.errors import InvalidInput
from headwater.serve.staleness import Prediction, Process, phases_of, predicted

_SHOWN = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 30, 50, 100, 200, 500, 1000)


@dataclass(frozen=True, slots=True)
class ViewUpdateSample:
    """One view update: how many updates it held and how long it took."""

    updates: int
    seconds: float

    def __post_init__(self) -> None:
        if self.updates < 1 or self.seconds < 0:
            raise InvalidInput(
                f"A view update of {self.updates} updates in {self.seconds} seconds can't have been measured.",
                remedy="Leave it out.",
            )


@dataclass(frozen=True, slots=True)
class ViewUpdateTime:
    """Seconds by chunk size, through the mean of the samples at each size."""

    sizes: tuple[int, ...]
    seconds: tuple[float, ...]

    @classmethod
    def through(cls, samples: Iterable[ViewUpdateSample]) -> ViewUpdateTime:
        by_size: dict[int, list[float]] = {}
        for sample in samples:
            by_size.setdefault(sample.updates, []).append(sample.seconds)
        if not by_size:
            raise InvalidInput("No view update has been measured yet.", remedy="Refresh at least once, then ask again.")
        sizes = tuple(sorted(by_size))
        return cls(sizes, tuple(math.fsum(by_size[size]) / len(by_size[size]) for size in sizes))

    def __call__(self, updates: float) -> float:
        if updates <= self.sizes[0]:
            return self.seconds[0]
        if updates >= self.sizes[-1]:
            return self.seconds[-1] * updates / self.sizes[-1]
        right = bisect_left(self.sizes, updates)
        left = right - 1
        part = (updates - self.sizes[left]) / (self.sizes[right] - self.sizes[left])
        return self.seconds[left] + part * (self.seconds[right] - self.seconds[left])


@dataclass(frozen=True, slots=True)
class Candidate:
    chunk: int
    prediction: Prediction


@dataclass(frozen=True, slots=True)
class Advice:
    """``candidates`` by falling chunk size: one view update only, the chosen one, and enough to draw the curve."""

    chosen: Candidate
    candidates: tuple[Candidate, ...]

    @property
    def once(self) -> Candidate:
        return self.candidates[0]


def advise(
    updates: int, base_seconds: float, samples: Iterable[ViewUpdateSample], process: Process = Process.INTERLEAVED
) -> Advice:
    """The chunk size of least predicted staleness; of two alike, the larger."""
    if updates < 1 or base_seconds < 0:
        raise InvalidInput(
            f"There is no chunk size for {updates} updates in {base_seconds} seconds.",
            remedy="Give the updates of a period in which there were some.",
        )
    view_time = ViewUpdateTime.through(samples)
    found = {
        phases: predicted(phases, base_seconds, view_time(updates / phases), process)
        for phases in _frequencies(updates)
    }
    best = min(found, key=lambda phases: (found[phases].vs, phases))
    shown = sorted({best, *(phases for phases in _SHOWN if phases in found)})
    candidates = {phases: Candidate(-(-updates // phases), found[phases]) for phases in shown}
    return Advice(candidates[best], tuple(candidates.values()))


def predict_chunk(
    updates: int, chunk: int, base_seconds: float, view_time: ViewUpdateTime, process: Process = Process.INTERLEAVED
) -> Candidate:
    """What a chunk size that somebody has in mind would give."""
    phases = phases_of(updates, chunk)
    return Candidate(chunk, predicted(phases, base_seconds, view_time(updates / phases), process))


def _frequencies(updates: int) -> Iterator[int]:
    """The n to look at."""
    phases = 1
    while phases <= updates:
        yield phases
        phases += max(1, phases // 100)
