"""Which states of tables a query needs that only their sources have, and by which keys to ask for them.

A query has one changed leaf. From there the join graph is walked along its equalities [SzeLing00 §4.1]: each leaf that
has to be asked for is asked with the values that the leaves before it have in the columns that it is joined by, so what
is shipped is the rows that can take part and no others, and no cartesian product is formed that the view does not
have. A leaf that no equality reaches is asked for whole.

Every answer is brought to the very csn that the query names (``headwater.sources.postgres.visibility``), whatever the
source shows when it is asked; so each leaf may be asked in a transaction of its own, all at once where none waits for
the keys of another, and the frontier's formula is that of versioned tables. This is the imitation of DESIGN 2: where
[SzeLing00] computes with an answer of the wrong state and mends the result, here the answer itself is mended first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from sqlglot import exp

from headwater.algebra.plan import Scan
from headwater.algebra.product import Product, attributes_of, products
from headwater.algebra.query import Patched, Query, Snapshot, Term
from headwater.algebra.time import Csn


@dataclass(frozen=True, slots=True)
class KeyPath:
    """The rows of ``scans``, joined under ``conditions``, have the keys: ``pairs`` are (column asked by, attribute)."""

    scans: tuple[Scan, ...]
    conditions: tuple[exp.Expr, ...]
    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Asking:
    """A table's state at a csn; ``by`` None asks for all of it."""

    table: str
    at: Csn
    by: KeyPath | None


Comparable = Callable[[Scan, str, Scan, str], bool]
"""Whether a column of one leaf and a column of another hold values of one kind, so that the one can ask the other."""


def askings(query: Query, asked: Collection[str], comparable: Comparable) -> tuple[Asking, ...]:
    """What must be asked for before a query can be run, in an order in which each has the keys that it needs."""
    found: list[Asking] = []
    for product in products(query.plan):
        if query.marked <= set(product.leaves):
            found += _of_product(query, product, asked, comparable)
    return tuple(_once(found))


def _of_product(query: Query, product: Product, asked: Collection[str], comparable: Comparable) -> list[Asking]:
    early = [condition for condition in product.conditions if not product.is_late(condition)]
    reached = [scan for scan in product.scans if scan.leaf in query.marked]
    pending = [scan for scan in product.scans if scan.leaf not in query.marked]
    found: list[Asking] = []
    while pending:
        links = {scan.leaf: _links(scan, reached, early, comparable) for scan in pending}
        linked = [scan for scan in pending if links[scan.leaf]]
        # Tables of the lake first: they cost no question and may have the keys of those that do.
        chosen = min(linked or pending, key=lambda scan: (scan.table in asked, pending.index(scan)))
        at = _moment(query.terms[chosen.leaf])
        if chosen.table in asked and at is not None:
            pairs = links[chosen.leaf]
            own = tuple(condition for condition in early if _within(condition, reached))
            found.append(Asking(chosen.table, at, KeyPath(tuple(reached), own, pairs) if pairs else None))
        pending.remove(chosen)
        # Without a link it is met by every row; what it has says nothing about the keys of others.
        if links[chosen.leaf]:
            reached.append(chosen)
    return found


def _moment(term: Term) -> Csn | None:
    match term:
        case Snapshot(at=at):
            return at
        case Patched(interval=interval):
            return interval.start
        case _:
            return None


def _links(
    scan: Scan, reached: Sequence[Scan], conditions: Sequence[exp.Expr], comparable: Comparable
) -> tuple[tuple[str, str], ...]:
    """The columns of a leaf that must equal attributes of leaves reached before: (column, attribute)."""
    own = dict(zip(scan.attributes, scan.columns, strict=True))
    theirs = {
        name: (other, column) for other in reached for name, column in zip(other.attributes, other.columns, strict=True)
    }
    found: dict[str, str] = {}
    for condition in conditions:
        if not isinstance(condition, exp.EQ) or not all(isinstance(s, exp.Column) for s in condition.unnest_operands()):
            continue
        for one, other in (condition.unnest_operands(), condition.unnest_operands()[::-1]):
            if one.name in own and other.name in theirs and own[one.name] not in found:
                leaf, column = theirs[other.name]
                if comparable(scan, own[one.name], leaf, column):
                    found[own[one.name]] = other.name
    return tuple(found.items())


def _within(condition: exp.Expr, scans: Sequence[Scan]) -> bool:
    return attributes_of(condition) <= {name for scan in scans for name in scan.attributes}


def _once(found: Sequence[Asking]) -> list[Asking]:
    """A state that several leaves need is asked for whole: no row may be told twice, and one may need the other."""
    counts: dict[tuple[str, Csn], int] = {}
    for each in found:
        counts[each.table, each.at] = counts.get((each.table, each.at), 0) + 1
    kept: dict[tuple[str, Csn], Asking] = {}
    for each in found:
        whole = counts[each.table, each.at] > 1
        kept.setdefault((each.table, each.at), Asking(each.table, each.at, None) if whole else each)
    return list(kept.values())
