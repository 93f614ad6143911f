"""GROUP BY: aggregates become a node, and what is selected an expression over its keys and values.

ROLLUP, CUBE and GROUPING SETS repeat every row once for each set, with the keys that the set leaves out as NULL and
the set's number as a key more; aggregates see the rows as they were.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from sqlglot import exp

from headwater.algebra.product import attributes_in
from headwater.sql.blocks import AggregateOn, Block, GeneratorOn, OuterRef, replace_outer
from headwater.sql.dialect import VerbatimSpark, column, to_text
from headwater.sql.expressions import is_aggregate_call, is_ordinal, is_window_function, unwrapped

if TYPE_CHECKING:
    from headwater.sql.expressions import Expressions

# What an aggregate is over no rows at all, where that is not NULL.
_EMPTY = {
    **dict.fromkeys(("count", "count_if", "regr_count", "approx_count_distinct"), "0L"),
    **dict.fromkeys(("collect_list", "collect_set", "array_agg"), "array()"),
}


# Keys by which a subquery is tied to the query around it have names with this letter. They are equal to something, so
# they must be grouped as they compare: '1' and '01' are two groups, but both equal the number 1.
TIED = "c"


@dataclass(frozen=True, slots=True)
class GroupBy:
    """Key expressions over the input, and the grouping sets as positions of keys (None: plain GROUP BY)."""

    keys: tuple[exp.Expr, ...]
    sets: tuple[tuple[int, ...], ...] | None = None


def has_aggregates(values: Sequence[exp.Expr]) -> bool:
    return any(
        is_aggregate_call(part) and not is_window_function(part)
        for value in values
        for part in value.find_all(exp.Expr)
    )


def read_group_by(
    clause: exp.Group, items: Sequence[tuple[str | None, exp.Expr]], read: Callable[[exp.Expr], exp.Expr]
) -> GroupBy:
    """``items`` are the select list, for GROUP BY 1, GROUP BY alias (by ``read``) and GROUP BY ALL."""
    if clause.args.get("all"):
        return GroupBy(tuple(value for _, value in items if not has_aggregates([value])))
    keys: list[exp.Expr] = []

    def place(node: exp.Expr) -> int:
        value = unwrapped(items[int(node.name) - 1][1].copy() if is_ordinal(node) else read(node))
        if value not in keys:
            keys.append(value)
        return keys.index(value)

    parts: list[list[tuple[int, ...]]] = []
    plain = True
    for node in clause.expressions:
        match node:
            case exp.Rollup() | exp.Cube() | exp.GroupingSets():
                plain = False
                parts.append(_sets(node, place))
            case _:
                parts.append([tuple(dict.fromkeys(place(each) for each in _members(node)))])
    for key, kind in (("rollup", exp.Rollup), ("cube", exp.Cube), ("grouping_sets", exp.GroupingSets)):
        for suffix in clause.args.get(key) or []:
            # GROUP BY a, b WITH ROLLUP, or GROUP BY a, b GROUPING SETS (...): the list before only names the keys.
            plain = False
            members = suffix.expressions or clause.expressions
            parts = [_sets(kind(expressions=[each.copy() for each in members]), place)]
    if plain:
        return GroupBy(tuple(keys))
    combined = [tuple(dict.fromkeys(index for each in choice for index in each)) for choice in product(*parts)]
    return GroupBy(tuple(keys), tuple(combined))


def _sets(node: exp.Expr, place: Callable[[exp.Expr], int]) -> list[tuple[int, ...]]:
    if isinstance(node, exp.GroupingSets):
        found: list[tuple[int, ...]] = []
        for each in node.expressions:
            if isinstance(each, exp.Rollup | exp.Cube | exp.GroupingSets):
                found.extend(_sets(each, place))
            else:
                found.append(tuple(place(member) for member in _members(each)))
        return found
    groups = [tuple(place(member) for member in _members(each)) for each in node.expressions]
    if isinstance(node, exp.Rollup):
        chosen = [groups[:length] for length in range(len(groups), -1, -1)]
    else:
        chosen = [
            [group for group, taken in zip(groups, choice, strict=True) if taken]
            for choice in product([True, False], repeat=len(groups))
        ]
    return [tuple(index for group in each for index in group) for each in chosen]


def _members(node: exp.Expr) -> list[exp.Expr]:
    if isinstance(node, exp.Tuple):
        return list(node.expressions)
    return [node.this] if isinstance(node, exp.Paren) else [node]


class Grouping:
    """Puts an aggregate node on a block, and rewrites expressions to stand above it."""

    def __init__(self, name: str, block: Block, by: GroupBy, expressions: Expressions) -> None:
        self.expressions = expressions
        self.by = by
        inner = block.close()
        floating = inner.split()
        self.set_number: str | None = None
        keys = [key.copy() for key in by.keys]
        # One set without keys is one group, which Spark has over no rows too; of several sets it has none then.
        if by.sets is not None and (by.keys or len(by.sets) > 1):
            self.set_number = f"{name}.set"
            inner = Block([GeneratorOn(inner, _numbers(len(by.sets)), False, (f"{name}.number",))])
            keys = [_kept_in(key, index, by.sets, f"{name}.number") for index, key in enumerate(keys)]
        self.node = AggregateOn(name, inner, [(f"{name}.k{index}", key) for index, key in enumerate(keys)])
        if self.set_number is not None:
            self.node.keys.append((self.set_number, column(f"{name}.number")))
        block.inputs = [self.node]
        self.split_by_correlation = bool(floating) and not by.keys and self.set_number is None
        for condition in floating:
            block.conditions.append(self._float(condition))

    def _float(self, condition: exp.Expr) -> exp.Expr:
        """A condition that ties the rows to the query outside, as one that ties the groups: its own side is a key."""
        sides = correlated_sides(condition)
        if sides is None:
            found = to_text(replace_outer(condition, lambda each: each))
            raise self.expressions.refuse("CORRELATION", f"{found} below an aggregate", condition)
        return _tied_by_key(self.node, condition, sides)

    def above(self, value: exp.Expr) -> exp.Expr:
        """An expression of the select list, HAVING or ORDER BY over the node's attributes."""

        def replace(part: exp.Expr) -> exp.Expr:
            if isinstance(part, OuterRef):
                return part
            for index, key in enumerate(self.by.keys):
                if part == key:
                    return column(f"{self.node.name}.k{index}")
            call = part
            while isinstance(call, exp.Filter | exp.WithinGroup | exp.IgnoreNulls | exp.RespectNulls):
                call = call.this
            if is_aggregate_call(call) and not is_window_function(part):
                return self._grouping(call) or self._value(part)
            return part

        held = exp.Paren(this=value.copy())
        replaced: exp.Expr = held.transform(replace).this
        stray = attributes_in([_without_outer(replaced)]) - self.node.offered()
        if stray:
            raise self.expressions.refuse("UNGROUPED", f"{', '.join(sorted(stray))} beside GROUP BY", value)
        return replaced

    def _value(self, call: exp.Expr) -> exp.Column:
        if call.find(OuterRef):
            raise self.expressions.refuse("CORRELATION", "an outer column inside an aggregate", call)
        for name, known in self.node.values:
            if known == call:
                return column(name)
        name = f"{self.node.name}.v{len(self.node.values)}"
        self.node.values.append((name, call.copy()))
        return column(name)

    def _grouping(self, call: exp.Expr) -> exp.Expr | None:
        """grouping(a) and grouping_id() from the number of the grouping set."""
        function = call.name.lower() if isinstance(call, exp.Anonymous) else ""
        if function not in ("grouping", "grouping_id") or self.by.sets is None:
            return None
        if function == "grouping":
            wanted = [self.by.keys.index(unwrapped(call.expressions[0]))]
        else:
            wanted = list(range(len(self.by.keys)))
        numbers = [
            sum((index not in each) << (len(wanted) - 1 - place) for place, index in enumerate(wanted))
            for each in self.by.sets
        ]
        kind = "TINYINT" if function == "grouping" else "BIGINT"
        chosen: exp.Expr = exp.Literal.number(0)
        if self.set_number is not None:
            chosen = exp.Case(
                this=column(self.set_number),
                ifs=[
                    exp.If(this=exp.Literal.number(place), true=exp.Literal.number(number))
                    for place, number in enumerate(numbers)
                ],
            )
        return exp.Cast(this=chosen, to=exp.DataType.build(kind))

    def when_empty(self, columns: Sequence[tuple[str | None, exp.Expr]]) -> list[exp.Expr]:
        """What select-list expressions over this node are where it has no row for a key."""
        calls = dict(self.node.values)

        def replace(part: exp.Expr) -> exp.Expr:
            if isinstance(part, exp.Column) and part.name in calls:
                call = calls[part.name].find(exp.Anonymous)
                return exp.maybe_parse(_EMPTY.get(call.name.lower() if call else "", "NULL"), dialect=VerbatimSpark)
            return part

        return [value.copy().transform(replace) for _, value in columns]


