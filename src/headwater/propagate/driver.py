"""The propagate driver for tables with history: carries out the steps that ``frontier`` and ``width`` decide.

Exactly once. (1) The step is recorded with the times before and after; (2) its answer is appended to the view delta in
one commit tagged with the step's number; (3) the frontier moves, in one catalog transaction. After a crash the recorded
step is simply run again: its queries are a function of the recorded times, and Delta passes over the append if it has
seen the tag.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from headwater.algebra.plan import LeafId, scans
from headwater.algebra.query import BaseDelta, Patched, Query
from headwater.algebra.time import Csn, Interval
from headwater.capture.driver import problem_of
from headwater.catalog.fencing import Lease
from headwater.catalog.records import LeafRecord, LeafTime, StepRecord, ViewRecord
from headwater.context import Context, propagate_lease
from headwater.definition import CatalogMoments, Definition
from headwater.durable import DurablePoint
from headwater.engine.failures import is_driver_failure, table_failure
from headwater.engine.spark import CommitTag, Written
from headwater.errors import HeadwaterError, InternalError, SchemaChanged
from headwater.propagate.frontier import Frontier, PropagationStep, advance
from headwater.propagate.width import ByCsn, ByRows, Unlimited, Width, next_targets
from headwater.sql.dialect import to_text
from headwater.sql.relations import Staged, changes_of
from headwater.sql.render import view_delta_sql
from headwater.sql.storage import table_at

# A change of up to this many rows is sent whole to every task instead of shuffling the table that it meets.
BROADCAST_ROWS = 100_000


def propagate(context: Context, name: str, to: Csn) -> Csn:
    """Bring the view's high-water mark to ``to`` or beyond; the mark."""
    view = context.catalog.view(name)
    with context.catalog.lease(propagate_lease(view.view_id), ttl=context.lease_ttl, wait=context.lease_wait) as lease:
        return propagate_under(context, lease, context.catalog.view(name), to)


def propagate_under(context: Context, lease: Lease, view: ViewRecord, to: Csn) -> Csn:
    if view.method != "frontier":
        from headwater.propagate.rolling_driver import roll

        return roll(context, lease, view, to)
    definition = Definition.load(view)
    for step in context.catalog.open_steps(view.view_id, "propagate"):
        _run(context, lease, view, definition, step)
    while True:
        leaves = context.catalog.leaves(view.view_id)
        frontier = frontier_of(leaves)
        if frontier.high_water_mark >= to:
            return frontier.high_water_mark
        require_captured(context, definition)
        moments = CatalogMoments(context.catalog, definition)
        widths = [width_of(leaf) for leaf in leaves]
        for leaf, width in zip(leaves, widths, strict=True):
            if isinstance(width, ByRows):
                count_rows(context, leaf.table, Interval(leaf.time, max(leaf.time, to)))
        targets = next_targets(definition.plan, frontier, to, widths, moments)
        intent = {"before": list(frontier.times), "after": list(targets)}
        step = context.catalog.begin_step(lease, view.view_id, "propagate", intent)
        context.reached(DurablePoint.PROPAGATE_INTENDED)
        _run(context, lease, view, definition, step)


def frontier_of(leaves: list[LeafRecord]) -> Frontier:
    return Frontier(tuple(leaf.time for leaf in leaves))


def width_of(leaf: LeafRecord) -> Width:
    match leaf.width_kind:
        case "rows":
            return ByRows(leaf.width_value or 1)
        case "csn":
            return ByCsn(leaf.width_value or 1)
        case _:
            return Unlimited()


def require_captured(context: Context, definition: Definition) -> None:
    """Raise the problem of the first base table that capture can't read any further."""
    for table in definition.tables:
        record = context.catalog.base_table(table)
        if record.problem is not None:
            raise problem_of(record)


def count_rows(context: Context, table: str, interval: Interval) -> None:
    """Have the number of changed rows of every commit in the interval in the catalog."""
    unknown = [unit for unit in context.catalog.units(table, interval.start, interval.end) if unit.rows is None]
    if unknown:
        location = context.catalog.base_table(table).location
        counted = context.source.changed_rows(table, location, [unit.version for unit in unknown])
        for unit in unknown:
            context.catalog.set_rows(table, unit.version, counted.get(unit.version, 0))


def step_of(context: Context, definition: Definition, step: StepRecord) -> PropagationStep:
    """The step that a recorded intention stands for."""
    before = Frontier(tuple(Csn(time) for time in step.intent["before"]))
    after = tuple(Csn(time) for time in step.intent["after"])
    return advance(definition.plan, before, after, CatalogMoments(context.catalog, definition))


