"""What the catalog knows of a view's costs: its parts, their backlog, and what its steps have taken.

Every step that a driver closes tells how long it took. ``gather`` turns finished steps into samples: a step in which
one part had changes is a sample of that part, one with changes in several is a sample of all together, each by the
changed rows of its interval. So refreshes, propagations and the service measure as they go, whoever runs them, and a
calibration is only steps chosen well. Nothing here starts Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from headwater.algebra.time import BEGINNING, Csn, Interval
from headwater.catalog.records import CostKind, CostRecord, LeafRecord, StepRecord, ViewRecord
from headwater.catalog.store import Catalog
from headwater.definition import CatalogMoments, Definition, base_tables_of
from headwater.errors import ResponseTimeTooShort, UnknownName
from headwater.schedule.outlook import Outlook, outlook
from headwater.schedule.problem import Arrivals, Counts
from headwater.schedule.service_level import ServiceLevel
from headwater.schedule.streams import recorded
from headwater.schedule.view_costs import CONFIDENCE, RECENT, JointCosts, Measured, ViewCosts, fitted, like

TOGETHER = -1
"""The number of the part that stands for steps of several."""
_STEPS = 1000  # that a recorded history is cut into
LAKE = ""
"""The view of a capture."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What of a view can be processed apart; ``leaves[i]`` are the numbers of the leaves of part i."""

    labels: tuple[str, ...]
    leaves: tuple[tuple[int, ...], ...]
    kind: CostKind = "propagate"

    @classmethod
    def of(cls, view: ViewRecord, leaves: Sequence[LeafRecord]) -> Parts:
        definition = Definition.load(view)
        everything = (tuple(range(len(leaves))),)
        if definition.recomputed is not None:
            return cls(("recomputation",), everything, "recompute")
        if not leaves:
            raise UnknownName(
                f"View {view.name!r} was dropped meanwhile.", remedy="Look again at what views there are."
            )
        if definition.nodes or view.method != "frontier":
            return cls(("all leaves" if len(leaves) > 1 else leaves[0].alias,), everything)
        return cls(tuple(leaf.alias for leaf in leaves), tuple((number,) for number in range(len(leaves))))

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def apart(self) -> bool:
        """Whether parts can be processed without a refresh; a recomputed view has no such."""
        return self.kind != "recompute"


@dataclass(frozen=True, slots=True)
class Backlog:
    """What a refresh to ``csn`` would have to do. ``uncounted``: commits that don't tell how many rows they changed."""

    csn: Csn
    pending: Counts  # rows of each part that are not propagated
    unapplied: int  # rows that the view's table does not show
    uncounted: int
    waiting_since: int | None  # when the oldest of these was committed, in microseconds


def backlog_of(catalog: Catalog, view: ViewRecord, csn: Csn | None = None) -> Backlog:
    """Where the view stands against a csn, the newest one unless given."""
    leaves = catalog.leaves(view.view_id)
    parts = Parts.of(view, leaves)
    definition = Definition.load(view)
    target = catalog.newest_csn() if csn is None else csn
    moments = CatalogMoments(catalog, definition)
    tables = base_tables_of(catalog, definition)
    start = min([view.csn, *(leaf.t_comp for leaf in leaves)])
    changed = _Changed(catalog, tables, start, target)
    if parts.kind == "recompute":
        pending: Counts = (changed.rows(tables, Interval(view.csn, max(view.csn, target))),)
    else:
        pending = tuple(
            _rows_of_part([leaves[number] for number in numbers], moments, changed, target) for numbers in parts.leaves
        )
    unshown = Interval(view.csn, max(view.csn, target))
    return Backlog(target, pending, changed.rows(tables, unshown), changed.uncounted, changed.oldest(tables, unshown))


def _rows_of_part(leaves: Sequence[LeafRecord], moments: CatalogMoments, changed: _Changed, target: Csn) -> int:
    """A table that several leaves of one part scan is changed once."""
    reached: dict[str, Csn] = {}
    for leaf in leaves:
        for table in moments.base_tables(leaf.table):
            reached[table] = min(reached.get(table, leaf.t_comp), leaf.t_comp)
    return sum(changed.rows([table], Interval(time, max(time, target))) for table, time in reached.items())


