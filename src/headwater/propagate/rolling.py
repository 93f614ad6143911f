"""RollingPropagate: live tables, and a width of its own for every leaf [Salem00 §3.4, Fig. 9 and 10].

An iteration runs one forward query ΔR_i(t_fwd[i], y] ⋈ Π R_j, answered as of an execution time e, and the
compensations that are due now. A forward query of any leaf but the last waits in its query list until the last leaf
has compensated for it; ``t_comp[i]`` is the start of leaf i's oldest waiting query (``t_fwd[i]`` if none waits),
and the high-water mark is min t_comp.

*Which points to keep.* Let a row of a product be a point of csns (see ``frontier``), and let leaf i, for the part
of its forward query that holds c_i, be compensated back to the times T^i. By (*) in ``compensation``, forward query
and compensation together add [c_j <= T^i_j for all j≠i] at csns t >= c_i, and that minus [c_j <= max(T^i_j, t) for
all j≠i] at t < c_i. Say "i sees j" for c_j <= T^i_j, and let H be the leaves with c > t. Summed over all leaves, the
view delta up to t holds the point as often as there are leaves that see all others, less (if H is not empty) as
often as there are leaves in H that see all others of H. That is right, 1 if H is empty and 0 if not, when *among all
leaves, and among any H, exactly one leaf sees all others*. Of two leaves, then, exactly one must see the other, and
three must not see each other in a cycle: **"sees" must be a linear order**. Ours: leaf i before the last stands at
the execution time of its forward query (the later executed sees the earlier), and the last leaf stands at c_n
itself (c_n <= e_i: i sees the last leaf; c_n > e_i: the last leaf sees i). As times:

- leaf i < n:  T^i_j = t_fwd[j] for j < n, and T^i_n = e: the last leaf is not compensated for, it will do that
  itself;
- leaf n, at csns just after t:  T^n_j = CompTime(j, t), the start of j's first waiting query executed after t. That
  changes at every execution time in the lists, so the forward interval is cut there (CompInterval) into rectangles.

*The mark.* Up to min t_fwd every change has been forwarded. What may still be missing is compensation of a waiting
query of leaf i by the last leaf, and the rows concerned carry the csn of leaf i, beyond the query's start and so
beyond t_comp[i].

*Where we depart from Figure 10 as printed*, each shown by a test:

1. t_fwd advances for every leaf (printed inside ``if i > 1``, the first leaf would never advance).
2. The compensation propagates the *negated* forward query (printed without the sign; §3.2 and Figure 4 have it).
3. CompTime(j, t) is t_fwd[j] when no waiting query was executed after t: those still to come are executed later and
   start there.
4. Figure 10 compensates leaf i for the leaves before it only. From n = 3 on, "sees" then has cycles: with
   c_2 <= e_1 < c_3 <= e_2, leaf 1 sees 2, 2 sees 3 and 3 sees 1. Such a point is compensated away by each of them and
   lost, and it takes no more than a change that arrives between two forward queries. So the leaves before the last
   compensate for one another at once; only the last leaf's share is deferred. For two relations nothing changes.
5. A forward query is fully compensated for (footnote 4) once t_fwd of the *last* leaf has passed its execution
   time; printed is the smallest t_fwd, which is safe but holds the mark back. Lists are pruned at the end of an
   iteration, so that the mark is true when the state is returned.
6. Then nothing depends on which leaf advances; the one with the smallest t_fwd is the default, not a condition.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeAlias

from headwater.algebra.plan import LeafId, Plan, scans
from headwater.algebra.query import BaseDelta, Query
from headwater.algebra.time import Csn, Interval
from headwater.errors import InternalError
from headwater.propagate.compensation import compute_delta, negate, present_view
from headwater.propagate.frontier import ChangeLog

IntervalEnd: TypeAlias = Csn | Callable[[LeafId, Csn], Csn]
"""Where the forward interval ends: a csn, or a function of the chosen leaf and its t_fwd."""


@dataclass(frozen=True, slots=True)
class ForwardQuery:
    """A forward query of a leaf that has run and is not yet fully compensated for."""

    leaf: LeafId
    interval: Interval
    execution_time: Csn


@dataclass(frozen=True, slots=True)
class RollingState:
    t_fwd: tuple[Csn, ...]  # forward queries of leaf i cover everything up to t_fwd[i]
    t_comp: tuple[Csn, ...]  # start of query_lists[i][0], or t_fwd[i] when the list is empty
    query_lists: tuple[tuple[ForwardQuery, ...], ...]  # by interval, hence by execution time; the last is always empty

    @property
    def high_water_mark(self) -> Csn:
        return min(self.t_comp)

    def validate(self) -> None:
        if not 0 < len(self.t_fwd) == len(self.t_comp) == len(self.query_lists):
            raise InternalError(f"{self} does not tell of the same leaves everywhere")
        if self.query_lists[-1]:
            raise InternalError(f"{self}: forward queries of the last leaf never wait for compensation")
        if self.t_comp != _oldest_waiting(self.t_fwd, self.query_lists):
            raise InternalError(f"{self}: t_comp must be the start of the oldest waiting query, or t_fwd")
        for leaf, waiting in enumerate(self.query_lists):
            for query in waiting:
                if query.leaf != leaf:
                    raise InternalError(f"{query} waits in the list of leaf {leaf}")
                if not query.interval.end <= min(query.execution_time, self.t_fwd[leaf]):
                    raise InternalError(f"{query} holds changes that were not there or not forwarded")
                if query.execution_time <= self.t_fwd[-1]:
                    raise InternalError(f"{query} is fully compensated for and must not wait")
            for earlier, later in pairwise(waiting):
                if earlier.interval.end > later.interval.start or earlier.execution_time > later.execution_time:
                    raise InternalError(f"{earlier} and {later} wait in the wrong order")


def initial_state(plan: Plan, at: Csn) -> RollingState:
    """The state of a view just materialized at a csn."""
    times = tuple(at for _ in scans(plan))
    return RollingState(t_fwd=times, t_comp=times, query_lists=tuple(() for _ in times))


def next_leaf(state: RollingState) -> LeafId:
    """The leaf with the smallest t_fwd, the first of them if there are several."""
    return LeafId(state.t_fwd.index(min(state.t_fwd)))


def rolling_iteration(
    plan: Plan, state: RollingState, end: IntervalEnd, *, leaf: LeafId | None = None, log: ChangeLog | None = None
) -> Generator[Query, Csn, RollingState]:
    """One iteration of [Salem00 Fig. 10]: yields queries, is sent the csn as of which each was answered, returns the
    new state.

    Execution times must not decrease from query to query, over all iterations. With a log, which must hold every
    change up to an execution time when that time is sent, queries without changes are not yielded; when the forward
    interval itself has none, nothing is.
    """
    chosen = next_leaf(state) if leaf is None else leaf
    scan = list(scans(plan))[chosen]
    start = state.t_fwd[chosen]
    interval = Interval(start, end(chosen, start) if callable(end) else end)
    if interval.is_empty:
        raise InternalError(f"an iteration must advance leaf {scan.alias}, but its interval is {interval}")
    if log is not None and not log.has_changes(scan.table, interval):
        return _forwarded(state, chosen, interval.end, None)

    execution_time = yield _forward_query(plan, chosen, interval)
    known = max(interval.end, *state.t_fwd, *(waiting[-1].execution_time for waiting in state.query_lists if waiting))
    if execution_time < known:
        raise InternalError(f"a query can't have been answered as of {execution_time}: csn {known} was there before")
    last = LeafId(len(state.t_fwd) - 1)
    for piece in _rectangles(state, interval) if chosen == last else [interval]:
        if log is not None and not log.has_changes(scan.table, piece):
            continue
        if chosen == last:
            intended = (*(comp_time(state, LeafId(j), piece.start) for j in range(last)), execution_time)
        else:
            intended = (*state.t_fwd[:last], execution_time)
        yield from compute_delta(negate(_forward_query(plan, chosen, piece)), intended, execution_time, log)
    return _forwarded(state, chosen, interval.end, ForwardQuery(chosen, interval, execution_time))


def comp_time(state: RollingState, leaf: LeafId, t: Csn) -> Csn:
    """CompTime: up to where leaf ``leaf`` is to be seen by the last leaf's changes just after t."""
    starts = (query.interval.start for query in state.query_lists[leaf] if query.execution_time > t)
    return next(starts, state.t_fwd[leaf])


