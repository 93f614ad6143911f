"""A stream of updates replayed on numbers: exact times where Eq. 7 gives averages [Mauve98 §3, Fig. 2; §4.2, Fig. 15].

``interleaved`` is the paper's warehouse: one process that applies updates to base tables as they arrive and, whenever
a chunk is full (and at the end), stops to update the views. ``concurrent`` is ours: writers commit as they like, and
chunks are taken one after another. The times that come out obey the definitions of ``headwater.serve.staleness``, so
the two are what its predictions are compared with, also for streams that the formula does not know: those with gaps.

*Lag* is the time for which the process had nothing to do because no update was there. Updating views more often uses
it up (Figure 15): the stops fall into gaps that would have passed idle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

from headwater.errors import InternalError
from headwater.serve.staleness import Staleness, UpdateTimes, average

ViewSeconds: TypeAlias = Callable[[int], float]
"""How long the views need for a chunk of so many updates."""


@dataclass(frozen=True, slots=True)
class Replay:
    times: tuple[UpdateTimes, ...]
    phases: int
    base_seconds: float  # spent on base tables
    view_seconds: float  # spent on views
    lag_seconds: float  # spent waiting for updates

    @property
    def staleness(self) -> Staleness:
        return average((times, 1) for times in self.times)


def interleaved(arrivals: Sequence[float], update_seconds: float, chunk: int, view_seconds: ViewSeconds) -> Replay:
    """``arrivals`` ascending; every update costs ``update_seconds`` in its base table."""
    _require(arrivals, chunk)
    times: list[UpdateTimes] = []
    waiting: list[tuple[float, float]] = []  # (T_eb, T_b) of the updates of the chunk so far
    undisturbed = free = viewing = lag = 0.0
    phases = 0
    for number, arrival in enumerate(arrivals, start=1):
        undisturbed = max(undisturbed, arrival) + update_seconds
        lag += max(0.0, arrival - free)
        free = max(free, arrival) + update_seconds
        waiting.append((undisturbed, free))
        if len(waiting) == chunk or number == len(arrivals):
            spent = view_seconds(len(waiting))
            free += spent
            viewing += spent
            phases += 1
            # T_b is T_eb plus what the stops cost, and rounding may put it just before.
            times += [UpdateTimes(earliest, max(earliest, applied), free) for earliest, applied in waiting]
            waiting = []
    return Replay(tuple(times), phases, update_seconds * len(arrivals), viewing, lag)


def concurrent(arrivals: Sequence[float], chunk: int, view_seconds: ViewSeconds) -> Replay:
    """A chunk begins when it is full (or the stream has ended) and the one before it is installed."""
    _require(arrivals, chunk)
    times: list[UpdateTimes] = []
    free = viewing = lag = 0.0
    phases = 0
    for start in range(0, len(arrivals), chunk):
        members = arrivals[start : start + chunk]
        lag += max(0.0, members[-1] - free)
        begun = max(free, members[-1])
        spent = view_seconds(len(members))
        free = begun + spent
        viewing += spent
        phases += 1
        times += [UpdateTimes(arrival, begun, free) for arrival in members]
    return Replay(tuple(times), phases, 0.0, viewing, lag)


def _require(arrivals: Sequence[float], chunk: int) -> None:
    if chunk < 1:
        raise InternalError(f"a chunk of {chunk} updates is never full")
    if any(later < earlier for earlier, later in pairwise(arrivals)):
        raise InternalError("updates arrive in order")
