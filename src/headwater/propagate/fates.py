"""A change taken apart by the fate of its keys, so that integrity cuts what it can of any change.

``integrity`` cuts a query when *all* changes of a referred table are insertions, or all are deletions. A day has both.
So the change of a referred table P with key k over (a, b] is split, key by key, into three:

- ``BORN``: changes of keys that P @ a does not have (the first change of such a key is an insertion and nothing else);
- ``GONE``: the last change of a key that P @ a has and that is absent from then up to b;
- ``KEPT``: all other changes: updates, and keys that went and came back.

*Any split will do.* Put all pieces of all leaves in one order, and let the term of a piece X of leaf i join X with
every other leaf j as R_j @ a plus the pieces of ΔR_j **before** X. A point of the change (see ``frontier``) has for
each leaf either a state as of a or a change in one piece; it stands in the term of the last of its pieces, once, and
in no other, with its latest csn. So the law holds at every csn, for every split and every order. With whole changes as
pieces these are the n terms.

*The order that integrity likes:* all ``BORN`` (a referred table before those that refer to it), then everything else,
then all ``GONE`` (a referring table before the one it refers to).

- Before BORN of P stands no piece of a table C that refers to it, so its term joins C @ a. Nothing in C @ a refers to a
  key that P @ a lacks, if the foreign key holds at a: **cut**, pair by pair.
- Before GONE of P stand all pieces of C. A key deleted at t and absent up to b is referred to by no row of C @ u for u
  in [t, b], if the foreign key holds at every csn of (a, b]; so what the pairs of csn u add up to is zero, as in
  ``integrity``: **cut**, in net effect at every csn.

What is left of a referred table is KEPT. If no key of it was updated, its whole change costs no term at all, and the
tables that refer to it are read only where their own changes or those of others ask for it:

    Δ(O ⋈ L) = ΔL ⋈ (O @ a + BORN)        for new and deleted orders with their line items

That k is a key must be known at every csn of [a, b]: the fates are read off the changes alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import reduce
from typing import TypeAlias

from headwater.algebra.constraints import Knowledge
from headwater.algebra.plan import LeafId, Plan, Scan, scans
from headwater.algebra.product import Product, ThroughUnion, products, unchanged
from headwater.algebra.query import BaseDelta, CsnRule, Patched, Query, Snapshot, Term
from headwater.algebra.time import Csn, Interval
from headwater.algebra.zset import Entry, Row, ZSet
from headwater.engine.reference import History, ReferenceEngine
from headwater.propagate.frontier import ChangeLog
from headwater.propagate.integrity import Reference, parents_first, references


class Fate(Enum):
    BORN = "born"
    KEPT = "kept"
    GONE = "gone"


ALL = frozenset(Fate)


def by_fate(changes: ZSet, key_of: Callable[[Row], Row]) -> Mapping[Fate, ZSet]:
    """The changes of a table over an interval, net by row and csn, split by what became of their keys.

    A NULL key is referred to by nothing: its changes are BORN, whose terms are cut.
    """
    by_key: dict[Row, list[Entry]] = {}
    for entry in changes.consolidate():
        by_key.setdefault(key_of(entry[0]), []).append(entry)
    found: dict[Fate, list[Entry]] = {fate: [] for fate in Fate}
    for key, entries in by_key.items():
        first, last = min(map(_csn, entries)), max(map(_csn, entries))
        was_there = any(count < 0 for row, count, csn in entries if csn == first)
        if None in key or not was_there:
            found[Fate.BORN] += entries
            continue
        is_gone = sum(count for _, count, _ in entries) < 0
        for entry in entries:
            found[Fate.GONE if is_gone and entry[2] == last and entry[1] < 0 else Fate.KEPT].append(entry)
    return {fate: ZSet.of(entries) for fate, entries in found.items()}


def _csn(entry: Entry) -> Csn:
    if entry[2] is None:
        raise ValueError(f"a change has a csn, but {entry} has none")
    return entry[2]


@dataclass(frozen=True, slots=True)
class Piece:
    """The table as it was at an interval's start, and of its changes in the interval those of some fates."""

    table: str
    key: tuple[str, ...]
    fates: frozenset[Fate]

    @property
    def name(self) -> str:
        """What stands for the table in queries."""
        fates = "+".join(fate.value for fate in Fate if fate in self.fates)
        return f"{self.table}[{fates} by {', '.join(self.key)}]"


@dataclass(frozen=True, slots=True)
class PiecedDelta:
    """Queries whose answers are the view delta over the interval; a table in them may be one of the pieces."""

    interval: Interval
    pieces: tuple[Piece, ...]
    queries: tuple[Query, ...]


def change_by_fates(
    plan: Plan, interval: Interval, log: ChangeLog, knowledge: Knowledge, through_union: ThroughUnion = unchanged
) -> PiecedDelta:
    """What computes the view delta over the interval, all leaves from its start to its end."""
    changed = frozenset(scan.leaf for scan in scans(plan) if log.has_changes(scan.table, interval))
    queries = [
        query
        for product in products(plan, through_union)
        for query in _Pieces(product, interval, changed & frozenset(product.leaves), knowledge).queries()
    ]
    return PiecedDelta(interval, tuple(_pieces_of(queries)), tuple(query for query, _ in queries))


