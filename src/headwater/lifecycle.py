"""CREATE and DROP MATERIALIZED VIEW.

A view comes to be in three durable steps: its place is recorded as intended, its tables are written there, and one
catalog transaction gives it its name. If anything fails before the last, the tables are removed and nothing of it is
left; if the process dies, the next CREATE or DROP in the lake finds the recorded place of a creator that no longer
lives and removes it.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from headwater.algebra.plan import LeafId, scans
from headwater.algebra.query import CsnRule, Query, Snapshot
from headwater.algebra.time import Csn
from headwater.apply.clustering import kept_order
from headwater.apply.driver import view_delta_places
from headwater.apply.tables import ViewTable, create_delta_table, create_view_table, write_whole
from headwater.calibration import timed_capture
from headwater.capture.driver import capture
from headwater.catalog.fencing import Lease
from headwater.catalog.records import Columns, Layout, LeafRecord, Method, RefreshRecord, StepRecord, ViewRecord
from headwater.context import Context, apply_lease, name_lease, propagate_lease
from headwater.definition import CatalogMoments, Definition, TableUse, ViewRelations
from headwater.durable import DurablePoint
from headwater.engine.analysis import (
    printed,
    require_fields_apart,
    require_same_names,
    require_same_reading,
    require_same_schema,
    require_storable,
    require_unpadded,
)
from headwater.engine.failures import reading_table, translated
from headwater.engine.files import remove_directory
from headwater.engine.judging import judge
from headwater.engine.second_reading import require_same_answer
from headwater.engine.spark import CommitTag
from headwater.errors import (
    InternalError,
    InvalidInput,
    LeaseHeld,
    NameTaken,
    SqlAnalysisError,
    SqlProblem,
    SqlSyntaxError,
    UnknownName,
    UnsupportedSql,
)
from headwater.later_columns import require_columns_that_stay, require_no_later_columns
from headwater.measured import gather, require_feasible
from headwater.pinning import table_rows
from headwater.propagate.choosing import Wanted
from headwater.propagate.driver import require_captured
from headwater.propagate.states import require_askable, typed_states
from headwater.refresh import Policy, bring_below
from headwater.schedule.service_level import OPTIONS as SERVICE_OPTIONS
from headwater.schedule.service_level import POLICIES, ServiceLevel
from headwater.serve.chunks import wanted_chunk
from headwater.sql.constructs import RECOMPUTABLE, refuse
from headwater.sql.dialect import parse, quoted, subquery, to_text
from headwater.sql.expressions import Expressions
from headwater.sql.lower import lower, require_tables_known
from headwater.sql.render import named_state, view_delta_sql
from headwater.sql.statements import CreateView
from headwater.sql.storage import over_relations, table_at

METHODS: dict[str, Method] = {"frontier": "frontier", "propagate": "propagate", "rolling": "rolling"}
OPTIONS = frozenset({"chunk_size", "layout", "method", "refresh", "strategy", "width", *SERVICE_OPTIONS})
LAYOUTS: dict[str, Layout] = {"current": "current", "timeline": "timeline"}
_REFUSED_BY_SPARK_TOO = frozenset({"UNION_BY_NAME", "TIME_TRAVEL", "PARAMETER", "NONDETERMINISTIC"})
_CAPTURES = 2
_WIDTH = re.compile(r"(\d+)\s*(rows?|csns?)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Draft:
    """A view that passed every check and is not yet made."""

    definition: Definition
    columns: tuple[tuple[str, str], ...]
    csn: Csn
    leaves: tuple[LeafRecord, ...]
    method: Method
    layout: Layout = "current"


def create(context: Context, statement: CreateView) -> ViewRecord | None:
    """Make the view; None when it was there and IF NOT EXISTS was said."""
    with context.catalog.lease(name_lease(statement.name), ttl=context.lease_ttl, wait=context.lease_wait) as lease:
        there = next((v for v in context.catalog.views() if v.name.lower() == statement.name.lower()), None)
        if there is not None and not statement.or_replace:
            if statement.if_not_exists:
                return None
            raise NameTaken(
                f"There is a view {statement.name!r} already.",
                remedy="Drop it first, choose another name, or say OR REPLACE or IF NOT EXISTS.",
                name=statement.name,
            )
        if statement.name.lower() in {table.name.lower() for table in context.catalog.base_tables()}:
            raise NameTaken(
                f"{statement.name!r} is a tracked table.", remedy="Choose another name.", name=statement.name
            )
        remove_orphans(context, holding=lease)
        context.progress(f"{statement.name}: checking")
        if there is not None:
            return _replace(context, lease, there, statement)
        draft = check(context, statement)
        require_promise(context, statement.options, None, statement.name)
        return _make(context, [lease], statement, draft)


def _replace(context: Context, lease: Lease, old: ViewRecord, statement: CreateView) -> ViewRecord:
    """CREATE OR REPLACE: a text that means the same, with the same storage, keeps what is stored."""
    if old.name in _named_views(context, statement.positioned_query):
        raise InvalidInput(f"View {old.name!r} would read itself.", remedy="Choose another name for the new view.")
    with (
        context.catalog.lease(apply_lease(old.view_id), ttl=context.lease_ttl, wait=context.lease_wait) as applying,
        context.catalog.lease(propagate_lease(old.view_id), ttl=context.lease_ttl, wait=context.lease_wait) as other,
    ):
        draft = check(context, statement)
        stored = (old.columns, old.cluster_by, old.method, old.layout)
        wanted = (draft.columns, statement.cluster_by or old.cluster_by, draft.method, draft.layout)
        new = draft.definition
        if stored == wanted:
            new = new.stored_with(old.columns, old.hidden)
        same = stored == wanted and Definition.load(old).means(new)
        require_promise(context, statement.options, old if same else None, old.name)
        if same:
            context.catalog.alter_view(
                [applying, other],
                old.view_id,
                options=dict(statement.options),
                leaves=draft.leaves,
                sql=new.text,
                definition=new.as_json(),
            )
            return context.catalog.view(old.name)
        users = context.catalog.users_of(old.name)
        if users:
            raise InvalidInput(
                f"View {old.name!r} is read by {', '.join(users)}, and the new text means something else.",
                remedy="Drop these views first, or create the new one under another name.",
            )
        return _make(context, [lease, applying, other], statement, draft, replacing=old)


def alter(context: Context, name: str, changed: Mapping[str, str]) -> ViewRecord:
    """ALTER MATERIALIZED VIEW ... SET OPTIONS: nothing stored changes."""
    view = context.catalog.view(name)
    with (
        context.catalog.lease(apply_lease(view.view_id), ttl=context.lease_ttl, wait=context.lease_wait) as lease,
        context.catalog.lease(propagate_lease(view.view_id), ttl=context.lease_ttl, wait=context.lease_wait) as other,
    ):
        view = context.catalog.view(name, view.view_id)
        definition = Definition.load(view)
        options = {**view.options, **changed}
        leaves, method = _settings(context, options, definition, view.csn)
        policy, before = Policy.of(options), Policy.of(view.options)
        kept = (view.method, view.layout, before is Policy.FULL)
        if (method, layout_of(options), policy is Policy.FULL) != kept:
            raise InvalidInput(
                "How a view is kept is part of what is stored.", remedy="Use CREATE OR REPLACE MATERIALIZED VIEW."
            )
        if definition.recomputed is not None and not policy.may_recompute:
            raise InvalidInput(
                f"View {name!r} can't be kept incrementally ({definition.recomputed}).",
                remedy="Leave its policy at auto, or write its text with what docs/sql.md lists.",
                code=definition.recomputed,
            )
        require_promise(context, options, view, name)
        context.catalog.alter_view([lease, other], view.view_id, options=options, leaves=leaves)
    return context.catalog.view(name)


def require_promise(context: Context, options: Mapping[str, str], view: ViewRecord | None, name: str) -> None:
    """Refuse a response time that can't be kept; None is a view that was never measured."""
    level = ServiceLevel.of(options)
    if level.response_time is None:
        return
    for _ in range(_CAPTURES):  # the first of a process says little
        if context.catalog.cheapest_seconds("capture") is None:
            timed_capture(context)
    if view is not None:
        gather(context.catalog, view)
    require_feasible(context.catalog, level, view, name)


