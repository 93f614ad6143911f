"""The base tables, their rows, and random commits to them.

Domains are small, so that joins meet, ties and duplicates are frequent and changes cancel. A commit says by itself what
it does, whatever its table holds: it stays a commit when others before it are left out.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tests.fuzz.rules import BOOL, DATE, DEC, INT, STR

TABLES: dict[str, dict[str, str]] = {
    "p": {"k": INT, "v": INT, "m": DEC, "s": STR},
    "q": {"k": INT, "v": INT, "d": DATE, "b": BOOL},
    "r": {"k": INT, "w": INT, "s": STR, "m": DEC},
    "u": {"v": INT, "d": DATE, "b": BOOL},
}
TYPES = {INT: "INT", DEC: "DECIMAL(10, 2)", STR: "STRING", DATE: "DATE", BOOL: "BOOLEAN"}
VALUES = {
    INT: ("NULL", "0", "1", "1", "2", "2", "3"),
    DEC: ("NULL", "0.00", "1.50", "1.50", "2.25", "-1.50"),
    STR: ("NULL", "''", "'a'", "'a'", "'b'", "'ab'"),
    DATE: ("NULL", "DATE'2024-01-01'", "DATE'2024-01-02'", "DATE'2024-01-02'"),
    BOOL: ("NULL", "true", "false"),
}

Row = tuple[str, ...]
"""Values as they stand in SQL."""


@dataclass(frozen=True)
class Contents:
    table: str
    rows: tuple[Row, ...]

    def size(self) -> int:
        return 1 + len(self.rows)

    def smaller(self) -> Iterator[Contents]:
        yield from (replace(self, rows=rows) for rows in fewer(self.rows))


@dataclass(frozen=True)
class Commit:
    table: str

    def text(self, ref: str) -> str:
        """The statement, with what to call the table."""
        raise NotImplementedError

    def size(self) -> int:
        return 1

    def smaller(self) -> Iterator[Commit]:
        return iter(())


@dataclass(frozen=True)
class Insert(Commit):
    rows: tuple[Row, ...]

    def text(self, ref: str) -> str:
        return f"INSERT INTO {ref} VALUES {values(self.rows)}"

    def size(self) -> int:
        return 1 + len(self.rows)

    def smaller(self) -> Iterator[Commit]:
        yield from (replace(self, rows=rows) for rows in fewer(self.rows) if rows)


@dataclass(frozen=True)
class Overwrite(Insert):
    def text(self, ref: str) -> str:
        return f"INSERT OVERWRITE {ref} VALUES {values(self.rows)}"


@dataclass(frozen=True)
class Empty(Commit):
    def text(self, ref: str) -> str:
        return f"INSERT INTO {ref} SELECT * FROM {ref} WHERE false"


@dataclass(frozen=True)
class Delete(Commit):
    """Where all the columns given have these values; everything, if none is given."""

    columns: tuple[str, ...] = ()
    row: Row = ()

    def text(self, ref: str) -> str:
        where = " AND ".join(f"{name} <=> {value}" for name, value in zip(self.columns, self.row, strict=True))
        return f"DELETE FROM {ref} WHERE {where or 'true'}"


@dataclass(frozen=True)
class Update(Commit):
    column: str
    value: str
    by: str
    key: str

    def text(self, ref: str) -> str:
        return f"UPDATE {ref} SET {self.column} = {self.value} WHERE {self.by} <=> {self.key}"


@dataclass(frozen=True)
class Merge(Commit):
    """Rows with different first values: what they meet is updated, or deleted if the last value is NULL."""

    rows: tuple[Row, ...]

    def text(self, ref: str) -> str:
        names = list(TABLES[self.table])
        rows = [_typed(self.table, row) for row in self.rows]
        source = " UNION ALL ".join(f"SELECT {row}" for row in rows)
        key, last = names[0], names[-1]
        sets = ", ".join(f"{name} = s.{name}" for name in names[1:])
        return (
            f"MERGE INTO {ref} t USING ({source}) s ON t.{key} = s.{key} "
            f"WHEN MATCHED AND s.{last} IS NULL THEN DELETE WHEN MATCHED THEN UPDATE SET {sets} "
            f"WHEN NOT MATCHED THEN INSERT ({', '.join(names)}) VALUES ({', '.join(f's.{name}' for name in names)})"
        )

    def size(self) -> int:
        return 2 + len(self.rows)

    def smaller(self) -> Iterator[Commit]:
        yield from (replace(self, rows=rows) for rows in fewer(self.rows) if rows)


Rounds = tuple[tuple[Commit, ...], ...]


def fewer(rows: tuple[Row, ...]) -> Iterator[tuple[Row, ...]]:
    if len(rows) > 3:
        yield rows[: len(rows) // 2]
        yield rows[len(rows) // 2 :]
    yield from (rows[:at] + rows[at + 1 :] for at in range(len(rows)))


def values(rows: Sequence[Row]) -> str:
    return ", ".join(f"({', '.join(row)})" for row in rows)


def schema(table: str) -> str:
    return ", ".join(f"{name} {TYPES[kind]}" for name, kind in TABLES[table].items())


def _typed(table: str, row: Row) -> str:
    columns = TABLES[table].items()
    return ", ".join(
        f"CAST({value} AS {TYPES[kind]}) AS {name}" for (name, kind), value in zip(columns, row, strict=True)
    )


# ---------------------------------------------------------------------- at random


@dataclass(frozen=True)
class Histories:
    rng: random.Random

    def contents(self) -> tuple[Contents, ...]:
        return tuple(Contents(name, self.rows(name, 0, 8)) for name in TABLES)

    def rounds(self, count: int) -> Rounds:
        return tuple(self.round() for _ in range(count))

    def round(self) -> tuple[Commit, ...]:
        commits: list[Commit] = []
        for _ in range(self.rng.choice([1, 2, 2, 3])):
            commits += self.commits(self.rng.choice(list(TABLES)))
        return tuple(commits)

    def commits(self, table: str) -> list[Commit]:
        kind = self.rng.choices(
            ["insert", "delete", "update", "merge", "cancel", "empty", "everything", "overwrite", "idle"],
            [8, 5, 6, 5, 2, 1, 1, 1, 1],
        )[0]
        names = list(TABLES[table])
        one, other = self.rng.choice(names), self.rng.choice(names)
        match kind:
            case "insert":
                return [Insert(table, self.rows(table, 1, 4))]
            case "delete":
                return [Delete(table, (one,), (self.value(table, one),))]
            case "update":
                return [Update(table, one, self.value(table, one), other, self.value(table, other))]
            case "merge":
                return [Merge(table, self.merged(table))]
            case "cancel":
                row = self.row(table)
                return [Insert(table, (row, row)), Delete(table, tuple(names), row)]
            case "empty":
                return [Empty(table)]
            case "everything":
                return [Delete(table)]
            case "overwrite":
                return [Overwrite(table, self.rows(table, 1, 4))]
            case _:
                return [Update(table, one, one, other, self.value(table, other))]

    def rows(self, table: str, least: int, most: int) -> tuple[Row, ...]:
        found = [self.row(table) for _ in range(self.rng.randint(least, most))]
        if found and self.rng.random() < 0.4:
            found.append(found[0])
        return tuple(found)

    def merged(self, table: str) -> tuple[Row, ...]:
        keys = self.rng.sample(["0", "1", "2", "3", "4"], self.rng.choice([1, 2, 3]))
        return tuple((key, *self.row(table)[1:]) for key in keys)

    def row(self, table: str) -> Row:
        return tuple(self.value(table, name) for name in TABLES[table])

    def value(self, table: str, column: str) -> str:
        return self.rng.choice(VALUES[TABLES[table][column]])
