"""The apply driver: installs the view delta up to a csn in the view's table [Salem00 §1, Fig. 2 and 3].

One Delta commit carries the rows and the csn that they stand for. Forward or back is the same: the net effect of the
delta between the two moments is merged with its sign. Exactly once as in propagate: the step is recorded, committed
under its number, then known to the catalog; a repeat is passed over by Delta and recognised by the commit's metadata.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass

from headwater.algebra.time import Csn, Interval
from headwater.apply import timeline
from headwater.apply.tables import ViewTable, create_delta_table, write_whole
from headwater.catalog.fencing import Lease
from headwater.catalog.records import JsonObject, RefreshRecord, StepRecord, ViewRecord
from headwater.context import Context, apply_lease, propagate_lease
from headwater.definition import Definition, base_tables_of, require_kept
from headwater.durable import DurablePoint
from headwater.engine.files import directories_in, remove_directory
from headwater.engine.net_change import CountedTable, NetChange, add_net_change
from headwater.engine.spark import CommitTag, StoredCommit, Written
from headwater.errors import (
    BeyondHighWaterMark,
    ExpressionFails,
    InternalError,
    MomentBeforeHistory,
    QueryFailed,
)

_RECENT = 3  # commits among which our own is looked for first


@dataclass(frozen=True, slots=True)
class Applied:
    csn: Csn
    rows: int
    mode: str
    reason: str


def high_water_mark(context: Context, view: ViewRecord) -> Csn:
    return min(leaf.t_comp for leaf in context.catalog.leaves(view.view_id))


def apply(
    context: Context,
    name: str,
    to: Csn,
    *,
    started: float | None = None,
    never_back: bool = False,
    alternatives: JsonObject | None = None,
) -> Applied:
    """Bring the view's table to ``to``, forward or back.

    ``never_back`` leaves a view that another driver has meanwhile brought further where it is; ``alternatives`` goes
    into the story of the refresh.
    """
    started = time.monotonic() if started is None else started
    view_id = context.catalog.view(name).view_id
    with context.catalog.lease(apply_lease(view_id), ttl=context.lease_ttl, wait=context.lease_wait) as lease:
        finish_open_steps(context, lease, name, view_id)
        view = context.catalog.view(name)
        require_reachable(context, view, to)
        if to == view.csn or (never_back and to < view.csn):
            return Applied(view.csn, 0, "none", "UP_TO_DATE")
        step = context.catalog.begin_step(lease, view_id, "apply", {"from": view.csn, "to": to})
        context.reached(DurablePoint.APPLY_INTENDED)
        return _install(context, lease, view, step, started, alternatives)


def require_reachable(context: Context, view: ViewRecord, csn: Csn) -> None:
    """Raise unless the view can be had at a csn from its table and its view delta."""
    require_kept(view, csn)
    mark = high_water_mark(context, view)
    if csn > mark:
        raise BeyondHighWaterMark(
            f"View {view.name!r} is propagated up to csn {mark}; csn {csn} is beyond that.",
            remedy=f"Propagate first: lake.propagate({view.name!r}, to={csn}), or refresh, which does both.",
            view=view.name,
            high_water_mark=mark,
        )


def finish_begun(context: Context, name: str) -> Applied | None:
    """Complete what a driver that was killed, or failed, had begun, before anything else is done; a recomputation."""
    view_id = context.catalog.view(name).view_id
    if not context.catalog.open_steps(view_id, "apply"):
        return None
    with context.catalog.lease(apply_lease(view_id), ttl=context.lease_ttl, wait=context.lease_wait) as lease:
        return finish_open_steps(context, lease, name, view_id)


def finish_open_steps(context: Context, lease: Lease, name: str, view_id: str) -> Applied | None:
    """The same under the view's apply lease."""
    recomputed = None
    view = context.catalog.view(name, view_id)
    for step in context.catalog.open_steps(view.view_id, "apply"):
        if "recompute" in step.intent:
            with context.catalog.lease(
                propagate_lease(view.view_id), ttl=context.lease_ttl, wait=context.lease_wait
            ) as other:
                now = context.catalog.view(name)
                recomputed = _recompute(context, [lease, other], now, step, time.monotonic())
        else:
            _install(context, lease, context.catalog.view(name), step, time.monotonic())
    return recomputed


def _tag(view: ViewRecord, step: StepRecord, csn: Csn) -> CommitTag:
    return CommitTag(
        f"headwater:{view.view_id}:apply", step.step_id, {"step": step.step_id, "view": view.name, "csn": csn}
    )


