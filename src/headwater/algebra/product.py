"""A linear plan as a sum of products, and the join graph of a product.

A product is a selection and projection of one join of scans: ``Π_L σ_C (R_1 ⋈ ... ⋈ R_n)``, the view model of
[Lee01 §2.1]. Every linear plan is a sum of such products. Filters, projections and generators act on each row alone
and so can stand above the join, with derived attributes replaced by their expressions (they are deterministic); a
union below a join is distributed over it: ``(A + B) ⋈ C = A ⋈ C + B ⋈ C``. A leaf may then stand in several
products, in each at most once.

*Types.* A union widens the types of its branches, and a branch on its own does not know what it was widened to.
``through_union`` is asked for the expression that stands for a union's attribute, so that an engine with types can
cast there.

*Join graph.* An edge is the set of leaves that one condition ties together. A condition of three leaves says nothing
about two of them, so it is one edge of three and not three of two. A set of leaves whose edges inside it do not hold
it together is joined by a cross product.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import product as choices
from typing import TypeAlias

from sqlglot import exp

from headwater.algebra.plan import Attribute, Filter, Generate, Join, LeafId, Plan, Project, Scan, Union

ThroughUnion: TypeAlias = Callable[[Attribute, exp.Expr], exp.Expr]


@dataclass(frozen=True, slots=True)
class Generator:
    """``plan.Generate`` without its child."""

    expression: exp.Expr
    outer: bool
    outputs: tuple[Attribute, ...]


@dataclass(frozen=True, slots=True)
class JoinGraph:
    leaves: frozenset[LeafId]
    edges: frozenset[frozenset[LeafId]]  # each of two leaves or more

    def __post_init__(self) -> None:
        for edge in self.edges:
            if len(edge) < 2 or not edge <= self.leaves:
                raise ValueError(f"an edge ties two or more of the leaves {sorted(self.leaves)}, not {sorted(edge)}")

    def components(self, within: frozenset[LeafId] | None = None) -> tuple[frozenset[LeafId], ...]:
        """The largest parts of ``within`` (all leaves by default) that edges inside it hold together."""
        pending = set(self.leaves if within is None else within)
        edges = [edge for edge in self.edges if edge <= pending]
        found = []
        while pending:
            part = frozenset([min(pending)])
            while True:
                grown = part.union(*(edge for edge in edges if edge & part))
                if grown == part:
                    break
                part = grown
            found.append(part)
            pending -= part
        return tuple(found)

    def is_connected(self, within: frozenset[LeafId]) -> bool:
        return len(self.components(within)) == 1


@dataclass(frozen=True, slots=True)
class Product:
    """The scans joined under the conditions, each row handed through the generators in turn, then projected.

    Expressions are over attributes of the scans and outputs of the generators; a condition that reads a generator's
    output holds after it. Conditions are in the order of the plan, inner before outer: one may guard another.
    """

    scans: tuple[Scan, ...]
    conditions: tuple[exp.Expr, ...]
    generators: tuple[Generator, ...]
    outputs: tuple[tuple[Attribute, exp.Expr], ...]

    @property
    def leaves(self) -> tuple[LeafId, ...]:
        return tuple(scan.leaf for scan in self.scans)

    def leaves_of(self, expression: exp.Expr) -> frozenset[LeafId]:
        """The leaves whose attributes an expression reads."""
        read = attributes_of(expression)
        return frozenset(scan.leaf for scan in self.scans if not read.isdisjoint(scan.attributes))

    def is_late(self, condition: exp.Expr) -> bool:
        """Whether the condition reads what a generator makes."""
        made = {name for generator in self.generators for name in generator.outputs}
        return not made.isdisjoint(attributes_of(condition))

    def equated(self) -> tuple[tuple[Attribute, Attribute], ...]:
        """The attributes that are equal in every row, each pair both ways: only columns as they are."""
        found: dict[tuple[Attribute, Attribute], None] = {}
        pending = [condition for condition in reversed(self.conditions) if not self.is_late(condition)]
        while pending:
            match pending.pop():
                case exp.And() as both:
                    pending += [both.expression, both.this]
                case exp.Paren() as inner:
                    pending.append(inner.this)
                case exp.EQ(this=exp.Column() as left, expression=exp.Column() as right):
                    found |= {(left.name, right.name): None, (right.name, left.name): None}
                case _:
                    pass
        return tuple(found)

    def plan(self) -> Plan:
        """A plan of this one product, its leaves numbered by their places in ``scans``."""
        leaves = tuple(replace(scan, leaf=LeafId(number)) for number, scan in enumerate(self.scans))
        early = tuple(condition for condition in self.conditions if not self.is_late(condition))
        plan: Plan = leaves[0]
        if len(leaves) > 1:
            plan = Join(leaves, early)
        else:
            for condition in early:
                plan = Filter(plan, condition)
        for generator in self.generators:
            plan = Generate(plan, generator.expression, generator.outer, generator.outputs)
        for condition in self.conditions:
            if self.is_late(condition):
                plan = Filter(plan, condition)
        return Project(plan, self.outputs)

    def join_graph(self) -> JoinGraph:
        tied = [self.leaves_of(condition) for condition in self.conditions if not self.is_late(condition)]
        return JoinGraph(frozenset(self.leaves), frozenset(edge for edge in tied if len(edge) > 1))


def attributes_of(expression: exp.Expr) -> set[Attribute]:
    return {part.name for part in expression.find_all(exp.Column)}


def attributes_in(expressions: Iterable[exp.Expr]) -> set[Attribute]:
    return {name for each in expressions for name in attributes_of(each)}


def unchanged(_: Attribute, expression: exp.Expr) -> exp.Expr:
    return expression


def products(plan: Plan, through_union: ThroughUnion = unchanged) -> tuple[Product, ...]:
    """The products whose sum the plan is, in the order of its union branches."""
    return tuple(
        Product(
            part.scans, part.conditions, part.generators, tuple((name, part.made[name]) for name in plan.attributes)
        )
        for part in _parts(plan, through_union)
    )


@dataclass(frozen=True, slots=True)
class _Part:
    """A product under construction; ``made`` gives the plan's attributes as expressions."""

    scans: tuple[Scan, ...]
    conditions: tuple[exp.Expr, ...]
    generators: tuple[Generator, ...]
    made: Mapping[Attribute, exp.Expr]


