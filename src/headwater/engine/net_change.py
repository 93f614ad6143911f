"""A change added to a table of distinct rows with counts: a view's, or a mirror's.

A large table is merged into; a small one is written anew, which costs less than to find its changed rows. Either way it
is one tagged commit. A table in the order of a key is merged into within a few ranges of keys, so that Delta reads only
the files in which the change can lie: it leaves out files by literal ranges alone, so the keys are asked for first. A
change that only adds rows, of keys where the table has none, is appended: there is nothing to find. A table all over
which a large change lies is written anew around it (``headwater.engine.rewriting``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from headwater.algebra.grid import RANGES, WHOLE_NUMBERS
from headwater.algebra.key_ranges import KeyRange, KeyRanges, key_ranges
from headwater.algebra.time import Interval
from headwater.engine.rewriting import is_worth_it, write_around
from headwater.engine.spark import CommitTag, SparkEngine, Written
from headwater.sql.dialect import to_text
from headwater.sql.ordering import any_row_sql, touched_keys_sql
from headwater.sql.plain_types import is_plain_type
from headwater.sql.rewriting import rows_within_sql
from headwater.sql.storage import logged_sql, merge_sql, net_delta, rewritten_sql

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
    columns: Sequence[tuple[str, str]]
    key: str | None = None

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.columns]

    @property
    def hashed(self) -> list[str]:
        """The columns whose equal values have equal hashes."""
        return [name for name, kind in self.columns if is_plain_type(kind)]


@dataclass(frozen=True, slots=True)
class NetChange:
    """What the log nets to over an interval, added (``sign`` 1) or taken away (-1), and the commit that does it."""

    interval: Interval
    sign: int
    tag: CommitTag
    doing: str

    def of(self, table: CountedTable) -> exp.Select:
        return net_delta(table.log, self.interval, table.names, sign=self.sign)


def add_net_change(
    engine: SparkEngine, table: CountedTable, change: NetChange, *, small: int, scattered: int
) -> Written | None:
    """Bring the table to the other end of the interval; None if Delta made no commit, or had seen the tag.

    A table of up to ``small`` rows is written anew, and so is one all over which ``scattered`` changed rows lie.
    """
    rows = engine.rows_in(table.location, table.version)
    if rows > small:
        with engine.under(_LITERALS):
            return _add_where_it_lies(engine, table, rows, change, scattered)
    text = rewritten_sql(table.location, table.version, table.log, change.interval, table.names, sign=change.sign)
    with engine.for_rows(rows):
        return engine.rewrite(text, table.location, change.tag, change.doing)


def _add_where_it_lies(
    engine: SparkEngine, table: CountedTable, rows: int, change: NetChange, scattered: int
) -> Written | None:
    touched = _touched(engine, table, change.interval)
    if touched is not None and touched.ranges.is_empty:
        return Written(table.version, 0, change.tag.facts)
    before = (table.location, table.version)
    if touched is not None and change.sign > 0 and touched.adds:
        with engine.for_rows(touched.rows):
            if not _meets(engine, table, touched):
                net = engine.compute(to_text(change.of(table)))
                return engine.append(net, table.location, change.tag, change.doing, of=before)
    if not table.hashed or not _is_all_over(engine, table, rows, change.interval, touched, scattered):
        key = None if touched is None else (touched.key, touched.ranges)
        text = merge_sql(
            table.location,
            table.log,
            change.interval,
            table.names,
            sign=change.sign,
            touched=key,
            hashed=table.hashed,
        )
        return engine.merge(text, change.tag, change.doing, of=before)
    net_text = to_text(change.of(table))
    return write_around(engine, before, net_text, table.names, table.hashed, table.key, change.tag, change.doing)


def _is_all_over(
    engine: SparkEngine, table: CountedTable, rows: int, interval: Interval, touched: _Touched | None, scattered: int
) -> bool:
    """Whether writing the table anew takes less than MERGE; where a change lies is looked for only if it is large."""
    changed = engine.number(logged_sql(table.log, interval)) if touched is None else touched.rows
    if not is_worth_it(rows, changed, rows, least=scattered):
        return False
    if touched is None:
        return True
    among = engine.number(rows_within_sql(table.location, table.version, touched.key, touched.ranges))
    return is_worth_it(rows, changed, among, least=scattered)


@dataclass(frozen=True, slots=True)
class _Touched:
    """The ranges of a key that a change lies in, and its rows in the log; ``adds``: it takes nothing away."""

    key: str
    ranges: KeyRanges
    adds: bool
    rows: int


def _touched(engine: SparkEngine, table: CountedTable, interval: Interval) -> _Touched | None:
    """Where a change lies; None where there is no key, or too many keys to tell."""
    name, kind = table.key, dict(table.columns).get(table.key or "")
    if name is None or kind not in _KEYS:
        return None
    text = touched_keys_sql(table.log, interval, name, whole_numbers=kind in WHOLE_NUMBERS, most=MOST_KEYS + 1)
    try:
        found = [tuple(row) for row in engine.compute(text).collect()]  # bounded by the limit
    except (ValueError, OverflowError):  # a date that Python has no value for
        return None
    if len(found) > MOST_KEYS or any(isinstance(low, str) and _NO_TEXT in low for low, *_ in found):
        return None
    ends = {low: high for low, high, *_ in found}
    # The ends of a range are smallest keys of their groups: the last group goes on to its largest.
    ranges = key_ranges(ends, RANGES)
    whole = replace(ranges, ranges=tuple(KeyRange(each.low, ends[each.high]) for each in ranges.ranges))
    adds = all(least > 0 for _, _, least, _ in found)
    return _Touched(name, whole, adds, sum(rows for *_, rows in found))


def _meets(engine: SparkEngine, table: CountedTable, touched: _Touched) -> bool:
    """Whether the table has rows where a change lies; Delta leaves out files, so to hear that it has none is cheap."""
    text = any_row_sql(table.location, table.version, touched.key, touched.ranges)
    return bool(engine.compute(text).collect())  # one row at most
