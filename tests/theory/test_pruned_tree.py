"""The search for wide views: never a cross product, never better than the optimum, and it says how far it went."""

from __future__ import annotations

import time
from collections.abc import Callable
from random import Random

import pytest

from headwater.algebra.product import JoinGraph
from headwater.propagate.delta_tree import DeltaTree, NodeDelta, leaves_of, n_term
from headwater.propagate.linear_work import Cardinalities, LeafSize, linear_work
from headwater.propagate.optimal_tree import TreeSpace, find_optimal_delta_expression
from headwater.propagate.pruned_tree import find_connected_tree
from tests.theory.trees import (
    chain,
    clique,
    costs_of_all_trees,
    graph_of,
    leaf_ids,
    random_cardinalities,
    random_graph,
    star,
)

SHAPES: dict[str, Callable[[int], JoinGraph]] = {"chain": chain, "star": star, "clique": clique}


def nodes(tree: DeltaTree) -> list[NodeDelta]:
    if not isinstance(tree, NodeDelta):
        return []
    return [tree, *(node for part in tree.parts for node in nodes(part))]


@pytest.mark.parametrize("seed", range(150))
def test_never_better_than_the_optimum_never_worse_than_n_term_never_a_cross_product(seed: int) -> None:
    random = Random(seed)
    graph = random_graph(random, random.randint(2, 7))
    sizes = random_cardinalities(random, graph)
    optimum = find_optimal_delta_expression(sorted(graph.leaves), sizes)
    for width, every_partition in ((None, 6), (2, 3), (1, 0)):
        found = find_connected_tree(graph, sizes, width=width, every_partition=every_partition)
        assert leaves_of(found.tree) == graph.leaves
        assert found.work >= optimum.work
        assert found.work <= linear_work(n_term(sorted(graph.leaves)), sizes)
        assert all(graph.is_connected(leaves_of(node)) for node in nodes(found.tree))


@pytest.mark.parametrize("seed", range(40))
def test_where_it_says_that_it_is_exact_it_equals_brute_force_over_trees_without_cross_products(seed: int) -> None:
    random = Random(seed)
    graph = random_graph(random, random.randint(2, 5))
    sizes = random_cardinalities(random, graph)
    found = find_connected_tree(graph, sizes)
    assert found.extent.is_exact
    assert found.extent.space is TreeSpace.CONNECTED
    assert found.work == min(costs_of_all_trees(tuple(sorted(graph.leaves)), sizes, graph))


@pytest.mark.parametrize("count", [2, 3, 4, 5, 6])
def test_a_clique_has_no_cross_products_so_the_optimum_is_found(count: int) -> None:
    for seed in range(6):
        sizes = random_cardinalities(Random(seed), clique(count))
        found = find_connected_tree(clique(count), sizes)
        assert found.work == find_optimal_delta_expression(leaf_ids(count), sizes).work
        assert found.extent.is_exact


@pytest.mark.parametrize("count", [2, 3, 4, 5])
def test_lines_of_parts_find_the_optimum_of_a_clique_order_and_all(count: int) -> None:
    """Every prefix of every ordered partition is a known set there, so lines alone must do."""
    for seed in range(40):
        sizes = random_cardinalities(Random(seed), clique(count))
        found = find_connected_tree(clique(count), sizes, every_partition=0)
        assert found.work == find_optimal_delta_expression(leaf_ids(count), sizes).work
        assert not found.extent.is_exact


@pytest.mark.parametrize("count", [2, 3, 4, 5, 6])
@pytest.mark.parametrize("shape", ["chain", "star"])
def test_the_optimum_is_found_where_cross_products_do_not_pay(shape: str, count: int) -> None:
    """Tables of one size of which much changed: a cross product of changes alone is dearer than the n terms."""
    graph = SHAPES[shape](count)
    for seed in range(10):
        random = Random(seed)
        sizes = Cardinalities(
            {leaf: LeafSize(random.randint(1_000, 1_200), random.randint(100, 200)) for leaf in graph.leaves},
            {edge: 2.0 ** -random.randint(0, 10) for edge in graph.edges},
        )
        found = find_connected_tree(graph, sizes)
        assert found.work == find_optimal_delta_expression(sorted(graph.leaves), sizes).work


