"""Rows grouped with their duplicates, without -0.0 becoming 0.0.

Spark takes -0.0 and 0.0 for one group and gives 0.0 for both. Between the tables and a view's rows that won't do: the
text of -0.0 is '-0.0', and a row that an expression has made of it must be taken away as it was given. So columns
of floating-point numbers are grouped by their text too, which tells the two apart, and come out as they went in.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from sqlglot import exp

from headwater.sql.dialect import call, column, named


def told_apart(names: Sequence[str], floating: Collection[str]) -> list[exp.Expr]:
    """What to group columns by."""
    texts: list[exp.Expr] = [
        exp.Cast(this=column(name), to=exp.var("STRING")) for name in dict.fromkeys(names) if name in floating
    ]
    return [*(column(name) for name in names), *texts]


def as_they_are(names: Sequence[str], floating: Collection[str]) -> list[exp.Expr]:
    """The columns of groups by ``told_apart``: of each, all values are the same."""
    return [named(call("any_value", column(name)), name) if name in floating else column(name) for name in names]


def unsigned_zeros(columns: Sequence[tuple[str, str]]) -> Iterator[tuple[str, exp.Expr]]:
    """Columns of a view's changes as its stored rows have them: grouped, so with 0.0 for -0.0."""
    for name, kind in columns:
        if kind in ("double", "float"):
            zero = exp.Cast(this=exp.Literal.number(0), to=exp.var(kind))
            yield name, named(exp.Add(this=column(name), expression=zero), name)  # -0.0 + 0.0 is 0.0