def check(context: Context, statement: CreateView) -> Draft:
    """Everything that can be wrong with a CREATE, without making anything."""
    csn = capture(context).csn
    with typed_states(context, csn):
        return _checked(context, statement, csn)


def _checked(context: Context, statement: CreateView, csn: Csn) -> Draft:
    text, positioned = statement.query, statement.positioned_query
    policy = Policy.of(statement.options)
    tables = _tables_at(context, positioned, csn)
    views = _views_at(context, positioned, csn)
    names = {name: tuple(column for column, _ in columns) for name, columns in {**tables, **views}.items()}
    relations = _relations_at(context, tables, views, csn)
    try:
        columns = _analyse(context, positioned, relations, names)
    except SqlAnalysisError as error:
        if "UNRESOLVED_COLUMN" in str(error):
            require_no_later_columns(context, tables, csn)
        raise
    require_storable(columns, text)
    functions = context.engine.builtin_functions()
    definition: Definition | None = None
    try:
        definition = _incremental(context, statement, tables, views, relations, columns, functions, csn)
        reason = "POLICY_FULL" if policy is Policy.FULL else None
    except UnsupportedSql as refusal:
        if not policy.may_recompute or refusal.code not in RECOMPUTABLE:
            raise
        reason = refusal.code
    if reason is not None:
        require_tables_known(positioned, names)
        Expressions(positioned, functions).require_deterministic(parse(positioned))
        used = {} if definition is None else {**definition.tables, **definition.views}
        whole = [
            {name: used.get(name) or TableUse(found[name], names[name]) for name in found} for found in (tables, views)
        ]
        definition = Definition.from_scratch(text, whole[0], whole[1], context.engine.meaning(), reason)
    if definition is None:
        raise InternalError("A view is kept by its changes, or recomputed for a reason.")
    require_captured(context, definition)
    require_columns_that_stay(context, definition, csn)
    output = [name for name, _ in columns]
    unknown = [name for name in statement.cluster_by if name not in output]
    if unknown:
        raise InvalidInput(
            f"CLUSTER BY names {', '.join(unknown)}, which the view does not have.",
            remedy=f"Choose among {', '.join(output)}.",
        )
    leaves, method = _settings(context, statement.options, definition, csn)
    require_askable(context, definition, method)
    return Draft(definition, columns, csn, leaves, method, layout_of(statement.options))


