"""Rows of tables as they stand, and what they stand for: a query in a transaction that tells its snapshot.

*One statement for all relations of a database.* A relation is limited by keys that are sent, by the rows of relations
before it that it is joined with there, or by both:

    WITH r0 AS (SELECT ... FROM ONLY a WHERE (k) IN (SELECT * FROM unnest(...))),
         r1 AS (SELECT ... FROM ONLY b WHERE (c) IN (SELECT k FROM r0))
    SELECT * FROM (SELECT true, r0.* FROM r0) FULL JOIN (SELECT true, r1.* FROM r1) ON false

The relations stand side by side and every row once: a join would repeat the rows of one for each of the other that
they meet. Columns keep their types, so COPY prints each value as it does in a copy of the table, and the mark before
them tells whose the row is.

*One snapshot.* The answer is that of one REPEATABLE READ transaction. Keys of a single relation are sent in bounded
lists, one statement each. ``snapshot`` and ``covered`` tell, against the captured log, which units of work it holds
(``visibility``). What may pass is tried again from the beginning, in a new transaction; nothing of the failed one is
used.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any, TypeAlias

from psycopg import IsolationLevel, sql

from headwater.sources.postgres.connection import Connection, translated
from headwater.sources.postgres.positions import parse_lsn
from headwater.sources.postgres.tables import Column, Row, SourceTable, row_reader
from headwater.sources.postgres.type_map import Scalar
from headwater.sources.postgres.visibility import Covered, TransactionSnapshot

KEYS_A_QUERY = 10_000

_TEXTS = frozenset({"text", "varchar"})
# Equality of these is the same in PostgreSQL and in Spark, by value; texts compare by their bytes in both.
_KEYS = frozenset({"bool", "int2", "int4", "int8", "numeric", "date", "uuid"}) | _TEXTS

_COLLATIONS = """
SELECT a.attrelid, a.attname, n.nspname, c.collname, c.collisdeterministic
FROM pg_catalog.pg_attribute AS a
JOIN pg_catalog.pg_collation AS c ON c.oid = a.attcollation
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.collnamespace
WHERE a.attrelid = ANY(%s) AND a.attnum > 0
"""

Pairs: TypeAlias = tuple[tuple[str, str], ...]


def can_be_asked_by(table: SourceTable, column: str) -> bool:
    """Whether a column's values can be sent as keys."""
    return _key_type(table, column) is not None


def can_follow(table: SourceTable, column: str, other: SourceTable, by: str) -> bool:
    """Whether two columns of one database are equal there just when they are in Spark."""
    found = _key_type(table, column)
    return found is not None and found == _key_type(other, by)


def _key_type(table: SourceTable, name: str) -> str | None:
    column = next((each for each in table.columns if each.name == name), None)
    if column is None or not isinstance(column.pg_type, Scalar) or column.pg_type.name not in _KEYS:
        return None
    kind = column.pg_type.name
    if column.spark_type == "string" and kind not in _TEXTS | {"uuid"}:
        return None  # declared: '1.0' and '1.00' are two texts and one number
    return "text" if kind in _TEXTS else kind


@dataclass(frozen=True, slots=True)
class Followed:
    """Columns that must equal columns of a relation before: its place, and (own column, its column)."""

    place: int
    pairs: Pairs


@dataclass(frozen=True, slots=True)
class Relation:
    """What is asked of a table: the rows with one of the ``keys`` in ``columns``, each key once; None: any rows."""

    table: SourceTable
    columns: tuple[str, ...] = ()
    keys: Sequence[Sequence[Any]] | None = None
    follows: tuple[Followed, ...] = ()


