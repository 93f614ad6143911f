"""The database behind a catalog: SQLite or PostgreSQL, made to behave alike.

Reads see one moment of the database. Writes are serialised: a write transaction first takes the catalog's one
write lock (SQLite: BEGIN IMMEDIATE; PostgreSQL: the row of hw_lake, for update), so two of them never deadlock,
what one has read stays true until it commits, and ids are given in the order of commits. Everything above can
so check first and write afterwards. The price is one writer at a time, which control state can pay.

The same lock is where a process learns that the schema was upgraded under it: it stops with LakeTooNew.

Errors of the driver leave as Headwater's own, and never with a password.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias, cast

import sqlalchemy as sa
from sqlalchemy import event, exc

from headwater.catalog import schema
from headwater.errors import (
    CatalogUnavailable,
    HeadwaterError,
    InternalError,
    InvalidInput,
    LakeTooNew,
    NotALake,
    StorageFull,
)

Clock: TypeAlias = Callable[[], int]
"""Microseconds since 1970, UTC."""

LOCK_WAIT_SECONDS = 30
_WRITES = "headwater_writes"
_CREATION_LOCK = 0x6865616477617465  # an advisory lock of PostgreSQL: one process creates or upgrades at a time


def system_clock() -> int:
    return time.time_ns() // 1000


class Database:
    """Transactions on one catalog; safe to use from several threads."""

    def __init__(self, url: str, clock: Clock) -> None:
        parsed = _parse(url)
        self.clock = clock
        self.is_sqlite = parsed.get_backend_name() == "sqlite"
        self.path = Path(parsed.database or "") if self.is_sqlite else None
        # Without the query, which may hold a password too.
        self.display = parsed.set(query={}).render_as_string(hide_password=True)
        try:
            self.engine = _sqlite_engine(parsed) if self.is_sqlite else _postgres_engine(parsed)
        except ModuleNotFoundError as error:
            raise CatalogUnavailable(
                f"The catalog {self.display} needs a driver that is not installed: {error}.",
                remedy="pip install 'headwater[postgres]'",
            ) from error

    def close(self) -> None:
        self.engine.dispose()

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """A transaction that sees one moment and changes nothing."""
        options = {} if self.is_sqlite else {"isolation_level": "REPEATABLE READ"}
        with self._translating(), self.engine.connect() as connection:
            connection.execution_options(**options)
            with connection.begin():
                yield connection

    @contextmanager
    def write(self) -> Iterator[sa.Connection]:
        """The one write transaction at a time; rolled back as a whole when the body raises."""
        with self._translating(), self.engine.connect() as connection:
            connection.execution_options(**{_WRITES: True})
            with connection.begin():
                found = connection.execute(sa.select(schema.lake.c.schema_version).with_for_update()).scalar_one()
                self.require_readable(found)
                yield connection

    @contextmanager
    def schema_change(self) -> Iterator[sa.Connection]:
        """A write transaction for creating or upgrading tables, which also locks out others that do so.

        SQLite changes a table by rebuilding it, which foreign keys would forbid: they are checked at the end instead.
        """
        with self._translating(), self.engine.connect() as connection:
            connection.execution_options(**{_WRITES: True})
            if not self.is_sqlite:
                with connection.begin():
                    connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_CREATION_LOCK)))
                    yield connection
                return
            driver = cast(sqlite3.Connection, connection.connection.dbapi_connection)
            driver.execute("PRAGMA foreign_keys = OFF")
            try:
                with connection.begin():
                    yield connection
                    broken = connection.exec_driver_sql("PRAGMA foreign_key_check").fetchall()
                    if broken:
                        raise InternalError(f"Changing the catalog's schema would leave {len(broken)} rows dangling.")
            finally:
                driver.execute("PRAGMA foreign_keys = ON")

    def switch_to_wal(self) -> bool:
        """Let readers never wait for the writer: a property of the file. False when another process is in the way."""
        with self._translating(), self.engine.connect() as connection:
            driver = cast(sqlite3.Connection, connection.connection.dbapi_connection)
            try:
                driver.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as error:
                if "locked" in str(error):
                    return False
                raise exc.OperationalError("PRAGMA journal_mode = WAL", None, error) from error
            return True

    def lease_time(self, connection: sa.Connection) -> int:
        """The clock that all holders of leases share, in microseconds: the server's, or this machine's."""
        if self.is_sqlite:
            return self.clock()
        # Not now(), which is the start of the transaction: this one may have waited for the write lock.
        micros = sa.extract("epoch", sa.func.clock_timestamp()) * 1_000_000
        return int(connection.execute(sa.select(sa.cast(micros, sa.BigInteger))).scalar_one())

    def require_readable(self, found: int, newest: int = schema.SCHEMA_VERSION) -> None:
        if found > newest:
            raise LakeTooNew(
                f"The catalog {self.display} has schema version {found}; this Headwater knows versions up to {newest}.",
                remedy="Use the Headwater that upgraded it, or a newer one. Nothing was changed.",
                found=found,
                supported=newest,
            )

    @contextmanager
    def _translating(self) -> Iterator[None]:
        try:
            yield
        except exc.SQLAlchemyError as error:
            raise self._translated(error) from error
        except OverflowError as error:
            raise InvalidInput(f"The catalog holds 64-bit integers only: {error}.") from error

    def _translated(self, error: exc.SQLAlchemyError) -> HeadwaterError:
        cause = error.orig if isinstance(error, exc.DBAPIError) and error.orig is not None else error
        detail = str(cause).strip()
        if "database or disk is full" in detail or getattr(cause, "sqlstate", None) == "53100":
            return StorageFull(
                f"No space is left for the catalog {self.display}: {detail}",
                remedy="Make room and try again; nothing was changed.",
            )
        if "file is not a database" in detail:
            return NotALake(
                f"{self.display} is not a SQLite database.", remedy="Give the catalog of a lake, or a path not in use."
            )
        if isinstance(error, exc.DataError):
            return InvalidInput(f"The catalog {self.display} can't hold a value: {detail}")
        if isinstance(error, exc.IntegrityError) or not isinstance(error, exc.DBAPIError | exc.TimeoutError):
            return InternalError(f"The catalog {self.display} refused a statement: {detail}")
        return CatalogUnavailable(
            f"The catalog {self.display} can't be used: {detail}",
            remedy="Check that it is reachable, that this user may write to it, and that no other program holds it.",
        )


def _parse(url: str) -> sa.URL:
    try:
        parsed = sa.make_url(url)
    except (exc.ArgumentError, ValueError):
        # Without its cause: that one may quote the text, password and all.
        raise InvalidInput(
            "The catalog's URL can't be read.", remedy="Give sqlite:///path or postgresql://user@host/database."
        ) from None
    if parsed.drivername in ("postgres", "postgresql"):
        parsed = parsed.set(drivername="postgresql+psycopg")
    if parsed.drivername not in ("sqlite", "sqlite+pysqlite", "postgresql+psycopg"):
        raise InvalidInput(
            f"A catalog can't be kept in {parsed.drivername!r}.",
            remedy="Give sqlite:///path or postgresql://user@host/database.",
        )
    if parsed.get_backend_name() == "sqlite" and parsed.database in (None, "", ":memory:"):
        raise InvalidInput(
            "A catalog in memory would forget what the lake's tables rely on.", remedy="Give sqlite:///path."
        )
    return parsed


def _sqlite_engine(url: sa.URL) -> sa.Engine:
    engine = sa.create_engine(url, connect_args={"timeout": LOCK_WAIT_SECONDS})

    @event.listens_for(engine, "connect")
    def prepare(driver: sqlite3.Connection, _: Any) -> None:
        # BEGIN is ours to send: Python's own would come too late, and never be IMMEDIATE.
        driver.isolation_level = None
        driver.execute("PRAGMA foreign_keys = ON")
        # A csn that was used in a view's table must never be lost to a power cut.
        driver.execute("PRAGMA synchronous = FULL")

    @event.listens_for(engine, "begin")
    def begin(connection: sa.Connection) -> None:
        writes = connection.get_execution_options().get(_WRITES, False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _postgres_engine(url: sa.URL) -> sa.Engine:
    engine = sa.create_engine(
        url,
        isolation_level="READ COMMITTED",
        pool_pre_ping=True,
        connect_args={"connect_timeout": 10, "fallback_application_name": "headwater"},
    )

    @event.listens_for(engine, "connect")
    def prepare(driver: Any, _: Any) -> None:
        driver.execute(f"SET lock_timeout = '{LOCK_WAIT_SECONDS}s'")
        # A machine that vanished inside a transaction must not keep the write lock.
        driver.execute(f"SET idle_in_transaction_session_timeout = '{LOCK_WAIT_SECONDS}s'")
        driver.commit()

    return engine
