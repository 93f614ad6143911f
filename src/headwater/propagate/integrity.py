"""Queries that keys and foreign keys make empty: a new order has no old line items [SzeLing00 §4.2].

A product joins a *referring* leaf C with the leaf P that it refers to, on C.f = P.k, and "f refers to k" and "k is a
key" are known to hold at certain csns (``headwater.algebra.constraints``). Take a query of the latest rule in which P
stands as its changes ΔP(x, y].

**Births.** *P has only insertions in (s, y], s <= x; the foreign key holds at s; k is a key at every csn of (x, y].*
Then no row of ΔP(x, y] meets a row of C @ s. For a row of C @ s that refers to k has a row of P @ s with k; nothing was
deleted since, so a row with k inserted at t in (x, y] would be the second one at t. So

- where C stands as C @ s the product is empty, pair by pair, hence at every csn;
- where C stands as C @ s + ΔC(s, z] it may stand as ΔC(s, z] alone: the state of C is not read.

The foreign key is needed at **s alone**. That line items were committed before their order, so that the constraint is
broken in between, does no harm; an order committed with a key that was there does, and the key is needed at every csn.

**Deaths.** *P has only deletions in (x, e]; k is a key at x.* After the deletion of k at t in (x, y], no row of P has k
up to e. So at every u in [t, e] at which the foreign key holds no row of C @ u refers to k.

- C stands as C @ x + ΔC(x, z], z >= y, with e = z and the foreign key at **every csn** of (x, z]: for each row of C
  that refers to k, the pairs with the deletion at t have the csns max(t, u), so those of csn t sum up to the count of
  C @ t and those of each csn u > t to what changed in C at u: all zero. The product is empty in net effect at every
  csn. With the foreign key at z alone it is so at z and not before; that is why it is asked at each.
- C stands as C @ s and does not change in (s, e], e = max(s, y), and the foreign key holds at e: C @ s is C @ e, and no
  row of it refers to k. The product is empty, pair by pair.

A product that is empty, pair by pair or in net effect at every csn, stays so under whatever other leaves, filters and
projections it has: joins multiply, and rows that cancel at a csn still do at the later one of a further leaf. So the
query is cut and the law holds at every csn without it. **Updates** that keep the key are neither births nor deaths
(for their interval nothing is known of the query); ``headwater.propagate.fates`` takes a change apart key by key.

*Where we depart.* The paper cuts insertions into a referred relation, update by update. Here deletions too, and for
intervals, of which it does not speak.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol

from headwater.algebra.constraints import ForeignKey, Knowledge
from headwater.algebra.plan import Attribute, LeafId, Scan
from headwater.algebra.product import Product, products
from headwater.algebra.query import BaseDelta, CsnRule, Patched, Query, Snapshot, Term
from headwater.algebra.time import Csn, Interval
from headwater.propagate.frontier import ChangeLog, PropagationStep
from headwater.propagate.tree_stages import StagedDelta, without


class SignedLog(ChangeLog, Protocol):
    """What a log tells about the kind of changes; False where it is not known. Both are true of no changes."""

    def only_inserts(self, table: str, interval: Interval) -> bool: ...
    def only_deletes(self, table: str, interval: Interval) -> bool: ...


@dataclass(frozen=True, slots=True)
class Reference:
    """The product joins ``referring`` with ``referred`` on just the columns of the foreign key."""

    referring: LeafId
    referred: LeafId
    foreign_key: ForeignKey


def references(product: Product, foreign_keys: Iterable[ForeignKey]) -> Iterator[Reference]:
    """Only equalities between columns as they are: through expressions or third columns, types may differ."""
    equal = set(product.equated())
    for foreign in dict.fromkeys(foreign_keys):
        for child in product.scans:
            for parent in product.scans:
                if child is parent or (child.table, parent.table) != (foreign.table, foreign.referred_table):
                    continue
                own = _attributes(child, foreign.columns)
                others = _attributes(parent, foreign.referred_columns)
                if own and others and all(pair in equal for pair in zip(own, others, strict=True)):
                    yield Reference(child.leaf, parent.leaf, foreign)


def cut(query: Query, knowledge: Knowledge, log: SignedLog) -> Query | None:
    """The query without what integrity makes empty; None when that is all of it.

    Where a plan has unions, the query is cut when each of its products is empty, and a leaf stands as its changes alone
    when that is right in all of them.
    """
    while True:
        live = query.live_plan()
        if live is None:
            return None
        if query.rule is not CsnRule.LATEST:
            return query
        found = [_Integrity(product, query.terms, knowledge, log) for product in products(live)]
        if all(each.is_empty() for each in found):
            return None
        unneeded = frozenset.intersection(*(each.states_met_by_nothing() for each in found))
        if not unneeded:
            return query
        # What stands as changes now is marked itself, and may have rows that refer to it.
        query = replace(query, terms=tuple(_narrowed(LeafId(i), t, unneeded) for i, t in enumerate(query.terms)))


def cut_step(step: PropagationStep, knowledge: Knowledge, log: SignedLog) -> PropagationStep:
    return replace(step, queries=_cut_all(step.queries, knowledge, log))


def cut_staged(delta: StagedDelta, knowledge: Knowledge, log: SignedLog) -> StagedDelta:
    """A stage of which nothing is left takes those with it that join it."""
    stages = tuple(replace(stage, queries=_cut_all(stage.queries, knowledge, log)) for stage in delta.stages)
    left = StagedDelta(delta.interval, stages, _cut_all(delta.answer, knowledge, log))
    for stage in stages:
        if not stage.queries:
            left = without(left, stage)
    return left


def parents_first(product: Product, foreign_keys: Iterable[ForeignKey]) -> tuple[LeafId, ...]:
    """The leaves, each after those that it refers to: the order in which the terms of births are empty.

    Reversed it is the one for deaths. In a circle of references a leaf comes where it stands in the product.
    """
    found = list(references(product, foreign_keys))
    order: list[LeafId] = []
    pending = list(product.leaves)
    while pending:
        free = [
            leaf for leaf in pending if not any(each.referring == leaf and each.referred in pending for each in found)
        ]
        chosen = (free or pending)[0]
        pending.remove(chosen)
        order.append(chosen)
    return tuple(order)


def _cut_all(queries: Iterable[Query], knowledge: Knowledge, log: SignedLog) -> tuple[Query, ...]:
    return tuple(left for query in queries if (left := cut(query, knowledge, log)) is not None)


def _narrowed(leaf: LeafId, term: Term, unneeded: frozenset[LeafId]) -> Term:
    return BaseDelta(term.interval) if leaf in unneeded and isinstance(term, Patched) else term


class _Integrity:
    """What is known of one product of a query."""

    def __init__(self, product: Product, terms: tuple[Term, ...], knowledge: Knowledge, log: SignedLog) -> None:
        self.terms = terms
        self.knowledge = knowledge
        self.log = log
        self.references = list(references(product, knowledge.foreign_keys))

    def is_empty(self) -> bool:
        return any(self._unborn(each) or self._dead(each) for each in self.references)

    def states_met_by_nothing(self) -> frozenset[LeafId]:
        """The patched leaves of whose old state no row meets the changes."""
        return frozenset(
            each.referring
            for each in self.references
            if isinstance(term := self.terms[each.referring], Patched) and self._new_keys(each, term.interval.start)
        )

    def _unborn(self, reference: Reference) -> bool:
        term = self.terms[reference.referring]
        return isinstance(term, Snapshot) and self._new_keys(reference, term.at)

    def _new_keys(self, reference: Reference, since: Csn) -> bool:
        """Whether all changed keys of the referred leaf are ones that nothing referred to at ``since``."""
        match self.terms[reference.referred]:
            case BaseDelta(interval=changed) if since <= changed.start:
                foreign = reference.foreign_key
                return (
                    self.log.only_inserts(foreign.referred_table, Interval(since, changed.end))
                    and self.knowledge.holds(foreign, since, since)
                    and self._is_key(foreign, Csn(changed.start + 1), changed.end)
                )
            case _:
                return False

    def _dead(self, reference: Reference) -> bool:
        foreign = reference.foreign_key
        match self.terms[reference.referred], self.terms[reference.referring]:
            case BaseDelta(interval=changed), Patched(interval=seen):
                return (
                    seen.start <= changed.start
                    and seen.end >= changed.end
                    and self._only_dies(foreign, changed.start, seen.end)
                    and self.knowledge.holds(foreign, Csn(changed.start + 1), seen.end)
                )
            case BaseDelta(interval=changed), Snapshot(at=at):
                end = max(at, changed.end)
                return (
                    not self.log.has_changes(foreign.table, Interval(at, end))
                    and self._only_dies(foreign, changed.start, end)
                    and self.knowledge.holds(foreign, end, end)
                )
            case _:
                return False

    def _only_dies(self, foreign: ForeignKey, start: Csn, end: Csn) -> bool:
        deleted = self.log.only_deletes(foreign.referred_table, Interval(start, end))
        return deleted and self._is_key(foreign, start, start)

    def _is_key(self, foreign: ForeignKey, first: Csn, last: Csn) -> bool:
        return self.knowledge.is_key(foreign.referred_table, foreign.referred_columns, first, last)


def _attributes(scan: Scan, columns: tuple[str, ...]) -> tuple[Attribute, ...]:
    """The attributes of columns; none if the scan lacks one."""
    named = dict(zip(scan.columns, scan.attributes, strict=True))
    return tuple(named[name] for name in columns) if all(name in named for name in columns) else ()
