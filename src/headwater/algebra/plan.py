"""The logical plan of a view: a small immutable tree of linear operators over numbered leaves.

Attributes are named uniquely over the whole tree (``o.o_orderkey`` for column ``o_orderkey`` of the leaf that the
view calls ``o``), so an expression means the same wherever it stands and joins can be flattened and
reordered freely. Scalar expressions are sqlglot expressions over attributes; they are read, never changed.

A plan of scans, filters, projections, generators, inner joins and bag unions is *linear in every leaf*: it is a sum
(over union branches) of products (joins) in which each leaf stands at most once. All propagation rests on that. What
is not linear is a node (``headwater.algebra.nodes``); to the plan above it, a node is one more table to scan.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NewType, TypeAlias

from sqlglot import exp

LeafId = NewType("LeafId", int)
Attribute: TypeAlias = str


@dataclass(frozen=True, slots=True)
class Scan:
    """One appearance of a base table; ``columns[k]`` of the table is called ``attributes[k]``."""

    leaf: LeafId
    table: str
    alias: str
    columns: tuple[str, ...]
    attributes: tuple[Attribute, ...]

    def __post_init__(self) -> None:
        if len(self.columns) != len(self.attributes):
            raise ValueError(f"leaf {self.alias}: {len(self.columns)} columns, {len(self.attributes)} attributes")


@dataclass(frozen=True, slots=True)
class Filter:
    child: Plan
    condition: exp.Expr

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        return self.child.attributes


@dataclass(frozen=True, slots=True)
class Project:
    child: Plan
    outputs: tuple[tuple[Attribute, exp.Expr], ...]

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        return tuple(name for name, _ in self.outputs)


@dataclass(frozen=True, slots=True)
class Join:
    """The inner join of all children under the conjunction of all conditions (none: the cross product)."""

    children: tuple[Plan, ...]
    conditions: tuple[exp.Expr, ...]

    def __post_init__(self) -> None:
        if len(self.children) < 2:
            raise ValueError("a join has at least two children")

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        return tuple(name for child in self.children for name in child.attributes)


@dataclass(frozen=True, slots=True)
class Generate:
    """Every row of the child beside each row that the generator makes of it (LATERAL VIEW); ``outer`` keeps rows of
    which it makes none, with NULLs."""

    child: Plan
    generator: exp.Expr
    outer: bool
    outputs: tuple[Attribute, ...]

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        return self.child.attributes + self.outputs


@dataclass(frozen=True, slots=True)
class Union:
    """Bag union (UNION ALL) by position; the k-th attribute stands for the k-th of every child."""

    children: tuple[Plan, ...]
    attributes: tuple[Attribute, ...]

    def __post_init__(self) -> None:
        for child in self.children:
            if len(child.attributes) != len(self.attributes):
                raise ValueError("the children of a union must have as many attributes as the union")


Plan: TypeAlias = Scan | Filter | Project | Join | Generate | Union


def scans(plan: Plan) -> Iterator[Scan]:
    """The leaves, left to right; leaf ids are their positions in this order."""
    match plan:
        case Scan():
            yield plan
        case Filter(child=child) | Project(child=child) | Generate(child=child):
            yield from scans(child)
        case Join(children=children) | Union(children=children):
            for child in children:
                yield from scans(child)


def leaves(plan: Plan) -> frozenset[LeafId]:
    return frozenset(scan.leaf for scan in scans(plan))


def expressions(plan: Plan) -> Iterator[exp.Expr]:
    """Every expression of a plan."""
    match plan:
        case Filter(child=child, condition=condition):
            yield condition
            yield from expressions(child)
        case Project(child=child, outputs=outputs):
            yield from (value for _, value in outputs)
            yield from expressions(child)
        case Generate(child=child, generator=generator):
            yield generator
            yield from expressions(child)
        case Join(children=children, conditions=conditions):
            yield from conditions
            for child in children:
                yield from expressions(child)
        case Union(children=children):
            for child in children:
                yield from expressions(child)


def validate(plan: Plan) -> None:
    """Raise ValueError unless leaf ids are 0..n-1 in order and attribute names of leaves are unique."""
    found = list(scans(plan))
    if [scan.leaf for scan in found] != list(range(len(found))):
        raise ValueError("leaf ids must be 0, 1, ... from left to right")
    names = [name.lower() for scan in found for name in scan.attributes]
    if len(names) != len(set(names)):
        raise ValueError("attribute names of leaves must be unique over the plan")
