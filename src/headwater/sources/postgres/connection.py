"""Connections to a PostgreSQL source: address, secrets, TLS, time limits, retries, errors.

*Secrets.* An ``Address`` says where the password is found, an environment variable or a file, and never holds it. So
it can be stored, shown and compared; the password is read when a connection is made and forgotten. Errors of the
driver leave as Headwater's own, scrubbed of it. Without either, libpq looks in PGPASSWORD and in its password file,
as it always does.

*TLS.* To another machine the certificate is verified unless the address says otherwise.

*Settings.* How values are printed depends on the session, for the log as for a query. ``SETTINGS`` makes every
session of ours print alike and without loss.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

import psycopg
from psycopg.rows import TupleRow

from headwater.errors import (
    DatabaseFailed,
    DatabaseNotReady,
    DatabaseProblem,
    DatabaseUnavailable,
    InvalidInput,
    SecretMissing,
    SlotBusy,
)

OLDEST_SERVER = 140000
Connection: TypeAlias = psycopg.Connection[TupleRow]
T = TypeVar("T")

SETTINGS = {
    "client_encoding": "UTF8",
    "DateStyle": "ISO, YMD",
    "IntervalStyle": "iso_8601",
    "TimeZone": "UTC",
    "bytea_output": "hex",
    # Any number above 0: as many digits as tell the value from its neighbours.
    "extra_float_digits": "1",
    "xmloption": "content",
    # Names are never looked up along a path that somebody else may have put a table on.
    "search_path": "",
    # A policy that would hide rows raises instead.
    "row_security": "off",
}


@dataclass(frozen=True, slots=True)
class FromEnvironment:
    variable: str

    def __str__(self) -> str:
        return f"the environment variable {self.variable}"

    def read(self) -> str | None:
        return os.environ.get(self.variable)


@dataclass(frozen=True, slots=True)
class FromFile:
    path: str

    def __str__(self) -> str:
        return f"the file {self.path}"

    def read(self) -> str | None:
        try:
            return Path(self.path).read_text().rstrip("\r\n")
        except OSError:
            return None


PasswordPlace: TypeAlias = FromEnvironment | FromFile


@dataclass(frozen=True, slots=True)
class Tls:
    """libpq's options; ``mode`` None means verify-full, or prefer on this machine."""

    mode: str | None = None
    root_certificate: str | None = None
    certificate: str | None = None
    key: str | None = None
    revoked: str | None = None


@dataclass(frozen=True, slots=True)
class Timeouts:
    """In seconds."""

    connect: int = 10
    statement: int = 600
    lock: int = 30
    network: int = 30
    """Data sent and not acknowledged for this long means that the connection is dead."""


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    database: str
    user: str
    port: int = 5432
    password: PasswordPlace | None = None
    tls: Tls = field(default_factory=Tls)
    timeouts: Timeouts = field(default_factory=Timeouts)

    def __str__(self) -> str:
        return f"postgresql://{self.user}@{self.host}:{self.port}/{self.database}"

    @property
    def is_local(self) -> bool:
        return self.host.startswith("/") or self.host in ("localhost", "127.0.0.1", "::1")

    @classmethod
    def parse(cls, url: str) -> Address:
        """``postgresql://user@host:port/database?password_env=NAME&sslmode=verify-full``; see ``_OPTIONS``."""
        try:
            parts = urlsplit(url)
            port, secret = parts.port, parts.password
            options = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
        except ValueError:
            # Without its cause, which may quote the text, password and all.
            raise _unreadable() from None
        names = [name for name, _ in options]
        if secret is not None or {"password", "sslpassword"} & set(names):
            raise InvalidInput(
                "The address of a PostgreSQL source may not hold a password: it would be stored and shown.",
                remedy="Put the password into an environment variable or a file, and name it in the address: "
                "?password_env=NAME or ?password_file=PATH.",
            )
        unknown = sorted(set(names) - set(_OPTIONS))
        if unknown or len(names) != len(set(names)):
            raise InvalidInput(
                f"The address of a PostgreSQL source has options that are unknown or given twice: "
                f"{', '.join(unknown) or ', '.join(sorted({n for n in names if names.count(n) > 1}))}.",
                remedy=f"Known ones: {', '.join(sorted(_OPTIONS))}.",
            )
        given = dict(options)
        database = unquote(parts.path.lstrip("/"))
        host = unquote(parts.hostname or "") or given.get("host", "")
        if parts.scheme not in ("postgresql", "postgres") or not (database and parts.username and host):
            raise _unreadable()
        place: PasswordPlace | None = None
        if "password_env" in given:
            place = FromEnvironment(given["password_env"])
        elif "password_file" in given:
            place = FromFile(given["password_file"])
        return cls(
            host=host,
            port=port or 5432,
            database=database,
            user=unquote(parts.username),
            password=place,
            tls=Tls(*(given.get(name) for name in _TLS_OPTIONS)),
            timeouts=Timeouts(
                **{short: _seconds(given[name]) for name, short in _TIME_OPTIONS.items() if name in given}
            ),
        )

    def as_dict(self) -> dict[str, Any]:
        """For the catalog, the log and ``explain``: there is nothing secret in it."""
        return asdict(self)


