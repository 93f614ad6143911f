"""The delta propagation tree: in which groups the changes of a join's leaves are carried up to the view [Lee01 §3].

A tree says how the change of a join is computed (Definition 1):

    Delta({R}) = ΔR
    Delta(S)   = Delta(P_1) ⋈ P_2  ⋈ ... ⋈ P_m
               + P_1'       ⋈ Delta(P_2) ⋈ ... ⋈ P_m
               + ...
               + P_1' ⋈ ... ⋈ P_{m-1}' ⋈ Delta(P_m)            for a partition P_1, ..., P_m of S, m > 1

where P stands for the join of its leaves as they were and P' for the join of them as they are. The order of the
parts matters: a part left of the changed one is read new, one right of it old. With all parts single leaves this is
the n-term expression (2), and an inner node of k changed parts spares its siblings k - 1 accesses. A relation is
accessed as often as the leaf and the nodes above it have siblings that changed (Theorem 2: at least once and at most
n - 1 times when all leaves changed).

*Why it is right at every csn.* Take every table as the log of its changes (see ``frontier``): over the interval
(a, b], each row of a product is a point of csns (c_1, ..., c_n), and Δ(⋈S) is the set of points with max c in (a, b].
By induction Delta(P_k) is that set for P_k, each point once and with its max c as csn. In the k-th term stand P_j as
of a for j > k, and as R @ a + ΔR(a, b] for j < k, so the term holds the points for which P_k is the last part that
changed after a. Those sets are disjoint over k, together they are Δ(⋈S), and the csn of a joined row, the latest of its
parts, is max c: what stood at a has lost its csn, but that is at most a and never the latest. So the law holds at
every csn inside the interval, for every tree. With the snapshot at b in the place of R @ a + ΔR(a, b], the points
are the same and the csns are not: then it holds at b alone.

*Leaves without changes.* Delta(P) of a part in which nothing changed is empty, so its term is not computed, and P' is
P. Such a part is never one that changed last, so it does not matter where among its siblings it stands.

The paper says that single leaves give its expression (1); they give its expression (2), of n terms.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from headwater.algebra.plan import LeafId


@dataclass(frozen=True, slots=True)
class LeafDelta:
    """The changes of one leaf."""

    leaf: LeafId


@dataclass(frozen=True, slots=True)
class NodeDelta:
    """The change of the join of all parts; parts left of a changed one are read new, parts right of it old."""

    parts: tuple[DeltaTree, ...]

    def __post_init__(self) -> None:
        if len(self.parts) < 2:
            raise ValueError("a node of a delta tree has at least two parts")
        found = [leaf for part in self.parts for leaf in leaves_in_order(part)]
        if len(found) != len(set(found)):
            raise ValueError(f"the parts of a node share no leaf, but their leaves are {found}")


DeltaTree: TypeAlias = LeafDelta | NodeDelta


@dataclass(frozen=True, slots=True)
class DeltaTerm:
    """One line of Definition 1: ``new`` parts as they are, the changes of ``changed``, ``old`` parts as they were."""

    new: tuple[DeltaTree, ...]
    changed: DeltaTree
    old: tuple[DeltaTree, ...]


def leaves_in_order(tree: DeltaTree) -> Iterator[LeafId]:
    match tree:
        case LeafDelta(leaf=leaf):
            yield leaf
        case NodeDelta(parts=parts):
            for part in parts:
                yield from leaves_in_order(part)


def leaves_of(tree: DeltaTree) -> frozenset[LeafId]:
    return frozenset(leaves_in_order(tree))


def n_term(leaves: Iterable[LeafId]) -> DeltaTree:
    """Every leaf a part of its own, in the given order: the n-term expression (2) of [Lee01 §1.1]."""
    parts = tuple(LeafDelta(leaf) for leaf in leaves)
    return parts[0] if len(parts) == 1 else NodeDelta(parts)


def terms(node: NodeDelta, changed: frozenset[LeafId]) -> tuple[DeltaTerm, ...]:
    """The terms that are not empty by their form, when only the given leaves have changes."""
    return tuple(
        DeltaTerm(node.parts[:position], part, node.parts[position + 1 :])
        for position, part in enumerate(node.parts)
        if leaves_of(part) & changed
    )


def changed_nodes(tree: DeltaTree, changed: frozenset[LeafId]) -> Iterator[NodeDelta]:
    """The nodes whose change has to be computed, each after those below it; the last is the root."""
    if isinstance(tree, NodeDelta) and leaves_of(tree) & changed:
        for part in tree.parts:
            yield from changed_nodes(part, changed)
        yield tree


def accesses(tree: DeltaTree, changed: frozenset[LeafId] | None = None) -> Mapping[LeafId, int]:
    """How often each leaf is read, old or new, beside the changes of others [Lee01 §3.2, Fig. 1]."""
    counts = Counter(dict.fromkeys(leaves_in_order(tree), 0))
    active = leaves_of(tree) if changed is None else changed
    for node in changed_nodes(tree, active):
        for term in terms(node, active):
            counts.update(leaf for part in (*term.new, *term.old) for leaf in leaves_in_order(part))
    return counts


def describe(tree: DeltaTree, name: Callable[[LeafId], str], changed: frozenset[LeafId] | None = None) -> str:
    """The delta expression in one line: ``(ΔR1 ⋈ R2 + R1' ⋈ ΔR2) ⋈ R3 + R1' ⋈ R2' ⋈ ΔR3``."""
    active = leaves_of(tree) if changed is None else changed
    match tree:
        case LeafDelta(leaf=leaf):
            return f"Δ{name(leaf)}" if leaf in active else "∅"
        case NodeDelta():
            return " + ".join(_line(term, name, active) for term in terms(tree, active)) or "∅"


def _line(term: DeltaTerm, name: Callable[[LeafId], str], changed: frozenset[LeafId]) -> str:
    new = [name(leaf) + ("'" if leaf in changed else "") for part in term.new for leaf in leaves_in_order(part)]
    old = [name(leaf) for part in term.old for leaf in leaves_in_order(part)]
    inner = describe(term.changed, name, changed)
    return " ⋈ ".join([*new, f"({inner})" if isinstance(term.changed, NodeDelta) else inner, *old])
