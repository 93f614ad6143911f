"""Random delta trees and random sizes, and all trees there are, for the tests of [Lee01]."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import combinations, permutations
from itertools import product as choices
from math import prod
from random import Random

from headwater.algebra.plan import LeafId
from headwater.algebra.product import JoinGraph
from headwater.propagate.delta_tree import DeltaTree, LeafDelta, NodeDelta
from headwater.propagate.linear_work import Cardinalities, LeafSize


def leaf_ids(count: int) -> list[LeafId]:
    return [LeafId(number) for number in range(count)]


def tree(*parts: int | DeltaTree) -> DeltaTree:
    """``tree(0, tree(1, 2))``."""
    made = tuple(LeafDelta(LeafId(part)) if isinstance(part, int) else part for part in parts)
    return made[0] if len(made) == 1 else NodeDelta(made)


def random_tree(random: Random, leaves: Sequence[LeafId]) -> DeltaTree:
    if len(leaves) == 1:
        return LeafDelta(leaves[0])
    shuffled = random.sample(leaves, len(leaves))
    cuts = sorted(random.sample(range(1, len(leaves)), random.randint(1, min(3, len(leaves) - 1))))
    pieces = [shuffled[start:end] for start, end in zip([0, *cuts], [*cuts, len(leaves)], strict=True)]
    return NodeDelta(tuple(random_tree(random, piece) for piece in pieces))


def partitions(leaves: Sequence[LeafId]) -> Iterator[list[list[LeafId]]]:
    """All partitions of a list, the one of a single part among them."""
    if not leaves:
        yield []
        return
    first, rest = leaves[0], leaves[1:]
    for size in range(len(rest) + 1):
        for beside in combinations(rest, size):
            others = [leaf for leaf in rest if leaf not in beside]
            for parts in partitions(others):
                yield [[first, *beside], *parts]


def all_trees(leaves: Sequence[LeafId]) -> Iterator[DeltaTree]:
    """Every delta tree, with the parts of every node in every order."""
    if len(leaves) == 1:
        yield LeafDelta(leaves[0])
        return
    for parts in partitions(leaves):
        if len(parts) > 1:
            for ordered in permutations(parts):
                for children in choices(*(list(all_trees(part)) for part in ordered)):
                    yield NodeDelta(tuple(children))


def change_rows(leaves: Iterable[LeafId], cardinalities: Cardinalities) -> float:
    """|Δ(⋈S)| as the difference of two joins."""
    found = frozenset(leaves)
    kept = prod(s for edge, s in cardinalities.selectivities.items() if edge <= found)
    sizes = [cardinalities.sizes[leaf] for leaf in found]
    return kept * (prod(size.before + size.change for size in sizes) - prod(size.before for size in sizes))


def costs_of_all_trees(
    leaves: tuple[LeafId, ...], cardinalities: Cardinalities, graph: JoinGraph | None = None
) -> list[float]:
    """The work of every tree, term by term; of those without cross products if a join graph is given.

    Parts are priced in every order, and nothing is left out because something else is cheaper.
    """
    changed = cardinalities.changed()

    @cache
    def costs(leaves: tuple[LeafId, ...]) -> list[float]:
        if len(leaves) == 1:
            return [0.0]
        found = []
        for parts in partitions(leaves):
            if len(parts) == 1 or (graph and not all(graph.is_connected(frozenset(part)) for part in parts)):
                continue
            children = [sum(chosen) for chosen in choices(*(costs(tuple(part)) for part in parts))]
            rows = [change_rows(part, cardinalities) for part in parts]
            old = [sum(cardinalities.sizes[leaf].before for leaf in part) for part in parts]
            new = [sum(cardinalities.sizes[leaf].after for leaf in part) for part in parts]
            counts = [not changed.isdisjoint(part) for part in parts]
            for order in permutations(range(len(parts))):
                terms = 0.0
                for place, part in enumerate(order):
                    if counts[part]:
                        terms += rows[part] + sum(new[other] for other in order[:place])
                        terms += sum(old[other] for other in order[place + 1 :])
                found.extend([terms + child for child in children])
        return found

    return costs(leaves)


def chain(count: int) -> JoinGraph:
    return graph_of(count, [(number, number + 1) for number in range(count - 1)])


def star(count: int) -> JoinGraph:
    return graph_of(count, [(0, number) for number in range(1, count)])


def clique(count: int) -> JoinGraph:
    return graph_of(count, list(combinations(range(count), 2)))


def graph_of(count: int, edges: Iterable[Iterable[int]]) -> JoinGraph:
    return JoinGraph(frozenset(leaf_ids(count)), frozenset(frozenset(map(LeafId, edge)) for edge in edges))


def random_graph(random: Random, count: int) -> JoinGraph:
    """Connected, with conditions of three leaves now and then."""
    edges = [{number, random.randrange(number)} for number in range(1, count)]
    edges += [
        set(random.sample(range(count), min(count, random.choice((2, 2, 3))))) for _ in range(random.randrange(3))
    ]
    return graph_of(count, [edge for edge in edges if len(edge) > 1])


def random_cardinalities(random: Random, graph: JoinGraph) -> Cardinalities:
    """Whole sizes and selectivities that are powers of two: sums and products are exact."""

    def size() -> LeafSize:
        before = random.choice((0, 1, random.randint(2, 20), random.randint(20, 2_000), random.randint(2_000, 100_000)))
        change = random.choice((0, 1, random.randint(1, 20), random.randint(1, 1_000)))
        shrunk = random.randint(0, before + change) if change and random.random() < 0.2 else None
        return LeafSize(before, change, shrunk)

    return Cardinalities(
        {leaf: size() for leaf in graph.leaves}, {edge: 2.0 ** -random.randint(0, 14) for edge in graph.edges}
    )