def _install(
    context: Context,
    lease: Lease,
    view: ViewRecord,
    step: StepRecord,
    started: float,
    alternatives: JsonObject | None = None,
) -> Applied:
    began = time.monotonic()
    start, to = Csn(step.intent["from"]), Csn(step.intent["to"])
    if view.csn != start:
        raise InternalError(f"Step {step.step_id} begins at csn {start}, view {view.name} stands at {view.csn}.")
    interval, sign = (Interval(start, to), 1) if to > start else (Interval(to, start), -1)
    rows, version, mode, reason = 0, view.version, "none", "NO_CHANGES"
    if has_changed(context, view, interval):
        context.progress(f"{view.name}: applying {'+' if sign > 0 else '-'}{interval}")
        try:
            written = _write(context, view, interval, sign, _tag(view, step, to))
        except QueryFailed as error:
            if "hw_positive" in str(error.__cause__).lower() or "check constraint" in str(error.__cause__).lower():
                raise InternalError(
                    f"The view delta of {view.name} over {interval} would take away rows that are not there.",
                    remedy="Please report this; the view's table is unchanged.",
                ) from error
            raise
        rows, version = (written.rows, written.version) if written else (0, _committed_version(context, view, step))
        unchanged = version == view.version or (written is not None and written.rows == 0)
        mode, reason = "incremental", "NO_NET_CHANGE" if unchanged else "CHANGES_APPLIED"
    context.reached(DurablePoint.APPLY_COMMITTED)
    context.catalog.finish_apply(
        lease,
        step.step_id,
        csn=to,
        version=version,
        outcome={"rows": rows, **context.timed("apply", began)},
        refresh=_story(context, view, to, mode, reason, rows, started, alternatives),
    )
    context.reached(DurablePoint.APPLY_RECORDED)
    return Applied(to, rows, mode, reason)


def _write(context: Context, view: ViewRecord, interval: Interval, sign: int, tag: CommitTag) -> Written | None:
    """Install the net effect of the view delta, in whichever way takes least."""
    if view.layout == "timeline":
        return timeline.install(context, view, interval, sign, tag)
    key = next((name for name, _ in view.stored if name in view.cluster_by[:1]), None)
    table = CountedTable(view.location, view.version, view.delta_location, view.stored, key)
    change = NetChange(interval, sign, tag, f"applying {interval} to {view.name}")
    sizes = context.sizes
    return add_net_change(context.engine, table, change, small=sizes.small_view, scattered=sizes.scattered)


def has_changed(context: Context, view: ViewRecord, interval: Interval) -> bool:
    """Whether any base table changed between the two moments; if none did, neither did the view.

    A table that was begun anew counts as changed at that csn, and before it as far as its changes were numbered.
    """
    tables = base_tables_of(context.catalog, Definition.load(view))
    return any(context.catalog.units(table, interval.start, interval.end) for table in tables)


def _committed_version(context: Context, view: ViewRecord, step: StepRecord) -> int:
    """The version of this step's commit; the view's present one if the net change was empty and Delta made none."""
    commit = _commit_of(context, view, step)
    return view.version if commit is None else commit.version


def _commit_of(context: Context, view: ViewRecord, step: StepRecord) -> StoredCommit | None:
    """The commit that this step has made to the view's table since the view's present version."""
    for limit in (_RECENT, None):
        commits = context.engine.history(view.location, limit)
        for commit in commits:
            if commit.facts.get("step") == step.step_id:
                return commit
        if commits[-1].version <= view.version:
            break
    return None


def _story(
    context: Context,
    view: ViewRecord,
    csn: Csn,
    mode: str,
    reason: str,
    rows: int,
    started: float,
    alternatives: JsonObject | None,
) -> RefreshRecord:
    return RefreshRecord(
        view_id=view.view_id,
        view_name=view.name,
        from_csn=view.csn,
        csn=csn,
        mode=mode,
        reason=reason,
        rows=rows,
        seconds=time.monotonic() - started,
        finished_at=context.clock(),
        alternatives=alternatives,
    )


# ---------------------------------------------------------------------- from scratch


def recompute(
    context: Context,
    name: str,
    csn: Csn,
    reason: str,
    *,
    started: float,
    never_back: bool = False,
    alternatives: JsonObject | None = None,
) -> Applied:
    """Bring the view to a csn from its tables; its past before that can't be had any more. ``never_back`` as in
    ``apply``."""
    view_id = context.catalog.view(name).view_id
    with (
        context.catalog.lease(apply_lease(view_id), ttl=context.lease_ttl, wait=context.lease_wait) as lease,
        context.catalog.lease(propagate_lease(view_id), ttl=context.lease_ttl, wait=context.lease_wait) as other,
    ):
        view = context.catalog.view(name, view_id)
        if never_back and csn < view.csn:
            return Applied(view.csn, 0, "none", "UP_TO_DATE")
        if not view.from_scratch:
            for leaf in context.catalog.leaves(view_id):
                context.catalog.require_logged(leaf.table, csn)  # its changes from there on are wanted next
        for below in Definition.load(view).views:
            require_reachable(context, context.catalog.view(below), csn)
        place = view.delta_location if _delta_goes_on(context, view, csn) else None
        intent = {"recompute": csn, "reason": reason, "delta": place}
        step = context.catalog.begin_step([lease, other], view_id, "apply", intent)
        context.reached(DurablePoint.APPLY_INTENDED)
        return _recompute(context, [lease, other], view, step, started, alternatives)


