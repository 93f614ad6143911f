"""The DDL of Headwater, as values.

Only the head of a statement is read here; the query after AS stays the user's own text, since Spark is to see it
word for word. Positions in errors count in the whole statement: ``CreateView.positioned_query`` is the query with the
head blanked out before it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NoReturn, TypeAlias, TypeVar

from sqlglot.tokenizer_core import Token, TokenType

from headwater.errors import SqlSyntaxError
from headwater.sql.dialect import tokens


@dataclass(frozen=True, slots=True)
class CreateView:
    name: str
    query: str
    positioned_query: str
    if_not_exists: bool = False
    cluster_by: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    or_replace: bool = False


@dataclass(frozen=True, slots=True)
class RefreshView:
    name: str
    csn: int | None = None
    timestamp: str | None = None


@dataclass(frozen=True, slots=True)
class DropView:
    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class ShowViews:
    pass


@dataclass(frozen=True, slots=True)
class ExplainView:
    name: str


@dataclass(frozen=True, slots=True)
class ExplainQuery:
    """What a view of this text would be."""

    view: CreateView


@dataclass(frozen=True, slots=True)
class AlterView:
    name: str
    options: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class SelectQuery:
    """Any query over views and tracked tables."""

    text: str


Statement: TypeAlias = (
    CreateView | AlterView | RefreshView | DropView | ShowViews | ExplainView | ExplainQuery | SelectQuery
)

T = TypeVar("T")
_QUERY_WORDS = frozenset({"SELECT", "WITH", "FROM", "TABLE", "VALUES", "("})
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def parse_statement(text: str) -> Statement:
    found = tokens(text)
    while found and found[-1].token_type is TokenType.SEMICOLON:
        found.pop()
    if not found:
        raise SqlSyntaxError("The statement is empty.", remedy="Give a statement such as SHOW MATERIALIZED VIEWS.")
    text = text[: found[-1].end + 1]
    return _Reader(text, found).statement()


class _Reader:
    """A cursor over the words of a statement's head."""

    def __init__(self, text: str, found: list[Token]) -> None:
        self.text = text
        self.found = found
        self.at = 0

    def statement(self) -> Statement:
        if self._words("CREATE"):
            or_replace = self._words("OR", "REPLACE")
            self._expect("MATERIALIZED", "VIEW")
            return self._create(or_replace)
        if self._words("ALTER"):
            self._expect("MATERIALIZED", "VIEW")
            name = self._name()
            self._expect("SET", "OPTIONS")
            changed: dict[str, str] = {}
            self._list(lambda: self._add_option(changed))
            return self._end(AlterView(name, changed))
        if self._words("REFRESH"):
            self._expect("MATERIALIZED", "VIEW")
            return self._refresh()
        if self._words("DROP"):
            self._expect("MATERIALIZED", "VIEW")
            if_exists = self._words("IF", "EXISTS")
            return self._end(DropView(self._name(), if_exists))
        if self._words("SHOW"):
            self._expect("MATERIALIZED", "VIEWS")
            return self._end(ShowViews())
        if self._words("EXPLAIN"):
            self._expect("MATERIALIZED", "VIEW")
            if self._upper() in _QUERY_WORDS:
                return ExplainQuery(self._query("", False, (), {}, False))
            return self._end(ExplainView(self._name()))
        if self._upper() in _QUERY_WORDS:
            return SelectQuery(self.text)
        raise self._error("CREATE, ALTER, REFRESH, DROP, SHOW or EXPLAIN MATERIALIZED VIEW, or a query")

    def _create(self, or_replace: bool) -> CreateView:
        if_not_exists = not or_replace and self._words("IF", "NOT", "EXISTS")
        name = self._name()
        cluster_by: tuple[str, ...] = ()
        options: dict[str, str] = {}
        while not self._words("AS"):
            if self._words("CLUSTER BY") or self._words("CLUSTER", "BY"):
                cluster_by = tuple(self._list(self._identifier))
            elif self._words("OPTIONS"):
                self._list(lambda: self._add_option(options))
            else:
                self._fail("CLUSTER BY (...), OPTIONS (...) or AS")
        if self.at >= len(self.found):
            self._fail("a query after AS")
        return self._query(name, if_not_exists, cluster_by, options, or_replace)

    def _query(
        self, name: str, if_not_exists: bool, cluster_by: tuple[str, ...], options: dict[str, str], or_replace: bool
    ) -> CreateView:
        """The rest of the statement is the view's text."""
        start = self.found[self.at].start
        blank = re.sub(r"[^\n]", " ", self.text[:start])
        query = self.text[start:]
        return CreateView(name, query, blank + query, if_not_exists, cluster_by, options, or_replace)

    def _refresh(self) -> RefreshView:
        name = self._name()
        if self._words("TO"):
            if self._words("CSN"):
                number = self._next("a csn")
                if number.token_type is not TokenType.NUMBER or not number.text.isdigit():
                    self._fail("a csn (a whole number)", number)
                return self._end(RefreshView(name, csn=int(number.text)))
            if self._words("TIMESTAMP"):
                moment = self._next("a timestamp")
                if moment.token_type is not TokenType.STRING:
                    self._fail("a timestamp in quotes", moment)
                return self._end(RefreshView(name, timestamp=moment.text))
            self._fail("CSN n or TIMESTAMP '...'")
        return self._end(RefreshView(name))

    # ------------------------------------------------------------------ words

    def _upper(self) -> str:
        return self.found[self.at].text.upper() if self.at < len(self.found) else ""

    def _words(self, *words: str) -> bool:
        here = [token.text.upper() for token in self.found[self.at : self.at + len(words)]]
        if here != list(words):
            return False
        self.at += len(words)
        return True

    def _expect(self, *words: str) -> None:
        if not self._words(*words):
            self._fail(" ".join(words))

    def _next(self, wanted: str) -> Token:
        if self.at >= len(self.found):
            self._fail(wanted)
        self.at += 1
        return self.found[self.at - 1]

    def _identifier(self) -> str:
        token = self._next("a name")
        if token.token_type is TokenType.STRING or not (
            token.token_type is TokenType.IDENTIFIER or NAME.fullmatch(token.text)
        ):
            self._fail("a name", token)
        return token.text

    def _name(self) -> str:
        name = self._identifier()
        if self._upper() == ".":
            self._fail("a plain name: views live in the lake's one namespace")
        return name

    def _add_option(self, options: dict[str, str]) -> None:
        first = self._next("an option's name")
        key = first.text
        while self._words("."):
            key = f"{key}.{self._next('the rest of the option').text}"
        self._expect("=")
        value = self._next("a value")
        if value.token_type not in (TokenType.STRING, TokenType.NUMBER):
            self._fail("a value in quotes", value)
        if key.lower() in options:
            self._fail(f"option {key} once", first)
        options[key.lower()] = value.text

    def _list(self, item: Callable[[], T]) -> list[T]:
        self._expect("(")
        items = [item()]
        while self._words(","):
            items.append(item())
        self._expect(")")
        return items

    def _end(self, statement: T) -> T:
        if self.at < len(self.found):
            self._fail("the end of the statement")
        return statement

    def _fail(self, wanted: str, token: Token | None = None) -> NoReturn:
        raise self._error(wanted, token)

    def _error(self, wanted: str, token: Token | None = None) -> SqlSyntaxError:
        found = token or (self.found[self.at] if self.at < len(self.found) else None)
        line, column = None, None
        if found is not None:
            line = self.text.count("\n", 0, found.start) + 1
            column = found.start - (self.text.rfind("\n", 0, found.start) + 1) + 1
        seen = repr(found.text) if found is not None else "the end of the text"
        return SqlSyntaxError(f"Expected {wanted}, found {seen}", line=line, column=column)
