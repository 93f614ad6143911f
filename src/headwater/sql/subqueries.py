"""Subqueries in expressions, as joins.

Conditions of a subquery that mention the query around it float up to the subquery's own block (through DISTINCT and
GROUP BY their inner side becomes a key), and from there into the join:

- EXISTS and IN among the conditions of WHERE or HAVING: a semi join; NOT EXISTS and NOT IN: an anti join. NOT IN must
  know NULLs: over no rows it is true, over a NULL never.
- A scalar subquery: a join with an aggregate, by its correlation keys. Where nothing matches it is NULL (or what its
  aggregates are over no rows), so the join is a left outer one, unless the condition around it would drop NULL anyway.
- EXISTS and IN anywhere else: a left outer join with the distinct keys, and whether it matched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from sqlglot import exp

from headwater.algebra.nodes import MatchKind
from headwater.algebra.product import attributes_in
from headwater.sql.blocks import AggregateOn, Block, MatchOn, OuterRef, replace_outer
from headwater.sql.context import Lowering
from headwater.sql.dialect import call, column, is_not_null, to_text
from headwater.sql.expressions import Hole, Pending, is_aggregate_call, is_window_function
from headwater.sql.grouping import TIED, correlated_sides, distinct, tied_by_keys

# An expression made of these is NULL as soon as one of its parts is.
_STRICT = (
    exp.EQ,
    exp.NEQ,
    exp.GT,
    exp.GTE,
    exp.LT,
    exp.LTE,
    exp.Add,
    exp.Sub,
    exp.Mul,
    exp.Div,
    exp.Paren,
    exp.Neg,
)

Above = Callable[[exp.Expr], exp.Expr]
"""From an expression over the tables of a SELECT to one over its block: the identity, or through GROUP BY."""


def same(value: exp.Expr) -> exp.Expr:
    return value


def add_conditions(lowering: Lowering, conditions: Iterable[exp.Expr], block: Block, above: Above) -> None:
    """The conjuncts of WHERE or HAVING, read but for their subqueries.

    A subquery puts the block under a node: the conditions that join its tables must be in it by then.
    """
    for condition in sorted(conditions, key=lambda each: each.find(Hole) is not None):
        add_condition(lowering, condition, block, above)


def add_condition(lowering: Lowering, condition: exp.Expr, block: Block, above: Above) -> None:
    """A conjunct of WHERE, HAVING or ON, read but for its subqueries."""
    positive, inner = True, condition
    while isinstance(inner, exp.Not | exp.Paren):
        positive ^= isinstance(inner, exp.Not)
        inner = inner.this
    if isinstance(inner, Hole):
        pending = lowering.expressions.set_aside(inner)
        if not isinstance(pending.node, exp.Subquery):
            _match(lowering, pending, block, above, positive=positive)
            return
    filled = fill(lowering, condition, block, above, drops_null=True)
    block.conditions.append(filled)  # only now: joining a subquery puts the block under a node


def fill(lowering: Lowering, value: exp.Expr, block: Block, above: Above, *, drops_null: bool = False) -> exp.Expr:
    """An expression with its subqueries joined to the block; ``drops_null``: a row for which it is NULL is dropped."""
    held = exp.Paren(this=above(value).copy())
    for hole in list(held.find_all(Hole)):
        _fill_hole(lowering, hole, block, above, drops_null=drops_null and _is_strict(hole, held))
    filled: exp.Expr = held.this
    return filled


def _fill_hole(lowering: Lowering, hole: exp.Expr, block: Block, above: Above, *, drops_null: bool) -> None:
    """Join one subquery to the block and put its answer in its place: what stands around it there matters."""
    pending = lowering.expressions.set_aside(hole)
    match pending.node:
        case exp.Exists():
            answer = _exists_value(lowering, pending, block, above)
        case exp.In():
            answer = _in_value(lowering, pending, block, above, negated=_is_negated(hole))
        case _:
            inner = _inner(lowering, pending)
            if len(inner.columns) != 1:
                raise lowering.expressions.refuse("SUBQUERY", "a subquery of several columns", pending.node)
            answer = attach_row(lowering, inner, block, above, drops_null=drops_null)[0]
    hole.replace(exp.paren(answer))


def fill_below(lowering: Lowering, value: exp.Expr, block: Block) -> None:
    """Join the subqueries inside the aggregates of an expression to the block that is yet to be grouped."""
    for hole in list(value.find_all(Hole)):
        around = hole.parent
        while around is not None and not (is_aggregate_call(around) or isinstance(around, exp.Filter)):
            around = around.parent
        if around is not None and not is_window_function(around):
            _fill_hole(lowering, hole, block, same, drops_null=False)


def _is_strict(hole: exp.Expr, root: exp.Expr) -> bool:
    part = hole.parent
    while part is not None and part is not root:
        if not isinstance(part, _STRICT):
            return False
        part = part.parent
    return True


def _inner(lowering: Lowering, pending: Pending) -> Block:
    node = pending.node
    query = node.args["query"] if isinstance(node, exp.In) else node.this if isinstance(node, exp.Exists) else node
    return lowering.query(query, pending.ctes, pending.scope)


def add_match(
    lowering: Lowering, kind: MatchKind, block: Block, right: Block, conditions: Sequence[exp.Expr]
) -> MatchOn:
    """Put a join on a block; equalities between its sides are its keys.

    What ties the block's own rows to a query around it holds above the join as below: they are not those filled with
    NULL.
    """
    match = MatchOn(lowering.names.node("join"), block.close_below_ties(), right, kind, list(conditions))
    block.inputs = [match]
    find_keys(match)
    return match


def find_keys(match: MatchOn) -> None:
    left, right = match.left.offered(), match.right.offered()
    for condition in match.conditions:
        if not isinstance(condition, exp.EQ | exp.NullSafeEQ):
            continue
        for one, other in ((condition.this, condition.expression), (condition.expression, condition.this)):
            ours, theirs = attributes_in([one]), attributes_in([other])
            if ours and theirs and ours <= left and theirs <= right:
                match.keys.append((match.bind(0, one.copy()).name, match.bind(1, other.copy()).name))
                break


def _match(lowering: Lowering, pending: Pending, block: Block, above: Above, *, positive: bool) -> None:
    """[NOT] EXISTS and [NOT] IN as a condition of their own."""
    inner = _inner(lowering, pending)
    if inner.when_empty is not None:
        _match_row(lowering, pending, inner, block, above, positive=positive)
        return
    ties = [replace_outer(each, above) for each in inner.split()]
    _refuse_outer_columns(lowering, inner, pending)
    equal = _compared(lowering, pending, [value for _, value in inner.columns], block, above)
    if positive or not equal:
        kind = MatchKind.SEMI if positive else MatchKind.ANTI
        add_match(lowering, kind, block, inner, [*ties, *equal])
    elif not ties and len(equal) == 1:
        _not_in(lowering, inner, equal[0], block)
    else:
        # A row is kept if the comparison is false with every row, so one that is NULL counts as a match.
        maybe = exp.Anonymous(this="coalesce", expressions=[exp.and_(*equal), exp.true()])
        add_match(lowering, MatchKind.ANTI, block, inner, [*ties, maybe])


def _match_row(
    lowering: Lowering, pending: Pending, inner: Block, block: Block, above: Above, *, positive: bool
) -> None:
    """The same over a subquery of exactly one row for each row of the block: an aggregate without GROUP BY."""
    if pending.operand is None:
        block.conditions.extend([] if positive else [exp.false()])
        return
    values = attach_row(lowering, inner, block, above, drops_null=False)
    equal = exp.and_(*_compared(lowering, pending, values, block, above))
    block.conditions.append(equal if positive else exp.not_(exp.paren(equal)))


def _compared(
    lowering: Lowering, pending: Pending, values: Sequence[exp.Expr], block: Block, above: Above
) -> list[exp.Expr]:
    """The equalities of IN between what stands before it and the columns of its query; none for EXISTS."""
    if pending.operand is None:
        return []
    operands = pending.operand.expressions if isinstance(pending.operand, exp.Tuple) else [pending.operand]
    filled = [fill(lowering, each, block, above) for each in operands]
    return [exp.EQ(this=one, expression=two.copy()) for one, two in zip(filled, values, strict=True)]


def _not_in(lowering: Lowering, inner: Block, equal: exp.Expr, block: Block) -> None:
    """x NOT IN (query): no match, and either no row at all or neither x nor a row of the query is NULL."""
    counts = _counts(lowering, inner)
    rows, known = (name for name, _ in counts.values)
    add_match(lowering, MatchKind.ANTI, block, inner, [equal])
    block.inputs.append(counts)
    none = exp.EQ(this=column(rows), expression=exp.Literal.number(0))
    all_known = exp.EQ(this=column(rows), expression=column(known))
    block.conditions.append(exp.paren(exp.or_(none, exp.and_(is_not_null(equal.this), all_known))))


def _counts(lowering: Lowering, inner: Block) -> AggregateOn:
    """How many rows a subquery has, and how many that are not NULL.

    Its inputs stand here once more: scans and nodes are values, so a block may stand in two places.
    """
    node = AggregateOn(lowering.names.node("group"), Block(list(inner.inputs), list(inner.conditions)))
    known = call("count", inner.columns[0][1].copy())
    node.values = [(f"{node.name}.v0", call("count", exp.Star())), (f"{node.name}.v1", known)]
    return node


def attach_row(lowering: Lowering, inner: Block, block: Block, above: Above, *, drops_null: bool) -> list[exp.Expr]:
    """Join a subquery of at most one row for every row of the block; what its columns stand for in the block."""
    floating = inner.split()
    for _, value in inner.columns:
        if value.find(OuterRef):
            raise lowering.expressions.refuse("CORRELATION", "an outer column in a subquery's select list", value)
    if inner.when_empty is None and floating:
        keyed = tied_by_keys(inner, floating)
        if keyed is None:
            raise lowering.expressions.refuse("CORRELATION", "a correlated subquery of perhaps several rows", None)
        floating = keyed
    ties = [replace_outer(each, above) for each in floating]
    values = [value for _, value in inner.columns]
    if not ties:
        if not _is_global(inner):
            values = _at_most_one(lowering, inner)
        block.take_in(inner)
        return [value.copy() for value in values]
    empty = inner.when_empty or [exp.null() for _ in values]
    if drops_null and all(isinstance(each, exp.Null) for each in empty):
        block.take_in(inner)
        block.conditions.extend(ties)
        return [value.copy() for value in values]
    match = add_match(lowering, MatchKind.LEFT, block, inner, ties)
    bound: list[exp.Expr] = [match.bind(1, value.copy()) for value in values]
    if all(isinstance(each, exp.Null) for each in empty):
        return bound
    matched = is_not_null(match.bind(1, exp.true()))
    return [
        exp.Case(ifs=[exp.If(this=matched.copy(), true=value)], default=default)
        for value, default in zip(bound, empty, strict=True)
    ]


def _is_global(inner: Block) -> bool:
    """Exactly one row, always: an aggregate without GROUP BY and HAVING."""
    alone = len(inner.inputs) == 1 and isinstance(inner.inputs[0], AggregateOn)
    return alone and not inner.conditions and not inner.inputs[0].keys  # type: ignore[union-attr]


def _at_most_one(lowering: Lowering, inner: Block) -> list[exp.Expr]:
    """Aggregate a subquery that may have no row (then it is NULL) or by mistake several (then Spark fails, and so do
    we)."""
    values = [value for _, value in inner.columns]
    node = AggregateOn(lowering.names.node("group"), inner.close())
    rows = f"{node.name}.v{len(values)}"
    node.values = [(f"{node.name}.v{i}", call("any_value", value)) for i, value in enumerate(values)]
    node.values.append((rows, call("count", exp.Star())))
    inner.inputs = [node]
    several = exp.GT(this=column(rows), expression=exp.Literal.number(1))
    failure = call("raise_error", exp.Literal.string("More than one row returned by a subquery used as an expression."))
    return [
        exp.Case(ifs=[exp.If(this=several.copy(), true=failure.copy())], default=column(name))
        for name, _ in node.values[:-1]
    ]


def _exists_value(lowering: Lowering, pending: Pending, block: Block, above: Above) -> exp.Expr:
    inner = _inner(lowering, pending)
    if inner.when_empty is not None:
        return exp.true()  # an aggregate without GROUP BY always has a row
    if not any(each.find(OuterRef) for each in inner.conditions):
        _refuse_outer_columns(lowering, inner, pending)
        node = AggregateOn(lowering.names.node("group"), Block(inner.inputs, inner.conditions))
        node.values = [(f"{node.name}.v0", call("count", exp.Star()))]
        block.inputs.append(node)
        return exp.GT(this=column(f"{node.name}.v0"), expression=exp.Literal.number(0))
    ties = inner.split()
    return _marked(lowering, pending, inner, ties, [], block, above)


def _is_negated(hole: exp.Expr) -> bool:
    """Whether NOT stands on a part of an expression, once NOT is taken through AND and OR as Spark does."""
    negated, part = False, hole.parent
    while isinstance(part, exp.Paren | exp.Not | exp.And | exp.Or):
        negated ^= isinstance(part, exp.Not)
        part = part.parent
    return negated


def _in_value(lowering: Lowering, pending: Pending, block: Block, above: Above, *, negated: bool) -> exp.Expr:
    """IN inside an expression: there it has two values in Spark, not three. What would be NULL makes IN false, and NOT
    IN false too."""
    inner = _inner(lowering, pending)
    ties = inner.split()
    if ties or pending.operand is None or isinstance(pending.operand, exp.Tuple):
        raise lowering.expressions.refuse("SUBQUERY", "a correlated IN inside a larger expression", pending.node)
    operand = fill(lowering, pending.operand, block, above)
    if not negated:
        return _marked(lowering, pending, inner, [], [operand], block, above)
    counts = _counts(lowering, inner)
    rows, known = (name for name, _ in counts.values)
    matched = _marked(lowering, pending, inner, [], [operand], block, above)
    block.inputs.append(counts)
    unknown = exp.or_(
        exp.Is(this=operand.copy(), expression=exp.null()),
        exp.LT(this=column(known), expression=column(rows)),
    )
    return exp.Case(
        ifs=[
            exp.If(this=matched, true=exp.true()),
            exp.If(this=exp.EQ(this=column(rows), expression=exp.Literal.number(0)), true=exp.false()),
        ],
        default=exp.paren(unknown),
    )


def _marked(
    lowering: Lowering,
    pending: Pending,
    inner: Block,
    ties: Sequence[exp.Expr],
    operands: Sequence[exp.Expr],
    block: Block,
    above: Above,
) -> exp.Expr:
    """Whether a row of the block meets any row of a subquery, by a left outer join with its distinct keys."""
    sides = [correlated_sides(each) for each in ties]
    if any(each is None for each in sides):
        raise lowering.expressions.refuse("CORRELATION", "EXISTS with another tie than equality", pending.node)
    own = [(each[0], replace_outer(each[1], above), type(tie)) for each, tie in zip(sides, ties, strict=True) if each]
    own += [(value, operand, exp.EQ) for (_, value), operand in zip(inner.columns, operands, strict=False)]
    keys = Block(inner.inputs, inner.conditions, [(None, value.copy()) for value, _, _ in own])
    distinct(lowering.names.node("group"), keys, TIED)
    conditions = [
        kind(this=key.copy(), expression=theirs) for (_, key), (_, theirs, kind) in zip(keys.columns, own, strict=True)
    ]
    match = add_match(lowering, MatchKind.LEFT, block, keys, conditions)
    return is_not_null(match.bind(1, exp.true()))


def _refuse_outer_columns(lowering: Lowering, inner: Block, pending: Pending) -> None:
    if pending.operand is not None and any(value.find(OuterRef) for _, value in inner.columns):
        found = to_text(pending.node)
        raise lowering.expressions.refuse("CORRELATION", f"an outer column in the select list of {found}", pending.node)
