"""The delta propagation tree [Lee01 §3]."""

from __future__ import annotations

from random import Random

import pytest

from headwater.algebra.plan import LeafId
from headwater.propagate.delta_tree import (
    DeltaTerm,
    LeafDelta,
    NodeDelta,
    accesses,
    changed_nodes,
    describe,
    n_term,
    terms,
)
from tests.theory.trees import all_trees, leaf_ids, random_tree, tree


def name(leaf: LeafId) -> str:
    return f"R{leaf + 1}"


FIGURE_1A = tree(tree(tree(0, 1), 2, tree(3, 4)), 5)


def test_figure_1_access_counts() -> None:
    assert [accesses(FIGURE_1A)[leaf] for leaf in leaf_ids(6)] == [4, 4, 3, 4, 4, 1]
    assert [accesses(n_term(leaf_ids(6)))[leaf] for leaf in leaf_ids(6)] == [5] * 6


def test_the_delta_expression_of_figure_1a() -> None:
    assert describe(FIGURE_1A, name) == (
        "((ΔR1 ⋈ R2 + R1' ⋈ ΔR2) ⋈ R3 ⋈ R4 ⋈ R5 + R1' ⋈ R2' ⋈ ΔR3 ⋈ R4 ⋈ R5 "
        "+ R1' ⋈ R2' ⋈ R3' ⋈ (ΔR4 ⋈ R5 + R4' ⋈ ΔR5)) ⋈ R6 + R1' ⋈ R2' ⋈ R3' ⋈ R4' ⋈ R5' ⋈ ΔR6"
    )


def test_expression_6() -> None:
    assert describe(tree(tree(0, 1), 2), name) == "(ΔR1 ⋈ R2 + R1' ⋈ ΔR2) ⋈ R3 + R1' ⋈ R2' ⋈ ΔR3"


def test_single_leaves_give_expression_2_and_not_expression_1() -> None:
    """Printed: "the same expression as expression (1)", which has 2^n - 1 terms."""
    assert describe(n_term(leaf_ids(3)), name) == "ΔR1 ⋈ R2 ⋈ R3 + R1' ⋈ ΔR2 ⋈ R3 + R1' ⋈ R2' ⋈ ΔR3"


@pytest.mark.parametrize("count", [2, 3, 4])
def test_theorem_2_every_relation_is_accessed_once_to_n_minus_1_times(count: int) -> None:
    for each in all_trees(leaf_ids(count)):
        assert all(1 <= times <= count - 1 for times in accesses(each).values())


@pytest.mark.parametrize("seed", range(50))
def test_accesses_are_the_changed_siblings_from_leaf_to_root(seed: int) -> None:
    random = Random(seed)
    leaves = leaf_ids(random.randint(2, 9))
    changed = frozenset(leaf for leaf in leaves if random.random() < 0.6)
    made = random_tree(random, leaves)

    def above(node: LeafDelta | NodeDelta, leaf: LeafId) -> int | None:
        """None where the leaf is not below the node."""
        if isinstance(node, LeafDelta):
            return 0 if node.leaf == leaf else None
        for part in node.parts:
            below = above(part, leaf)
            if below is not None:
                return below + sum(bool(accessible(other) & changed) for other in node.parts if other is not part)
        return None

    def accessible(node: LeafDelta | NodeDelta) -> set[LeafId]:
        if isinstance(node, LeafDelta):
            return {node.leaf}
        return set().union(*map(accessible, node.parts))

    assert dict(accesses(made, changed)) == {leaf: above(made, leaf) for leaf in leaves}


def test_what_did_not_change_is_cut_away() -> None:
    made = tree(tree(0, 1), tree(2, 3), 4)
    changed = frozenset({LeafId(1), LeafId(4)})
    assert describe(made, name, changed) == "(R1 ⋈ ΔR2) ⋈ R3 ⋈ R4 ⋈ R5 + R1 ⋈ R2' ⋈ R3 ⋈ R4 ⋈ ΔR5"
    assert list(changed_nodes(made, changed)) == [tree(0, 1), made]
    assert dict(accesses(made, changed)) == {0: 2, 1: 1, 2: 2, 3: 2, 4: 1}
    assert list(changed_nodes(made, frozenset())) == []
    assert describe(made, name, frozenset()) == "∅"


def test_a_term_reads_new_what_is_left_of_the_change_and_old_what_is_right_of_it() -> None:
    made = tree(0, 1, 2)
    assert isinstance(made, NodeDelta)
    assert terms(made, frozenset({LeafId(1)})) == (
        DeltaTerm((LeafDelta(LeafId(0)),), LeafDelta(LeafId(1)), (LeafDelta(LeafId(2)),)),
    )


def test_a_node_has_two_parts_and_no_leaf_twice() -> None:
    with pytest.raises(ValueError, match="at least two parts"):
        NodeDelta((LeafDelta(LeafId(0)),))
    with pytest.raises(ValueError, match="share no leaf"):
        tree(0, tree(1, 0))
