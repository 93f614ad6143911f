"""A Headwater driver in a process of its own: told what to do, watched at its durable points, paused and killed.

The process is light: a client of a Spark Connect server, forked from a server process that has everything imported
(``forkserver``; forked before any gRPC channel is open). The one who is killed is Headwater, not Spark.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from headwater.durable import DurablePoint
from headwater.engine.session import TINY_DATA

PATIENCE = 180.0  # seconds: for a busy machine, not for a slow test
TINY = TINY_DATA | {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.databricks.delta.snapshotPartitions": "1",
}


@dataclass(frozen=True)
class Watch:
    """Where: a durable point, or a word in a message of progress, or ``lease KIND:`` for just before such a lease is
    asked for; when it comes there for the ``nth`` time."""

    where: DurablePoint | str
    nth: int = 1


@dataclass(frozen=True)
class Setup:
    """How the driver connects, and what becomes of it."""

    url: str
    folder: Path
    catalog: str | None = None
    lease_wait: float = PATIENCE
    lease_ttl: float | None = None
    die_at: Watch | None = None
    hold_at: Watch | None = None
    stop_at: Watch | None = None
    """Stop there (SIGSTOP to itself), heartbeats and all; but not inside a write transaction of the catalog, where it
    would lock out everybody."""
    die_after_write: int | None = None
    """Die when the n-th write transaction of the catalog has been committed."""


class DriverFailed(Exception):
    """What the driver's call raised, told across the process boundary."""

    def __init__(self, kind: str, code: str | None, message: str, fields: dict[str, Any]) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind, self.code, self.fields = kind, code, fields


class DriverDied(Exception):
    def __init__(self, exit_code: int | None, trace: list[str]) -> None:
        super().__init__(f"the driver ended with {exit_code} after {trace}")
        self.exit_code, self.trace = exit_code, trace


@dataclass
class Driver:
    """The near end. ``start`` and ``result``, or ``call`` for both; ``held`` and ``go`` around a ``hold_at``,
    ``stopped`` and ``resume`` around a ``stop_at``."""

    process: Any
    pipe: Connection
    trace: list[str] = field(default_factory=list)
    """Names of the durable points that it has passed."""
    _held: bool = False
    _answer: tuple[Any, ...] | None = None

    @property
    def pid(self) -> int:
        return int(self.process.pid)

    def start(self, action: str, *arguments: Any, **options: Any) -> None:
        self._answer = None
        self.pipe.send(("call", action, arguments, options))

    def call(self, action: str, *arguments: Any, **options: Any) -> Any:
        self.start(action, *arguments, **options)
        return self.result()

    def result(self, timeout: float = PATIENCE) -> Any:
        self._wait(lambda: self._answer is not None, timeout, "an answer")
        assert self._answer is not None
        kind, *rest = self._answer
        if kind == "failed":
            raise DriverFailed(*rest)
        return rest[0]

    def held(self, timeout: float = PATIENCE) -> None:
        """Wait until it stands at its ``hold_at``."""
        self._wait(lambda: self._held, timeout, "the place to hold at")

    def go(self) -> None:
        self._held = False
        self.pipe.send(("go",))

    def passed(self, point: DurablePoint, timeout: float = PATIENCE) -> None:
        self._wait(lambda: point.name in self.trace, timeout, point.name)

    def is_busy(self, seconds: float) -> bool:
        """Whether no answer comes for so long."""
        deadline = time.monotonic() + seconds
        while self._answer is None and (left := deadline - time.monotonic()) > 0:
            self._receive(left)
        return self._answer is None

    def pause(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)
        self.stopped()

    def stopped(self, timeout: float = PATIENCE) -> None:
        """Wait until it is stopped, by ``pause`` or at its ``stop_at``."""
        deadline = time.monotonic() + timeout
        while (state := _state(self.pid)) not in "Tt":
            if state in "ZX" or time.monotonic() > deadline:
                raise AssertionError(f"the driver is not stopped but in state {state}; it passed {self.trace}")
            self._receive(0.01)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        if self.process.is_alive():
            os.kill(self.pid, signal.SIGKILL)
        self.process.join(PATIENCE)

    def dies(self, action: str, *arguments: Any, **options: Any) -> list[str]:
        """Call what kills it; the durable points that it passed until then. Fails unless it died by SIGKILL."""
        try:
            answer = self.call(action, *arguments, **options)
        except DriverDied as death:
            if death.exit_code != -signal.SIGKILL:
                raise
            return self.trace
        raise AssertionError(f"{action} was not killed but answered {answer}; it passed {self.trace}")

    def _wait(self, ready: Callable[[], bool], timeout: float, what: str) -> None:
        deadline = time.monotonic() + timeout
        while not ready():
            left = deadline - time.monotonic()
            if left <= 0:
                raise AssertionError(f"the driver did not come to {what} in {timeout} s; it passed {self.trace}")
            self._receive(left)

    def _receive(self, timeout: float) -> None:
        if not self.pipe.poll(timeout):
            return
        try:
            kind, *rest = self.pipe.recv()
        except (EOFError, ConnectionResetError):
            self.process.join(PATIENCE)
            raise DriverDied(self.process.exitcode, self.trace) from None
        match kind:
            case "at":
                self.trace.append(rest[0])
            case "held":
                self._held = True
            case _:
                self._answer = (kind, *rest)


