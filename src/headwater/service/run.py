"""The service as a process: signals, the log, the doors, and the loop between them.

SIGTERM and SIGINT end it when the step that is running is done; a second one ends it at once. Either is safe, as is
SIGKILL: every step is recorded before it begins, and the next driver finishes what was left.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, TextIO

from headwater.engine.priority import give_way
from headwater.lake import Lake
from headwater.service.http import serving
from headwater.service.loop import Loop, LoopSettings, Tell
from headwater.service.metrics import Metrics
from headwater.service.spark_lake import SparkLake

DEFAULT_PORT = 9464
_NAP = 0.05
_STUCK = 900.0  # seconds without a round after which the service calls itself unwell


class SystemClock:
    """Time as it passes; ``stopped`` cuts a wait short, and so does ``asked`` where a reader is reason enough.

    A wait is many short sleeps and takes no lock: a signal's handler, which may come in between any two instructions,
    has then nothing to wait for.
    """

    def __init__(self, stopped: Callable[[], bool], asked: Callable[[], bool]) -> None:
        self._stopped = stopped
        self._asked = asked

    def now(self) -> float:
        return time.monotonic()

    def wait(self, seconds: float) -> None:
        _sleep(seconds, lambda: self._stopped() or self._asked())

    def rest(self, seconds: float) -> None:
        _sleep(seconds, self._stopped)


def _sleep(seconds: float, awake: Callable[[], bool]) -> None:
    until = time.monotonic() + seconds
    while not awake() and (left := until - time.monotonic()) > 0:
        time.sleep(min(_NAP, left))


@dataclass(frozen=True, slots=True)
class RunSettings:
    views: Collection[str] | None = None
    loop: LoopSettings = field(default_factory=LoopSettings)
    port: int | None = DEFAULT_PORT
    seconds: float | None = None  # how long to run; None is until stopped
    niceness: int = 0  # how far to give way to others on this machine


def run(
    lake: Lake,
    log: TextIO,
    settings: RunSettings,
    *,
    stop: threading.Event | None = None,
    started: Callable[[Loop, int | None], None] = lambda _loop, _port: None,
) -> None:
    """Keep the views until a signal comes or ``stop`` is set. ``started`` is called when the doors are open."""
    context = lake._context  # noqa: SLF001 (the service is the lake's drivers, taken in turn)
    lake.spark  # noqa: B018 (Spark takes signals for itself when it starts, so it starts before we do)
    if settings.niceness:
        give_way(settings.niceness, also_self=True)
    signals: list[str] = []

    def asked_to_stop() -> bool:
        return bool(signals) or (stop is not None and stop.is_set())

    clock = SystemClock(asked_to_stop, lambda: loop.is_asked)
    metrics = Metrics()
    write = json_lines(log)

    def tell(event: dict[str, Any]) -> None:
        metrics(event)
        write(event)

    acting = SparkLake(context, lambda: lake.release().csn, lake.collect, settings.views)
    loop = Loop(acting, clock, tell, settings.loop)
    until = None if settings.seconds is None else clock.now() + settings.seconds
    last_round = clock.now()

    def stopped() -> bool:
        nonlocal last_round
        last_round = clock.now()
        return asked_to_stop() or (until is not None and last_round >= until)

    def figures() -> str:
        return metrics.text(loop.seen, busy=loop.busy, pressed=loop.pressed)

    with (
        taking_signals(signals),
        _doors(loop, figures, settings.port, lambda: clock.now() - last_round < _STUCK) as port,
    ):
        tell({"event": "started", "pid": os.getpid(), "lake": context.location, "port": port})
        started(loop, port)
        try:
            loop.run(stopped)
        finally:
            tell({"event": "stopped", "signal": signals[0] if signals else None})


@contextmanager
def _doors(loop: Loop, metrics: Callable[[], str], port: int | None, alive: Callable[[], bool]) -> Iterator[int | None]:
    if port is None:
        yield None
        return
    with serving(loop, metrics, port=port, alive=alive) as opened:
        yield opened


@contextmanager
def taking_signals(came: list[str]) -> Iterator[None]:
    """The first signal is added to ``came``, the second does what it would have done without us."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals belong to the main thread; whoever runs us elsewhere stops us otherwise
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def asked(number: int, _frame: object) -> None:
        came.append(signal.Signals(number).name)
        for each, handler in before.items():
            signal.signal(each, handler)

    for number in before:
        signal.signal(number, asked)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def json_lines(log: TextIO) -> Tell:
    """One line for each event, with the time in front."""
    lock = threading.Lock()

    def write(event: dict[str, Any]) -> None:
        at = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        with lock:
            log.write(json.dumps({"at": at, **event}, ensure_ascii=False) + "\n")
            log.flush()

    return write
