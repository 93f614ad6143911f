"""The changes of a table with the fate of their keys (``headwater.propagate.fates``) as one statement.

Three passes over a small relation: what each row and csn comes to; when each key changed first and last and by how much
in all; and whether the key was there before, which its first change tells.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from headwater.sql.dialect import column, named, quoted, subquery
from headwater.sql.relations import COUNT, CSN

FATE = "__hw_fate"
_FIRST, _LAST, _TOTAL, _LEAST = "__hw_first", "__hw_last", "__hw_total", "__hw_least"


def fated_changes(changes: exp.Query, columns: Sequence[str], key: Sequence[str], *, net: bool = True) -> exp.Query:
    """Columns, COUNT, CSN and FATE ('born', 'kept' or 'gone') of the changes of one interval.

    ``net``: changes that cancel out within a csn are left out first. Columns that can't be grouped by forbid that; then
    a key that was inserted and deleted within one csn counts as kept, which is right and cuts less.
    """
    rows = net_changes(changes, columns) if net else changes
    spread = exp.select(
        *with_bookkeeping(columns),
        named(over_key(exp.Min(this=column(CSN)), key), _FIRST),
        named(over_key(exp.Max(this=column(CSN)), key), _LAST),
        named(over_key(exp.Sum(this=column(COUNT)), key), _TOTAL),
    ).from_(subquery(rows, "n"))
    at_first = exp.Case(ifs=[exp.If(this=_equal(CSN, _FIRST), true=column(COUNT))])
    judged = exp.select(
        *with_bookkeeping(columns), column(_LAST), column(_TOTAL), named(over_key(exp.Min(this=at_first), key), _LEAST)
    ).from_(subquery(spread, "s"))
    return exp.select(*with_bookkeeping(columns), named(_fate(key), FATE)).from_(subquery(judged, "j"))


def of_fates(fated: str, columns: Sequence[str], fates: Sequence[str]) -> exp.Query:
    """Of changes that are kept with their fates, those of some: columns, COUNT and CSN."""
    listed = [exp.Literal.string(fate) for fate in sorted(fates)]
    wanted = exp.In(this=column(FATE), expressions=listed)
    return exp.select(*with_bookkeeping(columns)).from_(exp.Table(this=quoted(fated))).where(wanted)


def _fate(key: Sequence[str]) -> exp.Expr:
    new = exp.or_(
        *(exp.Is(this=column(name), expression=exp.null()) for name in key),
        exp.GT(this=column(_LEAST), expression=exp.Literal.number(0)),
    )
    gone = exp.and_(
        exp.LT(this=column(_TOTAL), expression=exp.Literal.number(0)),
        _equal(CSN, _LAST),
        exp.LT(this=column(COUNT), expression=exp.Literal.number(0)),
    )
    return exp.Case(
        ifs=[
            exp.If(this=new, true=exp.Literal.string("born")),
            exp.If(this=gone, true=exp.Literal.string("gone")),
        ],
        default=exp.Literal.string("kept"),
    )


def net_changes(changes: exp.Query, columns: Sequence[str]) -> exp.Query:
    """The changes by row and csn, without those that cancel out."""
    total = exp.Sum(this=column(COUNT))
    keys = [*(column(name) for name in columns), column(CSN)]
    select = exp.select(*keys, named(total, COUNT)).from_(subquery(changes, "c"))
    return select.group_by(*keys).having(exp.NEQ(this=total.copy(), expression=exp.Literal.number(0)))


def with_bookkeeping(columns: Sequence[str]) -> list[exp.Expr]:
    return [*(column(name) for name in columns), column(COUNT), column(CSN)]


def _equal(one: str, other: str) -> exp.Expr:
    return exp.EQ(this=column(one), expression=column(other))


def over_key(value: exp.Expr, key: Sequence[str]) -> exp.Expr:
    return exp.Window(this=value, partition_by=[column(name) for name in key])