def _incremental(
    context: Context,
    statement: CreateView,
    tables: Mapping[str, Columns],
    views: Mapping[str, Columns],
    relations: Mapping[str, exp.Query],
    columns: Columns,
    functions: frozenset[str],
    csn: Csn,
) -> Definition:
    """The definition of a view that is kept incrementally, or the reason why it can't be."""
    text, positioned = statement.query, statement.positioned_query
    names = {name: tuple(column for column, _ in found) for name, found in {**tables, **views}.items()}
    for name in views:
        if Definition.load(context.catalog.view(name)).recomputed is not None:
            raise refuse("VIEW_ON_RECOMPUTED", name, None, text)
    try:
        lowered = lower(positioned, names, functions=functions)
    except (ValueError, KeyError, IndexError) as error:
        raise refuse("OTHER", f"a text that can't be followed ({error})", None, text) from error
    require_same_names([name for name, _ in columns], lowered.names, text)
    _require_unpadded(context, lowered.mentioned, {**tables, **views}, relations, text)
    own, reread = over_relations(text, relations), over_relations(printed(text), relations)
    require_same_reading(context.engine, text, own, reread)
    definition = Definition.of(text, lowered, tables, views, context.engine.meaning())
    return _require_computable(context, definition, columns, csn)


def _require_unpadded(
    context: Context,
    mentioned: Mapping[str, Sequence[str]],
    columns: Mapping[str, Columns],
    relations: Mapping[str, exp.Query],
    text: str,
) -> None:
    """Refuse a text that names a column of type CHAR; only Spark's analysis tells that from other text."""
    for name, used in mentioned.items():
        if any("string" in kind for column, kind in columns[name] if column in used):
            items = [quoted(column) for column in used]
            rows = exp.select(*items).from_(subquery(relations[name].copy(), "q"))
            require_unpadded(context.engine.query(to_text(rows)).schema, text)


def _require_computable(
    context: Context, definition: Definition, columns: tuple[tuple[str, str], ...], csn: Csn
) -> Definition:
    """The lowered plan must give the view's columns; the definition with what Spark's types say of its nodes."""
    sources = CatalogMoments(context.catalog, definition).sources(csn)
    everything = Query(definition.plan, tuple(Snapshot(csn) for _ in scans(definition.plan)), CsnRule.LATEST)
    with translated("checking the plan"):
        frame = context.engine.query(view_delta_sql([everything], [name for name, _ in columns], sources))
        require_same_schema(columns, context.engine.columns(frame)[: len(columns)])
        judgement = judge(context.engine, definition.plan, definition.nodes, csn, sources, definition.text)
        judged = definition.judge(*judgement)
        uses = {name: use.columns for name, use in {**definition.tables, **definition.views}.items()}
        require_same_answer(
            context.engine, definition.text, judged.plan, judged.nodes, columns, uses, ties=judged.breaks_ties
        )
        return _with_hidden_columns(context, judged, columns, csn)


