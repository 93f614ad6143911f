"""What the view's site hears, what it has done, and what it waits for: events, instructions, and the reasons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from headwater.propagate.version_numbers.computation import Question
from headwater.propagate.version_numbers.numbers import (
    BaseRelationVersion,
    DataSourceVersion,
    RefreshedVersion,
    SourceName,
)
from headwater.propagate.version_numbers.questions import SourceAnswer, ViewAnswer
from headwater.propagate.version_numbers.updates import Transaction
from headwater.propagate.version_numbers.view_change import ViewStep


@dataclass(frozen=True, slots=True)
class Tick:
    """Nothing came, but time has passed."""


Event: TypeAlias = Transaction | SourceAnswer | ViewAnswer | Tick


@dataclass(frozen=True, slots=True)
class Ask:
    question: Question


@dataclass(frozen=True, slots=True)
class Apply:
    """Change the view in one step, after all that were applied before; it then reflects ``refreshed``."""

    transaction: Transaction
    steps: tuple[ViewStep, ...]
    refreshed: tuple[RefreshedVersion, ...]


@dataclass(frozen=True, slots=True)
class AskAgain:
    """Have the source tell its transactions again: those named, or, with none named, all after ``after``."""

    source: SourceName
    versions: tuple[DataSourceVersion, ...] = ()
    after: DataSourceVersion | None = None


@dataclass(frozen=True, slots=True)
class AskAgainForUpdates:
    """Have the source tell again the transactions that led a relation to these versions."""

    source: SourceName
    table: str
    versions: tuple[BaseRelationVersion, ...]


Instruction: TypeAlias = Ask | Apply | AskAgain | AskAgainForUpdates


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait, in the caller's unit of time, before asking again; and again after as long."""

    answer: float  # for an answer
    notification: float  # for a notification that a later one, or an answer, has overtaken
    silence: float  # for any notification at all: the newest may be lost, and nothing overtakes it


@dataclass(frozen=True, slots=True)
class AwaitsAnswer:
    question: Question
    since: float
    attempts: int

    def __str__(self) -> str:
        return f"an answer to {self.question}, since {self.since}, asked {self.attempts} times"


@dataclass(frozen=True, slots=True)
class AwaitsTransactions:
    source: SourceName
    versions: tuple[DataSourceVersion, ...]
    since: float

    def __str__(self) -> str:
        return f"transactions {list(self.versions)} of {self.source}, since {self.since}: later ones are here"


@dataclass(frozen=True, slots=True)
class AwaitsUpdates:
    source: SourceName
    table: str
    versions: tuple[BaseRelationVersion, ...]
    since: float

    def __str__(self) -> str:
        return f"updates {list(self.versions)} of {self.table}, since {self.since}: an answer has seen them"


Awaited: TypeAlias = AwaitsAnswer | AwaitsTransactions | AwaitsUpdates
