"""From the messages of the log to transactions and the rows they changed.

A transaction is one unit of work, however many tables it touched. ``split`` cuts a stream of messages into transactions
and looks at no row; ``changes`` reads the rows of one of them. Between the two the messages may lie anywhere, so a
transaction of any size passes through bounded memory (``spool``).

*Whole rows.* A change relation needs the row that an update or delete took away. Under REPLICA IDENTITY FULL the log
has it. A long value that an update did not touch is missing in the new row (``UNCHANGED``) and is the one of the old
row. With a narrower identity both are unknown, and the change is refused: a guess would be a wrong row for ever.

*TRUNCATE* names tables, not rows: ``Truncated`` takes away whatever the table holds after the changes before it, in
this transaction too. Only who keeps the table's rows can say what that was.

*Columns.* A RELATION message tells the columns as they are for the changes after it. Those that were described must
be there with their types; others are passed over. What ALTER TABLE does to stored rows is in no log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias, cast

from headwater.errors import LogUnreadable, ReplicaIdentityNarrow, SchemaChanged, TableReplaced
from headwater.sources.postgres.pgoutput import (
    UNCHANGED,
    Begin,
    Commit,
    Delete,
    Insert,
    LogicalMessage,
    MalformedMessage,
    Message,
    OldRow,
    Origin,
    Relation,
    SentRow,
    Truncate,
    TypeName,
    Update,
    decode,
)
from headwater.sources.postgres.positions import Lsn, Xid, widen
from headwater.sources.postgres.tables import Row, RowReader, SourceTable, TableName, identity_statement, row_reader


@dataclass(frozen=True, slots=True)
class TransactionHead:
    """What BEGIN tells; the order of commits is that of ``commit_lsn``."""

    xid: Xid
    commit_lsn: Lsn
    committed_at: int
    """Microseconds since 1970, UTC."""


@dataclass(frozen=True, slots=True)
class Inserted:
    table: SourceTable
    new: Row


@dataclass(frozen=True, slots=True)
class Updated:
    """One update, not a deletion and an insertion; the two rows may be equal."""

    table: SourceTable
    old: Row
    new: Row


@dataclass(frozen=True, slots=True)
class Deleted:
    table: SourceTable
    old: Row


@dataclass(frozen=True, slots=True)
class Truncated:
    tables: tuple[SourceTable, ...]


RowChange: TypeAlias = Inserted | Updated | Deleted
Change: TypeAlias = RowChange | Truncated


def signed_rows(change: RowChange) -> tuple[tuple[Row, int], ...]:
    """The change as (row, count)."""
    match change:
        case Inserted(_, new):
            return ((new, 1),)
        case Updated(_, old, new):
            return (old, -1), (new, 1)
        case Deleted(_, old):
            return ((old, -1),)


@dataclass(frozen=True, slots=True)
class Started:
    head: TransactionHead


@dataclass(frozen=True, slots=True)
class Said:
    """A message of the running transaction that tells of rows or columns."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Ended:
    """``end``: the slot may forget the transaction by moving here."""

    end: Lsn


Piece: TypeAlias = Started | Said | Ended

# What can change rows, or tells how to read those that do.
_ROWS = frozenset(b"IUDTR")


def split(messages: Iterable[bytes], near: Xid, database: str) -> Iterator[Piece]:
    """The transactions of a stream, in its order; ``near`` is a transaction number of these days."""
    running: TransactionHead | None = None
    for data in messages:
        if running is not None and data[:1] and data[0] in _ROWS:
            yield Said(data)
            continue
        match _decoded(data, database):
            case Begin(commit_lsn, committed_at, xid) if running is None:
                running = TransactionHead(widen(xid, near), commit_lsn, committed_at)
                yield Started(running)
            case Commit(commit_lsn, end_lsn) if running is not None and commit_lsn == running.commit_lsn:
                yield Ended(end_lsn)
                running = None
            case TypeName() | Origin() | LogicalMessage():
                continue
            case other:
                raise _out_of_place(other, database)
    if running is not None:
        raise LogUnreadable(
            f"The log ends inside transaction {running.xid}.",
            database=database,
            remedy="Read again: nothing was confirmed.",
        )


