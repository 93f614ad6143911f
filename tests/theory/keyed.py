"""Histories over tables with keys and foreign keys, kept or broken, each made from a seed.

Five tables as in TPC-H, small: ``n`` (a primary key), ``c`` refers to it, ``o`` to ``c``, ``l`` to ``o``, and ``e``,
whose rows refer to rows of ``e`` itself. Keys come and go and come back, rows are updated with and without their
references, references may be NULL, whole families are born or die in one unit of work or in several.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from headwater.algebra.constraints import Constraint, ForeignKey, Unique
from headwater.algebra.zset import Row
from headwater.engine.reference import History

COLUMNS = {"n": ("k", "v"), "c": ("k", "p", "v"), "o": ("k", "p", "v"), "l": ("p", "v"), "e": ("k", "p")}
PARENTS = {"c": "n", "o": "c", "l": "o", "e": "e"}
KEYS: tuple[Constraint, ...] = (
    Unique("n", ("k",), primary=True),
    Unique("c", ("k",)),
    Unique("o", ("k",), primary=True),
    Unique("e", ("k",), primary=True),
)
FOREIGN_KEYS: tuple[Constraint, ...] = tuple(
    ForeignKey(child, ("p",), parent, ("k",)) for child, parent in PARENTS.items()
)
CONSTRAINTS = KEYS + FOREIGN_KEYS
DOMAIN = (0, 1, 2)


@dataclass
class Draft:
    """The tables as they are in the middle of a unit of work, and its changes so far."""

    tables: dict[str, list[Row]]
    changes: dict[str, list[tuple[Row, int]]] = field(default_factory=dict)

    def add(self, table: str, row: Row) -> None:
        self.tables[table].append(row)
        self.changes.setdefault(table, []).append((row, 1))

    def remove(self, table: str, row: Row) -> None:
        self.tables[table].remove(row)
        self.changes.setdefault(table, []).append((row, -1))

    def keys(self, table: str) -> set[int]:
        return {row[0] for row in self.tables[table]} - {None}

    def referring(self, table: str, key: int | None) -> list[tuple[str, Row]]:
        if key is None:
            return []
        children = [child for child, parent in PARENTS.items() if parent == table]
        return [(c, row) for c in children for row in self.tables[c] if row[COLUMNS[c].index("p")] == key]


def _row(random: Random, table: str, draft: Draft, honest: bool) -> Row | None:
    """A new row; None where an honest one has no free key."""
    values: dict[str, int | None] = {"v": random.choice((None, 0, 1))}
    if "k" in COLUMNS[table]:
        free = [key for key in DOMAIN if key not in draft.keys(table)] if honest else list(DOMAIN)
        nulls = (None,) if table == "c" or (not honest and random.random() < 0.2) else ()
        if not free and not nulls:
            return None
        values["k"] = random.choice([*free, *free, *nulls])
    if "p" in COLUMNS[table]:
        there = sorted(draft.keys(PARENTS[table])) if honest else list(DOMAIN)
        values["p"] = random.choice([*there, *there, None])
    return tuple(values[name] for name in COLUMNS[table])


def _remove(random: Random, draft: Draft, table: str, row: Row, honest: bool) -> None:
    if honest and "k" in COLUMNS[table]:
        for child, referring in draft.referring(table, row[0]):
            if referring in draft.tables[child] and (child, referring) != (table, row):
                _remove(random, draft, child, referring, honest)
    if row in draft.tables[table]:
        draft.remove(table, row)


def _act(random: Random, draft: Draft, honest: bool) -> None:
    table = random.choice(("n", "c", "o", "o", "l", "l", "e"))
    rows = draft.tables[table]
    match random.choice(("insert", "insert", "insert", "delete", "update", "cancel", "family")):
        case "insert" | "family" if (row := _row(random, table, draft, honest)) is not None:
            draft.add(table, row)
        case "cancel" if (row := _row(random, table, draft, honest)) is not None:
            draft.add(table, row)
            draft.remove(table, row)
        case "delete" if rows:
            _remove(random, draft, table, random.choice(rows), honest)
        case "update" if rows:
            old = random.choice(rows)
            new = _row(random, table, draft, honest)
            if new is not None:
                keyed = (old[0], *new[1:]) if "k" in COLUMNS[table] else new
                draft.remove(table, old)
                draft.add(table, keyed)
        case _:
            pass


def keyed_history(seed: int, *, honest: bool = True, csns: int = 7) -> History:
    """A history that keeps all constraints at every csn; or, not ``honest``, one that begins so and may break them."""
    random = Random(seed)
    start = Draft({table: [] for table in COLUMNS})
    for _ in range(random.randint(0, 12)):
        _act(random, start, honest=True)
    history = History.beginning_with(start.tables)
    draft = Draft(start.tables)
    for _ in range(csns):
        draft.changes = {}
        for _ in range(random.choice((0, 1, 1, 2, 4))):
            _act(random, draft, honest=honest or random.random() < 0.6)
        history.commit(draft.changes)
    return history