def _with_hidden_columns(context: Context, definition: Definition, columns: Columns, csn: Csn) -> Definition:
    """The definition with what it stores beside the public columns, where it can carry its state."""
    names = [name for name, _ in columns]
    wider = definition.carrying(names)
    if wider.carried is None:
        return definition
    names += wider.carried.hidden
    sources = CatalogMoments(context.catalog, wider).sources(csn)
    found = context.engine.columns(context.engine.query(to_text(named_state(wider.plan, names, csn, sources))))
    require_same_schema(columns, found[: len(columns)])
    hidden = found[len(columns) :]
    return replace(wider, hidden=hidden) if wider.stored_in(columns, hidden) else definition


def _named(text: str) -> set[str]:
    return {table.name.lower() for table in parse(text).find_all(exp.Table)}


def _tables_at(context: Context, text: str, csn: Csn) -> dict[str, tuple[tuple[str, str], ...]]:
    """The tracked tables that a text names, with their columns as they are at a csn."""
    tracked = {table.name.lower(): table for table in context.catalog.base_tables()}
    found = {}
    for name in sorted(_named(text) & tracked.keys()):
        table = tracked[name]
        version = context.catalog.version_at(table.name, csn)
        if context.catalog.mirror(table.name) is not None:
            found[table.name] = table.columns
            continue
        with reading_table(table.name, version, f"reading the columns of {table.name}"):
            frame = context.engine.query(to_text(table_at(table.location, version)))
            found[table.name] = context.engine.columns(frame)
    return found


def _named_views(context: Context, text: str) -> dict[str, Columns]:
    """The views that a text names, with their columns."""
    named = _named(text)
    return {view.name: view.columns for view in context.catalog.views() if view.name.lower() in named}


def _views_at(context: Context, text: str, csn: Csn) -> dict[str, Columns]:
    """The views that a text names, brought to a csn."""
    found = _named_views(context, text)
    uses = {name: TableUse(columns, ()) for name, columns in found.items()}
    if uses:
        bring_below(context, Definition.from_scratch(text, {}, uses, {}, "CREATE"), csn)
    return found


def _relations_at(context: Context, tables: Iterable[str], views: Iterable[str], csn: Csn) -> dict[str, exp.Query]:
    """Tables and views as they are at a csn, by name."""
    relations: dict[str, exp.Query] = {name: table_rows(context.catalog, name, csn) for name in tables}
    below = ViewRelations(context.catalog, views)
    return relations | {name: below.state(name, csn) for name in views}


def _analyse(
    context: Context, positioned: str, relations: Mapping[str, exp.Query], names: Mapping[str, tuple[str, ...]]
) -> tuple[tuple[str, str], ...]:
    """Spark's names and types for the text; its errors with their place in the user's statement."""
    try:
        frame = context.engine.user_query(over_relations(positioned, relations))
    except (SqlAnalysisError, SqlSyntaxError) as error:
        if any(sign in str(error) for sign in ("TABLE_OR_VIEW_NOT_FOUND", "PATH_NOT_FOUND", "DELTA_TABLE_NOT_FOUND")):
            # Say it as lowering does: with the names that are known, and where.
            known = dict(names)
            for table in context.catalog.base_tables():
                known.setdefault(table.name, tuple(column for column, _ in table.columns))
            for view in context.catalog.views():
                known.setdefault(view.name, tuple(column for column, _ in view.columns))
            lower(positioned, known, functions=None)
        # A name that nobody knows is Spark's to explain: it tells the likely ones.
        if "UNRESOLVED_COLUMN" not in str(error):
            _refuse_by_code(positioned, names)
        if error.line is not None and relations:
            raise type(error)(
                error.message.rsplit(" (line", 1)[0],
                line=error.line - 1,  # the names are bound in a line of ours before the text
                column=error.column,
                remedy=error.remedy,
            ) from error
        raise
    require_fields_apart(frame.schema, positioned)
    return context.engine.columns(frame)


