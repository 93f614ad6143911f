"""The propagate driver for tables with history: carries out the steps that ``frontier`` and ``width`` decide.

Exactly once. (1) The step is recorded with the times before and after; (2) its answer is appended to the view delta in
one commit tagged with the step's number; (3) the frontier moves, in one catalog transaction. After a crash the recorded
step is simply run again: its queries are a function of the recorded times, and Delta passes over the append if it has
seen the tag.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from typing import TypeAlias

from headwater.algebra.plan import LeafId, scans
from headwater.algebra.query import BaseDelta, Patched, Query
from headwater.algebra.time import BEGINNING, Csn, Interval
from headwater.capture.driver import problem_of
from headwater.catalog.fencing import Lease
from headwater.catalog.records import JsonObject, LeafTime, StepRecord, ViewRecord
from headwater.context import Context, propagate_lease
from headwater.definition import CatalogMoments, Definition, base_tables_of
from headwater.durable import DurablePoint
from headwater.engine.failures import after_a_change_of_columns, is_driver_failure, table_failure, translated
from headwater.engine.files import bytes_added
from headwater.engine.spark import CommitTag, Written
from headwater.errors import (
    BeyondHighWaterMark,
    ExpressionFails,
    HeadwaterError,
    InternalError,
    InvalidInput,
    SchemaChanged,
)
from headwater.propagate.choosing import Wanted
from headwater.propagate.extents import table_extent
from headwater.propagate.frontier import Frontier, PropagationStep, advance
from headwater.propagate.knowing import integrity_of_step
from headwater.propagate.moments import moments_of
from headwater.propagate.nodes import staged_nodes
from headwater.propagate.same_columns import renamed
from headwater.propagate.stepping import Prepared, Stepping
from headwater.propagate.targets import frontier_of, step_targets, within_limits
from headwater.propagate.tree_driver import Blocks
from headwater.sql.dialect import to_text
from headwater.sql.storage import table_at

Feed: TypeAlias = tuple[str, Interval]


def propagate(context: Context, name: str, to: Csn, strategy: str | None = None) -> Csn:
    """Bring the view's high-water mark to ``to`` or beyond, by its own strategy or the one given; the mark."""
    view = context.catalog.view(name)
    wanted = None if strategy is None else Wanted.named(strategy)
    with context.catalog.lease(propagate_lease(view.view_id), ttl=context.lease_ttl, wait=context.lease_wait) as lease:
        return propagate_under(context, lease, context.catalog.view(name, view.view_id), to, wanted)


def propagate_under(context: Context, lease: Lease, view: ViewRecord, to: Csn, strategy: Wanted | None = None) -> Csn:
    if view.method != "frontier":
        if strategy is not None:
            raise InvalidInput(
                f"View {view.name!r} is propagated by method {view.method!r}, which has no strategies.",
                remedy="Leave the strategy out.",
            )
        from headwater.propagate.rolling_driver import roll

        return roll(context, lease, view, to)
    definition = Definition.load(view)
    if definition.recomputed is not None:
        raise InvalidInput(
            f"View {view.name!r} is recomputed, not propagated ({definition.recomputed}).",
            remedy=f"Refresh it: lake.refresh({view.name!r}).",
            code=definition.recomputed,
        )
    for below in definition.views:
        require_usable(context.catalog.view(below))
        propagate(context, below, to)
    for step in context.catalog.open_steps(view.view_id, "propagate"):
        _run(context, lease, context.catalog.view(view.name), definition, step)
    while True:
        view = context.catalog.view(view.name)  # where its table stands by now
        leaves = context.catalog.leaves(view.view_id)
        frontier = frontier_of(leaves)
        if frontier.high_water_mark >= to:
            return frontier.high_water_mark
        require_captured(context, definition)
        targets = step_targets(context, definition, leaves, to)
        wanted = Wanted.of(view.options) if strategy is None else strategy
        intent = {"before": list(frontier.times), "after": list(targets), "strategy": wanted.value}
        step = context.catalog.begin_step(lease, view.view_id, "propagate", intent)
        context.reached(DurablePoint.PROPAGATE_INTENDED)
        _run(context, lease, view, definition, step)


