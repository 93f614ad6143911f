"""Where the messages of a batch wait until they are read: in memory while they are few, on disk beyond.

A batch holds whole transactions, and a transaction may be of any size. What waits are the messages of the log
themselves, one after another; they are turned into rows only while somebody iterates, one at a time. So the memory
needed is the spool's bound plus one message, whatever the transaction.

The contract of a spool is that of a binary file that can be written, sought and read, and whose contents are gone when
it is closed: give another factory to let it lie elsewhere.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypeAlias, cast

from headwater.errors import SourceProblem
from headwater.sources.postgres.changes import (
    Change,
    Ended,
    Piece,
    Relations,
    Said,
    Started,
    TransactionHead,
    changed_oids,
    changes,
    relation_oid,
)
from headwater.sources.postgres.positions import Lsn
from headwater.sources.postgres.tables import SourceTable

SpoolFactory: TypeAlias = Callable[[], IO[bytes]]

BYTES_IN_MEMORY = 32 << 20


def spool_beyond(bytes_in_memory: int = BYTES_IN_MEMORY, directory: Path | None = None) -> SpoolFactory:
    """A spool that goes to a nameless file in ``directory`` when it grows beyond ``bytes_in_memory``."""

    def make() -> IO[bytes]:
        return cast(
            IO[bytes],
            tempfile.SpooledTemporaryFile(max_size=bytes_in_memory, dir=str(directory) if directory else None),
        )

    return make


@dataclass(frozen=True, slots=True)
class Transaction:
    """One unit of work; its changes can be read, again and again, until its batch is closed."""

    head: TransactionHead
    end: Lsn
    """Where the slot may stand once the transaction is durable."""
    _spool: IO[bytes]
    _start: int
    _stop: int
    _told: Mapping[int, bytes]
    _tables: tuple[SourceTable, ...]
    _database: str

    def changes(self, tables: Iterable[SourceTable] | None = None) -> Iterator[Change]:
        """In the order in which the transaction made them, of all tables or of some.

        Only here are rows read, and refused if they must be: leave out a table to go on without it.
        """
        wanted = self._tables if tables is None else tables
        return changes(self._messages(), Relations(wanted, self._told, self._database), self._database)

    def touched(self) -> frozenset[int]:
        """The tables that it changes, by oid, without reading a row."""
        return frozenset(oid for data in self._messages() for oid in changed_oids(data))

    def _messages(self) -> Iterator[bytes]:
        at = self._start
        while at < self._stop:
            # Another transaction of the batch may have been read in between.
            if self._spool.tell() != at:
                self._spool.seek(at)
            size = int.from_bytes(self._spool.read(4), "big")
            data = self._spool.read(size)
            at += 4 + size
            yield data


@dataclass(frozen=True, slots=True)
class Batch:
    """Transactions in commit order; make them durable together with ``position``, then read on from there.

    To be closed (``contextlib.closing``) when they have been read.
    """

    transactions: tuple[Transaction, ...]
    position: Lsn
    """Nothing at or before this place in the log is left to read."""
    complete: bool
    """Whether it has all that the server had flushed when it was read, and was not cut short."""
    problems: tuple[SourceProblem, ...]
    """Tables of which the log may not have told all: leave their changes, and store the problem in their stead."""
    lost_keys: frozenset[int]
    """The oids of tables whose primary key is no more: it may not tell rows apart in these transactions."""
    _spool: IO[bytes]

    def close(self) -> None:
        self._spool.close()


def collected(
    pieces: Iterable[Piece], spool: IO[bytes], tables: Sequence[SourceTable], after: Lsn, database: str
) -> tuple[tuple[Transaction, ...], Lsn]:
    """The transactions that end after ``after``, and where the last one ends.

    Those at or before it are durable already: a server that crashed may have forgotten how far its slot was. Those
    that changed nothing are passed over.
    """
    found: list[Transaction] = []
    described = tuple(tables)
    told: Mapping[int, bytes] = {}
    position = after
    head, before, start, changed = None, told, 0, False
    for piece in pieces:
        match piece:
            case Started(begun):
                head, before, start, changed = begun, told, spool.tell(), False
            case Said(data):
                if data[0] == _RELATION:
                    told = {**told, relation_oid(data): data}
                else:
                    changed = True
                spool.write(len(data).to_bytes(4, "big"))
                spool.write(data)
            case Ended(end):
                if end <= after or not changed or head is None:
                    spool.seek(start)
                    spool.truncate()
                else:
                    found.append(Transaction(head, end, spool, start, spool.tell(), before, described, database))
                position = max(position, end)
    return tuple(found), position


_RELATION = ord("R")
