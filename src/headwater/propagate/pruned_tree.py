"""A cheap delta tree for a wide view: a search that never considers a cross product and says how far it went.

The search of [Lee01 §4] goes through 4 million partitions for eleven leaves and through more than can be counted for
thirty. This one keeps its dynamic programming over sets of leaves and gives up three things, each reported in
``Extent``:

1. *Cross products.* Only sets that join conditions hold together get a node of their own. A view whose join graph falls
   apart is a cross product by its own text; its root alone then joins what nothing ties.
2. *Sets.* Sets are made from smaller ones along the edges of the join graph. Of each size at most ``width`` are kept,
   ``KEPT_SETS`` in all unless told otherwise: those that give the cheapest whole trees while all other leaves are
   single. A chain of thirty leaves has 465 connected sets, and all are kept; a star of thirty has 2^29.
3. *Partitions.* Up to ``EVERY_PARTITION`` leaves all partitions into known sets are priced, in their best order. Beyond
   that only those whose parts can be lined up so that every prefix is a known set too, in that order; the cheapest few
   are then priced in their best order. That covers all partitions of a chain and, as far as sets were kept, those of a
   star.

*Forests.* What 3. needs is the cheapest line of parts for each prefix Q and each number m of changed parts. By
``linear_work`` a line costs, but for the m · |S| of the node it ends up in,

    F(Q ∪ P, m + m_P) = F(Q, m) + F(P, m_P) + m_P · g(Q)

(each changed part of P reads Q new), so lines are put together from shorter ones like trees from smaller ones. A single
part is the line F(P, 1) = Cost(Delta(P)) + |Δ(⋈P)| - |P|, or F(P, 0) = 0 if nothing in it changed.

The n-term expression is among what is priced, so the tree found is never dearer than that; and it is never cheaper
than the optimum over all trees, since it is one of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import TypeAlias

from headwater.algebra.product import JoinGraph
from headwater.propagate.linear_work import Cardinalities, WorkBySet, linear_work, positions
from headwater.propagate.optimal_tree import Extent, FoundTree, TreeSpace, build_tree, own_share, price

KEPT_SETS = 1_000
EVERY_PARTITION = 6
REORDERED = 3  # of the lines of a set: the cheapest as they stand, which are priced in their best order

Line: TypeAlias = tuple[float, tuple[int, ...]]
"""What a line of parts costs, and the parts."""


def find_connected_tree(
    graph: JoinGraph, cardinalities: Cardinalities, *, width: int | None = None, every_partition: int = EVERY_PARTITION
) -> FoundTree:
    """A cheap tree in which every node but the root, and the root where it can, is held together by conditions."""
    leaves = sorted(graph.leaves)
    by_set = WorkBySet(leaves, cardinalities)
    each_size = max(1, KEPT_SETS // len(leaves)) if width is None else width
    search = _Search(by_set, [by_set.mask(edge) for edge in graph.edges], each_size, every_partition)
    components = [by_set.mask(component) for component in graph.components()]
    for component in components:
        search.component(component)
    if len(components) > 1:
        search.crossed(components)
    tree = build_tree(by_set, search.parts, by_set.all)
    extent = Extent(
        TreeSpace.CONNECTED,
        len(leaves),
        len(search.parts) - len(leaves),
        search.partitions,
        search.every_set_up_to,
        search.every_partition_up_to,
    )
    return FoundTree(tree, linear_work(tree, cardinalities), extent)


@dataclass(slots=True)
class _Search:
    by_set: WorkBySet
    edges: list[int]
    width: int
    every_partition: int
    parts: dict[int, list[int]] = field(default_factory=dict)  # known set to the parts of its best node
    own: dict[int, float] = field(default_factory=dict)  # known set to what it adds as a part
    lines: dict[int, dict[int, Line]] = field(default_factory=dict)  # known set to F by number of changed parts
    partitions: int = 0
    every_set_up_to: int = 0
    every_partition_up_to: int = 0

    def __post_init__(self) -> None:
        self.every_set_up_to = self.every_partition_up_to = len(self.by_set.leaves)
        for leaf in _single(self.by_set.all):
            self._know(leaf, 0.0, [leaf], {})

    def component(self, component: int) -> None:
        """Every kept set of a connected component gets its tree, from the smallest to the component itself."""
        waiting: dict[int, dict[int, float]] = {}  # size to sets that may be kept, with a bound of their cost
        self._grow(_single(component), waiting)
        for size in range(2, component.bit_count() + 1):
            found = waiting.pop(size, {})
            kept = sorted(found, key=lambda subset: (self._saved(component, subset, found[subset]), subset))
            if len(kept) > self.width:
                kept = kept[: self.width]
                self.every_set_up_to = min(self.every_set_up_to, size - 1)
            for subset in kept:
                self._find(subset)
            self._grow(kept, waiting)

    def crossed(self, components: list[int]) -> None:
        """The root of a view whose join graph falls apart: its components, each whole or as a line of parts."""
        done, lines = components[0], self.lines[components[0]]
        for component in components[1:]:
            lines = self._joined(done, lines, self.lines[component])
            done |= component
        self.every_partition_up_to = min(self.every_partition_up_to, self.every_partition, done.bit_count() - 1)
        self._choose(done, self._cheapest(done, lines), {})

    def _grow(self, sets: Iterable[int], waiting: dict[int, dict[int, float]]) -> None:
        """The sets that one edge makes of known ones; priced as a node of the known set and single leaves."""
        for known in sets:
            for grown in {known | edge for edge in self.edges if known & edge} - {known}:
                bound = price(self.by_set, self.own, grown, self.by_set.ordered([known, *_single(grown ^ known)]))
                same_size = waiting.setdefault(grown.bit_count(), {})
                same_size[grown] = min(bound, same_size.get(grown, bound))

    def _saved(self, component: int, subset: int, cost: float) -> float:
        """What the component costs with this set as one part beside single leaves, against single leaves alone.

        Negative where the set saves work; without the order of parts, which is worth little.
        """
        reads = self.by_set.before(component)
        singly = sum(self.own[leaf] + reads for leaf in _single(subset) if self.by_set.is_changed(leaf))
        return own_share(self.by_set, subset, cost) + self.by_set.is_changed(subset) * reads - singly

    def _find(self, subset: int) -> None:
        lines = self._lines(subset)
        if subset.bit_count() <= self.every_partition:
            candidates = [parts for parts in self._known_partitions(subset) if len(parts) > 1]
        else:
            self.every_partition_up_to = min(self.every_partition_up_to, self.every_partition)
            candidates = self._cheapest(subset, lines)
        self._choose(subset, candidates, lines)

    def _cheapest(self, subset: int, lines: dict[int, Line]) -> list[tuple[int, ...]]:
        reads = self.by_set.before(subset)
        chosen = nsmallest(REORDERED, lines, key=lambda count: lines[count][0] + count * reads)
        return [lines[count][1] for count in chosen]

    def _lines(self, subset: int) -> dict[int, Line]:
        """F of the set, from all pairs of known sets that make it up; a line of two parts or more."""
        found: dict[int, Line] = {}
        for part in list(self.parts):
            rest = subset ^ part
            if part & subset == part and rest in self.parts:
                _keep_cheaper(found, self._joined(rest, self.lines[rest], self._whole(part)))
        return found

    def _whole(self, subset: int) -> dict[int, Line]:
        """The line of a single part."""
        return {int(self.by_set.is_changed(subset)): (self.own[subset], (subset,))}

    def _joined(self, first: int, lines: dict[int, Line], added: dict[int, Line]) -> dict[int, Line]:
        """F(Q ∪ P, m + m_P) = F(Q, m) + F(P, m_P) + m_P · g(Q)."""
        growth = self.by_set.growth(first)
        found: dict[int, Line] = {}
        for count, (work, parts) in lines.items():
            for more, (extra, tail) in added.items():
                self.partitions += 1
                _keep_cheaper(found, {count + more: (work + extra + more * growth, parts + tail)})
        return found

    def _choose(self, subset: int, candidates: list[tuple[int, ...]], lines: dict[int, Line]) -> None:
        """Remember the cheapest of the candidates, each in its best order, and of the n-term expression."""
        cost, chosen = float("inf"), [subset]
        for parts in (*candidates, _single(subset)):
            self.partitions += 1
            in_order = self.by_set.ordered(parts)
            priced = price(self.by_set, self.own, subset, in_order)
            if priced < cost:
                cost, chosen = priced, in_order
        self._know(subset, cost, chosen, lines)

    def _know(self, subset: int, cost: float, parts: list[int], lines: dict[int, Line]) -> None:
        self.parts[subset] = parts
        self.own[subset] = own_share(self.by_set, subset, cost)
        self.lines[subset] = dict(lines)
        _keep_cheaper(self.lines[subset], self._whole(subset))

    def _known_partitions(self, subset: int) -> Iterator[tuple[int, ...]]:
        if not subset:
            yield ()
            return
        lowest = subset & -subset
        rest = others = subset ^ lowest
        while True:
            if lowest | others in self.parts:
                for parts in self._known_partitions(rest ^ others):
                    yield (lowest | others, *parts)
            if not others:
                return
            others = (others - 1) & rest


def _single(subset: int) -> tuple[int, ...]:
    """The leaves of a set, each as a set of its own."""
    return tuple(1 << position for position in positions(subset))


def _keep_cheaper(lines: dict[int, Line], others: dict[int, Line]) -> None:
    for count, line in others.items():
        if count not in lines or line < lines[count]:
            lines[count] = line
