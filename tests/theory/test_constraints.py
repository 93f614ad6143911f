"""Constraints as values, what is known of them, and the check of changes against the check of every state."""

from __future__ import annotations

import pytest

from headwater.algebra.constraints import (
    Constraint,
    ForeignKey,
    Holding,
    Knowledge,
    Unique,
    broken_at,
    extended,
    objection,
)
from headwater.algebra.time import Csn, Interval
from headwater.algebra.violations import Violation, first_violation, violations_at, violations_over
from headwater.engine.reference import History
from tests.theory.keyed import COLUMNS, CONSTRAINTS, keyed_history

TYPES = {table: dict.fromkeys(columns, "int") for table, columns in COLUMNS.items()}


def span(start: int, end: int) -> Interval:
    return Interval(Csn(start), Csn(end))


def broken_csns(constraint: Constraint, history: History) -> list[Csn]:
    """Every state looked at as a whole."""
    found = (Csn(at) for at in range(history.now + 1))
    return [at for at in found if any(violations_at(constraint, history, COLUMNS, at))]


@pytest.mark.parametrize("chunk", range(10))
def test_honest_histories_keep_every_constraint_at_every_csn(chunk: int) -> None:
    for seed in range(chunk * 10, chunk * 10 + 10):
        history = keyed_history(seed)
        for constraint in CONSTRAINTS:
            assert broken_csns(constraint, history) == [], (seed, str(constraint))
            assert violations_over(constraint, history, COLUMNS, Interval(Csn(0), history.now)) == []


@pytest.mark.parametrize("chunk", range(10))
def test_the_check_of_changes_finds_what_the_check_of_states_finds(chunk: int) -> None:
    broken = 0
    for seed in range(chunk * 20, chunk * 20 + 20):
        history = keyed_history(seed, honest=False)
        for constraint in CONSTRAINTS:
            at = broken_csns(constraint, history)
            assert first_violation(constraint, history, COLUMNS, Interval(Csn(0), history.now)) == min(at, default=None)
            before = Csn((min(at) if at else history.now) // 2)  # it held there
            assert first_violation(constraint, history, COLUMNS, Interval(before, history.now)) == min(at, default=None)
            broken += bool(at)
    assert broken >= 10


def test_a_constraint_broken_and_mended_inside_an_interval_is_found_where_it_was_broken() -> None:
    """The line item is committed before its order: at csn 1 it refers to nothing."""
    history = History.beginning_with({"o": [], "l": []})
    history.commit({"l": [((1, 0), 1)]})
    history.commit({"o": [((1, None, 0), 1)]})
    reference = ForeignKey("l", ("p",), "o", ("k",))
    assert violations_over(reference, history, COLUMNS, span(0, 2)) == [Violation(reference, Csn(1), (1,))]
    assert broken_csns(reference, history) == [1]


def test_one_unit_of_work_may_write_the_tables_in_any_order() -> None:
    history = History.beginning_with({"o": [], "l": []})
    history.commit({"l": [((1, 0), 1)], "o": [((1, None, 0), 1)]})
    assert broken_csns(ForeignKey("l", ("p",), "o", ("k",)), history) == []


def test_nulls_refer_to_nothing_and_double_nothing_but_are_no_primary_key() -> None:
    history = History.beginning_with({"c": [(None, None, 0), (None, None, 0)], "n": []})
    assert broken_csns(Unique("c", ("k",)), history) == []
    assert broken_csns(Unique("c", ("k",), primary=True), history) == [0]
    assert broken_csns(ForeignKey("c", ("p",), "n", ("k",)), history) == []


def test_what_can_not_be_declared_and_why() -> None:
    key = Unique("o", ("k",))
    assert objection(key, TYPES, []) is None
    assert objection(Unique("x", ("k",)), TYPES, []) == "'x' is not a tracked table"
    assert objection(Unique("o", ("z",)), TYPES, []) == "'o' has no column 'z' (it has k, p, v)"
    primary = Unique("o", ("v",), primary=True)
    assert objection(primary, TYPES, [Unique("o", ("k",), primary=True)]) == "'o' has a primary key already"
    reference = ForeignKey("l", ("p",), "o", ("k",))
    assert objection(reference, TYPES, []) == "(k) is not a declared key of 'o'"
    assert objection(reference, TYPES, [key]) is None
    other = {**TYPES, "l": {"p": "string", "v": "int"}}
    assert objection(reference, other, [key]) == "l.p is string and o.k is int: they must be of one type"


def test_a_constraint_that_says_nothing_is_refused() -> None:
    for columns in ((), ("k", "k")):
        with pytest.raises(ValueError, match="each once"):
            Unique("o", columns)
    with pytest.raises(ValueError, match="numbers differ"):
        ForeignKey("l", ("p", "v"), "o", ("k",))


def test_knowledge_grows_where_it_is_continued_and_starts_anew_where_not() -> None:
    assert extended(None, span(3, 3)) == span(3, 3)
    assert extended(span(3, 3), span(3, 7)) == span(3, 7)
    assert extended(span(3, 7), span(5, 6)) == span(3, 7)
    assert extended(span(3, 7), span(9, 9)) == span(9, 9)
    assert extended(span(3, 7), span(1, 1)) == span(1, 1)


def test_knowledge_ends_before_the_csn_that_broke_it() -> None:
    assert broken_at(span(3, 7), Csn(6)) == span(3, 5)
    assert broken_at(span(3, 7), Csn(9)) == span(3, 7)
    assert broken_at(span(3, 7), Csn(3)) is None
    assert broken_at(None, Csn(3)) is None


def test_knowledge_is_asked_for_every_csn_of_a_span() -> None:
    key, reference = Unique("o", ("k",)), ForeignKey("l", ("p",), "o", ("k",))
    known = Knowledge((Holding(key, span(2, 5)), Holding(reference, span(0, 9))))
    assert known.foreign_keys == (reference,)
    assert known.holds(reference, Csn(0), Csn(9))
    assert not known.holds(reference, Csn(0), Csn(10))
    assert known.is_key("o", ("v", "k"), Csn(2), Csn(5))
    assert not known.is_key("o", ("v",), Csn(2), Csn(5))
    assert not known.is_key("o", ("k",), Csn(1), Csn(5))
    assert not known.is_key("l", ("k",), Csn(2), Csn(5))
