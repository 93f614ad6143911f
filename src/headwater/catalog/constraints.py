"""Declared constraints, and from when to when each is known to hold.

A constraint is declared under a name of its own, about tables that are tracked. It holds nowhere until it was
verified; ``hold_constraint`` records a verification, ``break_constraint`` that the data breaks it. What stands here can
be trusted without looking: it changes in the same transactions as what it rests on. A table that is followed anew has
lost changes, and with them all that was known of it; a table that is no longer tracked takes its constraints along.

A check takes time, and its tables may be followed anew, or another check recorded, meanwhile. So a check starts from
what was ``seen``, and what it found is recorded only if the catalog still says the same: otherwise it proves nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from headwater.algebra.constraints import Constraint, ForeignKey, Unique, broken_at, extended, objection
from headwater.algebra.time import Csn, Interval
from headwater.catalog import names, schema
from headwater.catalog.fencing import FencedTables, Held
from headwater.catalog.records import ConstraintRecord, JsonObject
from headwater.errors import InvalidInput, NameTaken

_table = schema.constraints


@dataclass(frozen=True, slots=True)
class Seen:
    """A constraint as it stood when a check began, and since which csn and version its tables were followed."""

    record: ConstraintRecord
    followed: Mapping[str, tuple[Csn, int]]


class Constraints(FencedTables):
    def add_constraint(self, lease: Held, name: str, constraint: Constraint) -> ConstraintRecord:
        """Declare; refused where its tables, columns or types do not allow it. Nothing is known of it yet."""
        with self._under(lease) as connection:
            known = _all(connection)
            if any(record.name == name for record in known):
                raise NameTaken(f"There is already a constraint {name!r}.", remedy="Choose another name.", name=name)
            tables = connection.execute(sa.select(schema.base_tables.c.name, schema.base_tables.c.columns))
            columns = {table: dict(listed) for table, listed in tables}
            why = objection(constraint, columns, [record.constraint for record in known])
            if why is not None:
                raise InvalidInput(f"{constraint} can't be declared: {why}.", constraint=name)
            record = ConstraintRecord(name, constraint, self._database.clock())
            connection.execute(sa.insert(_table).values(**_values(record)))
            return record

    def constraint(self, name: str) -> ConstraintRecord:
        with self._database.read() as connection:
            return _find(connection, name)

    def constraints(self) -> list[ConstraintRecord]:
        """All of them, by name."""
        with self._database.read() as connection:
            return _all(connection)

    def seen_constraints(self) -> list[Seen]:
        """All of them, by name, as checks start from them."""
        with self._database.read() as connection:
            return [Seen(record, _followed(connection, record.constraint)) for record in _all(connection)]

    def remove_constraint(self, lease: Held, name: str) -> None:
        """Forget it; refused for the last key that a foreign key refers to."""
        with self._under(lease) as connection:
            gone = _find(connection, name).constraint
            left = [record for record in _all(connection) if record.name != name]
            keys = [record.constraint for record in left if isinstance(record.constraint, Unique)]
            needing = [
                record.name
                for record in left
                if isinstance(record.constraint, ForeignKey)
                and isinstance(gone, Unique)
                and record.constraint.refers_to(gone)
                and not any(record.constraint.refers_to(key) for key in keys)
            ]
            if needing:
                raise InvalidInput(
                    f"Constraint {name!r} is the key that {', '.join(needing)} refers to.",
                    remedy="Remove the foreign keys first.",
                    constraint=name,
                    needed_by=needing,
                )
            connection.execute(sa.delete(_table).where(_table.c.name == name))

    def hold_constraint(self, lease: Held, name: str, verified: Interval, seen: Seen | None = None) -> ConstraintRecord:
        """It was verified on the state at ``verified.start`` and on the changes of the interval.

        A state verified at or after the csn that broke it starts anew; one before would say that it was not broken.
        What was found from a standing (``seen``) that is no longer the catalog's is not recorded.
        """
        with self._under(lease) as connection:
            record = _find(connection, name)
            if seen is not None and seen != Seen(record, _followed(connection, record.constraint)):
                return record
            broken = record.broken
            if broken is not None and broken["csn"] > verified.start:
                raise InvalidInput(
                    f"Constraint {name!r} was found broken at csn {broken['csn']}.",
                    remedy="Verify it on the state at that csn or a later one.",
                    constraint=name,
                    csn=broken["csn"],
                )
            return _update(connection, name, held=extended(None if broken else record.held, verified), broken=None)

    def forget_constraint(self, lease: Held, name: str) -> ConstraintRecord:
        """Its columns are other ones by now: what was known of it was said of those."""
        with self._under(lease) as connection:
            return _update(connection, name, held=None, broken=_find(connection, name).broken)

    def break_constraint(self, lease: Held, name: str, csn: Csn, problem: JsonObject) -> ConstraintRecord:
        """The data breaks it at a csn: from there on nothing may rest on it."""
        with self._under(lease) as connection:
            record = _find(connection, name)
            earlier = min(csn, record.broken["csn"]) if record.broken else csn
            return _update(
                connection, name, held=broken_at(record.held, earlier), broken={**problem, "csn": int(earlier)}
            )


def forget_knowledge(connection: sa.Connection, table: str) -> None:
    """Changes of the table were lost: nothing is known of what is said about it."""
    for record in _all(connection):
        if table in record.constraint.tables:
            _update(connection, record.name, held=None, broken=record.broken)


def remove_with_table(connection: sa.Connection, table: str) -> None:
    """The constraints on a table that is no longer tracked; refused while another table refers to it."""
    records = [record for record in _all(connection) if table in record.constraint.tables]
    referring = [record.name for record in records if record.constraint.table != table]
    if referring:
        raise InvalidInput(
            f"Base table {table!r} is referred to by {', '.join(referring)}.",
            remedy="Remove these constraints first.",
            table=table,
            constraints=referring,
        )
    connection.execute(sa.delete(_table).where(_table.c.name.in_([record.name for record in records])))


def _followed(connection: sa.Connection, constraint: Constraint) -> dict[str, tuple[Csn, int]]:
    table = schema.base_tables
    wanted = sa.select(table.c.name, table.c.since_csn, table.c.since_version)
    rows = connection.execute(wanted.where(table.c.name.in_(sorted(constraint.tables))))
    return {row.name: (Csn(row.since_csn), row.since_version) for row in rows}


def _find(connection: sa.Connection, name: str) -> ConstraintRecord:
    row = connection.execute(sa.select(_table).where(_table.c.name == name)).one_or_none()
    if row is None:
        raise names.unknown("constraint", name, connection.execute(sa.select(_table.c.name)).scalars())
    return _record(row)


def _all(connection: sa.Connection) -> list[ConstraintRecord]:
    return [_record(row) for row in connection.execute(sa.select(_table).order_by(_table.c.name))]


def _update(
    connection: sa.Connection, name: str, *, held: Interval | None, broken: JsonObject | None
) -> ConstraintRecord:
    values = {**_span(held), "broken": broken}
    connection.execute(sa.update(_table).where(_table.c.name == name).values(**values))
    return _find(connection, name)


def _span(held: Interval | None) -> dict[str, int | None]:
    return {"held_from": held.start if held else None, "held_to": held.end if held else None}


def _values(record: ConstraintRecord) -> dict[str, Any]:
    match record.constraint:
        case Unique(table=table, columns=columns, primary=primary):
            kind, referred_table, referred = "primary key" if primary else "unique", None, None
        case ForeignKey(table=table, columns=columns, referred_table=referred_table, referred_columns=referred):
            kind = "foreign key"
    return {
        "name": record.name,
        "table_name": table,
        "kind": kind,
        "columns": columns,
        "referred_table": referred_table,
        "referred_columns": referred,
        **_span(record.held),
        "broken": record.broken,
        "created_at": record.created_at,
    }


def _record(row: sa.Row[Any]) -> ConstraintRecord:
    constraint: Constraint
    if row.kind == "foreign key":
        constraint = ForeignKey(row.table_name, tuple(row.columns), row.referred_table, tuple(row.referred_columns))
    else:
        constraint = Unique(row.table_name, tuple(row.columns), primary=row.kind == "primary key")
    held = None if row.held_from is None else Interval(Csn(row.held_from), Csn(row.held_to))
    return ConstraintRecord(row.name, constraint, row.created_at, held, row.broken)