def stay(context: Context, name: str, csn: Csn, *, started: float) -> Applied:
    """Bring a view that is recomputed to a later csn up to which none of its tables changed: its rows are the same."""
    view_id = context.catalog.view(name).view_id
    with (
        context.catalog.lease(apply_lease(view_id), ttl=context.lease_ttl, wait=context.lease_wait) as lease,
        context.catalog.lease(propagate_lease(view_id), ttl=context.lease_ttl, wait=context.lease_wait) as other,
    ):
        view = context.catalog.view(name, view_id)
        if csn <= view.csn or has_changed(context, view, Interval(view.csn, csn)):  # somebody has brought it elsewhere
            return Applied(view.csn, 0, "none", "UP_TO_DATE")
        intent = {"recompute": csn, "reason": "NO_CHANGES", "delta": view.delta_location}
        step = context.catalog.begin_step([lease, other], view_id, "apply", intent)
        context.catalog.reset_view(
            [lease, other],
            view_id,
            step.step_id,
            csn=csn,
            version=view.version,
            delta_location=view.delta_location,
            outcome={"rows": 0},
            refresh=_story(context, view, csn, "none", "NO_CHANGES", 0, started, None),
        )
    return Applied(csn, 0, "none", "NO_CHANGES")


def _delta_goes_on(context: Context, view: ViewRecord, csn: Csn) -> bool:
    """Whether nothing in the view delta is of csns beyond, of no leaf, so that what follows can be added to it."""
    if view.problem is not None or view.method != "frontier":
        return False
    behind = all(leaf.time <= csn for leaf in context.catalog.leaves(view.view_id))
    return behind and not context.catalog.open_steps(view.view_id, "propagate")


def _recompute(
    context: Context,
    leases: list[Lease],
    view: ViewRecord,
    step: StepRecord,
    started: float,
    alternatives: JsonObject | None = None,
) -> Applied:
    began = time.monotonic()
    csn = Csn(step.intent["recompute"])
    definition = Definition.load(view)
    if definition.recomputed is not None and view.hidden:
        view = _without_hidden_columns(context, leases, view, definition)
    context.progress(f"{view.name}: recomputing at csn {csn}")
    delta_location = step.intent.get("delta")
    # Of a step that was left open, somebody may have propagated beyond it meanwhile.
    if delta_location is None or not _delta_goes_on(context, view, csn):
        delta_location = context.place("deltas", f"{view.name}-{step.step_id}", view.view_id)
        remove_directory(delta_location)  # what an earlier try left
        create_delta_table(context, delta_location, view.stored)
    table = ViewTable(view.location, view.stored, view.cluster_by, view.layout)
    rows_before = context.engine.rows_in(view.location, view.version) if view.cluster_by else 0
    tag, doing = _tag(view, step, csn), f"recomputing {view.name}"
    try:
        written = write_whole(context, definition, table, csn, tag, doing, rows=rows_before, anew=True)
    except (ExpressionFails, MomentBeforeHistory) as error:
        # The tables have no answer at this csn and never will, or a view below was recomputed since the step began and
        # has none any more. If it was not given before, the next refresh is to another.
        commit = _commit_of(context, view, step)
        if commit is None:
            context.catalog.finish_step(leases, step.step_id, {"failed": error.as_dict()})
            raise
        written = Written(commit.version, commit.rows, commit.facts)
    rows, version = (written.rows, written.version) if written else (0, view.version)
    context.reached(DurablePoint.APPLY_COMMITTED)
    context.catalog.reset_view(
        leases,
        view.view_id,
        step.step_id,
        csn=csn,
        version=version,
        delta_location=delta_location,
        outcome={"rows": rows, **context.timed("recompute", began)},
        refresh=_story(context, view, csn, "full", str(step.intent["reason"]), rows, started, alternatives),
    )
    context.reached(DurablePoint.APPLY_RECORDED)
    remove_past_deltas(context, context.catalog.view(view.name), context.catalog.released_deltas(view.view_id))
    return Applied(csn, rows, "full", str(step.intent["reason"]))


def _without_hidden_columns(
    context: Context, leases: list[Lease], view: ViewRecord, definition: Definition
) -> ViewRecord:
    """A view that was kept incrementally and no longer is: from now on nobody writes, or reads, what it carried."""
    leaves = context.catalog.leaves(view.view_id)
    context.catalog.alter_view(
        leases, view.view_id, options=view.options, leaves=leaves, definition=definition.as_json()
    )
    return context.catalog.view(view.name)


def view_delta_places(context: Context, view: ViewRecord) -> list[str]:
    """Where the view's delta is, and where it was or was to be: a recomputation that is cut short leaves a second."""
    parent, _, first = context.place("deltas", view.name, view.view_id).rpartition("/")
    tail = first.removeprefix(view.name)
    found = directories_in(parent)
    return [f"{parent}/{name}" for name in found if name.startswith(f"{view.name}-") and name.endswith(tail)]


def remove_past_deltas(context: Context, view: ViewRecord, kept: Collection[str]) -> None:
    """Remove the view deltas of before a recomputation but those at ``kept``, by which releases can still be read."""
    for place in view_delta_places(context, view):
        if place != view.delta_location and place not in kept:
            remove_directory(place)