def test_a_cross_product_of_two_tiny_tables_is_what_it_gives_up() -> None:
    """A large table between two tiny ones: the optimum reads it once, after their cross product."""
    graph = chain(3)
    sizes = Cardinalities({leaf: LeafSize(1_000_000 if leaf == 1 else 5, 1) for leaf in graph.leaves})
    optimum = find_optimal_delta_expression(sorted(graph.leaves), sizes)
    found = find_connected_tree(graph, sizes)
    assert optimum.work < 1.1e6 < 1.9e6 < found.work


@pytest.mark.parametrize("count", [7, 8])
@pytest.mark.parametrize("shape", SHAPES)
def test_just_beyond_every_partition_it_stays_close(shape: str, count: int) -> None:
    graph = SHAPES[shape](count)
    random = Random(count)
    sizes = Cardinalities(
        {leaf: LeafSize(random.randint(1_000, 1_000_000), random.randint(0, 1_000)) for leaf in graph.leaves},
        dict.fromkeys(graph.edges, 1e-05),
    )
    found = find_connected_tree(graph, sizes)
    assert not found.extent.is_exact
    assert found.work <= 1.01 * find_optimal_delta_expression(sorted(graph.leaves), sizes).work


@pytest.mark.parametrize("shape", ["chain", "star"])
def test_thirty_leaves_take_less_than_a_second(shape: str) -> None:
    graph = SHAPES[shape](30)
    random = Random(30)
    sizes = Cardinalities(
        {leaf: LeafSize(random.randint(100, 10_000_000), random.randint(1, 1_000)) for leaf in graph.leaves},
        dict.fromkeys(graph.edges, 1e-06),
    )
    started = time.process_time()
    found = find_connected_tree(graph, sizes)
    assert time.process_time() - started < 1
    assert found.work < 0.8 * linear_work(n_term(sorted(graph.leaves)), sizes)
    assert all(graph.is_connected(leaves_of(node)) for node in nodes(found.tree))


def test_it_says_how_far_it_went() -> None:
    sizes = Cardinalities({leaf: LeafSize(1_000, 10) for leaf in leaf_ids(30)})
    lined_up = find_connected_tree(chain(30), sizes).extent
    assert (lined_up.sets, lined_up.every_set_up_to, lined_up.every_partition_up_to) == (435, 30, 6)
    around = find_connected_tree(star(16), sizes).extent
    assert (around.every_set_up_to, around.every_partition_up_to) == (2, 6)
    assert "every set of up to 2 and every partition of sets of up to 6 of 16 leaves" in str(around)


def test_a_view_that_is_a_cross_product_is_one_at_its_root_alone() -> None:
    graph = graph_of(5, [(0, 1), (2, 3)])
    for seed in range(30):
        sizes = random_cardinalities(Random(seed), graph)
        found = find_connected_tree(graph, sizes)
        assert leaves_of(found.tree) == graph.leaves
        assert all(graph.is_connected(leaves_of(node)) for node in nodes(found.tree)[1:])
        assert find_optimal_delta_expression(leaf_ids(5), sizes).work <= found.work
        assert found.work <= linear_work(n_term(leaf_ids(5)), sizes)


def test_a_condition_of_three_leaves_holds_no_two_of_them_together() -> None:
    graph = graph_of(4, [(0, 1, 2), (2, 3)])
    assert not graph.is_connected(frozenset(leaf_ids(2)))
    sizes = Cardinalities({leaf: LeafSize(5, 1) for leaf in graph.leaves}, {frozenset(leaf_ids(3)): 0.25})
    found = find_connected_tree(graph, sizes)
    assert found.work == min(costs_of_all_trees(tuple(leaf_ids(4)), sizes, graph))