def comp_interval_end(state: RollingState, t: Csn, limit: Csn) -> Csn:
    """CompInterval: the end of the widest compensation from t that is still one rectangle, at most ``limit``."""
    executed = (query.execution_time for waiting in state.query_lists for query in waiting)
    return min((time for time in executed if t < time < limit), default=limit)


def prune_query_lists(state: RollingState) -> RollingState:
    """PruneQueryLists: forget the forward queries that the last leaf has passed, and bring t_comp up to date."""
    passed = state.t_fwd[-1]
    kept = tuple(tuple(query for query in waiting if query.execution_time > passed) for waiting in state.query_lists)
    return replace(state, query_lists=kept, t_comp=_oldest_waiting(state.t_fwd, kept))


def _oldest_waiting(t_fwd: tuple[Csn, ...], query_lists: tuple[tuple[ForwardQuery, ...], ...]) -> tuple[Csn, ...]:
    return tuple(
        waiting[0].interval.start if waiting else time for time, waiting in zip(t_fwd, query_lists, strict=True)
    )


def _forward_query(plan: Plan, leaf: LeafId, interval: Interval) -> Query:
    view = present_view(plan)
    return replace(view, terms=(*view.terms[:leaf], BaseDelta(interval), *view.terms[leaf + 1 :]))


def _rectangles(state: RollingState, interval: Interval) -> list[Interval]:
    pieces = []
    start = interval.start
    while start < interval.end:
        end = comp_interval_end(state, start, interval.end)
        pieces.append(Interval(start, end))
        start = end
    return pieces


def _forwarded(state: RollingState, leaf: LeafId, end: Csn, query: ForwardQuery | None) -> RollingState:
    t_fwd = (*state.t_fwd[:leaf], end, *state.t_fwd[leaf + 1 :])
    lists = list(state.query_lists)
    if query is not None and leaf != len(t_fwd) - 1:
        lists[leaf] += (query,)
    return prune_query_lists(RollingState(t_fwd, state.t_comp, tuple(lists)))
