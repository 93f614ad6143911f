"""View staleness: how long an update takes to reach the views, measured and predicted [Mauve98 §3].

*Definition* (Eq. 4). For each update, VS = T_v - T_eb, from the earliest moment at which it could have been taken in
to the moment at which readers see it in the views. With T_b, the moment at which it was taken in, VS = S1 + S2:

    S1 = T_b - T_eb      what maintenance made it wait
    S2 = T_v - T_b       from there to the views

Counting from T_eb and not from T_b is what makes schemes of different frequency comparable: a scheme that refreshes
all the time has a small S2, and pays for it in S1.

*Two processes, two readings of the times.* In the paper one process applies updates to base tables and stops for
every view update: T_eb is when the update would have been applied without these stops, T_b when it was. Headwater
stops nobody's writes: an update is taken in when the chunk that holds it begins, and it could have been at its
commit. So the recorded times are T_eb = commit, T_b = begin of the chunk, T_v = install; the sum VS is the same
quantity in both.

*Prediction for the paper's process* (Eq. 5 to 8). U seconds of base table updates are cut into n chunks, each
followed by a view update of V_n seconds. In a chunk, an update waits for the rest of the chunk, between U/n and 0 and
so U/2n on average, and for the view update: S2 = U/2n + V_n. Updates of the i-th chunk have been pushed back by i - 1
view updates, (n - 1)/2 of them on average: S1 = (n - 1) V_n / 2. Together

    VS_n = U/2n + (n + 1) V_n / 2 = (U + n (n + 1) V_n) / 2n                                            (7)

For one V at every n, VS_{n+1} - VS_n = V/2 - U/(2n(n+1)) is negative just while n (n + 1) < U/V: one minimum, at the
smallest n with n (n + 1) >= U/V, near sqrt(U/V). The paper puts it "around the point where S1 and S2 meet"; they meet
at (3 + sqrt(9 + 4U/V)) / 2, 1 to 2.6 chunks beyond the best n.

*Prediction for writers that nobody stops.* U is now the time over which the updates arrive. A chunk that arrived over
U/n waits until the one before it is installed: not at all while V_n <= U/n, and (i - 1) (V_n - U/n) for the i-th
chunk otherwise, since each falls behind by that much more. In our reading of the times

    S1 = U/2n + (n - 1)/2 max(0, V_n - U/n)        S2 = V_n

Both predictions are exact but for half the time of one update (``headwater.serve.replay``, and the tests that
compare).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from headwater.errors import InternalError


class Process(Enum):
    """Who waits for whom while views are updated."""

    INTERLEAVED = "interleaved"  # the paper's: base table updates stop for view updates
    CONCURRENT = "concurrent"  # ours: writers go on


@dataclass(frozen=True, slots=True)
class UpdateTimes:
    """T_eb, T_b and T_v of one update, in seconds on one clock."""

    earliest: float
    taken_in: float
    installed: float

    def __post_init__(self) -> None:
        if not self.earliest <= self.taken_in <= self.installed:
            raise InternalError(f"{self}: an update is taken in before it is installed, and neither before it is there")

    @property
    def s1(self) -> float:
        return self.taken_in - self.earliest

    @property
    def s2(self) -> float:
        return self.installed - self.taken_in

    @property
    def vs(self) -> float:
        return self.installed - self.earliest


@dataclass(frozen=True, slots=True)
class Staleness:
    """The average over a number of updates, kept as sums, so that two sets of updates together are their ``+``."""

    updates: int = 0
    s1_seconds: float = 0.0
    s2_seconds: float = 0.0
    worst: float = 0.0

    def __add__(self, other: Staleness) -> Staleness:
        return Staleness(
            self.updates + other.updates,
            self.s1_seconds + other.s1_seconds,
            self.s2_seconds + other.s2_seconds,
            max(self.worst, other.worst),
        )

    @property
    def s1(self) -> float:
        return self.s1_seconds / self.updates if self.updates else 0.0

    @property
    def s2(self) -> float:
        return self.s2_seconds / self.updates if self.updates else 0.0

    @property
    def vs(self) -> float:
        return self.s1 + self.s2


def average(times: Iterable[tuple[UpdateTimes, int]]) -> Staleness:
    """Over (times, how many updates had them)."""
    found = [(each, updates) for each, updates in times if updates]
    return Staleness(
        sum(updates for _, updates in found),
        math.fsum(each.s1 * updates for each, updates in found),
        math.fsum(each.s2 * updates for each, updates in found),
        max((each.vs for each, _ in found), default=0.0),
    )


def of_chunk(commits: Iterable[tuple[float, int]], begun: float, installed: float) -> Staleness:
    """Measured: the chunk of these units of work, (commit time, updates), began and was installed at these times.

    A commit may carry another machine's time and so seem to come after the chunk that read it; it is then taken to have
    come as the chunk began.
    """
    return average((UpdateTimes(min(at, begun), begun, installed), updates) for at, updates in commits)


def lag(now: float, oldest_pending: float | None) -> float:
    """How stale a moment is: the age of the oldest update that it does not show, given that update's commit time."""
    return 0.0 if oldest_pending is None else max(0.0, now - oldest_pending)


@dataclass(frozen=True, slots=True)
class Prediction:
    phases: int
    s1: float
    s2: float

    @property
    def vs(self) -> float:
        return self.s1 + self.s2


def predicted(phases: int, base_seconds: float, view_seconds: float, process: Process) -> Prediction:
    """VS_n for n = ``phases``, U = ``base_seconds`` and V_n = ``view_seconds``."""
    if phases < 1 or base_seconds < 0 or view_seconds < 0:
        raise InternalError(f"no staleness for {phases} phases, U = {base_seconds}, V = {view_seconds}")
    filling = base_seconds / phases
    match process:
        case Process.INTERLEAVED:
            return Prediction(phases, (phases - 1) * view_seconds / 2, filling / 2 + view_seconds)
        case Process.CONCURRENT:
            behind = max(0.0, view_seconds - filling)
            return Prediction(phases, filling / 2 + (phases - 1) / 2 * behind, view_seconds)


def best_phases(base_seconds: float, view_seconds: float) -> int:
    """The n of least VS_n in Eq. 7, when every view update takes ``view_seconds`` whatever its size."""
    if view_seconds <= 0:
        raise InternalError("a view update that takes no time has no best frequency")
    ratio = base_seconds / view_seconds
    phases = max(1, math.floor((math.sqrt(1 + 4 * ratio) - 1) / 2))
    # The root is rounded; the condition itself decides.
    while phases > 1 and (phases - 1) * phases >= ratio:
        phases -= 1
    while phases * (phases + 1) < ratio:
        phases += 1
    return phases


def phases_of(updates: int, chunk: int) -> int:
    """How often the views are updated: the last chunk may be smaller [Mauve98 §3.3]."""
    if updates < 1 or chunk < 1:
        raise InternalError(f"{updates} updates can't be cut into chunks of {chunk}")
    return -(-updates // chunk)
