"""Garbage collection as the catalog sees it: what is to go, and that it is gone.

A collection is decided inside the write transaction that records it (``begin_collection``): from then on the releases
that it takes are no more, moments that it takes are given to no reader, and views can't go back beyond what it leaves.
Only then are files touched. A collection that is still ``intended`` was cut short: its plan is carried out again.
Since it names only what nobody could ask for any more, that is right at any later time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from headwater.algebra.time import Csn
from headwater.catalog import names, schema
from headwater.catalog.fencing import FencedTables, Held
from headwater.catalog.mirrors import keep_log, read_logs
from headwater.catalog.readers import read_readers
from headwater.catalog.records import (
    CollectionIntent,
    CollectionRecord,
    HeldView,
    Holdings,
    JsonObject,
    Micros,
    ViewRecord,
)
from headwater.catalog.releases import delete_releases, read_releases
from headwater.catalog.retention import read_horizon, read_settings, write_retention
from headwater.catalog.views import read_leaves, read_views, update_view
from headwater.errors import InternalError

_table = schema.collections


class Collections(FencedTables):
    def begin_collection(self, lease: Held, decide: Callable[[Holdings], CollectionIntent]) -> CollectionRecord:
        """Decide from all that is held, and record the decision with everything that follows from it in the catalog.

        ``decide`` is called inside the transaction and must only compute. Leases that ran out are let go.
        """
        with self._under(lease) as connection:
            if _open(connection) is not None:
                raise InternalError("A collection that was cut short is to be carried out first.")
            now = self._database.lease_time(connection)
            holdings = _holdings(connection, now)
            intent = decide(holdings)
            readers = schema.reader_leases
            connection.execute(sa.delete(readers).where(readers.c.expires_at <= now))
            delete_releases(connection, intent.spare_releases)
            write_retention(connection, holdings.settings, intent.horizon)
            before = {held.record.view_id: held.record.kept_from for held in holdings.views}
            for view_id, kept_from in intent.kept_from.items():
                if kept_from > before[view_id]:
                    update_view(connection, view_id, kept_from=kept_from)
            for mirror_id, moment in intent.logs.items():
                keep_log(connection, mirror_id, moment, now)
            # The last plan stays until there is another: it tells which versions may be gone.
            connection.execute(sa.delete(_table))
            values = {"state": "intended", "plan": intent.plan, "started_at": now}
            return _record(connection.execute(sa.insert(_table).values(**values).returning(_table)).one())

    def open_collection(self) -> CollectionRecord | None:
        """The collection that was begun and not finished, if there is one."""
        with self._database.read() as connection:
            return _open(connection)

    def finish_collection(self, lease: Held, collection_id: int, outcome: JsonObject | None = None) -> None:
        with self._under(lease) as connection:
            found = _open(connection)
            if found is None or found.collection_id != collection_id:
                raise InternalError(f"There is no collection {collection_id} to finish.")
            done = {"state": "done", "outcome": outcome, "finished_at": self._database.lease_time(connection)}
            connection.execute(sa.update(_table).where(_table.c.collection_id == collection_id).values(**done))


def _holdings(connection: sa.Connection, now: Micros) -> Holdings:
    views = read_views(connection)
    return Holdings(
        now=now,
        releases=tuple(read_releases(connection)),
        leases=tuple(read_readers(connection)),
        settings=read_settings(connection),
        horizon=read_horizon(connection),
        views=tuple(HeldView(view, _consumed(connection, view, views)) for view in views),
        logs=tuple(replace(log, consumed=_taken(connection, log.name, views)) for log in read_logs(connection)),
    )


def _consumed(connection: sa.Connection, view: ViewRecord, views: Sequence[ViewRecord]) -> Csn:
    """Nobody but a reader of the past will ask for the view delta before this csn.

    A view that reads this one needs its state where the slowest of all its leaves stands, not only its change since the
    leaf's own time; one that is computed from scratch needs none of the past.
    """
    found = [view.csn]
    taken = _taken(connection, view.name, views)
    found += [] if taken is None else [taken]
    steps = schema.steps
    unfinished = sa.select(steps.c.intent).where(
        steps.c.view_id == view.view_id, steps.c.driver == "apply", steps.c.state == "intended"
    )
    for intent in connection.execute(unfinished).scalars():
        found += [Csn(intent[end]) for end in ("from", "to") if end in intent]
    return min(found)


def _taken(connection: sa.Connection, name: str, views: Sequence[ViewRecord]) -> Csn | None:
    """Up to where every view that reads a table or view has taken its changes; None without any."""
    users = names.users_of(connection, name)
    kept = [view.view_id for view in views if view.name in users and not view.from_scratch]
    lists, steps = schema.query_lists, schema.steps
    found = [leaf.t_comp for view_id in kept for leaf in read_leaves(connection, view_id)]
    found += connection.execute(sa.select(lists.c.start_csn).where(lists.c.view_id.in_(kept))).scalars()
    unfinished = sa.select(steps.c.intent).where(steps.c.view_id.in_(kept), steps.c.state == "intended")
    # Where a view is recomputed, it goes on.
    found += [intent["recompute"] for intent in connection.execute(unfinished).scalars() if "recompute" in intent]
    return Csn(min(found)) if found else None


def _open(connection: sa.Connection) -> CollectionRecord | None:
    row = connection.execute(sa.select(_table).where(_table.c.state == "intended")).one_or_none()
    return None if row is None else _record(row)


def _record(row: sa.Row[Any]) -> CollectionRecord:
    return CollectionRecord(**row._asdict())
