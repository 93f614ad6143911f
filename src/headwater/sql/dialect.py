"""Spark's SQL as sqlglot reads it, with scalar expressions kept word for word.

sqlglot's own Spark dialect translates: ``log(x)`` becomes ``LN(x)``, ``dateadd(day, ...)`` another function, CAST a
TRY_CAST that prints as CAST, ``'it''s'`` loses its quote. Between engines that is its purpose; here Spark is on
both sides and must see what the user wrote. So functions stay as they are spelled, and the few literal forms
that sqlglot folds keep their form. What still differs is found at CREATE, where Spark's optimized plan of
the user's own text is compared with that of our reading (``headwater.engine.analysis``).
"""

from __future__ import annotations

from typing import Any, ClassVar, cast

import sqlglot
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, TokenError
from sqlglot.parser import IsPredicatePrecedence
from sqlglot.tokenizer_core import Token, TokenType

from headwater.errors import SqlSyntaxError
from headwater.sql.operators import with_parentheses


class TypedLiteral(exp.Expression):
    """``DATE '2024-01-31'`` and the like."""

    arg_types = {"this": True, "to": True}  # noqa: RUF012 (sqlglot's own convention)


def _spelled(node: exp.Expr, name: str) -> exp.Expr:
    """Remembers how the user wrote a function that has two names: plans show the name."""
    node.meta["spelled"] = name
    return node


# sqlglot reads these into nodes of its own, under other names.
_TRANSLATED = frozenset(
    {"APPROX_PERCENTILE", "PERCENTILE_APPROX", "PERCENTILE", "LISTAGG", "STRING_AGG", "MAX_BY", "MIN_BY"}
)


# Operators on values that bind looser than a sum, the tightest first.
_LOOSER_THAN_SUMS: tuple[dict[tuple[TokenType, ...], type[exp.Expr]], ...] = (
    {
        (TokenType.LT, TokenType.LT): exp.BitwiseLeftShift,
        (TokenType.GT, TokenType.GT): exp.BitwiseRightShift,
    },
    {(TokenType.AMP,): exp.BitwiseAnd},
    {(TokenType.CARET,): exp.BitwiseXor},
    {(TokenType.PIPE,): exp.BitwiseOr},
    {
        (TokenType.EQ,): exp.EQ,
        (TokenType.NEQ,): exp.NEQ,
        (TokenType.NULLSAFE_EQ,): exp.NullSafeEQ,
        (TokenType.GT,): exp.GT,
        (TokenType.GTE,): exp.GTE,
        (TokenType.LT,): exp.LT,
        (TokenType.LTE,): exp.LTE,
    },
)