def propagate_leaves(context: Context, name: str, targets: Sequence[Csn]) -> Csn:
    """One step that takes each leaf to a csn of its own, for whoever chooses them; the high-water mark after it.

    Or not so far, where that would be too much for one step. Views below are propagated as far as a leaf on them
    needs. A view with nodes has one target for all its leaves.
    """
    view_id = context.catalog.view(name).view_id
    with context.catalog.lease(propagate_lease(view_id), ttl=context.lease_ttl, wait=context.lease_wait) as lease:
        view = context.catalog.view(name, view_id)
        require_usable(view)
        definition = Definition.load(view)
        if view.method != "frontier" or definition.recomputed is not None:
            raise InvalidInput(f"The leaves of view {name!r} do not advance by steps of one's own choice.")
        for step in context.catalog.open_steps(view.view_id, "propagate"):
            _run(context, lease, context.catalog.view(name), definition, step)
        view = context.catalog.view(name)  # where its table stands by now
        leaves = context.catalog.leaves(view.view_id)
        frontier = frontier_of(leaves)
        after = [max(leaf.time, target) for leaf, target in zip(leaves, targets, strict=True)]
        if definition.nodes and len(set(after)) > 1:
            raise InternalError(f"View {name} has nodes, so its leaves can't go to {Frontier(tuple(after))}.")
        require_captured(context, definition)
        for leaf, target in zip(leaves, after, strict=True):
            if leaf.table in definition.views:
                require_usable(context.catalog.view(leaf.table))
                propagate(context, leaf.table, target)
        after = list(within_limits(context, definition, leaves, after))
        if after == list(frontier.times):
            return frontier.high_water_mark
        strategy = Wanted.of(view.options).value
        intent = {"before": list(frontier.times), "after": after, "strategy": strategy}
        step = context.catalog.begin_step(lease, view.view_id, "propagate", intent)
        context.reached(DurablePoint.PROPAGATE_INTENDED)
        _run(context, lease, view, definition, step)
        return min(after)


def _as_one(before: Frontier, after: Frontier) -> bool:
    """Whether all leaves go from one moment to another: then their changes may be carried up in any grouping."""
    return len(set(before.times)) == 1 == len(set(after.times))


def require_usable(view: ViewRecord) -> None:
    """Raise what keeps a view from being propagated."""
    if view.problem is not None:
        raise InvalidInput(
            f"View {view.name!r} can't be propagated: {view.problem.get('message')}",
            remedy=f"Refresh it: lake.refresh({view.name!r}) recomputes it and says so.",
            code=str(view.problem.get("code", "PROBLEM")),
        )


def require_captured(context: Context, definition: Definition) -> None:
    """Raise the problem of the first base table, of views below too, that capture can't read any further."""
    for table in sorted(base_tables_of(context.catalog, definition)):
        record = context.catalog.base_table(table)
        if record.problem is not None:
            raise problem_of(record)


def step_of(context: Context, definition: Definition, step: StepRecord) -> PropagationStep:
    """The step that a recorded intention stands for."""
    before = Frontier(tuple(Csn(time) for time in step.intent["before"]))
    after = tuple(Csn(time) for time in step.intent["after"])
    return advance(definition.plan, before, after, CatalogMoments(context.catalog, definition))


def _run(context: Context, lease: Lease, view: ViewRecord, definition: Definition, step: StepRecord) -> None:
    began, uses = time.monotonic(), context.sharing.uses if context.sharing is not None else 0
    before = Frontier(tuple(Csn(reached) for reached in step.intent["before"]))
    after = Frontier(tuple(Csn(reached) for reached in step.intent["after"]))
    stands = frontier_of(context.catalog.leaves(view.view_id))
    if stands != before:
        raise InternalError(f"Step {step.step_id} begins at {before}, the view stands at {stands}.")
    context.progress(f"{view.name}: propagating {before} to {after}")
    tag = CommitTag(f"headwater:{view.view_id}:propagate", step.step_id, {"step": step.step_id, "view": view.name})
    try:
        written, told = _answer(context, lease, view, definition, step, before, after, tag)
    except ExpressionFails as error:
        # It would fail again and again; another step may go around it.
        context.catalog.finish_step(lease, step.step_id, {"failed": error.as_dict()})
        raise
    context.reached(DurablePoint.PROPAGATE_APPENDED)
    times = [LeafTime(LeafId(i), reached, reached) for i, reached in enumerate(after.times)]
    if context.sharing is not None and context.sharing.uses > uses:
        told["shared"] = True  # it says little of what a step of this view alone takes
    outcome = {"rows": written.rows if written else 0, **told, **context.timed("propagate", began)}
    context.catalog.finish_propagate(lease, step.step_id, times, outcome=outcome)
    context.reached(DurablePoint.PROPAGATE_ADVANCED)


