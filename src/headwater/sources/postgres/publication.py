"""The publication: which tables' changes the log is read for.

pgoutput looks the publication up **as it was at each change**. A table that was taken out and put back has changed
meanwhile without a trace, so each membership is known by a token that does not survive that (the oid of its row in
PostgreSQL's catalog), and looked at with every batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from psycopg import sql

from headwater.errors import PublicationIncomplete, PublicationMissing, SchemaChanged, SourceProblem, TableReplaced
from headwater.sources.postgres.connection import Connection
from headwater.sources.postgres.tables import (
    ReplicaIdentity,
    SourceTable,
    TableName,
    identity_statement,
    quoted_identifier,
    require_full_identity,
)

_PUBLICATION = """
SELECT p.oid, p.puballtables, p.pubinsert AND p.pubupdate AND p.pubdelete AND p.pubtruncate
FROM pg_publication AS p WHERE p.pubname = %s
"""
# to_jsonb: row filters and column lists came with PostgreSQL 15.
_MEMBERS = """
SELECT r.prrelid, r.oid, coalesce(to_jsonb(r) ->> 'prqual', to_jsonb(r) ->> 'prattrs') IS NOT NULL
FROM pg_publication_rel AS r WHERE r.prpubid = %s
"""
_MEMBERS_BY_SCHEMA = """
SELECT c.oid, n.oid FROM pg_publication_namespace AS n JOIN pg_class AS c ON c.relnamespace = n.pnnspid
WHERE n.pnpubid = %s AND c.oid = ANY(%s)
"""
_IDENTITIES = "SELECT c.oid, c.relreplident::text FROM pg_class AS c WHERE c.oid = ANY(%s)"
_KEYS = "SELECT c.oid FROM pg_constraint AS c WHERE c.contype = 'p' AND c.conrelid = ANY(%s)"
# Tables that transactions have locked for themselves and still hold: logged, and not visible to others yet.
_LOCKED = """
SELECT DISTINCT r.relation::bigint
FROM pg_locks AS r JOIN pg_locks AS t ON t.virtualtransaction = r.virtualtransaction AND t.locktype = 'transactionid'
WHERE r.locktype = 'relation' AND r.granted AND r.mode = 'AccessExclusiveLock' AND t.mode = 'ExclusiveLock'
AND r.relation = ANY(%s) AND t.transactionid::text::bigint = ANY(%s)
"""
_BY_SCHEMA_SINCE = 150000


@dataclass(frozen=True, slots=True)
class Membership:
    """How tables belong to a publication, by oid; stored when they are tracked and compared ever after."""

    publication: str
    tokens: Mapping[int, str]


def membership(connection: Connection, publication: str, tables: Sequence[SourceTable], database: str) -> Membership:
    """As it is now; a table that does not belong, or not with all its changes, is left out."""
    found = connection.execute(_PUBLICATION, (publication,)).fetchone()
    if found is None:
        raise PublicationMissing(
            f"There is no publication {publication!r} in {database}.",
            database=database,
            remedy=f"Create it ({creation_statement(publication, [t.name for t in tables])};) and then resync: "
            "what changed without it is not in the log.",
        )
    oid, for_all, every_kind = found
    if not every_kind:
        return Membership(publication, {})
    tokens: dict[int, str] = {}
    oids = [table.oid for table in tables]
    if for_all:
        tokens = dict.fromkeys(oids, f"all {oid}")
    if not for_all and connection.info.server_version >= _BY_SCHEMA_SINCE:
        tokens = {each: f"schema {row}" for each, row in connection.execute(_MEMBERS_BY_SCHEMA, (oid, oids))}
    for each, row, partial in connection.execute(_MEMBERS, (oid,)):
        if each in oids and each not in tokens and not partial:
            tokens[each] = f"table {row}"
    return Membership(publication, tokens)


def problems(
    connection: Connection, tables: Sequence[SourceTable], joined: Membership, database: str
) -> tuple[SourceProblem, ...]:
    """What keeps tables from being read exactly, one problem for each; the others can go on."""
    now = membership(connection, joined.publication, tables, database)
    identities: dict[int, Any] = dict(connection.execute(_IDENTITIES, ([table.oid for table in tables],)).fetchall())
    found = (_problem(table, identities.get(table.oid), joined, now) for table in tables)
    return tuple(problem for problem in found if problem is not None)


def lost_keys(connection: Connection, tables: Sequence[SourceTable], decoded: Sequence[int] = ()) -> frozenset[int]:
    """The oids of tables whose key need not have told rows apart at every moment since they were described.

    ``decoded`` are the numbers of transactions that were read: one of them may have dropped a key and be kept waiting
    by a standby, so that others see the key still. Who drops one holds a lock until they do not.
    """
    keyed = [table for table in tables if table.key_oid is not None]
    oids = [table.oid for table in keyed]
    if not oids:
        return frozenset()
    locked = {row[0] for row in connection.execute(_LOCKED, (oids, list(decoded)))} if decoded else set()
    kept = {row[0] for row in connection.execute(_KEYS, (oids,))}
    return frozenset(table.oid for table in keyed if table.key_oid not in kept or table.oid in locked)


def require_key(connection: Connection, table: SourceTable) -> None:
    """Raise if the key that a table was described with may not have told apart the rows that were copied since."""
    if lost_keys(connection, [table]):
        raise SchemaChanged(
            f"The primary key of {table.name} was dropped while the table was copied.",
            table=str(table.name),
            remedy="Try again.",
        )


def _problem(table: SourceTable, identity: str | None, joined: Membership, now: Membership) -> SourceProblem | None:
    if identity is None:
        return TableReplaced(
            f"{table.name} was dropped.",
            table=str(table.name),
            remedy="If it was made anew, start over from its present with resync.",
        )
    if table.oid not in now.tokens:
        return PublicationIncomplete(
            f"The publication {now.publication!r} does not hold {table.name} with all its rows, columns and kinds of "
            "change.",
            table=str(table.name),
            remedy=f"As the table's owner: {joining_statement(now.publication, [table.name])}; then resync.",
        )
    if joined.tokens.get(table.oid) not in (None, now.tokens[table.oid]):
        return PublicationIncomplete(
            f"{table.name} was taken out of the publication {now.publication!r} and put back; what changed meanwhile "
            "is not in the log.",
            table=str(table.name),
            remedy="Start over from its present with resync.",
        )
    if identity != ReplicaIdentity.FULL.value:
        try:
            require_full_identity(replace(table, replica_identity=ReplicaIdentity(identity)))
        except SourceProblem as problem:
            return problem
    return None


def prepare(connection: Connection, publication: str, tables: Sequence[SourceTable]) -> tuple[str, ...]:
    """Make the log tell all about these tables; what was executed. All or nothing, and only on the user's word.

    Needs a role that owns the tables. The lock that REPLICA IDENTITY takes is short, and waited for as long as the
    connection's ``lock`` limit says.
    """
    exists = connection.execute(_PUBLICATION, (publication,)).fetchone()
    done: list[str] = []
    with connection.transaction():
        for table in tables:
            if table.replica_identity is not ReplicaIdentity.FULL:
                connection.execute(
                    sql.SQL("ALTER TABLE {} REPLICA IDENTITY FULL").format(
                        sql.Identifier(table.name.schema, table.name.name)
                    )
                )
                done.append(identity_statement(table.name))
        if exists is None:
            new, statement, text = tables, "CREATE PUBLICATION {} FOR TABLE {}", creation_statement
        else:
            oid, for_all, _ = exists
            members = {row[0] for row in connection.execute(_MEMBERS, (oid,))}
            new = [] if for_all else [table for table in tables if table.oid not in members]
            statement, text = "ALTER PUBLICATION {} ADD TABLE {}", joining_statement
        if new:
            names = sql.SQL(", ").join(sql.Identifier(table.name.schema, table.name.name) for table in new)
            connection.execute(sql.SQL(statement).format(sql.Identifier(publication), names))
            done.append(text(publication, [table.name for table in new]))
    return tuple(done)


def creation_statement(publication: str, tables: Iterable[TableName]) -> str:
    return f"CREATE PUBLICATION {quoted_identifier(publication)} FOR TABLE {_names(tables)}"


def joining_statement(publication: str, tables: Iterable[TableName]) -> str:
    return f"ALTER PUBLICATION {quoted_identifier(publication)} ADD TABLE {_names(tables)}"


def _names(tables: Iterable[TableName]) -> str:
    return ", ".join(table.quoted for table in tables)
