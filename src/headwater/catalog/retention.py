"""Retention: how much of the past is wanted, and how much of it the last collection left."""

from __future__ import annotations

import sqlalchemy as sa

from headwater.algebra.time import BEGINNING, Csn
from headwater.catalog import schema
from headwater.catalog.fencing import FencedTables
from headwater.catalog.records import Horizon, RetentionSettings

_table = schema.retention


class Retention(FencedTables):
    def set_retention(self, settings: RetentionSettings) -> None:
        """What collections keep from now on. Anyone may, under no lease."""
        with self._database.write() as connection:
            write_retention(connection, settings, read_horizon(connection))

    def retention(self) -> RetentionSettings:
        with self._database.read() as connection:
            return read_settings(connection)

    def horizon(self) -> Horizon:
        with self._database.read() as connection:
            return read_horizon(connection)


def read_settings(connection: sa.Connection) -> RetentionSettings:
    row = connection.execute(sa.select(_table)).one_or_none()
    if row is None:
        return RetentionSettings()
    # Not row.count, which is a method of rows.
    values = row._asdict()
    return RetentionSettings(values["count"], row.age, None if row.tags is None else frozenset(row.tags))


def read_horizon(connection: sa.Connection) -> Horizon:
    row = connection.execute(sa.select(_table)).one_or_none()
    if row is None:
        return Horizon(BEGINNING)
    return Horizon(Csn(row.kept_from), frozenset(Csn(csn) for csn in row.pinned))


def write_retention(connection: sa.Connection, settings: RetentionSettings, horizon: Horizon) -> None:
    lake_id = connection.execute(sa.select(schema.lake.c.lake_id)).scalar_one()
    connection.execute(sa.delete(_table))
    connection.execute(
        sa.insert(_table).values(
            lake_id=lake_id,
            count=settings.count,
            age=settings.age,
            tags=None if settings.tags is None else sorted(settings.tags),
            kept_from=horizon.kept_from,
            pinned=sorted(horizon.pinned),
        )
    )
