"""ORDER BY with LIMIT: the first rows of a block, by a node. One without the other is refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from headwater.sql.blocks import Block, TopOn
from headwater.sql.context import Lowering
from headwater.sql.dialect import column, to_text
from headwater.sql.expressions import Ctes, is_ordinal, unwrapped
from headwater.sql.scope import Relation, Scope

_MOST = 2**31 - 1


def order_keys(
    node: exp.Expr, items: Sequence[tuple[str | None, exp.Expr]], read: Callable[[exp.Expr], exp.Expr]
) -> list[exp.Expr]:
    """What ORDER BY sorts by: numbers stand for the select list, all else is read (see ``order_scope``)."""
    clause = node.args.get("order")
    keys = [each.this for each in clause.expressions] if clause is not None else []
    # Without parentheses a key that is one of the select list is recognised as such.
    return [items[int(key.name) - 1][1].copy() if is_ordinal(key) else unwrapped(read(key)) for key in keys]


def order_scope(items: Sequence[tuple[str | None, exp.Expr]], scope: Scope) -> Scope:
    """Names as ORDER BY has them: those of the select list go before those of the tables, also within expressions."""
    selected = Relation.of(None, [name for name, _ in items], [value for _, value in items])
    merged = Relation.of(None, list(scope.merged), list(scope.merged.values()))
    return Scope([selected, merged, *scope.relations], parent=scope.parent)


def order_columns(lowering: Lowering, node: exp.Expr, block: Block, ctes: Ctes) -> None:
    """ORDER BY and LIMIT after a query in parentheses or a set operation: over its columns."""
    if not any(node.args.get(key) for key in ("order", "limit", "offset")):
        return
    names, values = [name for name, _ in block.columns], [value for _, value in block.columns]
    scope = Scope([Relation.of(None, names, values)])
    order = order_keys(node, block.columns, lambda part: lowering.expressions.read(part, scope, {}, ctes))
    add_top(lowering, node, block, order, values)


def add_top(
    lowering: Lowering, node: exp.Expr, block: Block, order: Sequence[exp.Expr], selected: Sequence[exp.Expr]
) -> None:
    """Put the node on the block. A key of ``order`` that is one of ``selected``, the columns, is not computed again."""
    clause = node.args.get("order")
    limit, offset = node.args.get("limit"), node.args.get("offset")
    if limit is None and offset is None:
        raise lowering.expressions.refuse("ORDER_BY", "ORDER BY without LIMIT", clause)
    if clause is None:
        raise lowering.expressions.refuse("LIMIT", "LIMIT without ORDER BY", limit or offset)
    name = lowering.names.node("top")
    outputs = [(f"{name}.{index}", value) for index, (_, value) in enumerate(block.columns)]
    computed: list[tuple[str, exp.Expr]] = []
    keys: list[exp.Expr] = []
    for each, value in zip(clause.expressions, order, strict=True):
        place = next((place for place, known in enumerate(selected) if known == value), None)
        key = f"{name}.{place}" if place is not None else f"{name}.o{len(computed)}"
        if place is None:
            if node.args.get("distinct"):
                raise lowering.expressions.refuse("ORDER_BY", "ORDER BY of what DISTINCT does not select", each)
            computed.append((key, value))
        keys.append(exp.Ordered(**{**each.copy().args, "this": column(key)}))
    floating = block.split()
    if floating:
        raise lowering.expressions.refuse("CORRELATION", "LIMIT in a correlated subquery", floating[0])
    skipped = _whole(lowering, offset, 0)
    first = _whole(lowering, limit, _MOST - skipped)  # Spark adds the two
    block.inputs = [TopOn(name, block.close(), outputs, computed, keys, first, skipped)]
    block.read_through(key for key, _ in outputs)


def _whole(lowering: Lowering, clause: exp.Expr | None, default: int) -> int:
    if clause is None:
        return default
    number = clause.expression
    if isinstance(clause, exp.Fetch) or not isinstance(number, exp.Literal) or not number.name.isdigit():
        raise lowering.expressions.refuse("LIMIT", to_text(clause).strip(), clause)
    return int(number.name)