class VerbatimSpark(Spark):
    NORMALIZE_NOT_NULL = False

    class Tokenizer(Spark.Tokenizer):
        STRING_ESCAPES = ["\\", "'"]  # noqa: RUF012
        COMMANDS = set()  # noqa: RUF012 (SHOW and EXPLAIN are read word by word too)

    class Parser(Spark.Parser):  # type: ignore[misc, valid-type]
        STRICT_CAST = True
        TERM = {  # noqa: RUF012
            TokenType.PLUS: exp.Add,
            TokenType.DASH: exp.Sub,
            TokenType.DPIPE: exp.DPipe,
        }
        IS_PREDICATE_PRECEDENCE = IsPredicatePrecedence.HIGH  # beside IN and LIKE
        FUNCTION_PARSERS = {  # noqa: RUF012
            **{name: how for name, how in Spark.Parser.FUNCTION_PARSERS.items() if name not in _TRANSLATED},
            "SUBSTR": lambda self: _spelled(self._parse_substring(), "SUBSTR"),
        }
        FUNCTIONS = {"ARRAY": Spark.Parser.FUNCTIONS["ARRAY"]}  # noqa: RUF012
        NO_PAREN_FUNCTIONS: ClassVar[dict[Any, Any]] = {}
        TYPE_LITERAL_PARSERS = {  # noqa: RUF012
            kind: lambda _, this, to: TypedLiteral(this=this, to=to)
            for kind in (
                exp.DataType.Type.DATE,
                exp.DataType.Type.TIMESTAMP,
                exp.DataType.Type.TIMESTAMPTZ,
                exp.DataType.Type.TIMESTAMPNTZ,
                exp.DataType.Type.TIMESTAMPLTZ,
            )
        }

        def _parse_equality(self, parse_is: bool = True) -> exp.Expr | None:  # noqa: ARG002 (sqlglot's signature)
            """A value, or a predicate over one: comparisons are read with the values."""
            return cast("exp.Expr | None", self._parse_range())

        def _parse_bitwise(self) -> exp.Expr | None:
            """A value as Spark has it: what stands on either side of IN, LIKE or BETWEEN, comparisons among it."""
            return self._parse_operators(len(_LOOSER_THAN_SUMS))

        def _parse_operators(self, levels: int) -> exp.Expr | None:
            if levels == 0:
                return cast("exp.Expr | None", self._parse_term())
            this = self._parse_operators(levels - 1)
            while (kind := self._match_operator(_LOOSER_THAN_SUMS[levels - 1])) is not None:
                this = self.expression(kind(this=this, expression=self._parse_operators(levels - 1)))
            return this

        def _match_operator(self, kinds: dict[tuple[TokenType, ...], type[exp.Expr]]) -> type[exp.Expr] | None:
            for spelled, kind in kinds.items():
                if self._match_pair(*spelled) if len(spelled) == 2 else self._match(*spelled):
                    return kind
            return None

        def _parse_unary(self) -> exp.Expr | None:
            """COLLATE binds tighter than any operator."""
            this: exp.Expr | None = super()._parse_unary()
            while self._match(TokenType.COLLATE):
                collated = exp.Collate(this=this, expression=self._parse_column())
                self._normalize_collate(collated)
                this = self.expression(collated)
            return this

        def _replace_lambda(self, node: exp.Expr | None, expressions: list[exp.Expr]) -> exp.Expr | None:
            """Variables compare without case, like all names: X -> x + 1 has no column in it."""
            variables = {each.name.lower(): each.name for each in expressions}
            for column in node.find_all(exp.Column) if node is not None else ():
                first = column.parts[0]
                if first.name.lower() in variables:
                    first.set("this", variables[first.name.lower()])
            return cast("exp.Expr | None", super()._replace_lambda(node, expressions))

        def _parse_interval(self, *args: Any, **options: Any) -> exp.Expr | None:
            """``INTERVAL 1 DAY 2 HOURS`` is read as a sum: one that holds together."""
            found: exp.Expr | None = super()._parse_interval(*args, **options)
            return exp.Paren(this=found) if isinstance(found, exp.Add) else found

    class Generator(Spark.Generator):  # type: ignore[misc, valid-type]
        TRANSFORMS = {  # noqa: RUF012
            # Without that of SELECT, which rewrites QUALIFY and others for engines that lack them.
            **{kind: how for kind, how in Spark.Generator.TRANSFORMS.items() if kind is not exp.Select},
            TypedLiteral: lambda self, e: f"{self.sql(e, 'to')} {self.sql(e, 'this')}",
            exp.BitwiseLeftShift: lambda self, e: self.binary(e, "<<"),
            exp.BitwiseRightShift: lambda self, e: self.binary(e, ">>"),
            exp.Substring: lambda self, e: self.func(
                e.meta.get("spelled", "SUBSTRING"), e.this, e.args.get("start"), e.args.get("length")
            ),
        }

        def preprocess(self, expression: exp.Expr) -> exp.Expr:
            return with_parentheses(cast("exp.Expr", super().preprocess(expression)))


def parse(text: str) -> exp.Expr:
    """The syntax tree of one query; positions are kept in the nodes' ``meta``."""
    try:
        found = sqlglot.parse(text, read=VerbatimSpark)
    except (ParseError, TokenError) as error:
        details: list[dict[str, Any]] = getattr(error, "errors", []) or [{}]
        first = details[0]
        raise SqlSyntaxError(
            f"The SQL can't be read: {first.get('description') or str(error).splitlines()[0]}",
            line=first.get("line"),
            column=first.get("col"),
            remedy="Check the text near that place; it must be one Spark SQL query.",
        ) from error
    queries = [query for query in found if query is not None]
    if len(queries) != 1 or not isinstance(queries[0], exp.Query | exp.Values):
        raise SqlSyntaxError(
            f"Expected one query, found {len(queries)} statement(s) that are not one.",
            remedy="Give exactly one SELECT.",
        )
    return queries[0]


def tokens(text: str) -> list[Token]:
    try:
        return list(VerbatimSpark().tokenize(text))
    except TokenError as error:
        raise SqlSyntaxError(f"The SQL can't be read: {error}", remedy="Check quotes and comments.") from error


def to_text(expression: exp.Expr, *, pretty: bool = False) -> str:
    return expression.sql(dialect=VerbatimSpark, pretty=pretty, comments=False)


def position(node: exp.Expr, text: str) -> tuple[int, int] | None:
    """Line and column (from 1) where a node begins in the text, as far as its parts tell."""
    starts = [part.meta["start"] for part in node.walk() if "start" in part.meta]
    if not starts:
        return None
    start = min(starts)
    return text.count("\n", 0, start) + 1, start - (text.rfind("\n", 0, start) + 1) + 1


def quoted(name: str) -> exp.Identifier:
    return exp.to_identifier(name, quoted=True)


def column(name: str, table: str | None = None) -> exp.Column:
    return exp.Column(this=quoted(name), table=quoted(table) if table else None)


def subquery(query: exp.Query, alias: str) -> exp.Subquery:
    return exp.Subquery(this=query, alias=exp.TableAlias(this=quoted(alias)))


def named(value: exp.Expr, name: str) -> exp.Expr:
    return exp.alias_(value, name, quoted=True)


def call(name: str, *arguments: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=list(arguments))


def bigint(value: int) -> exp.Expr:
    return exp.Cast(this=exp.Literal.number(value), to=exp.DataType.build("BIGINT"))


def is_not_null(value: exp.Expr) -> exp.Expr:
    return exp.Not(this=exp.Is(this=value.copy(), expression=exp.null()))
