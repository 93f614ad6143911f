"""The change of an aggregate that adds up, as Spark SQL (``headwater.algebra.sums``).

For each touched key, the sums over the state at the beginning stand at the interval's start, and the sums over the
changes at their csns; running totals give the sums at every version. Each sum has two columns: the total, and how many
values that are not NULL are in it, since a sum over none is NULL.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from sqlglot import exp

from headwater.algebra.nodes import Aggregate
from headwater.algebra.plan import Attribute
from headwater.algebra.sums import ROWS, Sum, SumKind, totals_of
from headwater.algebra.time import Csn
from headwater.sql.dialect import bigint, column, is_not_null, named, quoted, subquery
from headwater.sql.relations import COUNT, CSN

VERSION = "__hw_version"
NEXT = "__hw_next"


def totals(sums: Sequence[Sum], keys: Sequence[Attribute], rows: exp.Query) -> exp.Select:
    """The totals of every group of a bag."""
    select = exp.select(*_columns(keys), *partial_totals(sums, None), copy=False).from_(subquery(rows, "s"))
    return select.group_by(*_columns(keys)) if keys else select


def summed_state(node: Aggregate, sums: Sequence[Sum], rows: exp.Query) -> exp.Select:
    """The node's rows over a bag, each row of it counted as a change of one row is."""
    select = exp.select(*_columns(node.keys), *partial_totals(sums, column(COUNT)), copy=False)
    counted = exp.select(named(bigint(1), COUNT), exp.Star(), copy=False).from_(subquery(rows, "c"))
    select = select.from_(subquery(counted, "s"), copy=False)
    select = select.group_by(*_columns(node.keys)) if node.keys else select
    values = [named(_value(each), each.output) for each in sums]
    items = [*_columns(node.keys), *values] or [exp.null()]
    return exp.select(*items, copy=False).from_(subquery(select, "t"))


def summed_answers(node: Aggregate, sums: Sequence[Sum], before: exp.Query, change: str, begin: Csn) -> exp.Select:
    """The node's rows at every version of every touched key, with the version and the next.

    ``before`` gives the totals of the touched keys at the beginning, ``change`` is the staged change of the input.
    """
    keys = _columns(node.keys)
    names = list(totals_of(sums))
    moment = named(bigint(begin), CSN)
    was = exp.select(*_copies(keys), moment, *_columns(names), copy=False).from_(subquery(before, "s"))
    changes = exp.select(*_copies(keys), column(CSN), *partial_totals(sums, column(COUNT)), copy=False).from_(
        exp.Table(this=quoted(change))
    )
    changes = changes.group_by(*_copies(keys), column(CSN))
    touched = exp.select(*_copies(keys), moment.copy(), *_nothing(sums), copy=False).from_(
        exp.Table(this=quoted(change))
    )
    touched = touched.distinct() if keys else touched.limit(1)
    union = exp.union(exp.union(was, changes, distinct=False), _sub_select(touched), distinct=False)
    at_csn = exp.select(
        *_copies(keys), column(CSN), *(named(exp.Sum(this=column(name)), name) for name in names), copy=False
    ).from_(subquery(union, "u"))
    at_csn = at_csn.group_by(*_copies(keys), column(CSN))
    running = exp.select(
        *_copies(keys),
        named(column(CSN), VERSION),
        named(_over(exp.Anonymous(this="lead", expressions=[column(CSN)]), keys), NEXT),
        *(named(_over(exp.Sum(this=column(name)), keys), name) for name in names),
        copy=False,
    ).from_(subquery(at_csn, "c"))
    values = [named(_value(each), each.output) for each in sums]
    carried = [named(_stored(name, sums), name) for name in names] if node.carried else []
    answer = exp.select(*_copies(keys), *values, *carried, column(VERSION), column(NEXT), copy=False).from_(
        subquery(running, "r")
    )
    return answer.where(exp.GT(this=column(ROWS), expression=exp.Literal.number(0))) if keys else answer


