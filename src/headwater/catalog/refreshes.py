"""The story of every refresh: what was asked, how it was done and why so."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from headwater.catalog import schema
from headwater.catalog.fencing import FencedTables, Held
from headwater.catalog.records import RefreshRecord
from headwater.catalog.views import insert_refresh

_table = schema.refreshes


class Refreshes(FencedTables):
    def record_refresh(self, lease: Held, refresh: RefreshRecord) -> None:
        """A refresh that closes no step, such as one that found nothing to do."""
        with self._under(lease) as connection:
            insert_refresh(connection, refresh)

    def refreshes(self, view_name: str | None = None, *, limit: int | None = None) -> list[RefreshRecord]:
        """Newest first; those of dropped views too."""
        wanted = sa.select(_table).order_by(_table.c.id.desc()).limit(limit)
        if view_name is not None:
            wanted = wanted.where(_table.c.view_name == view_name)
        with self._database.read() as connection:
            return [_record(row) for row in connection.execute(wanted)]


def _record(row: sa.Row[Any]) -> RefreshRecord:
    values = row._asdict()
    return RefreshRecord(refresh_id=values.pop("id"), **values)