class Relations:
    """How the tables that are read look at one place in the log.

    ``told`` has the RELATION messages before that place by oid. Each is read when a change of its table comes: a
    table that changed its columns and nothing else since stops nobody.
    """

    def __init__(self, tables: Iterable[SourceTable], told: Mapping[int, bytes], database: str) -> None:
        self._tables = {table.oid: table for table in tables}
        self._told = dict(told)
        self._database = database
        self._known: dict[int, tuple[SourceTable, RowReader] | None] = {}

    def learn(self, data: bytes) -> None:
        oid = relation_oid(data)
        self._told[oid] = data
        self._known.pop(oid, None)

    def find(self, oid: int) -> tuple[SourceTable, RowReader] | None:
        """The table and the reader of its rows; None for a table that nobody asked for."""
        if oid not in self._known:
            self._known[oid] = self._resolve(oid)
        return self._known[oid]

    def _resolve(self, oid: int) -> tuple[SourceTable, RowReader] | None:
        if oid not in self._told:
            raise LogUnreadable(
                f"The log changes the table with oid {oid} without having told its columns.",
                database=self._database,
                remedy="Read again: nothing was confirmed.",
            )
        relation = _decoded(self._told[oid], self._database)
        assert isinstance(relation, Relation)  # noqa: S101  by its first byte
        table = self._tables.get(oid)
        if table is None:
            self._require_no_namesake(relation)
            return None
        sent = {column.name: column.type_oid for column in relation.columns}
        for column in table.columns:
            if sent.get(column.name) != column.type_oid:
                what = "dropped or renamed" if column.name not in sent else "given another type"
                raise SchemaChanged(
                    f"Column {column.name!r} of {table.name} was {what}.",
                    table=str(table.name),
                    remedy="Put the column back, or start over with the table as it is, with resync.",
                )
        return table, row_reader(table, tuple(column.name for column in relation.columns))

    def _require_no_namesake(self, relation: Relation) -> None:
        name = TableName(relation.schema, relation.name)
        if any(table.name == name for table in self._tables.values()):
            raise TableReplaced(
                f"{name} was dropped and made anew.",
                table=str(name),
                remedy="Start over from its present with resync.",
            )


def relation_oid(data: bytes) -> int:
    """Of a RELATION message."""
    return int.from_bytes(data[1:5], "big")


def changed_oids(data: bytes) -> tuple[int, ...]:
    """The tables that a message changes; none for one that only describes."""
    if data[:1] in (b"I", b"U", b"D"):
        return (int.from_bytes(data[1:5], "big"),)
    if data[:1] == b"T":
        # After the number of tables and the options.
        return tuple(int.from_bytes(data[at : at + 4], "big") for at in range(6, len(data), 4))
    return ()


def changes(messages: Iterable[bytes], relations: Relations, database: str) -> Iterator[Change]:
    """The changes of one transaction in the order in which it made them; ``relations`` learns on the way."""
    for data in messages:
        if data[:1] == b"R":
            relations.learn(data)
            continue
        match _decoded(data, database):
            case Insert(oid, new):
                if found := relations.find(oid):
                    table, read = found
                    yield Inserted(table, read(completed(table, None, new)))
            case Update(oid, kind, old, new):
                if found := relations.find(oid):
                    table, read = found
                    _require_whole(table, kind)
                    yield Updated(table, read(completed(table, None, old)), read(completed(table, old, new)))
            case Delete(oid, kind, old):
                if found := relations.find(oid):
                    table, read = found
                    _require_whole(table, kind)
                    yield Deleted(table, read(completed(table, None, old)))
            case Truncate(oids):
                tables = tuple(found[0] for oid in oids if (found := relations.find(oid)))
                if tables:
                    yield Truncated(tables)
            case other:
                raise _out_of_place(other, database)


def completed(table: SourceTable, old: SentRow | None, sent: SentRow) -> tuple[str | None, ...]:
    """The row with every value that was not sent taken from the old row."""
    if UNCHANGED not in sent:
        return cast(tuple[str | None, ...], sent)
    values = []
    for place, value in enumerate(sent):
        whole = value if value is not UNCHANGED else UNCHANGED if old is None else old[place]
        if whole is UNCHANGED:
            raise _narrow(table, "it lacks a long value that an update did not touch")
        values.append(whole)
    return tuple(values)


def _require_whole(table: SourceTable, kind: OldRow) -> None:
    if kind is not OldRow.FULL:
        raise _narrow(table, f"of the row before its change it has {kind.value}")


def _narrow(table: SourceTable, what: str) -> ReplicaIdentityNarrow:
    return ReplicaIdentityNarrow(
        f"{table.name} was changed while its REPLICA IDENTITY was not FULL, so the log does not tell all: {what}.",
        table=str(table.name),
        remedy=f"As the table's owner: {identity_statement(table.name)}; then resync, which finds what it did.",
    )


def _decoded(data: bytes, database: str) -> Message:
    try:
        return decode(data)
    except MalformedMessage as error:
        raise LogUnreadable(
            f"A message of the log can't be read: {error}.",
            database=database,
            remedy="Read again; if it stays, the server's pgoutput is one that this Headwater does not know.",
        ) from error


def _out_of_place(message: Message, database: str) -> LogUnreadable:
    return LogUnreadable(
        f"The log has a {type(message).__name__} where none belongs.",
        database=database,
        remedy="Read again: nothing was confirmed.",
    )
