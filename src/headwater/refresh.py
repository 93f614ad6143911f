"""Bringing a view to a moment: incrementally, or from scratch where that is what its definition or its policy says.

``OPTIONS (refresh = ...)`` is the policy:

- without it: incremental wherever the text allows; a text that can't be kept incrementally is recomputed, which
  CREATE, explain and every refresh say with its reason code.
- ``auto``: the same, and where recomputing is expected to take less time than the changes (``headwater.choice``), it
  is done instead. The view can then no longer be brought to a moment before; a view that others read is kept.
- ``incremental``: CREATE refuses a text that can't be kept incrementally.
- ``strict``: as incremental, and a refresh fails rather than recompute, whatever happened to the tables.
- ``full``: every refresh recomputes.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import Enum

from headwater.algebra.time import Csn, Interval
from headwater.apply.driver import (
    Applied,
    apply,
    finish_begun,
    has_changed,
    high_water_mark,
    recompute,
    require_reachable,
    stay,
)
from headwater.capture.driver import Captured, capture
from headwater.catalog.records import JsonObject, RefreshRecord, ViewRecord
from headwater.choice import FULL, INCREMENTAL, TOUCHED_KEYS, Choice, Sample, Workload, choose
from headwater.context import Context
from headwater.definition import CatalogMoments, Definition, base_tables_of
from headwater.errors import OF_THE_LAKE, ExpressionFails, HeadwaterError, InvalidInput, WouldRecompute
from headwater.propagate.driver import propagate, require_captured
from headwater.propagate.sharing import together
from headwater.serve.chunks import AUTO, chunk_ends, updates_of, wanted_chunk
from headwater.serve.freshness import advised_chunk
from headwater.values import RefreshReport, RefreshRound

_SAMPLES = 20  # refreshes of the past that a choice looks at


class Policy(Enum):
    DEFAULT = "default"
    AUTO = "auto"
    INCREMENTAL = "incremental"
    STRICT = "strict"
    FULL = "full"

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Policy:
        wanted = options.get("refresh", cls.DEFAULT.value).lower()
        try:
            return cls(wanted)
        except ValueError:
            raise InvalidInput(
                f"Unknown refresh policy {wanted!r}.", remedy=f"Use one of {', '.join(each.value for each in cls)}."
            ) from None

    @property
    def may_recompute(self) -> bool:
        """Whether a text that can't be kept incrementally is accepted."""
        return self in (Policy.DEFAULT, Policy.AUTO, Policy.FULL)


def refresh(
    context: Context, name: str, to: Csn | None, *, captured: Captured | None = None, never_back: bool = False
) -> RefreshReport:
    """Bring the view to a csn; None is the newest state of its tables, and then a view never goes back.

    Nor does it with ``never_back``, for who only wants it to be as far. A view with a ``chunk_size`` goes there in
    several view updates, and the report tells of all of them. ``captured`` is what a capture just found, for who has
    made one.
    """
    never_back = never_back or to is None
    started = time.monotonic()
    before = context.catalog.view(name)
    target = _newest(context, Definition.load(before), captured) if to is None else to
    begun, rows = started, 0
    for stop in _stops(context, before, target)[:-1]:
        rows += _refresh_once(context, name, stop, begun, never_back=True).rows
        begun = time.monotonic()
    last = _refresh_once(context, name, target, begun, never_back=never_back)
    return replace(last, from_csn=before.csn, rows=rows + last.rows, seconds=time.monotonic() - started)


def refresh_together(context: Context, names: Sequence[str], to: Csn | None) -> RefreshRound:
    """Bring views to one csn in a round, None being the newest; one that fails leaves the others to go on."""
    captured = None if to is not None else capture(context)
    csn = captured.csn if captured is not None else Csn(to or 0)
    reports, failed = [], {}
    with together(context, names, csn) as shared:
        for name in names:
            try:
                reports.append(refresh(shared, name, to, captured=captured))
            except OF_THE_LAKE:
                raise
            except HeadwaterError as error:
                failed[name] = error
    return RefreshRound(csn, tuple(reports), failed)


