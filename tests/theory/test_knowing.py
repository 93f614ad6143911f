"""The looks of a step at its constraints: the statement, run by SQLite, against the specification; and what is kept."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from random import Random
from typing import Any

import sqlglot

from headwater.algebra.constraints import Constraint, ForeignKey, Knowledge, Unique
from headwater.algebra.time import Csn, Interval
from headwater.algebra.violations import first_violation, violations_at
from headwater.catalog.constraints import Seen
from headwater.catalog.records import ConstraintRecord
from headwater.engine.reference import History
from headwater.propagate.frontier import Frontier, advance
from headwater.propagate.knowing import CountedSigns, Integrity, Todo, look, needed, useful
from headwater.propagate.trust import Check
from headwater.sql.dialect import VerbatimSpark
from headwater.sql.verification import Finding
from tests.sql.test_verification import Written
from tests.theory.keyed import COLUMNS, CONSTRAINTS, Signed, joined, keyed_history, leaf, with_union

KEY, REFERENCE = Unique("o", ("k",), primary=True), ForeignKey("l", ("p",), "o", ("k",))


def span(start: int, end: int) -> Interval:
    return Interval(Csn(start), Csn(end))


class _CountIf:
    def __init__(self) -> None:
        self.count = 0

    def step(self, condition: Any) -> None:
        self.count += bool(condition)

    def finalize(self) -> int:
        return self.count


def asked(text: str) -> list[Finding]:
    """SQLite with the functions of Spark's that the statement calls."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.create_function("struct", -1, lambda *values: json.dumps(values))
        connection.create_function("map", -1, lambda *_: "")
        connection.create_function("to_json", 2, lambda value, _: value)
        connection.create_aggregate("count_if", 1, _CountIf)  # type: ignore[arg-type]
        (translated,) = sqlglot.transpile(text, read=VerbatimSpark, write="sqlite")
        return [Finding(*row) for row in connection.execute(translated)]


def seen(constraint: Constraint, held: Interval | None = None, broken: int | None = None) -> Seen:
    problem = None if broken is None else {"csn": broken}
    return Seen(ConstraintRecord(str(constraint), constraint, 0, held, problem), {})


def test_one_statement_finds_what_the_specification_finds() -> None:
    broken = 0
    for seed in range(12):
        history = keyed_history(seed, honest=False, csns=5)
        over = Interval(Csn(0), history.now)
        todo = Todo(tuple((seen(each), Check(each, seed % 2 == 0, over)) for each in CONSTRAINTS))
        found = look(Written(history), todo, ["o", "c"], over, asked)
        for constraint in CONSTRAINTS:
            first = first_violation(constraint, history, COLUMNS, over)
            if seed % 2 == 0 and any(violations_at(constraint, history, COLUMNS, Csn(0))):
                first = Csn(0)
            assert found.first_broken(str(constraint)) == first
            if first is not None:
                broken += 1
                told = [tuple(json.loads(each["key"])) for each in found.broken[str(constraint)]["keys"]]
                expected = {each.key for each in violations_at(constraint, history, COLUMNS, first)}
                assert told
                assert set(told) <= expected
        counted, spoken = CountedSigns(history, over, found.signs), Signed(history)
        for table in ("o", "c"):
            for start in range(5):
                interval = Interval(Csn(start), history.now)
                assert counted.only_deletes(table, interval) == _alike(history, table, interval, -1)
                if counted.only_inserts(table, interval):
                    assert spoken.only_inserts(table, interval)
    assert broken >= 10


def _alike(history: History, table: str, interval: Interval, sign: int) -> bool:
    return all(count * sign > 0 for _, count, _ in history.base_delta(table, interval))


def test_signs_are_known_only_where_they_were_counted() -> None:
    history = History.beginning_with({"o": [(1, None, 0)]})
    for number in (2, 3):
        history.commit({"o": [((number, None, 0), 1)]})
    signs = CountedSigns(history, span(1, 2), {"o": {Csn(2): (1, 0)}})
    assert signs.only_inserts("o", span(1, 2))
    assert not signs.only_deletes("o", span(1, 2))
    assert not signs.only_inserts("o", span(0, 2))  # csn 1 was not looked at
    assert signs.only_inserts("o", span(2, 2))  # no changes at all
    assert not CountedSigns(history, span(0, 2)).only_inserts("o", span(0, 2))


def test_only_what_a_join_of_the_view_rests_on_is_looked_at() -> None:
    assert useful([joined("o", "l")], CONSTRAINTS) == {KEY, REFERENCE}
    assert useful([joined("l", "o", on=())], CONSTRAINTS) == frozenset()
    assert useful([leaf(0, "l")], CONSTRAINTS) == frozenset()
    assert useful([leaf(0, "l"), joined("c", "o", "l")], CONSTRAINTS) == {
        KEY,
        REFERENCE,
        Unique("c", ("k",)),
        ForeignKey("o", ("p",), "c", ("k",)),
    }
    assert REFERENCE in useful([with_union(Random(1))], CONSTRAINTS)


def test_checks_reach_from_what_is_known_to_the_end_of_the_step() -> None:
    history = History.beginning_with({"o": [(1, None, 0)], "l": [(1, 0)]})
    history.commit({"o": [((2, None, 0), 1)], "l": [((2, 5), 1)]})
    history.commit({"o": [((3, None, 0), 1)]})

    def todo(*known: Seen) -> list[tuple[Constraint, Interval]]:
        found = needed([joined("o", "l")], span(1, 2), known, history)
        assert not any(check.state for _, check in found.checks)
        return [(check.constraint, check.changes) for _, check in found.checks]

    assert todo(seen(KEY, span(0, 0)), seen(REFERENCE, span(0, 1))) == [(KEY, span(0, 2)), (REFERENCE, span(1, 2))]
    assert todo(seen(KEY), seen(REFERENCE, span(0, 1), broken=2)) == []  # a state would have to be looked at
    assert todo(seen(KEY, span(0, 2))) == []


def test_where_nothing_is_to_be_looked_at_nothing_is_asked() -> None:
    def never(_: str) -> Sequence[Finding]:
        raise AssertionError("a statement was run")

    history = History.beginning_with({"o": [(1, None, 0)]})
    assert look(Written(history), Todo(), ["o"], span(0, 0), never).signs == {}


def test_queries_are_cut_only_by_what_is_known() -> None:
    history = History.beginning_with({"o": [(1, None, 0)], "l": [(1, 0)]})
    history.commit({"o": [((2, None, 0), 1)], "l": [((2, 5), 1)]})
    plan, over = joined("o", "l"), span(0, 1)
    queries = advance(plan, Frontier.at(plan, Csn(0)), (Csn(1), Csn(1)), history).queries
    assert Integrity().cut(queries) == queries
    known = Knowledge.of([KEY, REFERENCE], over)
    counted = look(Written(history), Todo(), ["o"], over, asked).signs
    knowing = Integrity(known, CountedSigns(history, over, counted))
    assert [str(query) for query in knowing.cut(queries)] == ["o0@0+Δ(0, 1] ⋈ l1Δ(0, 1]"]
    assert knowing.as_json() == {"queries": 2, "cut": 1, "broken": {}}
    blind = Integrity(Knowledge.of([KEY], over), CountedSigns(history, over, counted))
    assert blind.cut(queries) == queries