def _run(context: Context, lease: Lease, view: ViewRecord, definition: Definition, step: StepRecord) -> None:
    planned = step_of(context, definition, step)
    leaves = context.catalog.leaves(view.view_id)
    if frontier_of(leaves) != planned.before:
        raise InternalError(
            f"Step {step.step_id} begins at {planned.before}, the view stands at {frontier_of(leaves)}."
        )
    rows = 0
    if planned.queries:
        context.progress(f"{view.name}: propagating {planned.before} to {planned.after}")
        tag = CommitTag(f"headwater:{view.view_id}:propagate", step.step_id, {"step": step.step_id, "view": view.name})
        written = append_answers(context, view, definition, planned.queries, tag)
        rows = written.rows if written else 0
    context.reached(DurablePoint.PROPAGATE_APPENDED)
    times = [LeafTime(LeafId(i), time, time) for i, time in enumerate(planned.after.times)]
    context.catalog.finish_propagate(
        lease, step.step_id, times, outcome={"rows": rows, "queries": len(planned.queries)}
    )
    context.reached(DurablePoint.PROPAGATE_ADVANCED)


def append_answers(
    context: Context, view: ViewRecord, definition: Definition, queries: tuple[Query, ...], tag: CommitTag
) -> Written | None:
    """Run queries and append their answers to the view delta in one commit: that commit, or the one made before."""
    moments = CatalogMoments(context.catalog, definition)
    names = [name for name, _ in view.columns]
    with context.engine.under(definition.settings), _naming_the_table(context, definition, queries, moments):
        _require_schema(context, definition, queries, moments)
        with _staged(context, definition, queries, moments) as staged:
            small = small_leaves(definition, queries, moments)
            text = view_delta_sql(queries, names, moments, broadcast=small, staged=staged)
            frame = context.engine.compute(text)
            answered = context.engine.columns(frame)[: len(names)]
            if answered != view.columns:
                raise InternalError(f"View {view.name} has columns {view.columns}, its delta {answered}.")
            return context.engine.append(frame, view.delta_location, tag, f"propagating {view.name}")


@contextmanager
def _staged(
    context: Context, definition: Definition, queries: tuple[Query, ...], moments: CatalogMoments
) -> Iterator[Staged]:
    """Changes that the queries read more than once, read once: a change feed is the dearest relation of all to plan."""
    uses = Counter(
        (scan.table, term.interval)
        for query in queries
        for scan in scans(definition.plan)
        if isinstance(term := query.terms[scan.leaf], BaseDelta | Patched)
    )
    repeated = [key for key, count in uses.items() if count > 1 and few(moments.known_rows(*key))]
    texts = {
        key: to_text(changes_of(*key, definition.used_columns(key[0]), moments))  # key: table and interval
        for key in repeated
    }
    with context.engine.staged(texts) as names:
        yield names


def few(rows: int | None) -> bool:
    return rows is not None and rows <= BROADCAST_ROWS


def small_leaves(definition: Definition, queries: tuple[Query, ...], moments: CatalogMoments) -> frozenset[LeafId]:
    """The leaves whose changes are known to be few in every query."""
    known: dict[LeafId, int | None] = {}
    for query in queries:
        for scan in scans(definition.plan):
            term = query.terms[scan.leaf]
            if isinstance(term, BaseDelta):
                rows = moments.known_rows(scan.table, term.interval)
                before = known.get(scan.leaf, 0)
                known[scan.leaf] = None if rows is None or before is None else max(rows, before)
    return frozenset(leaf for leaf, rows in known.items() if few(rows))


def _require_schema(
    context: Context, definition: Definition, queries: tuple[Query, ...], moments: CatalogMoments
) -> None:
    """Every changed table must still have the columns that the view uses, of the same types."""
    newest: dict[str, Csn] = {}
    for query in queries:
        for scan in scans(definition.plan):
            term = query.terms[scan.leaf]
            if isinstance(term, BaseDelta):
                newest[scan.table] = max(newest.get(scan.table, term.interval.end), term.interval.end)
    for table, csn in newest.items():
        used = definition.used_columns(table)
        if not used:
            continue
        version = moments.version(table, csn)
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
                    remedy="Change it back, or drop the view and create it again on the new type.",
                )


@contextmanager
def _naming_the_table(
    context: Context, definition: Definition, queries: tuple[Query, ...], moments: CatalogMoments
) -> Iterator[None]:
    """Turn a failure to read into an error that names the table and version."""
    try:
        yield
    except Exception as error:
        cause = (
            error.__cause__ if isinstance(error, HeadwaterError) and isinstance(error.__cause__, Exception) else error
        )
        if not is_driver_failure(cause):
            raise
        for scan in scans(definition.plan):
            for query in queries:
                term = query.terms[scan.leaf]
                interval = getattr(term, "interval", None)
                version = moments.version(scan.table, interval.end if interval else getattr(term, "at", Csn(0)))
                if moments.location(scan.table) in str(cause) or (
                    isinstance(term, BaseDelta) and _feed_fails(context, moments, scan.table, term.interval)
                ):
                    raise table_failure(cause, scan.table, version, f"reading {scan.table}") from cause
        raise


def _feed_fails(context: Context, moments: CatalogMoments, table: str, interval: Interval) -> bool:
    versions = moments.changes(table, interval).versions
    try:
        context.source.changed_rows(table, moments.location(table), [version for version, _ in versions])
    except HeadwaterError:
        return True
    return False
