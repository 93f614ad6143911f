"""Random worlds: tables, views over them, commits, and what users do between the commits.

Everything follows from one seed. Tables have a few rows with few keys, so that joins meet, duplicates arise and changes
cancel.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.spark.oracle import World, newest_version

NAMES = ("r", "s", "t")
CROWDED = 12  # rows: with so few keys, a join of five tables of many more has a million
COLUMNS = "k INT, v INT, s STRING"


def value(rng: random.Random, *, top: int = 3) -> str:
    return "NULL" if rng.random() < 0.2 else str(rng.randint(0, top))


def row(rng: random.Random) -> str:
    text = rng.choice(["'a'", "'b'", "''", "NULL"])
    return f"({value(rng)}, {value(rng)}, {text})"


def rows(rng: random.Random, most: int = 5) -> str:
    found = [row(rng) for _ in range(rng.randint(1, most))]
    if rng.random() < 0.4:
        found.append(found[0])  # a duplicate
    return ", ".join(found)


# ---------------------------------------------------------------------- views


@dataclass
class Texts:
    """A random query; every alias is used once, so that widths can name it."""

    rng: random.Random
    tables: tuple[str, ...]
    leaves: int
    aliases: list[str] = field(default_factory=list)
    ctes: list[str] = field(default_factory=list)

    def query(self) -> str:
        split = self.leaves >= 2 and self.rng.random() < 0.35
        if split:
            first = self.rng.randint(1, self.leaves - 1)
            parts = [self.select(first), self.select(self.leaves - first)]
            body = " UNION ALL ".join(parts)
        else:
            body = self.select(self.leaves)
        if self.ctes:
            return f"WITH {', '.join(self.ctes)} {body}"
        return body

    def alias(self) -> str:
        self.aliases.append(f"x{len(self.aliases) + 1}")
        return self.aliases[-1]

    def select(self, leaves: int) -> str:
        """Columns k, v, s over ``leaves`` leaves."""
        relations: list[tuple[str, str]] = []
        left = leaves
        while left > 0:
            size = self.rng.choice([1, 1, 2]) if left > 1 else 1
            left -= size
            relations.append(self.relation(size))
        aliases = [alias for _, alias in relations]
        conditions = [
            (index, self.condition(self.rng.choice(aliases[:index]), aliases[index]))
            for index in range(1, len(aliases))
        ]
        where = [self.filter(self.rng.choice(aliases))] if self.rng.random() < 0.5 else []
        if self.rng.random() < 0.4:
            sources = ", ".join(text for text, _ in relations)
            where = [text for _, text in conditions] + where
        else:
            sources = relations[0][0]
            for index, text in conditions:
                sources += f" JOIN {relations[index][0]} ON {text}"
        chosen = self.outputs(aliases)
        return f"SELECT {chosen} FROM {sources}" + (f" WHERE {' AND '.join(where)}" if where else "")

    def relation(self, leaves: int) -> tuple[str, str]:
        kind = self.rng.random()
        if leaves == 2:
            one, other = self.rng.choice(self.tables), self.rng.choice(self.tables)
            if kind < 0.5:
                a, b, alias = self.alias(), self.alias(), f"u{len(self.aliases)}"
                text = (
                    f"SELECT {a}.k, {a}.v, {a}.s FROM {one} {a} UNION ALL "
                    f"SELECT {b}.v, {b}.k, {b}.s FROM {other} {b} WHERE {self.filter(b)}"
                )
            else:
                a, b, alias = self.alias(), self.alias(), f"j{len(self.aliases)}"
                text = (
                    f"SELECT {a}.k, {b}.v, {a}.s FROM {one} {a} JOIN {other} {b} ON {self.condition(a, b, equal=True)}"
                )
            if self.rng.random() < 0.4:
                self.ctes.append(f"c_{alias} AS ({text})")
                return f"c_{alias} {alias}", alias
            return f"({text}) {alias}", alias
        table, inner = self.rng.choice(self.tables), self.alias()
        if kind < 0.7:
            return f"{table} {inner}", inner
        alias = f"d{len(self.aliases)}"
        text = (
            f"SELECT {inner}.k, coalesce({inner}.v, 1) AS v, {inner}.s FROM {table} {inner} WHERE {self.filter(inner)}"
        )
        return f"({text}) {alias}", alias

    def condition(self, one: str, other: str, *, equal: bool = False) -> str:
        a, b = self.rng.choice("kv"), self.rng.choice("kkkv")
        form = self.rng.random()
        if equal or form < 0.6:
            return f"{one}.{a} = {other}.{b}"
        if form < 0.75:
            return f"{one}.{a} <=> {other}.{b}"
        if form < 0.9:
            return f"{one}.{a} < {other}.{b}"
        return f"{one}.{a} + 1 = {other}.{b} + {one}.v"

    def filter(self, alias: str) -> str:
        return self.rng.choice(
            [
                f"{alias}.v > 0",
                f"{alias}.k IS NOT NULL",
                f"({alias}.s <> 'a' OR {alias}.s IS NULL)",
                f"{alias}.k IN (0, 1, 2)",
                f"NOT ({alias}.v <=> 1)",
            ]
        )

    def outputs(self, aliases: list[str]) -> str:
        a, b = self.rng.choice(aliases), self.rng.choice(aliases)
        first = self.rng.choice([f"{a}.k", f"{a}.k + {b}.v", f"coalesce({a}.k, {b}.k)"])
        second = self.rng.choice([f"{b}.v", f"CASE WHEN {b}.v > 1 THEN {a}.k END", "7"])
        third = self.rng.choice([f"{b}.s", f"concat({a}.s, {b}.s)", "'x'"])
        return f"{first} AS k, {second} AS v, {third} AS s"


# ---------------------------------------------------------------------- commits


def insert(rng: random.Random, world: World, name: str) -> str:
    return f"INSERT INTO {{{name}}} VALUES {rows(rng)}"


def update(rng: random.Random, world: World, name: str) -> str:
    return f"UPDATE {{{name}}} SET {rng.choice(['k', 'v'])} = {value(rng)} WHERE k <=> {value(rng)}"


def idle_update(rng: random.Random, world: World, name: str) -> str:
    return f"UPDATE {{{name}}} SET v = v WHERE k = {rng.randint(0, 3)}"


def delete(rng: random.Random, world: World, name: str) -> str:
    return f"DELETE FROM {{{name}}} WHERE {rng.choice(['k', 'v'])} <=> {value(rng)}"


def delete_nothing(rng: random.Random, world: World, name: str) -> str:
    return f"DELETE FROM {{{name}}} WHERE k = 99"


def merge(rng: random.Random, world: World, name: str) -> str:
    keys = rng.sample(range(5), 2)
    source = " UNION ALL ".join(f"SELECT {key} AS k, {value(rng)} AS v" for key in keys)
    return (
        f"MERGE INTO {{{name}}} t USING ({source}) s ON t.k = s.k "
        "WHEN MATCHED AND s.v = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET v = s.v "
        "WHEN NOT MATCHED THEN INSERT (k, v, s) VALUES (s.k, s.v, 'm')"
    )


def overwrite(rng: random.Random, world: World, name: str) -> str:
    return f"INSERT OVERWRITE {{{name}}} VALUES {rows(rng)}"


def restore(rng: random.Random, world: World, name: str) -> str:
    first, last = world.tables[name].since_version, newest_version(world.path(name))
    return f"RESTORE TABLE {{{name}}} TO VERSION AS OF {rng.randint(first, last)}"


def optimize(rng: random.Random, world: World, name: str) -> str:
    return f"OPTIMIZE {{{name}}}"


KINDS: tuple[tuple[int, Callable[[random.Random, World, str], str]], ...] = (
    (6, insert),
    (4, update),
    (4, delete),
    (3, merge),
    (1, idle_update),
    (1, delete_nothing),
    (1, overwrite),
    (1, restore),
    (1, optimize),
)


def commit(rng: random.Random, world: World) -> str:
    """One random commit; what was done."""
    name = rng.choice(sorted(world.tables))
    if rng.random() < 0.1:  # rows that come and go between two looks
        gone = f"({rng.randint(0, 3)}, 3, 'z')"
        world.run(f"INSERT INTO {{{name}}} VALUES {gone}, {gone}")
        statement = f"DELETE FROM {{{name}}} WHERE s = 'z'"
    elif world.rows(name) > CROWDED:
        statement = overwrite(rng, world, name)
    else:
        weights = [weight for weight, _ in KINDS]
        statement = rng.choices([make for _, make in KINDS], weights)[0](rng, world, name)
    if rng.random() < 0.1:
        return unit_of_two(rng, world, name, statement)
    world.run(statement)
    return statement


def unit_of_two(rng: random.Random, world: World, name: str, statement: str) -> str:
    """Two commits, perhaps to two tables, that count as one."""
    key = "spark.databricks.delta.commitInfo.userMetadata"
    other = rng.choice(sorted(world.tables))
    tag = world.lake.unit_of_work(f"tag{rng.random()}", 2)
    second = insert(rng, world, other)
    first = statement if statement.startswith("INSERT INTO") else insert(rng, world, name)
    world.spark.conf.set(key, tag)
    try:
        world.run(first)
        world.run(second)
    finally:
        world.spark.conf.unset(key)
    return f"together: {first}; {second}"
