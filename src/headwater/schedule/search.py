"""A* over the graph of lazy, greedy and minimal plans [He05 §4.1].

A node is a post-action state: a step and, for each table, how many of its modifications have been processed by then
(which tells the backlog). From a node, nothing happens until the backlog is full again; there, each greedy and
minimal action leads to a next node, at the cost of the action. When the backlog is not full before T, the only edge
leads to the destination, the refresh at T. Paths from source to destination are the LGM plans (Theorem 3), so a
shortest one costs OPT_LGM.

The bound (``heuristic``) is consistent, so a node's cost is final when it is first taken from the queue, and none is
expanded twice. Edges are made when a node is expanded; the step at which the backlog is full is found by bisection,
since what has arrived only grows.

*More than two tables.* States of three tables hardly ever coincide, so the graph grows with the number of *plans*,
and an exact search over a thousand steps takes too long. ``within`` gives up exactness for a known part of the cost:
with h multiplied by w = 1 + ``within``, the plan found costs at most w times the optimum, still without expanding a
node twice (the bound is consistent), and ``lower_bound`` says what is proved. Over 1000 steps of three and
four tables and the paper's streams, a tenth makes it 30 to 300 nodes, and the plans were proved to be within 6.5 %.

*A shared cost* (``problem``) adds edges, of actions that are not minimal, and an entrance fee to each. The bounds are
those of the problem without the fee: no edge costs less there, so they stay consistent, and what is found is the best
lazy and greedy plan.

Of nodes with equal sums, the later in time goes first: they differ in how much of the sum is known, not guessed.
Further ties are broken by the counts, so that the plan does not depend on anything but the problem.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple

from headwater.errors import InternalError
from headwater.schedule.heuristic import AloneBound, LowerBound
from headwater.schedule.plan import Action, MaintenancePlan, greedy_actions
from headwater.schedule.priced import PricedBound
from headwater.schedule.problem import Arrivals, Counts, Promise, add, nothing, subtract


class Node(NamedTuple):
    """After the action at ``time``; -1 before anything arrived."""

    time: int
    processed: Counts


@dataclass(frozen=True, slots=True)
class Found:
    """The best LGM plan, and how much of the graph was looked at for it."""

    plan: MaintenancePlan
    cost: float
    lower_bound: float  # no LGM plan costs less; the cost itself if the search was exact
    expanded: int


@dataclass(frozen=True, slots=True)
class Graph:
    """The LGM plans of a problem, as edges from nodes."""

    arrivals: Arrivals
    promise: Promise
    totals: tuple[Counts, ...]

    @classmethod
    def of(cls, arrivals: Arrivals, promise: Promise) -> Graph:
        if arrivals.tables != promise.tables:
            raise InternalError(f"{arrivals.tables} tables arrive, but {promise.tables} have a cost function")
        return cls(arrivals, promise, arrivals.totals())

    @property
    def source(self) -> Node:
        return Node(-1, nothing(self.arrivals.tables))

    @property
    def destination(self) -> Node:
        return Node(self.arrivals.refresh_time, self.totals[-1])

    def edges(self, node: Node) -> Iterator[tuple[Node, Action]]:
        """EXPAND: the nodes that one LGM action leads to."""
        time = self._full_at(node)
        backlog = subtract(self.totals[time], node.processed)
        if time == self.arrivals.refresh_time:
            yield self.destination, Action(backlog)
            return
        for action in greedy_actions(backlog, self.promise):
            yield Node(time, add(node.processed, action.counts)), action

    def _full_at(self, node: Node) -> int:
        """The first step after the node at which the backlog is full, or T."""
        low, high = node.time + 1, self.arrivals.refresh_time
        reach = 1
        while low + reach < high and not self._is_full(node, low + reach):
            low += reach + 1
            reach *= 2
        high = min(high, low + reach)
        while low < high:
            middle = (low + high) // 2
            if self._is_full(node, middle):
                high = middle
            else:
                low = middle + 1
        return low

    def _is_full(self, node: Node, time: int) -> bool:
        return self.promise.is_full(subtract(self.totals[time], node.processed))


def best_lgm_plan(
    arrivals: Arrivals, promise: Promise, *, within: float = 0.0, bound: LowerBound | None = None
) -> Found:
    """A*SEARCH: an LGM plan of at most (1 + ``within``) times the least cost. ``bound`` must be consistent."""
    graph = Graph.of(arrivals, promise)
    estimate = default_bound(arrivals, promise) if bound is None else bound
    source, destination = graph.source, graph.destination
    weight = 1.0 + within
    least = estimate(*source)
    paid: dict[Node, float] = {source: 0.0}
    came_from: dict[Node, tuple[Node, Action]] = {}
    expanded: set[Node] = set()
    queue: list[tuple[float, int, Counts]] = [(weight * least, -source.time, source.processed)]
    while queue:
        _, negated, processed = heappop(queue)
        node = Node(-negated, processed)
        if node in expanded:
            continue
        if node == destination:
            cost = paid[node]
            return Found(_plan(came_from, node, arrivals), cost, max(least, cost / weight), len(expanded))
        expanded.add(node)
        for reached, action in graph.edges(node):
            cost = paid[node] + promise.cost(action.counts)
            if reached not in expanded and cost < paid.get(reached, float("inf")):
                paid[reached] = cost
                came_from[reached] = (node, action)
                heappush(queue, (cost + weight * estimate(*reached), -reached.time, reached.processed))
    raise InternalError("every LGM plan ends with a refresh, but the search did not get there")


def default_bound(arrivals: Arrivals, promise: Promise) -> LowerBound:
    """Two tables are quickly searched; the more there are, the more a bound that knows of their shared limit saves."""
    return (AloneBound if arrivals.tables <= 2 else PricedBound).of(arrivals, promise.without_shared())


def _plan(came_from: dict[Node, tuple[Node, Action]], node: Node, arrivals: Arrivals) -> MaintenancePlan:
    """[Theorem 3] The actions on the way to a node; none between them."""
    actions = [Action.none(arrivals.tables)] * len(arrivals.steps)
    while node in came_from:
        before, action = came_from[node]
        actions[node.time] = action
        node = before
    return MaintenancePlan(tuple(actions))
