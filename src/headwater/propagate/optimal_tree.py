"""FindOptimalDeltaExpression: the delta tree of least linear work, by dynamic programming [Lee01 §4, Fig. 3].

For every set of leaves, from the smallest to the whole, all partitions into two or more parts are priced with the best
trees of their parts, and the cheapest is kept. The price of a partition is in ``linear_work``; the one order of its
parts that can be best is known, so the paper's B(i) partitions of a set of i leaves cover all the ordered ones too.

*Why it is the optimum.* A node's cost is the sum of its parts' costs and of numbers that depend on the parts as sets
alone, so the best tree for given parts has the best tree of each part. That needs |Δ(⋈P)| to be the set's and not the
tree's, which is where ``linear_work`` departs from the paper.

Σ_i C(n, i) · (B(i) - 1) = B(n+1) - 2^n partitions are priced: 20,891 for eight leaves, 115,463 for nine, 677,546 for
ten. Views of more than ``EXHAUSTIVE_LEAVES`` leaves are left to ``pruned_tree``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from headwater.algebra.plan import LeafId
from headwater.propagate.delta_tree import DeltaTree, LeafDelta, NodeDelta
from headwater.propagate.linear_work import Cardinalities, WorkBySet, linear_work

EXHAUSTIVE_LEAVES = 9


class TreeSpace(Enum):
    ALL = "all trees"
    CONNECTED = "trees without cross products"


@dataclass(frozen=True, slots=True)
class Extent:
    """How far a search went: it is exact in its space when both limits reach the number of leaves."""

    space: TreeSpace
    leaves: int
    sets: int  # sets of two leaves or more for which a tree was sought
    partitions: int  # partitions that were priced
    every_set_up_to: int  # no set of the space with at most so many leaves was left out
    every_partition_up_to: int  # for sets of at most so many leaves, no partition into such sets was

    @property
    def is_exact(self) -> bool:
        return min(self.every_set_up_to, self.every_partition_up_to) >= self.leaves

    def __str__(self) -> str:
        looked = f"{self.partitions} partitions of {self.sets} sets, {self.space.value}"
        if self.is_exact:
            return f"{looked}, all of them"
        return (
            f"{looked}, every set of up to {self.every_set_up_to} and every partition of sets of up to "
            f"{self.every_partition_up_to} of {self.leaves} leaves"
        )


@dataclass(frozen=True, slots=True)
class FoundTree:
    tree: DeltaTree
    work: float
    extent: Extent


def find_optimal_delta_expression(leaves: Sequence[LeafId], cardinalities: Cardinalities) -> FoundTree:
    """The cheapest of all delta trees over the leaves."""
    by_set = WorkBySet(leaves, cardinalities)
    best: dict[int, list[int]] = {}  # set to the parts of its cheapest node
    own: dict[int, float] = {}  # set to what it adds as a part: Cost(Delta(P)) + |Δ(⋈P)| - |P|, nothing if unchanged
    partitions = 0
    for subset in sorted(range(1, by_set.all + 1), key=int.bit_count):
        cost, chosen = 0.0, [subset]
        if subset.bit_count() > 1:
            cost = float("inf")
            for parts in _partitions(subset):
                partitions += 1
                in_order = by_set.ordered(parts)
                priced = price(by_set, own, subset, in_order)
                if priced < cost:
                    cost, chosen = priced, in_order
        best[subset] = chosen
        own[subset] = own_share(by_set, subset, cost)
    tree = build_tree(by_set, best, by_set.all)
    count = len(by_set.leaves)
    extent = Extent(TreeSpace.ALL, count, 2**count - 1 - count, partitions, count, count)
    return FoundTree(tree, linear_work(tree, cardinalities), extent)


def own_share(by_set: WorkBySet, part: int, cost: float) -> float:
    """What a part adds to the cost of any node that it stands in, beside the order: 0 if nothing in it changed."""
    return cost + by_set.change_rows(part) - by_set.before(part) if by_set.is_changed(part) else 0.0


def price(by_set: WorkBySet, own: dict[int, float], subset: int, parts: Sequence[int]) -> float:
    """Cost(Delta(S)) for the given parts in the given order, each with its best tree."""
    changed = sum(by_set.is_changed(part) for part in parts)
    return changed * by_set.before(subset) + sum(own[part] for part in parts) + by_set.order_work(parts)


def build_tree(by_set: WorkBySet, best: dict[int, list[int]], subset: int) -> DeltaTree:
    if subset.bit_count() == 1:
        return LeafDelta(by_set.members(subset)[0])
    return NodeDelta(tuple(build_tree(by_set, best, part) for part in best[subset]))


def _partitions(subset: int) -> Iterator[list[int]]:
    """All partitions into two or more parts."""
    for parts in _all_partitions(subset):
        if len(parts) > 1:
            yield parts


def _all_partitions(subset: int) -> Iterator[list[int]]:
    if not subset:
        yield []
        return
    lowest = subset & -subset
    rest = subset ^ lowest
    others = rest
    while True:
        # Every subset of the rest, largest first, beside the lowest leaf.
        for parts in _all_partitions(rest ^ others):
            yield [lowest | others, *parts]
        if not others:
            return
        others = (others - 1) & rest
