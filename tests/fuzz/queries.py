"""Queries, what stands in FROM, and views.

A query's answer is the same bag at every run: where an order decides (LIMIT, row_number, lag), it is by all columns,
and the text is made so from the columns that there are, however far the query has been shrunk.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from tests.fuzz.expressions import Expr, Literal
from tests.fuzz.nodes import Node

# ---------------------------------------------------------------------- FROM


@dataclass(frozen=True)
class Source(Node):
    pass


@dataclass(frozen=True)
class Table(Source):
    """A base table, a view or a common table expression."""

    name: str
    alias: str

    def text(self) -> str:
        return f"{self.name} {self.alias}"


@dataclass(frozen=True)
class Derived(Source):
    query: Query
    alias: str

    def text(self) -> str:
        return f"({self.query.text()}) {self.alias}"

    def simpler(self) -> Iterator[Node]:
        yield from (replace(each, alias=self.alias) for each in self.query.walk() if isinstance(each, Table))


@dataclass(frozen=True)
class Join(Source):
    """``kind`` with its condition: ON an expression, USING some columns, or none."""

    kind: str
    left: Source
    right: Source
    on: Expr | None = None
    using: tuple[str, ...] = ()

    def weight(self) -> int:
        return 1 + (self.kind != "JOIN") + len(self.using)

    def text(self) -> str:
        right = f"({self.right.text()})" if isinstance(self.right, Join) else self.right.text()
        condition = f" ON {self.on.text()}" if self.on else f" USING ({', '.join(self.using)})" if self.using else ""
        return f"{self.left.text()} {self.kind} {right}{condition}"

    def simpler(self) -> Iterator[Node]:
        yield self.left
        yield self.right
        if self.kind not in ("JOIN", "CROSS JOIN"):
            yield replace(self, kind="JOIN")
        if self.on is not None and self.on.size() > 1:
            yield replace(self, on=Literal("true"))
        if len(self.using) > 1:
            yield from (replace(self, using=self.using[:at] + self.using[at + 1 :]) for at in range(len(self.using)))


@dataclass(frozen=True)
class LateralView(Source):
    source: Source
    values: tuple[Expr, ...]
    alias: str
    column: str
    outer: bool = False
    flags: ClassVar[tuple[str, ...]] = ("outer",)
    lists: ClassVar[Mapping[str, int]] = {"values": 1}

    def text(self) -> str:
        array = ", ".join(each.text() for each in self.values)
        word = "LATERAL VIEW OUTER" if self.outer else "LATERAL VIEW"
        return f"{self.source.text()} {word} explode(array({array})) {self.alias} AS {self.column}"

    def simpler(self) -> Iterator[Node]:
        yield self.source


# ---------------------------------------------------------------------- queries


@dataclass(frozen=True)
class Query(Node):
    def columns(self) -> tuple[str, ...]:
        raise NotImplementedError

    def without(self, at: int) -> Query | None:
        """The query without one of its columns; None if that can't be."""
        return None


@dataclass(frozen=True)
class Item(Node):
    value: Expr
    name: str

    def text(self) -> str:
        return f"{self.value.text()} AS {self.name}"


@dataclass(frozen=True)
class Select(Query):
    items: tuple[Item, ...]
    source: Source
    where: Expr | None = None
    distinct: bool = False
    optional: ClassVar[tuple[str, ...]] = ("where",)
    flags: ClassVar[tuple[str, ...]] = ("distinct",)
    lists: ClassVar[Mapping[str, int]] = {"items": 1}

    def columns(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.items)

    def without(self, at: int) -> Query | None:
        return replace(self, items=_less(self.items, at)) if len(self.items) > 1 else None

    def text(self) -> str:
        return _select(self.distinct, self.items) + _from(self.source, self.where)

    def simpler(self) -> Iterator[Node]:
        yield from _inner(self.source)


@dataclass(frozen=True)
class Key(Item):
    """Something to group by; what is not ``shown`` is no column of the answer."""

    shown: bool = True