_TLS_OPTIONS = ("sslmode", "sslrootcert", "sslcert", "sslkey", "sslcrl")
_TIME_OPTIONS = {
    "connect_timeout": "connect",
    "statement_timeout": "statement",
    "lock_timeout": "lock",
    "network_timeout": "network",
}
_OPTIONS = ("host", "password_env", "password_file", *_TLS_OPTIONS, *_TIME_OPTIONS)


def _unreadable() -> InvalidInput:
    return InvalidInput(
        "The address of a PostgreSQL source can't be read.", remedy="Give postgresql://user@host:port/database."
    )


def _seconds(text: str) -> int:
    if not re.fullmatch(r"[1-9]\d{0,5}", text):
        raise InvalidInput(
            f"A time limit of {text!r} is no number of seconds.", remedy="Give a whole number from 1 on."
        )
    return int(text)


def connect(address: Address) -> Connection:
    """An autocommit connection that prints values as ``SETTINGS`` says."""
    password = _password(address)
    limits, tls = address.timeouts, address.tls
    parameters: dict[str, Any] = {
        "host": address.host,
        "port": address.port,
        "dbname": address.database,
        "user": address.user,
        "password": password,
        "sslmode": tls.mode or ("prefer" if address.is_local else "verify-full"),
        "sslrootcert": tls.root_certificate,
        "sslcert": tls.certificate,
        "sslkey": tls.key,
        "sslcrl": tls.revoked,
        "connect_timeout": limits.connect,
        "tcp_user_timeout": 1000 * limits.network,
        "keepalives_idle": limits.network,
        "application_name": "headwater",
    }
    with translated(str(address), "connecting", password):
        connection = psycopg.connect(
            autocommit=True, **{name: value for name, value in parameters.items() if value is not None}
        )
        try:
            _prepare(connection, address)
        except BaseException:
            connection.close()
            raise
    return connection


def _prepare(connection: Connection, address: Address) -> None:
    if connection.info.server_version < OLDEST_SERVER:
        raise DatabaseNotReady(
            f"{address} is PostgreSQL {connection.info.server_version // 10000}.",
            database=str(address),
            remedy=f"Headwater reads PostgreSQL {OLDEST_SERVER // 10000} and newer.",
        )
    limits = {
        "statement_timeout": f"{address.timeouts.statement}s",
        "lock_timeout": f"{address.timeouts.lock}s",
    }
    for name, value in {**SETTINGS, **limits}.items():
        connection.execute("SELECT pg_catalog.set_config(%s, %s, false)", (name, value))


def _password(address: Address) -> str | None:
    if address.password is None:
        return None
    found = address.password.read()
    if not found:
        raise SecretMissing(
            f"The password of {address} is to be found in {address.password}, and is not there.",
            database=str(address),
            remedy="Set it where this process can read it.",
        )
    return found


_BUSY = "55006"
_NOT_READY = {
    "28000": "The server does not let this role in.",
    "28P01": "The server does not accept the role's password.",
    "3D000": "There is no such database.",
    "42501": "The role lacks a privilege.",
    "42704": "Something that was set up is not there.",
    "55000": "The server or slot is not set up for it.",
    "53400": "The server has no free replication slot (max_replication_slots).",
}
# Deadlocks, serialisation failures, resources, operator intervention, lost connections: all may be gone next time.
_PASSING = ("08", "40", "53", "55P03", "57", "58")


def failure(error: psycopg.Error, database: str, doing: str, password: str | None = None) -> DatabaseProblem:
    """The driver's error as ours, without the password."""
    state = error.sqlstate or ""
    detail = scrubbed(" ".join(str(error).split()), password)
    message = f"{doing[0].upper()}{doing[1:]} failed at {database}: {detail}"
    if state == _BUSY:
        return SlotBusy(
            message, database=database, remedy="Another process reads this slot: give each lake a slot of its own."
        )
    # libpq gives no state for what failed before the server answered; what it says then is all there is.
    refused = re.search(r"authentication failed|does not exist|no password supplied|certificate|SSL", detail)
    if state in _NOT_READY or (not state and refused):
        reason = _NOT_READY.get(state, "The server, or its certificate, refused.")
        return DatabaseNotReady(
            message, database=database, remedy=f"{reason} docs/postgres.md has the statements that set it up."
        )
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError) or state.startswith(_PASSING):
        return DatabaseUnavailable(
            message, database=database, remedy="Nothing is lost: the slot keeps the changes. Try again."
        )
    return DatabaseFailed(message, database=database, remedy="The cause is attached.")


def scrubbed(text: str, password: str | None) -> str:
    return text.replace(password, "***") if password else text


@contextmanager
def translated(database: str, doing: str, password: str | None = None) -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        cause = None if password and password in str(error) else error
        raise failure(error, database, doing, password) from cause


@dataclass(frozen=True, slots=True)
class Retry:
    """Pauses double from ``first_pause`` to ``longest_pause`` seconds."""

    attempts: int = 5
    first_pause: float = 0.2
    longest_pause: float = 10.0

    def run(self, action: Callable[[], T], sleep: Callable[[float], None] = time.sleep) -> T:
        """``action`` until it succeeds, as long as what stands in its way may pass."""
        pause = self.first_pause
        for attempt in range(1, self.attempts + 1):
            try:
                return action()
            except (DatabaseUnavailable, SlotBusy):
                if attempt == self.attempts:
                    raise
            sleep(pause)
            pause = min(2 * pause, self.longest_pause)
        raise AssertionError("unreachable")
