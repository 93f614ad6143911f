"""The line that shows that something goes on: always on stderr, so that stdout stays the answer.

On a terminal it is one live line with a spinner and the time elapsed; elsewhere, and with ``--json``, plain lines.
"""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import final

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn


@final
class ProgressLine:
    """Use it in a ``with`` block; call it with what has begun."""

    def __init__(self, *, live: bool) -> None:
        self._console = Console(stderr=True)
        self._live = live and self._console.is_terminal
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self._started = time.monotonic()
        self._shown: str | None = None

    def __enter__(self) -> ProgressLine:
        self._started = time.monotonic()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()

    def __call__(self, text: str) -> None:
        if not self._live:
            if text != self._shown:
                print(f"{time.monotonic() - self._started:6.1f} s  {text}", file=sys.stderr, flush=True)
            self._shown = text
            return
        if self._progress is None:
            columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
            self._progress = Progress(*columns, console=self._console, transient=True)
            self._progress.start()
        if self._task is not None:
            self._progress.remove_task(self._task)
        self._task = self._progress.add_task(text, total=None)

    def clear(self) -> None:
        """Take the live line away, to print something; the next call brings it back."""
        if self._progress is not None:
            self._progress.stop()
        self._progress, self._task = None, None