@dataclass(frozen=True)
class Grouped(Query):
    """GROUP BY ``keys``, or one group of everything where there are none."""

    keys: tuple[Key, ...]
    items: tuple[Item, ...]
    source: Source
    where: Expr | None = None
    having: Expr | None = None
    mode: str = ""
    """ROLLUP, CUBE or GROUPING SETS."""
    sets: tuple[tuple[str, ...], ...] = ()
    """For GROUPING SETS, the names of their keys."""
    distinct: bool = False
    optional: ClassVar[tuple[str, ...]] = ("where", "having")
    flags: ClassVar[tuple[str, ...]] = ("distinct",)

    def weight(self) -> int:
        return 1 + self.distinct + bool(self.mode) + len(self.sets)

    def shown(self) -> tuple[Item, ...]:
        return tuple(each for each in self.keys if each.shown) + self.items

    def columns(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.shown())

    def without(self, at: int) -> Query | None:
        shown = self.shown()
        if len(shown) == 1:
            return None
        gone = shown[at]
        if isinstance(gone, Key):
            return replace(self, keys=tuple(each for each in self.keys if each is not gone))
        return replace(self, items=tuple(each for each in self.items if each is not gone))

    def text(self) -> str:
        head = _select(self.distinct, self.shown()) + _from(self.source, self.where)
        having = f" HAVING {self.having.text()}" if self.having else ""
        return head + self._group() + having

    def _group(self) -> str:
        texts = {each.name: each.value.text() for each in self.keys}
        every = ", ".join(texts.values())
        match self.mode:
            case _ if not self.keys:
                return ""
            case "":
                return f" GROUP BY {every}"
            case "GROUPING SETS":
                sets = [", ".join(texts[name] for name in names if name in texts) for names in self.sets]
                return f" GROUP BY GROUPING SETS ({', '.join(f'({each})' for each in sets)})"
            case word:
                return f" GROUP BY {word} ({every})"

    def simpler(self) -> Iterator[Node]:
        yield from _inner(self.source)
        if self.mode:
            yield replace(self, mode="", sets=())
        if len(self.sets) > 1:
            yield from (replace(self, sets=self.sets[:at] + self.sets[at + 1 :]) for at in range(len(self.sets)))
        for key in self.keys:
            less = replace(self, keys=tuple(each for each in self.keys if each is not key))
            if less.shown():
                yield less
        for item in self.items:
            less = replace(self, items=tuple(each for each in self.items if each is not item))
            if less.shown():
                yield less


@dataclass(frozen=True)
class SetOperation(Query):
    kind: str
    every: bool
    left: Query
    right: Query

    def columns(self) -> tuple[str, ...]:
        return self.left.columns()

    def without(self, at: int) -> Query | None:
        left, right = self.left.without(at), self.right.without(at)
        return replace(self, left=left, right=right) if left and right else None

    def text(self) -> str:
        return f"{_operand(self.left)} {self.kind}{' ALL' if self.every else ''} {_operand(self.right)}"

    def simpler(self) -> Iterator[Node]:
        yield self.left
        yield self.right
        yield from _columns_dropped(self)


@dataclass(frozen=True)
class TopK(Query):
    query: Query
    limit: int
    descending: bool = False
    flags: ClassVar[tuple[str, ...]] = ("descending",)

    def columns(self) -> tuple[str, ...]:
        return self.query.columns()

    def without(self, at: int) -> Query | None:
        inner = self.query.without(at)
        return replace(self, query=inner) if inner else None

    def text(self) -> str:
        direction = " DESC" if self.descending else ""
        order = ", ".join(f"{name}{direction}" for name in self.columns())
        inner = f"({self.query.text()})" if isinstance(self.query, TopK) else self.query.text()
        return f"{inner} ORDER BY {order} LIMIT {self.limit}"

    def simpler(self) -> Iterator[Node]:
        yield self.query


