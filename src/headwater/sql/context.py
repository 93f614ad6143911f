"""What the parts of lowering share.

A query holds queries: FROM, subqueries and set operations come back to ``Lowering.query`` for what is inside them. They
know it by this protocol alone, so that ``headwater.sql.lower`` may import them and none of them imports it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from sqlglot import exp

from headwater.sql.blocks import Block, Leaf
from headwater.sql.expressions import Ctes, Expressions
from headwater.sql.scope import Scope

_CODES = {
    "sample": "SAMPLE",
    "version": "TIME_TRAVEL",
    "when": "TIME_TRAVEL",
    "pivots": "PIVOT",
    "laterals": "LATERAL",
    "order": "ORDER_BY",
    "limit": "LIMIT",
    "offset": "LIMIT",
    "fetch": "LIMIT",
}


@dataclass(slots=True)
class Names:
    """Names for leaves and nodes, each given out once."""

    aliases: set[str] = field(default_factory=set)
    counts: dict[str, int] = field(default_factory=dict)

    def node(self, kind: str) -> str:
        """A name that no table can have."""
        return f"{kind}#{self._number(kind)}"

    def alias(self, wanted: str) -> str:
        wanted = wanted.replace(".", "_")  # so that alias.column is never two columns
        alias, number = wanted, 1
        while alias.lower() in self.aliases:
            number += 1
            alias = f"{wanted}#{number}"
        self.aliases.add(alias.lower())
        return alias

    def numbered_alias(self, kind: str) -> str:
        return self.alias(f"{kind}{self._number(kind)}")

    def _number(self, kind: str) -> int:
        self.counts[kind] = self.counts.get(kind, 0) + 1
        return self.counts[kind]


class Lowering(Protocol):
    """``tables`` gives name and columns by the name in lower case; ``leaves`` are those met in FROM so far."""

    expressions: Expressions
    names: Names
    tables: Mapping[str, tuple[str, tuple[str, ...]]]
    leaves: list[Leaf]

    def query(self, node: exp.Expr, ctes: Ctes, parent: Scope | None = None) -> Block: ...


def require_only(lowering: Lowering, node: exp.Expr, allowed: set[str]) -> None:
    """Refuse a clause that is not listed: what is not understood is never ignored."""
    for key, value in node.args.items():
        if value and key not in allowed:
            first = value[0] if isinstance(value, list) else value
            place = first if isinstance(first, exp.Expr) else node
            raise lowering.expressions.refuse(_CODES.get(key, "OTHER"), key.rstrip("_").upper(), place)
