"""Scalar expressions, aggregates, windows and subqueries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from tests.fuzz.nodes import Node


@dataclass(frozen=True)
class Expr(Node):
    pass


@dataclass(frozen=True)
class Literal(Expr):
    sql: str

    def text(self) -> str:
        return self.sql


@dataclass(frozen=True)
class Column(Expr):
    alias: str
    """Empty for a name that stands alone, as USING leaves it."""
    name: str

    def text(self) -> str:
        return f"{self.alias}.{self.name}" if self.alias else self.name


@dataclass(frozen=True)
class Apply(Expr):
    """An operator or function: ``({0} + {1})``."""

    template: str
    arguments: tuple[Expr, ...]

    def text(self) -> str:
        return self.template.format(*(each.text() for each in self.arguments))

    def simpler(self) -> Iterator[Node]:
        return iter(self.arguments)


@dataclass(frozen=True)
class Aggregate(Expr):
    template: str
    arguments: tuple[Expr, ...] = ()
    condition: Expr | None = None
    optional: ClassVar[tuple[str, ...]] = ("condition",)

    def text(self) -> str:
        call = self.template.format(*(each.text() for each in self.arguments))
        return f"{call} FILTER (WHERE {self.condition.text()})" if self.condition else call

    def simpler(self) -> Iterator[Node]:
        yield Aggregate("count(*)")


@dataclass(frozen=True)
class Window(Expr):
    """Only functions that give equal answers to rows that are equal in ``order``, over the default RANGE frame."""

    template: str
    arguments: tuple[Expr, ...]
    partition: tuple[Expr, ...]
    order: tuple[Expr, ...]
    lists: ClassVar[Mapping[str, int]] = {"partition": 0, "order": 0}

    def text(self) -> str:
        call = self.template.format(*(each.text() for each in self.arguments))
        parts = [
            f"{word} BY {', '.join(each.text() for each in some)}"
            for word, some in (("PARTITION", self.partition), ("ORDER", self.order))
            if some
        ]
        return f"{call} OVER ({' '.join(parts)})"

    def simpler(self) -> Iterator[Node]:
        return iter(self.arguments)


@dataclass(frozen=True)
class InQuery(Expr):
    value: Expr
    query: Node
    negated: bool = False
    flags: ClassVar[tuple[str, ...]] = ("negated",)

    def text(self) -> str:
        return f"({self.value.text()} {'NOT ' if self.negated else ''}IN ({self.query.text()}))"

    def simpler(self) -> Iterator[Node]:
        yield Literal("true")


@dataclass(frozen=True)
class Exists(Expr):
    query: Node
    negated: bool = False
    flags: ClassVar[tuple[str, ...]] = ("negated",)

    def text(self) -> str:
        return f"({'NOT ' if self.negated else ''}EXISTS ({self.query.text()}))"

    def simpler(self) -> Iterator[Node]:
        yield Literal("true")


@dataclass(frozen=True)
class Scalar(Expr):
    query: Node

    def text(self) -> str:
        return f"({self.query.text()})"

    def simpler(self) -> Iterator[Node]:
        yield Literal("1")
