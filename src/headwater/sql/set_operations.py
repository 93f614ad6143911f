"""UNION, INTERSECT and EXCEPT.

UNION ALL is linear and stays so; UNION is DISTINCT of it. INTERSECT and EXCEPT count how often each row stands on
either side, in one aggregate over both, and keep a row as often as the two counts say.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from headwater.sql.blocks import AggregateOn, Block, UnionOf
from headwater.sql.context import Lowering, require_only
from headwater.sql.dialect import call, column
from headwater.sql.expressions import Ctes
from headwater.sql.generators import generate
from headwater.sql.grouping import distinct

_ALLOWED = {"this", "expression", "distinct", "by_name", "with_", "order", "limit", "offset"}


def set_operation(lowering: Lowering, node: exp.SetOperation, ctes: Ctes) -> Block:
    """ORDER BY and LIMIT after it are not read here."""
    require_only(lowering, node, _ALLOWED)
    if node.args.get("by_name"):
        raise lowering.expressions.refuse("UNION_BY_NAME", "BY NAME", node)
    if isinstance(node, exp.Union):
        block = _union(lowering, [lowering.query(each, ctes) for each in _branches(node)])
        if node.args.get("distinct"):
            distinct(lowering.names.node("group"), block)
        return block
    return _subtracted(lowering, node, lowering.query(node.this, ctes), lowering.query(node.expression, ctes))


def _branches(node: exp.Expr) -> Iterator[exp.Expr]:
    """``a UNION ALL b UNION ALL c`` parses as a tree; its branches stand side by side in one union."""
    for side in (node.this, node.expression):
        nested = (
            isinstance(side, exp.Union)
            and side.args.get("distinct") == node.args.get("distinct")
            and not any(side.args.get(key) for key in ("by_name", "order", "limit", "offset", "with_"))
        )
        yield from _branches(side) if nested else [side]


def _union(lowering: Lowering, branches: Sequence[Block]) -> Block:
    alias = lowering.names.numbered_alias("union")
    attributes = tuple(f"{alias}.{index}" for index in range(len(branches[0].columns)))
    block = Block([UnionOf(list(branches), attributes)], columns=list(branches[0].columns))
    block.read_through(attributes)
    return block


def _subtracted(lowering: Lowering, node: exp.SetOperation, left: Block, right: Block) -> Block:
    """INTERSECT and EXCEPT: how often each row stands on either side, and how often it is to stand."""
    for number, side in enumerate((left, right)):
        side.columns.append((None, exp.Literal.number(number)))
    block = _union(lowering, [left, right])
    _, which = block.columns.pop()
    name = lowering.names.node("group")
    keys = [(f"{name}.k{index}", value) for index, (_, value) in enumerate(block.columns)]
    counted = AggregateOn(name, block.close(), keys)
    ours, theirs = column(f"{name}.v0"), column(f"{name}.v1")
    counted.values = [
        (attribute.name, call("count_if", exp.EQ(this=which.copy(), expression=exp.Literal.number(number))))
        for number, attribute in enumerate((ours, theirs))
    ]
    block.inputs = [counted]
    block.read_through(key for key, _ in keys)
    both = isinstance(node, exp.Intersect)
    if node.args.get("distinct"):
        kind = exp.GT if both else exp.EQ
        block.conditions.append(exp.GT(this=ours, expression=exp.Literal.number(0)))
        block.conditions.append(kind(this=theirs, expression=exp.Literal.number(0)))
        return block
    times = call("least", ours, theirs) if both else exp.Sub(this=ours, expression=theirs)
    at_least_none = exp.cast(call("greatest", times, exp.Literal.number(0)), "INT")
    copies = call("array_repeat", exp.Literal.number(0), at_least_none)
    generate(lowering, call("explode", copies), ["copy"], block)
    return block
