"""Non-linear nodes: the parts of a view that are not sums of products of their inputs.

A node is a function f of one or two bags that works **key by key**: its rows with key k depend on the input rows
with key k and on no others. So a change touches only the keys in it, and the node's change at csn t is

    f(input of k at t) - f(input of k before t)         for every touched key k,

exact at every csn (``transitions`` below is the executable specification). The key is the grouping columns of an
aggregate, the equality part of an outer, semi or anti join, the PARTITION BY of a window; without any, the whole input
is one key. Above it a node is a table like any other: ``Scan.table`` is its name. ``floating`` are the attributes of a
node and of its inputs that hold floating-point numbers: -0.0 and 0.0 are one group, but two texts.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from sqlglot import exp

from headwater.algebra.plan import Attribute, Filter, Generate, Join, Plan, Project, Scan, Union, expressions, scans
from headwater.algebra.sums import Sum, totals_of
from headwater.algebra.time import Csn, Interval
from headwater.algebra.zset import Row, ZSet


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One row for each key; without keys one row always. ``keys`` are attributes of the input.

    ``ordered``: a value depends on the order in which rows come (a sum of doubles, collect_list), so they are put in
    order first; else the answer that is taken away could differ from the one that was given. ``sums``: all values add
    up exactly, so that a group's changes are added to what it was (None: they don't). ``carried``: what it was stands
    in the view's own table, and the node gives its totals too.
    """

    input: Plan
    keys: tuple[Attribute, ...]
    values: tuple[tuple[Attribute, exp.Expr], ...]
    ordered: bool = False
    sums: tuple[Sum, ...] | None = None
    carried: bool = False
    floating: tuple[Attribute, ...] = ()

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        totals = totals_of(self.sums) if self.sums is not None and self.carried else ()
        return (*self.keys, *(name for name, _ in self.values), *totals)

    @property
    def inputs(self) -> tuple[Plan, ...]:
        return (self.input,)

    def key(self, _: int) -> tuple[Attribute, ...]:
        return self.keys


class MatchKind(Enum):
    LEFT = "LEFT OUTER"
    RIGHT = "RIGHT OUTER"
    FULL = "FULL OUTER"
    SEMI = "LEFT SEMI"
    ANTI = "LEFT ANTI"


@dataclass(frozen=True, slots=True)
class Match:
    """An outer, semi or anti join; ``keys`` are pairs of attributes whose equality ``conditions`` ask for."""

    left: Plan
    right: Plan
    kind: MatchKind
    keys: tuple[tuple[Attribute, Attribute], ...]
    conditions: tuple[exp.Expr, ...]
    attributes: tuple[Attribute, ...]
    floating: tuple[Attribute, ...] = ()

    @property
    def inputs(self) -> tuple[Plan, ...]:
        return (self.left, self.right)

    def key(self, side: int) -> tuple[Attribute, ...]:
        return tuple(pair[side] for pair in self.keys)


@dataclass(frozen=True, slots=True)
class Window:
    """Every row with the values of window functions, all over one PARTITION BY."""

    input: Plan
    keys: tuple[Attribute, ...]
    values: tuple[tuple[Attribute, exp.Expr], ...]
    floating: tuple[Attribute, ...] = ()

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        return (*self.input.attributes, *(name for name, _ in self.values))

    @property
    def inputs(self) -> tuple[Plan, ...]:
        return (self.input,)

    def key(self, _: int) -> tuple[Attribute, ...]:
        return self.keys


@dataclass(frozen=True, slots=True)
class Top:
    """The first ``limit`` rows after ``offset`` in an order; rows that tie are ordered by all their columns.

    ``carried``: they stand in the view's own table.
    """

    input: Plan
    order: tuple[exp.Expr, ...]
    limit: int
    offset: int
    carried: bool = False
    floating: tuple[Attribute, ...] = ()

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        return self.input.attributes

    @property
    def inputs(self) -> tuple[Plan, ...]:
        return (self.input,)

    def key(self, _: int) -> tuple[Attribute, ...]:
        return ()


Node: TypeAlias = Aggregate | Match | Window | Top
Nodes: TypeAlias = Mapping[str, Node]
Verdict: TypeAlias = str | dict[str, dict[str, list[str]]]
"""What the types of a node's columns say of it: ``ordered``, ``keyless``, or ``summed`` with the types of its sums.

``doubles`` is ordered too, and names the values that average whole numbers as doubles.
"""