class _Changed:
    """Changed rows of tables by csn; a commit that does not tell is taken for one like the others of its table."""

    def __init__(self, catalog: Catalog, tables: Iterable[str], start: Csn, end: Csn) -> None:
        self._units: dict[str, list[tuple[Csn, int, int]]] = {}
        self.uncounted = 0
        for table in tables:
            units = catalog.units(table, start, max(start, end))
            known = [unit.rows for unit in units if unit.rows is not None]
            usual = max(1, round(sum(known) / len(known))) if known else 1
            self.uncounted += len(units) - len(known)
            self._units[table] = [
                (unit.csn, usual if unit.rows is None else unit.rows, unit.committed_at) for unit in units
            ]

    def rows(self, tables: Iterable[str], interval: Interval) -> int:
        # A commit that changed no row is still to be looked at.
        return sum(
            max(1, rows)
            for table in tables
            for csn, rows, _ in self._units.get(table, ())
            if interval.start < csn <= interval.end
        )

    def events(self, table: str, interval: Interval) -> list[tuple[int, int]]:
        """When each commit was made, in microseconds, and its rows."""
        units = self._units.get(table, ())
        return [(at, max(1, rows)) for csn, rows, at in units if csn in interval]

    def oldest(self, tables: Iterable[str], interval: Interval) -> int | None:
        return min(
            (
                at
                for table in tables
                for csn, _, at in self._units.get(table, ())
                if interval.start < csn <= interval.end
            ),
            default=None,
        )


def arrivals_of(catalog: Catalog, view: ViewRecord, step: float | None = None) -> tuple[Arrivals, float]:
    """The commits to a view's tables that the lake has recorded, by the parts that they concern; the length of a step.

    A thousand steps unless one is given, each of a second at least.
    """
    leaves = catalog.leaves(view.view_id)
    parts = Parts.of(view, leaves)
    definition = Definition.load(view)
    moments = CatalogMoments(catalog, definition)
    tables = base_tables_of(catalog, definition)
    all_of_it = Interval(BEGINNING, catalog.newest_csn())
    changed = _Changed(catalog, tables, all_of_it.start, all_of_it.end)
    read = [{table for leaf in part for table in moments.base_tables(leaves[leaf].table)} for part in parts.leaves]
    events = [
        (at / 1e6, number, rows)
        for number, own in enumerate(read)
        for table in sorted(own)
        for at, rows in changed.events(table, all_of_it)
    ]
    moments_of = [at for at, _, _ in events]
    span = max(moments_of, default=0.0) - min(moments_of, default=0.0)
    length = max(1.0, span / _STEPS) if step is None else step
    return recorded(events, len(parts), length), length


# ---------------------------------------------------------------------- samples


def gather(catalog: Catalog, view: ViewRecord) -> int:
    """Note what the view's steps have taken since the last time; how many were noted."""
    steps = catalog.unsampled_steps(view.view_id)
    found = [sample for step in steps if (sample := _sample(catalog, view, step)) is not None]
    catalog.add_cost_samples(found)
    return len(found)


def _sample(catalog: Catalog, view: ViewRecord, step: StepRecord) -> CostRecord | None:
    outcome, at = step.outcome or {}, step.finished_at
    if "seconds" not in outcome or at is None or outcome.get("shared"):
        return None  # one that shared what it needed with other views says little of a step of this one alone
    seconds, cold = float(outcome["seconds"]), bool(outcome.get("cold"))
    definition = Definition.load(view)
    tables = base_tables_of(catalog, definition)

    def changed(interval: Interval) -> int:
        return _Changed(catalog, tables, interval.start, interval.end).rows(tables, interval)

    match step.driver, step.intent:
        case "propagate", {"before": [*before], "after": [*after]}:
            rows = _step_rows(catalog, view, definition, before, after)
            pending = [number for number, count in enumerate(rows) if count]
            if not pending:
                return None
            part, by_part = (pending[0], None) if len(pending) == 1 else (TOGETHER, tuple(rows))
            return CostRecord(view.view_id, "propagate", part, sum(rows), seconds, cold, at, step.step_id, by_part)
        case "apply", {"from": int(start), "to": int(end)} if end > start:
            count = changed(Interval(Csn(start), Csn(end)))
            return CostRecord(view.view_id, "apply", 0, count, seconds, cold, at, step.step_id) if count else None
        case "apply", {"recompute": int()}:
            return CostRecord(view.view_id, "recompute", 0, 1, seconds, cold, at, step.step_id)
        case _:
            return None


def _step_rows(
    catalog: Catalog, view: ViewRecord, definition: Definition, before: list[int], after: list[int]
) -> list[int]:
    leaves = catalog.leaves(view.view_id)
    moments = CatalogMoments(catalog, definition)
    tables = base_tables_of(catalog, definition)
    log = _Changed(catalog, tables, Csn(min(before)), Csn(max(after)))
    if definition.nodes:
        # All leaves go from one moment to another.
        return [log.rows(tables, Interval(Csn(before[0]), Csn(after[0])))]
    return [
        log.rows(moments.base_tables(leaf.table), Interval(Csn(start), Csn(end)))
        for leaf, start, end in zip(leaves, before, after, strict=True)
    ]


# ---------------------------------------------------------------------- functions


