"""Expressions of a view: what may stand in one, and the columns in it replaced by what they stand for.

A subquery inside an expression is set aside under a ``Hole``; it is lowered when the block that it belongs to is known
(``headwater.sql.subqueries``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from sqlglot import exp

from headwater.sql import constructs
from headwater.sql.blocks import Block, OuterRef
from headwater.sql.constructs import refuse
from headwater.sql.dialect import TypedLiteral, quoted, to_text
from headwater.sql.scope import Scope

if TYPE_CHECKING:
    from headwater.errors import UnsupportedSql

# With three arguments the first is a unit such as DAY, which reads like a column.
_UNIT_FIRST = frozenset({"dateadd", "date_add", "datediff", "date_diff", "timestampadd", "timestampdiff"})
# DATE'today' reads the clock when the text is analysed.
_CLOCK_WORD = re.compile(r"\s*(now|today|tomorrow|yesterday)\b", re.IGNORECASE)

Ctes: TypeAlias = Mapping[str, Callable[[], Block]]


class Hole(exp.Expression):
    """A subquery that is yet to be lowered; ``this`` is its number."""

    arg_types = {"this": True}  # noqa: RUF012 (sqlglot's own convention)


@dataclass(frozen=True, slots=True)
class Pending:
    """``node`` is EXISTS, IN or the subquery itself; ``operand`` what IN compares, read in its place."""

    node: exp.Expr
    operand: exp.Expr | None
    scope: Scope
    ctes: Ctes


@dataclass(slots=True)
class Expressions:
    """``functions`` are Spark's built-in ones (None: not checked)."""

    text: str
    functions: frozenset[str] | None
    pending: list[Pending] = field(default_factory=list)

    def read(self, node: exp.Expr, scope: Scope, aliases: Mapping[str, exp.Expr], ctes: Ctes) -> exp.Expr:
        """A copy of an expression with every column replaced by what it stands for."""
        self._check(node)

        def replace(part: exp.Expr) -> exp.Expr:
            if is_subquery(part):
                operand = self._operand(part.this, scope, aliases, ctes) if isinstance(part, exp.In) else None
                self.pending.append(Pending(part, operand, scope, ctes))
                return Hole(this=exp.Literal.number(len(self.pending) - 1))
            if isinstance(part, exp.Column) and not _is_unit(part):
                return self._column(part, scope, aliases)
            if isinstance(part, exp.Anonymous):
                part.set("this", part.name.lower())  # so that Upper(k) is the upper(k) of GROUP BY
            return part

        # The root of a copy may itself be replaced, so it hangs under a node of its own.
        held = exp.Paren(this=node.copy())
        _name_fields(held)
        replaced: exp.Expr = held.transform(replace).this
        return replaced

    def _operand(self, node: exp.Expr, scope: Scope, aliases: Mapping[str, exp.Expr], ctes: Ctes) -> exp.Expr:
        """What stands before IN; a row stays a list of values, since it is compared value by value."""
        if isinstance(node, exp.Tuple):
            return exp.Tuple(expressions=[self.read(each, scope, aliases, ctes) for each in node.expressions])
        return self.read(node, scope, aliases, ctes)

    def set_aside(self, hole: exp.Expr) -> Pending:
        return self.pending[int(hole.this.name)]

    def refuse(self, code: str, found: str, node: exp.Expr | None) -> UnsupportedSql:
        return refuse(code, found, node, self.text)

    def _column(self, node: exp.Column, scope: Scope, aliases: Mapping[str, exp.Expr]) -> exp.Expr:
        parts = [part.name for part in node.parts]
        found = scope.resolve(parts)
        if found is None and parts[0].lower() in aliases:
            found = exp.paren(aliases[parts[0].lower()].copy()), parts[1:]
        if found is None and scope.parent is not None:
            outer = scope.parent.resolve(parts)
            found = None if outer is None else (OuterRef(this=outer[0].copy()), outer[1])
        if found is None:
            if len(parts) == 1 and is_clock(parts[0]):
                raise self.refuse("NONDETERMINISTIC", f"{parts[0]}", node)
            if parts[0].lower() in constructs.TIME_WINDOW_FUNCTIONS:  # the column that GROUP BY window(...) makes
                raise self.refuse("TIME_WINDOW", to_text(node), node)
            if scope.parent is not None and scope.parent.parent is not None:
                raise self.refuse("CORRELATION", f"{to_text(node)} of a query two levels out", node)
            # Spark, which has accepted the text, knows it as a session variable or under a name that it made up.
            variable = len(parts) == 1 and parts[0].isidentifier()
            raise self.refuse("PARAMETER" if variable else "UNNAMED_COLUMN", to_text(node), node)
        value, fields = found[0].copy(), found[1]
        starts = [part.meta["start"] for part in node.walk() if "start" in part.meta]
        if starts:
            value.meta["start"] = min(starts)  # so that what is refused later still has its place
        if (fields and not isinstance(value, exp.Column)) or not isinstance(
            value, exp.Column | exp.Literal | exp.Paren | OuterRef
        ):
            value = exp.paren(value)
        for name in fields:
            value = exp.Dot(this=value, expression=exp.to_identifier(name, quoted=True))
        return value

    def require_deterministic(self, query: exp.Expr) -> None:
        """Refuse a whole text of which the same tables may give another answer another time."""
        for part in query.walk():
            match part:
                case exp.TableSample():
                    raise self.refuse("SAMPLE", "TABLESAMPLE", part)
                case exp.Version():
                    raise self.refuse("TIME_TRAVEL", to_text(part), part)
                case exp.Limit() | exp.Offset() | exp.Fetch() if part.parent and not part.parent.args.get("order"):
                    raise self.refuse("LIMIT", "LIMIT without ORDER BY", part)
                case exp.Column() if (
                    part.name.lower() in constructs.NONDETERMINISTIC_FUNCTIONS and len(part.parts) == 1
                ):
                    raise self.refuse("NONDETERMINISTIC", part.name, part)
                case _:
                    self._check_part(part)

    def _check(self, node: exp.Expr) -> None:
        for part in node.walk(prune=is_subquery):
            self._check_part(part)
            match part:
                case exp.Anonymous() if part.name.lower() in constructs.TIME_WINDOW_FUNCTIONS:
                    raise self.refuse("TIME_WINDOW", to_text(part), part)
                case exp.Star() if not is_aggregate_call(part.parent):
                    raise self.refuse("STAR_REPLACE", "* inside an expression", part.parent)
                case exp.Query() if not is_subquery(part):
                    raise self.refuse("SUBQUERY", "a query inside an expression", part)

    def _check_part(self, part: exp.Expr) -> None:
        match part:
            case exp.Parameter() | exp.Placeholder() | exp.SessionParameter():
                raise self.refuse("PARAMETER", to_text(part), part)
            case TypedLiteral() if _CLOCK_WORD.match(part.this.name):
                raise self.refuse("NONDETERMINISTIC", to_text(part), part)
            case exp.Anonymous():
                self._check_function(part)

    def _check_function(self, node: exp.Anonymous) -> None:
        name = node.name.lower()
        if name in constructs.NONDETERMINISTIC_FUNCTIONS:
            raise self.refuse("NONDETERMINISTIC", to_text(node), node)
        if name in constructs.CLOCK_WITHOUT_ARGUMENTS and not node.expressions:
            raise self.refuse("NONDETERMINISTIC", to_text(node), node)
        if self.functions is not None and name not in self.functions | _UNIT_FIRST:
            raise self.refuse("USER_FUNCTION", to_text(node), node)


