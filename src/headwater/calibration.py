"""Measuring on purpose: real steps of several widths on what is pending.

Nothing is made up for it. The view's own backlog is propagated, part by part, in batches of doubling size, and then
applied in a few; when it ends, the view is fresh and its cost functions are known over the range of these sizes.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

from headwater.algebra.time import Csn, Interval
from headwater.apply.driver import apply, high_water_mark
from headwater.capture.driver import Captured, capture
from headwater.catalog.records import CostRecord, ViewRecord
from headwater.context import Context
from headwater.definition import CatalogMoments, Definition, base_tables_of
from headwater.errors import InvalidInput, NothingPending
from headwater.measured import LAKE, Backlog, Parts, ViewMeasure, backlog_of, costs_below, gather, measure_of
from headwater.propagate.driver import propagate, propagate_leaves, require_usable
from headwater.propagate.targets import count_rows
from headwater.propagate.width import ByRows, interval_end
from headwater.refresh import bring_below, refresh
from headwater.schedule.calibration import batch_sizes
from headwater.values import RefreshReport

STEPS = 5
_CAPTURES = 3
_APPLIES = 3


@dataclass(frozen=True, slots=True)
class Calibration:
    """``steps`` were run, ``samples`` of them count; the view stands at ``csn``."""

    view: str
    csn: int
    steps: int
    samples: int
    seconds: float
    measure: ViewMeasure

    def as_dict(self) -> dict[str, Any]:
        floor = self.measure.costs.floor()
        return {
            "view": self.view,
            "csn": self.csn,
            "steps": self.steps,
            "samples": self.samples,
            "seconds": round(self.seconds, 3),
            "floor": None if floor is None else round(floor.seconds, 3),
            "costs": self.measure.costs.as_dict(self.measure.parts.labels),
        }


def timed_capture(context: Context) -> Captured:
    """A capture whose time is noted: every refresh begins with one."""
    began = time.monotonic()
    captured = capture(context)
    took = context.timed("capture", began)
    sample = CostRecord(LAKE, "capture", 0, 1, float(took["seconds"]), bool(took["cold"]), context.clock())
    context.catalog.add_cost_samples([sample])
    return captured


def counted_backlog(context: Context, view: ViewRecord) -> Backlog:
    """The view's backlog with all its rows counted; commits that do not tell are looked at."""
    found = backlog_of(context.catalog, view)
    if found.uncounted:
        start = min([view.csn, *(leaf.time for leaf in context.catalog.leaves(view.view_id))])
        for table in base_tables_of(context.catalog, Definition.load(view)):
            count_rows(context, table, Interval(start, max(start, found.csn)))
        found = backlog_of(context.catalog, view, found.csn)
    return found


def part_targets(context: Context, view: ViewRecord, part: int, rows: int, to: Csn) -> list[Csn]:
    """Where a step that processes about so many rows of one part takes each leaf.

    A csn can't be split, so it may be some more; and leaves without changes go along for nothing.
    """
    leaves = context.catalog.leaves(view.view_id)
    parts = Parts.of(view, leaves)
    moments = CatalogMoments(context.catalog, Definition.load(view))
    targets = []
    for leaf in leaves:
        available = Interval(leaf.time, max(leaf.time, to))
        if leaf.leaf in parts.leaves[part]:
            targets.append(interval_end(leaf.table, available, ByRows(max(1, rows)), moments))
        else:
            targets.append(leaf.time if moments.has_changes(leaf.table, available) else available.end)
    if len(parts.leaves[part]) > 1:
        # Leaves that can't be told apart go as far as the first of them to have its rows.
        return [min(targets)] * len(targets)
    return targets


def calibrate(context: Context, name: str, *, steps: int = STEPS) -> Calibration:
    if steps < 1:
        raise InvalidInput(f"{steps} steps measure nothing.", remedy="Give 1 or more.")
    began = time.monotonic()
    view = context.catalog.view(name)
    require_usable(view)
    gather(context.catalog, view)
    for number in range(_CAPTURES):
        context.progress(f"{name}: capture {number + 1} of {_CAPTURES}")
        timed_capture(context)
    backlog = counted_backlog(context, view)
    if not any(backlog.pending):
        raise NothingPending(
            f"View {name!r} has no pending changes to measure with.",
            remedy="Calibrate when its tables have changed; every refresh and the service measure as they go.",
            view=name,
        )
    run = _run(context, view, backlog, steps)
    samples = gather(context.catalog, view)
    csn = context.catalog.view(name).csn
    measure = measure_of(context.catalog, view)
    return Calibration(name, csn, run, samples, time.monotonic() - began, measure)


def _run(context: Context, view: ViewRecord, backlog: Backlog, steps: int) -> int:
    parts = Parts.of(view, context.catalog.leaves(view.view_id))
    if parts.kind == "recompute":
        refresh(context, view.name, None)
        return 1
    bring_below(context, Definition.load(view), backlog.csn)
    run = 0
    if view.method != "frontier":
        propagate_timed(context, view, backlog)
        run = 1
    else:
        plans = [batch_sizes(pending, steps) for pending in backlog.pending]
        for number in range(max(map(len, plans))):
            for part, sizes in enumerate(plans):
                if number < len(sizes):
                    run += _step(context, view, parts, part, sizes[number], backlog.csn)
        propagate(context, view.name, backlog.csn)
    mark = high_water_mark(context, view)
    for share in range(1, _APPLIES + 1):
        to = Csn(view.csn + (mark - view.csn) * share // _APPLIES)
        if to > context.catalog.view(view.name).csn:
            apply(context, view.name, to, never_back=True)
            run += 1
    return run


def _step(context: Context, view: ViewRecord, parts: Parts, part: int, rows: int, to: Csn) -> int:
    pending = backlog_of(context.catalog, view, to).pending[part]
    if not pending:
        return 0
    context.progress(f"{view.name}: measuring a step of about {rows} rows of {parts.labels[part]}")
    propagate_leaves(context, view.name, part_targets(context, view, part, rows, to))
    return 1


def propagate_timed(context: Context, view: ViewRecord, backlog: Backlog) -> None:
    """Propagation by a method whose steps are not of one part; measured as a whole."""
    began = time.monotonic()
    propagate(context, view.name, backlog.csn)
    took = context.timed("propagate", began)
    rows = backlog.pending[0]
    if rows:
        seconds, cold = float(took["seconds"]), bool(took["cold"])
        context.catalog.add_cost_samples(
            [CostRecord(view.view_id, "propagate", 0, rows, seconds, cold, context.clock())]
        )


def refresh_within(context: Context, name: str, to: Csn | None, within: float) -> RefreshReport:
    """A refresh that tells beforehand what it will take, and afterwards what it took."""
    began = time.monotonic()
    ran = frozenset(context.ran)
    captured = timed_capture(context) if to is None else None
    so_far = time.monotonic() - began
    view = context.catalog.view(name)
    gather(context.catalog, view)
    costs = measure_of(context.catalog, view, ran=ran).costs
    target = captured.csn if captured is not None else to
    backlog = backlog_of(context.catalog, view, target)
    expected = costs.expected(backlog.pending, backlog.unapplied)
    predicted = None
    if expected is not None:
        predicted = so_far + expected - costs.overhead(0) + costs_below(context.catalog, view).expected
        late = ", longer than asked for" if predicted > within else ""
        context.progress(f"{name}: refreshing, which will take about {predicted:.1f} s{late}")
    report = refresh(context, name, to, captured=captured)
    gather(context.catalog, context.catalog.view(name))
    return replace(report, seconds=time.monotonic() - began, predicted=predicted, within=within)