def _parts(plan: Plan, through_union: ThroughUnion) -> list[_Part]:
    match plan:
        case Scan():
            return [_Part((plan,), (), (), {name: exp.column(name, quoted=True) for name in plan.attributes})]
        case Filter(child=child, condition=condition):
            return [_filtered(part, [condition]) for part in _parts(child, through_union)]
        case Project(child=child, outputs=outputs):
            return [
                _Part(part.scans, part.conditions, part.generators, {name: _over(e, part.made) for name, e in outputs})
                for part in _parts(child, through_union)
            ]
        case Generate(child=child, generator=generator, outer=outer, outputs=names):
            return [
                _Part(
                    part.scans,
                    part.conditions,
                    (*part.generators, Generator(_over(generator, part.made), outer, names)),
                    {**part.made, **{name: exp.column(name, quoted=True) for name in names}},
                )
                for part in _parts(child, through_union)
            ]
        case Join(children=children, conditions=conditions):
            sides = [_parts(child, through_union) for child in children]
            return [_filtered(_beside(chosen), conditions) for chosen in choices(*sides)]
        case Union(children=children, attributes=attributes):
            return [
                _Part(
                    part.scans,
                    part.conditions,
                    part.generators,
                    {
                        name: through_union(name, part.made[own])
                        for name, own in zip(attributes, child.attributes, strict=True)
                    },
                )
                for child in children
                for part in _parts(child, through_union)
            ]


def _beside(parts: Iterable[_Part]) -> _Part:
    chosen = list(parts)
    return _Part(
        tuple(scan for part in chosen for scan in part.scans),
        tuple(condition for part in chosen for condition in part.conditions),
        tuple(generator for part in chosen for generator in part.generators),
        {name: expression for part in chosen for name, expression in part.made.items()},
    )


def _filtered(part: _Part, conditions: Iterable[exp.Expr]) -> _Part:
    added = tuple(_over(condition, part.made) for condition in conditions)
    return _Part(part.scans, part.conditions + added, part.generators, part.made)


def _over(expression: exp.Expr, made: Mapping[Attribute, exp.Expr]) -> exp.Expr:
    """The expression with every attribute replaced by what makes it; read, never changed in place."""

    def replaced(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column):
            return node
        value = made[node.name].copy()
        return value if isinstance(value, exp.Column | exp.Paren) else exp.paren(value, copy=False)

    return expression.transform(replaced)