@contextmanager
def driver(setup: Setup) -> Iterator[Driver]:
    near, far = multiprocessing.Pipe()
    process = _forkserver().Process(target=_serve, args=(setup, far), daemon=True)
    process.start()
    far.close()
    made = Driver(process, near)
    try:
        yield made
    finally:
        if process.is_alive():
            os.kill(process.pid, signal.SIGCONT)
            with near:
                pass
            process.join(5)
        made.kill()
        near.close()


@cache
def _forkserver() -> Any:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        [
            "pandas",
            "pyspark.sql.connect.session",
            "pyspark.sql.connect.functions",
            "pyspark.sql.connect.observation",
            "headwater.lake",
            "tests.support.actions",
        ]
    )
    return context


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return "X"


# ---------------------------------------------------------------------- the far end


def _serve(setup: Setup, pipe: Connection) -> None:
    from pyspark.sql import SparkSession

    import headwater
    from headwater.errors import HeadwaterError
    from tests.support import actions

    session = SparkSession.builder.remote(setup.url).create()
    for key, value in TINY.items():
        session.conf.set(key, value)
    far = _FarEnd(setup, pipe)
    lake = headwater.connect(
        setup.folder,
        spark=session,
        catalog=setup.catalog,
        lease_wait=setup.lease_wait,
        on_durable_point=far.at_point,
        progress=far.at_progress,
    )
    if setup.lease_ttl is not None:
        lake._context.lease_ttl = setup.lease_ttl
    far.watch_writes(lake._context.catalog._database)
    lake._context.catalog = _Leasing(lake._context.catalog, far)  # type: ignore[assignment]
    while (order := far.next_order()) is not None:
        _, name, arguments, options = order
        try:
            action = getattr(actions, name, None) or _method(name)
            pipe.send(("done", action(lake, *arguments, **options)))
        except HeadwaterError as error:
            fields = {key: value for key, value in error.fields.items() if isinstance(value, (int, str, type(None)))}
            pipe.send(("failed", type(error).__name__, error.code, str(error), fields))
        except Exception as error:  # noqa: BLE001 (it is told to the test, which fails on it)
            import traceback

            told = f"{error}\n{traceback.format_exc()[-6000:]}"
            pipe.send(("failed", type(error).__name__, None, told, {}))


def _method(name: str) -> Callable[..., Any]:
    return lambda lake, *arguments, **options: getattr(lake, name)(*arguments, **options)


class _FarEnd:
    def __init__(self, setup: Setup, pipe: Connection) -> None:
        self._setup = setup
        self._pipe = pipe
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._written = 0
        self._seen: dict[Watch, int] = {}

    def next_order(self) -> tuple[Any, ...] | None:
        try:
            return tuple(self._pipe.recv())
        except EOFError:
            return None

    def at_point(self, point: DurablePoint) -> None:
        with self._lock:
            self._pipe.send(("at", point.name))
        self._act(lambda watch: watch.where is point)

    def at_progress(self, message: str) -> None:
        self._act(lambda watch: isinstance(watch.where, str) and watch.where in message)

    def watch_writes(self, database: Any) -> None:
        plain = database.write

        @contextmanager
        def write() -> Iterator[Any]:
            with self._writing, plain() as connection:
                yield connection
            self._written += 1
            if self._written == self._setup.die_after_write:
                os.kill(os.getpid(), signal.SIGKILL)

        database.write = write

    def _act(self, matches: Callable[[Watch], bool]) -> None:
        if self._is_now(self._setup.die_at, matches):
            os.kill(os.getpid(), signal.SIGKILL)
        if self._is_now(self._setup.hold_at, matches):
            self._pipe.send(("held",))
            assert self._pipe.recv() == ("go",)
        if self._is_now(self._setup.stop_at, matches):
            with self._writing:
                os.kill(os.getpid(), signal.SIGSTOP)

    def _is_now(self, watch: Watch | None, matches: Callable[[Watch], bool]) -> bool:
        if watch is None or not matches(watch):
            return False
        self._seen[watch] = self._seen.get(watch, 0) + 1
        return self._seen[watch] == watch.nth


class _Leasing:
    """A catalog that tells before it asks for a lease."""

    def __init__(self, catalog: Any, far: _FarEnd) -> None:
        self._catalog, self._far = catalog, far

    def __getattr__(self, name: str) -> Any:
        return getattr(self._catalog, name)

    def lease(self, resource: str, **how: Any) -> Any:
        self._far.at_progress(f"lease {resource}")
        return self._catalog.lease(resource, **how)
