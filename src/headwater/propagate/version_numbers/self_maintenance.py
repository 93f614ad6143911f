"""What need not be asked: referential integrity, keys and functional dependencies [SzeLing00 §4.2, §4.3].

**Irrelevant updates.** If every row of R_j refers to a row of R_i, nothing can refer to a row of R_i before it is
inserted or after it is deleted, so neither changes the view. *Inside a transaction* this depends on the order in which
its relations are computed: an inserted row is irrelevant if R_j is seen as before the transaction, a deleted one if R_j
is seen as after it (a relation that the transaction does not touch is both). And it must be the key that came or
went: a row deleted and inserted again under one key was referred to all the time.

**Changes by key.** A deletion or a modification of R_i needs no more than the key of R_i, if the view shows it: the
view's rows with that key are deleted or set. If it does not, a relation R_j that determines R_i and whose key is
shown serves: only the relations between the two are asked, for the keys of R_j. R_j *determines* R_i when a path of
the join graph leads from R_j to R_i that enters each relation by its key.

**The view as an answer.** When R_j is entered by its key, the view shows what R_j was asked by, and everything asked
after R_j is entered by its key, then a row of the view with that key shows the one row of R_j and the one row of
each relation below it, at the refreshed versions. No row in the view tells nothing, and the source is asked.

*Where we depart.* (1) The paper asks only that the key of R_j be in the view and that R_j determine what is asked
after it. A relation that is entered by something else than its key may have rows that the view does not show (they
joined nothing when it was refreshed), and the answer would be short of them; so R_j must be entered by its key too.
(2) The view's row must also tell all attributes that outputs and conditions outside the path's links need. (3) A
missing update of a relation whose key the view does not show is redone in the paper through the relation that
determines it, from the result of that update's own computation, which may itself be waiting; here the source is asked
instead (``Computation.hear_view``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from headwater.algebra.plan import Attribute, LeafId
from headwater.algebra.zset import Row
from headwater.propagate.version_numbers.access import AccessPath, Visit
from headwater.propagate.version_numbers.compensation import Unknown
from headwater.propagate.version_numbers.definition import JoinView, attributes_of
from headwater.propagate.version_numbers.updates import Deletion, Insertion, Modification, Update, signed


@dataclass(frozen=True, slots=True)
class SelfMaintenance:
    """Which of the means are used; the result is the same with any of them."""

    referential_integrity: bool = True
    by_key: bool = True
    view_answers: bool = True


EVERYTHING = SelfMaintenance()
NOTHING = SelfMaintenance(referential_integrity=False, by_key=False, view_answers=False)


def is_irrelevant(
    view: JoinView,
    leaf: LeafId,
    change: Insertion | Deletion,
    update: Update,
    seen_before: frozenset[LeafId],
    seen_after: frozenset[LeafId],
) -> bool:
    """Whether referential integrity alone says that the change leaves the view as it is.

    ``seen_before`` and ``seen_after`` are the leaves that this update's computation sees as before the transaction, and
    as after it.
    """
    match change:
        case Insertion(row=row):
            referring, gone = seen_before, -1
        case Deletion(row=row):
            referring, gone = seen_after, 1
    key = view.key(leaf)
    if not key or not any(_refers(view, child, leaf) for child in referring if child != leaf):
        return False
    mine = view.values(leaf, key, row)
    return all(view.values(leaf, key, other) != mine for other, count in signed(update.changes) if count == gone)


def _refers(view: JoinView, child: LeafId, leaf: LeafId) -> bool:
    """Whether the view joins the leaves by a foreign key of the child to the key of the leaf."""
    for foreign in view.relations[child].foreign_keys:
        if foreign.table != view.leaves[leaf].table or set(foreign.referred) != set(view.relations[leaf].key):
            continue
        pairs = zip(view.named(child, foreign.columns), view.named(leaf, foreign.referred), strict=True)
        if view.source(child) == view.source(leaf) and all(_equated(view, one, other) for one, other in pairs):
            return True
    return False


def _equated(view: JoinView, one: Attribute, other: Attribute) -> bool:
    return (one, other) in view.equalities or (other, one) in view.equalities


def enters_by_key(view: JoinView, leaf: LeafId, attributes: tuple[Attribute, ...]) -> bool:
    key = view.key(leaf)
    return bool(key) and set(key) <= set(attributes)


@dataclass(frozen=True, slots=True)
class KeyRoute:
    """The leaf by whose shown key the view is changed, and the leaves from the updated one to it."""

    keyed: LeafId
    through: tuple[LeafId, ...]  # from the updated leaf to ``keyed``, both included


def key_route(view: JoinView, leaf: LeafId) -> KeyRoute | None:
    """The shortest way from an updated leaf to one that determines it and whose key is shown."""
    routes: list[tuple[LeafId, ...]] = [(leaf,)]
    reached = {leaf}
    while routes:
        route = routes.pop(0)
        key = view.key(route[-1])
        if key and view.shows(key):
            return KeyRoute(route[-1], route)
        for other in _determining(view, route[-1]):
            if other not in reached:
                reached.add(other)
                routes.append((*route, other))
    return None


def _determining(view: JoinView, leaf: LeafId) -> Iterator[LeafId]:
    """The leaves whose rows have at most one row of this leaf beside them."""
    for scan in view.leaves:
        linked = tuple(
            one
            for edge in view.equalities
            for one, other in (edge, edge[::-1])
            if view.owner[one] == leaf and view.owner[other] == scan.leaf
        )
        if scan.leaf != leaf and enters_by_key(view, leaf, linked):
            yield scan.leaf


def is_settable(view: JoinView, leaf: LeafId, change: Modification) -> bool:
    """Whether every output that the modification changes can be computed from the new row alone."""
    changed = view.changed(leaf, change)
    own = set(view.leaves[leaf].attributes)
    used = (attributes_of(expression) for _, expression in view.outputs)
    return all(attributes <= own for attributes in used if attributes & changed)


def is_shown(view: JoinView, leaf: LeafId, change: Modification) -> bool:
    """Whether any output depends on what the modification changes."""
    changed = view.changed(leaf, change)
    return any(attributes_of(expression) & changed for _, expression in view.outputs)


def view_answers(view: JoinView, path: AccessPath, visit: Visit) -> bool:
    """Whether the view can answer for this leaf and all below it on the path."""
    chain = (visit, *path.below(visit.leaf))
    if not all(enters_by_key(view, each.leaf, each.attributes) for each in chain):
        return False
    inside = {each.leaf for each in chain}
    needed = {attribute for edge in path.checks for attribute in edge}
    for expression in (*view.conditions, *(expression for _, expression in view.outputs)):
        needed |= attributes_of(expression)
    return view.shows((*visit.attributes, *(name for name in needed if view.owner[name] in inside)))


@dataclass(frozen=True, slots=True)
class Chain:
    """The rows that one row of the view shows of a leaf and of those below it: one of each, in path order."""

    rows: tuple[tuple[Visit, Row, Row], ...]  # (visit, probe, row)


def read_chain(view: JoinView, path: AccessPath, visit: Visit, shown: Row) -> Chain:
    """[SzeLing00 Examples 6 and 8]: what a view row tells, with ``Unknown`` for what it does not show."""
    asked = tuple(shown[position] for position in view.positions(visit.attributes))

    def told(attribute: Attribute) -> object:
        name = view.class_of[attribute]
        return shown[view.shown[name]] if name in view.shown else Unknown(name, visit.leaf, asked)

    rows = []
    for each in (visit, *path.below(visit.leaf)):
        row = tuple(told(attribute) for attribute in view.leaves[each.leaf].attributes)
        rows.append((each, view.values(each.leaf, each.attributes, row), row))
    return Chain(tuple(rows))
