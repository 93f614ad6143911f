"""A change added to a table of distinct rows with counts: a view's, or a mirror's.

A large table is merged into; a small one is written anew, which costs less than to find its changed rows. Either way it
is one tagged commit. A table in the order of a key is merged into within a few ranges of keys, so that Delta reads only
the files in which the change can lie: it leaves out files by literal ranges alone, so the keys are asked for first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from headwater.algebra.grid import RANGES, WHOLE_NUMBERS
from headwater.algebra.key_ranges import KeyRange, KeyRanges, key_ranges
from headwater.algebra.time import Interval
from headwater.engine.spark import CommitTag, SparkEngine, Written
from headwater.sql.ordering import CELL_BITS, touched_keys_sql
from headwater.sql.storage import merge_sql, rewritten_sql

MOST_KEYS = 10_000  # brought to the driver; a change of more is all over the table, or nearly
_KEYS = WHOLE_NUMBERS | {"date", "timestamp_ntz", "string"}  # a timestamp comes back in the session's zone


@dataclass(frozen=True, slots=True)
class CountedTable:
    """A table at a version, the log of its changes, and its columns; ``key`` is the one that it is in the order of."""

    location: str
    version: int
    log: str
    names: Sequence[str]
    key: tuple[str, str] | None = None


def add_net_change(
    engine: SparkEngine, table: CountedTable, interval: Interval, sign: int, tag: CommitTag, doing: str, *, small: int
) -> Written | None:
    """Add what the log nets to over an interval, or take it away; None if Delta made no commit, or had seen the tag.

    A table of up to ``small`` rows is written anew.
    """
    if engine.rows_in(table.location, table.version) > small:
        touched = _touched(engine, table, interval)
        if touched is not None and touched[1].is_empty:
            return Written(table.version, 0, tag.facts)
        text = merge_sql(table.location, table.log, interval, table.names, sign=sign, touched=touched)
        return engine.merge(text, tag, doing, of=(table.location, table.version))
    text = rewritten_sql(table.location, table.version, table.log, interval, table.names, sign=sign)
    return engine.rewrite(text, table.location, tag, doing)


def _touched(engine: SparkEngine, table: CountedTable, interval: Interval) -> tuple[str, KeyRanges] | None:
    """The key and the ranges that a change lies in; None where there is no key, or too many keys to tell."""
    if table.key is None or table.key[1] not in _KEYS:
        return None
    name, kind = table.key
    whole = kind in WHOLE_NUMBERS
    text = touched_keys_sql(table.log, interval, name, whole_numbers=whole, most=MOST_KEYS + 1)
    try:
        found = [row[0] for row in engine.compute(text).collect()]  # bounded by the limit
    except (ValueError, OverflowError):  # a date that Python has no value for
        return None
    if len(found) > MOST_KEYS:
        return None
    ranges = key_ranges(found, RANGES)
    return name, _of_cells(ranges) if whole else ranges


def _of_cells(cells: KeyRanges) -> KeyRanges:
    """The keys of ranges of cells."""
    found = [
        KeyRange(int(each.low) << CELL_BITS, ((int(each.high) + 1) << CELL_BITS) - 1)  # type: ignore[arg-type]
        for each in cells.ranges
    ]
    return replace(cells, ranges=tuple(found))
