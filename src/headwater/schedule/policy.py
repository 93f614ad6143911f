"""Policies: what to process now, decided step by step [He05 §4.2, §4.3, §5].

A policy is a value without state. ``decide`` is given what it remembered and the situation at this step, and returns
the action and what to remember: the same in, the same out. The simulator calls it over made-up arrivals, the service
over real ones, and a test can put it in any situation. Time and cost so far count from the last refresh [He05 §4.3];
memory outlives refreshes, since rates of arrival do not change because somebody looked.

``Naive`` is the paper's baseline, symmetric batching: when the backlog is full, process all of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from headwater.schedule.plan import Action
from headwater.schedule.problem import Counts, Promise

Memory = TypeVar("Memory")


@dataclass(frozen=True, slots=True)
class Situation:
    """A step, before its action."""

    time: int  # t: steps since the last refresh
    arrived: Counts  # d_t
    backlog: Counts  # s_t, with what arrived
    spent: float  # F_t: the cost of all actions since the last refresh
    promise: Promise

    @property
    def is_full(self) -> bool:
        return self.promise.is_full(self.backlog)


@dataclass(frozen=True, slots=True)
class Alternative:
    """An action that was considered, its cost, and the figure by which the policy compares; the least wins."""

    action: Action
    cost: float
    score: float


@dataclass(frozen=True, slots=True)
class Decision(Generic[Memory]):
    action: Action
    memory: Memory
    considered: tuple[Alternative, ...] = ()  # the numbers behind it; empty when there was nothing to choose


class Policy(Protocol[Memory]):
    @property
    def name(self) -> str: ...

    def begin(self, tables: int) -> Memory:
        """What is remembered before the first step."""
        ...

    def decide(self, memory: Memory, situation: Situation) -> Decision[Memory]:
        """A valid action: the backlog after it is not full. Called at every step, also when nothing arrived."""
        ...


@dataclass(frozen=True, slots=True)
class Naive:
    """NAIVE: everything, whenever the backlog is full."""

    @property
    def name(self) -> str:
        return "naive"

    def begin(self, tables: int) -> None:  # noqa: ARG002 nothing to remember of any
        return None

    def decide(self, memory: None, situation: Situation) -> Decision[None]:  # noqa: ARG002
        backlog = situation.backlog
        return Decision(Action(backlog) if situation.is_full else Action.none(len(backlog)), None)