def _answer(
    context: Context,
    lease: Lease,
    view: ViewRecord,
    definition: Definition,
    step: StepRecord,
    before: Frontier,
    after: Frontier,
    tag: CommitTag,
) -> tuple[Written | None, JsonObject]:
    """Append the step's answer to the view delta; its commit, if it had any rows, and what is to be told of it."""
    over = Interval(before.high_water_mark, max(after.times))
    _require_propagated(context, definition, after)
    context.engine.versions.trim()
    moments = moments_of(context, definition)
    _tell_residents(context, definition, moments, over)
    with context.engine.for_rows(_rows_read(context, definition, moments, over)):
        integrity = integrity_of_step(context, lease, view, definition, over)
        blocks = Blocks(context, view, definition, Wanted.of(step.intent), integrity)
        if not _asks(context, definition) and (definition.nodes or _as_one(before, after)):
            written = _append_change(context, view, definition, over, tag, blocks)
            size = bytes_added(view.delta_location, written.version) if written else 0
            blocks.answered(written.rows if written else 0, size)
        else:
            queries = integrity.cut(step_of(context, definition, step).queries)
            written = None
            if queries and _asks(context, definition):
                from headwater.propagate.asking_driver import append_asked

                written = append_asked(context, view, definition, before, queries, tag, integrity.known)
            elif queries:
                written = append_answers(context, view, definition, queries, tag)
    return written, {"integrity": integrity.as_json(), "blocks": blocks.as_json()}


def _require_propagated(context: Context, definition: Definition, after: Frontier) -> None:
    """Views below were brought as far as each leaf goes; somebody may have recomputed one at an earlier csn since."""
    for scan, reached in zip(definition.leaves, after.times, strict=True):
        if scan.table not in definition.views:
            continue
        below = context.catalog.view(scan.table)
        mark = min(leaf.t_comp for leaf in context.catalog.leaves(below.view_id))
        if mark < reached:
            raise BeyondHighWaterMark(
                f"View {scan.table!r} stands at csn {mark}; its changes up to csn {reached} are not there (any more).",
                remedy="Try again: it is brought there first.",
                view=scan.table,
                high_water_mark=mark,
            )


def _rows_read(context: Context, definition: Definition, moments: CatalogMoments, over: Interval) -> int | None:
    """How many rows a step goes through if it reads all that its view reads; None if that is not known."""
    tables = {scan.table: scan for scan in definition.leaves}
    changed = [moments.known_rows(name, over) for name in tables if moments.has_changes(name, over)]
    if None in changed:
        return None
    whole = sum(table_extent(context, definition, moments, scan).rows for scan in tables.values())
    return whole + sum(count or 0 for count in changed)


def _tell_residents(context: Context, definition: Definition, moments: CatalogMoments, over: Interval) -> None:
    """Small tables that are read again and again, and do not change, are held in memory."""
    for name, scan in {scan.table: scan for scan in definition.leaves}.items():
        if name in definition.tables and moments.mirror(name) is None and not moments.has_changes(name, over):
            rows = table_extent(context, definition, moments, scan).rows
            context.engine.residents.met(moments.identified(name, over.start), rows)


def _asks(context: Context, definition: Definition) -> bool:
    """Whether rows of some table are asked of its source: nothing of it is copied, and such a view has no nodes."""
    return any(context.catalog.mirror_mode(table) == "query" for table in definition.tables)


def append_answers(
    context: Context, view: ViewRecord, definition: Definition, queries: tuple[Query, ...], tag: CommitTag
) -> Written | None:
    """Run queries and append their answers to the view delta in one commit: that commit, or the one made before."""
    context.engine.versions.trim()
    moments = moments_of(context, definition)
    feeds = _feeds(definition, queries)
    with _reading(context, definition, moments, set(feeds)), ExitStack() as stack:
        stepping = Stepping(context, definition, moments, moments, stack)
        staged = stepping.stage_feeds(key for key, count in Counter(feeds).items() if count > 1)
        prepared = stepping.prepared(queries, replace(moments.sources(BEGINNING), staged=staged))
        return _append(context, view, prepared, tag)


def _append_change(
    context: Context,
    view: ViewRecord,
    definition: Definition,
    interval: Interval,
    tag: CommitTag,
    blocks: Blocks,
) -> Written | None:
    """The same where all leaves advance over one interval, as those of a view with nodes do, by blocks."""
    moments = moments_of(context, definition)
    if not any(moments.has_changes(scan.table, interval) for scan in definition.leaves):
        return None
    feeds = {(table, interval) for table in definition.tables if moments.has_changes(table, interval)}
    with (
        _reading(context, definition, moments, feeds),
        staged_nodes(context, view, definition, moments, interval, blocks) as prepared,
    ):
        return _append(context, view, prepared, tag)