def _stored(name: Attribute, sums: Sequence[Sum]) -> exp.Expr:
    """A running total in the type in which it is stored: Spark widens the sum of a decimal."""
    kind = next((each.total for each in sums if name == each.amount), "bigint")
    return exp.Cast(this=column(name), to=exp.var(kind))


def summable(value: exp.Expr) -> tuple[SumKind, exp.Expr | None] | None:
    """COUNT, SUM and AVG without DISTINCT, with what they are over (None: all rows); None for other aggregates."""
    condition: exp.Expr | None = None
    if isinstance(value, exp.Filter):
        condition, value = value.expression.this, value.this
    if not isinstance(value, exp.Anonymous) or value.find(exp.Distinct):
        return None
    arguments: list[exp.Expr] = value.expressions
    match value.name.lower(), arguments:
        case "count", [exp.Star()] | []:
            kind, argument = SumKind.COUNT, None
        case "count", [only]:
            kind, argument = SumKind.COUNT, only
        case "count", several:
            known = [is_not_null(each) for each in several]
            kind, argument = SumKind.COUNT, _when(exp.and_(*known), bigint(1))
        case "count_if", [only]:
            kind, argument = SumKind.COUNT, _when(only, bigint(1))
        case "sum", [only]:
            kind, argument = SumKind.SUM, only
        case "avg" | "mean", [only]:
            kind, argument = SumKind.AVG, only
        case _:
            return None
    if condition is not None:
        argument = _when(condition, bigint(1) if argument is None else argument)
    return kind, argument


AVERAGES = frozenset({"avg", "mean", "try_avg"})


def averaged(call: exp.Expr) -> exp.Expr:
    """What an average is over."""
    first: exp.Expr = call.expressions[0]
    return first.expressions[0] if isinstance(first, exp.Distinct) else first


def averaged_as_double(value: exp.Expr) -> exp.Expr:
    """An average of whole numbers as one of doubles, which it is: so written, Spark keeps to the order of rows."""
    copy = value.copy()
    for part in [part for part in copy.find_all(exp.Anonymous) if part.name.lower() in AVERAGES]:
        argument = averaged(part)
        argument.replace(exp.Cast(this=argument.copy(), to=exp.var("DOUBLE")))
    return copy


def total_type(kind: SumKind, argument: str) -> str | None:
    """The type in which arguments of a type are added up exactly; None if that can't be."""
    if kind is SumKind.COUNT:
        return "bigint"
    if argument in ("tinyint", "smallint", "int") or (argument == "bigint" and kind is SumKind.SUM):
        return "bigint"
    found = re.fullmatch(r"decimal\((\d+),(\d+)\)", argument)
    if found is None:
        return None
    precision, scale = int(found[1]), int(found[2])
    # Spark keeps up to six digits after the point whatever the product; it rounds a quotient once from two digits on.
    exact = scale <= 6 or precision <= 17
    if not exact or (kind is SumKind.AVG and not (scale >= 2 and precision <= 24)):
        return None
    return f"decimal({min(38, precision + 10)},{scale})"


def sums_of(values: Sequence[tuple[str, exp.Expr]], types: Mapping[str, Sequence[str]]) -> tuple[Sum, ...]:
    """The values of a node as sums; ``types`` gives for each the types of its result and of its total."""
    found = []
    for output, value in values:
        parts = summable(value)
        if parts is None:
            raise ValueError(f"{output} does not add up")
        found.append(Sum(output, parts[0], parts[1], types[output][0], types[output][1]))
    return tuple(found)


def _when(condition: exp.Expr, value: exp.Expr) -> exp.Expr:
    return exp.Case(ifs=[exp.If(this=condition.copy(), true=value.copy())])


