"""A change added to a table of distinct rows with counts: a view's, or a mirror's.

A large table is merged into; a small one is written anew, which costs less than to find its changed rows. Either way it
is one tagged commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.algebra.time import Interval
from headwater.engine.spark import CommitTag, SparkEngine, Written
from headwater.sql.storage import merge_sql, rewritten_sql


@dataclass(frozen=True, slots=True)
class CountedTable:
    """A table at a version, the log of its changes, and its columns."""

    location: str
    version: int
    log: str
    names: Sequence[str]


def add_net_change(
    engine: SparkEngine, table: CountedTable, interval: Interval, sign: int, tag: CommitTag, doing: str, *, small: int
) -> Written | None:
    """Add what the log nets to over an interval, or take it away; None if Delta made no commit, or had seen the tag.

    A table of up to ``small`` rows is written anew.
    """
    if engine.rows_in(table.location, table.version) > small:
        text = merge_sql(table.location, table.log, interval, table.names, sign=sign)
        return engine.merge(text, tag, doing, of=(table.location, table.version))
    text = rewritten_sql(table.location, table.version, table.log, interval, table.names, sign=sign)
    return engine.rewrite(text, table.location, tag, doing)
