"""Where mirrored tables are kept: a log of changes and, in mode 'mirror', the rows, each a Delta table of the lake.

*Why a log of our own.* A change feed tells the Delta version of a change, so one csn for each source transaction would
need one commit for each transaction and table: about a second each. Here the csn stands in the row. A round appends
the changes of thousands of transactions to each log in one commit, and brings each table to the end of the round in
another; every csn in between stays exact, as table plus or less log, just as for a view and its view delta.

*Exactly once.* The commits of a round carry its number, so Delta passes over a repeat. A round that was given up is
**fenced** first, by a commit of its highest number: a driver that lost its lease and wakes up late then writes nothing.
After that its rows are removed. They all have csns that were never given.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Protocol, TypeAlias

import pyarrow as pa

from headwater.algebra.time import BEGINNING, Csn, Interval
from headwater.catalog.records import Columns, MirrorState
from headwater.context import Sizes
from headwater.engine.failures import user_sql
from headwater.engine.files import remove_directory
from headwater.engine.net_change import CountedTable, NetChange, add_net_change
from headwater.engine.spark import CommitTag, SparkEngine
from headwater.errors import InvalidInput
from headwater.sources.feed import Row
from headwater.sources.postgres.arrow import arrow_type
from headwater.sql.mirrors import (
    counted_copy_sql,
    difference_sql,
    emptied_sql,
    nothing_sql,
    restore_sql,
    unnumbered_sql,
)
from headwater.sql.pruning import KEEP_ALL
from headwater.sql.relations import COUNT, CSN
from headwater.sql.storage import add_constraint_sql, create_table_sql

LoggedRow: TypeAlias = tuple[Csn, int, Row]

_ORDINALS = 100_000  # commits of one round to one log; the last is its fence
_COPY_ROWS = 50_000


@dataclass(frozen=True, slots=True)
class MirrorTarget:
    """A mirrored table and where it stands; ``state`` is None in mode 'query'."""

    name: str
    mirror_id: str
    location: str
    log_location: str
    columns: Columns
    unique: bool
    state: MirrorState | None

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.columns]


class MirrorStore(Protocol):
    def create(self, target: MirrorTarget) -> None: ...

    def append(self, target: MirrorTarget, round_id: int, ordinal: int, rows: Sequence[LoggedRow]) -> int:
        """Add changes to the log; how many."""
        ...

    def empty(self, target: MirrorTarget, round_id: int, ordinal: int, at: Csn) -> int:
        """Add to the log, at a csn, that everything held there so far is gone; how many rows that is."""
        ...

    def settle(self, target: MirrorTarget, round_id: int, to: Csn) -> int:
        """Bring the table to a csn by its log; the version that holds it."""
        ...

    def clean(self, target: MirrorTarget, round_id: int, newest: Csn) -> None:
        """Undo what a round that was given up has written."""
        ...

    def forget_log(self, target: MirrorTarget) -> None:
        """Remove all that the log holds."""
        ...

    def fill(self, target: MirrorTarget, rows: Iterable[Row]) -> int:
        """Write the first copy of a new table; the version that holds it."""
        ...

    def adopt(self, target: MirrorTarget, location: str) -> int:
        """Take the rows of another Delta table for the first copy; the version that holds it."""
        ...

    def compare(self, target: MirrorTarget, round_id: int, ordinal: int, at: Csn, copy: MirrorTarget) -> int:
        """Add to the log, at a csn, the difference from the table's state to a fresh copy's; how many rows."""
        ...

    def remove(self, target: MirrorTarget) -> None: ...


class SparkMirrorStore:
    def __init__(self, engine: SparkEngine, sizes: Sizes) -> None:
        self._engine = engine
        self._sizes = sizes

    # ------------------------------------------------------------------ tables

    def create(self, target: MirrorTarget) -> None:
        create_rows_table(self._engine, target.log_location, target.columns, [CSN, COUNT])
        if target.state is not None:
            create_rows_table(self._engine, target.location, target.columns, [COUNT])
            # A log that takes away what is not there would make a wrong table: Delta refuses the commit.
            guard = add_constraint_sql(target.location, "hw_positive", f"{COUNT} > 0")
            self._engine.run(guard, f"guarding {target.location}")

    def remove(self, target: MirrorTarget) -> None:
        for place in (target.log_location, target.location, _copy_of(target)):
            remove_directory(place)

    # ------------------------------------------------------------------ the log

    def append(self, target: MirrorTarget, round_id: int, ordinal: int, rows: Sequence[LoggedRow]) -> int:
        table = arrow_rows([(csn, count, *row) for csn, count, row in rows], (_LOG_COLUMNS) + target.columns)
        frame = self._engine.frame(table, arrow_schema_text(_LOG_COLUMNS + target.columns))
        self._engine.append(frame, target.log_location, _log_tag(target, round_id, ordinal), f"logging {target.name}")
        return len(rows)

    def empty(self, target: MirrorTarget, round_id: int, ordinal: int, at: Csn) -> int:
        assert target.state is not None  # noqa: S101  whoever has no copy can't be emptied
        state = target.state
        text = emptied_sql(target.location, state.version, state.csn, target.log_location, at, target.names)
        return self._logged(target, text, round_id, ordinal)

    def compare(self, target: MirrorTarget, round_id: int, ordinal: int, at: Csn, copy: MirrorTarget) -> int:
        assert target.state is not None and copy.state is not None  # noqa: S101, PT018  as above
        before, now = (target.location, target.state.version), (copy.location, copy.state.version)
        return self._logged(target, difference_sql(before, now, at, target.names), round_id, ordinal)

    def forget_log(self, target: MirrorTarget) -> None:
        self._engine.run(unnumbered_sql(target.log_location, BEGINNING), f"emptying the log of {target.name}")

    def _logged(self, target: MirrorTarget, text: str, round_id: int, ordinal: int) -> int:
        tag = _log_tag(target, round_id, ordinal)
        frame = self._engine.compute(text)
        written = self._engine.append(frame, target.log_location, tag, f"logging {target.name}")
        return 0 if written is None else written.rows

    # ------------------------------------------------------------------ the rows

    def fill(self, target: MirrorTarget, rows: Iterable[Row]) -> int:
        doing = f"copying {target.name}"
        if target.unique:
            version = self._engine.newest_version(target.location)
            columns: Columns = (*_COUNT_COLUMN, *target.columns)
            for place, chunk in enumerate(_chunks(rows)):
                frame = self._engine.frame(
                    arrow_rows([(1, *row) for row in chunk], columns), arrow_schema_text(columns)
                )
                tag = CommitTag(f"headwater:{target.mirror_id}:copy", place, {"step": 0, "ordinal": place})
                written = self._engine.append(frame, target.location, tag, doing)
                version = version if written is None else written.version
            return version
        self._copy(target, rows)
        version = self.adopt(target, _copy_of(target))
        remove_directory(_copy_of(target))
        return version

    def adopt(self, target: MirrorTarget, location: str) -> int:
        doing = f"copying {target.name}"
        with user_sql():
            frame = self._engine.compute(counted_copy_sql(location, target.names))
            found = self._engine.columns(frame)[1:]
        if found != target.columns:
            here, wanted = arrow_schema_text(found), arrow_schema_text(target.columns)
            raise InvalidInput(
                f"{location} has the columns {here}; {target.name!r} has {wanted}.",
                remedy="Give a Delta table with exactly these columns and types.",
            )
        tag = CommitTag(f"headwater:{target.mirror_id}:copy", 0, {"step": 0, "ordinal": 0})
        written = self._engine.append(frame, target.location, tag, doing)
        return self._engine.newest_version(target.location) if written is None else written.version

    def _copy(self, target: MirrorTarget, rows: Iterable[Row]) -> None:
        """A fresh copy as plain rows, beside the table."""
        place = _copy_of(target)
        remove_directory(place)  # of an earlier try
        create_rows_table(self._engine, place, target.columns)
        for number, chunk in enumerate(_chunks(rows)):
            frame = self._engine.frame(arrow_rows(chunk, target.columns), arrow_schema_text(target.columns))
            tag = CommitTag(f"headwater:{target.mirror_id}:copy", number, {"step": 0, "ordinal": number})
            self._engine.append(frame, place, tag, f"copying {target.name}")

    def settle(self, target: MirrorTarget, round_id: int, to: Csn) -> int:
        assert target.state is not None  # noqa: S101  as above
        state, interval = target.state, Interval(target.state.csn, to)
        tag = CommitTag(f"headwater:{target.mirror_id}:state", round_id, {"step": round_id, "csn": to})
        change = NetChange(interval, 1, tag, f"bringing {target.name} to csn {to}")
        table = CountedTable(target.location, state.version, target.log_location, target.columns)
        small, scattered = self._sizes.small_view, self._sizes.scattered
        written = add_net_change(self._engine, table, change, small=small, scattered=scattered)
        return state.version if written is None else written.version

    # ------------------------------------------------------------------ giving up

    def clean(self, target: MirrorTarget, round_id: int, newest: Csn) -> None:
        doing = f"giving up round {round_id} of {target.name}"
        self._fence(target.log_location, _log_tag(target, round_id, _ORDINALS - 1), doing)
        self._engine.run(unnumbered_sql(target.log_location, newest), doing)
        if target.state is not None:
            tag = CommitTag(f"headwater:{target.mirror_id}:state", round_id, {"step": round_id, "ordinal": 0})
            self._fence(target.location, tag, doing)
            if self._engine.newest_version(target.location) > target.state.version + 1:
                self._engine.run(restore_sql(target.location, target.state.version), doing)

    def _fence(self, location: str, tag: CommitTag, doing: str) -> None:
        self._engine.append(self._engine.compute(nothing_sql(location)), location, tag, doing)


def create_rows_table(engine: SparkEngine, location: str, columns: Columns, bookkeeping: Sequence[str] = ()) -> None:
    """A Delta table for rows of a source; with name mapping any name that the source allows can be stored."""
    properties = {"delta.enableDeletionVectors": "true", "delta.columnMapping.mode": "name", **KEEP_ALL}
    text = create_table_sql(location, columns, bookkeeping=bookkeeping, cluster_by=(), properties=properties)
    engine.run(text, f"creating {location}")


_LOG_COLUMNS: Columns = ((CSN, "bigint"), (COUNT, "bigint"))
_COUNT_COLUMN: Columns = ((COUNT, "bigint"),)


def _log_tag(target: MirrorTarget, round_id: int, ordinal: int) -> CommitTag:
    facts = {"step": round_id, "ordinal": ordinal}
    return CommitTag(f"headwater:{target.mirror_id}:log", round_id * _ORDINALS + ordinal, facts)


def _copy_of(target: MirrorTarget) -> str:
    return f"{target.location}-copy"


def _chunks(rows: Iterable[Row]) -> Iterator[list[Row]]:
    remaining = iter(rows)
    while chunk := list(islice(remaining, _COPY_ROWS)):
        yield chunk


def arrow_schema_text(columns: Columns) -> str:
    return ", ".join(f"`{name.replace('`', '``')}` {kind}" for name, kind in columns)


def arrow_rows(rows: Sequence[Row], columns: Columns) -> pa.Table:
    """Values that do not fit their type raise, and are never cast."""
    values = zip(*rows, strict=True) if rows else [[] for _ in columns]
    arrays = [pa.array(each, arrow_type(kind)) for each, (_, kind) in zip(values, columns, strict=True)]
    return pa.Table.from_arrays(arrays, names=[name for name, _ in columns])


def standing_at(target: MirrorTarget, csn: Csn, version: int) -> MirrorTarget:
    return replace(target, state=MirrorState(target.mirror_id, csn, version))
