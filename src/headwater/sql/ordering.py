"""Tables in the order of a key, and the keys that a change touches: a change of few keys then meets few files."""

from __future__ import annotations

from sqlglot import exp

from headwater.algebra.time import Interval
from headwater.sql.dialect import column, named, to_text
from headwater.sql.relations import current_table, inside

CELL_BITS = 10
CELL = "cell"


def in_order_sql(text: str, key: str) -> str:
    """A query's rows in files that each hold a range of keys, as many files as Spark finds right for their size."""
    name = to_text(column(key))
    return f"SELECT /*+ REPARTITION_BY_RANGE({name}) */ * FROM (\n{text}\n) AS `q` SORT BY {name}"


def touched_keys_sql(log: str, interval: Interval, key: str, *, whole_numbers: bool, most: int) -> str:
    """The keys of the changes in an interval; of whole numbers, the cells of 2^CELL_BITS that they fall into."""
    value: exp.Expr = column(key)
    if whole_numbers:
        value = exp.Anonymous(this="shiftright", expressions=[value, exp.Literal.number(CELL_BITS)])
    keys = exp.select(named(value, CELL)).distinct().from_(current_table(log)).where(inside(interval))
    return to_text(keys.limit(most))
