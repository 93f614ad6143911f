"""The statements that let Headwater in: as text, for whoever owns the database.

The role that reads needs to see rows (SELECT), to find their tables (USAGE, CONNECT) and to read the log (REPLICATION,
which goes with the role and can't be granted for one slot). It owns nothing and writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from headwater.sources.postgres.publication import creation_statement
from headwater.sources.postgres.tables import TableName, identity_statement, quoted_identifier


def role_statements(role: str, database: str, tables: Iterable[TableName]) -> tuple[str, ...]:
    """By a superuser, or whoever may grant these; the password is set apart, where no history keeps it."""
    named = list(tables)
    quoted = quoted_identifier(role)
    schemas = dict.fromkeys(table.schema for table in named)
    return (
        f"CREATE ROLE {quoted} LOGIN REPLICATION",
        f"GRANT CONNECT ON DATABASE {quoted_identifier(database)} TO {quoted}",
        *(f"GRANT USAGE ON SCHEMA {quoted_identifier(schema)} TO {quoted}" for schema in schemas),
        *(f"GRANT SELECT ON TABLE {table.quoted} TO {quoted}" for table in named),
    )


def owner_statements(publication: str, tables: Iterable[TableName]) -> tuple[str, ...]:
    """By the owner of the tables, who also needs CREATE on the database."""
    named = list(tables)
    return (*(identity_statement(table) for table in named), creation_statement(publication, named))