def distinct(name: str, block: Block, letter: str = "k") -> exp.Expr | None:
    """SELECT DISTINCT of what a block selects: an aggregate of keys alone.

    Gives a condition that ties the block to the query around it by something else than an equality, if there is one:
    then a row stands once for each of the values that it compares.
    """
    inner = block.close()
    floating = inner.split()
    keys = [(f"{name}.{letter}{index}", value) for index, (_, value) in enumerate(block.columns)]
    node, untied = AggregateOn(name, inner, list(keys)), None
    for condition in floating:
        sides = correlated_sides(condition)
        if sides is None:
            untied = condition
            for attribute in sorted(attributes_in([_without_outer(condition)])):
                node.keys.append((attribute, column(attribute)))
            block.conditions.append(condition)
        else:
            block.conditions.append(_tied_by_key(node, condition, sides))
    block.inputs = [node]
    block.read_through(key for key, _ in keys)
    return untied


def correlated_sides(condition: exp.Expr) -> tuple[exp.Expr, exp.Expr] | None:
    """The inner and the outer side of an equality that ties a subquery to the query around it; None for others."""
    if not isinstance(condition, exp.EQ | exp.NullSafeEQ):
        return None
    for own, outside in ((condition.this, condition.expression), (condition.expression, condition.this)):
        if own.find(OuterRef) is None and own.find(exp.Column) and not attributes_in([_without_outer(outside)]):
            return own, outside
    return None