def _stops(context: Context, view: ViewRecord, target: Csn) -> list[Csn]:
    """Where a view that is kept incrementally stops on its way to a later csn."""
    definition = Definition.load(view)
    wanted = wanted_chunk(view.options)
    if wanted is None or target <= view.csn or view.problem is not None or definition.recomputed is not None:
        return [target]
    size = advised_chunk(context.catalog, view) if wanted == AUTO else int(wanted)
    if size is None:
        return [target]
    tables = base_tables_of(context.catalog, definition)
    pending = [unit for unit in context.catalog.units(start=view.csn, end=target) if unit.table in tables]
    return chunk_ends([(unit.csn, rows) for unit, rows in updates_of(pending)], size, target)


def _refresh_once(context: Context, name: str, target: Csn, started: float, *, never_back: bool) -> RefreshReport:
    """One view update; with ``never_back``, a view that another driver has brought further stays there."""
    before = context.catalog.view(name)
    # A view with a problem is recomputed anyhow.
    begun = finish_begun(context, name) if before.problem is None else None
    definition = Definition.load(before)
    bring_below(context, definition, target)
    view = context.catalog.view(name, before.view_id)
    choice: Choice | None = None
    if view.problem is not None:
        applied = _recompute(
            context, view, definition, target, str(view.problem.get("code", "PROBLEM")), never_back, started
        )
    elif definition.recomputed is not None:
        applied = _from_scratch(context, view, definition, target, never_back, started)
    else:
        choice = _choice(context, view, definition, target)
        alternatives = choice.as_json() if choice is not None else None
        if choice is not None and choice.way == FULL:
            require_captured(context, definition)
            applied = recompute(
                context,
                name,
                target,
                "FULL_IS_CHEAPER",
                started=started,
                never_back=never_back,
                alternatives=alternatives,
            )
        else:
            applied = _incremental(context, view, definition, target, never_back, started, alternatives)
            context.ran.add(_by_changes(view))
    if begun is not None and applied.mode == "none":
        applied = replace(begun, csn=applied.csn)
    seconds = time.monotonic() - started
    costs = dict(choice.seconds) if choice is not None else None
    return RefreshReport(name, before.csn, applied.csn, applied.mode, applied.reason, applied.rows, seconds, costs)


def _incremental(
    context: Context,
    view: ViewRecord,
    definition: Definition,
    target: Csn,
    never_back: bool,
    started: float,
    alternatives: JsonObject | None,
) -> Applied:
    """By the changes; from scratch where the text fails at a moment on the way, which has no answer then."""
    if target >= view.kept_from and target > high_water_mark(context, view):
        try:
            propagate(context, view.name, target)
        except ExpressionFails as error:
            return _recompute(context, view, definition, target, "FAILED_BETWEEN", never_back, started, because=error)
    return apply(context, view.name, target, started=started, never_back=never_back, alternatives=alternatives)


def _newest(context: Context, definition: Definition, captured: Captured | None) -> Csn:
    """The newest state of the view's tables.

    Raises if one of them can't be captured any further, or not now.
    """
    found = capture(context) if captured is None else captured
    require_captured(context, definition)
    for table in sorted(base_tables_of(context.catalog, definition) & found.unreachable.keys()):
        raise found.unreachable[table]
    return found.csn


def _choice(context: Context, view: ViewRecord, definition: Definition, target: Csn) -> Choice | None:
    """What each way would take, for a view that leaves it to us and has changes to take in."""
    moments = CatalogMoments(context.catalog, definition)
    start = high_water_mark(context, view)
    if Policy.of(view.options) is not Policy.AUTO or target <= max(start, view.csn) or view.method != "frontier":
        return None
    if context.catalog.users_of(view.name):
        return None
    if any(context.catalog.mirror_mode(table) == "query" for table in definition.tables):
        return None  # from scratch would ship whole tables, which nobody has counted
    changed: dict[str, int] = {}
    csns: set[Csn] = set()
    for name in (*definition.tables, *definition.views):
        # A view's changes are taken to be as many as those of its tables, which is a guess from above.
        for table in moments.base_tables(name):
            units = context.catalog.units(table, start, target)
            csns |= {unit.csn for unit in units}
            known = [unit.rows for unit in units if unit.rows is not None]
            if units:
                # A commit that does not tell is taken for one like the others.
                rows = max(1, round(sum(known) * len(units) / max(1, len(known))))
                changed[name] = changed.get(name, 0) + rows
    if not changed:
        return None
    workload = Workload(
        definition.plan, definition.nodes, lambda name: rows_of(context, definition, name), changed, len(csns)
    )
    own, others = _samples(context, view)
    return choose(workload, own, cold=_by_changes(view) not in context.ran, others=others)


