"""The propagate driver for tables that show only their present: carries out ``rolling`` [Salem00 §3.4, Fig. 10], or, by
method 'propagate', intervals of ``compensation`` one after another [Salem00 §3.3, Fig. 5].

Each query of an iteration is its own commit to the view delta, as in the paper, tagged with (step, ordinal). Its
execution time is the newest csn captured just before it runs: the versions that this csn means are the tables' present,
pinned. The time is written into the commit itself and then into the catalog, so after a crash a replay feeds the
recorded times to the same generator, skips what is there, and goes on.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import TypeAlias

from headwater.algebra.plan import LeafId, Plan
from headwater.algebra.query import Present, Query, Snapshot
from headwater.algebra.time import Csn, Interval
from headwater.capture.driver import capture
from headwater.catalog.fencing import Lease
from headwater.catalog.records import JsonObject, LeafRecord, LeafTime, QueryListEntry, StepRecord, ViewRecord
from headwater.context import Context
from headwater.definition import CatalogMoments, Definition
from headwater.durable import DurablePoint
from headwater.engine.spark import CommitTag
from headwater.errors import InternalError
from headwater.propagate.compensation import propagate_interval
from headwater.propagate.driver import append_answers, require_captured
from headwater.propagate.frontier import ChangeLog
from headwater.propagate.rolling import ForwardQuery, RollingState, initial_state, next_leaf, rolling_iteration
from headwater.propagate.targets import count_rows, width_of
from headwater.propagate.width import ByRows, interval_end

Iteration: TypeAlias = Generator[Query, Csn, RollingState]

_ORDINALS = 100_000  # commit numbers of one step; more than any iteration has queries


def roll(context: Context, lease: Lease, view: ViewRecord, to: Csn) -> Csn:
    """Iterate until the high-water mark has reached ``to``.

    The mark passes a forward query only when the last leaf has passed its execution time, so leaves are carried on to
    what is captured by then, which may be beyond ``to``.
    """
    definition = Definition.load(view)
    for step in context.catalog.open_steps(view.view_id, "propagate"):
        _iterate(context, lease, view, definition, step)
    while True:
        leaves = context.catalog.leaves(view.view_id)
        state = state_of(context, view, leaves)
        if state.high_water_mark >= to:
            return state.high_water_mark
        require_captured(context, definition)
        decide = _next_interval if view.method == "propagate" else _next_iteration
        intent = decide(context, definition, leaves, state, to)
        step = context.catalog.begin_step(lease, view.view_id, "propagate", intent)
        context.reached(DurablePoint.ROLLING_INTENDED)
        _iterate(context, lease, view, definition, step)


def _next_iteration(
    context: Context, definition: Definition, leaves: list[LeafRecord], state: RollingState, to: Csn
) -> JsonObject:
    leaf = next_leaf(state)
    # Only what is captured can be forwarded; past the target, just far enough to let waiting queries go.
    waiting = [query.execution_time for queries in state.query_lists for query in queries]
    target = max([to, *waiting])
    if min(state.t_fwd) >= target:
        raise InternalError(f"Rolling propagation stands still at {state}.")
    return {"leaf": leaf, "end": _end(context, definition, leaves[leaf], Interval(state.t_fwd[leaf], target))}


def _next_interval(
    context: Context, definition: Definition, leaves: list[LeafRecord], state: RollingState, to: Csn
) -> JsonObject:
    """One interval for all leaves: as wide as the narrowest of their widths allows."""
    start = state.high_water_mark
    return {"start": start, "end": min(_end(context, definition, leaf, Interval(start, to)) for leaf in leaves)}


def _queries(definition: Definition, state: RollingState, intent: JsonObject, log: ChangeLog) -> Iteration:
    """The generator that a recorded intention stands for; it returns the state after."""
    end = Csn(intent["end"])
    if "leaf" in intent:
        return rolling_iteration(definition.plan, state, end, leaf=LeafId(intent["leaf"]), log=log)
    return _interval(definition.plan, Interval(Csn(intent["start"]), end), log)


def _interval(plan: Plan, interval: Interval, log: ChangeLog) -> Iteration:
    yield from propagate_interval(plan, interval, log)
    return initial_state(plan, interval.end)


def state_of(context: Context, view: ViewRecord, leaves: list[LeafRecord]) -> RollingState:
    lists: list[list[ForwardQuery]] = [[] for _ in leaves]
    for entry in context.catalog.query_lists(view.view_id):
        lists[entry.leaf].append(ForwardQuery(entry.leaf, entry.interval, entry.execution_time))
    state = RollingState(
        t_fwd=tuple(leaf.time for leaf in leaves),
        t_comp=tuple(leaf.t_comp for leaf in leaves),
        query_lists=tuple(tuple(queries) for queries in lists),
    )
    state.validate()
    return state


def _end(context: Context, definition: Definition, leaf: LeafRecord, available: Interval) -> Csn:
    width = width_of(leaf)
    if isinstance(width, ByRows):
        count_rows(context, leaf.table, available)
    return interval_end(leaf.table, available, width, CatalogMoments(context.catalog, definition))


def _iterate(context: Context, lease: Lease, view: ViewRecord, definition: Definition, step: StepRecord) -> None:
    state = state_of(context, view, context.catalog.leaves(view.view_id))
    done = context.catalog.executions(step.step_id)
    rows = 0
    iteration = _queries(definition, state, step.intent, _NewestLog(context, definition))
    ordinal = 0
    try:
        query = next(iteration)
        while True:
            if ordinal < len(done):
                execution_time = done[ordinal].execution_time
            else:
                execution_time, appended = _execute(context, lease, view, definition, step, ordinal, query)
                rows += appended
            ordinal += 1
            query = iteration.send(execution_time)
    except StopIteration as finished:
        after: RollingState = finished.value
    context.catalog.finish_propagate(
        lease,
        step.step_id,
        [
            LeafTime(LeafId(i), t_fwd, t_comp)
            for i, (t_fwd, t_comp) in enumerate(zip(after.t_fwd, after.t_comp, strict=True))
        ],
        query_lists=[
            QueryListEntry(query.leaf, query.interval, query.execution_time)
            for queries in after.query_lists
            for query in queries
        ],
        outcome={"rows": rows, "queries": ordinal},
    )
    context.reached(DurablePoint.ROLLING_ADVANCED)


class _NewestLog:
    """Has a table changes in an interval? Asked of the catalog anew each time, since time goes on between queries."""

    def __init__(self, context: Context, definition: Definition) -> None:
        self._context = context
        self._definition = definition

    def has_changes(self, table: str, interval: Interval) -> bool:
        return CatalogMoments(self._context.catalog, self._definition).has_changes(table, interval)


def _execute(
    context: Context,
    lease: Lease,
    view: ViewRecord,
    definition: Definition,
    step: StepRecord,
    ordinal: int,
    query: Query,
) -> tuple[Csn, int]:
    """Run one query at the present, once: (execution time, rows appended)."""
    execution_time = capture(context).csn
    context.progress(f"{view.name}: {query} as of csn {execution_time}")
    tag = CommitTag(
        f"headwater:{view.view_id}:propagate",
        step.step_id * _ORDINALS + ordinal,
        {"step": step.step_id, "ordinal": ordinal, "execution_time": execution_time},
    )
    written = append_answers(context, view, definition, (_pinned(query, execution_time),), tag)
    rows = 0
    if written is not None:
        # It may have been written before a crash, or by a driver that lost its lease, as of another csn: what counts
        # is what was written.
        rows, execution_time = written.rows, Csn(int(written.facts["execution_time"]))
    context.reached(DurablePoint.ROLLING_APPENDED)
    context.catalog.record_execution(lease, step.step_id, ordinal, str(query), execution_time)
    context.reached(DurablePoint.ROLLING_RECORDED)
    return execution_time, rows


def _pinned(query: Query, execution_time: Csn) -> Query:
    terms = tuple(Snapshot(execution_time) if isinstance(term, Present) else term for term in query.terms)
    return replace(query, terms=terms)
