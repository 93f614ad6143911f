"""The layout ``timeline``: every row with the time for which it stood in the view [Mauve98 §2.1, §2.2].

A timeline row says that ``row`` stands ``count`` times in the view at every moment t with

    t_min <= t  and  (t < t_max  or  t_max is null)                                                 (1), (2)

which is the predicate that a reader's query gets for its local_timestamp. Installing a chunk never changes what an
older moment shows: rows are added with a t_min after it, and rows that were open get a t_max after it.

*Duplicates.* The paper's tuples have identities. A view is a bag of rows, and which of two equal copies was deleted
has no answer. We keep for each distinct row its *runs*: the longest spans over which its count does not change. A
change of the count closes the open run and opens the next, so at any moment a row stands in at most one run, which
carries the multiplicity. Runs are a function of the history alone: a timeline installed in chunks of any size is the
same, value for value, as one installed at once.

*Why every moment is right.* Write n(t) for the count of a row in V(t) = net(V(a) + σ(a,t] ΔV). It changes just at the
csns at which the consolidated view delta has the row, and there by the count found; between them it is constant. The
runs are its graph without zeros. Since the law holds at every csn up to the mark, so does the timeline: all csns are
readable, and not only the ends of chunks as with the paper's coarse timestamps, which are the view delta with the end
of its interval for every csn.

*Pruning.* A run that ended at or before the oldest moment kept is visible at no moment kept, and goes. Single older
moments may be pinned (a tag, an open reader): then a run goes just when it spans none of them. What is left is
visible at some moment kept or still to come, so pruning takes everything that it may.

*Trivial updates* [§2.3]. A row that is inserted and deleted at one csn cancels out in the view delta before it gets
here; the hidden assumption behind Eq. 3, that insertions and deletions are disjoint, so holds at every csn. The sets
of that equation are ``deleted_at``, ``inserted_at``, ``surviving_at`` and ``at``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import pairwise

from headwater.algebra.time import Csn, Interval
from headwater.algebra.zset import Row, ZSet
from headwater.errors import InternalError, MomentBeforeHistory, MomentInFuture


@dataclass(frozen=True, slots=True)
class Run:
    """A timeline row. ``t_max`` is None while the run is open."""

    row: Row
    count: int
    t_min: Csn
    t_max: Csn | None = None

    def visible(self, local_timestamp: Csn) -> bool:
        return self.t_min <= local_timestamp and (self.t_max is None or self.t_max > local_timestamp)


@dataclass(frozen=True, slots=True)
class TimelineChange:
    """One MERGE: ``closed`` runs were open and get their t_max; ``opened`` ones are new, some of them over already."""

    interval: Interval
    closed: frozenset[Run]
    opened: frozenset[Run]


@dataclass(frozen=True, slots=True)
class Timeline:
    """Readable are the csns from ``kept_from`` to ``csn``, and the older ones in ``pinned``."""

    runs: frozenset[Run]
    csn: Csn
    kept_from: Csn
    pinned: frozenset[Csn] = frozenset()

    @classmethod
    def beginning(cls, view: ZSet, csn: Csn) -> Timeline:
        """A view just materialized."""
        return cls(frozenset(Run(row, count, csn) for row, count in view.counts().items()), csn, csn)

    def readable(self, moment: Csn) -> bool:
        return self.kept_from <= moment <= self.csn or moment in self.pinned

    def at(self, local_timestamp: Csn) -> ZSet:
        """V(t). An unreadable moment is refused: its predicate would find some rows, and not the right ones."""
        if local_timestamp > self.csn:
            raise MomentInFuture(
                f"The timeline ends at csn {self.csn}, before {local_timestamp}.", remedy="Refresh the view first."
            )
        if not self.readable(local_timestamp):
            raise MomentBeforeHistory(
                f"The timeline is kept from csn {self.kept_from} on; {local_timestamp} has been pruned.",
                remedy="Read a later moment, or keep more history.",
            )
        return self._where(lambda run: run.visible(local_timestamp))

    def deleted_at(self, update_timestamp: Csn) -> ZSet:
        """D_R of [Mauve98 §2.3]: what stood until then, as often as it stood."""
        return self._where(lambda run: run.t_max == update_timestamp)

    def inserted_at(self, update_timestamp: Csn) -> ZSet:
        """I_R: what stands since then."""
        return self._where(lambda run: run.t_min == update_timestamp and run.visible(update_timestamp))

    def surviving_at(self, update_timestamp: Csn) -> ZSet:
        """R⁻ = R - D_R: what stood before and still does."""
        return self._where(lambda run: run.t_min < update_timestamp and run.visible(update_timestamp))

    def _where(self, holds: Callable[[Run], bool]) -> ZSet:
        return ZSet.of((run.row, run.count, None) for run in self.runs if holds(run)).net_effect()

    def validate(self) -> None:
        if self.kept_from > self.csn or any(moment >= self.kept_from for moment in self.pinned):
            raise InternalError(f"a timeline up to {self.csn} can't be kept from {self.kept_from} with {self.pinned}")
        by_row: dict[Row, list[Run]] = {}
        for run in self.runs:
            if run.count < 1 or run.t_min > self.csn or (run.t_max is not None and run.t_max > self.csn):
                raise InternalError(f"{run} can't be in a timeline up to {self.csn}")
            if run.t_max is not None and run.t_max <= run.t_min:
                raise InternalError(f"{run} is visible at no moment")
            by_row.setdefault(run.row, []).append(run)
        for runs in by_row.values():
            for earlier, later in pairwise(sorted(runs, key=lambda run: run.t_min)):
                if earlier.t_max is None or earlier.t_max > later.t_min:
                    raise InternalError(f"{earlier} and {later} stand at the same time")
                if earlier.t_max == later.t_min and earlier.count == later.count:
                    raise InternalError(f"{earlier} and {later} are one run")


def change(timeline: Timeline, view_delta: ZSet, to: Csn) -> TimelineChange:
    """What a view delta over (timeline.csn, to] does to the timeline; entries outside the interval are left alone."""
    interval = Interval(timeline.csn, to)
    steps: dict[Row, list[tuple[Csn, int]]] = {}
    for row, count, csn in view_delta.select(interval).consolidate():
        if csn is not None:
            steps.setdefault(row, []).append((csn, count))
    open_runs = {run.row: run for run in timeline.runs if run.t_max is None and run.row in steps}
    closed: set[Run] = set()
    opened: set[Run] = set()
    for row, changes in steps.items():
        current = open_runs.get(row)
        for csn, step in changes:
            count = step + (current.count if current else 0)
            if count < 0:
                raise InternalError(f"the view delta takes {row} away {-count} times too often at csn {csn}")
            if current is not None:
                ended = replace(current, t_max=csn)
                (opened if current.t_min > timeline.csn else closed).add(ended)
            current = Run(row, count, csn) if count else None
        if current is not None:
            opened.add(current)
    return TimelineChange(interval, frozenset(closed), frozenset(opened))


def install(timeline: Timeline, change: TimelineChange) -> Timeline:
    if change.interval.start != timeline.csn:
        raise InternalError(f"a change over {change.interval} does not continue a timeline up to {timeline.csn}")
    were_open = {replace(run, t_max=None) for run in change.closed}
    if not were_open <= timeline.runs:
        raise InternalError("a change closes runs that are not open")
    return replace(timeline, runs=timeline.runs - were_open | change.closed | change.opened, csn=change.interval.end)


def advance(timeline: Timeline, view_delta: ZSet, to: Csn) -> Timeline:
    return install(timeline, change(timeline, view_delta, to))


def rewind(timeline: Timeline, to: Csn) -> Timeline:
    """The timeline as it was at ``to``, which must be in the unbroken part of what it keeps."""
    if not timeline.kept_from <= to <= timeline.csn:
        raise MomentBeforeHistory(
            f"The timeline can go back to csn {timeline.kept_from}, not to {to}.", remedy="Choose a later moment."
        )
    runs = (
        replace(run, t_max=None) if run.t_max is not None and run.t_max > to else run
        for run in timeline.runs
        if run.t_min <= to
    )
    return replace(timeline, runs=frozenset(runs), csn=to)


def prune(timeline: Timeline, kept_from: Csn, pinned: Iterable[Csn] = ()) -> Timeline:
    """Keep the moments from ``kept_from`` on and the pinned ones; what is gone already can't be asked for again."""
    older = frozenset(moment for moment in pinned if moment < kept_from)
    for moment in (kept_from, *older):
        if not timeline.readable(moment):
            raise InternalError(f"csn {moment} can't be kept: it is not readable now")
    return replace(
        timeline,
        runs=frozenset(run for run in timeline.runs if needed(run, kept_from, older)),
        kept_from=kept_from,
        pinned=older,
    )


def needed(run: Run, kept_from: Csn, pinned: Iterable[Csn]) -> bool:
    """Whether some moment from ``kept_from`` on, or a pinned one, shows the run."""
    return run.t_max is None or run.t_max > kept_from or any(run.visible(moment) for moment in pinned)


def coarse(view_delta: ZSet, interval: Interval) -> ZSet:
    """The view delta with the paper's timestamps: all changes of a chunk at its end, as if it were one unit of work.

    Smaller, since what changed twice in the chunk counts once, and right at the ends of chunks only.
    """
    return ZSet.of((row, count, interval.end) for row, count, _ in view_delta.select(interval).net_effect())
