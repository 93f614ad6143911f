"""Scalar expressions on the reference evaluator: SQL's three-valued logic over Python values, NULL as None.

Only what the executable specification needs: attributes, literals, comparisons, AND, OR, NOT, IS NULL, + - *,
COALESCE. Everything else is refused by name, so that a test can't pass by misreading an expression. On Spark the
same expressions are Spark's own, and nothing here is used.

Comparisons and arithmetic with NULL give NULL; ``<=>`` and IS NULL never do. AND is false when a side is false, OR
is true when a side is true, whatever the other; a condition keeps a row only when it is true.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeAlias

from sqlglot import exp

from headwater.algebra.plan import Attribute
from headwater.algebra.zset import Row

Evaluator: TypeAlias = Callable[[Row], Any]

_NULL_IF_ANY_NULL: Mapping[type[exp.Expr], Callable[[Any, Any], Any]] = {
    exp.EQ: operator.eq,
    exp.NEQ: operator.ne,
    exp.LT: operator.lt,
    exp.LTE: operator.le,
    exp.GT: operator.gt,
    exp.GTE: operator.ge,
    exp.Add: operator.add,
    exp.Sub: operator.sub,
    exp.Mul: operator.mul,
}


def compile_scalar(expression: exp.Expr, attributes: Sequence[Attribute]) -> Evaluator:
    """A function from a row over ``attributes`` to the expression's value; ValueError for what is not supported."""

    def compiled(part: exp.Expr) -> Evaluator:
        return compile_scalar(part, attributes)

    strict = _NULL_IF_ANY_NULL.get(type(expression))
    if strict is not None:
        return _strict(strict, compiled(expression.args["this"]), compiled(expression.args["expression"]))
    match expression:
        case exp.Column():
            return _column(expression, attributes)
        case exp.Literal() | exp.Boolean() | exp.Null():
            return _constant(expression)
        case exp.Paren() | exp.Alias():
            return compiled(expression.this)
        case exp.NullSafeEQ():
            left, right = compiled(expression.this), compiled(expression.expression)
            return lambda row: left(row) == right(row)
        case exp.And():
            left, right = compiled(expression.this), compiled(expression.expression)
            return lambda row: _and(left(row), right(row))
        case exp.Or():
            left, right = compiled(expression.this), compiled(expression.expression)
            return lambda row: _not(_and(_not(left(row)), _not(right(row))))
        case exp.Not():
            inner = compiled(expression.this)
            return lambda row: _not(inner(row))
        case exp.Neg():
            negated = compiled(expression.this)
            return _strict(operator.mul, negated, lambda _: -1)
        case exp.Is() if isinstance(expression.expression, exp.Null):
            tested = compiled(expression.this)
            return lambda row: tested(row) is None
        case exp.Coalesce():
            choices = [compiled(part) for part in (expression.this, *expression.expressions)]
            return lambda row: next((value for value in (choice(row) for choice in choices) if value is not None), None)
        case _:
            raise ValueError(f"the reference evaluator has no {type(expression).__name__}: {expression.sql('spark')}")


def evaluate(expression: exp.Expr, row: Mapping[Attribute, Any]) -> Any:
    """The expression's value over one row given by attribute."""
    return compile_scalar(expression, tuple(row))(tuple(row.values()))


def _column(column: exp.Column, attributes: Sequence[Attribute]) -> Evaluator:
    if column.table:
        raise ValueError(f"{column.sql('spark')}: attributes of a plan have no table qualifier")
    if column.name not in attributes:
        raise ValueError(f"no attribute {column.name!r} among {', '.join(map(repr, attributes))}")
    return operator.itemgetter(list(attributes).index(column.name))


def _constant(expression: exp.Expr) -> Evaluator:
    value: Any
    match expression:
        case exp.Null():
            value = None
        case exp.Boolean():
            value = bool(expression.this)
        case exp.Literal(is_string=True):
            value = expression.this
        case _:
            text = str(expression.this)
            value = int(text) if text.isdigit() else Decimal(text)
    return lambda _: value


def _strict(function: Callable[[Any, Any], Any], left: Evaluator, right: Evaluator) -> Evaluator:
    def evaluator(row: Row) -> Any:
        first, second = left(row), right(row)
        return None if first is None or second is None else function(first, second)

    return evaluator


def _and(left: Any, right: Any) -> Any:
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


def _not(value: Any) -> Any:
    return None if value is None else not value
