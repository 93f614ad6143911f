"""The six kinds of version numbers [SzeLing00 §3], each a type of its own.

| | kind | of | kept by | what it tells |
|---|---|---|---|---|
| 1 | base relation version | a base relation | its source | its state: one more for each transaction that touches it |
| 2 | data source version | a source | the source | its state: one more for each transaction |
| 3 | highest processing version | a leaf of the view | the view's site | the newest update sent for computation |
| 4 | initial version | a leaf, for one update | the computation | the state that the update's computation must see |
| 5 | queried version | an answer from a relation | the computation | the state that the answer was given in |
| 6 | refreshed version | a leaf of the view | the view's site | the state that the view reflects |

All count the same thing, so all are numbers, but a queried version where an initial version belongs is a wrong view
and nothing else tells. One kind becomes another only through the functions here, each a sentence of the paper.

*Where we depart.* The paper has each base relation once in a view, and numbers 3, 4 and 6 for each of the n
relations. A view may join a table with itself, so ours are for each of the n leaves; the updates of a table are
computed for one of its leaves after another, as the paper does with the relations of one transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NewType

SourceName = NewType("SourceName", str)

BaseRelationVersion = NewType("BaseRelationVersion", int)
DataSourceVersion = NewType("DataSourceVersion", int)
HighestProcessingVersion = NewType("HighestProcessingVersion", int)
InitialVersion = NewType("InitialVersion", int)
QueriedVersion = NewType("QueriedVersion", int)
RefreshedVersion = NewType("RefreshedVersion", int)


def sent_for_computation(version: BaseRelationVersion) -> HighestProcessingVersion:
    """ "The base relation version number of the latest update sent for incremental computation" (3)."""
    return HighestProcessingVersion(version)


def assigned(versions: Sequence[HighestProcessingVersion]) -> tuple[InitialVersion, ...]:
    """An update sent for computation takes the highest processing versions as its initial versions (4)."""
    return tuple(InitialVersion(version) for version in versions)


def answered_by_source(version: BaseRelationVersion) -> QueriedVersion:
    """A relation answers in the state that it is in (5)."""
    return QueriedVersion(version)


def answered_by_view(version: RefreshedVersion) -> QueriedVersion:
    """The view answers in the state that it reflects (5, last sentence)."""
    return QueriedVersion(version)


def applied(versions: Sequence[InitialVersion]) -> tuple[RefreshedVersion, ...]:
    """A view to which the change of an update was applied reflects the states that its computation saw (6)."""
    return tuple(RefreshedVersion(version) for version in versions)
