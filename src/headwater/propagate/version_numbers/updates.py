"""What a source tells: transactions of insertions, deletions and modifications, with the versions they led to.

A transaction touches one or more relations of one source [SzeLing00 §2.1]. It raises the data source version by
one, and the base relation version of each relation that it touches by one, however many rows changed [SzeLing00 §3
(1), (2)].

A modification stays one change [SzeLing00 §4.3]: taken apart into a deletion and an insertion it would need every
relation asked, where by its key the view can often be mended with none. Only where it changes an attribute of the
view's conditions is it taken apart (``JoinView.as_seen``), since it then joins other rows than before.

A transaction may touch a row more than once. Only the first and the last state of it ever stood in a committed
relation, so changes are taken by their ``net_changes``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from headwater.algebra.zset import Row
from headwater.propagate.version_numbers.numbers import BaseRelationVersion, DataSourceVersion, SourceName


@dataclass(frozen=True, slots=True)
class Insertion:
    row: Row


@dataclass(frozen=True, slots=True)
class Deletion:
    row: Row


@dataclass(frozen=True, slots=True)
class Modification:
    old: Row
    new: Row


Change: TypeAlias = Insertion | Deletion | Modification


@dataclass(frozen=True, slots=True)
class Update:
    """What one transaction did to one relation; ``version`` is the relation's after it."""

    table: str
    version: BaseRelationVersion
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class Transaction:
    """An update notification message: ``version`` is the source's after the commit."""

    source: SourceName
    version: DataSourceVersion
    updates: tuple[Update, ...]

    def __post_init__(self) -> None:
        tables = [update.table for update in self.updates]
        if len(tables) != len(set(tables)):
            raise ValueError(f"transaction {self.version} of {self.source} tells of one relation more than once")

    def __str__(self) -> str:
        return f"transaction {self.version} of {self.source}"


def signed(changes: tuple[Change, ...]) -> Iterator[tuple[Row, int]]:
    """The changes as rows with signed counts."""
    for change in changes:
        match change:
            case Insertion(row=row):
                yield row, 1
            case Deletion(row=row):
                yield row, -1
            case Modification(old=old, new=new):
                yield old, -1
                yield new, 1


def net_changes(changes: Iterable[Change]) -> tuple[Change, ...]:
    """The changes from the state before the transaction to the state after it, with nothing in between.

    A modified row that is modified again is modified once; one that is deleted was deleted as it stood before.
    """
    inserted: Counter[Row] = Counter()
    deleted: Counter[Row] = Counter()
    modified: list[Modification] = []

    def take_modification(new: Row) -> Modification | None:
        for position, change in enumerate(modified):
            if change.new == new:
                return modified.pop(position)
        return None

    def insert(row: Row) -> None:
        if deleted[row]:
            deleted[row] -= 1
        else:
            inserted[row] += 1

    for change in changes:
        match change:
            case Insertion(row=row):
                insert(row)
            case Deletion(row=row):
                if inserted[row]:
                    inserted[row] -= 1
                elif (earlier := take_modification(row)) is not None:
                    deleted[earlier.old] += 1
                else:
                    deleted[row] += 1
            case Modification(old=old, new=new):
                if inserted[old]:
                    inserted[old] -= 1
                    insert(new)
                elif (earlier := take_modification(old)) is not None:
                    modified.append(Modification(earlier.old, new))
                else:
                    modified.append(change)
    return (
        *(Deletion(row) for row in deleted.elements()),
        *modified,
        *(Insertion(row) for row in inserted.elements()),
    )
