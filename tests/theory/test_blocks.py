"""The strategies' driver without Spark: stages, steps and answers run by SQLite over a history, against the law."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
import sqlglot
from sqlglot import exp

from headwater.algebra.plan import Join, Plan, Project, Union, scans
from headwater.algebra.time import Csn, Interval
from headwater.algebra.zset import ZSet
from headwater.context import Sizes
from headwater.definition import Definition, TableUse
from headwater.engine.reference import History, ReferenceEngine
from headwater.engine.staging import Spread, StagedRows
from headwater.engine.statistics import Extent
from headwater.propagate.choosing import Wanted
from headwater.propagate.knowing import Integrity
from headwater.propagate.stepping import Stepping
from headwater.propagate.strategy import NTerm, change_over
from headwater.propagate.tree_driver import Blocks
from headwater.propagate.tree_stages import evaluate
from headwater.sql.dialect import VerbatimSpark, column, named
from headwater.sql.relations import COUNT, CSN, Sources
from tests.theory.keyed import COLUMNS, joined, keyed_history, leaf


class Tables:
    """A history's tables as queries without tables."""

    def __init__(self, history: History) -> None:
        self.history = history

    def __contains__(self, name: str) -> bool:
        return name in COLUMNS

    def state(self, name: str, at: Csn) -> exp.Query:
        rows = [row for row, times, _ in self.history.state(name, at) for _ in range(times)]
        return _query(COLUMNS[name], rows)

    def changes(self, name: str, interval: Interval) -> exp.Query:
        rows = [(*row, times, csn) for row, times, csn in self.history.base_delta(name, interval)]
        return _query((*COLUMNS[name], COUNT, CSN), rows)

    def nothing(self, name: str) -> exp.Query:
        return _query(COLUMNS[name], [])


