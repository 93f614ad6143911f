"""One SELECT as a block: FROM, WHERE, GROUP BY, HAVING, what is selected, QUALIFY, DISTINCT, ORDER BY with LIMIT.

The clauses are read in the order in which they take effect; each that is not linear puts the block under a node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from sqlglot import exp

from headwater.sql.blocks import Block
from headwater.sql.context import Lowering, require_only
from headwater.sql.dialect import to_text
from headwater.sql.expressions import Ctes, conjuncts, is_generator
from headwater.sql.from_clause import FromClause
from headwater.sql.generators import add_lateral_view, selected_generator
from headwater.sql.grouping import GroupBy, Grouping, distinct, has_aggregates, read_group_by
from headwater.sql.scope import Scope
from headwater.sql.subqueries import Above, add_conditions, fill, fill_below, same
from headwater.sql.top import add_top, order_keys, order_scope
from headwater.sql.windows import add_windows

_REFUSED_CLAUSES = {
    "sort": "ORDER_BY",
    "cluster": "ORDER_BY",
    "distribute": "ORDER_BY",
    "pivots": "PIVOT",
    "sample": "SAMPLE",
}
_ALLOWED = {
    "expressions",
    "from_",
    "joins",
    "where",
    "with_",
    "hint",
    "kind",
    "group",
    "having",
    "distinct",
    "qualify",
    "order",
    "limit",
    "offset",
    "laterals",
}


Item: TypeAlias = tuple[str | None, exp.Expr]


def select(lowering: Lowering, node: exp.Select, ctes: Ctes, parent: Scope | None) -> Block:
    """``parent`` is the scope of the query around a subquery."""
    for clause, code in _REFUSED_CLAUSES.items():
        if node.args.get(clause):
            found = node.args[clause]
            place = found[0] if isinstance(found, list) else found
            raise lowering.expressions.refuse(code, clause.upper(), place)
    require_only(lowering, node, _ALLOWED)
    if node.args.get("kind"):
        raise lowering.expressions.refuse("OTHER", f"SELECT AS {node.args['kind']}", node)
    if node.args.get("from_") is None:
        raise lowering.expressions.refuse("NO_TABLE", "SELECT without FROM", node)
    block = Block()
    reading = _Select(lowering, node, Scope(parent=parent), block, ctes)
    reading.read_from()
    reading.read_where()
    reading.project()
    return block


@dataclass(frozen=True, slots=True)
class _Select:
    lowering: Lowering
    node: exp.Select
    scope: Scope
    block: Block
    ctes: Ctes

    def read_from(self) -> None:
        clause = FromClause(self.lowering, self.scope, self.block, self.ctes)
        clause.add(self.node.args["from_"].this)
        for join in self.node.args.get("joins") or []:
            clause.join(join)
        for lateral in self.node.args.get("laterals") or []:
            add_lateral_view(self.lowering, lateral, self.scope, self.block, self.ctes)

    def read_where(self) -> None:
        add_conditions(self.lowering, self._conditions("where", {}), self.block, same)

    def project(self) -> None:
        """Everything after WHERE."""
        items, aliases = self._items()
        having = self._conditions("having", aliases)
        qualify = self._conditions("qualify", aliases)
        ordering = order_scope(items, self.scope)
        order = order_keys(self.node, items, lambda part: self.lowering.expressions.read(part, ordering, {}, self.ctes))
        values = [value for _, value in items]
        above: Above = same
        if self.node.args.get("group") is not None or having or has_aggregates([*values, *order]):
            above = self._group(items, aliases, having, order)
        filled = [fill(self.lowering, value, self.block, above) for value in (*values, *qualify, *order)]
        if any(each.find(exp.Window) for each in filled):
            filled = add_windows(self.lowering, filled, self.block)
        ends = len(items), len(items) + len(qualify)
        values, conditions, order = filled[: ends[0]], filled[ends[0] : ends[1]], filled[ends[1] :]
        self.block.conditions.extend(conditions)
        self.block.columns = [(name, value) for (name, _), value in zip(items, values, strict=True)]
        if self.node.args.get("distinct"):
            if self.node.args["distinct"].args.get("on"):
                raise self.lowering.expressions.refuse("OTHER", "DISTINCT ON", self.node)
            if distinct(self.lowering.names.node("group"), self.block) is not None and not self._only_asked_for_any():
                found = "DISTINCT in a subquery that is tied by something else than an equality"
                raise self.lowering.expressions.refuse("CORRELATION", found, self.node)
        if self.node.args.get("limit") or self.node.args.get("offset") or order:
            add_top(self.lowering, self.node, self.block, order, values)

    def _only_asked_for_any(self) -> bool:
        """Whether the query is a subquery of EXISTS or IN, to which a row that comes twice is as good as one."""
        around = self.node.parent
        while isinstance(around, exp.Paren | exp.Subquery) and not around.alias:
            around = around.parent
        return isinstance(around, exp.Exists | exp.In)

    def _group(
        self,
        items: Sequence[Item],
        aliases: Mapping[str, exp.Expr],
        having: Sequence[exp.Expr],
        order: Sequence[exp.Expr],
    ) -> Above:
        """GROUP BY and HAVING; how expressions over the tables read above them."""
        clause, values = self.node.args.get("group"), [value for _, value in items]
        by = GroupBy(())
        if clause is not None:
            by = read_group_by(clause, items, lambda part: self._read(part, aliases))
        if any(is_generator(part) for value in values for part in value.find_all(exp.Anonymous)):
            raise self.lowering.expressions.refuse("GENERATOR", "a generator beside GROUP BY", self.node)
        for value in (*values, *having, *order):
            fill_below(self.lowering, value, self.block)
        grouping = Grouping(self.lowering.names.node("group"), self.block, by, self.lowering.expressions)
        add_conditions(self.lowering, having, self.block, grouping.above)
        if grouping.split_by_correlation:
            if having:
                found = "HAVING in a correlated subquery without GROUP BY"
                raise self.lowering.expressions.refuse("CORRELATION", found, self.node)
            self.block.when_empty = grouping.when_empty([(None, grouping.above(value)) for value in values])
        return grouping.above

    def _read(self, part: exp.Expr, aliases: Mapping[str, exp.Expr]) -> exp.Expr:
        return self.lowering.expressions.read(part, self.scope, aliases, self.ctes)

    def _conditions(self, key: str, aliases: Mapping[str, exp.Expr]) -> list[exp.Expr]:
        clause = self.node.args.get(key)
        return [self._read(each, aliases) for each in conjuncts(clause.this)] if clause is not None else []

    def _items(self) -> tuple[list[Item], dict[str, exp.Expr]]:
        """The select list, and by its aliases what later parts of the SELECT may mean by them."""
        items: list[Item] = []
        aliases: dict[str, exp.Expr] = {}
        for item in self.node.expressions:
            if isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star)):
                items.extend(self._star(item))
                continue
            inner = item.this if isinstance(item, exp.Alias | exp.Aliases) else item
            if is_generator(inner) or isinstance(item, exp.Aliases):
                items.extend(selected_generator(self.lowering, item, inner, self.scope, self.block, self.ctes))
                continue
            value = self._read(inner, aliases)
            items.append((item.alias if isinstance(item, exp.Alias) else _implied_name(inner), value))
            if isinstance(item, exp.Alias):
                aliases.setdefault(item.alias.lower(), value)
        return items, aliases

    def _star(self, item: exp.Expr) -> list[Item]:
        star = item if isinstance(item, exp.Star) else item.this
        if star.args.get("replace") or star.args.get("rename"):
            raise self.lowering.expressions.refuse("STAR_REPLACE", to_text(item), item)
        parts = [part.name for part in item.parts[:-1]] if isinstance(item, exp.Column) else []
        found = self.scope.star(parts[0] if parts else None) if len(parts) < 2 else None
        if found is None:
            raise self.lowering.expressions.refuse("STRUCT_STAR", to_text(item), item)
        excluded = set()
        for left_out in star.args.get("except_") or []:
            if len(getattr(left_out, "parts", [left_out])) > 1:
                raise self.lowering.expressions.refuse("STAR_REPLACE", to_text(item), item)
            excluded.add(left_out.name.lower())
        return [(name, value) for name, value in found if name is None or name.lower() not in excluded]


def _implied_name(node: exp.Expr) -> str | None:
    match node:
        case exp.Column():
            return node.name
        case exp.Dot(expression=exp.Identifier()):
            return str(node.expression.name)
        case exp.Paren():
            return _implied_name(node.this)
        case _:
            return None
