"""How the change of a join block over one interval is computed: by recomputing, by n terms, or by a delta tree.

The three that [Lee01 §5] compares, as values, so that each can be forced and all can be priced. Each keeps the law at
every csn of the interval; they differ in what is read.

- ``Recompute``: the view once over R @ a + ΔR(a, b] at every leaf. Its rows without a csn are V(a), all others are ΔV,
  so the view delta is what the interval selects from it: no difference of two states has to be taken.
- ``NTerm``: for each product one term a changed leaf, in leaf order, the expression (2) of [Lee01 §1.1]. It is
  ``frontier.advance`` from one moment to another.
- ``ByTree``: one delta tree for each product of the block.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from headwater.algebra.plan import LeafId, Plan, leaves, scans
from headwater.algebra.product import Product, ThroughUnion, products, unchanged
from headwater.algebra.query import CsnRule, Patched, Query, Snapshot
from headwater.algebra.time import Interval
from headwater.errors import InternalError
from headwater.propagate.delta_tree import DeltaTree, n_term
from headwater.propagate.frontier import ChangeLog
from headwater.propagate.linear_work import Cardinalities, linear_work, recompute_work
from headwater.propagate.optimal_tree import EXHAUSTIVE_LEAVES, FoundTree, find_optimal_delta_expression
from headwater.propagate.pruned_tree import find_connected_tree
from headwater.propagate.tree_stages import NewSide, StagedDelta, staged_delta


@dataclass(frozen=True, slots=True)
class Recompute:
    def __str__(self) -> str:
        return "recompute"


@dataclass(frozen=True, slots=True)
class NTerm:
    def __str__(self) -> str:
        return "n-term"


@dataclass(frozen=True, slots=True)
class ByTree:
    """``trees[k]`` is for the k-th product of the plan."""

    trees: tuple[DeltaTree, ...]

    def __str__(self) -> str:
        return "tree"


Strategy: TypeAlias = Recompute | NTerm | ByTree


def find_tree(product: Product, cardinalities: Cardinalities) -> FoundTree:
    """The optimum of a small product; for a wide one, what the search without cross products finds."""
    if len(product.leaves) <= EXHAUSTIVE_LEAVES:
        return find_optimal_delta_expression(product.leaves, cardinalities)
    return find_connected_tree(product.join_graph(), cardinalities)


def best_trees(plan: Plan, cardinalities: Cardinalities) -> ByTree:
    return ByTree(tuple(find_tree(product, cardinalities).tree for product in products(plan)))


def estimated_work(plan: Plan, strategy: Strategy, cardinalities: Cardinalities) -> float:
    """The strategy's linear work, over all products of the plan; nothing where nothing changed."""
    blocks = [block for block in products(plan) if not cardinalities.changed().isdisjoint(block.leaves)]
    match strategy:
        case Recompute():
            return recompute_work(sorted(leaves(plan)), cardinalities) if blocks else 0.0
        case NTerm():
            return sum(linear_work(n_term(block.leaves), cardinalities) for block in blocks)
        case ByTree(trees=trees):
            return sum(linear_work(tree, cardinalities) for tree in trees)


def change_over(
    plan: Plan,
    interval: Interval,
    log: ChangeLog,
    strategy: Strategy,
    *,
    new_side: NewSide = NewSide.LEAVES,
    through_union: ThroughUnion = unchanged,
) -> StagedDelta:
    """What computes the view delta over the interval, all leaves from its start to its end."""
    changed = frozenset(scan.leaf for scan in scans(plan) if log.has_changes(scan.table, interval))
    blocks = products(plan, through_union)
    match strategy:
        case Recompute():
            return StagedDelta(interval, (), _recomputed(plan, interval, changed))
        case NTerm():
            trees = tuple(n_term(block.leaves) for block in blocks)
        case ByTree(trees=given):
            trees = given
    if len(trees) != len(blocks):
        raise InternalError(f"a plan of {len(blocks)} products was given {len(trees)} trees")
    return staged_delta(zip(blocks, trees, strict=True), interval, changed, new_side)


def _recomputed(plan: Plan, interval: Interval, changed: frozenset[LeafId]) -> tuple[Query, ...]:
    if not changed:
        return ()
    terms = tuple(Patched(interval) if scan.leaf in changed else Snapshot(interval.start) for scan in scans(plan))
    return (Query(plan, terms, CsnRule.LATEST),)


def works(plan: Plan, cardinalities: Cardinalities) -> Mapping[Strategy, float]:
    """The linear work of each strategy, the tree being the best that is found."""
    strategies: tuple[Strategy, ...] = (Recompute(), NTerm(), best_trees(plan, cardinalities))
    return {strategy: estimated_work(plan, strategy, cardinalities) for strategy in strategies}
