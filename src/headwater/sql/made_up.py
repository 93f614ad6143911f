"""Tables of a few made-up rows, over which a text and our reading of it are compared.

Whether two queries mean the same can't be decided in general, but a reading that is wrong (another join, another
column of the same name, a NULL that counts) mostly gives another answer over a handful of rows in which everything
happens: keys that meet and keys that do not, duplicates, NULLs, and the values that the text itself compares with.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from random import Random
from typing import NoReturn

from sqlglot import exp

from headwater.algebra.time import Csn, Interval
from headwater.sql.dialect import TypedLiteral, call, named, parse, subquery

_NULLS = 0.15
_MOST_ROWS, _FEWEST_ROWS = 16, 4
_PAIRS = 20_000  # rows that a join without any condition may have
_LENGTHS = {"tinyint": 2**7, "smallint": 2**15, "int": 2**31, "bigint": 2**63}
_DAY = "2000-01-31"
_TIMES = ("timestamp", "timestamp_ntz")


@dataclass(frozen=True, slots=True)
class Pools:
    """What values are drawn from.

    ``numbers_only``: all text is numbers, for queries that cast it. ``above_zero``: all numbers are, for those that
    divide. ``distinct_in_order``: columns that stand in an ORDER BY have no value twice, so that little ties; and no
    fraction is one that a sum of doubles would round.
    """

    numbers_only: bool = False
    above_zero: bool = False
    distinct_in_order: bool = False


class MadeUp:
    """Tables and views that hold made-up rows (``headwater.sql.relations.TableMoments`` and ``Derived``)."""

    def __init__(self, columns: Mapping[str, Sequence[tuple[str, str]]], text: str, wanted: Pools) -> None:
        self._columns = columns
        query = parse(text)
        pools = _Pools(_constants(query), wanted)
        ordering = (
            {part.name.lower() for each in query.find_all(exp.Ordered) for part in each.find_all(exp.Column)}
            if wanted.distinct_in_order
            else set()
        )
        leaves = len(list(query.find_all(exp.Table))) or 1
        rows = max(_FEWEST_ROWS, min(_MOST_ROWS, int(_PAIRS ** (1 / leaves))))
        random = Random(text)  # noqa: S311 (the same text must get the same rows)
        self.relations = {}
        for place, (name, found) in enumerate(columns.items()):
            own: list[list[exp.Expr]] = [[exp.null() for _ in found], [_own(kind, place) for _, kind in found]]
            drawn = [
                pools.distinct(kind, rows, random)
                if column.lower() in ordering
                else [pools.value(kind, random) for _ in range(rows)]
                for column, kind in found
            ]
            self.relations[name] = _relation(found, [*own, *(list(row) for row in zip(*drawn, strict=True))])

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
    decimal = re.fullmatch(r"decimal\((\d+),(\d+)\)", kind)
    wide = decimal is not None and int(decimal[1]) - int(decimal[2]) >= len(str(60 + place))
    if kind in _LENGTHS or kind in ("string", "float", "double") or wide:
        return exp.Literal.string(str(60 + place))
    return exp.null()


def _constants(query: exp.Expr) -> list[str]:
    """The constants of a query, as they are written."""
    typed = [each.this.name for each in query.find_all(TypedLiteral)]
    return list(dict.fromkeys([*typed, *(each.name for each in query.find_all(exp.Literal))]))


class _Pools:
    """From which values of each type are drawn."""

    def __init__(self, constants: Sequence[str], wanted: Pools) -> None:
        self._numbers_only = wanted.numbers_only
        whole = [int(each) for each in constants if re.fullmatch(r"\d{1,18}", each)]
        near = [number + step for number in whole for step in (-1, 0, 1)]
        numbers = [0, 1, 1, 2, 2, 3, -1, *near]
        self._numbers = [number for number in numbers if number > 0 or not wanted.above_zero]
        broken = [each for each in constants if re.fullmatch(r"\d{1,9}\.\d{1,6}", each) and float(each)]
        self._fractions = [*map(str, self._numbers), "0.5", "1.25", *([] if wanted.distinct_in_order else broken)]
        words = [each.strip("%_") for each in constants if not re.fullmatch(r"[\d.]*", each)]
        around = [each for word in words for each in (word, f"{word}x", f"x{word}")]
        self._texts = ["1", "01", "2", "3", "10"] if self._numbers_only else ["a", "b", "B", "1", "01", "", *around]
        days = [date.fromisoformat(each[:10]) for each in constants if _is_day(each)] or [date.fromisoformat(_DAY)]
        self._days = [(day + timedelta(days=step)).isoformat() for day in days for step in (-40, -1, 0, 1, 400)]

    def value(self, kind: str, random: Random) -> exp.Expr:
        """A value of a type, or NULL; of some types always NULL."""
        if random.random() < _NULLS:
            return exp.null()
        pool = self._pool(kind)
        if pool:
            return exp.Literal.string(random.choice(pool))
        return exp.Cast(this=self._nested(kind, random), to=exp.var(kind))

    def distinct(self, kind: str, count: int, random: Random) -> list[exp.Expr]:
        """Values of a type of which none is twice, as far as it has so many."""
        if kind == "boolean":
            return [self.value(kind, random) for _ in range(count)]
        more = [str(number) for number in range(20, 20 + count)]
        if kind == "string" and not self._numbers_only:
            more = [f"w{number}" for number in more]
        if kind == "date" or kind in _TIMES:
            more = [f"1999-01-{number}" for number in range(10, 10 + count)]
        pool = list(dict.fromkeys([*self._pool(kind), *more]))
        return [exp.Literal.string(each) for each in random.sample(pool, count)]

    def _pool(self, kind: str) -> Sequence[str]:
        if kind in _LENGTHS:
            return [str(number) for number in self._numbers if abs(number) < _LENGTHS[kind]]
        if found := re.fullmatch(r"decimal\((\d+),(\d+)\)", kind):
            most = 10 ** (int(found[1]) - int(found[2]))
            return [each for each in self._fractions if abs(float(each)) < most]
        if kind in ("float", "double"):
            return self._fractions
        if kind == "string":
            return self._texts
        if kind == "date":
            return self._days
        if kind in _TIMES:
            return [f"{day} {hour}" for day in self._days for hour in ("00:00:00", "12:30:00")]
        return ("true", "false") if kind == "boolean" else ()

    def _nested(self, kind: str, random: Random) -> exp.Expr:
        """An array, a struct or a map; NULL of what is none of them."""
        if kind.startswith("array<"):
            elements = [self._cast(kind[6:-1], random) for _ in range(random.choice((0, 1, 2, 3)))]
            return call("array", *elements)
        if kind.startswith("struct<"):
            fields = [each.partition(":") for each in _parts(kind[7:-1])]
            named_values = [(exp.Literal.string(name), self._cast(of, random)) for name, _, of in fields]
            return call("named_struct", *(part for pair in named_values for part in pair))
        if kind.startswith("map<"):
            key, value = _parts(kind[4:-1])
            pool = self._pool(key)
            if not pool:
                return exp.null()
            key_value = exp.Cast(this=exp.Literal.string(random.choice(pool)), to=exp.var(key))
            return call("map", key_value, self._cast(value, random))
        return exp.null()

    def _cast(self, kind: str, random: Random) -> exp.Expr:
        return exp.Cast(this=self.value(kind, random), to=exp.var(kind))


def _parts(text: str) -> Iterator[str]:
    """The types or fields inside a type, which commas part."""
    depth, begin = 0, 0
    for place, letter in enumerate(text):
        depth += letter in "<("
        depth -= letter in ">)"
        if letter == "," and depth == 0:
            yield text[begin:place]
            begin = place + 1
    yield text[begin:]


def _is_day(text: str) -> bool:
    try:
        return date.fromisoformat(text[:10]).year > 1
    except ValueError:
        return False
