"""Ranges of keys as a condition over a column: an OR of BETWEENs over literals, by which file statistics skip files.

Literals are of the column's own type, so that no cast stands between the column and its statistics. For a column that
is NULL the ranges give NULL, which keeps nothing, as an equality with the keys would. Where a NULL meets a NULL
(``<=>``), ``nulls_meet`` adds IS NULL if the change has one.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime, timezone
from decimal import Decimal

from sqlglot import exp

from headwater.algebra.grid import Grid, Span
from headwater.algebra.key_ranges import Key, KeyRange, KeyRanges
from headwater.sql.dialect import TypedLiteral, bigint


def key_condition(column: exp.Expr, keys: KeyRanges, *, nulls_meet: bool = False) -> exp.Expr:
    """True of every value of the column that is among the keys; FALSE where there are none."""
    parts = [_within(column, each) for each in keys.ranges]
    if nulls_meet and keys.has_null:
        parts.append(exp.Is(this=column.copy(), expression=exp.null()))
    if not parts:
        return exp.false()
    return parts[0] if len(parts) == 1 else exp.paren(exp.or_(*parts))


def cell_of(value: exp.Expr, grid: Grid) -> exp.Expr:
    """The cell of a grid that a whole number lies in; NULL for NULL."""
    distance = exp.paren(exp.Sub(this=value.copy(), expression=bigint(grid.low)))
    inside = exp.IntDiv(this=distance, expression=bigint(grid.width))
    end = grid.low + grid.width * (grid.cells - 1)
    return exp.Case(
        ifs=[
            exp.If(this=exp.LT(this=value.copy(), expression=bigint(grid.low)), true=bigint(0)),
            exp.If(this=exp.GTE(this=value.copy(), expression=bigint(end)), true=bigint(grid.cells - 1)),
        ],
        default=inside,
    )


def spans_condition(column: exp.Expr, spans: Iterable[Span], *, nulls_meet: bool) -> exp.Expr:
    """True of every value of the column that lies in a span, and of NULL where that meets NULL."""
    parts: list[exp.Expr] = [exp.Is(this=column.copy(), expression=exp.null())] if nulls_meet else []
    for low, high in spans:
        ends: list[exp.Expr] = [exp.GTE(this=column.copy(), expression=literal(low))] if low is not None else []
        ends += [exp.LTE(this=column.copy(), expression=literal(high))] if high is not None else []
        parts.append(exp.paren(exp.and_(*ends)) if ends else exp.true())
    return exp.paren(exp.or_(*parts)) if parts else exp.false()


def _within(column: exp.Expr, each: KeyRange) -> exp.Expr:
    low, high = _with_a_spelling(each)
    if low == high:
        return exp.EQ(this=column.copy(), expression=literal(low))
    return exp.Between(this=column.copy(), low=literal(low), high=literal(high))


def _with_a_spelling(each: KeyRange) -> tuple[Key, Key]:
    r"""The range, wider where an end has a NUL: of that, ``\0``, Spark makes another character if digits follow.

    What comes before the NUL is smaller than the key, and with the next character behind it larger.
    """
    low, high = each.low, each.high
    if isinstance(low, str):
        low = low.partition("\0")[0]
    if isinstance(high, str) and "\0" in high:
        high = high.partition("\0")[0] + "\1"
    return low, high


def literal(key: Key) -> exp.Expr:
    match key:
        case datetime(tzinfo=None):
            return _typed(key.isoformat(" "), "TIMESTAMP_NTZ")
        case datetime():
            return _typed(key.astimezone(timezone.utc).replace(tzinfo=None).isoformat(" ") + "Z", "TIMESTAMP")
        case date():
            return _typed(key.isoformat(), "DATE")
        case str():
            return exp.Literal.string(key)
        case int() | Decimal():
            # Digits without an exponent: with one, Spark reads a double.
            digits = format(abs(key), "f") if isinstance(key, Decimal) else str(abs(key))
            number = exp.Literal.number(digits)
            return exp.Neg(this=number) if key < 0 else number


def _typed(text: str, kind: str) -> exp.Expr:
    return TypedLiteral(this=exp.Literal.string(text), to=exp.var(kind))
