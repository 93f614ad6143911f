"""The statements that check constraints: what they read, and, run by SQLite, the answers of their specification."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from functools import reduce
from typing import Any

import pytest
import sqlglot
from sqlglot import exp

from headwater.algebra.constraints import Constraint, ForeignKey, Unique
from headwater.algebra.time import Csn, Interval
from headwater.algebra.violations import violations_at, violations_over
from headwater.engine.reference import History
from headwater.sql.dialect import VerbatimSpark, named
from headwater.sql.relations import COUNT, CSN
from headwater.sql.verification import DeltaRelations, violations_at_sql, violations_over_sql
from tests.sql.test_render import Moments, reads
from tests.theory.keyed import COLUMNS, CONSTRAINTS, keyed_history

MANY = 1000


class Written:
    """A history's tables, each written out as a query without tables."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.read: list[str] = []

    def state(self, table: str, columns: Sequence[str], at: Csn) -> exp.Query:
        self.read.append(table)
        rows = [row for row, count, _ in self.history.state(table, at) for _ in range(count)]
        return self._query(columns, [self._values(table, columns, row) for row in rows])

    def changes(self, table: str, columns: Sequence[str], interval: Interval) -> exp.Query | None:
        changes = self.history.base_delta(table, interval)
        if not len(changes):
            return None
        rows = [(*self._values(table, columns, row), count, csn) for row, count, csn in changes]
        return self._query([*columns, COUNT, CSN], rows)

    def _values(self, table: str, columns: Sequence[str], row: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(row[COLUMNS[table].index(name)] for name in columns)

    def _query(self, names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> exp.Query:
        def select(row: Sequence[Any]) -> exp.Select:
            pairs = zip(row, names, strict=True)
            return exp.select(*(named(exp.convert(value), name) for value, name in pairs))

        if not rows:
            return select([None] * len(names)).where(exp.false())
        return reduce(lambda left, right: exp.union(left, right, distinct=False), map(select, rows))


def run(text: str | None) -> list[tuple[Any, ...]]:
    if text is None:
        return []
    with closing(sqlite3.connect(":memory:")) as connection:
        (translated,) = sqlglot.transpile(text, read=VerbatimSpark, write="sqlite")
        return connection.execute(translated).fetchall()


def over(constraint: Constraint, history: History, interval: Interval, **options: bool) -> list[tuple[Any, ...]]:
    return run(violations_over_sql(constraint, Written(history), interval, MANY, **options))


@pytest.mark.parametrize("chunk", range(5))
def test_the_statements_answer_as_their_specification(chunk: int) -> None:
    broken = 0
    for seed in range(chunk * 4, chunk * 4 + 4):
        history = keyed_history(seed, honest=False, csns=5)
        for constraint in CONSTRAINTS:
            at_last = violations_at(constraint, history, COLUMNS, history.now)
            listed = run(violations_at_sql(constraint, Written(history), history.now, MANY))
            assert {row[1:-1] for row in listed} == {each.key for each in at_last}
            interval = Interval(Csn(0), history.now)
            expected = violations_over(constraint, history, COLUMNS, interval)
            found = over(constraint, history, interval)
            # A key stays broken until it changes; the statement tells of the csns at which it changed.
            assert {row[1:-1] for row in found} == {each.key for each in expected}
            assert [row[0] for row in found[:1]] == [each.csn for each in expected[:1]]
            assert {(row[0], row[1:-1]) for row in found} <= {(each.csn, each.key) for each in expected}
            at_the_end = over(constraint, history, interval, end_only=True)
            assert {row[1:-1] for row in at_the_end} == {e.key for e in expected if e.csn == interval.end}
            broken += bool(found)
    assert broken >= 1


def test_new_referred_rows_need_no_look_at_the_table_that_refers() -> None:
    history = History.beginning_with({"o": [(1, None, 0)], "l": [(1, 0)]})
    history.commit({"o": [((2, None, 0), 1)], "l": [((2, 5), 1)]})
    reference = ForeignKey("l", ("p",), "o", ("k",))
    tables = Written(history)
    text = violations_over_sql(reference, tables, Interval(Csn(0), Csn(1)), MANY, referred_rows_deleted=False)
    assert run(text) == []
    assert tables.read == ["o"]


def test_nothing_is_asked_where_nothing_can_be_broken() -> None:
    history = History.beginning_with({"o": [(1, None, 0)], "l": [(1, 0)]})
    history.commit({"o": [((2, None, 0), 1)]})
    reference = ForeignKey("l", ("p",), "o", ("k",))
    interval = Interval(Csn(0), Csn(1))
    assert violations_over_sql(reference, Written(history), interval, MANY, referred_rows_deleted=False) is None
    assert violations_over_sql(Unique("l", ("p",)), Written(history), interval, MANY) is None
    assert violations_over_sql(reference, Written(history), interval, MANY) is not None


def test_line_items_committed_before_their_order_are_broken_in_between_and_whole_at_the_end() -> None:
    history = History.beginning_with({"o": [(1, None, 0)], "l": [(1, 0)]})
    history.commit({"l": [((2, 5), 1)]})
    history.commit({"o": [((2, None, 0), 1)]})
    reference, interval = ForeignKey("l", ("p",), "o", ("k",)), Interval(Csn(0), Csn(2))
    assert over(reference, history, interval) == [(1, 2, 1)]
    assert over(reference, history, interval, end_only=True) == []


def test_a_deleted_order_whose_line_items_stay_is_found() -> None:
    history = History.beginning_with({"o": [(1, None, 0), (2, None, 0)], "l": [(1, 0), (1, 1), (2, 0)]})
    history.commit({"o": [((2, None, 0), -1)], "l": [((2, 0), -1)]})
    history.commit({"o": [((1, None, 0), -1)], "l": [((1, 0), -1)]})
    reference = ForeignKey("l", ("p",), "o", ("k",))
    assert over(reference, history, Interval(Csn(0), Csn(2))) == [(2, 1, 1)]


def test_keys_of_several_columns_and_as_many_answers_as_asked_for() -> None:
    rows = [(1, 1, 0), (1, 1, 1), (1, 2, 0), (2, None, 0), (2, None, 0)]
    history = History({"o": [(Csn(1), row, 1) for row in rows]}, Csn(1))
    key = Unique("o", ("k", "p"))
    assert run(violations_at_sql(key, Written(history), Csn(1), MANY)) == [(1, 1, 1, 2)]
    assert over(key, history, Interval(Csn(0), Csn(1))) == [(1, 1, 1, 2)]
    primary = Unique("o", ("k", "p"), primary=True)
    assert over(primary, history, Interval(Csn(0), Csn(1))) == [(1, 1, 1, 2), (1, 2, None, 2)]
    text = violations_over_sql(primary, Written(history), Interval(Csn(0), Csn(1)), 1)
    assert len(run(text)) == 1


def test_of_delta_tables_versions_and_change_feeds_are_read() -> None:
    interval = Interval(Csn(0), Csn(2))
    reference = ForeignKey("s", ("k",), "r", ("k",))
    tables = DeltaRelations(Moments())
    parsed = sqlglot.parse_one(violations_over_sql(reference, tables, interval, 10) or "", read="spark")
    assert reads(parsed) == ["r@10", "r[11..12]", "s@10", "s[11..12]"]
    quiet = DeltaRelations(Moments(quiet=frozenset({"r"})))
    parsed = sqlglot.parse_one(violations_over_sql(reference, quiet, interval, 10) or "", read="spark")
    assert reads(parsed) == ["r@10", "s[11..12]"]
    parsed = sqlglot.parse_one(violations_at_sql(reference, tables, Csn(2), 10), read="spark")
    assert reads(parsed) == ["r@12", "s@12"]
