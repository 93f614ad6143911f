"""A view or table at a moment without a release or a lease: what ``lake.read`` and ``lake.sql`` bind a name to.

The version of the view's table and of its view delta are settled once, so a frame shows the same whenever it runs,
or fails once garbage collection has taken a file of it (which it does not for the grace of an hour).

*In which order.* First the view as the catalog knows it, then the newest version of its view delta, then the catalog
again. The first makes sure that the version holds all up to the high-water mark of then. The last, that nothing was
pruned from it that is asked for: a collection says in the catalog what a view loses before it takes any of it. So it
is with a mirrored table and its log.
"""

from __future__ import annotations

from dataclasses import replace

from headwater.algebra.time import Csn
from headwater.apply.driver import require_reachable
from headwater.catalog.records import ViewRecord
from headwater.context import Context
from headwater.pinning import pinned_table
from headwater.sql.pinned import Pinned, PinnedMirror, PinnedTimeline, PinnedView


def pin_view(context: Context, name: str, at: Csn | None) -> Pinned:
    """The view at a csn up to its high-water mark (None: as it stands)."""
    while True:
        view = context.catalog.view(name)
        moment = view.csn if at is None else at
        require_reachable(context, view, moment)
        if moment == view.csn or (moment < view.csn and view.layout == "timeline"):
            return _pinned(view, moment, None)
        delta_version = context.engine.newest_version(view.delta_location)
        now = context.catalog.view(name)
        require_reachable(context, now, moment)
        if now.delta_location == view.delta_location:
            return _pinned(view, moment, delta_version)


def pin_table(context: Context, name: str, at: Csn) -> Pinned:
    """A tracked table at a csn."""
    pinned = pinned_table(context.catalog, name, at)
    if not isinstance(pinned, PinnedMirror) or pinned.at == pinned.stored_at:
        return pinned
    log_version = context.engine.newest_version(pinned.log_location)
    context.catalog.require_logged(name, pinned.stored_at)
    return replace(pinned, log_version=log_version)


def _pinned(view: ViewRecord, at: Csn, delta_version: int | None) -> Pinned:
    columns = tuple(column for column, _ in view.columns)
    if view.layout == "timeline" and at <= view.csn:
        return PinnedTimeline(view.location, view.version, columns, at)
    return PinnedView(
        view.location,
        view.version,
        columns,
        view.csn,
        at,
        view.delta_location,
        delta_version,
        timeline=view.layout == "timeline",
    )