def _append(context: Context, view: ViewRecord, answer: Prepared, tag: CommitTag) -> Written | None:
    if answer.is_empty:
        return None
    with nullcontext() if answer.rows is None else context.engine.for_rows(answer.rows):
        with translated(f"propagating {view.name}"):
            frame = context.engine.compute(answer.text(_names(view)))
            answered = context.engine.columns(frame)[: len(view.stored)]
        if answered != view.stored:
            raise InternalError(f"View {view.name} has columns {view.stored}, its delta {answered}.")
        return context.engine.append(frame, view.delta_location, tag, f"propagating {view.name}")


def _names(view: ViewRecord) -> list[str]:
    return [name for name, _ in view.stored]


def _feeds(definition: Definition, queries: tuple[Query, ...]) -> list[Feed]:
    """The changes of base tables that queries read, as often as they read them."""
    return [
        (scan.table, term.interval)
        for query in queries
        for scan in scans(definition.plan)
        if isinstance(term := query.terms[scan.leaf], BaseDelta | Patched) and scan.table in definition.tables
    ]


@contextmanager
def _reading(
    context: Context, definition: Definition, moments: CatalogMoments, feeds: Collection[Feed]
) -> Iterator[None]:
    """Compute under the view's settings, over tables that still have its columns; name the table that can't be read."""
    with context.engine.under(definition.settings):
        try:
            _require_schema(context, definition, moments, feeds)
            yield
        except Exception as error:
            own = isinstance(error, HeadwaterError) and isinstance(error.__cause__, Exception)
            cause = error.__cause__ if own else error
            if not isinstance(cause, Exception) or not is_driver_failure(cause):
                raise
            for table, interval in feeds:
                if moments.location(table) in str(cause) or _feed_fails(context, moments, table, interval):
                    version = moments.version(table, interval.end)
                    raise table_failure(cause, table, version, f"reading {table}") from cause
            for table in definition.tables:
                if moments.location(table) in str(cause):
                    version = moments.version(table, min((interval.start for _, interval in feeds), default=BEGINNING))
                    raise table_failure(cause, table, version, f"reading {table}") from cause
            raise


def _require_schema(context: Context, definition: Definition, moments: CatalogMoments, feeds: Collection[Feed]) -> None:
    """Every changed table must still have the columns that the view uses: the same ones, of the same types."""
    spans: dict[str, Interval] = {}
    for table, interval in feeds:
        known = spans.get(table, interval)
        spans[table] = Interval(min(known.start, interval.start), max(known.end, interval.end))
    for table, span in spans.items():
        used = definition.used_columns(table)
        if not used or moments.mirror(table) is not None:  # a mirror's columns are those that it was made with
            continue
        _require_same_columns(context, moments, table, span, used)
        version = moments.version(table, span.end)
        try:
            frame = context.engine.query(to_text(table_at(moments.location(table), version, used)))
            found = dict(context.engine.columns(frame))
        except Exception as error:
            raise table_failure(error, table, version, f"reading the columns of {table}") from error
        expected = moments.types(table)
        for name in used:
            if found.get(name) != expected[name]:
                raise SchemaChanged(
                    f"Column {name} of {table!r} was {expected[name]} when the view was created and is "
                    f"{found.get(name, 'missing')} at version {version}.",
                    table=table,
                    version=version,
                    remedy=after_a_change_of_columns(table),
                )


def _require_same_columns(
    context: Context, moments: CatalogMoments, table: str, span: Interval, used: Collection[str]
) -> None:
    """Wherever rows changed, no other column may have the name of one that the view uses."""
    for version, name, now in renamed(context, moments, table, span, used):
        what = "been dropped" if now is None else f"the name {now}"
        raise SchemaChanged(
            f"Column {name} of {table!r} has {what} at version {version}, where rows change.",
            table=table,
            version=version,
            remedy=after_a_change_of_columns(table),
        )


def _feed_fails(context: Context, moments: CatalogMoments, table: str, interval: Interval) -> bool:
    if moments.mirror(table) is not None:
        return False
    versions = context.catalog.units(table, interval.start, interval.end)
    try:
        context.source.changed_rows(table, moments.location(table), [unit.version for unit in versions])
    except HeadwaterError:
        return True
    return False
