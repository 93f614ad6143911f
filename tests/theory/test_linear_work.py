"""The linear work metric [Lee01 §2.2, §4]."""

from __future__ import annotations

from itertools import pairwise
from math import prod
from random import Random

import pytest

from headwater.algebra.plan import LeafId
from headwater.propagate.delta_tree import DeltaTree, LeafDelta, leaves_of, n_term
from headwater.propagate.linear_work import Cardinalities, LeafSize, WorkBySet, linear_work, recompute_work
from tests.theory.trees import (
    all_trees,
    change_rows,
    costs_of_all_trees,
    leaf_ids,
    random_cardinalities,
    random_graph,
    random_tree,
    tree,
)

R1, R2, R3 = leaf_ids(3)
JS = {frozenset({R1, R2}): 0.5, frozenset({R2, R3}): 0.25}
THREE = Cardinalities({R1: LeafSize(100, 1, 10_000), R2: LeafSize(200, 2, 20_000), R3: LeafSize(400, 4, 40_000)}, JS)


def test_expression_5() -> None:
    assert linear_work(tree(0, 1), THREE) == (1 + 200) + (10_000 + 2)


def test_expression_7_the_n_term_expression_of_three_relations() -> None:
    assert linear_work(n_term([R1, R2, R3]), THREE) == 2 * 10_000 + 200 + 20_000 + 2 * 400 + 1 + 2 + 4


def test_expression_8_reads_the_third_relation_once() -> None:
    change = 0.5 * (1 * 200 + 101 * 2)
    assert linear_work(tree(tree(0, 1), 2), THREE) == 2 * 10_000 + 200 + 20_000 + 400 + change + 1 + 2 + 4


def test_recomputing_reads_everything_once() -> None:
    assert recompute_work([R1, R2, R3], THREE) == 70_000


def test_leaves_without_changes_cost_no_term() -> None:
    sizes = Cardinalities({R1: LeafSize(100, 1), R2: LeafSize(200, 0), R3: LeafSize(400, 0)}, JS)
    assert linear_work(n_term([R1, R2, R3]), sizes) == 1 + 200 + 400
    assert linear_work(tree(tree(0, 1), 2), sizes) == (1 + 200) + (0.5 * 200 + 400)
    assert linear_work(tree(0, tree(1, 2)), sizes) == 1 + 200 + 400
    nothing = Cardinalities({leaf: LeafSize(10, 0) for leaf in (R1, R2, R3)})
    assert linear_work(tree(tree(0, 1), 2), nothing) == 0


def test_every_tree_of_up_to_four_relations_costs_what_expression_9_says() -> None:
    for seed in range(20):
        random = Random(seed)
        graph = random_graph(random, random.randint(2, 4))
        leaves, sizes = tuple(sorted(graph.leaves)), random_cardinalities(random, graph)
        assert sorted(linear_work(each, sizes) for each in all_trees(leaves)) == sorted(
            costs_of_all_trees(leaves, sizes)
        )


@pytest.mark.parametrize("seed", range(100))
def test_the_size_of_a_change_belongs_to_the_set_and_not_to_the_tree(seed: int) -> None:
    """The formula of §4 for |Δ(R1 ⋈ ... ⋈ Rn)|, with |R'| = |R| + |ΔR|, gives one number for every tree."""
    random = Random(seed)
    graph = random_graph(random, random.randint(2, 6))
    sizes = random_cardinalities(random, graph)
    made = random_tree(random, sorted(graph.leaves))
    telescoped = _by_partition(made, sizes, lambda size: size.before + size.change)
    kept = prod(sizes.selectivities.values())
    assert kept * telescoped == pytest.approx(sizes.change_rows(graph.leaves))
    assert sizes.change_rows(graph.leaves) == pytest.approx(change_rows(graph.leaves, sizes))