@dataclass(slots=True)
class Answer:
    """``rows`` are handed on while they come; the rest is known when they have."""

    relations: Sequence[Relation]
    snapshot: TransactionSnapshot | None = None
    covered: Covered | None = None
    queries: int = 0
    shipped: int = 0
    _collations: dict[tuple[int, str], tuple[str, str, bool]] = field(default_factory=dict)

    def rows(self, connection: Connection, database: str) -> Iterator[tuple[int, Row]]:
        """The rows of all relations, each with the relation's place."""
        level = connection.isolation_level
        connection.isolation_level = IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        names = ", ".join(str(relation.table.name) for relation in self.relations)
        try:
            with translated(database, f"asking for {names}"), connection.transaction():
                self._begin(connection)
                for relations in self._questions():
                    yield from self._answer(connection, relations)
        finally:
            if not connection.closed:
                connection.isolation_level = level
                connection.read_only = None

    def _begin(self, connection: Connection) -> None:
        found = connection.execute("SELECT pg_current_snapshot()::text, pg_current_wal_insert_lsn()::text").fetchone()
        assert found is not None  # noqa: S101  one row
        self.snapshot = TransactionSnapshot.parse(found[0])
        self.covered = Covered(parse_lsn(found[1]))
        for oid, name, *collation in connection.execute(_COLLATIONS, ([each.table.oid for each in self.relations],)):
            self._collations[oid, name] = (collation[0], collation[1], collation[2])

    def _questions(self) -> Iterator[Sequence[Relation]]:
        """What each statement asks for. No row may be in the answers of two: a relation that others follow has one."""
        relations = [replace(each, keys=_sendable(each)) for each in self.relations]
        if len(relations) > 1 or relations[0].keys is None:
            yield relations
            return
        keys, size = relations[0].keys, KEYS_A_QUERY
        if not all(self._tells_apart(relations[0], name) for name in relations[0].columns):
            size = max(1, len(keys))
        for start in range(0, len(keys), size):
            yield [replace(relations[0], keys=keys[start : start + size])]

    def _tells_apart(self, relation: Relation, column: str) -> bool:
        """Whether a value equals one key at most: a collation may take texts for equal that are not the same."""
        collation = self._collations.get((relation.table.oid, column))
        return collation is None or collation[2]

    def _answer(self, connection: Connection, relations: Sequence[Relation]) -> Iterator[tuple[int, Row]]:
        # A relation that none follows is read as it is shipped; the others PostgreSQL computes once and keeps.
        parts = [
            sql.SQL("{} AS (SELECT {} FROM ONLY {}{})").format(
                _name(place),
                _listed(column.name for column in each.table.columns),
                sql.Identifier(each.table.name.schema, each.table.name.name),
                self._where(each),
            )
            for place, each in enumerate(relations)
        ]
        marked = [
            sql.SQL("(SELECT true, {0}.* FROM {0}) AS {1}").format(_name(place), sql.Identifier(f"m{place}"))
            for place in range(len(relations))
        ]
        beside = marked[0] + sql.SQL("").join(sql.SQL(" FULL JOIN {} ON false").format(each) for each in marked[1:])
        statement = sql.SQL("COPY (WITH {} SELECT * FROM {}) TO STDOUT").format(sql.SQL(", ").join(parts), beside)
        widths = [1 + len(each.table.columns) for each in relations]
        starts = list(accumulate(widths, initial=0))[:-1]
        readers = [
            (place, start, start + width, row_reader(each.table))
            for place, (start, width, each) in enumerate(zip(starts, widths, relations, strict=True))
        ]
        self.queries += 1
        with connection.cursor() as cursor, cursor.copy(statement) as copy:
            for values in copy.rows():
                place, start, end, read = next(each for each in readers if values[each[1]] is not None)
                self.shipped += 1
                yield place, read(values[start + 1 : end])

    def _where(self, relation: Relation) -> sql.Composable:
        conditions: list[sql.Composable] = []
        if relation.keys is not None:
            kinds = {column.name: column for column in relation.table.columns}
            lists = [
                sql.SQL("{}::{}[]").format(sql.Literal([key[place] for key in relation.keys]), _base_type(kinds[name]))
                for place, name in enumerate(relation.columns)
            ]
            # An order of ours: the planner sees one list to join with, not thousands of conditions.
            conditions.append(
                sql.SQL("({}) IN (SELECT * FROM unnest({}))").format(
                    _listed(relation.columns), sql.SQL(", ").join(lists)
                )
            )
        for follow in relation.follows:
            theirs = [self._compared(relation, own, its) for own, its in follow.pairs]
            conditions.append(
                sql.SQL("({}) IN (SELECT {} FROM {})").format(
                    _listed(own for own, _ in follow.pairs), sql.SQL(", ").join(theirs), _name(follow.place)
                )
            )
        return sql.SQL(" WHERE {}").format(sql.SQL(" AND ").join(conditions)) if conditions else sql.SQL("")

    def _compared(self, relation: Relation, own: str, its: str) -> sql.Composable:
        """A column in the collation of the one that it is compared with, whose index then serves."""
        collation = self._collations.get((relation.table.oid, own))
        if collation is None:
            return sql.Identifier(its)
        return sql.SQL("{} COLLATE {}").format(sql.Identifier(its), sql.Identifier(*collation[:2]))


def _name(place: int) -> sql.Identifier:
    return sql.Identifier(f"r{place}")


def _listed(names: Iterator[str] | Sequence[str]) -> sql.Composable:
    return sql.SQL(", ").join(map(sql.Identifier, names))


def _base_type(column: Column) -> sql.Composable:
    """A domain may refuse keys that no row has; what it is made of takes them."""
    return sql.Identifier("pg_catalog", _scalar(column).name)


def _scalar(column: Column) -> Scalar:
    assert isinstance(column.pg_type, Scalar)  # noqa: S101  only such are keys
    return column.pg_type


def _sendable(relation: Relation) -> list[Sequence[Any]] | None:
    """Without keys that no row can have: NULLs equal nothing, and not every text is a uuid or even a text."""
    if relation.keys is None:
        return None
    kinds = {column.name: _scalar(column).name for column in relation.table.columns if column.name in relation.columns}
    tests = [_TESTS.get(kinds[name], _is_something) for name in relation.columns]
    return [key for key in relation.keys if all(test(value) for test, value in zip(tests, key, strict=True))]


def _is_something(value: Any) -> bool:
    return value is not None


def _is_text(value: Any) -> bool:
    return value is not None and "\0" not in value


def _is_uuid(value: Any) -> bool:
    try:
        return bool(str(uuid.UUID(str(value))) == value)
    except ValueError:
        return False


_TESTS: dict[str, Callable[[Any], bool]] = {"uuid": _is_uuid, "text": _is_text, "varchar": _is_text}
