"""The unit-of-work table [Salem00 §5]: csn to what was committed when, and back.

Csns are dense: they are given one after the other inside the serialised write that stores them. Timestamps come from
several clocks and may step back, so a unit of work is stored with the greatest timestamp of its own commits and
of all units before it. "The newest csn committed at or before" then has one answer, and that answer never
changes once a later unit is numbered with a later timestamp.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from headwater.algebra.time import BEGINNING, Csn, Interval
from headwater.catalog import schema
from headwater.catalog.base_tables import find_base_table, insert_base_table, newest_csn, update_base_table
from headwater.catalog.fencing import FencedTables, Held
from headwater.catalog.records import BaseTable, Commit, JsonObject, Micros, UnitOfWorkRow
from headwater.errors import InternalError, MomentBeforeHistory, MomentInFuture

_table = schema.units_of_work


class UnitsOfWork(FencedTables):
    def newest_csn(self) -> Csn:
        with self._database.read() as connection:
            return newest_csn(connection)

    def number_units(
        self,
        lease: Held,
        units: Sequence[Sequence[Commit]],
        *,
        captured: Mapping[str, tuple[int, Micros]] | None = None,
        problems: Mapping[str, JsonObject | None] | None = None,
        new_table: BaseTable | None = None,
    ) -> list[Csn]:
        """Give each unit the next csn, in the order given; all or nothing.

        With it, in the same transaction: ``captured`` moves tables to (version, the source's timestamp of it),
        ``problems`` sets or clears (None) what is wrong with tables, and ``new_table`` is tracked from the
        csn after all these units.
        """
        with self._under(lease) as connection:
            numbered = append_units(connection, units)
            move_tables(connection, captured or {}, problems or {})
            if new_table is not None:
                insert_base_table(connection, new_table)
            return numbered

    def csn_at_timestamp(self, at: Micros) -> Csn:
        """The newest csn committed at or before ``at``; 0 when there is none."""
        wanted = (
            sa.select(_table.c.csn)
            .where(_table.c.committed_at <= at)
            .order_by(_table.c.committed_at.desc(), _table.c.csn.desc())
            .limit(1)
        )
        with self._database.read() as connection:
            return Csn(connection.execute(wanted).scalar() or BEGINNING)

    def committed_at(self, csn: Csn) -> Micros | None:
        """When the unit of work was committed; None for the state in which the lake began."""
        with self._database.read() as connection:
            return connection.execute(sa.select(_table.c.committed_at).where(_table.c.csn == csn).limit(1)).scalar()

    def pending_since(self, csn: Csn) -> Micros | None:
        """When the oldest unit of work after ``csn`` was committed; None if there is none."""
        oldest = sa.select(_table.c.committed_at).where(_table.c.csn > csn).order_by(_table.c.csn).limit(1)
        with self._database.read() as connection:
            return connection.execute(oldest).scalar()

    def units(self, table: str | None = None, start: Csn | None = None, end: Csn | None = None) -> list[UnitOfWorkRow]:
        """The rows in ``(start, end]``, of one table or of all, by csn."""
        wanted = sa.select(_table).order_by(_table.c.csn, _table.c.table_name, _table.c.version)
        if table is not None:
            wanted = wanted.where(_table.c.table_name == table)
        if start is not None:
            wanted = wanted.where(_table.c.csn > start)
        if end is not None:
            wanted = wanted.where(_table.c.csn <= end)
        with self._database.read() as connection:
            return [_record(row) for row in connection.execute(wanted)]

    def version_at(self, table: str, csn: Csn) -> int:
        return self.versions_at([table], csn)[table]

    def versions_at(self, tables: Iterable[str], csn: Csn) -> dict[str, int]:
        """The version at which each table stood at ``csn``."""
        with self._database.read() as connection:
            newest = newest_csn(connection)
            if csn > newest:
                raise MomentInFuture(
                    f"Csn {csn} is not given yet; the newest is {newest}.", remedy="Capture first.", newest=newest
                )
            return {name: _version_at(connection, find_base_table(connection, name), csn) for name in tables}

    def changed_csns(self, table: str, interval: Interval) -> list[Csn]:
        """The csns in ``interval`` at which the table changed, in order."""
        with self._database.read() as connection:
            since = find_base_table(connection, table).since_csn
            wanted = (
                sa.select(_table.c.csn)
                .where(_table.c.table_name == table, _table.c.csn > max(since, interval.start))
                .where(_table.c.csn <= interval.end)
                .distinct()
                .order_by(_table.c.csn)
            )
            return [Csn(csn) for csn in connection.execute(wanted).scalars()]

    def units_to_compare(self, table: str, at: Csn, oldest: int) -> list[UnitOfWorkRow]:
        """The table's units after a csn, and of those before the ones whose transaction numbers are not older."""
        number = sa.cast(_table.c.transaction_id, sa.BigInteger)
        recent = sa.and_(_table.c.transaction_id.is_not(None), number >= oldest)
        with self._database.read() as connection:
            since = find_base_table(connection, table).since_csn
            wanted = (
                sa.select(_table)
                .where(_table.c.table_name == table, _table.c.csn > since, sa.or_(_table.c.csn > at, recent))
                .order_by(_table.c.csn)
            )
            return [_record(row) for row in connection.execute(wanted)]

    def set_rows(self, table: str, version: int, rows: int) -> None:
        """Note how many rows a commit changed. Anyone may: it is a fact about the commit, whoever counts."""
        with self._database.write() as connection:
            since = find_base_table(connection, table).since_csn
            this = sa.and_(_table.c.table_name == table, _table.c.tracked_since == since, _table.c.version == version)
            if not connection.execute(sa.update(_table).where(this).values(rows=rows)).rowcount:
                raise InternalError(f"Version {version} of {table!r} is not numbered.")


def move_tables(
    connection: sa.Connection,
    captured: Mapping[str, tuple[int, Micros]],
    problems: Mapping[str, JsonObject | None],
) -> None:
    for name, (version, at) in captured.items():
        update_base_table(connection, name, captured_version=version, captured_at=at)
    for name, problem in problems.items():
        update_base_table(connection, name, problem=problem)


def append_units(connection: sa.Connection, units: Sequence[Sequence[Commit]]) -> list[Csn]:
    csn = newest_csn(connection)
    latest = connection.execute(sa.select(sa.func.max(_table.c.committed_at))).scalar_one()
    known: dict[str, tuple[Csn, int]] = {}
    rows: list[dict[str, Any]] = []
    numbered: list[Csn] = []
    for unit in units:
        if not unit:
            raise InternalError("A unit of work without commits can't be numbered.")
        csn = Csn(csn + 1)
        moment = max(commit.committed_at for commit in unit)
        latest = moment if latest is None else max(latest, moment)
        numbered.append(csn)
        for commit in sorted(unit, key=lambda commit: (commit.table, commit.version)):
            if commit.table not in known:
                base = find_base_table(connection, commit.table)
                known[base.name] = (base.since_csn, _version_at(connection, base, csn))
            since, last = known[commit.table]
            if commit.version <= last:
                raise InternalError(
                    f"Version {commit.version} of {commit.table!r} came to be numbered after version {last}."
                )
            known[commit.table] = (since, commit.version)
            rows.append(
                {
                    "csn": csn,
                    "table_name": commit.table,
                    "version": commit.version,
                    "tracked_since": since,
                    "committed_at": latest,
                    "operation": commit.operation,
                    "rows": commit.rows,
                    "source_id": commit.source,
                    "transaction_id": commit.transaction,
                }
            )
    if rows:
        connection.execute(sa.insert(_table), rows)
    return numbered


def _version_at(connection: sa.Connection, base: BaseTable, csn: Csn) -> int:
    if csn < base.since_csn:
        raise MomentBeforeHistory(
            f"Base table {base.name!r} is tracked since csn {base.since_csn}; csn {csn} is before that.",
            remedy=f"Ask for csn {base.since_csn} or later.",
            table=base.name,
            since_csn=base.since_csn,
        )
    wanted = (
        sa.select(_table.c.version)
        .where(_table.c.table_name == base.name, _table.c.csn > base.since_csn, _table.c.csn <= csn)
        .order_by(_table.c.csn.desc(), _table.c.version.desc())
        .limit(1)
    )
    found = connection.execute(wanted).scalar()
    return base.since_version if found is None else int(found)


def _record(row: sa.Row[Any]) -> UnitOfWorkRow:
    return UnitOfWorkRow(
        Csn(row.csn),
        row.table_name,
        row.version,
        row.committed_at,
        row.operation,
        row.rows,
        row.source_id,
        row.transaction_id,
    )
