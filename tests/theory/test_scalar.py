"""Scalars of the reference evaluator: SQL's three-valued logic, compared with SQLite's."""

from __future__ import annotations

import sqlite3
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp, parse_one

from headwater.algebra.scalar import compile_scalar, evaluate

A, B = "r1.k", "r2.v"


def sql(text: str) -> exp.Expression:
    """SQL with ``a`` and ``b`` for attributes, as plans hold them: quoted, with a dot inside, not qualified."""
    return parse_one(text, dialect="spark").transform(
        lambda node: exp.column({"a": A, "b": B}[node.name], quoted=True) if isinstance(node, exp.Column) else node
    )


@pytest.mark.parametrize(
    ("text", "a", "b", "value"),
    [
        ("a = b", 1, 1, True),
        ("a = b", None, 1, None),
        ("a = b", None, None, None),
        ("a <> b", 1, None, None),
        ("a <=> b", None, None, True),
        ("a <=> b", None, 1, False),
        ("a < b", 1, 2, True),
        ("a <= b", 2, 2, True),
        ("a > b", 1, 2, False),
        ("a >= b", 1, None, None),
        ("a = 1 AND b = 1", 0, None, False),
        ("a = 1 AND b = 1", 1, None, None),
        ("a = 1 OR b = 1", 1, None, True),
        ("a = 1 OR b = 1", 0, None, None),
        ("NOT (a = b)", 1, None, None),
        ("NOT (a = b)", 1, 2, True),
        ("a IS NULL", None, 0, True),
        ("a IS NOT NULL", None, 0, False),
        ("a + b * 2 - 1", 1, 3, 6),
        ("a - b", None, 3, None),
        ("-a", 2, 0, -2),
        ("COALESCE(a, b, 7)", None, None, 7),
        ("COALESCE(a, b)", None, 0, 0),
        ("COALESCE(a, b)", None, None, None),
        ("a AS renamed", 5, 0, 5),
        ("'text'", 0, 0, "text"),
        ("1.5", 0, 0, Decimal("1.5")),
        ("NULL", 0, 0, None),
        ("TRUE AND a IS NULL", None, 0, True),
    ],
)
def test_values(text: str, a: Any, b: Any, value: Any) -> None:
    result = evaluate(sql(text), {A: a, B: b})
    assert result == value
    assert (result is None) == (value is None)


@pytest.mark.parametrize(
    "text", ["a / b", "a % b", "UPPER(a)", "a LIKE 'x'", "a IN (1)", "a IS TRUE", "CAST(a AS INT)"]
)
def test_anything_else_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match="the reference evaluator has no"):
        compile_scalar(sql(text), (A, B))


def test_an_unknown_attribute_names_the_known() -> None:
    with pytest.raises(ValueError, match=r"no attribute 'x' among 'r1.k', 'r2.v'"):
        compile_scalar(exp.column("x", quoted=True), (A, B))


def test_a_qualified_column_is_refused() -> None:
    with pytest.raises(ValueError, match="no table qualifier"):
        compile_scalar(exp.column("k", table="r1"), (A, B))


numbers = st.recursive(
    st.sampled_from(["a", "b", "0", "1", "NULL"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*"]), inner).map(lambda part: f"({' '.join(part)})"),
        st.tuples(inner, inner).map(lambda part: f"COALESCE({', '.join(part)})"),
    ),
    max_leaves=4,
)
conditions = st.recursive(
    st.one_of(
        st.tuples(numbers, st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "<=>"]), numbers).map(
            lambda part: f"({' '.join(part)})"
        ),
        numbers.map(lambda number: f"({number} IS NULL)"),
    ),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map(lambda part: f"({' '.join(part)})"),
        inner.map(lambda condition: f"(NOT {condition})"),
    ),
    max_leaves=6,
)
values = st.sampled_from([None, 0, 1, 2])


@given(conditions | numbers, values, values)
def test_sqlite_agrees(text: str, a: int | None, b: int | None) -> None:
    with sqlite3.connect(":memory:") as database:
        query = parse_one(f"SELECT {text} FROM (SELECT :a AS a, :b AS b)", dialect="spark").sql("sqlite")
        (expected,) = database.execute(query, {"a": a, "b": b}).fetchone()
    database.close()
    result = evaluate(sql(text), {A: a, B: b})
    assert result == expected
    assert (result is None) == (expected is None)
