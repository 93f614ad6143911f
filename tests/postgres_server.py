"""A private PostgreSQL server for tests: the one that ``headwater bench sources`` starts too."""

import psycopg

from headwater.bench.postgres_server import (
    OLDEST,
    SERVER_USER,
    PostgresServer,
    _run,
    find_binaries,
    running_postgres,
)

__all__ = ["OLDEST", "SERVER_USER", "PostgresServer", "_run", "committed", "find_binaries", "running_postgres"]


def committed(connection: psycopg.Connection, *statements: str) -> str:
    """Run the statements in one transaction; its number."""
    with connection.transaction():
        for statement in statements:
            connection.execute(statement)
        found = connection.execute("SELECT pg_current_xact_id()::text").fetchone()
    assert found is not None
    return str(found[0])
