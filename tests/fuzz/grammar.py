"""Random views.

A view begins with a plan: one to four constructs (some more), drawn by weight. Going down from the top, each place asks
whether a construct of the plan belongs to it. So pairs of constructs meet often, and views stay small.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tests.fuzz import rules
from tests.fuzz.expressions import Aggregate, Apply, Column, Exists, Expr, InQuery, Literal, Scalar, Window
from tests.fuzz.queries import (
    Cte,
    Derived,
    Grouped,
    Item,
    Join,
    Key,
    LateralView,
    Numbered,
    Query,
    Select,
    SetOperation,
    Source,
    Table,
    TopK,
    View,
    With,
)
from tests.fuzz.rules import ARR, DBL, DEC, INT, KINDS, Expressions, Typed

FEATURES = {
    "join": 5,
    "outer": 5,
    "semi": 3,
    "where": 4,
    "derived": 3,
    "cte": 2,
    "subquery": 4,
    "scalar": 3,
    "group": 8,
    "having": 3,
    "sets": 2,
    "distinct": 3,
    "union": 2,
    "setop": 3,
    "window": 4,
    "numbered": 1,
    "topk": 2,
    "lateral": 2,
    "view": 2,
    "nested": 3,
    "value": 3,
    "mixed": 2,
}
"""What a plan may hold, with its weight."""

JOINS = frozenset({"join", "where", "derived", "cte"})
"""Select, project, inner join."""

Columns = Sequence[tuple[str, str]]
"""Names and kinds."""


@dataclass(frozen=True)
class Relation:
    name: str
    columns: Columns
    is_view: bool = False


@dataclass
class Views:
    """Makes views over base tables (and, if the plan says so, over views)."""

    rng: random.Random
    relations: Mapping[str, Columns]
    upstream: Mapping[str, Columns]
    features: frozenset[str] = frozenset(FEATURES)

    def view(self, name: str) -> tuple[View, Columns]:
        """A view and its columns."""
        return _Maker(self.rng, self.relations, self.upstream, self._plan()).view(name)

    def _plan(self) -> list[str]:
        known = sorted(self.features & set(FEATURES) - (set() if self.upstream else {"view"}))
        count = self.rng.choices([1, 2, 3, 4, 6], [3, 5, 4, 2, 1])[0]
        return self.rng.choices(known, [FEATURES[each] for each in known], k=count)


class _Maker:
    def __init__(
        self, rng: random.Random, relations: Mapping[str, Columns], upstream: Mapping[str, Columns], plan: list[str]
    ) -> None:
        self.rng = rng
        self.plan = plan
        self.values = Expressions(rng)
        self.relations = [Relation(name, columns) for name, columns in relations.items()]
        self.upstream = [Relation(name, columns, is_view=True) for name, columns in upstream.items()]
        self.ctes: list[Relation] = []
        self.numbers: dict[str, int] = {}

    # ------------------------------------------------------------------ the plan and the names

    def take(self, feature: str, chance: float = 1.0) -> bool:
        if feature in self.plan and self.rng.random() < chance:
            self.plan.remove(feature)
            return True
        return False

    def fresh(self, prefix: str) -> str:
        self.numbers[prefix] = self.numbers.get(prefix, 0) + 1
        return f"{prefix}{self.numbers[prefix]}"

    def view(self, name: str) -> tuple[View, Columns]:
        kinds = self.kinds()
        query, kinds = self.query(kinds, 3, ())
        named = renamed(query, [f"o{at + 1}" for at in range(len(kinds))])
        return View(name, named), list(zip(named.columns(), kinds, strict=True))

    def kinds(self) -> list[str]:
        some = list(KINDS)
        if "group" in self.plan:
            some += [DBL, ARR]
        return [INT, *self.rng.choices(some, k=self.rng.choice([0, 1, 1, 2]))]

    # ------------------------------------------------------------------ queries

    def query(self, kinds: list[str], depth: int, outer: Sequence[Typed]) -> tuple[Query, list[str]]:
        """A query whose columns are of the given kinds; the kinds, of which there may be more then."""
        if depth > 0:
            if not outer and self.take("cte", 0.8):
                return self.with_cte(kinds, depth)
            if not outer and self.take("numbered", 0.7):
                return self.numbered(kinds, depth)
            if not outer and self.take("topk", 0.7):
                query, kinds = self.query(kinds, depth - 1, ())
                return TopK(query, self.rng.randint(1, 4), self.rng.random() < 0.4), kinds
            if self.take("union", 0.7):
                return self.set_operation("UNION", self.rng.random() < 0.5, kinds, depth, outer)
            if self.take("setop", 0.7):
                kind = self.rng.choice(["INTERSECT", "EXCEPT", "UNION"])
                every = kind != "UNION" and self.rng.random() < 0.5
                return self.set_operation(kind, every, kinds, depth, outer)
        if self.take("group", 0.9) or self.take("sets", 0.5):
            return self.grouped(kinds, depth, outer), kinds
        return self.select(kinds, depth, outer), kinds

    def with_cte(self, kinds: list[str], depth: int) -> tuple[Query, list[str]]:
        inner, inner_kinds = self.query(self.kinds(), depth - 1, ())
        name = self.fresh("w")
        cte = Relation(name, list(zip(inner.columns(), inner_kinds, strict=True)))
        self.ctes += [cte, cte] if self.rng.random() < 0.5 else [cte]
        if self.rng.random() < 0.5:
            self.plan.append("join")
        body, kinds = self.query(kinds, depth - 1, ())
        self.ctes = [each for each in self.ctes if each.name != name]
        return With((Cte(name, inner),), body), kinds

    def numbered(self, kinds: list[str], depth: int) -> tuple[Query, list[str]]:
        inner, kinds = self.query(kinds, depth - 1, ())
        if isinstance(inner, Select):
            inner = replace(inner, distinct=True)
        function, kind = self.rng.choice([("row_number()", INT), ("lag({0})", kinds[0]), ("lead({0})", kinds[0])])
        parts = self.rng.choice([0, 1, 1])
        return Numbered(inner, self.fresh("n"), function, parts, self.fresh("c")), [*kinds, kind]

    def set_operation(
        self, kind: str, every: bool, kinds: list[str], depth: int, outer: Sequence[Typed]
    ) -> tuple[Query, list[str]]:
        left, found = self.query(kinds, depth - 1, outer)
        right, other = self.query(found, depth - 1, outer)
        if len(other) != len(found):
            right = self.select(found, 0, outer)
        return SetOperation(kind, every, left, right), found

    def select(self, kinds: list[str], depth: int, outer: Sequence[Typed]) -> Query:
        source, scope = self.source(depth)
        windowed = self.take("window", 0.8)
        items = []
        for at, kind in enumerate(kinds):
            if windowed and kind in rules.WINDOWS and (at == 0 or self.rng.random() < 0.3):
                value = self.values.window(kind, scope)
            elif kind == INT and depth > 0 and self.take("scalar", 0.4):
                value = self.scalar(INT, depth, scope)
            elif kind == INT and depth > 0 and self.take("value", 0.7):
                value = self.found(scope, depth)
            else:
                value = self.values.value(kind, scope)
            items.append(Item(value, self.fresh("c")))
        where = self.where(scope, depth, outer)
        return Select(tuple(items), source, where, self.take("distinct", 0.7))

    def grouped(self, kinds: list[str], depth: int, outer: Sequence[Typed]) -> Query:
        source, scope = self.source(depth)
        shape = self.rng.random()
        key_chance = 0.0 if shape < 0.15 else 0.5
        keys: list[Key] = []
        items: list[Item] = []
        for kind in kinds:
            # Keys stand first in the answer: after an aggregate there can be no more of them.
            if not items and kind not in (DBL, ARR) and self.rng.random() < key_chance:
                keys.append(Key(self.values.value(kind, scope, 1), self.fresh("c")))
            elif kind == INT and depth > 0 and self.take("value", 0.5):
                items.append(Item(Aggregate("sum({0})", (self.found(scope, depth),)), self.fresh("c")))
            else:
                items.append(Item(self.values.aggregate(kind, scope), self.fresh("c")))
        if shape > 0.75 or (not keys and shape > 0.15):
            keys.append(Key(self.values.value(self.rng.choice(KINDS), scope, 1), self.fresh("h"), shown=False))
        keys = [replace(each, value=_no_literal(each.value, scope, self.rng)) for each in keys]
        if items and keys and self.take("window", 0.3):
            rank = Window("rank()", (), (), (items[0].value,))
            if kinds[len(keys) - sum(not each.shown for each in keys)] == INT:
                items[0] = replace(items[0], value=rank)
        mode, sets = self.grouping(keys)
        where = self.where(scope, depth, outer)
        having = self.having(keys, scope, depth)
        return Grouped(tuple(keys), tuple(items), source, where, having, mode, sets, self.take("distinct", 0.2))

    def grouping(self, keys: list[Key]) -> tuple[str, tuple[tuple[str, ...], ...]]:
        if not keys or not self.take("sets", 0.9):
            return "", ()
        mode = self.rng.choice(["ROLLUP", "CUBE", "GROUPING SETS"])
        names = [each.name for each in keys]
        if mode != "GROUPING SETS":
            return mode, ()
        sets = [tuple(each for each in names if self.rng.random() < 0.6) for _ in range(self.rng.choice([1, 2, 2]))]
        return mode, (tuple(names), *sets)

    def having(self, keys: list[Key], scope: Sequence[Typed], depth: int) -> Expr | None:
        if not self.take("having", 0.8):
            return None
        kind = self.rng.choice([INT, INT, DEC])
        one = self.values.aggregate(kind, scope)
        if depth > 0 and self.take("scalar", 0.5):
            return self.values.comparison(one, self.scalar(kind, depth, ()))
        made = self.values.comparison(one, Literal(self.rng.choice(rules.LITERALS[kind])))
        if keys and self.rng.random() < 0.2:
            return Apply("({0} OR ({1} IS NULL))", (made, keys[0].value))
        return made

    # ------------------------------------------------------------------ conditions

    def where(self, scope: Sequence[Typed], depth: int, outer: Sequence[Typed]) -> Expr | None:
        parts: list[Expr] = []
        if outer and self.rng.random() < 0.75:
            parts.append(self.correlation(scope, outer))
        if self.take("where", 0.8) or (outer and self.rng.random() < 0.2):
            parts.append(self.values.boolean(scope))
        if depth > 0 and self.take("subquery", 0.8):
            parts.append(self.subquery(scope, depth))
        if depth > 0 and self.take("scalar", 0.5):
            kind = self.rng.choice([INT, INT, DEC])
            parts.append(self.values.comparison(self.values.value(kind, scope, 1), self.scalar(kind, depth, scope)))
        return self.together(parts)

    def together(self, parts: list[Expr]) -> Expr | None:
        if not parts:
            return None
        made = parts[0]
        for each in parts[1:]:
            made = Apply(self.rng.choice(["({0} AND {1})", "({0} AND {1})", "({0} OR {1})"]), (made, each))
        return made

    def pairs(self, left: Sequence[Typed], right: Sequence[Typed]) -> list[tuple[Typed, Typed]]:
        """Columns that may be compared: of one kind, or numbers of two."""
        found = [(one, other) for one in left for other in right if one.kind == other.kind]
        if self.take("mixed", 0.5):
            mixed = [(one, other) for one in left for other in right if {one.kind, other.kind} == {INT, DEC}]
            return mixed or found
        return found

    def correlation(self, scope: Sequence[Typed], outer: Sequence[Typed]) -> Expr:
        pairs = self.pairs(scope, outer)
        if not pairs:
            return Literal("true")
        one, other = self.rng.choice([each for each in pairs if each[0].kind == INT] or pairs)
        return self.values.comparison(one.value, other.value, equal=0.7)

    def subquery(self, scope: Sequence[Typed], depth: int) -> Expr:
        negated = self.rng.random() < 0.5
        correlated = scope if self.rng.random() < 0.6 else ()
        if self.rng.random() < 0.5:
            query, _ = self.query([INT], depth - 1, correlated)
            return Exists(query, negated)
        kind = self.rng.choice([INT, INT, INT, rules.STR, DEC])
        query, _ = self.query([kind], depth - 1, correlated if self.rng.random() < 0.5 else ())
        return InQuery(self.values.value(kind, scope, 1), query, negated)

    def found(self, scope: Sequence[Typed], depth: int) -> Expr:
        """Whether a subquery finds something, as a number."""
        template = self.rng.choice(["CAST({0} AS INT)", "CASE WHEN {0} THEN 1 ELSE 0 END", "CAST((NOT {0}) AS INT)"])
        return Apply(template, (self.subquery(scope, depth),))

    def scalar(self, kind: str, depth: int, scope: Sequence[Typed]) -> Expr:
        """One row at most: an aggregate over everything that the outer row meets."""
        source, inner = self.source(depth - 1)
        outer = scope if self.rng.random() < 0.6 else ()
        item = Item(self.values.aggregate(kind, inner), self.fresh("c"))
        where = self.correlation(inner, outer) if outer else None
        if self.take("where", 0.5):
            where = self.together([each for each in (where, self.values.boolean(inner)) if each])
        return Scalar(Grouped((), (item,), source, where))

    # ------------------------------------------------------------------ FROM

    def source(self, depth: int) -> tuple[Source, list[Typed]]:
        source, scope = self.relation(depth)
        for _ in range(3):
            kind = self.join_kind()
            if kind is None:
                break
            source, scope = self.join(kind, source, scope, depth)
        if self.take("lateral", 0.7):
            kind = self.rng.choice([INT, INT, rules.STR])
            values = tuple(self.values.value(kind, scope, 1) for _ in range(self.rng.choice([1, 2, 2])))
            alias, column = self.fresh("e"), self.fresh("x")
            source = LateralView(source, values, alias, column, self.rng.random() < 0.2)
            scope = [*scope, Typed(Column(alias, column), kind), Typed(Column(alias, column), kind)]
        return source, scope

    def join_kind(self) -> str | None:
        if self.take("join", 0.8):
            return self.rng.choice(["JOIN", "JOIN", "JOIN", "CROSS JOIN"])
        if self.take("outer", 0.8):
            return self.rng.choice(["LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
        if self.take("semi", 0.8):
            return self.rng.choice(["LEFT SEMI JOIN", "LEFT ANTI JOIN"])
        return None

    def join(self, kind: str, left: Source, scope: list[Typed], depth: int) -> tuple[Source, list[Typed]]:
        right, added = self.relation(depth)
        if self.take("nested", 0.8):
            inner = self.rng.choice(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN"])
            right, added = self.join(inner, right, added, depth)
        both = [*scope, *added]
        after = scope if kind in ("LEFT SEMI JOIN", "LEFT ANTI JOIN") else both
        if kind == "CROSS JOIN":
            return Join(kind, left, right), after
        shared = _shared(scope, added)
        if shared and self.rng.random() < 0.2:
            using = tuple(self.rng.sample(sorted(shared), 1))
            merged = [Typed(Column("", name), shared[name]) for name in using]
            return Join(kind, left, right, using=using), [*merged, *after]
        return Join(kind, left, right, on=self.condition(scope, added)), after

    def condition(self, left: list[Typed], right: list[Typed]) -> Expr:
        pairs = self.pairs(left, right)
        whole = [each for each in pairs if each[0].kind == INT] or pairs
        if not whole:
            return Literal("true")
        one, other = self.rng.choice(whole)
        form = self.rng.random()
        if form < 0.2:
            return self.values.comparison(one.value, other.value, equal=0)
        made: Expr = Apply("({0} = {1})", (one.value, other.value))
        if form < 0.6:
            return made
        if form < 0.8:
            one, other = self.rng.choice(pairs)
            extra = self.values.comparison(one.value, other.value)
        else:
            extra = self.values.boolean(self.rng.choice([left, right, [*left, *right]]), 1)
        return Apply(self.rng.choice(["({0} AND {1})", "({0} AND {1})", "({0} OR {1})"]), (made, extra))

    def relation(self, depth: int) -> tuple[Source, list[Typed]]:
        alias = self.fresh("t")
        if self.ctes and self.rng.random() < 0.8:
            chosen = self.ctes.pop()
            self.ctes.insert(0, chosen)
            return _named(chosen, alias)
        if self.upstream and self.take("view"):
            return _named(self.rng.choice(self.upstream), alias)
        if depth > 0 and self.take("derived", 0.6):
            query, kinds = self.query(self.kinds(), depth - 1, ())
            columns = zip(query.columns(), kinds, strict=True)
            return Derived(query, alias), [Typed(Column(alias, name), kind) for name, kind in columns]
        return _named(self.rng.choice(self.relations), alias)


def _named(relation: Relation, alias: str) -> tuple[Source, list[Typed]]:
    return Table(relation.name, alias), [Typed(Column(alias, name), kind) for name, kind in relation.columns]


def _shared(left: list[Typed], right: list[Typed]) -> dict[str, str]:
    """Columns of one name and kind that stand once on each side, for USING."""

    def once(scope: list[Typed]) -> dict[str, str]:
        names = [each.value.name for each in scope if isinstance(each.value, Column)]
        return {
            each.value.name: each.kind
            for each in scope
            if isinstance(each.value, Column) and names.count(each.value.name) == 1
        }

    one, other = once(left), once(right)
    return {name: kind for name, kind in one.items() if other.get(name) == kind}


def _no_literal(value: Expr, scope: Sequence[Typed], rng: random.Random) -> Expr:
    """Grouping by a number would mean a position."""
    return rng.choice(scope).value if isinstance(value, Literal) else value


def renamed(query: Query, names: list[str]) -> Query:
    """The query with other names for its columns."""
    match query:
        case Select():
            return replace(query, items=_with_names(query.items, names))
        case Grouped():
            shown = sum(each.shown for each in query.keys)
            waiting = iter(names[:shown])
            keys = tuple(replace(each, name=next(waiting)) if each.shown else each for each in query.keys)
            changed = {old.name: new.name for old, new in zip(query.keys, keys, strict=True)}
            sets = tuple(tuple(changed[name] for name in names_) for names_ in query.sets)
            return replace(query, keys=keys, sets=sets, items=_with_names(query.items, names[shown:]))
        case SetOperation():
            return replace(query, left=renamed(query.left, names))
        case TopK():
            return replace(query, query=renamed(query.query, names))
        case Numbered():
            return replace(query, query=renamed(query.query, names[:-1]), name=names[-1])
        case With():
            return replace(query, body=renamed(query.body, names))
        case _:
            raise TypeError(query)


def _with_names(items: tuple[Item, ...], names: Sequence[str]) -> tuple[Any, ...]:
    return tuple(replace(item, name=name) for item, name in zip(items, names, strict=True))