def _query(names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> exp.Query:
    def select(row: Sequence[Any]) -> exp.Select:
        return exp.select(*(named(exp.convert(value), name) for value, name in zip(row, names, strict=True)))

    if not rows:
        return select([None] * len(names)).where(exp.false())
    query: exp.Query = select(rows[0])
    for row in rows[1:]:
        query = exp.union(query, select(row), distinct=False)
    return query


class Engine:
    """Staging on SQLite, and statistics that know nothing but numbers of rows."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.connection = sqlite3.connect(":memory:")
        self.connection.create_function("greatest", -1, lambda *v: max((x for x in v if x is not None), default=None))
        self.names = (f"kept{number}" for number in count())
        self.staging = self
        self.residents = self
        self.statements = 0

    def run(self, text: str) -> list[tuple[Any, ...]]:
        self.statements += 1
        return self.connection.execute(self._translated(text)).fetchall()

    def compute(self, text: str) -> str:
        return text

    def columns(self, text: str) -> list[tuple[str, str]]:
        answer = self.connection.execute(self._translated(text))
        return [(name, "bigint") for name, *_ in answer.description]

    def _translated(self, text: str) -> str:
        return sqlglot.transpile(text, read=VerbatimSpark, write="sqlite", unsupported_level=sqlglot.ErrorLevel.IGNORE)[
            0
        ].replace("VARCHAR", "")

    @contextmanager
    def changes(self, text: str, _: Sequence[Spread] = ()) -> Iterator[StagedRows]:
        yield self._keep(text)

    @contextmanager
    def leaf_changes(
        self, texts: Mapping[Any, str], _: Mapping[Any, Any], *, few: bool = False
    ) -> Iterator[dict[Any, StagedRows]]:
        yield {key: self._keep(text) for key, text in texts.items()}

    def for_rows(self, _: int | None) -> AbstractContextManager[None]:
        return nullcontext()

    def holds_few(self, _: str) -> bool:
        return False

    def _keep(self, text: str) -> StagedRows:
        name = next(self.names)
        self.connection.execute(f'CREATE TABLE "{name}" AS {self._translated(text)}')
        rows, negative = self.connection.execute(
            f'SELECT count(*), coalesce(sum("{COUNT}" < 0), 0) FROM "{name}"'
        ).fetchone()
        return StagedRows(name, rows, negative > 0)

    def extent(self, location: str, columns: Sequence[str], changed: object = None) -> Extent:
        """Of tables that are taken for larger ones: below tiny tables no tree has stages."""
        return Extent(1000 * len(self.history.state(location, Csn(0))), {})


class Moments:
    def __init__(self, history: History) -> None:
        self.history = history

    def location(self, table: str) -> str:
        return table

    def known_rows(self, name: str, interval: Interval) -> int:
        return len(self.history.base_delta(name, interval))

    def has_changes(self, name: str, interval: Interval) -> bool:
        return self.history.has_changes(name, interval)


def change(plan: Plan, history: History, interval: Interval, wanted: Wanted, sizes: Sizes) -> tuple[ZSet, Blocks]:
    engine, moments = Engine(history), Moments(history)
    catalog = SimpleNamespace(done_steps=lambda *_, **__: [])
    context: Any = SimpleNamespace(
        catalog=catalog, engine=engine, statistics=engine, sizes=sizes, sharing=None, progress=lambda _: None
    )
    uses = {name: TableUse(tuple((column, "int") for column in names), names) for name, names in COLUMNS.items()}
    definition = Definition("", uses, {}, plan, {}, {})
    view: Any = SimpleNamespace(view_id="v")
    with ExitStack() as stack:
        stepping = Stepping(context, definition, moments, moments, stack)  # type: ignore[arg-type]
        blocks = Blocks(context, view, definition, wanted, Integrity())
        sources = Sources(moments, Tables(history))  # type: ignore[arg-type]
        ready = blocks.prepared("", plan, interval, history, sources, stepping)
        rows = engine.run(ready.text(plan.attributes)) if ready.queries else []
        blocks.answered(len(rows))
    return ZSet.of((row[:-2], row[-2], Csn(row[-1])) for row in rows), blocks


def counts(changes: ZSet, at: int) -> dict[Any, int]:
    """The net effect of the changes up to a csn."""
    return changes.select(Interval(Csn(0), Csn(at))).counts()


SHAPES = (("o", "l"), ("c", "o", "l"), ("l", "c", "o"), ("n", "c", "o", "l"), ("o", "l", "l"))
SIZES = (Sizes(), Sizes(large_table=1), Sizes(broadcast=1, large_table=2))


@pytest.mark.parametrize("wanted", list(Wanted), ids=lambda each: each.value)
def test_the_law_holds_at_every_csn_for_every_strategy(wanted: Wanted) -> None:
    found = staged = 0
    for seed in range(18):
        history = keyed_history(seed, csns=4)
        plan, interval = joined(*SHAPES[seed % len(SHAPES)]), Interval(Csn(0), Csn(4))
        expected = evaluate(change_over(plan, interval, history, NTerm()), ReferenceEngine(history))
        answer, blocks = change(plan, history, interval, wanted, SIZES[seed % len(SIZES)])
        for at in range(5):
            assert counts(answer, at) == counts(expected, at), (seed, at)
        found += len(expected)
        staged += sum(1 < len(node["leaves"]) < len(list(scans(plan))) for r in blocks.as_json() for node in r["nodes"])
        for report in blocks.as_json():
            assert wanted is Wanted.AUTO or report["strategy"] == wanted.value
    assert found > 20
    assert staged or wanted in (Wanted.N_TERM, Wanted.RECOMPUTE, Wanted.AUTO)


def tagged() -> Plan:
    """Orders beside a union that tells its branches by a tag: in each product another condition over orders alone."""
    orders, first, second = leaf(0, "o"), leaf(1, "l"), leaf(2, "l")
    branches = tuple(
        Project(lines, (("u.p", column(lines.attributes[0])), ("u.tag", exp.Literal.number(tag))))
        for tag, lines in enumerate((first, second), start=1)
    )
    return Join(
        (orders, Union(branches, ("u.p", "u.tag"))),
        (
            exp.EQ(this=column("o0.k"), expression=column("u.p")),
            exp.EQ(this=column("o0.p"), expression=column("u.tag")),
        ),
    )


@pytest.mark.parametrize("wanted", list(Wanted), ids=lambda each: each.value)
def test_a_leaf_beside_a_union_is_kept_for_each_product_under_its_own_conditions(wanted: Wanted) -> None:
    changes = {
        "o": [(0, (1, 1, 10), 1), (0, (1, 2, 20), 1), (1, (1, 1, 11), 1), (1, (1, 2, 21), 1), (3, (1, 1, 10), -1)],
        "l": [(0, (1, 100), 1), (2, (1, 101), 1), (2, (2, 200), 1)],
    }
    numbered = {table: [(Csn(csn), row, count) for csn, row, count in rows] for table, rows in changes.items()}
    history, plan, interval = History(numbered, Csn(3)), tagged(), Interval(Csn(0), Csn(3))
    expected = evaluate(change_over(plan, interval, history, NTerm()), ReferenceEngine(history))
    answer, _ = change(plan, history, interval, wanted, Sizes(large_table=1))
    for at in range(4):
        assert counts(answer, at) == counts(expected, at), at
    assert len(counts(expected, 3)) == 4
