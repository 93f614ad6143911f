"""Rows of a table as it stands, and what it stands for: a query in a transaction that tells its snapshot.

The answer is that of one REPEATABLE READ transaction, for any number of keys: they are sent in bounded lists, one
statement each. ``snapshot`` and ``covered`` then tell, against the captured log, which units of work it holds
(``visibility``). What may pass is tried again from the beginning, in a new transaction; nothing of the failed one is
used.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from psycopg import IsolationLevel, sql

from headwater.sources.postgres.connection import Connection, translated
from headwater.sources.postgres.positions import parse_lsn
from headwater.sources.postgres.tables import Row, SourceTable, row_reader
from headwater.sources.postgres.type_map import Scalar
from headwater.sources.postgres.visibility import Covered, TransactionSnapshot

KEYS_A_QUERY = 10_000

# Equality of these is the same in PostgreSQL and in Spark, by value; texts compare by their bytes in both.
_KEYS = frozenset({"bool", "int2", "int4", "int8", "numeric", "text", "varchar", "date", "uuid"})


def can_be_asked_by(table: SourceTable, column: str) -> bool:
    """Whether a column's values can be sent as keys."""
    found = next((each for each in table.columns if each.name == column), None)
    return found is not None and isinstance(found.pg_type, Scalar) and found.pg_type.name in _KEYS


@dataclass(slots=True)
class Answer:
    """``rows`` are handed on while they come; the rest is known when they have."""

    table: SourceTable
    snapshot: TransactionSnapshot | None = None
    covered: Covered | None = None
    queries: int = 0
    shipped: int = 0
    _types: dict[str, str] = field(default_factory=dict)

    def rows(
        self, connection: Connection, database: str, columns: Sequence[str], keys: Iterable[Sequence[Any]] | None
    ) -> Iterator[Row]:
        """The rows with given values in some columns, each value list once; all rows without keys."""
        level = connection.isolation_level
        connection.isolation_level = IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        try:
            with translated(database, f"asking for {self.table.name}"), connection.transaction():
                self._begin(connection)
                if keys is None:
                    yield from self._answer(connection, None, [])
                    return
                remaining = iter(keys)
                while chunk := list(islice(remaining, KEYS_A_QUERY)):
                    yield from self._answer(connection, columns, self._sendable(columns, chunk))
        finally:
            if not connection.closed:
                connection.isolation_level = level
                connection.read_only = None

    def _begin(self, connection: Connection) -> None:
        found = connection.execute("SELECT pg_current_snapshot()::text, pg_current_wal_insert_lsn()::text").fetchone()
        assert found is not None  # noqa: S101  one row
        self.snapshot = TransactionSnapshot.parse(found[0])
        self.covered = Covered(parse_lsn(found[1]))
        for column in self.table.columns:
            kind = connection.execute("SELECT format_type(%s, NULL)", (column.type_oid,)).fetchone()
            assert kind is not None  # noqa: S101  one row
            self._types[column.name] = kind[0]

    def _answer(
        self, connection: Connection, columns: Sequence[str] | None, keys: list[Sequence[Any]]
    ) -> Iterator[Row]:
        if columns is not None and not keys:
            return
        names = sql.SQL(", ").join(sql.Identifier(column.name) for column in self.table.columns)
        where: sql.Composable = sql.SQL("")
        if columns is not None:
            lists = [
                sql.SQL("{}::{}[]").format(sql.Literal([key[place] for key in keys]), sql.SQL(self._types[column]))
                for place, column in enumerate(columns)
            ]
            # An order of ours: the planner sees one list to join with, not thousands of conditions.
            where = sql.SQL(" WHERE ({}) IN (SELECT * FROM unnest({}))").format(
                sql.SQL(", ").join(map(sql.Identifier, columns)), sql.SQL(", ").join(lists)
            )
        table = sql.Identifier(self.table.name.schema, self.table.name.name)
        statement = sql.SQL("COPY (SELECT {} FROM ONLY {}{}) TO STDOUT").format(names, table, where)
        read = row_reader(self.table)
        self.queries += 1
        with connection.cursor() as cursor, cursor.copy(statement) as copy:
            for values in copy.rows():
                self.shipped += 1
                yield read(values)

    def _sendable(self, columns: Sequence[str], keys: Iterable[Sequence[Any]]) -> list[Sequence[Any]]:
        """Without keys that no row can have: NULLs equal nothing, and a text that is no uuid is none's."""
        kinds = {column.name: column.pg_type for column in self.table.columns}
        tests: list[Callable[[Any], bool]] = [
            _is_uuid if kinds[name] == Scalar("uuid") else _is_something for name in columns
        ]
        return [key for key in keys if all(test(value) for test, value in zip(tests, key, strict=True))]


def _is_something(value: Any) -> bool:
    return value is not None


def _is_uuid(value: Any) -> bool:
    try:
        return bool(str(uuid.UUID(str(value))) == value)
    except ValueError:
        return False
