"""Printed text reads back as the tree that was meant, whatever stands under whatever; and texts are read as Spark reads
them.

Trees are built without any parentheses, as lowering builds them, and compared with what our own parser makes of their
text. That this parser has Spark's levels is told by the texts below, written from Spark's grammar by hand.
"""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp
from sqlglot.parsers.spark import SparkParser

from headwater.sql.dialect import call, column, is_not_null, parse, to_text
from headwater.sql.operators import TIGHTNESS, level

BINARY = [kind for kinds in TIGHTNESS for kind in kinds if issubclass(kind, exp.Binary) and kind is not exp.Escape]
UNARY = [exp.Neg, exp.BitwiseNot, exp.Not]


def built(kind: type[exp.Expr], *operands: exp.Expr) -> exp.Expr:
    """An operator over as many operands as it takes."""
    first, second, third = operands
    if kind is exp.Between:
        return exp.Between(this=first, low=second, high=third)
    if kind is exp.In:
        return exp.In(this=first, expressions=[second, third])
    if kind is exp.Is:
        return exp.Is(this=first, expression=exp.null())
    if kind is exp.Escape:
        return exp.Escape(this=exp.Like(this=first, expression=second), expression=exp.Literal.string("!"))
    if kind in UNARY:
        return kind(this=first)
    if kind is exp.Dot:
        first = call("struct", first) if isinstance(first, exp.Column) else first  # else it is a column of a table
        return exp.Dot(this=first, expression=exp.to_identifier("f", quoted=True))
    if kind is exp.Bracket:
        return exp.Bracket(this=first, expressions=[second])
    if kind is exp.Cast:
        return exp.Cast(this=first, to=exp.DataType.build("DATE"))
    if kind is exp.Anonymous:
        return call("coalesce", first, second, third)
    if kind is exp.Case:
        return exp.Case(ifs=[exp.If(this=first, true=second)], default=third)
    if kind is exp.Extract:
        return exp.Extract(this=exp.var("YEAR"), expression=first)
    return kind(this=first, expression=second)


OTHERS = [exp.Dot, exp.Bracket, exp.Cast, exp.Anonymous, exp.Case, exp.Extract]
KINDS = [*BINARY, *UNARY, exp.Between, exp.In, exp.Escape, *OTHERS]
OPERATORS = [kind for kind in KINDS if kind not in OTHERS]


def read(text: str) -> exp.Expr:
    value: exp.Expr = parse(f"SELECT {text} FROM t").expressions[0]
    return value


def bare(tree: exp.Expr) -> exp.Expr:
    """Without parentheses, and with functions by one spelling, divisions alike."""
    held = exp.Tuple(expressions=[tree.copy()])
    for paren in list(held.find_all(exp.Paren)):
        paren.replace(paren.this)
    for node in held.find_all(exp.Anonymous):
        node.set("this", node.name.lower())
    for node in held.find_all(exp.Div):  # the parser notes how its dialect divides
        node.set("typed", None)
        node.set("safe", None)
    found: exp.Expr = held.expressions[0]
    return found


def assert_reads_back(tree: exp.Expr) -> None:
    text = to_text(tree)
    assert bare(read(text)) == bare(tree), text
    # Parentheses are only ever added: what a user wrote comes back as it was.
    assert to_text(read(text)) == text


def columns() -> list[exp.Expr]:
    return [column(name) for name in "abc"]


@pytest.mark.parametrize("outer", KINDS, ids=lambda kind: kind.__name__)
def test_any_operator_under_any_other_reads_back_as_it_was_meant(outer: type[exp.Expr]) -> None:
    for inner, place in product(OPERATORS, range(3)):
        operands = columns()
        operands[place] = built(inner, *(column(name) for name in "xyz"))
        assert_reads_back(built(outer, *operands))


def trees() -> st.SearchStrategy[exp.Expr]:
    leaves = st.sampled_from("abc").map(column)
    return st.recursive(
        leaves,
        lambda inner: st.tuples(st.sampled_from(KINDS), inner, inner, inner).map(
            lambda parts: built(parts[0], *(each.copy() for each in parts[1:]))
        ),
        max_leaves=25,
    )


@given(trees())
def test_any_tree_reads_back_as_it_was_meant(tree: exp.Expr) -> None:
    assert_reads_back(tree)


def test_every_operator_that_can_be_read_has_a_place() -> None:
    """A new version of sqlglot may read more. Those left over stand in no text of Spark's, or bind tighter than any."""
    tables = (SparkParser.CONJUNCTION, SparkParser.DISJUNCTION, SparkParser.EQUALITY, SparkParser.COMPARISON)
    tables += (SparkParser.BITWISE, SparkParser.TERM, SparkParser.FACTOR)
    found = {kind for table in tables for kind in table.values()}
    unplaced = {kind.__name__ for kind in found if level(kind()) < 0}
    assert unplaced == {"Collate", "Distance", "DistanceNd"}


# Of each pair, Spark's grammar reads the first as the second says; sqlglot's own dialect does not.
READ_AS_SPARK_DOES = {
    "v | k & 3": "v | (k & 3)",
    "a | b ^ c & d << e": "a | (b ^ (c & (d << e)))",
    "a & b || c": "a & (b || c)",
    "a || b + c": "(a || b) + c",
    "a || b * c": "a || (b * c)",
    "a << b + c": "a << (b + c)",
    "a = b < c": "(a = b) < c",
    "a < b = c": "(a < b) = c",
    "a <=> b = c": "(a <=> b) = c",
    "a = b IN (1)": "(a = b) IN (1)",
    "a = b IS NULL": "(a = b) IS NULL",
    "a BETWEEN b AND c = d": "a BETWEEN b AND (c = d)",
    "a LIKE b = c": "a LIKE (b = c)",
    "a IS DISTINCT FROM b = c": "a IS DISTINCT FROM (b = c)",
    "NOT a = b": "NOT (a = b)",
    "NOT a IN (1) AND b": "(NOT (a IN (1))) AND b",
    "NOT a IS NULL": "NOT (a IS NULL)",
    "a OR b AND NOT c OR d": "(a OR (b AND (NOT c))) OR d",
    "-a * b": "(-a) * b",
    "~a & b": "(~a) & b",
    "a - b - c % d DIV e": "(a - b) - ((c % d) DIV e)",
    "a || b COLLATE UTF8_LCASE": "a || (b COLLATE UTF8_LCASE)",
    "-a.f[1]::INT": "-(CAST(a.f[1] AS INT))",
}


@pytest.mark.parametrize(("text", "in_full"), READ_AS_SPARK_DOES.items())
def test_operators_bind_as_in_spark(text: str, in_full: str) -> None:
    assert bare(read(text)) == bare(read(in_full))


def test_what_is_substituted_is_held_together() -> None:
    either = exp.or_(column("a"), column("b"))
    assert to_text(is_not_null(exp.Not(this=column("a")))) == "NOT (NOT `a`) IS NULL"
    assert to_text(is_not_null(either)) == "NOT (`a` OR `b`) IS NULL"
    assert to_text(exp.EQ(this=either.copy(), expression=column("c"))) == "(`a` OR `b`) = `c`"


def test_lambda_variables_compare_without_case() -> None:
    value = read("transform(a, X -> x.f + aggregate(a, x, (Acc, y) -> acc + Y + x))")
    assert [found.name for found in value.find_all(exp.Column)] == ["a", "a"]