@dataclass(frozen=True)
class Numbered(Query):
    """row_number, lag or another function that needs a full order, over a query in the order of all its columns."""

    query: Query
    alias: str
    template: str
    """Over the name of the first column: ``lag({0})``."""
    parts: int
    """By how many of the columns, from the last on, the rows are partitioned."""
    name: str

    def weight(self) -> int:
        return 1 + self.parts

    def columns(self) -> tuple[str, ...]:
        return (*self.query.columns(), self.name)

    def without(self, at: int) -> Query | None:
        inner = self.query.without(at) if at < len(self.query.columns()) else None
        return replace(self, query=inner) if inner else None

    def text(self) -> str:
        names = [f"{self.alias}.{name}" for name in self.query.columns()]
        parts = names[::-1][: self.parts]
        partition = f"PARTITION BY {', '.join(parts)} " if parts else ""
        call = f"{self.template.format(names[0])} OVER ({partition}ORDER BY {', '.join(names)})"
        return f"SELECT {', '.join(names)}, {call} AS {self.name} FROM ({self.query.text()}) {self.alias}"

    def simpler(self) -> Iterator[Node]:
        yield self.query
        if self.parts:
            yield replace(self, parts=0)
        yield from _columns_dropped(self)


@dataclass(frozen=True)
class Cte(Node):
    name: str
    query: Query

    def text(self) -> str:
        return f"{self.name} AS ({self.query.text()})"


@dataclass(frozen=True)
class With(Query):
    ctes: tuple[Cte, ...]
    body: Query

    def columns(self) -> tuple[str, ...]:
        return self.body.columns()

    def without(self, at: int) -> Query | None:
        body = self.body.without(at)
        return replace(self, body=body) if body else None

    def text(self) -> str:
        return f"WITH {', '.join(each.text() for each in self.ctes)} {self.body.text()}"

    def simpler(self) -> Iterator[Node]:
        yield self.body
        for at, cte in enumerate(self.ctes):
            rest = self.ctes[:at] + self.ctes[at + 1 :]
            kept = replace(self, ctes=rest) if rest else self.body
            yield kept
            if len(uses(kept, cte.name)) == 1:
                yield inlined(kept, cte.name, cte.query)


def uses(node: Node, name: str) -> list[Table]:
    return [each for each in node.walk() if isinstance(each, Table) and each.name == name]


def inlined(node: Query, name: str, query: Query) -> Query:
    """The query's text in the place of its name."""

    def rule(each: Node) -> Node:
        return Derived(query, each.alias) if isinstance(each, Table) and each.name == name else each

    return node.rewritten(rule)  # type: ignore[no-any-return]


# ---------------------------------------------------------------------- views


@dataclass(frozen=True)
class View(Node):
    name: str
    query: Query

    def text(self) -> str:
        return self.query.text()

    def columns(self) -> tuple[str, ...]:
        return self.query.columns()

    def simpler(self) -> Iterator[Node]:
        yield from (replace(self, query=each) for each in self.query.walk() if isinstance(each, Query))
        yield from (replace(self, query=each) for each in _columns_dropped(self.query))


# ---------------------------------------------------------------------- shared


def _less(items: tuple[Item, ...], at: int) -> tuple[Item, ...]:
    return items[:at] + items[at + 1 :]


def _select(distinct: bool, items: tuple[Item, ...]) -> str:
    return f"SELECT {'DISTINCT ' if distinct else ''}{', '.join(each.text() for each in items)}"


def _from(source: Source, where: Expr | None) -> str:
    return f" FROM {source.text()}" + (f" WHERE {where.text()}" if where else "")


def _inner(source: Source) -> Iterator[Query]:
    """The queries that stand in FROM: one of them may do instead of the whole."""
    for each in source.walk():
        if isinstance(each, Derived):
            yield each.query


def _operand(query: Query) -> str:
    plain = isinstance(query, Select | Grouped | Numbered)
    return query.text() if plain else f"({query.text()})"


def _columns_dropped(query: Query) -> Iterator[Query]:
    for at in range(len(query.columns())):
        less = query.without(at)
        if less is not None:
            yield less
