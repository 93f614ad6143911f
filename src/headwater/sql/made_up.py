"""Tables of a few made-up rows, over which a text and our reading of it are compared.

Whether two queries mean the same can't be decided in general, but a reading that is wrong (another join, another
column of the same name, a NULL that counts) mostly gives another answer over a handful of rows in which everything
happens: keys that meet and keys that do not, duplicates, NULLs, and the values that the text itself compares with.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from random import Random
from typing import NoReturn

from sqlglot import exp

from headwater.algebra.time import Csn, Interval
from headwater.sql.dialect import TypedLiteral, named, parse, subquery

_NULLS = 0.15
_MOST_ROWS, _FEWEST_ROWS = 16, 4
_PAIRS = 20_000  # rows that a join without any condition may have
_LENGTHS = {"tinyint": 2**7, "smallint": 2**15, "int": 2**31, "bigint": 2**63}
_DAY = "2000-01-31"


class MadeUp:
    """Tables and views that hold made-up rows (``headwater.sql.relations.TableMoments`` and ``Derived``)."""

    def __init__(self, columns: Mapping[str, Sequence[tuple[str, str]]], text: str, *, numbers_only: bool) -> None:
        """``numbers_only``: all text is numbers, for queries that cast it."""
        self._columns = columns
        query = parse(text)
        pools = _Pools(_constants(query), numbers_only=numbers_only)
        leaves = len(list(query.find_all(exp.Table))) or 1
        rows = max(_FEWEST_ROWS, min(_MOST_ROWS, int(_PAIRS ** (1 / leaves))))
        random = Random(text)  # noqa: S311 (the same text must get the same rows)
        self.relations = {}
        for place, (name, found) in enumerate(columns.items()):
            own: list[list[exp.Expr]] = [[exp.null() for _ in found], [_own(kind, place) for _, kind in found]]
            drawn = [[pools.value(kind, random) for _, kind in found] for _ in range(rows)]
            self.relations[name] = _relation(found, [*own, *drawn])

    def __contains__(self, name: str) -> bool:
        return name in self._columns

    def state(self, table: str, at: Csn) -> exp.Subquery:  # noqa: ARG002 (there is one moment)
        return subquery(self.relations[table].copy(), "__hw_source")

    def types(self, table: str) -> Mapping[str, str]:
        return dict(self._columns[table])

    def nothing(self, name: str) -> exp.Query:
        return self.relations[name].copy().where(exp.false())

    def location(self, table: str) -> NoReturn:
        raise ValueError(f"{table} is made up")

    def version(self, table: str, csn: Csn) -> NoReturn:
        raise ValueError(f"{table} is made up and has no version at {csn}")

    def changes(self, table: str, interval: Interval) -> NoReturn:
        raise ValueError(f"{table} is made up and has no changes in {interval}")


def _relation(columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[exp.Expr]]) -> exp.Select:
    names = [f"c{place}" for place in range(len(columns))]
    values = exp.Values(
        expressions=[exp.Tuple(expressions=list(row)) for row in rows],
        alias=exp.TableAlias(
            this=exp.to_identifier("__hw_made_up"), columns=[exp.to_identifier(name) for name in names]
        ),
    )
    items = [
        named(exp.Cast(this=exp.column(place), to=exp.var(kind)), name)
        for place, (name, kind) in zip(names, columns, strict=True)
    ]
    return exp.select(*items).from_(values)


def _own(kind: str, place: int) -> exp.Expr:
    """A value that no other table has, so that not all keys meet."""
    if kind in _LENGTHS or kind == "string" or kind.startswith(("decimal", "float", "double")):
        return exp.Literal.string(str(60 + place))
    return exp.null()


def _constants(query: exp.Expr) -> list[str]:
    """The constants of a query, as they are written."""
    typed = [each.this.name for each in query.find_all(TypedLiteral)]
    return list(dict.fromkeys([*typed, *(each.name for each in query.find_all(exp.Literal))]))


class _Pools:
    """From which values of each type are drawn."""

    def __init__(self, constants: Sequence[str], *, numbers_only: bool) -> None:
        whole = [int(each) for each in constants if re.fullmatch(r"\d{1,18}", each)]
        near = [number + step for number in whole for step in (-1, 0, 1)]
        self._numbers = [0, 1, 1, 2, 2, 3, -1, *near]
        broken = [each for each in constants if re.fullmatch(r"\d{1,9}\.\d{1,6}", each)]
        self._fractions = [*map(str, self._numbers), "0.5", "1.25", *broken]
        words = [each.strip("%_") for each in constants if not re.fullmatch(r"[\d.]*", each)]
        around = [each for word in words for each in (word, f"{word}x", f"x{word}")]
        self._texts = ["1", "01", "2", "3", "10"] if numbers_only else ["a", "b", "B", "1", "01", "", *around]
        days = [date.fromisoformat(each[:10]) for each in constants if _is_day(each)] or [date.fromisoformat(_DAY)]
        self._days = [(day + timedelta(days=step)).isoformat() for day in days for step in (-40, -1, 0, 1, 400)]

    def value(self, kind: str, random: Random) -> exp.Expr:
        """A value of a type, or NULL; of some types always NULL."""
        if random.random() < _NULLS:
            return exp.null()
        pool = self._pool(kind)
        return exp.Literal.string(random.choice(pool)) if pool else exp.null()

    def _pool(self, kind: str) -> Sequence[str]:
        if kind in _LENGTHS:
            return [str(number) for number in self._numbers if abs(number) < _LENGTHS[kind]]
        if kind in ("float", "double") or kind.startswith("decimal"):
            return self._fractions
        if kind == "string" or kind.startswith(("char", "varchar")):
            return self._texts
        if kind == "date":
            return self._days
        if kind in ("timestamp", "timestamp_ntz"):
            return [f"{day} {hour}" for day in self._days for hour in ("00:00:00", "12:30:00")]
        return ("true", "false") if kind == "boolean" else ()


def _is_day(text: str) -> bool:
    try:
        return date.fromisoformat(text[:10]).year > 1
    except ValueError:
        return False
