"""Histories over tables with keys and foreign keys, kept or broken, each made from a seed.

Five tables as in TPC-H, small: ``n`` (a primary key), ``c`` refers to it, ``o`` to ``c``, ``l`` to ``o``, and ``e``,
whose rows refer to rows of ``e`` itself. Keys come and go and come back, rows are updated with and without their
references, references may be NULL, whole families are born or die in one unit of work or in several.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random

from sqlglot import exp

from headwater.algebra.constraints import Constraint, ForeignKey, Knowledge, Unique
from headwater.algebra.plan import Filter, Join, LeafId, Plan, Project, Scan, Union
from headwater.algebra.time import Csn, Interval
from headwater.algebra.zset import Row
from headwater.engine.reference import History
from tests.theory.worlds import World, column

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


def _remove(draft: Draft, table: str, row: Row, honest: bool) -> None:
    draft.remove(table, row)
    if honest and "k" in COLUMNS[table]:
        for child, referring in draft.referring(table, row[0]):
            if referring in draft.tables[child]:  # rows may refer to one another in a circle
                _remove(draft, child, referring, honest)


def _act(random: Random, draft: Draft, honest: bool) -> None:
    table = random.choice(("n", "c", "o", "o", "l", "l", "e") if honest else ("o", "o", "o", "l", "c", "e"))
    rows = draft.tables[table]
    if not honest and random.random() < 0.5:
        rows = [row for row in rows if draft.referring(table, row[0])] or rows
    match random.choice(("insert", "insert", "insert", "delete", "update", "cancel", "family")):
        case "insert" | "family" if (row := _row(random, table, draft, honest)) is not None:
            draft.add(table, row)
        case "cancel" if (row := _row(random, table, draft, honest)) is not None:
            draft.add(table, row)
            draft.remove(table, row)
        case "delete" if rows:
            _remove(draft, table, random.choice(rows), honest)
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
    for _ in range(random.randint(0, 30)):
        _act(random, start, honest=True)
    history = History.beginning_with(start.tables)
    draft = Draft(start.tables)
    for _ in range(csns):
        draft.changes = {}
        for _ in range(random.choice((0, 1, 1, 2, 4))):
            _act(random, draft, honest=honest or random.random() < 0.6)
        history.commit(draft.changes)
    return history


class Signed:
    """A history as a log that tells the kind of changes."""

    def __init__(self, history: History) -> None:
        self.history = history

    def has_changes(self, table: str, interval: Interval) -> bool:
        return self.history.has_changes(table, interval)

    def only_inserts(self, table: str, interval: Interval) -> bool:
        return all(count > 0 for _, count, _ in self.history.base_delta(table, interval))

    def only_deletes(self, table: str, interval: Interval) -> bool:
        return all(count < 0 for _, count, _ in self.history.base_delta(table, interval))


def leaf(number: int, table: str) -> Scan:
    alias = f"{table}{number}"
    return Scan(LeafId(number), table, alias, COLUMNS[table], tuple(f"{alias}.{name}" for name in COLUMNS[table]))


def joined(*tables: str, on: Iterable[tuple[int, int]] | None = None) -> Plan:
    """The tables joined along their foreign keys: all there are, or those ``on`` (referring, referred) by place."""
    leaves = tuple(leaf(number, table) for number, table in enumerate(tables))
    places = range(len(tables))
    pairs = [(c, p) for c in places for p in places if c != p and PARENTS.get(tables[c]) == tables[p]]
    conditions = [
        exp.EQ(this=column(f"{leaves[c].alias}.p"), expression=column(f"{leaves[p].alias}.k"))
        for c, p in (pairs if on is None else on)
    ]
    return Join(leaves, tuple(conditions))


SHAPES: tuple[tuple[tuple[str, ...], tuple[tuple[int, int], ...] | None], ...] = (
    (("o", "l"), None),
    (("l", "o"), None),
    (("c", "o", "l"), None),
    (("l", "c", "o"), None),
    (("n", "c", "o", "l"), None),
    (("o", "l", "l"), None),
    (("l", "o", "o"), ((0, 1), (0, 2))),
    (("l", "o", "c"), ((0, 1),)),
    (("e", "e"), ((0, 1),)),
    (("e", "e", "e"), ((0, 1), (1, 2))),
    (("n", "c"), None),
)


def keyed_plan(random: Random) -> Plan:
    tables, on = random.choice(SHAPES)
    plan = joined(*tables, on=on)
    if isinstance(plan, Join) and random.random() < 0.3:
        one, other = random.sample(plan.attributes, 2)
        plan = Join(plan.children, (*plan.conditions, exp.LTE(this=column(one), expression=column(other))))
    if random.random() < 0.3:
        plan = Filter(plan, exp.GTE(this=column(random.choice(plan.attributes)), expression=exp.Literal.number(1)))
    if random.random() < 0.4:
        shown = random.sample(plan.attributes, random.randint(1, len(plan.attributes)))
        plan = Project(plan, tuple((name, column(name)) for name in shown))
    return plan


def with_union(random: Random) -> Plan:
    """A branch that integrity says something about, beside one of which it says nothing."""
    lines = leaf(1, "l")
    both = tuple(
        Project(leaf(number, table), ((f"{number}.k", column(f"{table}{number}.k")),))
        for number, table in random.choice((((2, "o"), (3, "o")), ((2, "o"), (3, "c"))))
    )
    union = Union(both, ("u.k",))
    return Join(
        (leaf(0, "o"), lines, union),
        (
            exp.EQ(this=column("l1.p"), expression=column("o0.k")),
            exp.EQ(this=column("u.k"), expression=column("l1.p")),
        ),
    )


def keyed_world(seed: int, *, honest: bool = True, csns: int = 7) -> World:
    random = Random(seed)
    plan = with_union(random) if random.random() < 0.1 else keyed_plan(random)
    history = keyed_history(seed, honest=honest, csns=csns)
    return World(seed, random, plan, history, [])


def all_known(history: History) -> Knowledge:
    return Knowledge.of(CONSTRAINTS, Interval(Csn(0), history.now))
