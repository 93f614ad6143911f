"""The garbage collector: carries out what ``headwater.serve.collecting`` decides.

Under the lease ``collect``. A collection that was cut short is finished first; every part of it may be done twice.
Tables of views that were dropped or recomputed since are passed over: what becomes of these is their driver's affair.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Protocol

from headwater.catalog.database import Clock
from headwater.catalog.fencing import Lease
from headwater.catalog.records import CollectionRecord, Micros
from headwater.catalog.store import Catalog
from headwater.context import COLLECT, apply_lease
from headwater.durable import DurablePoint, Listener, nobody
from headwater.errors import LeaseHeld
from headwater.serve.collecting import DEFAULT_GRACE, GarbagePlan, ViewGarbage, intend
from headwater.sql.pruning import prune_timeline_sql, prune_view_delta_sql, vacuum_sql

_HOUR: Micros = 3_600_000_000


class Sweeper(Protocol):
    """What the collector needs of an engine."""

    def run(self, text: str, doing: str) -> None: ...

    def newest_version(self, location: str) -> int: ...

    def committed_at(self, location: str, version: int) -> Micros | None:
        """When a version of a table was committed; None when its log does not say any more."""
        ...


@dataclass(frozen=True, slots=True)
class Collected:
    """``views`` were swept; of ``busy`` ones the view delta was left for the next time."""

    plan: GarbagePlan
    views: tuple[str, ...]
    busy: tuple[str, ...]


def collect(
    catalog: Catalog,
    sweeper: Sweeper,
    *,
    clock: Clock,
    grace: Micros = DEFAULT_GRACE,
    wait: float = 0.0,
    reached: Listener = nobody,
) -> Collected:
    """One collection; and before it, what is left of one that was cut short.

    ``grace`` must be more than any statement of a driver or of a reader without a lease takes.
    """
    with catalog.lease(COLLECT, wait=wait) as lease:
        unfinished = catalog.open_collection()
        if unfinished is not None:
            _carry_out(catalog, sweeper, lease, unfinished, clock, reached)
        with ExitStack() as held:
            leases, busy = [lease], []
            quiet = set()
            for view in catalog.views():
                try:
                    leases.append(held.enter_context(catalog.lease(apply_lease(view.view_id))))
                    quiet.add(view.view_id)
                except LeaseHeld:
                    busy.append(view.name)
            begun = catalog.begin_collection(leases, lambda holdings: intend(holdings, quiet, grace))
        reached(DurablePoint.COLLECT_INTENDED)
        swept = _carry_out(catalog, sweeper, lease, begun, clock, reached)
        return Collected(GarbagePlan.of_json(begun.plan), swept, tuple(busy))


def _carry_out(
    catalog: Catalog, sweeper: Sweeper, lease: Lease, collection: CollectionRecord, clock: Clock, reached: Listener
) -> tuple[str, ...]:
    plan = GarbagePlan.of_json(collection.plan)
    present = {view.view_id: view for view in catalog.views()}
    swept = []
    for view_id, garbage in plan.views.items():
        catalog.check_lease(lease)
        view = present.get(view_id)
        if view is None or view.location != garbage.location:
            continue
        if view.delta_location == garbage.delta_location:
            _prune_view_delta(sweeper, plan, garbage, clock)
        _prune_table(sweeper, plan, garbage, clock)
        swept.append(garbage.name)
        reached(DurablePoint.COLLECT_SWEPT)
    catalog.finish_collection(lease, collection.collection_id, {"views": swept})
    reached(DurablePoint.COLLECT_RECORDED)
    return tuple(swept)


def _prune_view_delta(sweeper: Sweeper, plan: GarbagePlan, view: ViewGarbage, clock: Clock) -> None:
    if view.spare_delta:
        text = prune_view_delta_sql(view.delta_location, view.spare_delta)
        sweeper.run(text, f"pruning the view delta of {view.name}")
    hours = _hours(clock(), plan.files_since())
    sweeper.run(vacuum_sql(view.delta_location, hours), f"vacuuming the view delta of {view.name}")


def _prune_table(sweeper: Sweeper, plan: GarbagePlan, view: ViewGarbage, clock: Clock) -> None:
    if view.layout == "timeline":
        text = prune_timeline_sql(view.location, plan.horizon.kept_from, plan.horizon.pinned)
        sweeper.run(text, f"pruning the timeline of {view.name}")
    replaced_at = None
    if sweeper.newest_version(view.location) > view.oldest_version:
        replaced_at = sweeper.committed_at(view.location, view.oldest_version + 1)
        if replaced_at is None:
            return  # how long to retain is not known, so all is
    hours = _hours(clock(), plan.files_since(replaced_at))
    sweeper.run(vacuum_sql(view.location, hours), f"vacuuming {view.name}")


def _hours(now: Micros, since: Micros) -> int:
    """Whole hours, rounded up: a little more may stay, nothing more may go.

    VACUUM counts back from when it runs. So must we, and not from when the plan was made: that may be long ago.
    """
    return (now - since) // _HOUR + 1
