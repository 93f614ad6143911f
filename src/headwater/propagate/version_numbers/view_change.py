"""What an update does to the stored view: rows to add or take away, or, by key, rows to delete or to modify.

[SzeLing00 Example 7] sets a column WHERE C = c1 and [Example 12] deletes WHERE C = c2: the view's own rows tell the
rest, so fewer relations need be asked. A view row stands for as many derivations as its count says; all derivations
of a row with a certain key go through the one row with that key, so deleting or setting the view row with its whole
count is right.

Steps are taken in order, and mean what they say only on the view as it was just before: changes are applied in the
order in which their updates were sent for computation [Theorem 2].
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from headwater.algebra.zset import Row, ZSet
from headwater.errors import InternalError


@dataclass(frozen=True, slots=True)
class AddRows:
    """Rows with signed counts."""

    rows: tuple[tuple[Row, int], ...]


@dataclass(frozen=True, slots=True)
class DeleteWhere:
    """Every view row whose outputs at ``positions`` are one of ``keys``."""

    positions: tuple[int, ...]
    keys: frozenset[Row]


@dataclass(frozen=True, slots=True)
class SetWhere:
    """In every view row whose outputs at ``positions`` are a key of ``values``: output to its new value."""

    positions: tuple[int, ...]
    values: Mapping[Row, Mapping[int, Any]]


ViewStep: TypeAlias = AddRows | DeleteWhere | SetWhere


def apply_steps(view: Mapping[Row, int], steps: Iterable[ViewStep]) -> dict[Row, int]:
    """The view after the steps; the executable meaning of each."""
    rows = dict(view)
    for step in steps:
        match step:
            case AddRows(rows=added):
                for row, count in added:
                    rows[row] = rows.get(row, 0) + count
            case DeleteWhere(positions=positions, keys=keys):
                rows = {row: count for row, count in rows.items() if _at(row, positions) not in keys}
            case SetWhere(positions=positions, values=values):
                after: dict[Row, int] = {}
                for row, count in rows.items():
                    changed = values.get(_at(row, positions), {})
                    new = tuple(changed.get(position, value) for position, value in enumerate(row))
                    after[new] = after.get(new, 0) + count
                rows = after
        rows = {row: count for row, count in rows.items() if count}
    if any(count < 0 for count in rows.values()):
        raise InternalError(f"the view would hold rows less than no times: {rows}")
    return rows


def view_delta(view: Mapping[Row, int], steps: Iterable[ViewStep]) -> ZSet:
    """The same change as rows with signed counts, for a store that knows no other."""
    before = ZSet.of((row, -count, None) for row, count in view.items())
    after = ZSet.of((row, count, None) for row, count in apply_steps(view, steps).items())
    return (before + after).net_effect()


def _at(row: Row, positions: tuple[int, ...]) -> Row:
    return tuple(row[position] for position in positions)
