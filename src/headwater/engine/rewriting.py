"""A large table written anew around a change that lies all over it.

MERGE goes three times through the rows among which a change lies: to find the files of what changes, to write what it
becomes, and to mark what is gone; the second time, or each time where the change is large, it shuffles them all to meet
the change. Where they are most of the table, it takes less to go through it twice and to write it anew: once for the
rows that may be meant by the change, which hashes tell, and once for all others, which stay in files of their ranges.
"""

from __future__ import annotations

from collections.abc import Sequence

from headwater.engine.spark import CommitTag, SparkEngine, Written
from headwater.sql.ordering import in_order_sql
from headwater.sql.rewriting import hashes_sql, met_rows_sql, other_rows_sql

MOST_HASHES = 4_000_000  # sent to every task
_FILE = str(128 * 2**20)
# Each file is read by a task of its own, so that what is written holds a range of keys, as what was read did.
_A_FILE_A_TASK = {"spark.sql.files.maxPartitionBytes": _FILE, "spark.sql.files.openCostInBytes": _FILE}
LEAST_SHARE = 0.04  # of a table's rows: for fewer changes it is not worth to store all of it once more
MOST_LEFT_OUT = 0.5  # of a table's rows, which MERGE need not look at


def is_worth_it(rows: int, changed: int, among: int, *, least: int) -> bool:
    """Whether writing ``rows`` anew takes less than to merge ``changed`` ones into those ``among`` which they lie."""
    enough = max(least, LEAST_SHARE * rows) <= changed <= MOST_HASHES
    return enough and among >= (1 - MOST_LEFT_OUT) * rows


def write_around(
    engine: SparkEngine,
    table: tuple[str, int],
    net: str,
    names: Sequence[str],
    hashed: Sequence[str],
    order: str | None,
    tag: CommitTag,
    doing: str,
) -> Written | None:
    """Add the net change that a query gives to a table at a version; None if Delta had seen the tag.

    ``hashed`` are columns that tell rows apart by their hashes, ``order`` is the one that the table is in the order of.
    """
    location, version = table
    with engine.staging.changes(net) as change:
        if not change.rows:
            return Written(version, 0, tag.facts)
        with (
            engine.staging.rows(hashes_sql(change.name, hashed)) as hashes,
            engine.staging.rows(met_rows_sql(location, version, change.name, hashes, names, hashed)) as met,
            engine.under(_A_FILE_A_TASK),
        ):
            text = f"SELECT * FROM `{met}`"
            others = engine.compute(other_rows_sql(location, version, hashes, names, hashed))
            changed = engine.compute(in_order_sql(text, order) if order is not None else text)
            return engine.overwrite(others.unionAll(changed), location, tag, doing, changed=lambda: change.rows)