def _refuse_by_code(positioned: str, names: Mapping[str, tuple[str, ...]]) -> None:
    """Some constructs Spark refuses too, in its own words; ours have a code, a place and a way out."""
    try:
        lower(positioned, names, functions=None)
    except UnsupportedSql as refusal:
        if refusal.code in _REFUSED_BY_SPARK_TOO:
            raise
    except (SqlProblem, ValueError, LookupError):  # lowering expects a text that Spark has accepted
        pass


def _settings(
    context: Context, options: Mapping[str, str], definition: Definition, csn: Csn
) -> tuple[tuple[LeafRecord, ...], Method]:
    """The options that are ours: ``width``, ``width.<leaf>`` and ``method``; of the others that they are known."""
    aliases = {scan.alias.lower() for scan in definition.leaves}
    for key in options:
        known = key in OPTIONS or (key.startswith("width.") and key[6:] in aliases)
        if not known:
            raise InvalidInput(
                f"Unknown option {key!r}.",
                remedy=f"Options are refresh ({', '.join(each.value for each in Policy)}), method "
                f"({', '.join(METHODS)}), strategy ({', '.join(each.value for each in Wanted)}), "
                f"layout ({', '.join(LAYOUTS)}), chunk_size ('10000' or 'auto'), "
                "width and width.<leaf> ('1000 rows' or '5 csn'), response_time and "
                f"max_staleness ('10s'), policy ({', '.join(POLICIES)}), priority; "
                f"leaves are {', '.join(sorted(aliases))}.",
            )
    wanted_chunk(options)
    ServiceLevel.of(options)
    live = [name for name in definition.tables if context.catalog.base_table(name).mode == "live"]
    wanted_method = options.get("method", "rolling" if live else "frontier").lower()
    if wanted_method not in METHODS:
        raise InvalidInput(f"Unknown method {wanted_method!r}.", remedy=f"Use one of {', '.join(METHODS)}.")
    method = METHODS[wanted_method]
    Wanted.of(options)
    if method != "frontier" and "strategy" in options:
        raise InvalidInput(
            f"Method {wanted_method!r} has no strategies.", remedy="Leave the method or the strategy out."
        )
    if method != "frontier" and (definition.nodes or definition.views):
        raise InvalidInput(
            f"Method {wanted_method!r} is for select-project-join over tables"
            + (f", and {', '.join(live)} is tracked as live." if live else "."),
            remedy="Leave the method out" + (", and track the table as versioned." if live else "."),
        )
    if live and method == "frontier":
        raise InvalidInput(
            f"Method 'frontier' reads the past, and {', '.join(live)} is tracked as live.",
            remedy="Leave the method out, or track the table as versioned.",
        )
    records = []
    for number, scan in enumerate(definition.leaves):
        wanted = options.get(f"width.{scan.alias.lower()}", options.get("width"))
        kind, value = parse_width(wanted) if wanted is not None else (None, None)
        records.append(LeafRecord(LeafId(number), scan.alias, scan.table, csn, csn, kind, value))
    return tuple(records), method


def layout_of(options: Mapping[str, str]) -> Layout:
    """The option ``layout``: how the view's table holds it."""
    wanted = options.get("layout", "current").lower()
    if wanted not in LAYOUTS:
        raise InvalidInput(f"Unknown layout {wanted!r}.", remedy=f"Use one of {', '.join(LAYOUTS)}.")
    return LAYOUTS[wanted]


def parse_width(text: str) -> tuple[str, int]:
    found = _WIDTH.fullmatch(text.strip())
    if found is None or int(found[1]) < 1:
        raise InvalidInput(f"{text!r} is not a width.", remedy="Say '1000 rows' or '5 csn'.")
    return ("rows" if found[2].lower().startswith("row") else "csn"), int(found[1])


