"""Base tables: what is tracked, since when, and how far it is captured."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import sqlalchemy as sa

from headwater.algebra.time import BEGINNING, Csn
from headwater.catalog import constraints, mirrors, names, schema
from headwater.catalog.fencing import FencedTables, Held
from headwater.catalog.records import BaseTable, JsonObject
from headwater.errors import InvalidInput

_table = schema.base_tables


class BaseTables(FencedTables):
    def add_base_table(self, lease: Held, record: BaseTable) -> BaseTable:
        """Track a table from the newest csn on; the record as stored, with that as its ``since_csn``."""
        with self._under(lease) as connection:
            return insert_base_table(connection, record)

    def base_table(self, name: str) -> BaseTable:
        with self._database.read() as connection:
            return find_base_table(connection, name)

    def base_tables(self) -> list[BaseTable]:
        """All of them, by name."""
        with self._database.read() as connection:
            return [_record(row) for row in connection.execute(sa.select(_table).order_by(_table.c.name))]

    def remove_base_table(self, lease: Held, name: str) -> None:
        """Stop tracking; refused while a view reads the table or another table refers to it.

        Its constraints go with it, its units of work stay: no csn is given twice.
        """
        with self._under(lease) as connection:
            find_base_table(connection, name)
            users = names.users_of(connection, name)
            if users:
                raise InvalidInput(
                    f"Base table {name!r} is read by {', '.join(users)}.",
                    remedy="Drop these views first.",
                    table=name,
                    views=users,
                )
            constraints.remove_with_table(connection, name)
            mirrors.remove_with_table(connection, name)
            connection.execute(sa.delete(_table).where(_table.c.name == name))

    def restart_base_table(self, lease: Held, record: BaseTable) -> BaseTable:
        """Follow a table anew from ``record.since_version``, after changes of it were lost.

        The break is a unit of work of its own, so that every csn keeps its one meaning; each view that reads the
        table is marked: from this csn on it can only be had by a recompute. Of its constraints nothing is known.
        """
        with self._under(lease) as connection:
            find_base_table(connection, record.name)
            csn = Csn(newest_csn(connection) + 1)
            units = schema.units_of_work
            latest = connection.execute(sa.select(sa.func.max(units.c.committed_at))).scalar_one() or 0
            connection.execute(
                sa.insert(units).values(
                    csn=csn,
                    table_name=record.name,
                    version=record.since_version,
                    tracked_since=csn,
                    committed_at=max(latest, record.captured_at),
                    operation="RESYNC",
                    rows=None,
                )
            )
            stored = replace(record, since_csn=csn, problem=None)
            update_base_table(connection, **asdict(stored))
            constraints.forget_knowledge(connection, record.name)
            problem = resynced(record.name, csn)
            for view in names.users_of(connection, record.name):
                connection.execute(sa.update(schema.views).where(schema.views.c.name == view).values(problem=problem))
            return stored

    def set_table_problem(self, lease: Held, name: str, problem: JsonObject | None) -> None:
        """Note why the table can't be captured; None when it can again."""
        with self._under(lease) as connection:
            update_base_table(connection, name, problem=problem)


def resynced(table: str, csn: Csn) -> JsonObject:
    """The problem of a view that stands at a moment before."""
    return {
        "code": "TABLE_RESYNCED",
        "message": f"Changes of {table!r} before csn {csn} were lost.",
        "remedy": "The next refresh recomputes the view.",
        "table": table,
        "csn": csn,
    }


def newest_csn(connection: sa.Connection) -> Csn:
    newest = connection.execute(sa.select(sa.func.max(schema.units_of_work.c.csn))).scalar_one()
    return BEGINNING if newest is None else Csn(newest)


def insert_base_table(connection: sa.Connection, record: BaseTable) -> BaseTable:
    names.require_free(connection, record.name)
    stored = replace(record, since_csn=newest_csn(connection))
    connection.execute(sa.insert(_table).values(**asdict(stored)))
    return stored


def update_base_table(connection: sa.Connection, name: str, **values: Any) -> None:
    if not connection.execute(sa.update(_table).where(_table.c.name == name).values(**values)).rowcount:
        find_base_table(connection, name)


def find_base_table(connection: sa.Connection, name: str) -> BaseTable:
    row = connection.execute(sa.select(_table).where(_table.c.name == name)).one_or_none()
    if row is None:
        raise names.unknown("base table", name, connection.execute(sa.select(_table.c.name)).scalars())
    return _record(row)


def _record(row: sa.Row[Any]) -> BaseTable:
    values = row._asdict()
    return BaseTable(**values | {"columns": tuple((name, kind) for name, kind in row.columns)})
