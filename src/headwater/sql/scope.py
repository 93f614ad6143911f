"""Names: what a column reference means inside one SELECT, by Spark's rules.

Spark has already accepted the text, so a reference resolves and is not ambiguous; only *which* column it
is remains to be found. Qualified names go before struct fields (``o.x`` is column x of relation o if there is
such a relation, else field x of column o), names compare without case, and an alias of an earlier item of the
same select list serves only where no column has that name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from sqlglot import exp


@dataclass(slots=True)
class Relation:
    """A named thing in FROM; ``value(index)`` is the expression over leaf attributes that a column stands for."""

    alias: str | None
    columns: tuple[str | None, ...]
    value: Callable[[int], exp.Expr]

    @classmethod
    def of(cls, alias: str | None, columns: Iterable[str | None], values: Sequence[exp.Expr]) -> Relation:
        """Columns that stand for given expressions."""
        return cls(alias, tuple(columns), lambda index: values[index].copy())

    def find(self, name: str) -> exp.Expr | None:
        for index, column in enumerate(self.columns):
            if column is not None and column.lower() == name.lower():
                return self.value(index)
        return None

    def __contains__(self, name: str) -> bool:
        return any(column is not None and column.lower() == name.lower() for column in self.columns)


@dataclass(slots=True)
class Scope:
    """The relations of one FROM clause, in order, and the columns merged by USING or NATURAL.

    ``parent`` is the scope of the query around a subquery.
    """

    relations: list[Relation] = field(default_factory=list)
    merged: dict[str, exp.Expr] = field(default_factory=dict)
    parent: Scope | None = None

    def resolve(self, parts: Sequence[str]) -> tuple[exp.Expr, Sequence[str]] | None:
        """The column that ``a.b.c`` begins with, and the struct fields that follow it."""
        if len(parts) > 1:
            for relation in self.relations:
                if relation.alias is not None and relation.alias.lower() == parts[0].lower():
                    found = relation.find(parts[1])
                    if found is not None:
                        return found, parts[2:]
        name = parts[0]
        if name.lower() in self.merged:
            return self.merged[name.lower()], parts[1:]
        for relation in self.relations:
            found = relation.find(name)
            if found is not None:
                return found, parts[1:]
        return None

    def star(self, alias: str | None) -> Iterator[tuple[str | None, exp.Expr]] | None:
        """The columns of ``*`` or ``alias.*`` in Spark's order; None when there is no such relation."""
        if alias is not None:
            for relation in self.relations:
                if relation.alias is not None and relation.alias.lower() == alias.lower():
                    return self._columns_of(relation)
            return None
        return self._everything()

    def names(self) -> list[str]:
        """The names of ``*``, without marking any column as mentioned."""
        merged = [self._spelled(name) for name in self.merged]
        others = [name for relation in self.relations for name in relation.columns if name is not None]
        return merged + [name for name in others if name.lower() not in self.merged]

    def _spelled(self, name: str) -> str:
        return next((c for r in self.relations for c in r.columns if c and c.lower() == name), name)

    def _columns_of(self, relation: Relation) -> Iterator[tuple[str | None, exp.Expr]]:
        """A relation's columns: those that were merged come first."""
        order = {name: position for position, name in enumerate(self.merged)}
        indexes = range(len(relation.columns))
        for index in sorted(indexes, key=lambda i: order.get((relation.columns[i] or "").lower(), len(order))):
            yield relation.columns[index], relation.value(index)

    def _everything(self) -> Iterator[tuple[str | None, exp.Expr]]:
        for name, value in self.merged.items():
            yield self._spelled(name), value
        for relation in self.relations:
            for index, column in enumerate(relation.columns):
                if column is None or column.lower() not in self.merged:
                    yield column, relation.value(index)