def _make(
    context: Context,
    leases: list[Lease],
    statement: CreateView,
    draft: Draft,
    *,
    replacing: ViewRecord | None = None,
) -> ViewRecord:
    lease = leases[0]
    view_id = uuid.uuid4().hex
    location = context.place("views", statement.name, view_id)
    delta_location = context.place("deltas", statement.name, view_id)
    intent = {"name": statement.name, "locations": [location, delta_location]}
    step = context.catalog.begin_step(lease, view_id, "create", intent)
    context.reached(DurablePoint.CREATE_INTENDED)
    try:
        context.progress(f"{statement.name}: computing at csn {draft.csn}")
        stored = (*draft.columns, *draft.definition.hidden)
        cluster_by, rows = kept_order(context, draft.definition, draft.columns, statement.cluster_by)
        table = ViewTable(location, stored, cluster_by, draft.layout)
        create_view_table(context, table)
        create_delta_table(context, delta_location, stored)
        facts = {"step": step.step_id, "view": statement.name, "csn": draft.csn}
        tag = CommitTag(f"headwater:{view_id}:apply", step.step_id, facts)
        began = time.monotonic()
        doing = f"computing {statement.name}"
        written = write_whole(context, draft.definition, table, draft.csn, tag, doing, rows=rows)
        seconds = time.monotonic() - began
        if written is None:
            raise InternalError(f"The first commit of {statement.name} is not in its table.")
        context.reached(DurablePoint.CREATE_STORED)
        view = ViewRecord(
            name=statement.name,
            view_id=view_id,
            sql=draft.definition.text,
            definition=draft.definition.as_json(),
            columns=draft.columns,
            options=dict(statement.options),
            cluster_by=cluster_by,
            location=location,
            delta_location=delta_location,
            created_csn=draft.csn,
            csn=draft.csn,
            version=written.version,
            kept_from=draft.csn,
            method=draft.method,
            created_at=context.clock(),
            last_mode="full",
            last_reason=draft.definition.recomputed or "CREATED",
        )
        gone = (replacing.view_id, _remains(context, replacing)) if replacing is not None else None
        story = RefreshRecord(
            view_id=view_id,
            view_name=statement.name,
            from_csn=draft.csn,
            csn=draft.csn,
            mode="full",
            reason=view.last_reason,
            rows=written.rows,
            seconds=seconds,
            finished_at=context.clock(),
        )
        dropping = context.catalog.insert_view(
            leases, view, draft.leaves, step_id=step.step_id, replacing=gone, refresh=story
        )
    except BaseException:
        _discard(context, lease, step)
        raise
    context.reached(DurablePoint.CREATE_RECORDED)
    if dropping is not None:
        _discard(context, leases[1], dropping)
    return view


def _remains(context: Context, view: ViewRecord) -> dict[str, Any]:
    """What of a view is to be removed once it is forgotten."""
    places = {view.location, view.delta_location, *view_delta_places(context, view)}
    return {"name": view.name, "locations": sorted(places)}


def _discard(context: Context, lease: Lease, step: StepRecord) -> None:
    """Remove the tables of a creation that did not come to its end, or of a view that is dropped."""
    removed = [remove_directory(location) for location in step.intent["locations"]]
    if all(removed):
        context.catalog.finish_step(lease, step.step_id, {"discarded": True})


def remove_orphans(context: Context, *, holding: Lease | None = None) -> None:
    """Remove what creators and droppers that no longer live have left; ``holding`` is a lease of our own."""
    context.engine.staging.sweep(context.clock() / 1e6)
    for step in [*context.catalog.open_steps(driver="create"), *context.catalog.open_steps(driver="drop")]:
        held = name_lease(str(step.intent["name"])) if step.driver == "create" else apply_lease(step.view_id)
        if holding is not None and holding.resource == held:
            _discard(context, holding, step)
            continue
        with suppress(LeaseHeld), context.catalog.lease(held, ttl=context.lease_ttl) as lease:
            # Its driver may have come to its end since the list was read; without its lease it no longer can.
            if context.catalog.step(step.step_id).state == "intended":
                _discard(context, lease, step)


def drop(context: Context, name: str, *, if_exists: bool) -> bool:
    """Forget the view, then remove its tables; False when there was none and IF EXISTS was said."""
    remove_orphans(context)
    try:
        view = context.catalog.view(name)
    except UnknownName:
        if if_exists:
            return False
        raise
    with (
        context.catalog.lease(apply_lease(view.view_id), ttl=context.lease_ttl, wait=context.lease_wait) as lease,
        context.catalog.lease(propagate_lease(view.view_id), ttl=context.lease_ttl, wait=context.lease_wait) as other,
    ):
        view = context.catalog.view(name, view.view_id)
        step = context.catalog.begin_drop([lease, other], view.view_id, _remains(context, view))
        context.reached(DurablePoint.DROP_FORGOTTEN)
        _discard(context, lease, step)
        context.reached(DurablePoint.DROP_REMOVED)
    return True
