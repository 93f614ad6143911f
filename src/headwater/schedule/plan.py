"""Maintenance plans, and what it means for one to be valid, lazy, greedy and minimal [He05 §2, §3, Definitions 1 to 3].

The four properties are separate functions over the replayed plan, each a transcription of its definition, so that
they can judge what the algorithms beside them build. ``greedy_actions`` gives, for a full backlog, all valid actions
that are greedy and minimal: the only choices that a lazy, greedy and minimal (LGM) plan has.

*Minimality* asks that no non-empty set of emptied tables can be left out. Leaving out one is enough to look at: cost
functions are monotone, so leaving out more only makes the post-action backlog dearer.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

from headwater.errors import InternalError
from headwater.schedule.problem import Arrivals, Counts, Promise, add, nothing, subtract

_ALL_SETS = 8  # tables of which every set is looked at


@dataclass(frozen=True, slots=True)
class Action:
    """p_t: of each table, how many of its oldest pending modifications are processed."""

    counts: Counts

    @classmethod
    def none(cls, tables: int) -> Action:
        return cls(nothing(tables))

    @classmethod
    def emptying(cls, tables: frozenset[int], backlog: Counts) -> Action:
        """The greedy action that empties these tables and leaves the others alone."""
        return cls(tuple(count if table in tables else 0 for table, count in enumerate(backlog)))

    @property
    def is_none(self) -> bool:
        return not any(self.counts)

    @property
    def touched(self) -> frozenset[int]:
        """The tables of which something is processed."""
        return frozenset(table for table, count in enumerate(self.counts) if count)


@dataclass(frozen=True, slots=True)
class MaintenancePlan:
    """p_0, ..., p_T; the view is refreshed at T."""

    actions: tuple[Action, ...]

    def cost(self, promise: Promise) -> float:
        return sum(promise.cost(action.counts) for action in self.actions)

    def actions_on(self, table: int) -> tuple[tuple[int, int], ...]:
        """P(i): (time, count) of every action on a table."""
        return tuple((time, action.counts[table]) for time, action in enumerate(self.actions) if action.counts[table])


@dataclass(frozen=True, slots=True)
class Moment:
    """A step of a replayed plan: the backlog before the action, the action, the backlog after it."""

    time: int
    before: Counts  # pre-action state
    action: Action
    after: Counts  # post-action state


def replay(plan: MaintenancePlan, arrivals: Arrivals) -> tuple[Moment, ...]:
    """The states that the plan goes through, right or wrong."""
    if len(plan.actions) != len(arrivals.steps):
        raise InternalError(f"a plan of {len(plan.actions)} actions was given {len(arrivals.steps)} steps of arrivals")
    moments = []
    backlog = nothing(arrivals.tables)
    for time, (action, arrived) in enumerate(zip(plan.actions, arrivals.steps, strict=True)):
        before = add(backlog, arrived)
        backlog = subtract(before, action.counts)
        moments.append(Moment(time, before, action, backlog))
    return tuple(moments)


def is_valid(plan: MaintenancePlan, arrivals: Arrivals, promise: Promise) -> bool:
    """[Definition 1] Nothing is processed before it is there, no post-action backlog is full, the last one is empty."""
    *running, last = replay(plan, arrivals)
    return last.action.counts == last.before and all(
        min(moment.action.counts) >= 0 and min(moment.after) >= 0 and not promise.is_full(moment.after)
        for moment in running
    )


def is_lazy(plan: MaintenancePlan, arrivals: Arrivals, promise: Promise) -> bool:
    """[Definition 2] An action before T is taken only when the backlog is full."""
    *running, _ = replay(plan, arrivals)
    return all(moment.action.is_none or promise.is_full(moment.before) for moment in running)


def is_greedy(plan: MaintenancePlan, arrivals: Arrivals) -> bool:
    """[Definition 3] An action empties a table or leaves it alone."""
    return all(
        count in (0, pending)
        for moment in replay(plan, arrivals)
        for count, pending in zip(moment.action.counts, moment.before, strict=True)
    )


def is_minimal(plan: MaintenancePlan, arrivals: Arrivals, promise: Promise) -> bool:
    """[Definition 3] No table that an action before T touches could have been left alone."""
    *running, _ = replay(plan, arrivals)
    return all(is_minimal_action(moment.action, moment.before, promise) for moment in running)


def is_lgm(plan: MaintenancePlan, arrivals: Arrivals, promise: Promise) -> bool:
    return is_lazy(plan, arrivals, promise) and is_greedy(plan, arrivals) and is_minimal(plan, arrivals, promise)


def is_minimal_action(action: Action, backlog: Counts, promise: Promise) -> bool:
    after = subtract(backlog, action.counts)
    return all(
        promise.is_full((*after[:table], backlog[table], *after[table + 1 :])) for table in sorted(action.touched)
    )


def greedy_actions(backlog: Counts, promise: Promise) -> tuple[Action, ...]:
    """Every valid, greedy and minimal action on a full backlog; fewer tables first, then in table order.

    Sets are tried by size, and one that holds a set already found can't be minimal. Up to 2^n of them are looked at:
    n is the number of tables of one view [He05 §4.3].

    Where tables share a cost, one that could be left alone may be cheaper now than later: then all valid sets count,
    for more than ``_ALL_SETS`` tables the minimal ones and that of all tables.
    """
    costs = [cost(count) for cost, count in zip(promise.costs, backlog, strict=True)]
    pending = [table for table, count in enumerate(backlog) if count]
    found: list[frozenset[int]] = []
    minimal = not promise.shared or len(pending) > _ALL_SETS
    for size in range(len(pending) + 1):
        for chosen in map(frozenset, combinations(pending, size)):
            if minimal and any(smaller <= chosen for smaller in found):
                continue
            # summed as ``Promise.cost`` does, so that both agree to the last bit
            left = sum(0.0 if table in chosen else cost for table, cost in enumerate(costs))
            if left - promise.shared * max(0, len(pending) - size - 1) <= promise.cost_limit:
                found.append(chosen)
    if promise.shared and frozenset(pending) not in found:
        found.append(frozenset(pending))
    return tuple(Action.emptying(chosen, backlog) for chosen in found)