def evaluate(delta: PiecedDelta, engine: ReferenceEngine, columns: Mapping[str, Sequence[str]]) -> ZSet:
    """The view delta on the reference engine; ``columns`` of each table in the order of its rows."""
    history = engine.history
    tables = dict(history.changes)
    for piece in delta.pieces:
        split = by_fate(history.base_delta(piece.table, delta.interval), _key(columns[piece.table], piece.key))
        before = [change for change in history.changes.get(piece.table, ()) if change[0] <= delta.interval.start]
        after = [(_csn(entry), entry[0], entry[1]) for fate in piece.fates for entry in split[fate]]
        tables[piece.name] = [*before, *after]
    pieced = ReferenceEngine(History(tables, history.now))
    return reduce(ZSet.add, (pieced.run(query).rows for query in delta.queries), ZSet())


def _key(columns: Sequence[str], key: Sequence[str]) -> Callable[[Row], Row]:
    places = [columns.index(name) for name in key]
    return lambda row: tuple(row[place] for place in places)


_Pieced: TypeAlias = tuple[Query, tuple[Piece, ...]]
_Place: TypeAlias = tuple[LeafId, frozenset[Fate]]


def _pieces_of(queries: Iterable[_Pieced]) -> Iterable[Piece]:
    return dict.fromkeys(piece for _, pieces in queries for piece in pieces)


class _Pieces:
    """The pieces of one product, in their order."""

    def __init__(self, product: Product, interval: Interval, changed: frozenset[LeafId], knowledge: Knowledge) -> None:
        self.product = product
        self.interval = interval
        self.changed = changed
        start, end = interval.start, interval.end
        # Of a table that is referred to by two of its keys, the first counts: a change is split by one key.
        self.keys: dict[LeafId, tuple[str, ...]] = {}
        self.births: list[Reference] = []
        for each in references(product, knowledge.foreign_keys):
            foreign = each.foreign_key
            key = self.keys.get(each.referred, foreign.referred_columns)
            if (
                set(key) == set(foreign.referred_columns)
                and knowledge.holds(foreign, start, start)
                and knowledge.is_key(foreign.referred_table, key, start, end)
            ):
                self.keys[each.referred] = key
                self.births.append(each)
        self.deaths = [each for each in self.births if knowledge.holds(each.foreign_key, start, end)]
        order = parents_first(product, [each.foreign_key for each in self.births])
        self.order = self._early(order) + self._middle() + self._late(order)

    def queries(self) -> list[_Pieced]:
        return [self._term(place) for place in range(len(self.order)) if not self._is_cut(place)]

    def _early(self, order: Sequence[LeafId]) -> list[_Place]:
        return [(leaf, frozenset([Fate.BORN])) for leaf in order if leaf in self.changed and leaf in self.keys]

    def _middle(self) -> list[_Place]:
        return [
            (leaf, ALL - (self._fates_outside(leaf) if leaf in self.keys else frozenset()))
            for leaf in self.product.leaves
            if leaf in self.changed
        ]

    def _late(self, order: Sequence[LeafId]) -> list[_Place]:
        return [
            (leaf, frozenset([Fate.GONE]))
            for leaf in reversed(order)
            if leaf in self.changed and leaf in self.keys and Fate.GONE in self._fates_outside(leaf)
        ]

    def _fates_outside(self, leaf: LeafId) -> frozenset[Fate]:
        """The fates that have a piece of their own."""
        dies = any(each.referred == leaf for each in self.deaths)
        return frozenset([Fate.BORN, Fate.GONE] if dies else [Fate.BORN])

    def _is_cut(self, place: int) -> bool:
        leaf, fates = self.order[place]
        if fates == {Fate.BORN}:
            return any(
                each.referred == leaf and not any(other == each.referring for other, _ in self.order[:place])
                for each in self.births
            )
        if fates == {Fate.GONE}:
            return any(
                each.referred == leaf and not any(other == each.referring for other, _ in self.order[place + 1 :])
                for each in self.deaths
            )
        return False

    def _term(self, place: int) -> _Pieced:
        changing, fates = self.order[place]
        terms: list[Term] = []
        found: list[Scan] = []
        pieces: list[Piece] = []
        for scan in self.product.scans:
            seen = frozenset().union(*(before for leaf, before in self.order[:place] if leaf == scan.leaf))
            wanted = fates if scan.leaf == changing else seen
            term: Term = BaseDelta(self.interval) if scan.leaf == changing else Patched(self.interval)
            if wanted and wanted != ALL:
                piece = Piece(scan.table, self.keys[scan.leaf], wanted)
                pieces.append(piece)
                scan = replace(scan, table=piece.name)
            found.append(scan)
            terms.append(term if wanted else Snapshot(self.interval.start))
        plan = replace(self.product, scans=tuple(found)).plan()
        return Query(plan, tuple(terms), CsnRule.LATEST), tuple(pieces)
