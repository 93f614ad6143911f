"""The lake as the loop drives it: catalog and Spark behind ``LakeActions``.

Every call is made of the drivers that ``headwater.Lake`` is made of, under the same leases, so a refresh by somebody
else at the same time does no harm. A look reads the catalog alone; only commits that do not tell how many rows they
changed are counted by Spark, once. Cost functions are fitted again when there are new samples.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from headwater.algebra.time import Csn
from headwater.calibration import counted_backlog, part_targets, propagate_timed, timed_capture
from headwater.catalog.records import ViewRecord
from headwater.context import Context
from headwater.definition import Definition, base_tables_of
from headwater.errors import OF_THE_LAKE, HeadwaterError, SourceProblem, UnknownName
from headwater.measured import LAKE, Parts, ViewMeasure, backlog_of, costs_below, gather, measure_of
from headwater.propagate.driver import propagate_leaves, require_usable
from headwater.refresh import beyond_mending, refresh
from headwater.schedule.keeping import Seen
from headwater.schedule.service_level import ServiceLevel
from headwater.schedule.view_costs import ViewCosts
from headwater.service.loop import Refreshed


@dataclass(slots=True)
class _Known:
    """A view's measure, and what it was made from: the newest samples, and what kinds of steps Spark had run."""

    made_from: tuple[object, ...]
    measure: ViewMeasure


class SparkLake:
    """``only`` names the views to keep; None is all that promise something."""

    def __init__(
        self,
        context: Context,
        release: Callable[[], int],
        collect: Callable[[], object],
        only: Collection[str] | None = None,
    ) -> None:
        self._context = context
        self._release = release
        self._collect = collect
        self._only = None if only is None else {name.lower() for name in only}
        self._known: dict[str, _Known] = {}
        self._unreachable: Mapping[str, HeadwaterError] = {}  # tables that the last capture could not read

    def capture(self) -> None:
        self._unreachable = timed_capture(self._context).unreachable

    def look(self) -> Sequence[Seen]:
        found = []
        for view in self._context.catalog.views():
            level = ServiceLevel.of(view.options)
            if view.name.lower() in self._only if self._only is not None else level.is_kept:
                try:
                    found.append(self._seen(view, level))
                except OF_THE_LAKE:
                    raise
                except UnknownName:
                    continue  # dropped, or made anew, since the list was read
                except HeadwaterError as error:  # the others are kept all the same
                    found.append(Seen(view.name, level, (), (), 0, 0.0, ViewCosts(()), stuck=str(error)))
        return found

    def process(self, view: str, counts: tuple[int, ...], csn: int) -> None:
        """One step for the parts that are named; the others stay where they are.

        Several parts go in one step: its statements and its commit are then paid once.
        """
        context = self._context
        record = context.catalog.view(view)
        require_usable(record)
        if record.method != "frontier":
            propagate_timed(context, record, backlog_of(context.catalog, record, Csn(csn)))
            return
        chosen = [part_targets(context, record, part, rows, Csn(csn)) for part, rows in enumerate(counts) if rows]
        propagate_leaves(context, view, [max(times) for times in zip(*chosen, strict=True)])
        gather(context.catalog, record)

    def refresh(self, view: str) -> Refreshed:
        report = refresh(self._context, view, None)
        gather(self._context.catalog, self._context.catalog.view(view))
        return Refreshed(report.csn, report.mode, report.reason, report.rows)

    def release(self) -> int:
        return self._release()

    def collect(self) -> None:
        self._collect()

    # ------------------------------------------------------------------

    def _seen(self, view: ViewRecord, level: ServiceLevel) -> Seen:
        catalog = self._context.catalog
        try:
            backlog = counted_backlog(self._context, view)
        except SourceProblem:
            backlog = backlog_of(catalog, view)  # what is done for it will say what is wrong
        measure = self._measure(view)
        below = costs_below(catalog, view, lambda _, inner: self._measure(inner))
        waiting = backlog.waiting_since
        return Seen(
            name=view.name,
            level=level,
            labels=measure.parts.labels,
            backlog=backlog.pending,
            unapplied=backlog.unapplied,
            staleness=0.0 if waiting is None else max(0.0, (self._context.clock() - waiting) / 1e6),
            costs=measure.costs,
            csn=view.csn,
            newest_csn=backlog.csn,
            below=below.expected,
            below_bound=below.bound,
            apart=measure.parts.apart,
            outlook=measure.outlook(level),
            problem=None if view.problem is None else str(view.problem.get("code", "PROBLEM")),
            stuck=self._stuck(view) if view.problem is None else beyond_mending(view),
        )

    def _stuck(self, view: ViewRecord) -> str | None:
        """Which of a view's tables can't be captured, and why."""
        catalog = self._context.catalog
        for table in sorted(base_tables_of(catalog, Definition.load(view))):
            problem = catalog.base_table(table).problem
            if problem is not None:
                return f"{table}: {problem.get('message')}"
            if table in self._unreachable:
                return f"{table}: {self._unreachable[table]}"
        return None

    def _measure(self, view: ViewRecord) -> ViewMeasure:
        catalog = self._context.catalog
        gather(catalog, view)
        parts = Parts.of(view, catalog.leaves(view.view_id))
        kinds = {(LAKE, "capture"), (view.view_id, parts.kind), (view.view_id, "apply")}
        newest = tuple(catalog.newest_cost_sample(owner, kind) for owner, kind in sorted(kinds))
        ran = frozenset(kind for _, kind in kinds if kind in self._context.ran)
        known = self._known.get(view.view_id)
        if known is None or known.made_from != (ran, *newest):
            measure = measure_of(catalog, view, ran=ran)
            known = self._known[view.view_id] = _Known((ran, *newest), measure)
        return known.measure
