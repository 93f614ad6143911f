"""A change added to a table of distinct rows with counts: a view's, or a mirror's.

A large table is merged into; a small one is written anew, which costs less than to find its changed rows. Either way it
is one tagged commit. A table in the order of a key is merged into within a few ranges of keys, so that Delta reads only
the files in which the change can lie: it leaves out files by literal ranges alone, so the keys are asked for first. A
change that only adds rows, of keys where the table has none, is appended: there is nothing to find.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from headwater.algebra.grid import RANGES, WHOLE_NUMBERS
from headwater.algebra.key_ranges import KeyRange, KeyRanges, key_ranges
from headwater.algebra.time import Interval
from headwater.engine.spark import CommitTag, SparkEngine, Written
from headwater.sql.dialect import to_text
from headwater.sql.ordering import any_row_sql, touched_keys_sql
from headwater.sql.storage import merge_sql, net_delta, rewritten_sql

_NO_TEXT = "\ufffd"  # stands for bytes that are no UTF-8: what it was can't be said in a statement
_LITERALS = {"spark.sql.parser.escapedStringLiterals": "false"}  # as our statements are written
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
        with engine.under(_LITERALS):
            return _add_where_it_lies(engine, table, interval, sign, tag, doing)
    text = rewritten_sql(table.location, table.version, table.log, interval, table.names, sign=sign)
    return engine.rewrite(text, table.location, tag, doing)


def _add_where_it_lies(
    engine: SparkEngine, table: CountedTable, interval: Interval, sign: int, tag: CommitTag, doing: str
) -> Written | None:
    touched = _touched(engine, table, interval)
    if touched is not None and touched.ranges.is_empty:
        return Written(table.version, 0, tag.facts)
    before = (table.location, table.version)
    if touched is not None and sign > 0 and touched.adds and not _meets(engine, table, touched):
        net = to_text(net_delta(table.log, interval, table.names, sign=sign))
        return engine.append(engine.compute(net), table.location, tag, doing, of=before)
    key = None if touched is None else (touched.key, touched.ranges)
    text = merge_sql(table.location, table.log, interval, table.names, sign=sign, touched=key)
    return engine.merge(text, tag, doing, of=before)


@dataclass(frozen=True, slots=True)
class _Touched:
    """The ranges of a key that a change lies in; ``adds``: it takes nothing away."""

    key: str
    ranges: KeyRanges
    adds: bool


def _touched(engine: SparkEngine, table: CountedTable, interval: Interval) -> _Touched | None:
    """Where a change lies; None where there is no key, or too many keys to tell."""
    if table.key is None or table.key[1] not in _KEYS:
        return None
    name, kind = table.key
    text = touched_keys_sql(table.log, interval, name, whole_numbers=kind in WHOLE_NUMBERS, most=MOST_KEYS + 1)
    try:
        found = [(row[0], row[1], row[2]) for row in engine.compute(text).collect()]  # bounded by the limit
    except (ValueError, OverflowError):  # a date that Python has no value for
        return None
    if len(found) > MOST_KEYS or any(isinstance(low, str) and _NO_TEXT in low for low, _, _ in found):
        return None
    ends = {low: high for low, high, _ in found}
    # The ends of a range are smallest keys of their groups: the last group goes on to its largest.
    ranges = key_ranges(ends, RANGES)
    whole = replace(ranges, ranges=tuple(KeyRange(each.low, ends[each.high]) for each in ranges.ranges))
    return _Touched(name, whole, all(least > 0 for _, _, least in found))


def _meets(engine: SparkEngine, table: CountedTable, touched: _Touched) -> bool:
    """Whether the table has rows where a change lies; Delta leaves out files, so to hear that it has none is cheap."""
    text = any_row_sql(table.location, table.version, touched.key, touched.ranges)
    return bool(engine.compute(text).collect())  # one row at most
