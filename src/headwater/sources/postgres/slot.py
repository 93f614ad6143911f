"""The replication slot: the server's log from where we left it, exactly once.

The log is read with ``pg_logical_slot_peek_binary_changes`` over an ordinary connection. Peeking moves nothing; the
slot moves only when the caller says up to where the changes are durable, which it does by reading on from there:

    position = stored position                        # the slot's own when it was made
    with closing(reader.read(position)) as batch:     # the slot forgets what is at or before position
        store the batch's changes and batch.position  # in one transaction, or idempotently
                                                      # a crash here reads the same batch again

*Nothing twice.* A transaction that ends at or before the position is passed over, also when a server that crashed has
forgotten how far its slot was: that is saved lazily.

*Nothing lost.* The slot never stands beyond the position (else somebody else moved it: ``SlotLost``), so every commit
after the position is still to come.

*Nothing kept for others.* A slot must move on over traffic that is not ours, or the server keeps its log for ever. The
position of a batch that was not cut short may so lie beyond its last transaction, at a place that (1) was the end of
the **inserted** log at some time, which is where a record begins, and (2) was **flushed** before the peek, which has
then read every commit before it. The end of the flushed log itself would not do: it may lie inside a commit, and a
slot that stood there would pass over that commit. Under steady traffic that is flushed late no end is ever flushed when
it is read, so the ends of earlier reads are kept until they are, or until the connection breaks: after a crash the
server's log may go on differently from where it was flushed.

*Large transactions.* ``most_messages`` bounds a batch to whole transactions: one that is larger comes alone, through a
cursor on the server and into the spool, and is never in memory as a whole. A batch that fails half way is dropped and
read again.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from psycopg import sql

from headwater.errors import DatabaseNotReady, InvalidInput, SlotLost, SourceProblem
from headwater.sources.postgres.changes import split
from headwater.sources.postgres.connection import Connection, Retry, translated
from headwater.sources.postgres.positions import Lsn, Xid, format_lsn, parse_lsn
from headwater.sources.postgres.publication import Membership, lost_keys, problems
from headwater.sources.postgres.spool import Batch, SpoolFactory, collected, spool_beyond
from headwater.sources.postgres.tables import SourceTable

T = TypeVar("T")

PLUGIN = "pgoutput"
MESSAGES_A_BATCH = 50_000
_FETCH = 2_000
_ENDS = 100
_RESYNC = "Start over with resync, which finds what changed in the gap, deletes too, without rebuilding the views."

_STATE = """
SELECT s.plugin, s.database = current_database(), s.active, s.confirmed_flush_lsn::text,
       coalesce(s.wal_status, 'reserved'),
       coalesce(to_jsonb(s) ->> 'invalidation_reason',
                CASE WHEN (to_jsonb(s) ->> 'conflicting')::boolean THEN 'conflict' END)
FROM pg_replication_slots AS s WHERE s.slot_name = %s
"""
_NOW = """
SELECT pg_current_wal_insert_lsn()::text, pg_current_wal_flush_lsn()::text,
       pg_snapshot_xmax(pg_current_snapshot())::text::bigint
"""
_PEEK = """
SELECT data FROM pg_logical_slot_peek_binary_changes(
    %s, NULL, %s, 'proto_version', '1', 'publication_names', %s)
