"""The first copy of tables, and where the log takes over.

The copy runs in one REPEATABLE READ transaction and notes the snapshot that it sees. Which transactions of the log it
already holds is then a matter of their numbers (``visibility``): those are discarded, all others applied. Nothing is
locked, and nothing need be known about *when* either began.

*Why nothing falls between.* The tables are prepared first (publication, slot), then a **fence** is taken: a fresh
transaction number, greater than that of any transaction begun so far. The copy waits for a snapshot in which all
transactions before the fence are finished. Take a transaction T that the snapshot does not see. Then T's number is at
least the fence, so T began after everything was prepared: all that it did is published, and its commit comes after
the slot's beginning. So it is in the log. Without the fence it need not be: T may have written rows before its table
was published, or have logged its commit before the slot began and not yet become visible, and then T is in neither.

The fence must be a number of our own. A snapshot's xmax would not do: a running transaction may have that number
already.

*Why nothing vanishes.* With asynchronous commit a snapshot shows transactions whose commits are not on disk yet, and a
crash takes them back. So the copy begins only when the log is flushed to where it ended after the snapshot was taken.

Many readers can share the copy: ``exported`` names the snapshot for SET TRANSACTION SNAPSHOT while the block lasts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from psycopg import IsolationLevel, sql

from headwater.errors import DatabaseUnavailable
from headwater.sources.postgres.changes import TransactionHead
from headwater.sources.postgres.connection import Connection, translated
from headwater.sources.postgres.positions import Lsn, Xid, parse_lsn
from headwater.sources.postgres.tables import Row, SourceTable, row_reader
from headwater.sources.postgres.visibility import Covered, TransactionSnapshot

_PAUSE = 0.05


@dataclass(frozen=True, slots=True)
class InitialCopy:
    snapshot: TransactionSnapshot
    exported: str
    covered: Covered
    """How far the log must be read before all that the copy holds is known by number."""
    _connection: Connection
    _database: str

    def holds(self, transaction: TransactionHead) -> bool:
        """Whether the copy has what this transaction did: discard it from the log."""
        return self.snapshot.sees(transaction.xid)

    def rows(self, table: SourceTable) -> Iterator[Row]:
        """The table's rows, one after another, read as those of the log are."""
        statement = sql.SQL("COPY (SELECT {} FROM ONLY {}) TO STDOUT").format(
            sql.SQL(", ").join(sql.Identifier(column.name) for column in table.columns),
            sql.Identifier(table.name.schema, table.name.name),
        )
        read = row_reader(table)
        with (
            translated(self._database, f"copying {table.name}"),
            self._connection.cursor() as cursor,
            cursor.copy(statement) as copy,
        ):
            for values in copy.rows():
                yield read(values)


def take_fence(connection: Connection, database: str) -> Xid:
    """A transaction number greater than that of any transaction begun so far."""
    with translated(database, "taking a transaction number"):
        found = connection.execute("SELECT pg_current_xact_id()::text::bigint").fetchone()
    assert found is not None  # noqa: S101  one row
    return Xid(found[0])


@contextmanager
def copying(
    connection: Connection,
    fence: Xid,
    *,
    database: str,
    patience: float = 600.0,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[InitialCopy]:
    """A copy in whose snapshot every transaction before ``fence`` is finished, waited for up to ``patience`` seconds.

    The connection is the copy's while the block lasts.
    """
    deadline = clock() + patience
    while True:
        with translated(database, "opening a snapshot"):
            snapshot = _snapshot(connection)
        if snapshot.finished_before(fence):
            break
        if clock() > deadline:
            raise DatabaseUnavailable(
                f"A transaction that was open when {database} was prepared is still open after {patience:.0f} s "
                f"(the oldest has the number {snapshot.xmin}); a copy that does not see it could lose what it does.",
                database=database,
                remedy="End it (pg_stat_activity, pg_prepared_xacts), then try again: nothing was copied.",
            )
        sleep(_PAUSE)
    level = connection.isolation_level
    connection.isolation_level = IsolationLevel.REPEATABLE_READ
    connection.read_only = True
    try:
        with translated(database, "copying"), connection.transaction():
            # A copy takes as long as it takes; a dead connection is noticed by the network's limit.
            connection.execute("SET LOCAL statement_timeout = 0")
            # Later than the look above, so no transaction before the fence is unfinished in it either.
            taken = _snapshot(connection)
            row = connection.execute("SELECT pg_export_snapshot(), pg_current_wal_insert_lsn()::text").fetchone()
            assert row is not None  # noqa: S101  one row
            log_end = parse_lsn(row[1])
            while _flushed(connection) < log_end:
                sleep(_PAUSE)
            yield InitialCopy(taken, row[0], Covered(log_end), connection, database)
    finally:
        if not connection.closed:
            connection.isolation_level = level
            connection.read_only = None


def _flushed(connection: Connection) -> Lsn:
    found = connection.execute("SELECT pg_current_wal_flush_lsn()::text").fetchone()
    assert found is not None  # noqa: S101  one row
    return parse_lsn(found[0])


def _snapshot(connection: Connection) -> TransactionSnapshot:
    found = connection.execute("SELECT pg_current_snapshot()::text").fetchone()
    assert found is not None  # noqa: S101  one row
    return TransactionSnapshot.parse(found[0])