@dataclass(frozen=True, slots=True)
class ViewMeasure:
    """A view's cost functions, with the samples that they were fitted from."""

    parts: Parts
    costs: ViewCosts
    samples: tuple[tuple[Measured, ...], ...]  # of each part, newest first
    together: tuple[Measured, ...]
    applied: tuple[Measured, ...]
    captured: tuple[Measured, ...]

    def outlook(self, level: ServiceLevel) -> Outlook | None:
        if level.response_time is None:
            return None
        return outlook(level.response_time, self.costs, self.samples)


@dataclass(frozen=True, slots=True)
class Below:
    """What propagating the views that a view reads would take: as expected, with confidence, and at the least."""

    expected: float = 0.0
    bound: float = 0.0
    floor: float = 0.0

    def __add__(self, other: Below) -> Below:
        return Below(self.expected + other.expected, self.bound + other.bound, self.floor + other.floor)


def measure_of(catalog: Catalog, view: ViewRecord, *, ran: Collection[str] | None = None) -> ViewMeasure:
    """``ran``: kinds of steps that a process has done; what its first ones of the others take is asked for then."""
    parts = Parts.of(view, catalog.leaves(view.view_id))
    first, first_apply, first_capture = (
        ran is not None and kind not in ran for kind in (parts.kind, "apply", "capture")
    )
    by_part: dict[int, list[Measured]] = {}
    for record in catalog.cost_samples(view.view_id, parts.kind):
        by_part.setdefault(record.part, []).append(_measured(record))
    samples = tuple(tuple(by_part.get(number, ())[:RECENT]) for number in range(len(parts)))
    together = tuple(by_part.get(TOGETHER, ())[:RECENT])
    # Recomputing writes the view's table itself.
    applied = _samples(catalog, view.view_id, "apply") if parts.apart else ()
    captured = _samples(catalog, LAKE, "capture")
    functions = tuple(fitted(each, cold=first) for each in samples)
    costs = ViewCosts(
        functions,
        fitted(together, cold=first),
        fitted(applied, cold=first_apply),
        fitted(captured, cold=first_capture),
        JointCosts.of(functions, samples, like(together, cold=first)),
    )
    return ViewMeasure(parts, costs, samples, together, applied, captured)


def require_feasible(catalog: Catalog, level: ServiceLevel, view: ViewRecord | None, name: str) -> None:
    """Refuse a response time below what was measured: of the view itself, or for a new one of any view of the lake."""
    if level.response_time is None:
        return
    floor: float | None
    if view is not None and (found := measure_of(catalog, view).costs.floor()) is not None:
        below = costs_below(catalog, view).floor
        floor, made_of = found.seconds + below, f"one changed row takes {found}"
        made_of += f" + the views that it reads {below:.1f} s" if below else ""
    else:
        cheapest = {kind: catalog.cheapest_seconds(kind) for kind in ("capture", "propagate", "apply")}
        floor = sum(seconds or 0.0 for seconds in cheapest.values())
        made_of = "the quickest of this lake took " + " + ".join(
            f"{kind} {seconds:.1f} s" for kind, seconds in cheapest.items() if seconds is not None
        )
    if level.response_time < floor:
        raise ResponseTimeTooShort(
            f"View {name!r} can't promise a refresh within {level.response_time:g} s: "
            f"its floor is {floor:.1f} s ({made_of}).",
            remedy=f"Promise {floor * 1.5:.0f} s or more, or look where the time goes: headwater costs {name}.",
            response_time=level.response_time,
            floor=round(floor, 3),
        )


def costs_below(
    catalog: Catalog, view: ViewRecord, measure: Callable[[Catalog, ViewRecord], ViewMeasure] = measure_of
) -> Below:
    """Of the views that a view reads, and those below them; ``measure`` is asked for what is known of each.

    They are propagated, not applied. One that was never measured counts as nothing.
    """
    total = Below()
    for name in Definition.load(view).views:
        below = catalog.view(name)
        pending = backlog_of(catalog, below).pending
        costs = measure(catalog, below).costs
        expected, bound, floor = costs.expected(pending, 0), costs.bound(pending, 0), costs.floor()
        if any(pending) and expected is not None and bound is not None:
            total += Below(expected - costs.overhead(0), bound - costs.overhead(0, CONFIDENCE))
        total += Below(floor=0.0 if floor is None else floor.propagate)
        total += costs_below(catalog, below, measure)
    return total


def _samples(catalog: Catalog, view_id: str, kind: CostKind) -> tuple[Measured, ...]:
    return tuple(_measured(record) for record in catalog.cost_samples(view_id, kind, limit=RECENT))


def _measured(record: CostRecord) -> Measured:
    return Measured(record.rows, record.seconds, record.measured_at / 1e6, record.cold, record.by_part)
