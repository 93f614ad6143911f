"""From rows of one leaf to the rows of the others that join with them, at one state of each, question by question.

A walk knows, for each leaf of its access path and each probe that was asked, exactly the rows at the initial version:
whatever state an answer came from, it is compensated before it is kept. What must be asked next follows from what is
known: the rows of a leaf give the probes of the leaves below it. Probes are never asked twice, and which there will
be is decided by the states at the initial versions alone, so a walk ends after finitely many questions, however the
answers are mixed [SzeLing00 Theorem 1: "proceed recursively ... in the same sequence as they are queried"].
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from headwater.algebra.plan import LeafId
from headwater.algebra.scalar import compile_scalar
from headwater.algebra.zset import Row
from headwater.errors import InternalError
from headwater.propagate.version_numbers.access import AccessPath, Visit
from headwater.propagate.version_numbers.compensation import Bag, Piece, is_known
from headwater.propagate.version_numbers.definition import JoinView, attributes_of


@dataclass(slots=True)
class Walk:
    view: JoinView
    path: AccessPath
    start: Mapping[Row, int]  # rows of the root, with signed counts
    known: dict[LeafId, dict[Row, Bag]] = field(default_factory=dict)  # leaf to probe to rows at the initial version
    asked: dict[LeafId, set[Row]] = field(default_factory=dict)  # probes on their way to a source or to the view

    def unmet(self) -> dict[LeafId, tuple[Row, ...]]:
        """The probes of each leaf that follow from what is known and were not asked yet."""
        found: dict[LeafId, tuple[Row, ...]] = {}
        reached: dict[LeafId, list[Row]] = {self.path.root: list(self.start)}
        for visit in self.path.visits:
            rows: dict[Row, None] = {}
            open_probes = []
            for probe in self._probes(visit, reached.get(visit.parent, ())):
                held = self.known.get(visit.leaf, {}).get(probe)
                if held is not None:
                    rows.update(dict.fromkeys(held))
                elif probe not in self.asked.get(visit.leaf, ()):
                    open_probes.append(probe)
            reached[visit.leaf] = list(rows)
            if open_probes:
                found[visit.leaf] = tuple(open_probes)
        return found

    def learn(self, leaf: LeafId, piece: Piece) -> None:
        """Keep what a compensated answer tells. What is known already is as true, and stays."""
        visit = self.visit(leaf)
        rows = self.known.setdefault(leaf, {})
        new: dict[Row, dict[Row, int]] = {probe: {} for probe in piece.probes if probe not in rows}
        for row, count in piece.rows.items():
            probe = self.view.values(leaf, visit.attributes, row)
            if probe in new:
                new[probe][row] = count
        rows.update(new)

    def visit(self, leaf: LeafId) -> Visit:
        return next(visit for visit in self.path.visits if visit.leaf == leaf)

    def joined(self) -> Iterator[tuple[Mapping[LeafId, Row], int]]:
        """Every combination of rows of the path's leaves that the conditions on them keep, with its signed count."""
        combined: list[tuple[dict[LeafId, Row], int]] = [
            ({self.path.root: row}, count) for row, count in self.start.items() if count
        ]
        for visit in self.path.visits:
            held = self.known.get(visit.leaf, {})
            combined = [
                ({**rows, visit.leaf: row}, count * copies)
                for rows, count in combined
                for probe in self._probes(visit, (rows[visit.parent],))
                for row, copies in held[probe].items()
            ]
        scans = [self.view.leaves[leaf] for leaf in sorted(self.path.leaves)]
        attributes = tuple(name for scan in scans for name in scan.attributes)
        spanning = [  # those on one leaf alone were tested when its rows were asked for
            compile_scalar(condition, attributes)
            for condition in self.view.conditions
            if attributes_of(condition) <= set(attributes)
            and len({self.view.owner[name] for name in attributes_of(condition)}) != 1
        ]
        pairs = [(attributes.index(left), attributes.index(right)) for left, right in self.path.checks]
        for rows, count in combined:
            row = tuple(value for scan in scans for value in rows[scan.leaf])
            equal = all(row[left] is not None and row[left] == row[right] for left, right in pairs)
            if equal and all(test(row) is True for test in spanning):
                yield rows, count

    def _probes(self, visit: Visit, rows: Iterable[Row]) -> list[Row]:
        values = (self.view.values(visit.parent, visit.parent_attributes, row) for row in rows)
        return [probe for probe in dict.fromkeys(values) if None not in probe]  # NULL joins nothing


def output_rows(view: JoinView, walk: Walk) -> dict[Row, int]:
    """The change of the view: the joined rows, projected."""
    attributes = tuple(name for scan in view.leaves for name in scan.attributes)
    values = [compile_scalar(expression, attributes) for _, expression in view.outputs]
    sums: dict[Row, int] = {}
    for rows, count in walk.joined():
        row = tuple(value for scan in view.leaves for value in rows[scan.leaf])
        shown = tuple(value(row) for value in values)
        sums[shown] = sums.get(shown, 0) + count
    if not all(is_known(row) for row in sums):
        raise InternalError(f"the view was taken as an answer for rows that it does not show in full: {sums}")
    return {row: count for row, count in sums.items() if count}
