"""Writing under leases.

A driver that was paused or cut off may wake up after another took over its lease. Each lease therefore carries a
token that grows with every acquisition, and each write of the catalog compares it with the newest one inside its
own transaction. Writes are serialised, so no takeover can fall between the comparison and the commit: the
zombie's write raises LeaseLost and leaves nothing.

A lease that ran out but that nobody took over is still good: nobody else has written in between.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, TypeAlias

import sqlalchemy as sa

from headwater.catalog import schema
from headwater.catalog.database import Database
from headwater.errors import LeaseLost


@dataclass(frozen=True, slots=True)
class Lease:
    resource: str
    holder: str
    token: int


Held: TypeAlias = Lease | Sequence[Lease]
"""The lease, or all leases, under which something is written."""


class FencedTables:
    """The base of every group of catalog tables: reads are free, writes are made under leases."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @contextmanager
    def _under(self, held: Held) -> Iterator[sa.Connection]:
        with self._database.write() as connection:
            for lease in [held] if isinstance(held, Lease) else held:
                require_held(connection, lease)
            yield connection


def lease_row(connection: sa.Connection, resource: str) -> sa.Row[Any] | None:
    table = schema.driver_leases
    return connection.execute(sa.select(table).where(table.c.resource == resource)).one_or_none()


def require_held(connection: sa.Connection, lease: Lease) -> None:
    row = lease_row(connection, lease.resource)
    if row is not None and row.token == lease.token and row.holder == lease.holder:
        return
    if row is None or not row.holder:
        now = "nobody holds it now"
        fields: dict[str, Any] = {}
    else:
        now = describe_holder(row)
        fields = {"holder": row.holder, "host": row.host, "pid": row.pid, "expires_at": row.expires_at}
    raise LeaseLost(
        f"The lease on {lease.resource!r} (token {lease.token}) was lost: {now}. Nothing was written.",
        remedy="Take the lease again and start from what the catalog says now.",
        resource=lease.resource,
        **fields,
    )


def describe_holder(row: sa.Row[Any]) -> str:
    until = datetime.fromtimestamp(row.expires_at / 1_000_000, timezone.utc).isoformat(timespec="seconds")
    return f"it is held by {row.holder} (pid {row.pid} on {row.host}) until {until}"