"""


@dataclass(frozen=True, slots=True)
class SlotState:
    name: str
    plugin: str
    of_this_database: bool
    active: bool
    confirmed: Lsn
    wal_status: str
    """reserved, extended, unreserved or lost."""
    invalidated: str | None
    """Why the server has given the slot up, where it says so."""


def slot_state(connection: Connection, name: str) -> SlotState | None:
    """None without such a slot."""
    found = connection.execute(_STATE, (name,)).fetchone()
    if found is None:
        return None
    plugin, here, active, confirmed, wal_status, invalidated = found
    return SlotState(name, plugin or "", bool(here), active, parse_lsn(confirmed or "0/0"), wal_status, invalidated)


def create_slot(connection: Connection, name: str, database: str) -> Lsn:
    """Make a slot; the position at which it begins. Waits for the transactions that are writing now."""
    if not re.fullmatch(r"[a-z0-9_]{1,63}", name):
        raise InvalidInput(
            f"{name!r} is no name for a slot.", remedy="Use lower-case letters, digits and _, at most 63 of them."
        )
    level = connection.execute("SELECT current_setting('wal_level')").fetchone()
    if level is not None and level[0] != "logical":
        raise DatabaseNotReady(
            f"{database} logs at wal_level {level[0]!r}, which does not tell rows.",
            database=database,
            remedy="As a superuser: ALTER SYSTEM SET wal_level = 'logical'; and restart the server.",
        )
    with translated(database, f"creating the slot {name}"):
        made = connection.execute(
            "SELECT lsn::text FROM pg_create_logical_replication_slot(%s, %s)", (name, PLUGIN)
        ).fetchone()
    assert made is not None  # noqa: S101  the function returns one row
    return parse_lsn(made[0])


def drop_slot(connection: Connection, name: str, database: str) -> None:
    """Make the server forget the slot, which otherwise keeps its log for ever; no error if it is gone."""
    with translated(database, f"dropping the slot {name}"):
        connection.execute(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s", (name,)
        )


def require_usable(state: SlotState | None, name: str, position: Lsn, log_end: Lsn, database: str) -> SlotState:
    """The slot, if every change after ``position`` is still to be had from it."""
    if state is None:
        raise SlotLost(f"The slot {name!r} at {database} was dropped.", database=database, remedy=_RESYNC)
    if state.plugin != PLUGIN or not state.of_this_database:
        raise DatabaseNotReady(
            f"The slot {name!r} is of plugin {state.plugin!r}, or of another database than {database}.",
            database=database,
            remedy=f"Give a slot of the plugin {PLUGIN} in this database, used by nobody else.",
        )
    if state.wal_status == "lost" or state.invalidated is not None:
        raise SlotLost(
            f"The server at {database} has given up the slot {name!r} ({state.invalidated or 'its log was removed'}).",
            database=database,
            remedy=f"{_RESYNC} To avoid it, capture more often or raise max_slot_wal_keep_size.",
        )
    if state.confirmed > position:
        raise SlotLost(
            f"The slot {name!r} at {database} stands at {format_lsn(state.confirmed)}, beyond {format_lsn(position)}, "
            "up to where its changes were read: somebody else has moved it, or made it anew.",
            database=database,
            remedy=f"{_RESYNC} Give each lake a slot of its own.",
        )
    if position > log_end:
        raise SlotLost(
            f"The log of {database} ends at {format_lsn(log_end)}, before {format_lsn(position)}, up to where it was "
            "read: the server was restored from a backup.",
            database=database,
            remedy=_RESYNC,
        )
    return state


@dataclass(frozen=True, slots=True)
class _Now:
    log_end: Lsn
    """Of what is inserted: where the next record begins."""
    flushed: Lsn
    near: Xid


def _now(connection: Connection) -> _Now:
    found = connection.execute(_NOW).fetchone()
    assert found is not None  # noqa: S101  one row
    return _Now(parse_lsn(found[0]), parse_lsn(found[1]), Xid(found[2]))


def log_end(connection: Connection) -> Lsn:
    """Of what is inserted."""
    return _now(connection).log_end


class _Counted:
    """Messages on their way, counted."""

    def __init__(self, messages: Iterable[bytes]) -> None:
        self._messages = messages
        self.count = 0

    def __iter__(self) -> Iterator[bytes]:
        for data in self._messages:
            self.count += 1
            yield data


class SlotReader:
    """Reads one slot; not for several threads at once."""

    def __init__(
        self,
        connect: Callable[[], Connection],
        slot: str,
        joined: Membership,
        tables: Sequence[SourceTable],
        *,
        database: str,
        spool: SpoolFactory | None = None,
        retry: Retry | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._connect = connect
        self._slot = slot
        self._joined = joined
        self._tables = tuple(tables)
        self._database = database
        self._spool = spool or spool_beyond()
        self._retry = retry or Retry()
        self._sleep = sleep
        self._open: Connection | None = None
        self._ends: list[Lsn] = []

    def close(self) -> None:
        # A server that crashed writes other records where unflushed ones were: no end outlives its connection.
        self._ends = []
        if self._open is not None:
            self._open.close()
            self._open = None

    def problems(self) -> tuple[SourceProblem, ...]:
        """What keeps single tables from being read exactly, as each batch tells too."""
        return self._retried("checking the tables", lambda c: problems(c, self._tables, self._joined, self._database))

    def read(self, position: Lsn, most_messages: int = MESSAGES_A_BATCH) -> Batch:
        """What was committed after ``position``, up to which the caller has everything durably."""
        return self._retried("reading the log", lambda c: self._read(c, position, most_messages))

    def confirm(self, position: Lsn) -> None:
        """Let the server forget what lies at or before ``position``, without reading on."""
        self._retried("moving the slot", lambda c: self._advance(c, position))

    def _read(self, connection: Connection, position: Lsn, most_messages: int) -> Batch:
        self._advance(connection, position)
        now = _now(connection)
        spool = self._spool()
        try:
            messages = _Counted(self._peek(connection, most_messages))
            pieces = split(messages, now.near, self._database)
            transactions, reached = collected(pieces, spool, self._tables, position, self._database)
            # After the peek: what the publication left out of it is noticed with it.
            found = problems(connection, self._tables, self._joined, self._database)
            lost = lost_keys(connection, self._tables, [each.head.xid for each in transactions])
        except BaseException:
            spool.close()
            raise
        complete = messages.count < most_messages
        if complete:
            self._ends.append(now.log_end)
            passed = [end for end in self._ends if end <= now.flushed]
            self._ends = [end for end in self._ends if end > now.flushed][:_ENDS]
            reached = max(reached, *passed) if passed else reached
        return Batch(transactions, reached, complete, found, lost, spool)

    def _advance(self, connection: Connection, position: Lsn) -> None:
        state = slot_state(connection, self._slot)
        log_end = _now(connection).log_end
        if require_usable(state, self._slot, position, log_end, self._database).confirmed < position:
            connection.execute("SELECT pg_replication_slot_advance(%s, %s::pg_lsn)", (self._slot, format_lsn(position)))

    def _peek(self, connection: Connection, most_messages: int) -> Iterator[bytes]:
        # A list of identifiers in one text, so quoted here and bound as a whole.
        names = sql.Identifier(self._joined.publication).as_string(connection)
        with connection.transaction(), connection.cursor(name="headwater_log", binary=True) as cursor:
            cursor.itersize = _FETCH
            cursor.execute(_PEEK, (self._slot, most_messages, names))
            for (data,) in cursor:
                yield data

    def _retried(self, doing: str, action: Callable[[Connection], T]) -> T:
        def once() -> T:
            try:
                with translated(self._database, doing):
                    return action(self._connection())
            except BaseException:
                # Whatever state it is in, the next attempt does not find out.
                self.close()
                raise

        return self._retry.run(once, self._sleep)

    def _connection(self) -> Connection:
        if self._open is None:
            self._open = self._connect()
        return self._open