def test_with_the_new_state_for_r_prime_one_change_has_several_sizes() -> None:
    """Why changes are not sized as printed: R1 lost half its rows, and the order of two parts doubles the estimate."""
    sizes = Cardinalities({R1: LeafSize(100, 50, 50), R2: LeafSize(100, 100, 200)})
    assert _by_partition(tree(0, 1), sizes, lambda size: size.after) == 50 * 100 + 50 * 100
    assert _by_partition(tree(1, 0), sizes, lambda size: size.after) == 100 * 100 + 200 * 50
    assert sizes.change_rows(frozenset({R1, R2})) == 150 * 200 - 100 * 100


def test_as_printed_the_dearer_tree_of_a_pair_can_be_the_better_part() -> None:
    """Why it matters: dynamic programming keeps the cheaper tree of {R1, R2}, and misses the cheapest of all three."""
    sizes = Cardinalities({R1: LeafSize(10, 1, 11), R2: LeafSize(10, 10, 12), R3: LeafSize(1_000, 1)})

    def printed(made: DeltaTree) -> float:
        """Expression (9) with changes sized by their partitions."""
        if isinstance(made, LeafDelta):
            return 0.0
        total = 0.0
        for place, part in enumerate(made.parts):
            total += printed(part) + _by_partition(part, sizes, lambda size: size.after)
            total += sum(sizes.sizes[leaf].after for other in made.parts[:place] for leaf in leaves_of(other))
            total += sum(sizes.sizes[leaf].before for other in made.parts[place + 1 :] for leaf in leaves_of(other))
        return total

    kept, dropped = tree(0, 1), tree(1, 0)
    assert (printed(kept), printed(dropped)) == (32, 33)
    assert min(map(printed, all_trees([R1, R2]))) == printed(kept)
    optimum = min(map(printed, all_trees([R1, R2, R3])))
    assert optimum == printed(tree(2, dropped)) < min(printed(tree(2, kept)), printed(tree(kept, 2)))


def _by_partition(made: DeltaTree, sizes: Cardinalities, new: object) -> float:
    """§4: Σ_k Π_{j<k} |R'| · |Δ(⋈P_k)| · Π_{j>k} |R|, without selectivities."""
    assert callable(new)
    if isinstance(made, LeafDelta):
        return sizes.sizes[made.leaf].change
    total = 0.0
    for place, part in enumerate(made.parts):
        left = prod(new(sizes.sizes[leaf]) for other in made.parts[:place] for leaf in leaves_of(other))
        right = prod(sizes.sizes[leaf].before for other in made.parts[place + 1 :] for leaf in leaves_of(other))
        total += left * _by_partition(part, sizes, new) * right
    return total


def test_a_condition_of_three_leaves_counts_once_all_three_are_there() -> None:
    sizes = Cardinalities({leaf: LeafSize(10, 10) for leaf in (R1, R2, R3)}, {frozenset({R1, R2, R3}): 0.5})
    assert sizes.change_rows(frozenset({R1, R2})) == 400 - 100
    assert sizes.change_rows(frozenset({R1, R2, R3})) == 0.5 * (8_000 - 1_000)


def test_thirty_large_tables_do_not_overflow() -> None:
    leaves = leaf_ids(30)
    joined = {frozenset(pair): 1e-12 for pair in pairwise(leaves)}
    by_set = WorkBySet(leaves, Cardinalities({leaf: LeafSize(1e12, 1e6) for leaf in leaves}, joined))
    assert by_set.change_rows(by_set.all) == pytest.approx(30e6, rel=1e-3)


def test_sizes_are_not_negative_and_nothing_changes_without_changes() -> None:
    with pytest.raises(ValueError, match="not negative"):
        LeafSize(-1, 0)
    with pytest.raises(ValueError, match="stays as it was"):
        LeafSize(10, 0, 11)
    assert LeafSize(10, 3).after == 13
    assert LeafSize(10, 3, 7).after == 7
    assert isinstance(n_term([LeafId(4)]), LeafDelta)
