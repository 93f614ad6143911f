"""The statements that keep a mirrored table: its log of changes, and its rows.

The log holds ``__hw_csn``, ``__hw_count`` (signed) and the table's columns, as a view delta does; the table holds
``__hw_count`` and the columns, one stored row for each distinct row, as a view's does.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from sqlglot import exp

from headwater.algebra.time import Csn
from headwater.sql.dialect import bigint, column, is_not_null, named, quoted, subquery, to_text
from headwater.sql.relations import COUNT, CSN, current_table, snapshot_table
from headwater.sql.storage import bag, counted_at, stored


def emptied_sql(location: str, version: int, stored_at: Csn, log: str, at: Csn, names: Sequence[str]) -> str:
    """The changes, all of csn ``at``, that take away what a mirror holds there so far."""
    rows = counted_at(stored(location, version, names), stored_at, log, at, names)
    gone = exp.Neg(this=column(COUNT))
    items = [named(bigint(at), CSN), named(gone, COUNT), *(column(name) for name in names)]
    return to_text(exp.select(*items).from_(subquery(rows, "q")))


def difference_sql(before: tuple[str, int], now: tuple[str, int], at: Csn, names: Sequence[str]) -> str:
    """The changes, all of csn ``at``, from one mirror's rows (location, version) to another's, deletions too."""
    total = exp.Sum(this=column(COUNT))
    gone = exp.select(named(exp.Neg(this=column(COUNT)), COUNT), *(column(name) for name in names))
    rows = exp.union(stored(*now, names), gone.from_(snapshot_table(*before)), distinct=False)
    select = exp.select(named(bigint(at), CSN), named(total, COUNT), *(column(name) for name in names))
    select = select.from_(subquery(rows, "q")).group_by(*(column(name) for name in names))
    return to_text(select.having(exp.NEQ(this=total.copy(), expression=exp.Literal.number(0))))


def asked_state(
    rows: exp.Expr | None,
    columns: Sequence[tuple[str, str]],
    interfering: Sequence[Csn],
    missing: Sequence[Csn],
    log: str,
    names: Sequence[str],
) -> exp.Query:
    """What a source answered (None: nothing was asked for), less interfering units of work and plus missing ones."""
    if rows is None:
        kinds = dict(columns)
        nulls = [exp.alias_(exp.Cast(this=exp.null(), to=exp.var(kinds[name])), name, quoted=True) for name in names]
        return exp.select(*nulls).where(exp.false())
    if not interfering and not missing:
        return exp.select(*(column(name) for name in names)).from_(rows.copy())
    every = [name for name, _ in columns]
    parts: list[exp.Query] = [exp.select(named(bigint(1), COUNT), *(column(name) for name in every)).from_(rows.copy())]
    for csns, count in ((interfering, exp.Neg(this=column(COUNT))), (missing, column(COUNT))):
        if csns:
            of_them = exp.In(this=column(CSN), expressions=[exp.Literal.number(csn) for csn in csns])
            select = exp.select(named(count, COUNT), *(column(name) for name in every))
            parts.append(select.from_(current_table(log)).where(of_them))
    union = reduce(lambda left, right: exp.union(left, right, distinct=False), parts)
    total = exp.Sum(this=column(COUNT))
    # Rows that were not asked for are in the log too; what is taken from nothing is none of the answer's.
    net = exp.select(named(total, COUNT), *(column(name) for name in every)).from_(subquery(union, "q"))
    net = net.group_by(*(column(name) for name in every))
    return bag(net.having(exp.GT(this=total.copy(), expression=exp.Literal.number(0))), names)


def joined_keys_sql(relations: Sequence[exp.Query], conditions: Sequence[exp.Expr], attributes: Sequence[str]) -> str:
    """The distinct values of some attributes in a join of leaves."""
    select = exp.select(*(column(name) for name in attributes)).distinct().from_(subquery(relations[0], "l0"))
    for place, relation in enumerate(relations[1:], 1):
        select = select.join(subquery(relation, f"l{place}"), join_type="CROSS", copy=False)
    for condition in [*conditions, *(is_not_null(column(name)) for name in attributes)]:
        select = select.where(condition.copy(), copy=False)
    return to_text(select)


def union_sql(names: Sequence[str]) -> str:
    """The rows of several staged relations."""
    parts: list[exp.Query] = [exp.select(exp.Star()).from_(exp.Table(this=quoted(name))) for name in names]
    return to_text(reduce(lambda left, right: exp.union(left, right, distinct=False), parts))


def counted_copy_sql(copy: str, names: Sequence[str]) -> str:
    """The rows of a fresh copy, each distinct one with its count."""
    count = named(exp.Count(this=exp.Star()), COUNT)
    select = exp.select(count, *(column(name) for name in names)).from_(current_table(copy))
    return to_text(select.group_by(*(column(name) for name in names)))


def unnumbered_sql(log: str, newest: Csn) -> str:
    """Remove what a round that was given up had written."""
    beyond = exp.GT(this=column(CSN), expression=exp.Literal.number(newest))
    return to_text(exp.delete(current_table(log), where=beyond))


def restore_sql(location: str, version: int) -> str:
    return f"RESTORE TABLE {to_text(current_table(location))} TO VERSION AS OF {version}"


def nothing_sql(location: str) -> str:
    """No row of a table, for a commit that only leaves its tag."""
    return to_text(exp.select(exp.Star()).from_(current_table(location)).where(exp.false()))
