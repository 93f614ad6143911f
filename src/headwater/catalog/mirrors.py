"""Sources beside Delta, and the base tables that are kept by their changes.

A source has one log and one position in it, for all its tables. A mirror's table stands at a known Delta version at
some csns (``mirror_states``), at the end of every round that changed it; between two of them its log leads.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import sqlalchemy as sa

from headwater.algebra.time import BEGINNING, Csn
from headwater.catalog import schema
from headwater.catalog.fencing import FencedTables, Held
from headwater.catalog.records import (
    BaseTable,
    HeldLog,
    JsonObject,
    Micros,
    MirrorMode,
    MirrorRecord,
    MirrorState,
    SourceRecord,
)
from headwater.errors import MomentBeforeHistory, UnknownName

_sources = schema.sources
_mirrors = schema.mirrors
_states = schema.mirror_states
_logs = schema.mirror_logs


class Mirrors(FencedTables):
    def add_source(self, lease: Held, record: SourceRecord) -> None:
        with self._under(lease) as connection:
            connection.execute(sa.insert(_sources).values(**asdict(record)))

    def set_up_source(self, lease: Held, source_id: str, settings: JsonObject, position: JsonObject) -> None:
        """Where the source's log begins for us, and what reads it."""
        with self._under(lease) as connection:
            update_source(connection, source_id, settings=settings, position=position)

    def set_waiting(self, lease: Held, source_id: str, waiting: list[JsonObject] | None) -> None:
        """What the source waits for and why."""
        with self._under(lease) as connection:
            update_source(connection, source_id, waiting=waiting)

    def source(self, source_id: str) -> SourceRecord:
        with self._database.read() as connection:
            row = connection.execute(sa.select(_sources).where(_sources.c.source_id == source_id)).one_or_none()
        if row is None:
            raise UnknownName(f"There is no source {source_id!r}.", name=source_id)
        return SourceRecord(**row._asdict())

    def sources(self) -> list[SourceRecord]:
        """All of them, by id."""
        with self._database.read() as connection:
            found = connection.execute(sa.select(_sources).order_by(_sources.c.source_id))
            return [SourceRecord(**row._asdict()) for row in found]

    def remove_source(self, lease: Held, source_id: str) -> None:
        """Forget a source that no table is of."""
        with self._under(lease) as connection:
            connection.execute(sa.delete(_sources).where(_sources.c.source_id == source_id))

    def add_mirror(self, lease: Held, table: BaseTable, mirror: MirrorRecord, version: int | None) -> BaseTable:
        """Track a mirrored table from the newest csn on, at which its table stands at ``version``."""
        from headwater.catalog.base_tables import insert_base_table

        with self._under(lease) as connection:
            stored = insert_base_table(connection, table)
            connection.execute(sa.insert(_mirrors).values(**asdict(mirror)))
            if version is not None:
                insert_states(connection, [MirrorState(mirror.mirror_id, stored.since_csn, version)])
            return stored

    def forget_key(self, lease: Held, mirror: MirrorRecord) -> None:
        """Its source does not tell rows of a table apart by their key any more."""
        with self._under(lease) as connection:
            update_mirror(connection, mirror.name, described={**mirror.described, "key_oid": None})

    def mirror(self, name: str) -> MirrorRecord | None:
        """How a base table is kept; None for a Delta table of somebody else's."""
        with self._database.read() as connection:
            row = connection.execute(sa.select(_mirrors).where(_mirrors.c.name == name)).one_or_none()
        return None if row is None else MirrorRecord(**row._asdict())

    def mirror_mode(self, name: str) -> MirrorMode | None:
        """None for a Delta table of somebody else's."""
        found = self.mirror(name)
        return None if found is None else found.mode

    def mirrors(self, source_id: str | None = None) -> list[MirrorRecord]:
        """Of one source or of all, by name."""
        wanted = sa.select(_mirrors).order_by(_mirrors.c.name)
        if source_id is not None:
            wanted = wanted.where(_mirrors.c.source_id == source_id)
        with self._database.read() as connection:
            return [MirrorRecord(**row._asdict()) for row in connection.execute(wanted)]

    def mirror_state(self, name: str, csn: Csn) -> MirrorState:
        """The stored state of a mirror from which a csn is nearest: the newest at or before it."""
        with self._database.read() as connection:
            joined = _states.join(_mirrors, _states.c.mirror_id == _mirrors.c.mirror_id)
            wanted = (
                sa.select(_states)
                .select_from(joined)
                .where(_mirrors.c.name == name, _states.c.csn <= csn)
                .order_by(_states.c.csn.desc())
                .limit(1)
            )
            row = connection.execute(wanted).one_or_none()
        if row is None:
            raise MomentBeforeHistory(
                f"Base table {name!r} is mirrored since a later csn than {csn}.",
                remedy="Ask for a later csn.",
                table=name,
            )
        return _state(row)

    def log_from(self, name: str) -> Csn:
        """Changes of a mirrored table up to this csn may be gone from its log."""
        with self._database.read() as connection:
            wanted = sa.select(_logs.c.log_from).join(_mirrors, _logs.c.mirror_id == _mirrors.c.mirror_id)
            return Csn(connection.execute(wanted.where(_mirrors.c.name == name)).scalar() or BEGINNING)

    def require_logged(self, name: str, since: Csn) -> None:
        """Raise unless a mirrored table can be had at a csn, and all its changes after that are in its log."""
        kept = self.log_from(name)
        if since < kept:
            raise MomentBeforeHistory(
                f"{name!r} is kept from csn {kept} on; it is asked for as of csn {since}, or what changed since then.",
                remedy=f"Ask for csn {kept} or later; keep more history (retention) to have more next time.",
                table=name,
                kept_from=kept,
            )


