"""Tables in the order of a key, and the keys that a change touches: a change of few keys then meets few files."""

from __future__ import annotations

from sqlglot import exp

from headwater.algebra.key_ranges import KeyRanges
from headwater.algebra.time import Interval
from headwater.sql.dialect import column, named, to_text
from headwater.sql.key_condition import key_condition
from headwater.sql.relations import COUNT, current_table, inside, snapshot_table

_CELL_BITS = 10


def in_order_sql(text: str, key: str) -> str:
    """A query's rows in files that each hold a range of keys, as many files as Spark finds right for their size."""
    name = to_text(column(key))
    return f"SELECT /*+ REPARTITION_BY_RANGE({name}) */ * FROM (\n{text}\n) AS `q` SORT BY {name}"


def touched_keys_sql(log: str, interval: Interval, key: str, *, whole_numbers: bool, most: int) -> str:
    """Where the keys of the changes in an interval lie: the smallest and the largest, the smallest count, and how many.

    One row for each key; of whole numbers, for each cell of 2^10 of them.
    """
    value: exp.Expr = column(key)
    if whole_numbers:
        value = exp.Anonymous(this="shiftright", expressions=[value, exp.Literal.number(_CELL_BITS)])
    ends = [exp.Min(this=column(key)), exp.Max(this=column(key)), exp.Min(this=column(COUNT))]
    ends.append(exp.Count(this=exp.Star()))
    found = [named(each, name) for each, name in zip(ends, ("low", "high", "least", "rows"), strict=True)]
    keys = exp.select(*found).from_(current_table(log)).where(inside(interval)).group_by(value)
    return to_text(keys.limit(most))


def any_row_sql(location: str, version: int, key: str, ranges: KeyRanges) -> str:
    """A row of a table with a key in the ranges, if there is one."""
    row = exp.select(exp.Literal.number(1)).from_(snapshot_table(location, version))
    return to_text(row.where(key_condition(column(key), ranges, nulls_meet=True)).limit(1))
