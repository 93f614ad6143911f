"""A change completed from the view itself, without the other tables [SzeLing00 §4.2, §4.3: partial self-maintenance].

Let a product show the key k of leaf i, and let X be changes of leaf i after a. The term X ⋈ Π T_j, with whatever terms
T_j at the other leaves, asks which rows of the T_j each changed row meets. If R_i @ a has a row r with the same k, and
the changed row has the same values as r wherever a condition looks, then it meets just the rows that r meets. And these
are told by the view with R_i @ a and the T_j: its rows with that k all come from r, as k is a key at a and is shown. So

    (the term of a changed row x with count n at csn c)
        = each row v of the view with x's key, the outputs that leaf i makes made from x, count n · count(v), csn
          max(c, csn of v)

The functional dependency is "k determines everything that leaf i gives"; outputs over leaf i must be over leaf i alone,
and all others are copied from v. That answers deletions and all updates that change no column of a condition: what
[SzeLing00 §4.3] does with DELETE and UPDATE statements by key. Which key was there at a is read off X: what the first
net change of k takes away was there before, and if k is a key at a it is r. At a alone: later rows with the same k,
even two at once, each meet what r meets. What this does not answer is returned, to be asked of the tables: keys that
were not there, and keys that changed where a condition looks, each with *all* its changes.

*Shown by another.* Rows of the view fulfil its conditions, so a column that a condition of the product equates with a
column of k shows it as well, if both are of one type.

*The view with the T_j.* With all other leaves as of a it is V(a), as stored. A second leaf that changed is completed
from V(a) + what the first one's change added, which is the view with that leaf as R @ a + X (the law), and so on: the
terms of a frontier in which every leaf but the one in question stands where the view already is.

*Where we depart.* In the paper a row of the view also stands for rows of relations that the view does not show by key,
if a shown one determines them; for insertions (its Example 6) it saves a look at small tables that are read anyway, and
is left out here. ``version_numbers.self_maintenance`` has it, for sources that are far away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from sqlglot import exp

from headwater.algebra.constraints import Knowledge
from headwater.algebra.plan import Attribute, LeafId, Scan
from headwater.algebra.product import Product, attributes_of
from headwater.algebra.scalar import compile_scalar
from headwater.algebra.time import Interval
from headwater.algebra.zset import Entry, Row, ZSet
from headwater.engine.reference import latest_csn

Comparable: TypeAlias = Callable[[Scan, str, Scan, str], bool]
"""Whether a column of one leaf and a column of another are of one type."""


@dataclass(frozen=True, slots=True)
class FromView:
    """How changes of a leaf are completed from rows of the product's view.

    ``key[k]`` of the table's columns is shown by output ``shown[k]``; ``tested`` are the columns that conditions read;
    ``made`` are the outputs that the leaf makes, each with its expression over the leaf's attributes.
    """

    scan: Scan
    key: tuple[str, ...]
    shown: tuple[int, ...]
    tested: tuple[str, ...]
    made: tuple[tuple[int, exp.Expr], ...]


@dataclass(frozen=True, slots=True)
class Completed:
    view_delta: ZSet
    to_be_asked: ZSet  # changes of the leaf that the view does not answer


def from_view(
    product: Product, leaf: LeafId, interval: Interval, knowledge: Knowledge, one_type: Comparable
) -> FromView | None:
    """Whether, and how, the view answers for changes of a leaf over an interval; None when it can't."""
    if product.generators:
        return None
    scan = next(scan for scan in product.scans if scan.leaf == leaf)
    own = set(scan.attributes)
    made = [(place, value) for place, (_, value) in enumerate(product.outputs) if attributes_of(value) & own]
    if any(not attributes_of(value) <= own for _, value in made):
        return None
    shown_by = {value.name: place for place, (_, value) in enumerate(product.outputs) if isinstance(value, exp.Column)}
    shown_by = dict(_equal_to(product, scan, shown_by, one_type)) | shown_by
    columns = dict(zip(scan.columns, scan.attributes, strict=True))
    read = {name for condition in product.conditions for name in attributes_of(condition)}
    tested = tuple(name for name, attribute in columns.items() if attribute in read)
    for key in knowledge.keys(scan.table, interval.start, interval.start):
        shown = tuple(shown_by[columns[name]] for name in key if columns.get(name) in shown_by)
        if len(shown) == len(key):
            return FromView(scan, key, shown, tested, tuple(made))
    return None


def complete(how: FromView, changes: ZSet, view: ZSet) -> Completed:
    """The term of the leaf's changes over an interval, as far as rows of the view tell it.

    ``changes`` are rows of the leaf's columns, all of the interval; ``view`` the view with the leaf as it was at the
    interval's start and every other leaf as it stands in the term.
    """
    columns = how.scan.columns
    key_of, tested_of = _values(columns, how.key), _values(columns, how.tested)
    made = [(place, compile_scalar(value, how.scan.attributes)) for place, value in how.made]
    by_key: dict[Row, list[Entry]] = {}
    for entry in changes.consolidate():
        by_key.setdefault(key_of(entry[0]), []).append(entry)
    shown: dict[Row, list[Entry]] = {}
    for entry in view.consolidate():
        shown.setdefault(tuple(entry[0][place] for place in how.shown), []).append(entry)
    done: list[Entry] = []
    asked: list[Entry] = []
    for key, entries in by_key.items():
        if not _is_told(key, entries, tested_of):
            asked += entries
            continue
        for row, count, csn in entries:
            for seen, copies, at in shown.get(key, ()):
                values = list(seen)
                for place, value in made:
                    values[place] = value(row)
                done.append((tuple(values), count * copies, latest_csn(csn, at)))
    return Completed(ZSet.of(done), ZSet.of(asked))


def _is_told(key: Row, entries: Iterable[Entry], tested_of: Callable[[Row], Row]) -> bool:
    """Whether the key was there before, and every row that it ever had looks alike to the conditions."""
    if None in key:
        return False
    listed = list(entries)
    first = min(csn for _, _, csn in listed if csn is not None)
    before = [row for row, count, csn in listed if csn == first and count < 0]
    return bool(before) and all(tested_of(row) == tested_of(before[0]) for row, _, _ in listed)


def _values(columns: tuple[str, ...], wanted: tuple[str, ...]) -> Callable[[Row], tuple[Any, ...]]:
    places = [columns.index(name) for name in wanted]
    return lambda row: tuple(row[place] for place in places)


def _equal_to(
    product: Product, scan: Scan, shown_by: Mapping[Attribute, int], one_type: Comparable
) -> Iterable[tuple[Attribute, int]]:
    """Attributes of the leaf whose values the view shows as those of another leaf."""
    named = {
        attribute: (each, name)
        for each in product.scans
        for name, attribute in zip(each.columns, each.attributes, strict=True)
    }
    for own, other in product.equated():
        if own in named and other in shown_by and named[own][0] == scan and one_type(*named[own], *named[other]):
            yield own, shown_by[other]
