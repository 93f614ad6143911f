"""The linear work metric: what a delta tree costs, in rows read [Lee01 §2.2, §4, expression (9)].

A term costs the sizes of the relations in it, and an expression the sum of its terms:

    Cost(Delta({R})) = 0
    Cost(Delta(S))   = Σ_k Cost(Delta(P_k)) + Σ_k ( |P_1'| + ... + |P_{k-1}'| + |Δ(⋈P_k)| + |P_{k+1}| + ... + |P_m| )

with |P| the sum of the sizes of its leaves, k over the parts that changed (the others' terms are not computed), and
the proportionality constant 1. Sizes of changes are estimated from the leaves' and from join selectivities: the size of
a join is the product of its leaves' sizes and of the selectivities of all conditions among them.

*Where we depart.* The paper takes |Δ(⋈S)| from the partition of S: Σ_k Π_{j<k} |P_j'| · |Δ(⋈P_k)| · Π_{j>k} |P_j|. If
|R'| is the size of the new state, less than |R| + |ΔR| where rows were deleted, that number depends on the tree: then
one relation has several estimated sizes, and a dearer tree of a subset may be the better part, which dynamic
programming never sees. With |R'| = |R| + |ΔR| the sum telescopes to

    |Δ(⋈S)| = Π JS · ( Π (|R| + |ΔR|) - Π |R| )

whatever the tree, so it belongs to the set and the optimum of a subset is all that its superset needs. It is also
the number of rows that a timed Z-set really has before its net effect is taken, R' being R @ a and ΔR(a, b] side by
side. So changes are always sized that way; ``LeafSize.new_state`` prices only the *reading* of R', for those who
read the snapshot at b in its place.

*What a partition costs, sorted by what it depends on.* Let g(P) = |P'| - |P|. With m parts that changed, and since the
parts of a partition of S always add up to |S|:

    Cost(Delta(S)) = m · |S| + Σ_k [ Cost(Delta(P_k)) + |Δ(⋈P_k)| - |P_k| ] + Σ_k g(P_1 ∪ ... ∪ P_{k-1})

Only the last sum depends on the order: g(P_j) is paid by every changed part right of j. Swapping neighbours shows
that it is least when the parts stand by growing g. So one order has to be looked at for each partition, and the
optimum over ordered partitions is found by going through the unordered ones, as the paper does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headwater.algebra.plan import LeafId
from headwater.propagate.delta_tree import DeltaTree, changed_nodes, leaves_of, terms


@dataclass(frozen=True, slots=True)
class LeafSize:
    """Rows of a leaf as it was, and of its changes; ``new_state`` if R' is read as one snapshot and not as both."""

    before: float
    change: float
    new_state: float | None = None

    def __post_init__(self) -> None:
        if self.before < 0 or self.change < 0 or (self.new_state is not None and self.new_state < 0):
            raise ValueError(f"sizes are not negative, but a leaf was given {self}")
        if self.change == 0 and self.after != self.before:
            raise ValueError(f"a leaf without changes stays as it was, but a leaf was given {self}")

    @property
    def after(self) -> float:
        return self.before + self.change if self.new_state is None else self.new_state


@dataclass(frozen=True, slots=True)
class Cardinalities:
    """Sizes of leaves (as read, under their own filters) and selectivities of what ties them.

    ``selectivities[E]``: the share of the cross product of the leaves E that the conditions over exactly E keep; 1 for
    sets that are not named. For pairs it is the paper's JS(R_i, R_j).
    """

    sizes: Mapping[LeafId, LeafSize]
    selectivities: Mapping[frozenset[LeafId], float] = field(default_factory=dict)

    def changed(self) -> frozenset[LeafId]:
        return frozenset(leaf for leaf, size in self.sizes.items() if size.change > 0)

    def change_rows(self, leaves: frozenset[LeafId]) -> float:
        """|Δ(⋈S)|."""
        by_set = WorkBySet(sorted(leaves), self)
        return by_set.change_rows(by_set.all)


def linear_work(tree: DeltaTree, cardinalities: Cardinalities) -> float:
    """Cost(Delta(S)) of expression (9), term by term as it is printed."""
    changed = cardinalities.changed()
    total = 0.0
    for node in changed_nodes(tree, changed):
        for term in terms(node, changed):
            total += cardinalities.change_rows(leaves_of(term.changed))
            total += sum(cardinalities.sizes[leaf].after for part in term.new for leaf in leaves_of(part))
            total += sum(cardinalities.sizes[leaf].before for part in term.old for leaf in leaves_of(part))
    return total