def _tied_by_key(node: AggregateOn, condition: exp.Expr, sides: tuple[exp.Expr, exp.Expr]) -> exp.Expr:
    """The equality above an aggregate that has its inner side as a key more."""
    key = f"{node.name}.{TIED}{len(node.keys)}"
    node.keys.append((key, sides[0].copy()))
    return type(condition)(this=column(key), expression=sides[1].copy())


def tied_by_keys(block: Block, conditions: Sequence[exp.Expr]) -> list[exp.Expr] | None:
    """Conditions that tie a block to the query around it, as equalities with keys of the aggregate that the block is.

    None unless every key has one: only then is there one row at most for each value of the outer columns.
    """
    if len(block.inputs) != 1 or not isinstance(block.inputs[0], AggregateOn):
        return None
    node, keys = block.inputs[0], dict(block.inputs[0].keys)
    tied, found = set(), []
    for condition in conditions:
        sides = correlated_sides(condition)
        own = unwrapped(sides[0]) if sides is not None else None
        if sides is None or own is None or own.name not in keys or not isinstance(own, exp.Column):
            found.append(condition)  # it may leave out rows; it can't add any
            continue
        tied.add(own.name)
        found.append(_tied_by_key(node, condition, (keys[own.name], sides[1])))
    return found if tied == set(keys) else None


def is_tied_key(name: str) -> bool:
    return re.fullmatch(rf"group#\d+\.{TIED}\d+", name) is not None


def _without_outer(value: exp.Expr) -> exp.Expr:
    return replace_outer(value, lambda _: exp.null())


def _numbers(count: int) -> exp.Expr:
    numbers = [exp.Literal.number(index) for index in range(count)]
    return exp.Anonymous(this="explode", expressions=[exp.Anonymous(this="array", expressions=numbers)])


def _kept_in(key: exp.Expr, index: int, sets: Sequence[Sequence[int]], number: str) -> exp.Expr:
    holding = [exp.Literal.number(place) for place, each in enumerate(sets) if index in each]
    inside: exp.Expr = exp.In(this=column(number), expressions=holding) if holding else exp.false()
    return exp.Case(ifs=[exp.If(this=inside, true=key)])
