"""A table of distinct rows with counts, written anew around a change that lies all over it.

A row of the table can only be one of the change's if the hash of its columns is among the hashes of the change: these
are few and short, and go to every task. The rows that may be meant are grouped with the change, by all of their
columns, and all others are taken over as they are. Two rows of one hash do no harm: the second is grouped alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from headwater.algebra.key_ranges import KeyRanges
from headwater.sql.dialect import column, named, quoted, subquery, to_text
from headwater.sql.key_condition import key_condition
from headwater.sql.relations import COUNT, snapshot_table
from headwater.sql.storage import counted_rows, row_hash, stored

_HASH = "__hw_hash"


def hashes_sql(change: str, hashed: Sequence[str]) -> str:
    """The hashes of a change that stands under a name, by columns whose equal values have equal hashes."""
    return to_text(
        exp.select(named(row_hash(hashed), _HASH), copy=False).distinct().from_(exp.Table(this=quoted(change)))
    )


def met_rows_sql(
    location: str, version: int, change: str, hashes: str, names: Sequence[str], hashed: Sequence[str]
) -> str:
    """The change, and the rows of the table that may be meant by it, added up: what is there of them afterwards."""
    rows = exp.select(column(COUNT), *(column(name) for name in names)).from_(exp.Table(this=quoted(change)))
    met = _joined(location, version, hashes, names, hashed, "LEFT SEMI")
    return to_text(counted_rows(exp.union(met, rows, distinct=False), names))


def other_rows_sql(location: str, version: int, hashes: str, names: Sequence[str], hashed: Sequence[str]) -> str:
    """The rows of the table that are not meant."""
    return to_text(_joined(location, version, hashes, names, hashed, "LEFT ANTI"))


def rows_within_sql(location: str, version: int, key: str, ranges: KeyRanges) -> str:
    """How many rows of a table have a key in the ranges."""
    rows = exp.select(exp.Count(this=exp.Star())).from_(snapshot_table(location, version))
    return to_text(rows.where(key_condition(column(key), ranges, nulls_meet=True)))


def _joined(
    location: str, version: int, hashes: str, names: Sequence[str], hashed: Sequence[str], join_type: str
) -> exp.Select:
    columns = [column(COUNT, "v"), *(column(name, "v") for name in names)]
    same = exp.EQ(this=row_hash(hashed, "v"), expression=column(_HASH, "h"))
    select = exp.select(*columns, copy=False).from_(subquery(stored(location, version, names), "v"), copy=False)
    staged = exp.alias_(exp.Table(this=quoted(hashes)), "h", table=True)
    select = select.join(staged, on=same, join_type=join_type, copy=False)
    hint = exp.Anonymous(this="BROADCAST", expressions=[exp.to_table("`h`", dialect="spark")])
    select.set("hint", exp.Hint(expressions=[hint]))
    return select