def recompute_work(leaves: Sequence[LeafId], cardinalities: Cardinalities) -> float:
    """One term in which every relation stands new."""
    return sum(cardinalities.sizes[leaf].after for leaf in leaves)


class WorkBySet:
    """The parts of the cost that belong to a set of leaves, for searches: sets are bit masks over ``leaves``."""

    def __init__(self, leaves: Sequence[LeafId], cardinalities: Cardinalities) -> None:
        self.leaves = tuple(leaves)
        self.cardinalities = cardinalities
        sizes = [cardinalities.sizes[leaf] for leaf in leaves]
        self._before = {0: 0.0} | {1 << position: size.before for position, size in enumerate(sizes)}
        self._growth = {0: 0.0} | {1 << position: size.after - size.before for position, size in enumerate(sizes)}
        self._changed = self.mask(frozenset(leaf for leaf in leaves if leaf in cardinalities.changed()))
        # By the position of each leaf: the selectivities of the conditions that it takes part in.
        self._edges: list[list[tuple[int, float]]] = [[] for _ in leaves]
        for edge, selectivity in cardinalities.selectivities.items():
            if edge <= set(leaves):
                for leaf in edge:
                    self._edges[self.leaves.index(leaf)].append((self.mask(edge), selectivity))
        self._rows: dict[int, tuple[float, float]] = {0: (1.0, 0.0)}

    @property
    def all(self) -> int:
        return (1 << len(self.leaves)) - 1

    def mask(self, leaves: frozenset[LeafId]) -> int:
        return sum(1 << position for position, leaf in enumerate(self.leaves) if leaf in leaves)

    def members(self, mask: int) -> tuple[LeafId, ...]:
        return tuple(leaf for position, leaf in enumerate(self.leaves) if mask >> position & 1)

    def is_changed(self, mask: int) -> bool:
        return bool(mask & self._changed)

    def before(self, mask: int) -> float:
        """|P|."""
        return _summed(self._before, mask)

    def growth(self, mask: int) -> float:
        """g(P) = |P'| - |P|."""
        return _summed(self._growth, mask)

    def change_rows(self, mask: int) -> float:
        return self._state_and_change(mask)[1]

    def state_rows(self, mask: int) -> float:
        """|⋈P|, as it was."""
        return self._state_and_change(mask)[0]

    def _state_and_change(self, mask: int) -> tuple[float, float]:
        """|⋈P| and |Δ(⋈P)|, from those of the set without one leaf.

        Leaf by leaf, selectivities cut the products of sizes as they grow, and nothing is ever subtracted.
        """
        known = self._rows.get(mask)
        if known is None:
            found = positions(mask)
            last = next((position for position in found if mask ^ 1 << position in self._rows), found[-1])
            state, change = self._state_and_change(mask ^ 1 << last)
            size = self.cardinalities.sizes[self.leaves[last]]
            kept = 1.0
            for edge, selectivity in self._edges[last]:
                if edge & mask == edge:
                    kept *= selectivity
            known = (kept * state * size.before, kept * (change * (size.before + size.change) + state * size.change))
            self._rows[mask] = known
        return known

    def ordered(self, parts: Sequence[int]) -> list[int]:
        """The parts in the order of least cost: by growing g, and at the end those that did not change."""
        return sorted(parts, key=lambda part: (not self.is_changed(part), self.growth(part)))

    def order_work(self, parts: Sequence[int]) -> float:
        """Σ_k g(P_1 ∪ ... ∪ P_{k-1}) over the parts k that changed, in the order given."""
        total = read_new = 0.0
        for part in parts:
            if self.is_changed(part):
                total += read_new
                read_new += self.growth(part)
        return total


def _summed(known: dict[int, float], mask: int) -> float:
    """The sum over the leaves of a set, remembered."""
    found = known.get(mask)
    if found is None:
        lowest = mask & -mask
        found = known[mask] = known[lowest] + _summed(known, mask ^ lowest)
    return found


def positions(mask: int) -> list[int]:
    """The bits that are set, lowest first."""
    found = []
    while mask:
        lowest = mask & -mask
        found.append(lowest.bit_length() - 1)
        mask ^= lowest
    return found
