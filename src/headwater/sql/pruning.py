"""The statements of garbage collection: what they take is decided in ``headwater.serve``.

*Why tables keep all.* Left to itself, Delta forgets: old log entries go whenever a checkpoint is written; after
``delta.deletedFileRetentionDuration`` removed files are no longer known as such, so that a VACUUM takes them for
rubbish however long it is told to retain; and a version older than that is refused, although its files are there. A
release may be older than any of these. So the tables that Headwater writes forget nothing by themselves
(``KEEP_ALL``), and a collection, which knows what is needed, trims their logs (``trim_sql``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sqlglot import exp

from headwater.algebra.time import Csn, Interval
from headwater.errors import InternalError
from headwater.sql.dialect import column, to_text
from headwater.sql.relations import current_table, inside
from headwater.sql.timeline import T_MAX, visible_at

_FOREVER = "interval 36500 days"
KEEP_ALL: Mapping[str, str] = {
    "delta.enableExpiredLogCleanup": "false",
    "delta.logRetentionDuration": _FOREVER,
    "delta.deletedFileRetentionDuration": _FOREVER,
}


def prune_view_delta_sql(location: str, spare: Sequence[Interval]) -> str:
    """Delete the rows of a view delta whose csns nobody needs."""
    if not spare:
        raise InternalError("a view delta of which nothing is spare is not pruned")
    return to_text(exp.delete(current_table(location), where=exp.or_(*(inside(piece) for piece in spare))))


def prune_timeline_sql(location: str, kept_from: Csn, pinned: Iterable[Csn]) -> str:
    """Delete the runs that no moment from ``kept_from`` on and no pinned one shows; an open run has no t_max."""
    over = exp.LTE(this=column(T_MAX), expression=exp.Literal.number(kept_from))
    needed = [visible_at(moment) for moment in sorted(pinned) if moment < kept_from]
    condition = exp.and_(over, *(exp.not_(exp.paren(moment)) for moment in needed))
    return to_text(exp.delete(current_table(location), where=condition))


def vacuum_sql(location: str, hours: int) -> str:
    """Remove the files that no version of the past ``hours`` needs."""
    if hours < 0:
        raise InternalError(f"nothing can be retained for {hours} hours")
    # sqlglot knows no VACUUM.
    return f"VACUUM {to_text(current_table(location))} RETAIN {hours} HOURS"


def compact_sql(location: str) -> str:
    """Join small files, in the order of the table's key if it has one; no row changes, no version kept is disturbed."""
    return f"OPTIMIZE {to_text(current_table(location))}"


def keep_all_sql(location: str) -> str:
    return _set_properties(location, {**KEEP_ALL, "delta.checkpointInterval": "10"})


def trim_sql(location: str, days: int) -> str:
    """Let the log forget what is older than so many days, now: the commit of this statement is a checkpoint."""
    if days < 1:
        raise InternalError(f"a log can't be kept for {days} days")
    kept = f"interval {days} days"
    return _set_properties(
        location,
        {
            "delta.enableExpiredLogCleanup": "true",
            "delta.logRetentionDuration": kept,
            "delta.deletedFileRetentionDuration": kept,
            "delta.checkpointInterval": "1",
        },
    )


def _set_properties(location: str, properties: Mapping[str, str]) -> str:
    pairs = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
    return f"ALTER TABLE {to_text(current_table(location))} SET TBLPROPERTIES ({pairs})"
