"""What is known of a table of PostgreSQL, as values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import TypeAlias

from headwater.errors import ReplicaIdentityNarrow, UnsupportedType, ValueRefused
from headwater.sources.postgres.type_map import Mapped, NoSuchMapping, PgType, Unrepresentable, Value, declared, mapped

Row: TypeAlias = tuple[Value, ...]
RowReader: TypeAlias = Callable[[Sequence[str | None]], Row]


class ReplicaIdentity(Enum):
    """How much of a row before its change PostgreSQL logs: pg_class.relreplident."""

    DEFAULT = "d"
    NOTHING = "n"
    FULL = "f"
    INDEX = "i"


@dataclass(frozen=True, slots=True)
class TableName:
    schema: str
    name: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"

    @property
    def quoted(self) -> str:
        return f"{quoted_identifier(self.schema)}.{quoted_identifier(self.name)}"


def quoted_identifier(name: str) -> str:
    """For statements that are shown to the user; what is sent is quoted by the driver."""
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    pg_type: PgType
    type_oid: int
    spark_type: str
    declared: bool = False

    @property
    def mapping(self) -> Mapped:
        return declared(self.pg_type, self.spark_type) if self.declared else mapped(self.pg_type)


@dataclass(frozen=True, slots=True)
class SourceTable:
    """A table as it was described; ``oid`` stays when it is renamed and goes when it is dropped."""

    oid: int
    name: TableName
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    """The columns of the primary key; empty without one."""
    replica_identity: ReplicaIdentity
    key_oid: int | None = None
    """Of the constraint that keeps the key: it does not survive that the key is dropped and made anew."""

    @property
    def spark_columns(self) -> tuple[tuple[str, str], ...]:
        return tuple((column.name, column.spark_type) for column in self.columns)


def column_of(
    table: TableName, name: str, pg_type: PgType, type_oid: int, declarations: Mapping[str, str] | None = None
) -> Column:
    """A column with its Spark type, which ``declarations`` may give by the column's name."""
    wanted = (declarations or {}).get(name)
    try:
        found = mapped(pg_type) if wanted is None else declared(pg_type, wanted)
    except NoSuchMapping as error:
        raise UnsupportedType(
            f"Column {name!r} of {table} is of type {pg_type}: {error}.",
            table=str(table),
            remedy="Declare the column's Spark type: 'string' keeps what PostgreSQL prints, and 'decimal(p,s)' stands "
            "for a numeric, each value checked. Or leave the column out.",
        ) from error
    return Column(name, pg_type, type_oid, found.spark_type, wanted is not None)


def identity_statement(table: TableName) -> str:
    """What makes PostgreSQL log whole old rows."""
    return f"ALTER TABLE {table.quoted} REPLICA IDENTITY FULL"


def require_full_identity(table: SourceTable) -> None:
    if table.replica_identity is not ReplicaIdentity.FULL:
        raise ReplicaIdentityNarrow(
            f"{table.name} has REPLICA IDENTITY {table.replica_identity.name}: its log would not tell the whole rows "
            "that updates and deletes take away.",
            table=str(table.name),
            remedy=f"As the table's owner: {identity_statement(table.name)};",
        )


@lru_cache(maxsize=1024)  # asked for once a transaction and table
def row_reader(table: SourceTable, sent: tuple[str, ...] | None = None) -> RowReader:
    """A function from the values as sent to the table's row; ``sent`` names them, if not by the table's columns."""
    names = tuple(column.name for column in table.columns) if sent is None else sent
    places = {name: place for place, name in enumerate(names)}
    readers = [(places[column.name], column.mapping.read, column) for column in table.columns]

    def read(values: Sequence[str | None]) -> Row:
        row: list[Value] = []
        for place, convert, column in readers:
            text = values[place]
            if text is None:
                row.append(None)
                continue
            try:
                row.append(convert(text))
            except Unrepresentable as error:
                raise _refused(table, column, str(error)) from error
            except (ValueError, ArithmeticError):
                # Without its cause: int() and its like quote the value.
                raise _refused(table, column, f"it is not printed as a {column.pg_type} is") from None
        return tuple(row)

    return read


def _refused(table: SourceTable, column: Column, why: str) -> ValueRefused:
    return ValueRefused(
        f"A value in column {column.name!r} of {table.name} can't be held by Spark's {column.spark_type}: {why}.",
        table=str(table.name),
        remedy="Change the value in the source, or declare the column 'string' to keep what PostgreSQL prints.",
    )
