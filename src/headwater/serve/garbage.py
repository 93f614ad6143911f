"""The garbage collector: carries out what ``headwater.serve.collecting`` decides.

Under the lease ``collect``. A collection that was cut short is finished first; every part of it may be done twice.
Tables of views that were dropped since are passed over: what becomes of these is their driver's affair.

*Readers* are never in the way and never disturbed. *Drivers* are: a DELETE or a change of properties and a commit of
theirs to the same table could fail each other. What changes a table (pruning, trimming its log, joining small files,
removing the view deltas of before a recomputation) is done under both leases of the view, and what changes the log of a
mirrored table under that of capture. Where these can't be had in a while, the view or table is ``busy`` and left for
the next time, which finds the same again. VACUUM disturbs nobody and is always run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Protocol

from headwater.algebra.time import BEGINNING, Interval
from headwater.catalog.database import Clock
from headwater.catalog.fencing import Lease
from headwater.catalog.records import CollectionRecord, Micros, ViewRecord
from headwater.catalog.store import Catalog
from headwater.context import CAPTURE, COLLECT, Progress, apply_lease, propagate_lease, silent
from headwater.durable import DurablePoint, Listener, nobody
from headwater.errors import LeaseHeld
from headwater.serve.collecting import DEFAULT_GRACE, GarbagePlan, LogGarbage, ViewGarbage, intend
from headwater.sql.pruning import keep_all_sql, prune_timeline_sql, prune_view_delta_sql, trim_sql, vacuum_sql

_HOUR: Micros = 3_600_000_000
_DAY: Micros = 24 * _HOUR
_WEEK: Micros = 7 * _DAY


class Sweeper(Protocol):
    """What the collector needs of an engine."""

    def run(self, text: str, doing: str) -> None: ...

    def newest_version(self, location: str) -> int: ...

    def committed_at(self, location: str, version: int) -> Micros | None:
        """When a version of a table was committed; None when its log does not say any more."""
        ...

    def standing_at(self, location: str, moment: Micros) -> Micros | None:
        """When the version was committed that was the newest at a moment; None when the log does not say."""
        ...

    def log_since(self, location: str) -> Micros:
        """When the oldest commit was made of which a table's log still tells."""
        ...

    def last_trimmed(self, location: str) -> Micros | None:
        """When a table's properties were last changed after it was made; None if never, or if the log has forgotten."""
        ...

    def keeps_all(self, location: str) -> bool:
        """Whether a table forgets nothing by itself (``KEEP_ALL``)."""
        ...

    def compact(self, location: str) -> None:
        """Join a table's small files, if there are many: every refresh leaves some."""
        ...

    def remove_past_deltas(self, view: ViewRecord, kept: Collection[str]) -> None:
        """Remove the view deltas of before a recomputation, but not those at ``kept`` and not the present one."""
        ...


@dataclass(frozen=True, slots=True)
class Collected:
    """``views`` were swept; of ``busy`` ones the rows were left for the next time."""

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
    patience: float = 0.0,
    reached: Listener = nobody,
    progress: Progress = silent,
) -> Collected:
    """One collection; and before it, what is left of one that was cut short.

    ``grace`` must be more than any statement of a driver or of a reader without a lease takes; ``patience`` is how
    long, in seconds, to wait for a view that drivers are at work on.
    """
    with catalog.lease(COLLECT, wait=wait) as lease:
        sweep = _Sweep(catalog, sweeper, lease, clock, patience, reached, progress)
        unfinished = catalog.open_collection()
        if unfinished is not None:
            sweep.carry_out(unfinished)
        with ExitStack() as held:
            leases, busy = [lease], []
            quiet = set()
            for view in catalog.views():
                try:
                    leases.append(held.enter_context(catalog.lease(apply_lease(view.view_id), wait=patience)))
                    quiet.add(view.view_id)
                except LeaseHeld:
                    busy.append(view.name)
            begun = catalog.begin_collection(leases, lambda holdings: intend(holdings, quiet, grace))
        reached(DurablePoint.COLLECT_INTENDED)
        swept, disturbed = sweep.carry_out(begun)
        return Collected(GarbagePlan.of_json(begun.plan), swept, tuple(dict.fromkeys((*busy, *disturbed))))


