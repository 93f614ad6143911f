"""The frontier: how far each leaf of a join block has advanced, and the queries that advance it.

For tables whose past can be read. Leaf i has advanced to ``times[i]`` (τ_i). Advancing it to τ_i' adds to the view
delta the one query

    ΔR_i(τ_i, τ_i'] ⋈ Π_{j≠i} [ R_j @ min(τ_i, τ_j) + ΔR_j(τ_i, τ_j] ]        (second part only where τ_j > τ_i)

with the **latest** csn rule.

*Why this is right.* Take each table as the log of its changes, as in [Salem00 §3.4,
Fig. 6, footnote 3]: a row of a product of n leaves is then a point (c_1, ..., c_n) of csns with a signed count, and
V(t) is the sum of the points with max c <= t. The query holds exactly the points with c_i in (τ_i, τ_i'] and c_j <=
τ_j, that is the slab by which the box Π (-∞, τ_k] grows. So after any sequence of steps every point of the box
outside the first box has been added once and no other point has. The csn of an answer row is the point's max c: a
change that stands inside ``R_j @ min(τ_i, τ_j)`` has lost its csn, but that csn is at most τ_i < c_i and can't be
the latest. At any t up to min τ the points with max c <= t all lie in the box, hence V(t) = net(V(a) + σ(a,t] ΔV)
for every such t: the high-water mark is min τ, whatever the order and widths of the steps. A union is a sum of such
products and the argument holds for each of them.

This is rolling propagation [Salem00 §3.4] with every compensation replaced by an older snapshot. When all leaves
advance from one time to another it is Equation 2 of [Salem00 §3.1] (mirrored), made exact at the csns inside the
interval: the changes of leaves already advanced keep their csns (``Patched``, not the ``Snapshot`` at their end).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from headwater.algebra.plan import Plan, Scan, scans
from headwater.algebra.query import BaseDelta, CsnRule, Patched, Query, Snapshot, Term
from headwater.algebra.time import BEGINNING, Csn, Interval
from headwater.errors import InternalError


class ChangeLog(Protocol):
    """What propagation may ask about captured changes; the answer for a past interval never changes."""

    def has_changes(self, table: str, interval: Interval) -> bool: ...


@dataclass(frozen=True, slots=True)
class Frontier:
    """``times[i]``: every change of leaf i's table up to this csn is in the view delta."""

    times: tuple[Csn, ...]

    @classmethod
    def at(cls, plan: Plan, csn: Csn) -> Frontier:
        """Every leaf of the plan at one csn: the frontier of a view just materialized there."""
        return cls(tuple(csn for _ in scans(plan)))

    @property
    def high_water_mark(self) -> Csn:
        return min(self.times)

    def validate(self) -> None:
        if not self.times:
            raise InternalError("a frontier has at least one leaf")
        if any(time < BEGINNING for time in self.times):
            raise InternalError(f"the frontier {self} lies before the beginning of the lake")

    def __str__(self) -> str:
        return "[" + ", ".join(map(str, self.times)) + "]"


@dataclass(frozen=True, slots=True)
class PropagationStep:
    """Running ``queries`` and adding their answers to the view delta carries the block from ``before`` to ``after``."""

    queries: tuple[Query, ...]
    before: Frontier
    after: Frontier


def advance(plan: Plan, frontier: Frontier, targets: tuple[Csn, ...], log: ChangeLog) -> PropagationStep:
    """The step to ``targets``: leaves advance one after another, in leaf order.

    A leaf whose table has no changes in its interval advances without a query, and a table without changes between two
    times is read as one snapshot: both leave the set of points unchanged.
    """
    frontier.validate()
    found = list(scans(plan))
    if not len(found) == len(frontier.times) == len(targets):
        raise InternalError(
            f"a plan of {len(found)} leaves was given a frontier of {len(frontier.times)} and {len(targets)} targets"
        )
    if any(target < time for time, target in zip(frontier.times, targets, strict=True)):
        raise InternalError(f"a frontier never goes back, but {Frontier(targets)} is behind {frontier}")
    times = list(frontier.times)
    queries = []
    for scan in found:
        interval = Interval(times[scan.leaf], targets[scan.leaf])
        if not interval.is_empty and log.has_changes(scan.table, interval):
            terms = tuple(
                BaseDelta(interval) if other is scan else _seen(other, interval.start, times[other.leaf], log)
                for other in found
            )
            query = Query(plan, terms, CsnRule.LATEST)
            if not query.is_empty:
                queries.append(query)
        times[scan.leaf] = targets[scan.leaf]
    return PropagationStep(tuple(queries), frontier, Frontier(tuple(times)))


def _seen(other: Scan, advancing: Csn, reached: Csn, log: ChangeLog) -> Term:
    """``R_j @ min(τ_i, τ_j) + ΔR_j(τ_i, τ_j]`` for leaf j = ``other``, as one term."""
    if reached <= advancing:
        return Snapshot(reached)
    ahead = Interval(advancing, reached)
    return Patched(ahead) if log.has_changes(other.table, ahead) else Snapshot(advancing)


def block_queries(plan: Plan, interval: Interval, log: ChangeLog) -> tuple[Query, ...]:
    """The queries for all leaves of a block together."""
    targets = tuple(interval.end for _ in scans(plan))
    return advance(plan, Frontier.at(plan, interval.start), targets, log).queries
