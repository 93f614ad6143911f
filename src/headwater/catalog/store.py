"""The catalog as the drivers see it."""

from __future__ import annotations

from types import TracebackType
from typing import final

import sqlalchemy as sa

from headwater.catalog import schema
from headwater.catalog.base_tables import BaseTables
from headwater.catalog.collections import Collections
from headwater.catalog.constraints import Constraints
from headwater.catalog.costs import Costs
from headwater.catalog.database import Clock, Database
from headwater.catalog.leases import Leases
from headwater.catalog.migrations import prepare
from headwater.catalog.mirrors import Mirrors
from headwater.catalog.progress import Progress
from headwater.catalog.readers import Readers
from headwater.catalog.records import LakeRecord
from headwater.catalog.refreshes import Refreshes
from headwater.catalog.releases import Releases
from headwater.catalog.retention import Retention
from headwater.catalog.rounds import Rounds
from headwater.catalog.steps import Steps
from headwater.catalog.units import UnitsOfWork
from headwater.catalog.views import Views


@final
class Catalog(
    Leases,
    BaseTables,
    Constraints,
    Mirrors,
    Rounds,
    UnitsOfWork,
    Views,
    Steps,
    Progress,
    Refreshes,
    Releases,
    Readers,
    Retention,
    Collections,
    Costs,
):
    """The control state of one lake. Every method is one transaction; safe to use from several threads."""

    @property
    def url(self) -> str:
        """Where it is, without any password."""
        return self._database.display

    def lake(self) -> LakeRecord:
        with self._database.read() as connection:
            return LakeRecord(**connection.execute(sa.select(schema.lake)).one()._asdict())

    def close(self) -> None:
        self._database.close()

    def __enter__(self) -> Catalog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_catalog(url: str, *, clock: Clock, create: bool) -> Catalog:
    """The catalog at ``sqlite:///path`` or ``postgresql://...``, brought to the newest schema.

    With ``create`` it is made where there is none; otherwise that is NotALake. ``clock`` gives microseconds, UTC.
    """
    database = Database(url, clock)
    try:
        prepare(database, create=create)
    except BaseException:
        database.close()
        raise
    return Catalog(database)
