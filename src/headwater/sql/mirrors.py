"""The statements that keep a mirrored table: its log of changes, and its rows.

The log holds ``__hw_csn``, ``__hw_count`` (signed) and the table's columns, as a view delta does; the table holds
``__hw_count`` and the columns, one stored row for each distinct row, as a view's does.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from headwater.algebra.time import Csn
from headwater.sql.dialect import bigint, column, named, subquery, to_text
from headwater.sql.relations import COUNT, CSN, current_table, snapshot_table
from headwater.sql.storage import counted_at, stored


def emptied_sql(location: str, version: int, stored_at: Csn, log: str, at: Csn, names: Sequence[str]) -> str:
    """The changes, all of csn ``at``, that take away what a mirror holds there so far."""
    if at == stored_at:
        rows: exp.Query = stored(location, version, names)
    else:
        rows = counted_at(location, version, stored_at, log, at, names)
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
