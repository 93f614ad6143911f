"""Key ranges as text: literals of the column's type, and, run by SQLite, just the rows that lie in them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal

import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.algebra.key_ranges import Key, key_ranges
from headwater.sql.dialect import VerbatimSpark, column, to_text
from headwater.sql.key_condition import key_condition, literal


def text(keys: list[Key | None], limit: int = 3, **options: bool) -> str:
    return to_text(key_condition(column("k", "t"), key_ranges(keys, limit), **options))


def test_ranges_single_keys_and_none() -> None:
    assert text([5]) == "`t`.`k` = 5"
    assert text([1, 2, 9]) == "(`t`.`k` BETWEEN 1 AND 2 OR `t`.`k` = 9)"
    assert text([-3, -2]) == "`t`.`k` BETWEEN -3 AND -2"
    assert text([]) == "FALSE"


def test_nulls_meet_only_where_they_are_said_to() -> None:
    assert text([None, 5]) == "`t`.`k` = 5"
    assert text([None]) == "FALSE"
    assert text([None, 5], nulls_meet=True) == "(`t`.`k` = 5 OR `t`.`k` IS NULL)"
    assert text([None], nulls_meet=True) == "`t`.`k` IS NULL"
    assert text([5], nulls_meet=True) == "`t`.`k` = 5"


def test_literals_are_of_the_type_of_the_column() -> None:
    plus_two = timezone(timedelta(hours=2))
    shown = {
        date(987, 1, 31): "DATE '0987-01-31'",
        datetime(2024, 1, 31, 12): "TIMESTAMP_NTZ '2024-01-31 12:00:00'",
        datetime(2024, 1, 31, 12, 0, 0, 7, plus_two): "TIMESTAMP '2024-01-31 10:00:00.000007Z'",
        Decimal("-1.50"): "-1.50",
        Decimal("1E+3"): "1000",
        Decimal("0.0000001"): "0.0000001",
        -(2**63): "-9223372036854775808",
        "it's": r"'it\'s'",
        "back\\slash": r"'back\\slash'",
    }
    assert {key: to_text(literal(key)) for key in shown} == shown


def test_a_nul_is_in_no_literal_since_digits_behind_it_would_make_another_character() -> None:
    assert text(["\0" + "01"]) == "`t`.`k` BETWEEN '' AND '\\001'"
    assert text(["a\0b", "a\0c"]) == "(`t`.`k` BETWEEN 'a' AND 'a\\001' OR `t`.`k` BETWEEN 'a' AND 'a\\001')"
    assert text(["a\0", "b", "c"], limit=1) == "`t`.`k` BETWEEN 'a' AND 'c'"


@settings(max_examples=60, deadline=None)
@given(st.lists(st.none() | st.text(max_size=4).filter(lambda t: "\0" not in t), max_size=5), st.integers(1, 3))
def test_strings_come_back_as_they_were_and_no_row_of_a_key_is_left_out(keys: list[str | None], limit: int) -> None:
    condition = key_condition(column("k"), key_ranges(keys, limit))
    for part in condition.find_all(sqlglot.exp.Literal):
        (read,) = sqlglot.parse_one(f"SELECT {to_text(part)}", read=VerbatimSpark).expressions
        assert read.this == part.this
    (translated,) = sqlglot.transpile(f"SELECT k FROM t WHERE {to_text(condition)}", read=VerbatimSpark, write="sqlite")
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE t (k TEXT)")
        connection.executemany("INSERT INTO t VALUES (?)", [(key,) for key in keys])
        found = [row[0] for row in connection.execute(translated)]
    assert sorted(found) == sorted(key for key in keys if key is not None)
