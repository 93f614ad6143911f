"""CREATE and DROP MATERIALIZED VIEW.

A view comes to be in three durable steps: its place is recorded as intended, its tables are written there, and one
catalog transaction gives it its name. If anything fails before the last, the tables are removed and nothing of it is
left; if the process dies, the next CREATE or DROP in the lake finds the recorded place of a creator that no longer
lives and removes it.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from headwater.apply.clustering import kept_order
from headwater.apply.driver import view_delta_places
from headwater.apply.tables import ViewTable, create_delta_table, create_view_table, write_whole
from headwater.catalog.fencing import Lease
from headwater.catalog.records import RefreshRecord, StepRecord, ViewRecord
from headwater.context import Context, apply_lease, name_lease, propagate_lease
from headwater.definition import Definition
from headwater.drafting import Draft, check, named_views
from headwater.durable import DurablePoint
from headwater.engine.files import remove_directory
from headwater.engine.spark import CommitTag
from headwater.errors import (
    InternalError,
    InvalidInput,
    LeaseHeld,
    NameTaken,
    UnknownName,
)
from headwater.refresh import Policy
from headwater.sql.statements import CreateView
from headwater.view_options import layout_of, require_promise, settings_of


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
    if old.name in named_views(context, statement.positioned_query):
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
        leaves, method = settings_of(context, options, definition, view.csn)
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
