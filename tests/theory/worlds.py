"""Random views over random histories, and the one law that every propagation method must keep.

A world is made from a seed and nothing else, so a failure names the seed that repeats it. Rows come from a tiny
domain with NULLs, so that joins meet, duplicates and cancelling changes are common, and tables are few, so that
self-joins are.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from random import Random

from sqlglot import exp

from headwater.algebra.plan import Filter, Join, LeafId, Plan, Project, Scan, Union, scans, validate
from headwater.algebra.query import Query
from headwater.algebra.time import BEGINNING, Csn, Interval
from headwater.algebra.zset import Row, ZSet
from headwater.engine.reference import History, ReferenceEngine

HISTORIES = int(os.environ.get("HEADWATER_HISTORIES", "1000"))
CHUNKS = 10

COMPARISONS: tuple[type[exp.Expression], ...] = (exp.EQ, exp.EQ, exp.EQ, exp.NullSafeEQ, exp.LT, exp.LTE, exp.NEQ)


def seeds(chunk: int) -> range:
    """The seeds of one of the CHUNKS parts into which the histories of a property test are cut."""
    return range(chunk * HISTORIES // CHUNKS, (chunk + 1) * HISTORIES // CHUNKS)


def column(attribute: str) -> exp.Column:
    return exp.column(attribute, quoted=True)


def scan(leaf: int, table: str, columns: tuple[str, ...] = ("k", "v")) -> Scan:
    alias = f"r{leaf + 1}"
    return Scan(LeafId(leaf), table, alias, columns, tuple(f"{alias}.{name}" for name in columns))


def natural_join(*tables: str) -> Plan:
    """R1 ⋈ R2 ⋈ ... on the first column, the view of the paper's examples."""
    leaves = tuple(scan(leaf, table) for leaf, table in enumerate(tables))
    return Join(
        leaves,
        tuple(
            exp.EQ(this=column(leaves[0].attributes[0]), expression=column(leaf.attributes[0])) for leaf in leaves[1:]
        ),
    )


def leaf_count(random: Random) -> int:
    return random.choices((2, 3, 4, 5), weights=(30, 40, 22, 8))[0]


def random_plan(random: Random, leaves: int) -> Plan:
    """A linear plan of scans, filters, projections, joins (equi or not, or crossed) and unions at any depth."""
    tables = [random.choice(("a", "b", "c")) for _ in range(leaves)]
    names = iter(f"u{number}" for number in range(100))

    def comparison(left: str, right: str) -> exp.Expression:
        return random.choice(COMPARISONS)(this=column(left), expression=column(right))

    def pair(plan: Plan) -> Plan:
        """The plan cut to two attributes of new names."""
        name = next(names)
        key, value = random.choice(plan.attributes), random.choice(plan.attributes)
        shown: exp.Expression = column(value)
        if random.random() < 0.3:
            shown = exp.Add(
                this=exp.Coalesce(this=column(value), expressions=[exp.Literal.number(0)]), expression=column(key)
            )
        return Project(plan, ((f"{name}.k", column(key)), (f"{name}.v", shown)))

    def build(first: int, count: int) -> Plan:
        if count == 1:
            leaf: Plan = scan(first, tables[first])
            if random.random() < 0.15:
                test = random.choice(
                    (
                        exp.Not(this=exp.Is(this=column(leaf.attributes[0]), expression=exp.Null())),
                        exp.GT(this=column(leaf.attributes[1]), expression=exp.Literal.number(0)),
                    )
                )
                leaf = Filter(leaf, test)
            return leaf
        parts: list[Plan] = []
        start = first
        for size in _split(random, count):
            parts.append(build(start, size))
            start += size
        if random.random() < 0.3:
            name = next(names)
            return Union(tuple(pair(part) for part in parts), (f"{name}.k", f"{name}.v"))
        conditions = []
        for left, right in pairwise(parts):
            if random.random() < 0.85:
                conditions.append(comparison(left.attributes[0], right.attributes[0]))
            if random.random() < 0.15:
                conditions.append(comparison(random.choice(left.attributes), random.choice(right.attributes)))
        joined: Plan = Join(tuple(parts), tuple(conditions))
        return pair(joined) if random.random() < 0.2 else joined

    plan = build(0, leaves)
    if random.random() < 0.3:
        plan = pair(plan)
    validate(plan)
    return plan


