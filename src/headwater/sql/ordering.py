"""Tables in the order of a key, and the keys that a change touches: a change of few keys then meets few files."""

from __future__ import annotations

from sqlglot import exp

from headwater.sql.dialect import column, named, quoted, to_text

CELL_BITS = 10
CELL = "cell"


def in_order_sql(text: str, key: str) -> str:
    """A query's rows in files that each hold a range of keys, as many files as Spark finds right for their size."""
    name = to_text(column(key))
    return f"SELECT /*+ REPARTITION_BY_RANGE({name}) */ * FROM (\n{text}\n) AS `q` SORT BY {name}"


def touched_keys_sql(change: str, key: str, *, whole_numbers: bool, most: int) -> str:
    """The keys of a change that is kept; of whole numbers, the cells of 2^CELL_BITS that they fall into."""
    value: exp.Expr = column(key)
    if whole_numbers:
        value = exp.Anonymous(this="shiftright", expressions=[value, exp.Literal.number(CELL_BITS)])
    keys = exp.select(named(value, CELL)).distinct().from_(exp.Table(this=quoted(change)))
    return to_text(keys.limit(most))
