"""What the view's site asks, and what it is told: the values that cross the network.

A sub-query names relations of one source. Of each it wants the rows that have one of the given probes, or that join
with the rows it finds of another relation of the same sub-query (the parent); so relations that are joined at the
source cost one question, and only join values are shipped to it [SzeLing00 §4.1]. It is answered in one state of the
source: with each relation's rows comes the relation's base relation version in that state [SzeLing00 §3 (5)].

The view is asked in the same way, by key, and answers with its refreshed versions [SzeLing00 §3 (6)].
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NewType

from headwater.algebra.plan import Attribute, LeafId
from headwater.algebra.zset import Row
from headwater.propagate.version_numbers.compensation import Bag
from headwater.propagate.version_numbers.numbers import BaseRelationVersion, RefreshedVersion, SourceName

QuestionId = NewType("QuestionId", int)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Of a leaf's relation: the rows whose ``attributes`` are one of ``probes``, or equal ``parent_attributes`` of a
    row found of ``parent`` in the same sub-query; and that the view's conditions on this leaf alone keep."""

    leaf: LeafId
    table: str
    attributes: tuple[Attribute, ...]
    probes: tuple[Row, ...]
    parent: LeafId | None = None
    parent_attributes: tuple[Attribute, ...] = ()


@dataclass(frozen=True, slots=True)
class SubQuery:
    question: QuestionId
    source: SourceName
    wanted: tuple[Wanted, ...]  # parents before children

    def __str__(self) -> str:
        return f"sub-query {self.question} to {self.source} for " + ", ".join(each.table for each in self.wanted)


@dataclass(frozen=True, slots=True)
class SourceAnswer:
    question: QuestionId
    rows: Mapping[LeafId, Bag]
    versions: Mapping[str, BaseRelationVersion]  # by table, all of one moment


@dataclass(frozen=True, slots=True)
class ViewQuery:
    """The view's rows whose outputs at ``positions`` are one of ``keys``."""

    question: QuestionId
    leaf: LeafId
    positions: tuple[int, ...]
    keys: tuple[Row, ...]

    def __str__(self) -> str:
        return f"query {self.question} to the view by {len(self.keys)} keys"


@dataclass(frozen=True, slots=True)
class ViewAnswer:
    question: QuestionId
    rows: tuple[Row, ...]
    versions: tuple[RefreshedVersion, ...]  # by leaf, of the moment at which the view was read