def _by_changes(view: ViewRecord) -> str:
    """The name under which a context remembers that it has refreshed a view by its changes."""
    return f"{INCREMENTAL}:{view.view_id}"


def _samples(context: Context, view: ViewRecord) -> tuple[list[Sample], list[Sample]]:
    """The last refreshes of a view, and those of others."""
    own = [_sample(record) for record in context.catalog.refreshes(view.name, limit=_SAMPLES) if _is_of(record, view)]
    last = context.catalog.refreshes(limit=_SAMPLES)
    return own, [_sample(record) for record in last if not _is_of(record, view)]


def _is_of(record: RefreshRecord, view: ViewRecord) -> bool:
    return record.view_id == view.view_id


def _sample(record: RefreshRecord) -> Sample:
    told = record.alternatives or {}
    predicted = told.get("predicted", {})
    way = next((way for way in (INCREMENTAL, TOUCHED_KEYS) if way in predicted), None)
    expected = predicted[way] if way is not None else None
    changed, cold = int(told.get("changed", 0)), bool(told.get("cold", False))
    return Sample(record.mode, expected, record.seconds, changed, cold)


def beyond_mending(view: ViewRecord) -> str | None:
    """What keeps every refresh of a view from succeeding: a problem that its policy does not let a refresh mend."""
    strict = Policy.of(view.options) is Policy.STRICT
    return str(view.problem.get("message", "PROBLEM")) if view.problem is not None and strict else None


def rows_of(context: Context, definition: Definition, name: str) -> int:
    """About how many rows a table or a view in FROM has."""
    catalog = context.catalog
    location = catalog.base_table(name).location if name in definition.tables else catalog.view(name).location
    return context.statistics.extent(location, ()).rows


def bring_below(context: Context, definition: Definition, target: Csn) -> None:
    """Views that a view reads need not be refreshed for it, only propagated; one that can't be is recomputed.

    None is taken back: somebody else may be reading it where it stands.
    """
    for name in definition.views:
        below = context.catalog.view(name)
        inner = Definition.load(below)
        if below.problem is not None or inner.recomputed is not None:
            if below.problem is not None or below.csn < target:
                refresh(context, name, target, never_back=True)
        elif high_water_mark(context, below) < target:
            bring_below(context, inner, target)
            if context.catalog.view(name).problem is not None:  # what it reads has just been recomputed
                refresh(context, name, target, never_back=True)
                continue
            try:
                propagate(context, name, target)
            except ExpressionFails:
                refresh(context, name, target, never_back=True)


def _from_scratch(
    context: Context, view: ViewRecord, definition: Definition, target: Csn, never_back: bool, started: float
) -> Applied:
    if target <= view.csn:
        if not never_back:
            require_reachable(context, view, target)
        return Applied(view.csn, 0, "none", "UP_TO_DATE")
    if not has_changed(context, view, Interval(view.csn, target)):
        require_captured(context, definition)
        return stay(context, view.name, target, started=started)
    return _recompute(context, view, definition, target, str(definition.recomputed), never_back, started)


def _recompute(
    context: Context,
    view: ViewRecord,
    definition: Definition,
    target: Csn,
    reason: str,
    never_back: bool,
    started: float,
    because: ExpressionFails | None = None,
) -> Applied:
    if Policy.of(view.options) is Policy.STRICT:
        raise WouldRecompute(
            f"View {view.name!r} can't be brought to csn {target} incrementally ({reason}), and its policy is strict."
            + (f" {because.message}" if because is not None else ""),
            remedy=f"Drop and create it again, or allow it: ALTER MATERIALIZED VIEW {view.name} "
            "SET OPTIONS (refresh = 'auto').",
            reason=reason,
        )
    require_captured(context, definition)
    return recompute(context, view.name, target, reason, started=started, never_back=never_back)
