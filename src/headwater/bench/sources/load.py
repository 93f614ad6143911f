"""The server's own transaction rate and CPU, alone and with its tables followed.

Who follows a server runs on another machine. Here both are on one, so the server and its clients are kept on one core,
in every state, and the reader on another: what it takes for itself is told as CPU seconds.

The machine's own pace changes from one minute to the next, so the states take turns, many short ones, in an order that
goes round; a ratio is of two turns of one round. CPU seconds of a transaction do not depend on that pace.
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headwater.bench.postgres_server import SERVER_USER, PostgresServer
from headwater.sources.feed import Position
from headwater.sources.postgres.connection import Address, Connection
from headwater.sources.postgres.connection import connect as connect_to
from headwater.sources.postgres.description import describe
from headwater.sources.postgres.feed import Followed, PostgresFeed, position_of
from headwater.sources.postgres.publication import membership, prepare
from headwater.sources.postgres.slot import create_slot, drop_slot
from headwater.sources.postgres.tables import TableName

ROUNDS = 6
SECONDS = 30
EVERY = 5.0  # seconds between captures
STATES = ("alone", "logged", "followed")
_TABLES = tuple(f"pgbench_{name}" for name in ("accounts", "branches", "tellers", "history"))
_NAME = "bench"
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(slots=True)
class Reader:
    """Who follows the server: transactions read, and the CPU seconds of its thread and of its connection there."""

    read: int = 0
    seconds: float = 0.0
    backends: list[int] = field(default_factory=list)

    def decoding(self) -> float:
        return sum(_cpu(backend) for backend in self.backends)


def measure(server: PostgresServer, progress: Callable[[str], None]) -> dict[str, Any]:
    url = server.create_database(_NAME)
    _keep_to(_cores()[0], [_postmaster(server), *_children(_postmaster(server))])
    _pgbench(server, "-i", "-s", "10", "-q")
    _pgbench(server, "-T", "5", "-c", "4", "-n")
    rounds: list[dict[str, dict[str, float]]] = []
    for number in range(ROUNDS):
        turn = number % len(STATES)
        found = {}
        for state in STATES[turn:] + STATES[:turn]:
            progress(f"load: round {number + 1} of {ROUNDS}, {state}")
            found[state] = _turn(server, url, state)
        rounds.append(found)
    return {
        "seconds": SECONDS,
        "rounds": rounds,
        **{
            name: round(statistics.median(each[state]["tps"] / each["alone"]["tps"] for each in rounds), 4)
            for name, state in (("kept", "followed"), ("kept_logged", "logged"))
        },
        **{
            f"{what}_{state}": round(statistics.median(each[state][what] for each in rounds), 4)
            for what in ("server_ms", "decoding_ms", "reader_ms")
            for state in STATES
        },
        "read_share": round(statistics.median(each["followed"]["read_share"] for each in rounds), 3),
    }


def _turn(server: PostgresServer, url: str, state: str) -> dict[str, float]:
    if state == "alone":
        return _loaded(server, Reader())
    with _logged(url) as (position, feed, reader):
        if state == "logged":
            return _loaded(server, reader)
        with _followed(feed, position, reader):
            return _loaded(server, reader)


def _loaded(server: PostgresServer, reader: Reader) -> dict[str, float]:
    """The rate of the server's own TPC-B-like load, and milliseconds of CPU for each of its transactions."""
    postmaster = _postmaster(server)
    before = _cpu_below(postmaster)
    said = _pgbench(server, "-T", str(SECONDS), "-c", "4", "-n")
    server_seconds = _cpu_below(postmaster) - before
    rate, done = re.search(r"tps = ([\d.]+)", said), re.search(r"actually processed: (\d+)", said)
    if rate is None or done is None:
        raise RuntimeError(f"pgbench told no rate: {said}")
    transactions = int(done[1])
    return {
        "tps": round(float(rate[1]), 1),
        "server_ms": round(1000 * server_seconds / transactions, 4),
        "decoding_ms": round(1000 * reader.decoding() / transactions, 4),
        "reader_ms": round(1000 * reader.seconds / transactions, 4),
        "read_share": round(reader.read / transactions, 3),
    }


@contextmanager
def _logged(url: str) -> Iterator[tuple[Position, PostgresFeed, Reader]]:
    """All that following needs of the server, and nobody who reads: whole old rows, a publication, a slot."""
    address, reader = Address.parse(url), Reader()

    def connected() -> Connection:
        connection = connect_to(address)
        reader.backends.append(connection.info.backend_pid)
        return connection

    with closing(connect_to(address)) as connection:
        tables = [describe(connection, TableName("public", name)) for name in _TABLES]
        prepare(connection, _NAME, tables)
        tables = [describe(connection, table.name) for table in tables]
        tokens = membership(connection, _NAME, tables, str(address)).tokens
        position = position_of(create_slot(connection, _NAME, str(address)))
        followed = [Followed(table.name.name, table, tokens[table.oid]) for table in tables]
        feed = PostgresFeed(connected, _NAME, _NAME, followed, database=str(address))
        try:
            yield position, feed, reader
        finally:
            feed.close()
            drop_slot(connection, _NAME, str(address))
            for table in tables:
                connection.execute(f"ALTER TABLE {table.name.quoted} REPLICA IDENTITY DEFAULT")
            connection.execute(f"DROP PUBLICATION {_NAME}")


@contextmanager
def _followed(feed: PostgresFeed, position: Position, reader: Reader) -> Iterator[None]:
    """Somebody who reads and decodes the log of all tables as capture does."""
    over = threading.Event()

    def follow() -> None:
        _keep_to(_cores()[-1], [threading.get_native_id()])
        at = position
        while not over.is_set():
            with closing(feed.read(at)) as batch:
                for transaction in batch.transactions:
                    for _ in transaction.changes():
                        pass
                    reader.read += 1
                at, complete = batch.position, batch.complete
            feed.confirm(at)
            reader.seconds = time.thread_time()
            if complete:
                over.wait(EVERY)

    thread = threading.Thread(target=follow)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _cpu_below(postmaster: int) -> float:
    """CPU seconds of a server so far: its processes, and those that have ended."""
    return _cpu(postmaster, ended=True) + sum(map(_cpu, _children(postmaster)))


def _postmaster(server: PostgresServer) -> int:
    return int((server.data / "postmaster.pid").read_text().split()[0])


def _children(process: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def _cores() -> list[int]:
    return sorted(os.sched_getaffinity(0))


def _keep_to(core: int, threads: list[int]) -> None:
    for thread in threads:
        os.sched_setaffinity(thread, {core})


def _cpu(process: int, *, ended: bool = False) -> float:
    try:
        told = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(int(ticks) for ticks in told[11 : 15 if ended else 13]) / _TICKS


def _pgbench(server: PostgresServer, *arguments: str) -> str:
    program = server.binaries / "pgbench"
    where = ["-h", "127.0.0.1", "-p", str(server.port), "-U", SERVER_USER, _NAME]
    there = ["taskset", "-c", str(_cores()[0])]
    done = subprocess.run([*there, program, *arguments, *where], capture_output=True, text=True, check=True)
    return done.stdout