def partial_totals(sums: Sequence[Sum], count: exp.Expr | None) -> list[exp.Expr]:
    """The sums over a bag (``count`` None), or over changes with signed counts."""
    weight = bigint(1) if count is None else count
    found = [named(_coalesced(exp.Sum(this=weight.copy())), ROWS)]
    for each in sums:
        if each.argument is None:
            continue
        known = is_not_null(each.argument)
        counted = exp.Case(ifs=[exp.If(this=known, true=weight.copy())], default=bigint(0))
        found.append(named(_coalesced(exp.Sum(this=counted)), each.known))
        if each.kind is not SumKind.COUNT:
            kind = each.total if count is None else _type_of_changes(each)
            value = exp.Cast(this=each.argument.copy(), to=exp.var(kind))
            signed = value if count is None else _times(value, count, kind)
            total = exp.Anonymous(this="coalesce", expressions=[exp.Sum(this=signed), _zero(each)])
            found.append(named(exp.Cast(this=total, to=exp.var(kind)), each.amount))
    return found


def _type_of_changes(each: Sum) -> str:
    """A sum that bigint can hold may change by more than that: where the smallest value goes, by 2^63."""
    return "decimal(30,0)" if each.kind is SumKind.SUM and each.total == "bigint" else each.total


def _times(value: exp.Expr, count: exp.Expr, total: str) -> exp.Expr:
    """A value as often as its count says; counts are nearly always 1 or -1, and a product would change the type."""
    product: exp.Expr = exp.Mul(this=value.copy(), expression=exp.Cast(this=count.copy(), to=exp.var("DECIMAL(10,0)")))
    return exp.Case(
        this=count.copy(),
        ifs=[
            exp.If(this=exp.Literal.number(1), true=value.copy()),
            exp.If(this=exp.Neg(this=exp.Literal.number(1)), true=exp.Neg(this=value.copy())),
        ],
        default=exp.Cast(this=product, to=exp.var(total)),
    )


def _nothing(sums: Sequence[Sum]) -> list[exp.Expr]:
    found = [named(bigint(0), ROWS)]
    for each in sums:
        if each.argument is not None:
            found.append(named(bigint(0), each.known))
            if each.kind is not SumKind.COUNT:
                found.append(named(_zero(each), each.amount))
    return found


def _zero(each: Sum) -> exp.Expr:
    return exp.Cast(this=exp.Literal.number(0), to=exp.var(each.total))


def _value(each: Sum) -> exp.Expr:
    if each.argument is None:
        return column(ROWS)
    known, total = column(each.known), column(each.amount)
    if each.kind is SumKind.COUNT:
        return known
    value: exp.Expr = total
    if each.kind is SumKind.AVG:
        value = _average(each, total, known)
    some = exp.GT(this=known.copy(), expression=exp.Literal.number(0))
    return exp.Case(ifs=[exp.If(this=some, true=exp.Cast(this=value, to=exp.var(each.result)))])


def _average(each: Sum, total: exp.Expr, known: exp.Expr) -> exp.Expr:
    """As Spark divides: whole numbers as doubles, decimals rounded once, to the scale of the result."""
    if each.total == "bigint":
        return exp.Div(this=exp.Cast(this=total, to=exp.var("DOUBLE")), expression=known.copy())
    scale = int(re.findall(r"\d+", each.total)[1])
    wide = exp.Cast(this=total, to=exp.var(f"DECIMAL(34,{scale})"))
    return exp.Div(this=wide, expression=exp.Cast(this=known.copy(), to=exp.var("DECIMAL(20,0)")))


def _over(call: exp.Expr, keys: Sequence[exp.Expr]) -> exp.Window:
    order = exp.Order(expressions=[exp.Ordered(this=column(CSN), nulls_first=True)])
    return exp.Window(this=call, partition_by=_copies(keys), order=order)


def _coalesced(value: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this="coalesce", expressions=[value, bigint(0)])


def _columns(names: Sequence[Attribute]) -> list[exp.Expr]:
    return [column(name) for name in names]


def _copies(values: Sequence[exp.Expr]) -> list[exp.Expr]:
    return [value.copy() for value in values]


def _sub_select(query: exp.Select) -> exp.Select:
    """A query with LIMIT as a branch of a union."""
    return exp.select("*").from_(subquery(query, "b"))