def adds_up(nodes: Iterable[Node]) -> bool:
    """Whether none of the nodes needs the rows of its touched keys."""
    return all(isinstance(node, Aggregate) and node.sums is not None for node in nodes)


def all_scans(plan: Plan, nodes: Nodes) -> Iterator[Scan]:
    """The scans of tables (not nodes) in the plan and below, from left to right."""
    for scan in scans(plan):
        if scan.table in nodes:
            yield from scans_below(scan.table, nodes)
        else:
            yield scan


def scans_below(node: str, nodes: Nodes) -> Iterator[Scan]:
    """The scans of tables in the inputs of a node and below."""
    for plan in nodes[node].inputs:
        yield from all_scans(plan, nodes)


def blocks_of(plan: Plan, nodes: Nodes) -> tuple[Plan, ...]:
    """The linear blocks: the plan itself and what each node is over."""
    return (plan, *(below for node in nodes.values() for below in node.inputs))


def all_expressions(plan: Plan, nodes: Nodes) -> Iterator[exp.Expr]:
    """Every expression of the plan, of its nodes and below them."""
    for block in blocks_of(plan, nodes):
        yield from expressions(block)
    for node in nodes.values():
        match node:
            case Aggregate(values=values) | Window(values=values):
                yield from (value for _, value in values)
            case Match(conditions=conditions):
                yield from conditions
            case Top(order=order):
                yield from order


def origin(plan: Plan, attribute: Attribute, nodes: Nodes) -> tuple[Scan, str] | None:
    """The column of a table whose values an attribute has (an outer join may add NULLs); None if it is computed."""
    match plan:
        case Scan(table=table) if table in nodes:
            inner = plan.columns[plan.attributes.index(attribute)]
            node = nodes[table]
            if isinstance(node, Aggregate) and inner not in node.keys:
                return None
            source = next((each for each in node.inputs if inner in each.attributes), None)
            return None if source is None else origin(source, inner, nodes)
        case Scan():
            return plan, plan.columns[plan.attributes.index(attribute)]
        case Project(child=child, outputs=outputs):
            value = dict(outputs)[attribute].unnest()
            return origin(child, value.name, nodes) if isinstance(value, exp.Column) else None
        case Filter(child=child) | Generate(child=child):
            return origin(child, attribute, nodes) if attribute in child.attributes else None
        case Join(children=children):
            return origin(next(each for each in children if attribute in each.attributes), attribute, nodes)
        case Union():
            return None


Key: TypeAlias = Hashable


def transitions(
    function: Callable[[ZSet], ZSet], key: Callable[[Row], Key], state: ZSet, delta: ZSet, interval: Interval
) -> ZSet:
    """The timed change of ``function`` over an interval, from the input's state before it and its timed change.

    For every touched key, the function's answer at the beginning and at each csn at which the key changed: every answer
    appears at its csn and disappears at the key's next one.
    """
    changed: dict[Key, set[Csn]] = {}
    for row, _, csn in delta:
        if csn is None or csn not in interval:
            raise ValueError(f"a change at {csn} is not in {interval}")
        changed.setdefault(key(row), set()).add(csn)
    together = ZSet()
    for touched, csns in changed.items():
        before = ZSet.of(entry for entry in state if key(entry[0]) == touched)
        changes = ZSet.of(entry for entry in delta if key(entry[0]) == touched)
        moments = [interval.start, *sorted(csns)]
        answers = [function(_at(before, changes, moment)) for moment in moments]
        for answer, following in zip(answers, moments[1:], strict=False):
            together += _stamped(answer, -1, following)
        for answer, moment in zip(answers[1:], moments[1:], strict=True):
            together += _stamped(answer, 1, moment)
    return together


def _at(state: ZSet, changes: ZSet, moment: Csn) -> ZSet:
    so_far: Iterable[tuple[Row, int, Csn | None]] = (e for e in changes if e[2] is not None and e[2] <= moment)
    return ZSet.of([*state, *so_far]).net_effect()


def _stamped(answer: ZSet, sign: int, csn: Csn) -> ZSet:
    return ZSet.of((row, sign * count, csn) for row, count, _ in answer)