@dataclass(frozen=True, slots=True)
class _Sweep:
    catalog: Catalog
    sweeper: Sweeper
    lease: Lease
    clock: Clock
    patience: float
    reached: Listener
    progress: Progress

    def carry_out(self, collection: CollectionRecord) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Sweep every view of a plan; which were swept, and which of them only of files."""
        plan = GarbagePlan.of_json(collection.plan)
        swept, busy = [], []
        for view_id, garbage in plan.views.items():
            self.catalog.check_lease(self.lease)
            view = self._present(view_id, garbage)
            if view is None:
                continue
            self.progress(f"{view.name}: collecting")
            try:
                with self._still(view_id):
                    self._prune(plan, view_id, garbage)
            except LeaseHeld:
                busy.append(garbage.name)
            self._vacuum(plan, garbage)
            swept.append(garbage.name)
            self.reached(DurablePoint.COLLECT_SWEPT)
        for mirror_id, log in plan.logs.items():
            self.catalog.check_lease(self.lease)
            try:
                self._prune_log(plan, mirror_id, log)
            except LeaseHeld:
                busy.append(log.name)
            self.reached(DurablePoint.COLLECT_SWEPT)
        self.catalog.finish_collection(self.lease, collection.collection_id, {"views": swept, "busy": busy})
        self.reached(DurablePoint.COLLECT_RECORDED)
        return tuple(swept), tuple(busy)

    def _present(self, view_id: str, garbage: ViewGarbage) -> ViewRecord | None:
        found = next((view for view in self.catalog.views() if view.view_id == view_id), None)
        return found if found is not None and found.location == garbage.location else None

    @contextmanager
    def _still(self, view_id: str) -> Iterator[None]:
        with (
            self.catalog.lease(apply_lease(view_id), wait=self.patience),
            self.catalog.lease(propagate_lease(view_id), wait=self.patience),
        ):
            yield

    def _prune(self, plan: GarbagePlan, view_id: str, garbage: ViewGarbage) -> None:
        view = self._present(view_id, garbage)
        if view is None:
            return
        self.sweeper.remove_past_deltas(view, self.catalog.released_deltas(view_id))
        if garbage.pruned_to is not None:
            text = prune_timeline_sql(view.location, garbage.pruned_to, plan.horizon.pinned)
            self.sweeper.run(text, f"pruning the timeline of {view.name}")
        if garbage.spare_delta and view.delta_location == garbage.delta_location:
            text = prune_view_delta_sql(view.delta_location, garbage.spare_delta)
            self.sweeper.run(text, f"pruning the view delta of {view.name}")
        self._trim(view.location, self.sweeper.committed_at(view.location, garbage.oldest_version))
        # A snapshot between releases reads the version of the view delta that was the newest when it opened.
        self._trim(view.delta_location, self.sweeper.standing_at(view.delta_location, plan.files_since()))
        for location in (view.location, view.delta_location):
            self.sweeper.compact(location)

    def _prune_log(self, plan: GarbagePlan, mirror_id: str, log: LogGarbage) -> None:
        """Under the lease of capture, which writes it; what is left now is part of what goes the next time.

        Nobody reads the table as it was before the state from which the log leads on.
        """
        with self.catalog.lease(CAPTURE, wait=self.patience):
            if all(mirror.mirror_id != mirror_id for mirror in self.catalog.mirrors()):
                return
            self.progress(f"{log.name}: pruning its log")
            spare = (Interval(BEGINNING, log.spare),)
            self.sweeper.run(prune_view_delta_sql(log.location, spare), f"pruning the log of {log.name}")
            self._trim(log.location, self.sweeper.standing_at(log.location, plan.files_since()))
            self.sweeper.compact(log.location)
            table, state = self.catalog.base_table(log.name), self.catalog.mirror_state(log.name, log.spare)
        hours = _hours(self.clock(), plan.files_since())
        self.sweeper.run(vacuum_sql(log.location, hours), f"vacuuming the log of {log.name}")
        self._vacuum_versions(plan, log.name, table.location, state.version)

    def _trim(self, location: str, since: Micros | None) -> None:
        """Let the log of a table forget what is older than the commit of the oldest version that somebody may name.

        Only if that is worth a checkpoint, and not often: Delta trims no further than to a checkpoint before that
        commit, and there may be none. None: that commit is not known, and all stays.
        """
        if since is not None and self._worth_trimming(location, since):
            days = (self.clock() - since) // _DAY + 2  # Delta trims by whole days
            self.sweeper.run(trim_sql(location, days), f"trimming the log of {location}")
        elif self.sweeper.keeps_all(location):
            return
        self.sweeper.run(keep_all_sql(location), f"guarding the log of {location}")

    def _worth_trimming(self, location: str, since: Micros) -> bool:
        if self.sweeper.log_since(location) >= since - _WEEK:
            return False
        last = self.sweeper.last_trimmed(location)
        return last is None or last < self.clock() - _WEEK

    def _vacuum(self, plan: GarbagePlan, view: ViewGarbage) -> None:
        now = self._present_delta(view)
        if now is not None:
            hours = _hours(self.clock(), plan.files_since())
            self.sweeper.run(vacuum_sql(now, hours), f"vacuuming the view delta of {view.name}")
        self._vacuum_versions(plan, view.name, view.location, view.oldest_version)

    def _vacuum_versions(self, plan: GarbagePlan, name: str, location: str, oldest: int) -> None:
        """Take the files of a table that no version from ``oldest`` on needs."""
        since = self._needed_since(plan, location, oldest)
        if since is not None:
            self.sweeper.run(vacuum_sql(location, _hours(self.clock(), since)), f"vacuuming {name}")

    def _present_delta(self, view: ViewGarbage) -> str | None:
        """The view delta of the plan, unless a recomputation has begun another since."""
        there = any(each.delta_location == view.delta_location for each in self.catalog.views())
        return view.delta_location if there else None

    def _needed_since(self, plan: GarbagePlan, location: str, oldest: int) -> Micros | None:
        """Files of a table that were live at this moment or later stay; None: how long is not known."""
        if self.sweeper.newest_version(location) <= oldest:
            return plan.files_since()
        replaced_at = self.sweeper.committed_at(location, oldest + 1)
        return None if replaced_at is None else plan.files_since(replaced_at)


def _hours(now: Micros, since: Micros) -> int:
    """Whole hours, rounded up: a little more may stay, nothing more may go.

    VACUUM counts back from when it runs. So must we, and not from when the plan was made: that may be long ago.
    """
    return (now - since) // _HOUR + 1
