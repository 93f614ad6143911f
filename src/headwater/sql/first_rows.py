"""ORDER BY with LIMIT as its first rows change, as Spark SQL (``headwater.algebra.first_rows``)."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from headwater.algebra.nodes import Top
from headwater.sql.dialect import bigint, call, column, named, quoted, subquery
from headwater.sql.relations import COUNT, CSN
from headwater.sql.transitions import total_order

_PLACE, _BOUND, _KNOWN = "__hw_place", "__hw_bound", "__hw_known"
_SO_FAR = "__hw_so_far"
MOST = 100_000  # rows that Spark keeps in memory while it looks for the first ones; more are sorted


def near_changes(node: Top, change: str, known: exp.Query) -> exp.Select:
    """Of a staged change, what stands no further back than the last of the known rows, or all if they are few."""
    attributes = [column(name) for name in node.attributes]
    of_known = exp.select(*_copies(attributes), named(bigint(1), COUNT), named(_no_csn(), CSN), copy=False)
    of_change = exp.select(*_copies(attributes), column(COUNT), column(CSN), copy=False)
    both = exp.union(
        of_known.from_(subquery(known, "k")),
        of_change.from_(exp.Table(this=quoted(change))),
        distinct=False,
        copy=False,
    )
    place = exp.Window(this=call("rank"), order=exp.Order(expressions=total_order(node)))
    placed = exp.select(*_copies(attributes), column(COUNT), column(CSN), named(place, _PLACE), copy=False)
    placed = placed.from_(subquery(both, "b"))
    is_known = exp.Is(this=column(CSN), expression=exp.null())
    last = call("max", call("if", is_known, column(_PLACE), exp.null()))
    counted = exp.select(*_copies(attributes), column(COUNT), column(CSN), column(_PLACE), copy=False)
    counted = counted.select(
        named(exp.Window(this=last), _BOUND),
        named(exp.Window(this=call("count_if", is_known.copy())), _KNOWN),
        copy=False,
    ).from_(subquery(placed, "p"))
    few = exp.LT(this=column(_KNOWN), expression=exp.Literal.number(node.limit))
    before = exp.LTE(this=column(_PLACE), expression=column(_BOUND))
    return (
        exp.select(*attributes, column(COUNT), column(CSN), column(_KNOWN), copy=False)
        .from_(subquery(counted, "c"))
        .where(exp.not_(is_known.copy()), copy=False)
        .where(exp.or_(few, before), copy=False)
    )


def shortfall(node: Top, near: str) -> exp.Select:
    """How many rows are missing at the csn at which most are, of staged near changes; 0 if never any."""
    by_csn = exp.select(
        column(CSN), named(call("sum", column(COUNT)), COUNT), named(call("max", column(_KNOWN)), _KNOWN), copy=False
    )
    by_csn = by_csn.from_(exp.Table(this=quoted(near))).group_by(column(CSN), copy=False)
    so_far = exp.Window(
        this=call("sum", column(COUNT)), order=exp.Order(expressions=[exp.Ordered(this=column(CSN), nulls_first=True)])
    )
    running = exp.select(column(_KNOWN), named(so_far, _SO_FAR), copy=False).from_(subquery(by_csn, "g"))
    all_known = exp.LT(this=column(_KNOWN), expression=exp.Literal.number(node.limit))
    missing = call("if", all_known, bigint(0), exp.Neg(this=column(_SO_FAR)))
    most = call("greatest", call("max", missing), bigint(0))
    return exp.select(call("coalesce", most, bigint(0)), copy=False).from_(subquery(running, "r"))


def taken_away(change: str) -> exp.Select:
    """How many rows a staged change takes away, over all its csns."""
    taken = call(
        "sum", call("if", exp.LT(this=column(COUNT), expression=bigint(0)), exp.Neg(this=column(COUNT)), bigint(0))
    )
    return exp.select(call("coalesce", taken, bigint(0)), copy=False).from_(exp.Table(this=quoted(change)))


def first_of(node: Top, rows: exp.Query, count: int) -> exp.Query:
    """The first rows of a bag; all of it where they are many."""
    if count > MOST:
        return rows
    attributes = [column(name) for name in node.attributes]
    return exp.select(*attributes, copy=False).from_(subquery(rows, "f")).order_by(*total_order(node)).limit(count)


def _no_csn() -> exp.Expr:
    return exp.cast(exp.null(), "BIGINT")


def _copies(columns: Sequence[exp.Expr]) -> list[exp.Expr]:
    return [each.copy() for each in columns]
