"""A private PostgreSQL server for tests: the one that ``headwater bench sources`` starts too."""

from headwater.bench.postgres_server import (
    OLDEST,
    SERVER_USER,
    PostgresServer,
    _run,
    find_binaries,
    running_postgres,
)

__all__ = ["OLDEST", "SERVER_USER", "PostgresServer", "_run", "find_binaries", "running_postgres"]
