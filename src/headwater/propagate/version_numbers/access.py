"""How the relations of a view are asked: along the join graph, as many of one source at once as it allows.

An update ΔR_i starts at leaf i. Leaves of one source that are connected to a leaf already reached, and to one
another, are asked in one sub-query; groups of different sources, and groups that start at the same leaf, are asked in
parallel [SzeLing00 §4.1, Example 5]. So no cartesian product is formed unless the view has one, in which case the
other part of the graph is asked for all its rows.

The path is a tree: a leaf is asked with the values of one leaf reached before it, its parent. Equalities that close a
cycle are no links of the tree; they are tested when the rows of all leaves are there.

*Where we depart.* For a cartesian product the paper takes the other part's rows from the view unless it is empty.
That needs a projection that keeps the rows of both parts apart, with their counts, and missing updates of the other
part could not be redone in rows that show it joined; so we ask the sources.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from headwater.algebra.plan import Attribute, LeafId
from headwater.propagate.version_numbers.definition import JoinView
from headwater.propagate.version_numbers.numbers import SourceName


@dataclass(frozen=True, slots=True)
class Visit:
    """Leaf ``leaf`` is asked for the rows whose ``attributes`` equal ``parent_attributes`` of rows of ``parent``."""

    leaf: LeafId
    parent: LeafId
    attributes: tuple[Attribute, ...]  # none: every row of the relation (a cartesian product)
    parent_attributes: tuple[Attribute, ...]
    group: int


@dataclass(frozen=True, slots=True)
class AccessPath:
    root: LeafId
    visits: tuple[Visit, ...]  # parents before children
    sources: tuple[SourceName, ...]  # sources[g] is asked for the visits of group g in one sub-query
    checks: tuple[tuple[Attribute, Attribute], ...]  # equalities between leaves of the path that are no links of it

    @property
    def leaves(self) -> frozenset[LeafId]:
        return frozenset({self.root, *(visit.leaf for visit in self.visits)})

    def below(self, leaf: LeafId) -> tuple[Visit, ...]:
        """The visits that start, over any number of steps, from this leaf."""
        reached = {leaf}
        found = []
        for visit in self.visits:
            if visit.parent in reached:
                reached.add(visit.leaf)
                found.append(visit)
        return tuple(found)


def access_path(view: JoinView, root: LeafId, within: frozenset[LeafId] | None = None) -> AccessPath:
    """The path from an updated leaf to all others, or to those in ``within``."""
    wanted = [scan.leaf for scan in view.leaves if within is None or scan.leaf in within]
    queried = [root]  # the paper's mark "queried", in the order of marking
    visits: list[Visit] = []
    sources: list[SourceName] = []

    def ask(start: LeafId, first: list[LeafId]) -> None:
        """One group: the unqueried leaves of one source connected to ``start``, by ``first``, and to each other."""
        source = view.source(first[0])
        frontier = [start]
        pending = {start: first}
        while frontier:
            parent = frontier.pop(0)
            for leaf in pending.get(parent) or list(_neighbours(view, parent, wanted, queried, source)):
                if leaf in queried:
                    continue
                attributes, parent_attributes = _link(view, parent, leaf)
                visits.append(Visit(leaf, parent, attributes, parent_attributes, len(sources)))
                queried.append(leaf)
                frontier.append(leaf)
        sources.append(source)

    while True:
        for reached in queried:  # grows while we look
            for source in dict.fromkeys(view.source(leaf) for leaf in _neighbours(view, reached, wanted, queried)):
                first = list(_neighbours(view, reached, wanted, queried, source))
                if first:
                    ask(reached, first)
        left = [leaf for leaf in wanted if leaf not in queried]
        if not left:
            break
        ask(root, left[:1])
    linked = {
        frozenset(pair) for visit in visits for pair in zip(visit.attributes, visit.parent_attributes, strict=True)
    }
    there = {root, *(visit.leaf for visit in visits)}
    checks = tuple(
        (left, right)
        for left, right in view.equalities
        if {view.owner[left], view.owner[right]} <= there and frozenset((left, right)) not in linked
    )
    return AccessPath(root, tuple(visits), tuple(sources), checks)


def _neighbours(
    view: JoinView, leaf: LeafId, wanted: list[LeafId], queried: list[LeafId], source: SourceName | None = None
) -> Iterator[LeafId]:
    beside = {
        view.owner[other]
        for edge in view.equalities
        for one, other in (edge, edge[::-1])
        if view.owner[one] == leaf and view.owner[other] not in queried
    }
    return (other for other in wanted if other in beside and (source is None or view.source(other) == source))


def _link(view: JoinView, parent: LeafId, leaf: LeafId) -> tuple[tuple[Attribute, ...], tuple[Attribute, ...]]:
    pairs = [
        (one, other)
        for edge in view.equalities
        for one, other in (edge, edge[::-1])
        if view.owner[one] == leaf and view.owner[other] == parent
    ]
    return tuple(one for one, _ in pairs), tuple(other for _, other in pairs)
