"""Reader leases: what keeps garbage collection from the moment that a snapshot reads.

The row is the lease. It is given in a write transaction that also finds its csn still kept, and a collection decides,
lets go of leases that ran out, and records what is kept from then on in one write transaction of its own. Writes are
serialised: either the collection came first and the reader is told that the moment is gone, or the reader came first
and the collection finds its lease. There is no third case.

A lease that ran out is good for as long as no collection came by: nothing was taken, so it may be renewed.
"""

from __future__ import annotations

import uuid
from typing import Any

import sqlalchemy as sa

from headwater.algebra.time import Csn
from headwater.catalog import schema
from headwater.catalog.fencing import FencedTables
from headwater.catalog.records import OpenedReader, ReaderLeaseRecord, ReleasedView
from headwater.catalog.releases import newest_release_csn, released_view
from headwater.catalog.retention import read_horizon
from headwater.catalog.views import read_views
from headwater.errors import InvalidInput, MomentBeforeHistory, MomentInFuture, NothingReleased, SnapshotExpired

_leases = schema.reader_leases


class Readers(FencedTables):
    def open_reader(self, csn: Csn | None, *, holder: str, ttl: float) -> OpenedReader:
        """A lease on a csn (None: of the newest release) for ``ttl`` seconds."""
        if ttl <= 0:
            raise InvalidInput(f"A lease of {ttl} seconds can't be kept.", remedy="Give a positive ttl.")
        with self._database.write() as connection:
            moment = _require_kept(connection, csn)
            now = self._database.lease_time(connection)
            lease = ReaderLeaseRecord(uuid.uuid4().hex, moment, holder, now, now, now + round(ttl * 1_000_000))
            values = {column.name: getattr(lease, column.name) for column in _leases.c}
            connection.execute(sa.insert(_leases).values(**values))
            return OpenedReader(lease, tuple(read_views(connection)), _anchors(connection, moment))

    def renew_reader(self, snapshot_id: str, *, ttl: float) -> ReaderLeaseRecord:
        """A sign of life; SnapshotExpired when the lease ran out and a collection took its moment."""
        with self._database.write() as connection:
            now = self._database.lease_time(connection)
            this = _leases.c.snapshot_id == snapshot_id
            renewed = {"heartbeat_at": now, "expires_at": now + round(ttl * 1_000_000)}
            connection.execute(sa.update(_leases).where(this).values(**renewed))
            return _find(connection, snapshot_id)

    def reader(self, snapshot_id: str) -> ReaderLeaseRecord:
        """The lease; SnapshotExpired when it is no more."""
        with self._database.read() as connection:
            return _find(connection, snapshot_id)

    def close_reader(self, snapshot_id: str) -> None:
        """Give the lease back; harmless when it is gone."""
        with self._database.write() as connection:
            connection.execute(sa.delete(_leases).where(_leases.c.snapshot_id == snapshot_id))

    def readers(self) -> list[ReaderLeaseRecord]:
        """Every lease that no collection has let go of, the oldest first."""
        with self._database.read() as connection:
            return read_readers(connection)


def read_readers(connection: sa.Connection) -> list[ReaderLeaseRecord]:
    return [_lease(row) for row in connection.execute(sa.select(_leases).order_by(_leases.c.opened_at))]


def _require_kept(connection: sa.Connection, csn: Csn | None) -> Csn:
    newest = newest_release_csn(connection)
    if newest is None:
        raise NothingReleased("Nothing has been released yet.", remedy="Publish a release first: lake.release().")
    if csn is None or csn == newest:
        return newest
    if csn > newest:
        raise MomentInFuture(
            f"The newest release is of csn {newest}; csn {csn} is beyond it.",
            remedy="Publish a release first, or ask for an earlier moment.",
            newest=newest,
        )
    horizon = read_horizon(connection)
    releases = schema.releases
    released = connection.execute(sa.select(releases.c.csn).where(releases.c.csn == csn)).first() is not None
    if not released and csn < horizon.kept_from and csn not in horizon.pinned:
        raise MomentBeforeHistory(
            f"Csn {csn} is not kept any more: every csn from {horizon.kept_from} on is.",
            remedy=f"Ask for csn {horizon.kept_from} or later; keep more history to have more next time.",
            kept_from=horizon.kept_from,
        )
    return csn


def _anchors(connection: sa.Connection, moment: Csn) -> dict[str, tuple[Csn, ReleasedView]]:
    table = schema.release_views
    first = sa.select(table.c.view_id, sa.func.min(table.c.csn).label("csn")).where(table.c.csn >= moment)
    wanted = first.group_by(table.c.view_id).subquery()
    same = sa.and_(table.c.view_id == wanted.c.view_id, table.c.csn == wanted.c.csn)
    rows = connection.execute(sa.select(table).select_from(table.join(wanted, same)))
    return {row.view_id: (Csn(row.csn), released_view(row)) for row in rows}


def _find(connection: sa.Connection, snapshot_id: str) -> ReaderLeaseRecord:
    row = connection.execute(sa.select(_leases).where(_leases.c.snapshot_id == snapshot_id)).one_or_none()
    if row is None:
        raise SnapshotExpired(
            "The snapshot's lease ran out, and what it read may be gone.",
            remedy="Open a new snapshot; give it a longer ttl if its process may be held up.",
            snapshot=snapshot_id,
        )
    return _lease(row)


def _lease(row: sa.Row[Any]) -> ReaderLeaseRecord:
    return ReaderLeaseRecord(**row._asdict())