def is_clock(name: str) -> bool:
    """A name such as current_date, which is a function even without parentheses."""
    return name.lower() in constructs.NONDETERMINISTIC_FUNCTIONS


def is_subquery(node: exp.Expr | None) -> bool:
    """EXISTS, IN over a query, or a scalar subquery."""
    match node:
        case exp.Exists():
            return True
        case exp.In():
            return node.args.get("query") is not None
        case exp.Subquery():
            return not isinstance(node.parent, exp.In)
        case _:
            return False


def is_generator(node: exp.Expr | None) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.lower() in constructs.GENERATOR_FUNCTIONS


def is_ordinal(node: exp.Expr) -> bool:
    """The 1 of GROUP BY 1 and ORDER BY 1."""
    return isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit()


def is_aggregate_call(node: exp.Expr | None) -> bool:
    """``any(b)`` has a node of its own; LIKE ANY (...) is another thing."""
    if isinstance(node, exp.Any):
        return not isinstance(node.parent, exp.Binary)
    return isinstance(node, exp.Anonymous) and node.name.lower() in constructs.AGGREGATE_FUNCTIONS


def is_window_function(node: exp.Expr) -> bool:
    """Whether a call is the function of an OVER clause."""
    while isinstance(node.parent, exp.IgnoreNulls | exp.RespectNulls | exp.Filter) and node.arg_key == "this":
        node = node.parent
    return isinstance(node.parent, exp.Window) and node.arg_key == "this"


def unwrapped(node: exp.Expr) -> exp.Expr:
    """Without the parentheses around it."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def conjuncts(condition: exp.Expr) -> Iterator[exp.Expr]:
    """The parts of a conjunction, without the parentheses around each: (a = b) joins as a = b does."""
    if isinstance(condition, exp.And):
        yield from conjuncts(condition.this)
        yield from conjuncts(condition.expression)
    elif isinstance(condition, exp.Paren) and not isinstance(condition.this, exp.Or | exp.Xor):
        yield from conjuncts(condition.this)
    else:
        yield condition


def _is_unit(node: exp.Column) -> bool:
    call = node.parent
    return (
        isinstance(call, exp.Anonymous)
        and call.name.lower() in _UNIT_FIRST
        and len(call.expressions) == 3
        and call.expressions[0] is node
    )


def _name_fields(node: exp.Expr) -> None:
    """Spell out the names that struct(a), (a, b) and arrays_zip(a) take from the columns in them.

    Our columns have other names, and a name may be part of a value: to_json(struct(a)) is {"a": ...}.
    """
    for part in list(node.find_all(exp.Anonymous, exp.Tuple)):
        call = part.name.lower() if isinstance(part, exp.Anonymous) else "tuple"
        if call == "tuple" and isinstance(part.parent, exp.In | exp.Any | exp.All):
            continue  # a list of values, or rows that are only compared
        for argument in part.expressions:
            if not isinstance(argument, exp.Column):
                continue
            if call in ("struct", "tuple"):
                argument.replace(exp.alias_(argument.copy(), argument.name, quoted=True))
            elif call == "arrays_zip":
                named = exp.Anonymous(
                    this="named_struct", expressions=[exp.Literal.string(argument.name), argument.copy()]
                )
                argument.replace(exp.Dot(this=named, expression=quoted(argument.name)))
