"""Tables of a database as values: asks PostgreSQL's own catalog.

Only what logical decoding tells completely can be followed: ordinary, logged tables. A partitioned table or a parent
of others shows rows that are logged under its children's names, and that come and go with ATTACH and DETACH without a
word in the log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headwater.errors import TableNotDecoded, UnknownName
from headwater.sources.postgres.connection import Connection
from headwater.sources.postgres.tables import ReplicaIdentity, SourceTable, TableName, column_of
from headwater.sources.postgres.type_map import ArrayOf, EnumType, OtherType, PgType, Scalar

_TABLE = """
SELECT c.oid, c.relkind::text, c.relpersistence::text, c.relreplident::text,
       EXISTS (SELECT FROM pg_inherits AS i WHERE i.inhparent = c.oid)
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relname = %s
"""
# The log does not carry generated columns, so neither do we.
_COLUMNS = """
SELECT a.attname, a.atttypid, a.atttypmod
FROM pg_attribute AS a
WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
ORDER BY a.attnum
"""
_KEY = """
SELECT a.attname, c.oid
FROM pg_constraint AS c
CROSS JOIN LATERAL unnest(c.conkey) WITH ORDINALITY AS k (attnum, place)
JOIN pg_attribute AS a ON a.attrelid = c.conrelid AND a.attnum = k.attnum
WHERE c.conrelid = %s AND c.contype = 'p'
ORDER BY k.place
"""
_TYPE = """
SELECT n.nspname, t.typname, t.typtype::text, t.typbasetype, t.typtypmod, t.typelem, t.typcategory::text
FROM pg_type AS t JOIN pg_namespace AS n ON n.oid = t.typnamespace
WHERE t.oid = %s
"""
_PERSISTENCE = {"u": "an unlogged table", "t": "a temporary table"}
_KINDS = {
    "p": "a partitioned table",
    "v": "a view",
    "m": "a materialized view",
    "f": "a foreign table",
    "S": "a sequence",
}


def describe(
    connection: Connection,
    name: TableName,
    *,
    only: Sequence[str] | None = None,
    types: Mapping[str, str] | None = None,
) -> SourceTable:
    """A table with all its columns, or ``only`` some; ``types`` declares Spark types by column."""
    found = connection.execute(_TABLE, (name.schema, name.name)).fetchone()
    if found is None:
        raise UnknownName(
            f"There is no table {name} in database {connection.info.dbname!r}, or this role may not see its schema.",
            remedy="Give schema and name exactly as PostgreSQL has them, lower case unless they were quoted.",
            name=str(name),
        )
    oid, kind, persistence, identity, is_parent = found
    _require_decoded(name, kind, persistence, is_parent)
    attributes = connection.execute(_COLUMNS, (oid,)).fetchall()
    known = [str(attribute[0]) for attribute in attributes]
    for asked in (*(only or ()), *(types or {})):
        if asked not in known:
            raise UnknownName(
                f"{name} has no column {asked!r} that its log carries.",
                remedy=f"It has {', '.join(known)}; generated columns are not logged.",
                name=asked,
            )
    resolved: dict[int, tuple[Any, ...]] = {}
    columns = tuple(
        column_of(name, column, _resolve(connection, type_oid, modifier, resolved), type_oid, types)
        for column, type_oid, modifier in attributes
        if only is None or column in only
    )
    key = connection.execute(_KEY, (oid,)).fetchall()
    names, constraint = tuple(str(row[0]) for row in key), int(key[0][1]) if key else None
    if not {column.name for column in columns}.issuperset(names):
        names, constraint = (), None  # rows that differ in what is left out are alike here
    return SourceTable(oid, name, columns, names, ReplicaIdentity(identity), constraint)


def _require_decoded(name: TableName, kind: str, persistence: str, is_parent: bool) -> None:
    if kind == "r" and persistence == "p" and not is_parent:
        return
    if is_parent or kind == "p":
        what = _KINDS.get(kind, "a table that others inherit from")
        remedy = "Track each table below it, and combine them in the view with UNION ALL."
    else:
        what = _KINDS.get(kind) or _PERSISTENCE.get(persistence) or f"a relation of kind {kind!r}"
        remedy = "Track ordinary, logged tables."
    raise TableNotDecoded(
        f"{name} is {what}: PostgreSQL's log does not tell its changes as its own.", table=str(name), remedy=remedy
    )


def _resolve(connection: Connection, oid: int, modifier: int, known: dict[int, tuple[Any, ...]]) -> PgType:
    """A type by its oid, domains followed to what they are made of."""
    if oid not in known:
        row = connection.execute(_TYPE, (oid,)).fetchone()
        known[oid] = row if row is not None else ("?", str(oid), "?", 0, -1, 0, "?")
    schema, name, kind, base, base_modifier, element, category = known[oid]
    match kind, schema:
        case "d", _:
            return _resolve(connection, base, base_modifier, known)
        case "e", _:
            return EnumType(f"{schema}.{name}")
        case "b", _ if category == "A" and element:
            return ArrayOf(_resolve(connection, element, modifier, known))
        case "b", "pg_catalog":
            return Scalar(name, modifier)
        case _:
            return OtherType(f"{schema}.{name}")
