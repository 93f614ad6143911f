"""A lake that costs time and nothing else: arrivals by rate, steps by cost functions, a clock that jumps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from headwater.errors import HeadwaterError
from headwater.schedule.cost import CostFunction
from headwater.schedule.keeping import Seen
from headwater.schedule.problem import Promise
from headwater.schedule.service_level import ServiceLevel
from headwater.schedule.view_costs import RECENT, JointCosts, Measured, ViewCosts, fitted
from headwater.service.loop import Refreshed

CAPTURE, APPLY = 0.2, 1.0


@dataclass
class FakeClock:
    time: float = 1000.0

    def now(self) -> float:
        return self.time

    def wait(self, seconds: float) -> None:
        self.time += seconds

    rest = wait


@dataclass
class FakeView:
    level: ServiceLevel
    costs: tuple[CostFunction, ...]  # what steps really take
    rates: tuple[float, ...]  # rows a second
    noise: float = 0.0
    shared: float = 0.0  # what each part beyond the first saves in a step of several
    samples: list[list[Measured]] = field(default_factory=list)
    joint_samples: list[Measured] = field(default_factory=list)
    applied_samples: list[Measured] = field(default_factory=list)
    processed: list[int] = field(default_factory=list)
    shown: list[int] = field(default_factory=list)
    fails: HeadwaterError | None = None
    apart: bool = True
    stuck: str | None = None
    processing: float = 0.0  # seconds spent on propagation
    measured: bool = True
    known: tuple[int, ...] = ()
    fit: ViewCosts | None = None

    def __post_init__(self) -> None:
        self.processed = [0] * len(self.costs)
        self.shown = [0] * len(self.costs)
        self.samples = [[] for _ in self.costs]
        if self.measured:
            sizes = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
            self.samples = [[Measured(rows, f(rows), 0.0) for rows in sizes for _ in range(3)] for f in self.costs]
            self.applied_samples = [Measured(rows, APPLY, 0.0) for rows in sizes]


class FakeLake:
    """``deeds`` is the story: (time, view, what was done)."""

    def __init__(self, clock: FakeClock, views: dict[str, FakeView], seed: int = 1) -> None:
        self.clock = clock
        self.views = views
        self.began = clock.time
        self.deeds: list[tuple[float, str, str, tuple[int, ...]]] = []
        self.captures = 0
        self.releases = 0
        self.collections = 0
        self.breaks: HeadwaterError | None = None
        self.chores_fail: HeadwaterError | None = None
        self._random = Random(seed)
        self.after_deed: Callable[[], None] = lambda: None

    def arrived(self, name: str) -> tuple[int, ...]:
        return tuple(int(rate * (self.clock.time - self.began)) for rate in self.views[name].rates)

    def pending(self, name: str) -> tuple[int, ...]:
        done = self.views[name].processed
        return tuple(all_ - taken for all_, taken in zip(self.arrived(name), done, strict=True))

    def true_refresh_cost(self, name: str) -> float:
        view = self.views[name]
        return CAPTURE + Promise(view.costs, 0.0, view.shared).cost(self.pending(name)) + APPLY

    # ------------------------------------------------------------------ LakeActions

    def capture(self) -> None:
        if self.breaks is not None:
            raise self.breaks
        self.captures += 1
        self.clock.time += CAPTURE

    def look(self) -> Sequence[Seen]:
        return [self._seen(name) for name in self.views]

    def process(self, view: str, counts: tuple[int, ...], csn: int) -> None:
        self._fail(view)
        self._propagate(view, counts)
        self.deeds.append((self.clock.time, view, "process", counts))
        self.after_deed()

    def refresh(self, view: str) -> Refreshed:
        self._fail(view)
        pending, target = self.pending(view), self.arrived(view)
        self.clock.time += CAPTURE
        self._propagate(view, pending)
        self.clock.time += APPLY
        own = self.views[view]
        rows = sum(target) - sum(own.shown)
        own.applied_samples.insert(0, Measured(max(1, rows), APPLY, self.clock.time))
        own.shown = list(target)
        self.deeds.append((self.clock.time, view, "refresh", pending))
        self.after_deed()
        return Refreshed(sum(target), "incremental", "CHANGES_APPLIED", rows)

    def collect(self) -> None:
        self.collections += 1
        self.clock.time += 3.0
        if self.chores_fail is not None:
            raise self.chores_fail

    def release(self) -> int:
        self.releases += 1
        self.clock.time += 1.0
        if self.chores_fail is not None:
            raise self.chores_fail
        return 7

    # ------------------------------------------------------------------

    def _fail(self, name: str) -> None:
        error = self.views[name].fails
        if error is not None:
            self.clock.time += 0.1
            raise error

    def _propagate(self, name: str, counts: tuple[int, ...]) -> None:
        """One step, as on Spark: a sample of its part, or of several together."""
        view = self.views[name]
        touched = [part for part, rows in enumerate(counts) if rows]
        if not touched:
            return
        seconds = Promise(view.costs, 0.0, view.shared).cost(counts) * (1 + view.noise * self._random.uniform(-1, 1))
        self.clock.time += seconds
        view.processing += seconds
        for part in touched:
            view.processed[part] += counts[part]
        if len(touched) == 1:
            view.samples[touched[0]].insert(0, Measured(counts[touched[0]], seconds, self.clock.time))
        else:
            view.joint_samples.insert(0, Measured(sum(counts), seconds, self.clock.time, by_part=counts))

    def _seen(self, name: str) -> Seen:
        view = self.views[name]
        known = (*map(len, view.samples), len(view.joint_samples), len(view.applied_samples) > 0)
        if known != view.known or view.fit is None:
            view.known = known
            functions = tuple(fitted(each[:RECENT]) for each in view.samples)
            view.fit = ViewCosts(
                functions,
                fitted(view.joint_samples[:20]),
                joint=JointCosts.of(functions, view.samples, view.joint_samples),
                apply=fitted(view.applied_samples[:RECENT]),
                capture=fitted([Measured(1, CAPTURE, 0.0)] * 5),
            )
        costs = view.fit
        arrived = self.arrived(name)
        unshown = [all_ - shown for all_, shown in zip(arrived, view.shown, strict=True)]
        waits = [
            self.clock.time - self.began - (shown + 1) / rate
            for shown, rate, left in zip(view.shown, view.rates, unshown, strict=True)
            if left > 0
        ]
        return Seen(
            name,
            view.level,
            tuple(f"t{number}" for number in range(len(view.costs))),
            self.pending(name),
            sum(unshown),
            max(waits, default=0.0),
            costs,
            csn=sum(view.shown),
            newest_csn=sum(arrived),
            apart=view.apart,
            stuck=view.stuck,
        )
