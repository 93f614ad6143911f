"""A PostgreSQL database as a feed: its slot's transactions by the lake's names.

A table's first copy holds some of the transactions that the log tells of too: those that its snapshot sees. Their
changes of that table are passed over, by number (``visibility``), for as long as the table is followed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headwater.errors import SourceProblem
from headwater.sources.feed import Emptied, FeedChange, Position, RowChange
from headwater.sources.postgres.changes import Deleted, Inserted, Truncated, Updated, signed_rows
from headwater.sources.postgres.connection import Connection, Retry
from headwater.sources.postgres.positions import Lsn
from headwater.sources.postgres.publication import Membership
from headwater.sources.postgres.slot import MESSAGES_A_BATCH, SlotReader
from headwater.sources.postgres.spool import Batch, Transaction
from headwater.sources.postgres.tables import SourceTable
from headwater.sources.postgres.visibility import TransactionSnapshot


@dataclass(frozen=True, slots=True)
class Followed:
    """A table under its name in the lake; ``copied`` is the snapshot of its first copy."""

    name: str
    table: SourceTable
    token: str
    copied: TransactionSnapshot | None = None


@dataclass(frozen=True, slots=True)
class PostgresTransaction:
    touched: frozenset[str]
    _transaction: Transaction
    _followed: tuple[Followed, ...]
    _offset: int

    @property
    def version(self) -> int:
        return self._transaction.head.commit_lsn + self._offset

    @property
    def transaction(self) -> str:
        return str(self._transaction.head.xid)

    @property
    def committed_at(self) -> int:
        return self._transaction.head.committed_at

    @property
    def after(self) -> Position:
        return position_of(self._transaction.end)

    def changes(self) -> Iterator[FeedChange]:
        wanted = {each.table.oid: each for each in self._followed if each.name in self.touched}
        for change in self._transaction.changes([each.table for each in wanted.values()]):
            match change:
                case Truncated(tables):
                    for table in tables:
                        yield Emptied(wanted[table.oid].name)
                case Inserted(table) | Updated(table) | Deleted(table):
                    name = wanted[table.oid].name
                    for row, count in signed_rows(change):
                        yield RowChange(name, row, count)


@dataclass(frozen=True, slots=True)
class PostgresBatch:
    transactions: tuple[PostgresTransaction, ...]
    position: Position
    complete: bool
    problems: Mapping[str, SourceProblem]
    lost_keys: frozenset[str]
    _batch: Batch

    @property
    def waiting(self) -> list[dict[str, Any]]:
        return []

    def close(self) -> None:
        self._batch.close()


class PostgresFeed:
    """Not for several threads at once. ``offset`` is added to places in the log to give versions that only grow."""

    def __init__(
        self,
        connect: Callable[[], Connection],
        slot: str,
        publication: str,
        followed: Sequence[Followed],
        *,
        database: str,
        offset: int = 0,
        most_messages: int = MESSAGES_A_BATCH,
        retry: Retry | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._followed = tuple(followed)
        self._most_messages = most_messages
        self._offset = offset
        joined = Membership(publication, {each.table.oid: each.token for each in followed})
        tables = [each.table for each in followed]
        self._reader = SlotReader(connect, slot, joined, tables, database=database, retry=retry, sleep=sleep)

    def read(self, position: Position) -> PostgresBatch:
        batch = self._reader.read(Lsn(position["lsn"]), self._most_messages)
        names = {str(each.table.name): each.name for each in self._followed}
        problems = {names[problem.table]: problem for problem in batch.problems}
        healthy = tuple(each for each in self._followed if each.name not in problems)
        transactions = tuple(_transaction(each, healthy, self._offset) for each in batch.transactions)
        keyless = frozenset(each.name for each in self._followed if each.table.oid in batch.lost_keys)
        return PostgresBatch(transactions, position_of(batch.position), batch.complete, problems, keyless, batch)

    def confirm(self, position: Position) -> None:
        self._reader.confirm(Lsn(position["lsn"]))

    def close(self) -> None:
        self._reader.close()


def _transaction(transaction: Transaction, followed: Sequence[Followed], offset: int) -> PostgresTransaction:
    oids = transaction.touched()
    left = tuple(
        each
        for each in followed
        if each.table.oid in oids and not (each.copied is not None and each.copied.sees(transaction.head.xid))
    )
    return PostgresTransaction(frozenset(each.name for each in left), transaction, left, offset)


def position_of(lsn: Lsn) -> Position:
    return {"lsn": int(lsn)}
