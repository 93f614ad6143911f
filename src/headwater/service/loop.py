"""The loop of the service: look, decide, do one thing, look again.

One thing at a time, since all views share one Spark. After each deed everything is looked at anew, so a decision never
rests on what was seen before the last one. Whose turn it is:

- a reader who waits comes first, then the view of the higher priority, then the one whose promise is nearer to broken;
- *under pressure*, when there is no idle time left and promises are broken, priority comes before waiting readers too.
  Views of low priority then fall behind first; that is said (log, metric, status), not hidden.

Pure against ``Clock`` and ``LakeActions``: with a clock that only jumps, a day is simulated in seconds.

*What goes wrong* with one view leaves the others going: it is tried again after a while, twice as long each time. What
is wrong with more than one (catalog, engine, disk) is tried again too, and ends the loop when it does not pass.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf
from typing import Any, Protocol

from headwater.errors import (
    CatalogProblem,
    EngineUnavailable,
    HeadwaterError,
    LeaseProblem,
    ServiceStopped,
    StorageFull,
    UnknownName,
)
from headwater.schedule.keeping import MOST_INTERFERENCE, Memory, Seen, Verdict, decide, done

Tell = Callable[[dict[str, Any]], None]
"""Takes an event: a dict of plain JSON."""

_WINDOW = 60.0  # seconds over which idle time is counted
_PRESSED, _RELAXED = 0.9, 0.75  # share of the window that is busy
_FIRST_PAUSE, _LONGEST_PAUSE = 2.0, 300.0
_PATIENCE = 8  # failures of the lake in a row
_CAPTURE_SHARE = 4.0  # a capture is followed by at least so many times its length without one


@dataclass(frozen=True, slots=True)
class Refreshed:
    csn: int
    mode: str
    reason: str
    rows: int


class Clock(Protocol):
    def now(self) -> float:
        """Seconds that never go back."""
        ...

    def wait(self, seconds: float) -> None:
        """Let time pass, or less if something happens."""
        ...

    def rest(self, seconds: float) -> None:
        """The same, but a reader who asks does not cut it short."""
        ...


class LakeActions(Protocol):
    """What the loop may do; each call returns when it is done."""

    def capture(self) -> None: ...

    def look(self) -> Sequence[Seen]:
        """Every view that is kept, as it stands."""
        ...

    def process(self, view: str, counts: tuple[int, ...], csn: int) -> None:
        """Propagate so many rows of each part, of what was there at the csn."""
        ...

    def refresh(self, view: str) -> Refreshed:
        """Bring the view to the newest state of its tables."""
        ...

    def release(self) -> int:
        """Publish all views at one csn; which."""
        ...

    def collect(self) -> None:
        """Remove what retention does not keep, and put small files together."""
        ...


@dataclass(slots=True, eq=False)
class Demand:
    """A reader who waits for the newest state of a view."""

    view: str
    asked_at: float
    predicted: float | None = None
    seconds: float | None = None
    within: float | None = None
    refreshed: Refreshed | None = None
    error: HeadwaterError | None = None
    finished: threading.Event = field(default_factory=threading.Event)

    @property
    def met(self) -> bool | None:
        if self.within is None or self.seconds is None:
            return None
        return self.error is None and self.seconds <= self.within

    def as_dict(self) -> dict[str, Any]:
        return {
            "view": self.view,
            "predicted": _rounded(self.predicted),
            "seconds": _rounded(self.seconds),
            "within": self.within,
            "met": self.met,
            "csn": self.refreshed.csn if self.refreshed else None,
            "mode": self.refreshed.mode if self.refreshed else None,
            "error": self.error.as_dict() if self.error else None,
        }


@dataclass(slots=True)
class _Pause:
    until: float
    length: float


@dataclass(frozen=True, slots=True)
class LoopSettings:
    tick: float = 1.0  # a step of the policies, and how often the loop looks when there is nothing to do
    heartbeat: float = 60.0  # how often everything is logged, whatever happens
    release_every: float | None = None
    collect_every: float | None = None


class Loop:
    def __init__(
        self,
        lake: LakeActions,
        clock: Clock,
        tell: Tell,
        settings: LoopSettings = LoopSettings(),  # noqa: B008
    ) -> None:
        self._lake = lake
        self._clock = clock
        self._tell = tell
        self._settings = settings
        self._memory: dict[str, Memory] = {}
        self._states: dict[str, str] = {}
        self._pauses: dict[str, _Pause] = {}
        self._demands: deque[Demand] = deque()
        self._busy: deque[tuple[float, float]] = deque()
        self._failures = 0
        self._began = self._told_at = self._capture_from = self._released_at = self._collected_at = clock.now()
        self.seen: Sequence[Seen] = ()
        self.pressed = False

    # ------------------------------------------------------------------ from other threads

    def demand(self, view: str) -> Demand:
        """Ask for the newest state of a view; wait for ``finished``."""
        asked = Demand(view, self._clock.now())
        self._demands.append(asked)
        return asked

    @property
    def is_asked(self) -> bool:
        """Whether a reader waits: reason enough to look before the next tick."""
        return bool(self._demands)

    def _waiting(self) -> tuple[Demand, ...]:
        """As one value: others may ask meanwhile."""
        return tuple(self._demands)

    @property
    def busy(self) -> float:
        """The share of the last minute in which something was done."""
        now = self._clock.now()
        start = max(self._began, now - _WINDOW)
        worked = sum(max(0.0, min(end, now) - max(begin, start)) for begin, end in tuple(self._busy))
        return worked / (now - start) if now > start else 0.0

    # ------------------------------------------------------------------ the loop

    def run(self, stopped: Callable[[], bool]) -> None:
        """Until told to stop; what is going on then is finished first."""
        try:
            while not stopped():
                if not self.round():
                    self._clock.wait(self._settings.tick)
        finally:
            for waiting in self._waiting():
                self._finish(waiting, error=ServiceStopped("The service stops.", remedy="Ask again when it runs."))

    def round(self) -> bool:
        """One look and at most one deed; whether there was one."""
        try:
            self._capture()
            self.seen = self._lake.look()
            did = self._decide()
        except HeadwaterError as error:
            self._failures += 1
            self._tell({"event": "error", "of": "lake", "failures": self._failures, **error.as_dict()})
            if self._failures >= _PATIENCE:
                raise
            self._clock.rest(min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** (self._failures - 1)))
            return False
        self._failures = 0
        return did

    def _capture(self) -> None:
        began = self._clock.now()
        if began < self._capture_from:
            return
        try:
            self._lake.capture()
        except LeaseProblem as error:
            self._tell({"event": "error", "of": "capture", **error.as_dict()})
        self._worked(began)
        ended = self._clock.now()
        self._capture_from = ended + max(self._settings.tick / 2, _CAPTURE_SHARE * (ended - began))

    def _decide(self) -> bool:
        now = self._clock.now()
        self._forget_views_that_went()
        demanded = {asked.view for asked in self._waiting()}
        verdicts = []
        for seen in self.seen:
            others = [other for other in self.seen if other.name != seen.name]
            memory = self._memory.get(seen.name) or Memory.begin(seen, now)
            verdict, self._memory[seen.name] = decide(
                seen,
                memory,
                now,
                tick=self._settings.tick,
                interference=max((other.next_action for other in others), default=0.0),
                longest=min((_bears(other) for other in others if _matters(other, seen)), default=inf),
                demanded=seen.name in demanded,
            )
            verdicts.append(verdict)
        self._note_states(verdicts)
        self._note_pressure()
        self._refuse_unknown(demanded - {seen.name for seen in self.seen})
        self._heartbeat(now, verdicts)
        ready = [each for each in verdicts if each.deed != "wait" and not self._is_paused(each, now, demanded)]
        if ready:
            self._do(min(ready, key=lambda each: self._order(each, demanded)))
            return True
        return self._release(now) or self._collect(now)

    def _order(self, verdict: Verdict, demanded: set[str]) -> tuple[float, ...]:
        waits = 0.0 if verdict.seen.name in demanded else 1.0
        rank = -float(verdict.seen.level.priority)
        return (rank, waits, -verdict.urgency) if self.pressed else (waits, rank, -verdict.urgency)

    def _is_paused(self, verdict: Verdict, now: float, demanded: set[str]) -> bool:
        pause = self._pauses.get(verdict.seen.name)
        return pause is not None and now < pause.until and verdict.seen.name not in demanded

    def _do(self, verdict: Verdict) -> None:
        name = verdict.seen.name
        answered = [asked for asked in self._waiting() if asked.view == name] if verdict.deed == "refresh" else []
        began = self._clock.now()
        for asked in answered:
            asked.within = verdict.seen.level.response_time
            if verdict.seen.predicted is not None:
                asked.predicted = began - asked.asked_at + verdict.seen.predicted
        self._tell({"event": "decision", **verdict.as_dict(), "busy": round(self.busy, 3), "pressed": self.pressed})
        refreshed = None
        try:
            if verdict.deed == "process":
                self._lake.process(name, verdict.counts, verdict.seen.newest_csn)
            else:
                refreshed = self._lake.refresh(name)
        except (CatalogProblem, EngineUnavailable, StorageFull):
            raise
        except HeadwaterError as error:
            self._failed(name, error, answered, began)
            return
        self._worked(began)
        self._pauses.pop(name, None)
        now = self._clock.now()
        self._memory[name] = done(self._memory[name], verdict, now, now - began)
        event = {"event": "done", "view": name, "action": verdict.deed, "seconds": round(now - began, 3)}
        predicted = verdict.seen.predicted if verdict.deed == "refresh" else _cost(verdict)
        event |= {"predicted": _rounded(predicted), "rows": sum(verdict.counts) or verdict.seen.unapplied}
        if refreshed is not None:
            event |= {"csn": refreshed.csn, "mode": refreshed.mode, "staleness": round(verdict.seen.staleness, 3)}
        self._tell(event)
        for asked in answered:
            self._finish(asked, refreshed=refreshed)

    def _failed(self, view: str, error: HeadwaterError, answered: Sequence[Demand], began: float) -> None:
        self._worked(began)
        last = self._pauses.get(view)
        length = _FIRST_PAUSE if last is None else min(_LONGEST_PAUSE, 2 * last.length)
        self._pauses[view] = _Pause(self._clock.now() + length, length)
        self._tell({"event": "error", "of": "view", "view": view, "again_in": length, **error.as_dict()})
        for asked in answered:
            self._finish(asked, error=error)

    def _release(self, now: float) -> bool:
        every = self._settings.release_every
        if every is None or now - self._released_at < every:
            return False
        with self._chore("release"):
            csn = self._lake.release()
            self._tell({"event": "released", "csn": csn, "seconds": round(self._clock.now() - now, 3)})
        self._worked(now)
        self._released_at = self._clock.now()
        return True

    def _collect(self, now: float) -> bool:
        every = self._settings.collect_every
        if every is None or now - self._collected_at < every:
            return False
        with self._chore("collect"):
            self._lake.collect()
            self._tell({"event": "collected", "seconds": round(self._clock.now() - now, 3)})
        self._worked(now)
        self._collected_at = self._clock.now()
        return True

    @contextmanager
    def _chore(self, name: str) -> Iterator[None]:
        """What is done when nothing is more urgent; that it fails is told, and it waits for its next time."""
        try:
            yield
        except (CatalogProblem, EngineUnavailable, StorageFull):
            raise
        except HeadwaterError as error:
            self._tell({"event": "error", "of": name, **error.as_dict()})

    # ------------------------------------------------------------------ what is told

    def _finish(
        self, asked: Demand, *, refreshed: Refreshed | None = None, error: HeadwaterError | None = None
    ) -> None:
        asked.refreshed, asked.error = refreshed, error
        asked.seconds = self._clock.now() - asked.asked_at
        self._demands.remove(asked)
        self._tell({"event": "demand", **asked.as_dict()})
        asked.finished.set()

    def _refuse_unknown(self, names: set[str]) -> None:
        for asked in [each for each in self._waiting() if each.view in names]:
            known = ", ".join(seen.name for seen in self.seen) or "none"
            error = UnknownName(f"The service does not keep a view {asked.view!r}.", remedy=f"It keeps: {known}.")
            self._finish(asked, error=error)

    def _note_states(self, verdicts: Sequence[Verdict]) -> None:
        for verdict in verdicts:
            seen, state = verdict.seen, verdict.seen.state
            before = self._states.get(seen.name)
            if state != before:
                self._states[seen.name] = state
                if before is not None or state in ("at risk", "broken"):
                    outlook = str(seen.outlook) if seen.outlook is not None else None
                    told = {"before": before, "outlook": outlook, **verdict.as_dict()}
                    self._tell({"event": "promise", **told})

    def _note_pressure(self) -> None:
        # A view whose tables can't be captured is not behind for want of time.
        behind = [seen for seen in self.seen if seen.state == "broken" and seen.stuck is None]
        busy = self.busy
        pressed = bool(behind) and busy >= _PRESSED if not self.pressed else busy >= _RELAXED
        if pressed != self.pressed:
            self.pressed = pressed
            ranked = sorted(self.seen, key=lambda seen: -seen.level.priority)
            self._tell(
                {
                    "event": "pressure",
                    "pressed": pressed,
                    "busy": round(busy, 3),
                    "broken": [seen.name for seen in behind],
                    "served_in_order": [seen.name for seen in ranked],
                }
            )

    def _heartbeat(self, now: float, verdicts: Sequence[Verdict]) -> None:
        if now - self._told_at >= self._settings.heartbeat:
            self._told_at = now
            for verdict in verdicts:
                self._tell({"event": "standing", **verdict.as_dict(), "busy": round(self.busy, 3)})

    def _forget_views_that_went(self) -> None:
        names = {seen.name for seen in self.seen}
        for gone in self._memory.keys() - names:
            del self._memory[gone]
            self._states.pop(gone, None)
            self._pauses.pop(gone, None)

    def _worked(self, began: float) -> None:
        now = self._clock.now()
        self._busy.append((began, now))
        while self._busy and self._busy[0][1] < now - _WINDOW:
            self._busy.popleft()


def _bears(seen: Seen) -> float:
    """How long the view can wait for a step of another."""
    bounds = (seen.level.response_time, seen.level.max_staleness)
    return MOST_INTERFERENCE * min((bound for bound in bounds if bound is not None), default=inf)


def _matters(other: Seen, seen: Seen) -> bool:
    return other.level.priority >= seen.level.priority


def _cost(verdict: Verdict) -> float | None:
    costs = verdict.seen.costs
    expected = costs.expected(verdict.counts, 0)
    return None if expected is None else expected - costs.overhead(0)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
