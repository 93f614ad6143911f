"""One seed after another: a lake with some random views and a random history, and a script for each failure."""

from __future__ import annotations

import logging
import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tests.fuzz.case import Case
from tests.fuzz.grammar import FEATURES, Columns, Views
from tests.fuzz.histories import TABLES, Contents, Histories
from tests.fuzz.queries import View
from tests.fuzz.script import script
from tests.fuzz.shrink import Shrinker
from tests.fuzz.trial import Failure, Read, Trial, is_accepted, plain_read, run_cases

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BASE: dict[str, Columns] = {name: list(columns.items()) for name, columns in TABLES.items()}


@dataclass(frozen=True)
class Settings:
    views: int = 6
    """So many views the lake is to have; three times as many are tried, since some are refused."""
    rounds: int = 3
    features: frozenset[str] = frozenset(FEATURES)
    supported: frozenset[str] = frozenset({"MISREAD"})
    """Reason codes with which no view may be refused."""
    shrink_seconds: float = 180.0
    scripts: Path = Path(tempfile.gettempdir()) / "headwater-fuzz"
    read: Read = plain_read


@dataclass
class Summary:
    lakes: int = 0
    views: int = 0
    checks: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    unanswered: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        refused = ", ".join(f"{code} {count}" for code, count in self.refused.most_common()) or "none"
        lines = [f"{self.lakes} lakes, {self.views} views, {self.checks} comparisons; refused: {refused}"]
        if self.unanswered:
            lines.append(f"{len(self.unanswered)} texts that Spark itself can't answer: {self.unanswered[0]}")
        lines.append(f"{len(self.failures)} failures")
        return "\n".join([*lines, *self.failures])


@dataclass
class Campaign:
    spark: SparkSession
    folder: Path
    settings: Settings = Settings()
    progress: Callable[[str], None] = lambda _: None
    summary: Summary = field(default_factory=Summary)

    def __post_init__(self) -> None:
        # Texts that Spark does not take are part of the plan.
        logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)

    def run(self, seed: int) -> list[str]:
        """One lake; its failures, told with the shrunk script."""
        settings, started = self.settings, time.monotonic()
        histories = Histories(random.Random(f"history {seed}"))
        contents, rounds = histories.contents(), histories.rounds(settings.rounds)
        trial = Trial(self.spark, self._place(), contents, supported=settings.supported, read=settings.read)
        try:
            case = Case(contents, self._views(trial, seed), rounds)
            outcome = trial.run(rounds)
        finally:
            trial.close()
        shutil.rmtree(trial.world.folder, ignore_errors=True)
        self.summary.lakes += 1
        self.summary.views += len(case.views)
        self.summary.checks += outcome.checks
        self.summary.refused.update(outcome.refused.values())
        self.summary.unanswered += [f"seed {seed}: {each}" for each in outcome.unanswered.values()]
        self.progress(
            f"seed {seed}: {len(case.views)} views, {len(outcome.refused)} refused, {outcome.checks} comparisons, "
            f"{len(outcome.failures)} failures, {time.monotonic() - started:.0f} s"
        )
        return [self._told(seed, case, failure, outcome.contents) for failure in outcome.failures]

    def _views(self, trial: Trial, seed: int) -> tuple[View, ...]:
        made: list[View] = []
        columns: dict[str, Columns] = {}
        for number in range(3 * self.settings.views):
            if len(columns) == self.settings.views:
                break
            view, found = self._acceptable(random.Random(f"view {seed} {number}"), f"v{number}", made, columns)
            if trial.create(view, text_of(view, made)):
                columns[view.name] = found
            if view.name not in trial.outcome.refused:
                made.append(view)
        return tuple(made)

    def _acceptable(
        self, rng: random.Random, name: str, made: list[View], columns: dict[str, Columns]
    ) -> tuple[View, Columns]:
        """The first view that Spark takes."""
        while True:
            view, found = Views(rng, BASE, columns, self.settings.features).view(name)
            if is_accepted(self.spark, text_of(view, made)):
                return view, found

    def _told(self, seed: int, case: Case, failure: Failure, before: list[tuple[Contents, ...]]) -> str:
        self.progress(f"seed {seed}, {failure.view}: {failure.kind}: {failure.message}\n  shrinking")
        shrinker = Shrinker(
            self._run_cases,
            lambda each: all(is_accepted(self.spark, each.text_of(view.name)) for view in each.views),
            seconds=self.settings.shrink_seconds,
            progress=lambda text: self.progress(f"  {text}"),
        )
        small, how = shrinker.shrink(case, failure, before)
        title = f"Seed {seed}, {failure.view}: {how.kind}."
        self.settings.scripts.mkdir(parents=True, exist_ok=True)
        path = self.settings.scripts / f"seed{seed}_{failure.view}.py"
        path.write_text(script(small, how, title), encoding="utf-8")
        told = f"{title} {how.message}\n  {small.views[-1].text()}\n  {path}"
        self.summary.failures.append(told)
        self.progress(told)
        return told

    def _run_cases(self, cases: Sequence[Case]) -> list[Failure | None]:
        return run_cases(self.spark, self._place(), cases, supported=self.settings.supported, read=self.settings.read)

    def _place(self) -> Path:
        return Path(tempfile.mkdtemp(dir=self.folder))


def text_of(view: View, below: Sequence[View]) -> str:
    return Case((), (*below, view), ()).text_of(view.name)
