"""Blocks under construction: what lowering builds while it reads a text, and the plan that they become.

A block is a select-project-join. Its inputs are tables, unions, generators and nodes; an attribute that an input
offers keeps its name through every input above that lets it pass (a window, the kept side of a join), so
expressions that were read earlier stay true when a block is put under a node. Which attributes are really needed is
known only at the end: then scans and nodes are made with those and no others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from sqlglot import exp

from headwater.algebra.nodes import Aggregate, Match, MatchKind, Node, Top, Window
from headwater.algebra.plan import Attribute, Filter, Generate, Join, LeafId, Plan, Project, Scan, Union, validate
from headwater.algebra.product import attributes_in
from headwater.sql.dialect import column

Pairs: TypeAlias = list[tuple[Attribute, exp.Expr]]


class OuterRef(exp.Expression):
    """A column of the query around a subquery."""

    arg_types = {"this": True}  # noqa: RUF012 (sqlglot's own convention)


def replace_outer(value: exp.Expr, change: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """A copy of an expression with every outer column replaced by what ``change`` makes of it."""
    held = exp.Paren(this=value.copy())
    replaced: exp.Expr = held.transform(lambda part: change(part.this) if isinstance(part, OuterRef) else part).this
    return replaced


@dataclass(slots=True)
class Block:
    """``columns`` are the named outputs.

    ``when_empty`` is for the answer of an aggregate without GROUP BY that correlation has split by keys: what its
    columns are for a key without rows.
    """

    inputs: list[Input] = field(default_factory=list)
    conditions: list[exp.Expr] = field(default_factory=list)
    columns: list[tuple[str | None, exp.Expr]] = field(default_factory=list)
    when_empty: list[exp.Expr] | None = None

    def close(self) -> Block:
        """Take inputs and conditions away into a block of their own, which a node is to be put on."""
        inner = Block(self.inputs, self.conditions)
        self.inputs, self.conditions = [], []
        return inner

    def close_below_ties(self) -> Block:
        """The same, but conditions that mention the query outside stay, and will hold above the node."""
        floating = self.split()
        inner = self.close()
        self.conditions = floating
        return inner

    def split(self) -> list[exp.Expr]:
        """Take away the conditions that mention the query outside."""
        floating = [each for each in self.conditions if each.find(OuterRef)]
        self.conditions = [each for each in self.conditions if not each.find(OuterRef)]
        return floating

    def take_in(self, inner: Block) -> None:
        """Join another block: what it is made of becomes part of this one; its columns are left to the caller."""
        self.inputs.extend(inner.inputs)
        self.conditions.extend(inner.conditions)

    def read_through(self, attributes: Iterable[Attribute]) -> None:
        """The same columns, as the attributes that stand for them in a node that was put on the block."""
        pairs = zip(self.columns, attributes, strict=True)
        self.columns = [(title, column(attribute)) for (title, _), attribute in pairs]

    def offered(self) -> set[Attribute]:
        return {name for each in self.inputs for name in each.offered()}


@dataclass(slots=True, eq=False)
class Leaf:
    """A table in FROM; its scan is made at the end, when the columns in use are known."""

    table: str
    columns: tuple[str, ...]
    alias: str
    mentioned: set[int] = field(default_factory=set)

    def attribute(self, index: int) -> Attribute:
        return f"{self.alias}.{self.columns[index]}"

    def value(self, index: int) -> exp.Expr:
        self.mentioned.add(index)
        return column(self.attribute(index))

    def offered(self) -> set[Attribute]:
        return {self.attribute(index) for index in range(len(self.columns))}


@dataclass(slots=True, eq=False)
class UnionOf:
    branches: list[Block]
    attributes: tuple[Attribute, ...]

    def offered(self) -> set[Attribute]:
        return set(self.attributes)


@dataclass(slots=True, eq=False)
class GeneratorOn:
    inner: Block
    generator: exp.Expr
    outer: bool
    outputs: tuple[Attribute, ...]

    def offered(self) -> set[Attribute]:
        return self.inner.offered() | set(self.outputs)


@dataclass(slots=True, eq=False)
class AggregateOn:
    name: str
    inner: Block
    keys: Pairs = field(default_factory=list)
    values: Pairs = field(default_factory=list)

    def offered(self) -> set[Attribute]:
        return {name for name, _ in (*self.keys, *self.values)}


@dataclass(slots=True, eq=False)
class MatchOn:
    """``computed`` of a side: expressions that must be worked out below the join, since above it they may be NULL."""

    name: str
    left: Block
    right: Block
    kind: MatchKind
    conditions: list[exp.Expr] = field(default_factory=list)
    keys: list[tuple[Attribute, Attribute]] = field(default_factory=list)
    computed: tuple[Pairs, Pairs] = field(default_factory=lambda: ([], []))

    def offered(self) -> set[Attribute]:
        found = self.left.offered() | {name for name, _ in self.computed[0]}
        if self.kind not in (MatchKind.SEMI, MatchKind.ANTI):
            found |= self.right.offered() | {name for name, _ in self.computed[1]}
        return found

    def bind(self, side: int, value: exp.Expr) -> exp.Column:
        """The attribute that stands above the join for an expression over one of its sides."""
        if isinstance(value, exp.Column):
            return value
        for name, known in self.computed[side]:
            if known == value:
                return column(name)
        name = f"{self.name}.{'lr'[side]}{len(self.computed[side])}"
        self.computed[side].append((name, value))
        return column(name)


@dataclass(slots=True, eq=False)
class WindowOn:
    name: str
    inner: Block
    keys: Pairs
    values: Pairs = field(default_factory=list)

    def offered(self) -> set[Attribute]:
        return self.inner.offered() | {name for name, _ in (*self.keys, *self.values)}


@dataclass(slots=True, eq=False)
class TopOn:
    """``outputs`` are what is selected; ``order`` is over them and ``computed``."""

    name: str
    inner: Block
    outputs: Pairs
    computed: Pairs
    order: list[exp.Expr]
    limit: int
    offset: int

    def offered(self) -> set[Attribute]:
        return {name for name, _ in self.outputs}


Input: TypeAlias = Leaf | UnionOf | GeneratorOn | AggregateOn | MatchOn | WindowOn | TopOn


class Finish:
    """The plan of a block and the nodes below it."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}

    def plan(self, block: Block) -> Plan:
        return self._rooted(block, [(f"out.{index}", value) for index, (_, value) in enumerate(block.columns)])

    def _rooted(self, block: Block, outputs: Pairs) -> Plan:
        """A plan with leaves of its own."""
        found = self._plan(block, outputs, iter(range(1_000_000)))
        validate(found)
        return found

    def _plan(self, block: Block, outputs: Pairs, counter: Iterator[int]) -> Plan:
        return Project(self._joined(block, attributes_in(value for _, value in outputs), counter), tuple(outputs))

    def _joined(self, block: Block, above: set[Attribute], counter: Iterator[int]) -> Plan:
        used = above | attributes_in(block.conditions)
        inputs = [self._input(each, used, counter) for each in block.inputs]
        if len(inputs) > 1:
            return Join(tuple(inputs), tuple(block.conditions))
        plan = inputs[0]
        for condition in block.conditions:
            plan = Filter(plan, condition)
        return plan

    def _input(self, each: Input, used: set[Attribute], counter: Iterator[int]) -> Plan:
        match each:
            case Leaf():
                kept = [index for index in range(len(each.columns)) if each.attribute(index) in used]
                return Scan(
                    LeafId(next(counter)),
                    each.table,
                    each.alias,
                    tuple(each.columns[index] for index in kept),
                    tuple(each.attribute(index) for index in kept),
                )
            case UnionOf():
                children = []
                for number, branch in enumerate(each.branches):
                    pairs = zip(each.attributes, branch.columns, strict=True)
                    named = [(f"{attribute}.{number}", value) for attribute, (_, value) in pairs]
                    children.append(self._plan(branch, named, counter))
                return Union(tuple(children), each.attributes)
            case GeneratorOn():
                needed = (used | attributes_in([each.generator])) - set(each.outputs)
                passed = _passed(each.inner, needed)
                return Generate(self._plan(each.inner, passed, counter), each.generator, each.outer, each.outputs)
            case _:
                node = self._node(each, used)
                name = each.name
                while self.nodes.setdefault(name, node) != node:
                    name += "'"  # the same part of the text once more, of which other columns are needed
                return Scan(LeafId(next(counter)), name, name, node.attributes, node.attributes)

    def _node(self, each: AggregateOn | MatchOn | WindowOn | TopOn, used: set[Attribute]) -> Node:
        match each:
            case AggregateOn():
                values = [(name, value) for name, value in each.values if name in used]
                needed = attributes_in(value for _, value in values)
                plan = self._rooted(each.inner, [*each.keys, *_passed(each.inner, needed)])
                return Aggregate(plan, tuple(name for name, _ in each.keys), tuple(values))
            case WindowOn():
                needed = used | attributes_in(value for _, value in each.values)
                keys = [(name, value) for name, value in each.keys if not isinstance(value, exp.Column)]
                named = {name: value.name for name, value in each.keys if isinstance(value, exp.Column)}
                passed = _passed(each.inner, needed | set(named.values()))
                plan = self._rooted(each.inner, [*keys, *passed])
                return Window(plan, tuple(named.get(name, name) for name, _ in each.keys), tuple(each.values))
            case TopOn():
                plan = self._rooted(each.inner, [*each.outputs, *each.computed])
                return Top(plan, tuple(each.order), each.limit, each.offset)
            case MatchOn():
                return self._match(each, used)

    def _match(self, each: MatchOn, used: set[Attribute]) -> Match:
        needed = used | attributes_in(each.conditions) | {name for pair in each.keys for name in pair}
        sides = []
        for block, computed in zip((each.left, each.right), each.computed, strict=True):
            pairs = [(name, value) for name, value in computed if name in needed]
            own = {name for name, _ in pairs}
            sides.append(self._rooted(block, [*_passed(block, needed - own), *pairs]))
        visible = sides[0].attributes
        if each.kind not in (MatchKind.SEMI, MatchKind.ANTI):
            visible += sides[1].attributes
        kept = tuple(name for name in visible if name in used)
        return Match(sides[0], sides[1], each.kind, tuple(each.keys), tuple(each.conditions), kept)


def _passed(block: Block, needed: set[Attribute]) -> Pairs:
    """The attributes of a block's inputs that are needed above it, under their own names."""
    return [(name, column(name)) for name in sorted(needed & block.offered())]
