"""A private PostgreSQL server, for tests and benchmarks.

    with running_postgres() as server:
        url = server.create_database("catalog")

It listens on 127.0.0.1 only, on a port of its own, with logical decoding switched on and no care for durability.
It is gone with its data when the block ends, or when the test process dies in whatever way. What
needs PostgreSQL must run, so there is no skipping: on Debian as root a missing server is installed, anywhere else the
error says what to do.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import sql

OLDEST = 14
SERVER_USER = "postgres"


@dataclass(frozen=True)
class PostgresServer:
    binaries: Path
    directory: Path
    port: int

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def create_database(self, name: str) -> str:
        """A new empty database; its URL."""
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return self.url(name)

    @property
    def log(self) -> Path:
        return self.directory / "log"

    @property
    def data(self) -> Path:
        return self.directory / "data"

    def start(self) -> None:
        """Start the server, anew if it was killed."""
        arguments = ["-D", str(self.data), "-l", str(self.log), "-w", "-t", "60", "start"]
        _run(self.binaries / "pg_ctl", *arguments, cwd=self.directory)


@contextmanager
def running_postgres(settings: Mapping[str, str] | None = None) -> Iterator[PostgresServer]:
    """A running server; ``settings`` go to postgresql.conf after our own."""
    binaries = find_binaries()
    directory = Path(tempfile.mkdtemp(prefix="hw-pg-"))  # short: it also holds a socket
    try:
        if os.geteuid() == 0:
            account = _server_account()
            os.chown(directory, account.pw_uid, account.pw_gid)
        data = directory / "data"
        initdb = ["-D", str(data), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"]
        _run(binaries / "initdb", *initdb, cwd=directory)
        with _stopped_at_the_end(binaries, directory, data):
            yield _start(binaries, directory, data, settings or {})
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def find_binaries() -> Path:
    """The directory of the newest PostgreSQL server that is at least version 14, installed if need be and possible."""
    found = _newest_binaries()
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run(["apt-get", "update", "-q"], check=True, env=quiet)
        subprocess.run(["apt-get", "install", "-q", "-y", "postgresql"], check=True, env=quiet)
        found = _newest_binaries()
    if found is None:
        raise RuntimeError(
            f"this needs the server programs of PostgreSQL {OLDEST} or newer (initdb, pg_ctl, postgres): install "
            "them (Debian: apt-get install postgresql; macOS: brew install postgresql) or put them on PATH"
        )
    return found


def _newest_binaries() -> Path | None:
    on_path = shutil.which("postgres")
    candidates = [Path(on_path).resolve().parent] if on_path else []
    for pattern in ("usr/lib/postgresql/*/bin", "usr/pgsql-*/bin", "opt/homebrew/opt/postgresql*/bin"):
        candidates.extend(Path("/").glob(pattern))
    versions = [(version, path) for path in candidates if (version := _version(path)) >= OLDEST]
    return max(versions)[1] if versions else None


def _version(binaries: Path) -> int:
    if not all((binaries / program).exists() for program in ("initdb", "pg_ctl", "postgres")):
        return 0
    answer = subprocess.run([binaries / "postgres", "--version"], capture_output=True, text=True, check=False).stdout
    match = re.search(r"\) (\d+)", answer)
    return int(match.group(1)) if match else 0


def _start(binaries: Path, directory: Path, data: Path, settings: Mapping[str, str]) -> PostgresServer:
    for attempt in range(5):
        server = PostgresServer(binaries, directory, _free_port())
        ours = {
            "listen_addresses": "127.0.0.1",
            "port": str(server.port),
            "unix_socket_directories": str(directory),
            "wal_level": "logical",
            "checkpoint_timeout": "1h",  # only when asked for: what a crash forgets must not depend on the clock
            "fsync": "off",
            "synchronous_commit": "off",
            "full_page_writes": "off",
        }
        lines = [f"{name} = '{value}'" for name, value in {**ours, **settings}.items()]
        # Read after postgresql.conf, which stays as initdb wrote it; the file must be the server's own.
        (data / "postgresql.auto.conf").write_text("\n".join(lines) + "\n")
        try:
            server.start()
            return server
        except RuntimeError as error:
            # Someone else may have taken the port between our look and the start.
            log = server.log.read_text() if server.log.exists() else ""
            if attempt == 4 or "could not bind" not in log:
                raise RuntimeError(f"{error}\n{log}") from error
            server.log.unlink()
    raise AssertionError("unreachable")


@contextmanager
def _stopped_at_the_end(binaries: Path, directory: Path, data: Path) -> Iterator[None]:
    """A shell that waits for the end of our pipe, which the kernel closes even when we are killed, and cleans up."""
    script = 'read -r _; "$1" -D "$2" -m immediate -w stop; cd /; rm -rf "$3"'
    account = _server_account() if os.geteuid() == 0 else None
    watcher = subprocess.Popen(
        ["/bin/sh", "-c", script, "sh", str(binaries / "pg_ctl"), str(data), str(directory)],
        cwd=directory,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        user=account.pw_uid if account else None,
        group=account.pw_gid if account else None,
        extra_groups=[] if account else None,
        start_new_session=True,
    )
    try:
        yield
    finally:
        watcher.communicate()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _run(program: Path, *arguments: str, cwd: Path) -> None:
    """As the user ``postgres`` when we are root, which PostgreSQL refuses to run as."""
    root = os.geteuid() == 0
    account = _server_account() if root else None
    # Not captured through a pipe: the server would inherit it, and reading it would never end.
    with tempfile.TemporaryFile() as output:
        done = subprocess.run(
            [str(program), *arguments],
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            user=account.pw_uid if account else None,
            group=account.pw_gid if account else None,
            extra_groups=[] if account else None,
            start_new_session=True,
            check=False,
        )
        if done.returncode:
            output.seek(0)
            raise RuntimeError(f"{program.name} failed: {output.read().decode(errors='replace')}")


def _server_account() -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(SERVER_USER)
    except KeyError:
        raise RuntimeError(
            f"PostgreSQL does not run as root, and there is no user {SERVER_USER!r} to run it as: create it"
        ) from None
