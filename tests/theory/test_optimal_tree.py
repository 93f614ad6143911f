"""FindOptimalDeltaExpression against every tree there is [Lee01 §4]."""

from __future__ import annotations

from math import comb
from random import Random

import pytest

from headwater.algebra.plan import LeafId
from headwater.propagate.delta_tree import LeafDelta, accesses, describe, n_term
from headwater.propagate.linear_work import Cardinalities, LeafSize, linear_work
from headwater.propagate.optimal_tree import TreeSpace, find_optimal_delta_expression
from tests.theory.trees import costs_of_all_trees, leaf_ids, random_cardinalities, random_graph

INSTANCES, CHUNKS = 1_000, 10


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_dynamic_programming_equals_brute_force_over_all_trees(chunk: int) -> None:
    for seed in range(chunk, INSTANCES, CHUNKS):
        random = Random(seed)
        graph = random_graph(random, random.randint(1, 5))
        leaves, sizes = tuple(sorted(graph.leaves)), random_cardinalities(random, graph)
        found = find_optimal_delta_expression(leaves, sizes)
        assert found.work == min(costs_of_all_trees(leaves, sizes)), seed
        assert found.work == linear_work(found.tree, sizes)
        assert found.extent.is_exact


def bell(n: int) -> int:
    numbers = [1]
    while len(numbers) <= n:
        numbers.append(sum(comb(len(numbers) - 1, k) * numbers[k] for k in range(len(numbers))))
    return numbers[n]


@pytest.mark.parametrize("count", range(1, 8))
def test_as_many_partitions_are_priced_as_section_4_says(count: int) -> None:
    """Σ C(n,i) B(i), less the partitions of one part, which Definition 1 excludes."""
    sizes = Cardinalities({leaf: LeafSize(10, 1) for leaf in leaf_ids(count)})
    extent = find_optimal_delta_expression(leaf_ids(count), sizes).extent
    assert extent.partitions == sum(comb(count, i) * (bell(i) - 1) for i in range(1, count + 1))
    assert extent.space is TreeSpace.ALL
    assert extent.sets == 2**count - 1 - count
    assert str(extent).endswith("all of them")


def test_the_example_of_section_1_2_a_very_large_third_relation_is_accessed_once() -> None:
    sizes = Cardinalities(
        {LeafId(0): LeafSize(1_000, 10), LeafId(1): LeafSize(1_100, 11), LeafId(2): LeafSize(10_000_000, 12)},
        {frozenset({LeafId(0), LeafId(1)}): 1e-3, frozenset({LeafId(1), LeafId(2)}): 1e-3},
    )
    found = find_optimal_delta_expression(leaf_ids(3), sizes)
    expected = "R1' ⋈ R2' ⋈ ΔR3 + (ΔR1 ⋈ R2 + R1' ⋈ ΔR2) ⋈ R3"  # (4), its two terms in either order
    as_text = describe(found.tree, lambda leaf: f"R{leaf + 1}")
    assert as_text in (expected, "ΔR3 ⋈ R1 ⋈ R2 + R3' ⋈ (ΔR1 ⋈ R2 + R1' ⋈ ΔR2)")
    assert accesses(found.tree)[LeafId(2)] == 1
    assert found.work < 0.51 * linear_work(n_term(leaf_ids(3)), sizes)


def test_one_leaf_is_its_own_tree() -> None:
    found = find_optimal_delta_expression([LeafId(3)], Cardinalities({LeafId(3): LeafSize(10, 1)}))
    assert (found.tree, found.work, found.extent.partitions) == (LeafDelta(LeafId(3)), 0, 0)
