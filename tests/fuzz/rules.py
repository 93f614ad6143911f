"""Random expressions of a wanted kind over the columns in scope.

Kinds are coarser than types: ``int`` may be INT or BIGINT, ``dec`` any DECIMAL. Nothing here can fail under ANSI:
values are small, products are by literals, and no column is a divisor or a text to be cast. ``dbl`` comes from avg over
integers alone and is never summed again, since the order of a sum of such doubles would show.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

from tests.fuzz.expressions import Aggregate, Apply, Column, Expr, Literal, Window

INT, DEC, STR, DATE, BOOL, DBL, ARR = "int", "dec", "str", "date", "bool", "dbl", "arr"
KINDS = (INT, DEC, STR, DATE, BOOL)
COMPARABLE = (INT, INT, INT, DEC, STR, DATE)

LITERALS = {
    INT: ("0", "1", "2", "-1"),
    DEC: ("0.00", "1.50", "-2.25"),
    STR: ("''", "'a'", "'b'"),
    DATE: ("DATE'2024-01-01'", "DATE'2024-01-02'"),
    BOOL: ("true", "false"),
    DBL: ("0.5D", "2D"),
    ARR: ("array('a')", "array('a', 'b')"),
}

# The slots name the kinds of the arguments.
CALLS = {
    INT: (
        "({int} + {int})",
        "({int} - {int})",
        "({int} * 2)",
        "coalesce({int}, {int})",
        "nullif({int}, {int})",
        "greatest({int}, {int})",
        "abs({int})",
        "({int} % 3)",
        "length({str})",
        "day({date})",
        "CASE WHEN {bool} THEN {int} ELSE {int} END",
        "CASE {int} WHEN 1 THEN {int} WHEN 2 THEN 7 END",
        "if({bool}, {int}, NULL)",
    ),
    DEC: (
        "({dec} + {dec})",
        "({dec} - 1.50)",
        "coalesce({dec}, 0.00)",
        "round({dec}, 1)",
        "CAST({int} AS DECIMAL(10, 2))",
        "CASE WHEN {bool} THEN {dec} END",
    ),
    STR: (
        "concat({str}, {str})",
        "upper({str})",
        "coalesce({str}, 'z')",
        "substring({str}, 1, 1)",
        "CAST({int} AS STRING)",
        "CASE WHEN {bool} THEN {str} ELSE 'c' END",
    ),
    DATE: ("date_add({date}, 1)", "coalesce({date}, DATE'2024-01-03')", "CASE WHEN {bool} THEN {date} END"),
    BOOL: (
        "({bool} AND {bool})",
        "({bool} OR {bool})",
        "(NOT {bool})",
        "({bool} IS NOT TRUE)",
        "({str} LIKE 'a%')",
        "({int} IN (0, 2))",
        "({int} NOT IN (1, NULL))",
        "({int} BETWEEN {int} AND 2)",
        "({dec} BETWEEN -1.50 AND {dec})",
        "({int} IS NULL)",
        "({str} IS NULL)",
        "({date} IS NOT NULL)",
        "CASE WHEN {bool} THEN {bool} ELSE {int} = 1 END",
    ),
    DBL: ("coalesce({dbl}, 0.5D)",),
    ARR: ("array({str}, 'a')",),
}

AGGREGATES = {
    INT: (
        "count(*)",
        "count(*)",
        "count({int})",
        "count({str})",
        "sum({int})",
        "sum({int})",
        "min({int})",
        "max({int})",
        "count(DISTINCT {int})",
        "count(DISTINCT {str}, {int})",
        "sum(DISTINCT {int})",
        "count_if({bool})",
    ),
    DEC: ("sum({dec})", "avg({dec})", "min({dec})", "max({dec})", "sum(DISTINCT {dec})"),
    STR: ("min({str})", "max({str})"),
    DATE: ("min({date})", "max({date})"),
    BOOL: ("bool_and({bool})", "bool_or({bool})", "max({bool})"),
    DBL: ("avg({int})",),
    ARR: ("sort_array(collect_set({str}))",),
}

WINDOWS = {
    INT: (
        "rank()",
        "dense_rank()",
        "count(*)",
        "count({int})",
        "sum({int})",
        "min({int})",
        "max({int})",
    ),
    DEC: ("sum({dec})", "min({dec})", "max({dec})"),
    STR: ("min({str})", "max({str})"),
    DATE: ("max({date})",),
    BOOL: ("bool_or({bool})",),
}

_SLOT = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class Typed:
    """A column in scope."""

    value: Expr
    kind: str


Scope = Sequence[Typed]


@dataclass(frozen=True)
class Expressions:
    rng: random.Random

    def value(self, kind: str, scope: Scope, depth: int = 2) -> Expr:
        chance = self.rng.random()
        known = self.of_kind(kind, scope)
        if known and (chance < 0.65 or depth == 0):
            return self.rng.choice(known)
        if depth > 0 and chance < 0.93:
            return self.boolean(scope, depth) if kind == BOOL else self.call(self.rng.choice(CALLS[kind]), scope, depth)
        return Literal(self.rng.choice(LITERALS[kind]))

    def boolean(self, scope: Scope, depth: int = 2) -> Expr:
        if self.rng.random() < 0.55:
            here = {each.kind for each in scope}
            kind = self.rng.choice([each for each in COMPARABLE if each in here] or COMPARABLE)
            return self.comparison(self.value(kind, scope, depth - 1), self.value(kind, scope, 0))
        return self.call(self.rng.choice(CALLS[BOOL]), scope, depth)

    def comparison(self, one: Expr, other: Expr, *, equal: float = 0.3) -> Expr:
        sign = "=" if self.rng.random() < equal else self.rng.choice(["=", "<>", "<", "<=", ">", "<=>"])
        return Apply(f"({{0}} {sign} {{1}})", (one, other))

    def call(self, rule: str, scope: Scope, depth: int) -> Expr:
        template, kinds = slots(rule)
        return Apply(template, tuple(self.value(kind, scope, depth - 1) for kind in kinds))

    def aggregate(self, kind: str, scope: Scope) -> Expr:
        template, kinds = slots(self.rng.choice(AGGREGATES[kind]))
        arguments = tuple(self.value(each, scope, 1) for each in kinds)
        # FILTER belongs right after the call: not around sort_array.
        filtered = self.rng.random() < 0.15 and not template.startswith("sort_array")
        made: Expr = Aggregate(template, arguments, self.boolean(scope, 1) if filtered else None)
        if kind == INT and self.rng.random() < 0.15:
            made = Apply("({0} + 1)", (made,))
        elif kind != ARR and self.rng.random() < 0.1:
            made = Apply("coalesce({0}, {1})", (made, Literal(LITERALS[kind][0])))
        return made

    def window(self, kind: str, scope: Scope) -> Expr:
        template, kinds = slots(self.rng.choice(WINDOWS[kind]))
        partition = tuple(self.value(INT, scope, 0) for _ in range(self.rng.choice([0, 1, 1, 1, 2])))
        order = tuple(self.order(scope) for _ in range(self.rng.choice([0, 1, 1, 2])))
        if not order and template in ("rank()", "dense_rank()"):
            order = (self.order(scope),)
        return Window(template, tuple(self.value(each, scope, 1) for each in kinds), partition, order)

    def order(self, scope: Scope) -> Expr:
        value = self.column(scope)
        return Apply("{0}" + self.rng.choice([" DESC", " NULLS LAST"]), (value,)) if self.rng.random() < 0.3 else value

    def column(self, scope: Scope) -> Expr:
        known = [each.value for each in scope if isinstance(each.value, Column)]
        return self.rng.choice(known)

    def of_kind(self, kind: str, scope: Scope) -> list[Expr]:
        return [each.value for each in scope if each.kind == kind]


def slots(rule: str) -> tuple[str, tuple[str, ...]]:
    """``({int} + {int})`` as a template with numbers and the kinds that stand for them."""
    kinds = tuple(_SLOT.findall(rule))
    numbers = iter(range(len(kinds)))
    return _SLOT.sub(lambda _: f"{{{next(numbers)}}}", rule), kinds
