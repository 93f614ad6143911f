"""Taking, keeping and giving back leases.

A lease belongs to a driver for ``ttl`` seconds and is renewed every third of that by a thread of its own. It passes
to the next who asks when it was given back, when it ran out, or at once when its holder is a process of this
machine that has died. The row stays when the lease is given back, so that its token keeps growing.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from headwater.catalog import schema
from headwater.catalog.database import Database
from headwater.catalog.fencing import FencedTables, Lease, describe_holder, lease_row, require_held
from headwater.catalog.processes import Process
from headwater.errors import HeadwaterError, InternalError, InvalidInput, LeaseHeld

_POLL_SECONDS = 0.05
_table = schema.driver_leases
_log = logging.getLogger("headwater.catalog")


class Leases(FencedTables):
    def __init__(self, database: Database) -> None:
        super().__init__(database)
        program = Path(sys.argv[0]).name if sys.argv and sys.argv[0] not in ("", "-c", "-m") else "python"
        self._holder = f"{program}-{uuid.uuid4().hex[:8]}"

    @contextmanager
    def lease(self, resource: str, *, ttl: float = 60.0, wait: float = 0.0) -> Iterator[Lease]:
        """Hold ``resource`` for the length of the block; LeaseHeld when another still has it after ``wait`` seconds."""
        if ttl <= 0:
            raise InvalidInput(f"A lease of {ttl} seconds can't be kept.", remedy="Give a positive ttl.")
        taken = self._acquire(resource, ttl, wait)
        stop = threading.Event()
        heartbeat = threading.Thread(
            target=self._keep, args=(taken, ttl, stop), name=f"headwater-lease-{resource}", daemon=True
        )
        heartbeat.start()
        try:
            yield taken
        except InternalError:
            # Who lost the lease finds things other than it left them, which is no fault of ours: say what it is.
            self.check_lease(taken)
            raise
        finally:
            stop.set()
            heartbeat.join()
            self._release(taken)

    def check_lease(self, lease: Lease) -> None:
        """Raise LeaseLost unless ``lease`` is still held: worth asking before long work."""
        with self._database.read() as connection:
            require_held(connection, lease)

    def _acquire(self, resource: str, ttl: float, wait: float) -> Lease:
        deadline = time.monotonic() + wait
        while isinstance(outcome := self._try_acquire(resource, ttl), LeaseHeld):
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise outcome
            time.sleep(min(_POLL_SECONDS, remaining))
        return outcome

    def _try_acquire(self, resource: str, ttl: float) -> Lease | LeaseHeld:
        me = Process.current()
        with self._database.write() as connection:
            now = self._database.lease_time(connection)
            row = lease_row(connection, resource)
            if row is not None and _is_alive(row, now):
                return LeaseHeld(
                    f"The lease on {resource!r} is taken: {describe_holder(row)}.",
                    remedy="Wait for that process to finish, or stop it.",
                    resource=resource,
                    holder=row.holder,
                    host=row.host,
                    pid=row.pid,
                    expires_at=row.expires_at,
                )
            lease = Lease(resource, self._holder, 1 if row is None else row.token + 1)
            values = {
                "holder": lease.holder,
                "host": me.host,
                "pid": me.pid,
                "process": me.identity,
                "token": lease.token,
                "expires_at": now + round(ttl * 1_000_000),
            }
            if row is None:
                connection.execute(sa.insert(_table).values(resource=resource, **values))
            else:
                connection.execute(sa.update(_table).where(_table.c.resource == resource).values(**values))
            return lease

    def _keep(self, lease: Lease, ttl: float, stop: threading.Event) -> None:
        while not stop.wait(ttl / 3):
            try:
                with self._database.write() as connection:
                    expires_at = self._database.lease_time(connection) + round(ttl * 1_000_000)
                    kept = connection.execute(_own(lease).values(expires_at=expires_at)).rowcount
            except HeadwaterError as error:
                _log.warning("could not renew the lease on %r, trying again: %s", lease.resource, error)
                continue
            if not kept:
                _log.warning("lost the lease on %r", lease.resource)
                return

    def _release(self, lease: Lease) -> None:
        try:
            with self._database.write() as connection:
                connection.execute(_own(lease).values(holder="", host="", pid=0, process="", expires_at=0))
        except HeadwaterError as error:
            # It runs out by itself; raising here would hide how the block ended.
            _log.warning("could not give back the lease on %r, it will run out: %s", lease.resource, error)


def _own(lease: Lease) -> sa.Update:
    mine = (_table.c.resource == lease.resource) & (_table.c.token == lease.token) & (_table.c.holder == lease.holder)
    return sa.update(_table).where(mine)


def _is_alive(row: sa.Row[Any], now: int) -> bool:
    if not row.holder or row.expires_at <= now:
        return False
    return not Process(row.host, row.pid, row.process).is_certainly_dead()
