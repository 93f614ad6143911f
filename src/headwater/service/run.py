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

from headwater.lake import Lake
from headwater.service.http import serving
from headwater.service.loop import Loop, LoopSettings, Tell
from headwater.service.metrics import Metrics
from headwater.service.spark_lake import SparkLake

DEFAULT_PORT = 9464
_STUCK = 900.0  # seconds without a round after which the service calls itself unwell


class SystemClock:
    """Time as it passes; a stop cuts a wait short."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop

    def now(self) -> float:
        return time.monotonic()

    def wait(self, seconds: float) -> None:
        self._stop.wait(seconds)


@dataclass(frozen=True, slots=True)
class RunSettings:
    views: Collection[str] | None = None
    loop: LoopSettings = field(default_factory=LoopSettings)
    port: int | None = DEFAULT_PORT
    seconds: float | None = None  # how long to run; None is until stopped


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
    stop = threading.Event() if stop is None else stop
    clock = SystemClock(stop)
    metrics = Metrics()
    write = json_lines(log)

    def tell(event: dict[str, Any]) -> None:
        metrics(event)
        write(event)

    loop = Loop(SparkLake(context, lambda: lake.release().csn, settings.views), clock, tell, settings.loop)
    until = None if settings.seconds is None else clock.now() + settings.seconds
    last_round = clock.now()

    def stopped() -> bool:
        nonlocal last_round
        last_round = clock.now()
        return stop.is_set() or (until is not None and last_round >= until)

    def figures() -> str:
        return metrics.text(loop.seen, busy=loop.busy, pressed=loop.pressed)

    with (
        stopping(stop) as signals,
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
def stopping(stop: threading.Event) -> Iterator[list[str]]:
    """The first signal asks the loop to end, the second ends the process as it would have without us.

    Gives the names of the signals that came. A handler may interrupt anything, so it writes nothing itself.
    """
    came: list[str] = []
    if threading.current_thread() is not threading.main_thread():
        yield came  # signals belong to the main thread; whoever runs us elsewhere stops us otherwise
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def asked(number: int, _frame: object) -> None:
        came.append(signal.Signals(number).name)
        stop.set()
        for each, handler in before.items():
            signal.signal(each, handler)

    for number in before:
        signal.signal(number, asked)
    try:
        yield came
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