def keep_log(connection: sa.Connection, mirror_id: str, moment: Csn, now: Micros) -> None:
    """Say that a mirror's table need not be read before a moment: its log goes up to the state from which that is had.

    What was said before has been done.
    """
    newest = sa.select(sa.func.max(_states.c.csn)).where(_states.c.mirror_id == mirror_id, _states.c.csn <= moment)
    reached = connection.execute(newest).scalar()
    own = _logs.c.mirror_id == mirror_id
    before = connection.execute(sa.select(_logs.c.log_from).where(own)).scalar()
    if before is not None:
        connection.execute(sa.delete(_states).where(_states.c.mirror_id == mirror_id, _states.c.csn < before))
    if reached is not None and reached > (before or BEGINNING):
        connection.execute(sa.delete(_logs).where(own))
        connection.execute(sa.insert(_logs).values(mirror_id=mirror_id, log_from=reached, said_at=now))
    elif before is not None:
        connection.execute(sa.update(_logs).where(own).values(said_at=None))


def read_logs(connection: sa.Connection) -> list[HeldLog]:
    """The logs of tables that are copied. Those of others are kept: they hold what a source may not show yet."""
    joined = _mirrors.outerjoin(_logs, _logs.c.mirror_id == _mirrors.c.mirror_id)
    columns = (_mirrors.c.mirror_id, _mirrors.c.name, _mirrors.c.log_location, _logs.c.log_from, _logs.c.said_at)
    found = connection.execute(sa.select(*columns).select_from(joined).where(_mirrors.c.mode == "mirror"))
    return [
        HeldLog(row.mirror_id, row.name, row.log_location, log_from=Csn(row.log_from or BEGINNING), said_at=row.said_at)
        for row in found.all()
    ]


def insert_states(connection: sa.Connection, states: list[MirrorState]) -> None:
    if states:
        connection.execute(sa.insert(_states), [asdict(state) for state in states])


def update_source(connection: sa.Connection, source_id: str, **values: Any) -> None:
    connection.execute(sa.update(_sources).where(_sources.c.source_id == source_id).values(**values))


def update_mirror(connection: sa.Connection, name: str, **values: Any) -> None:
    connection.execute(sa.update(_mirrors).where(_mirrors.c.name == name).values(**values))


def remove_with_table(connection: sa.Connection, name: str) -> None:
    own = sa.select(_mirrors.c.mirror_id).where(_mirrors.c.name == name).scalar_subquery()
    connection.execute(sa.delete(_states).where(_states.c.mirror_id == own))
    connection.execute(sa.delete(_logs).where(_logs.c.mirror_id == own))
    connection.execute(sa.delete(_mirrors).where(_mirrors.c.name == name))


def _state(row: sa.Row[Any]) -> MirrorState:
    return MirrorState(row.mirror_id, Csn(row.csn), row.version)
