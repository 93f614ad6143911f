"""Compensation as in [SzeLing00 §5]: an answer of one state of a relation becomes the answer of another.

Not [Salem00]'s compensation, which sends further queries and subtracts their answers. Here nothing is asked: the
answer itself is mended from the updates that lie between the two states.

The computation of an update must see relation R_j at its initial version α. The answer was given at a queried
version β, and holds the rows of R_j that have one of the values asked for (the *probes*). Then [Lemma 1]

- β > α: the updates β, β-1, ..., α+1 are **interfering** and are undone, newest first [Lemmas 5, 6, 7];
- β < α: the updates β+1, ..., α are **missing** and are redone, oldest first [Lemmas 2, 3, 4];
- β = α: the answer stands.

*Why it is right.* The state of a relation is the net effect of its updates [Salem00 §3.4, footnote 3], and choosing
the rows with given probes commutes with adding and removing rows. So R_j[probes] at α is R_j[probes] at β less, or
plus, the updates in between, restricted to the same probes. An update restricted to the probes is exactly what the
lemmas add ("all tuples of ΔR_j that can join with μR_k") and drop ("that are found in μR_j").

*The rest of each lemma*, "together with those tuples from the other base relations", is not done here: rows of other
relations that only a dropped row led to are not reached any more, and those that an added row leads to are asked for
(``computation``). That is why queried versions belong to answers and not to relations: a row that compensation added
is followed by a later sub-query, which is answered in a later state.

*Rows of the view.* The view shows only some attributes; the others stand as ``Unknown``. A row is then found by what
is known of it, which must include its key, and a modification changes what it changed [Lemma 4].
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from headwater.algebra.plan import Attribute, LeafId
from headwater.algebra.zset import Row
from headwater.errors import InternalError
from headwater.propagate.version_numbers.numbers import BaseRelationVersion, InitialVersion, QueriedVersion
from headwater.propagate.version_numbers.updates import Change, Deletion, Insertion, Modification

Bag: TypeAlias = Mapping[Row, int]
Updates: TypeAlias = Callable[[BaseRelationVersion], tuple[Change, ...]]
"""The changes of one relation's update, by its base relation version."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """The value of an attribute class that the view does not show: the "-" and "_e99" of [SzeLing00 Example 8].

    It equals itself alone, so rows that were read from one row of the view still find each other.
    """

    attribute: Attribute
    leaf: LeafId
    probe: Row

    def __repr__(self) -> str:
        return f"_{self.attribute}{list(self.probe)}"


@dataclass(frozen=True, slots=True)
class Piece:
    """What one answer tells of one relation: its rows with one of the probes, in one state.

    No rows is an answer too: the (-, -, -, 2) of [SzeLing00 Example 8] says that in state 2 there were none.
    """

    probes: frozenset[Row]
    rows: Bag
    version: QueriedVersion


def interfering_updates(initial: InitialVersion, queried: QueriedVersion) -> tuple[BaseRelationVersion, ...]:
    """[Lemma 1 (1)]: in the answer and not to be seen; newest first."""
    return tuple(BaseRelationVersion(version) for version in range(queried, initial, -1))


def missing_updates(initial: InitialVersion, queried: QueriedVersion) -> tuple[BaseRelationVersion, ...]:
    """[Lemma 1 (2)]: to be seen and not in the answer; oldest first."""
    return tuple(BaseRelationVersion(version) for version in range(queried + 1, initial + 1))


def compensate(piece: Piece, initial: InitialVersion, updates: Updates, concerns: Callable[[Row], bool]) -> Piece:
    """[Theorem 1]: the same question answered at the initial version.

    ``concerns`` tells whether a row of the relation is one that the answer would hold: it has one of the probes, and
    the conditions on this relation alone keep it.
    """
    redone = redo_missing(piece, initial, updates, concerns)
    return undo_interfering(redone, initial, updates, concerns)


def redo_missing(piece: Piece, initial: InitialVersion, updates: Updates, concerns: Callable[[Row], bool]) -> Piece:
    """[Theorem 1 (1)]"""
    rows = dict(piece.rows)
    versions = missing_updates(initial, piece.version)
    for version in versions:
        for change in updates(version):
            match change:
                case Deletion(row=row):  # Lemma 2
                    if concerns(row):
                        _drop(rows, row)
                case Insertion(row=row):  # Lemma 3
                    if concerns(row):
                        _add(rows, row)
                case Modification(old=old, new=new):  # Lemma 4
                    if concerns(old):
                        _replace(rows, old, new)
    return _settled(piece, rows, QueriedVersion(versions[-1]) if versions else piece.version)


def undo_interfering(piece: Piece, initial: InitialVersion, updates: Updates, concerns: Callable[[Row], bool]) -> Piece:
    """[Theorem 1 (2)]"""
    rows = dict(piece.rows)
    versions = interfering_updates(initial, piece.version)
    for version in versions:
        for change in reversed(updates(version)):
            match change:
                case Deletion(row=row):  # Lemma 5
                    if concerns(row):
                        _add(rows, row)
                case Insertion(row=row):  # Lemma 6
                    if concerns(row):
                        _drop(rows, row)
                case Modification(old=old, new=new):  # Lemma 7
                    if concerns(new):
                        _replace(rows, new, old)
    return _settled(piece, rows, QueriedVersion(versions[-1] - 1) if versions else piece.version)


def is_known(values: Iterable[Any]) -> bool:
    return not any(isinstance(value, Unknown) for value in values)


def _add(rows: dict[Row, int], row: Row) -> None:
    rows[row] = rows.get(row, 0) + 1


def _drop(rows: dict[Row, int], row: Row) -> None:
    found = _found(rows, row)
    rows[found] = rows.get(found, 0) - 1


def _replace(rows: dict[Row, int], old: Row, new: Row) -> None:
    found = _found(rows, old)
    rows[found] = rows.get(found, 0) - 1
    # What the view does not show and the modification did not change stays unknown: it is a link to other rows.
    _add(
        rows,
        tuple(
            was if isinstance(was, Unknown) and before == after else after
            for was, before, after in zip(found, old, new, strict=True)
        ),
    )


def _found(rows: Mapping[Row, int], row: Row) -> Row:
    """The row as the piece has it, which may be with attributes unknown."""
    if rows.get(row, 0) > 0:
        return row
    for held, count in rows.items():
        if count > 0 and all(isinstance(have, Unknown) or have == value for have, value in zip(held, row, strict=True)):
            return held
    return row


def _settled(piece: Piece, rows: Mapping[Row, int], version: QueriedVersion) -> Piece:
    kept = {row: count for row, count in rows.items() if count}
    if any(count < 0 for count in kept.values()):
        raise InternalError(f"{piece} contradicts the updates between it and version {version}: it becomes {kept}")
    return Piece(piece.probes, kept, version)
