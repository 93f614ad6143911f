"""Which states of tables a query needs that only their sources have, and how to ask for them.

A query has one changed leaf. From there the join graph is walked along its equalities [SzeLing00 §4.1]: each leaf that
has to be asked for is asked with the values that the leaves before it have in the columns that it is joined by, so what
is shipped is the rows that can take part and no others, and no cartesian product is formed that the view does not
have. A leaf that no equality reaches is asked for whole.

*One question for a source.* A leaf that is joined with one that the same source is asked for need not wait for its
answer: it **follows** it inside the source. Questions go out in waves, to all sources at once; in a wave a source gets
one question, for all that it can follow and for all whose keys are known. A leaf waits for the next wave only if its
keys come from another source's answer, or from a table of the lake that itself hangs on an answer.

Every answer is brought to the very csn that the query names (``headwater.sources.postgres.visibility``), whatever the
source shows when it is asked; so the frontier's formula is that of versioned tables. This is the imitation of DESIGN 2:
where [SzeLing00] computes with an answer of the wrong state and mends the result, here the answer itself is mended
first. What was followed is the source's present. If mending leaves the followed relation as it was, that is all there
is to follow; otherwise its keys are looked at again, and those that lead further than the answer went are asked for
(``by``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from sqlglot import exp

from headwater.algebra.plan import Scan
from headwater.algebra.product import Product, attributes_of, products
from headwater.algebra.query import Patched, Query, Snapshot, Term
from headwater.algebra.time import Csn

StateKey: TypeAlias = tuple[str, Csn]


@dataclass(frozen=True, slots=True)
class KeyPath:
    """The rows of ``scans``, joined under ``conditions``, have the keys: ``pairs`` are (column asked by, attribute)."""

    scans: tuple[Scan, ...]
    conditions: tuple[exp.Expr, ...]
    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Follow:
    """Columns that must equal columns of another state of the same question: (own column, its column).

    ``changed``: changes stand beside that state at its leaf, and have keys that it may not have.
    """

    state: StateKey
    pairs: tuple[tuple[str, str], ...]
    changed: bool


@dataclass(frozen=True, slots=True)
class Asking:
    """A table's state at a csn.

    ``sent`` are the keys that go with the question, ``follows`` what limits the rows inside the source. ``by`` are the
    keys for a question of its own, after all answers that come before; None asks for all of the table.
    """

    table: str
    at: Csn
    by: KeyPath | None
    sent: KeyPath | None = None
    follows: tuple[Follow, ...] = ()
    wave: int = 0

    @property
    def state(self) -> StateKey:
        return self.table, self.at


Comparable: TypeAlias = Callable[[Scan, str, Scan, str], bool]
"""Whether a column of one leaf and a column of another hold values of one kind, so that the one can ask the other; or
whether they do so in one source, so that the one can follow the other there."""


def askings(query: Query, asked: Collection[str], comparable: Comparable, together: Comparable) -> tuple[Asking, ...]:
    """What must be asked for before a query can be run, in an order in which each has the keys that it needs."""
    found = [product for product in products(query.plan) if query.marked <= set(product.leaves)]
    walks = [_Walk(query, product, asked, comparable, together) for product in found]
    # A state that several leaves need is asked for whole: no row may be told twice, and one may need the other.
    counts = Counter(state for walk in walks for state in walk.states())
    shared = {state for state, count in counts.items() if count > 1}
    return tuple({each.state: each for walk in walks for each in walk.askings(shared)}.values())


def questions(found: Sequence[Asking], asked: Mapping[str, str]) -> list[list[Asking]]:
    """One question for each source (``asked`` says which a table is of), and one for each table that is asked whole."""
    groups: dict[tuple[str, StateKey | None], list[Asking]] = {}
    for each in found:
        groups.setdefault((asked[each.table], each.state if each.by is None else None), []).append(each)
    return list(groups.values())


@dataclass(frozen=True, slots=True)
class _Reached:
    """A leaf whose rows give keys, from a wave on; ``asking``: what its source is asked for."""

    scan: Scan
    ready: int
    asking: Asking | None = None


@dataclass(frozen=True, slots=True)
class _Link:
    """A column that must equal an attribute of a leaf reached before."""

    column: str
    leaf: _Reached
    attribute: str

    @property
    def its_column(self) -> str:
        return self.leaf.scan.columns[self.leaf.scan.attributes.index(self.attribute)]


@dataclass(frozen=True, slots=True)
class _Walk:
    """From the changed leaf of a product along its equalities."""

    query: Query
    product: Product
    asked: Collection[str]
    comparable: Comparable
    together: Comparable

    def states(self) -> list[StateKey]:
        moments = [(scan.table, _moment(self.query.terms[scan.leaf])) for scan in self.product.scans]
        return [(table, at) for table, at in moments if table in self.asked and at is not None]

    def askings(self, shared: Collection[StateKey]) -> list[Asking]:
        marked = self.query.marked
        reached = [_Reached(scan, 0) for scan in self.product.scans if scan.leaf in marked]
        pending = [scan for scan in self.product.scans if scan.leaf not in marked]
        found: list[Asking] = []
        while pending:
            links = {scan.leaf: self._links(scan, reached) for scan in pending}
            linked = [scan for scan in pending if links[scan.leaf]]
            # Tables of the lake first: they cost no question and may have the keys of those that do.
            chosen = min(linked or pending, key=lambda scan: scan.table in self.asked)
            pending.remove(chosen)
            at, own, asking = _moment(self.query.terms[chosen.leaf]), links[chosen.leaf], None
            if chosen.table in self.asked and at is not None:
                whole = not own or (chosen.table, at) in shared
                asking = Asking(chosen.table, at, None) if whole else self._asking(chosen, at, own, reached)
                found.append(asking)
            # Without a link it is met by every row; what it has says nothing about the keys of others.
            if own:
                ready = min(link.leaf.ready for link in own) if asking is None else asking.wave + 1
                reached.append(_Reached(chosen, ready, asking))
        return found

    def _asking(self, scan: Scan, at: Csn, links: Sequence[_Link], reached: Sequence[_Reached]) -> Asking:
        wave = max(self._wave(scan, link) for link in links)
        inside = [link for link in links if link.leaf.ready > wave]
        outside = [link for link in links if link.leaf.ready <= wave]
        sent = self._path([each for each in reached if each.ready <= wave], outside) if outside else None
        if not inside:
            return Asking(scan.table, at, sent, sent, (), wave)
        # After the wave there is all that came before this leaf in the walk and did not wait longer.
        by = self._path([each for each in reached if each.ready <= wave + 1], links)
        return Asking(scan.table, at, by, sent, tuple(self._follows(inside)), wave)

    def _wave(self, scan: Scan, link: _Link) -> int:
        """The first wave in which a link limits what is asked for: that of the leaf itself, if it can be followed."""
        asking = link.leaf.asking
        if asking is None or asking.by is None or scan.table not in self.asked:
            return link.leaf.ready
        followed = self.together(scan, link.column, link.leaf.scan, link.its_column)
        return asking.wave if followed else link.leaf.ready

    def _follows(self, links: Sequence[_Link]) -> list[Follow]:
        found: dict[StateKey, Follow] = {}
        for link in links:
            assert link.leaf.asking is not None  # noqa: S101  a leaf that is ready later than its wave is asked for
            state, changed = link.leaf.asking.state, isinstance(self.query.terms[link.leaf.scan.leaf], Patched)
            pairs = found[state].pairs if state in found else ()
            found[state] = Follow(state, (*pairs, (link.column, link.its_column)), changed)
        return list(found.values())

    def _path(self, reached: Sequence[_Reached], links: Sequence[_Link]) -> KeyPath:
        scans = tuple(each.scan for each in reached)
        names = {name for scan in scans for name in scan.attributes}
        conditions = tuple(condition for condition in self._early() if attributes_of(condition) <= names)
        return KeyPath(scans, conditions, tuple((link.column, link.attribute) for link in links))

    def _early(self) -> list[exp.Expr]:
        return [condition for condition in self.product.conditions if not self.product.is_late(condition)]

    def _links(self, scan: Scan, reached: Sequence[_Reached]) -> list[_Link]:
        """The columns of a leaf that must equal attributes of leaves reached before, each by what is there first."""
        own = dict(zip(scan.attributes, scan.columns, strict=True))
        theirs = {name: each for each in reached for name in each.scan.attributes}
        found: dict[str, list[_Link]] = {}
        for one, other in self.product.equated():
            if one in own and other in theirs:
                link = _Link(own[one], theirs[other], other)
                if self.comparable(scan, link.column, link.leaf.scan, link.its_column):
                    found.setdefault(link.column, []).append(link)
        return [min(links, key=lambda link: (self._wave(scan, link), link.leaf.ready)) for links in found.values()]


def _moment(term: Term) -> Csn | None:
    match term:
        case Snapshot(at=at):
            return at
        case Patched(interval=interval):
            return interval.start
        case _:
            return None