def _split(random: Random, count: int) -> list[int]:
    """Two or more positive parts of count."""
    cuts = sorted(random.sample(range(1, count), random.randint(1, min(2, count - 1))))
    return [end - start for start, end in zip([0, *cuts], [*cuts, count], strict=True)]


@dataclass(slots=True)
class World:
    """A view over tables whose future is known to the test only: ``pass_time`` lets the next csns happen."""

    seed: int
    random: Random
    plan: Plan
    history: History
    future: list[dict[str, list[tuple[Row, int]]]]

    @property
    def engine(self) -> ReferenceEngine:
        return ReferenceEngine(self.history)

    @property
    def last(self) -> Csn:
        return Csn(self.history.now + len(self.future))

    def pass_time(self, csns: int) -> None:
        for _ in range(min(csns, len(self.future))):
            self.history.commit(self.future.pop(0))

    def tables(self) -> list[str]:
        return [leaf.table for leaf in scans(self.plan)]


def random_world(seed: int, csns: tuple[int, int] = (6, 13), passed: bool = False) -> World:
    random = Random(seed)
    leaves = leaf_count(random)
    plan = random_plan(random, leaves)
    keys = (None, 0, 1) if leaves < 4 else (None, 0, 1, 2, 3)
    tables = sorted({leaf.table for leaf in scans(plan)})
    contents = {table: [_row(random, keys) for _ in range(random.randint(0, 4))] for table in tables}
    history = History.beginning_with(contents)
    future = [_unit_of_work(random, keys, contents) for _ in range(random.randint(*csns))]
    world = World(seed, random, plan, history, future)
    if passed:
        world.pass_time(len(future))
    return world


def _row(random: Random, keys: tuple[int | None, ...]) -> Row:
    return (random.choice(keys), random.choice((None, 0, 1)))


def _unit_of_work(
    random: Random, keys: tuple[int | None, ...], contents: dict[str, list[Row]]
) -> dict[str, list[tuple[Row, int]]]:
    """Changes of up to two tables: insertions, deletions of what is there, updates, changes that cancel out; or
    nothing.
    """
    changes: dict[str, list[tuple[Row, int]]] = {}
    for table in random.sample(sorted(contents), min(len(contents), random.choice((0, 1, 1, 1, 2)))):
        rows, log = contents[table], changes.setdefault(table, [])
        for _ in range(random.choice((1, 1, 2, 3))):
            kind = random.choice(("insert", "insert", "insert", "delete", "delete", "update", "cancel", "twice"))
            if kind in ("delete", "update") and rows:
                log.append((rows.pop(random.randrange(len(rows))), -1))
            row = _row(random, keys)
            if kind in ("insert", "update", "twice"):
                copies = 2 if kind == "twice" else 1
                rows.extend([row] * copies)
                log.append((row, copies))
            if kind == "cancel":
                log.extend([(row, 1), (row, -1)])
    return {table: log for table, log in changes.items() if log}


class Law:
    """V(t) = net( V(a) + σ(a,t] ΔV ), asked at every csn from a to the mark, against recomputation at each."""

    def __init__(self, world: World, start: Csn) -> None:
        self.world = world
        self.start = start
        self.view_delta = ZSet()
        self._expected: dict[Csn, dict[Row, int]] = {}

    def add(self, rows: ZSet) -> None:
        self.view_delta += rows

    def run(self, query: Query) -> Csn:
        """Run the query now, keep its answer, tell its execution time."""
        answer = self.world.engine.run(query)
        self.add(answer.rows)
        return answer.execution_time

    def violations(self, mark: Csn) -> Iterator[str]:
        initial = self.world.engine.view_at(self.world.plan, self.start)
        for number in range(self.start, mark + 1):
            at = Csn(number)
            rolled = (initial + self.view_delta.select(Interval(self.start, at))).counts()
            if rolled != self.expected(at):
                yield (
                    f"seed {self.world.seed}: rolled from {self.start} to {at} the view is {rolled}, "
                    f"recomputed {self.expected(at)}"
                )

    def check(self, mark: Csn) -> None:
        self.view_delta = self.view_delta.consolidate()
        for violation in self.violations(mark):
            raise AssertionError(violation)

    def expected(self, at: Csn) -> dict[Row, int]:
        if at not in self._expected:
            self._expected[at] = self.world.engine.view_at(self.world.plan, at).counts()
        return self._expected[at]


def random_moment(world: World) -> Csn:
    """A csn that has already happened, at which a view may have been materialized: often the beginning."""
    return Csn(world.random.choice((BEGINNING, world.random.randint(BEGINNING, world.history.now))))
