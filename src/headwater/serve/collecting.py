"""What a garbage collection takes, from the catalog's rows: ``headwater.serve.retention`` in the catalog's terms.

*Decided, recorded, done.* The decision is made inside the catalog's write transaction that records it
(``Catalog.begin_collection``), so no lease, tag, release or step can come between. Everything that could still ask
for what goes is told in that transaction: readers by the horizon, apply by the view's ``kept_from``. After a crash
the recorded plan is simply carried out again.

*Files.* VACUUM takes every file that no version since some time needs. Three things need files:

- versions of kept releases: from ``oldest_version`` on;
- snapshots at moments between releases, which read a version of the view delta (and nothing else) that was the newest
  at some time since they opened: from ``leased_since`` on, the opening of the oldest lease that has not run out;
- statements that run right now, of drivers and of readers without a lease: from ``grace`` before that on.

So a query over what was taken can only fail, for want of a file: it never finds other rows than it should.

*View deltas and timelines* are pruned only of views in ``quiet``, whose apply lease the collector holds while it
decides: an apply that has found its target within reach and not yet recorded its step would otherwise lose the way
there. A timeline is pruned to where its view delta is, so that a view can be brought back as far in either layout.

*Logs of mirrored tables* are needed from the earliest moment on at which the table may be read: that of a release kept,
of a lease, or of the slowest leaf of a view on it. From that moment's stored state on the log leads everywhere later. A
table is read without a lease too, by whoever has looked at the catalog before. So the catalog says first what goes, and
the changes go in a collection at least the grace later, when all who had not heard have finished. Tables of which
nothing is copied keep their logs: these also hold transactions that the source may not show for a long time yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from headwater.algebra.time import Csn, Interval
from headwater.catalog.records import CollectionIntent, Holdings, Horizon, Layout, Micros, ReleaseRecord
from headwater.serve.retention import Keep, ReaderLease, Release, Retention, ViewState, decide

DEFAULT_GRACE: Micros = 3_600_000_000


@dataclass(frozen=True, slots=True)
class ViewGarbage:
    """Versions before ``oldest_version`` and the csns of ``spare_delta`` in the view delta may go.

    So may, of a timeline, what no moment from ``pruned_to`` on shows (None: nothing).
    """

    name: str
    location: str
    layout: Layout
    oldest_version: int
    delta_location: str
    spare_delta: tuple[Interval, ...]
    pruned_to: Csn | None = None


@dataclass(frozen=True, slots=True)
class LogGarbage:
    """Changes up to ``spare`` in the log of a mirrored table may go."""

    name: str
    location: str
    spare: Csn


@dataclass(frozen=True, slots=True)
class GarbagePlan:
    """By view id, and logs by mirror id."""

    horizon: Horizon
    leased_since: Micros
    grace: Micros
    views: Mapping[str, ViewGarbage]
    logs: Mapping[str, LogGarbage] = field(default_factory=dict)

    def files_since(self, replaced_at: Micros | None = None) -> Micros:
        """Files that were live at this moment or later stay.

        Given is when the oldest version kept was replaced by the next: its files were live until then.
        """
        return (self.leased_since if replaced_at is None else min(self.leased_since, replaced_at)) - self.grace

    def as_json(self) -> dict[str, Any]:
        return {
            "kept_from": self.horizon.kept_from,
            "pinned": sorted(self.horizon.pinned),
            "leased_since": self.leased_since,
            "grace": self.grace,
            "views": {
                view_id: {
                    "name": view.name,
                    "location": view.location,
                    "layout": view.layout,
                    "oldest_version": view.oldest_version,
                    "delta_location": view.delta_location,
                    "spare_delta": [[piece.start, piece.end] for piece in view.spare_delta],
                    "pruned_to": view.pruned_to,
                }
                for view_id, view in self.views.items()
            },
            "logs": {mirror_id: asdict(log) for mirror_id, log in self.logs.items()},
        }

    @classmethod
    def of_json(cls, plan: Mapping[str, Any]) -> GarbagePlan:
        return cls(
            Horizon(Csn(plan["kept_from"]), frozenset(Csn(csn) for csn in plan["pinned"])),
            plan["leased_since"],
            plan["grace"],
            {
                view_id: ViewGarbage(
                    view["name"],
                    view["location"],
                    view["layout"],
                    view["oldest_version"],
                    view["delta_location"],
                    tuple(Interval(Csn(start), Csn(end)) for start, end in view["spare_delta"]),
                    None if view.get("pruned_to") is None else Csn(view["pruned_to"]),
                )
                for view_id, view in plan["views"].items()
            },
            {
                mirror_id: LogGarbage(log["name"], log["location"], Csn(log["spare"]))
                for mirror_id, log in plan.get("logs", {}).items()
            },
        )


def intend(holdings: Holdings, quiet: Iterable[str], grace: Micros = DEFAULT_GRACE) -> CollectionIntent:
    """What to take of what is held; ``quiet`` are the ids of views that no apply is at work on."""
    still = frozenset(quiet)
    kept = _retention(holdings)
    horizon = Horizon(kept.kept_from, kept.pinned)
    views: dict[str, ViewGarbage] = {}
    kept_from: dict[str, Csn] = {}
    for held in holdings.views:
        record, own = held.record, kept.views[held.record.view_id]
        quiescent = record.view_id in still
        spare = own.spare_delta() if quiescent else ()
        pruned_to = own.delta_from if quiescent and record.layout == "timeline" else None
        if spare or pruned_to is not None:
            kept_from[record.view_id] = own.delta_from
        # Its present version always stays, and every one since may be released yet.
        oldest = record.version if own.oldest_version is None else min(own.oldest_version, record.version)
        views[record.view_id] = ViewGarbage(
            record.name, record.location, record.layout, oldest, record.delta_location, spare, pruned_to
        )
    open_since = [lease.opened_at for lease in holdings.leases if lease.expires_at > holdings.now]
    # Of what nobody has asked for during the grace the changes go now; what goes next is said then.
    ripe = [log for log in holdings.logs if log.said_at is None or log.said_at + grace <= holdings.now]
    gone = {log.mirror_id: LogGarbage(log.name, log.location, log.log_from) for log in ripe if log.said_at is not None}
    earliest = min([kept.kept_from, *kept.pinned, *(release.csn for release in kept.kept)])
    logs = {log.mirror_id: earliest if log.consumed is None else min(earliest, log.consumed) for log in ripe}
    plan = GarbagePlan(horizon, min([holdings.now, *open_since]), grace, views, gone)
    spare_releases = tuple(release.csn for release in kept.spare)
    return CollectionIntent(horizon, spare_releases, kept_from, plan.as_json(), logs)


def _retention(holdings: Holdings) -> Retention:
    settings = holdings.settings
    return decide(
        [_release(release) for release in holdings.releases],
        [ReaderLease(lease.csn, lease.expires_at) for lease in holdings.leases],
        Keep(settings.count, settings.age, settings.tags),
        holdings.now,
        {held.record.view_id: ViewState(held.record.created_csn, held.consumed) for held in holdings.views},
        holdings.horizon.kept_from,
    )


def _release(release: ReleaseRecord) -> Release:
    versions = {view.view_id: view.version for view in release.views}
    return Release(release.csn, release.published_at, versions, release.tags)
