"""From a SELECT to a plan.

Subqueries in FROM and CTEs are inlined, so that every branch of UNION ALL becomes one normal form: a projection
of a selection of one join, of tables and of nodes for what is not linear. A derived column is replaced by its
expression wherever it is used, which is right because every expression that gets this far is deterministic. What a
view may not hold is refused here with its reason code and its place in the text; nothing is guessed and nothing is
dropped, except optimizer hints, which do not change the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from headwater.algebra.nodes import MatchKind, Nodes
from headwater.algebra.plan import Plan
from headwater.errors import SqlAnalysisError, UnsupportedSql
from headwater.sql.blocks import AggregateOn, Block, Finish, GeneratorOn, Leaf, OuterRef, TopOn, UnionOf
from headwater.sql.constructs import refuse
from headwater.sql.dialect import call, column, parse, position, to_text
from headwater.sql.expressions import Ctes, Expressions, Hole, conjuncts, is_generator
from headwater.sql.grouping import GroupBy, Grouping, distinct, has_aggregates, read_group_by
from headwater.sql.scope import Relation, Scope
from headwater.sql.subqueries import add_condition, add_match, attach_row, fill, outside
from headwater.sql.windows import add_windows, name_windows

_REFUSED_CLAUSES = {
    "sort": "ORDER_BY",
    "cluster": "ORDER_BY",
    "distribute": "ORDER_BY",
    "pivots": "PIVOT",
    "sample": "SAMPLE",
}
_SELECT_ALLOWED = {
    "expressions",
    "from_",
    "joins",
    "where",
    "with_",
    "hint",
    "kind",
    "group",
    "having",
    "distinct",
    "qualify",
    "order",
    "limit",
    "offset",
    "laterals",
}
_MATCHES = {
    ("LEFT", ""): MatchKind.LEFT,
    ("LEFT", "OUTER"): MatchKind.LEFT,
    ("RIGHT", ""): MatchKind.RIGHT,
    ("RIGHT", "OUTER"): MatchKind.RIGHT,
    ("FULL", ""): MatchKind.FULL,
    ("FULL", "OUTER"): MatchKind.FULL,
    ("", "SEMI"): MatchKind.SEMI,
    ("LEFT", "SEMI"): MatchKind.SEMI,
    ("", "ANTI"): MatchKind.ANTI,
    ("LEFT", "ANTI"): MatchKind.ANTI,
}


@dataclass(frozen=True, slots=True)
class Lowered:
    """``plan``'s attributes are the view's outputs in order; ``names`` what we take them to be called (None: unknown).

    ``nodes`` are the non-linear parts below the plan. ``mentioned`` gives for each table the columns that the text
    needs to be understood; the plan's scans may hold fewer, since a column that ``*`` brought into a subquery and
    nobody uses is not read.
    """

    plan: Plan
    nodes: Nodes
    names: tuple[str | None, ...]
    mentioned: Mapping[str, tuple[str, ...]]


def lower(text: str, tables: Mapping[str, tuple[str, ...]], *, functions: frozenset[str] | None) -> Lowered:
    """``tables`` maps each known name to its columns; ``functions`` are Spark's built-in ones (None: not checked)."""
    lowering = _Lowering(text, {name.lower(): (name, columns) for name, columns in tables.items()}, functions)
    block = lowering.query(parse(text), {})
    finish = Finish()
    plan = finish.plan(block)
    return Lowered(plan, finish.nodes, tuple(name for name, _ in block.columns), lowering.mentioned())


def require_tables_known(text: str, names: Iterable[str]) -> None:
    """Raise unless every table of a text is one of ``names`` or a CTE; Spark may know more tables than we do."""
    query, known = parse(text), list(names)
    ctes = {cte.alias.lower() for cte in query.find_all(exp.CTE)}
    for table in query.find_all(exp.Table):
        named = isinstance(table.this, exp.Identifier)
        if named and (table.args.get("db") or table.name.lower() not in {*ctes, *(name.lower() for name in known)}):
            raise _unknown(table, known, text)


def _unknown(node: exp.Table, known: Iterable[str], text: str) -> SqlAnalysisError:
    line, place = position(node, text) or (None, None)
    return SqlAnalysisError(
        f"Table {to_text(node)} is not tracked by this lake.",
        line=line,
        column=place,
        remedy=f"Track it first: lake.track({node.name!r}, <path>). Known: {', '.join(sorted(known)) or 'none'}.",
    )


class _Lowering:
    def __init__(
        self, text: str, tables: Mapping[str, tuple[str, tuple[str, ...]]], functions: frozenset[str] | None
    ) -> None:
        self.text = text
        self.tables = tables
        self.expressions = Expressions(text, functions)
        self.leaves: list[Leaf] = []
        self.aliases: set[str] = set()
        self.used_ctes: set[int] = set()
        self.numbered: dict[str, int] = {}

    def refuse(self, code: str, found: str, node: exp.Expr | None) -> UnsupportedSql:
        return refuse(code, found, node, self.text)

    # ------------------------------------------------------------------ queries

    def query(self, node: exp.Expr, ctes: Ctes, parent: Scope | None = None) -> Block:
        visible = self._with(node, ctes)
        block = self._body(node, visible, parent)
        for cte in node.args["with_"].expressions if node.args.get("with_") else []:
            if id(cte) not in self.used_ctes:
                visible[cte.alias.lower()]()  # its tables and columns are in the text, so the text needs them
        return block

    def _body(self, node: exp.Expr, ctes: Ctes, parent: Scope | None) -> Block:
        match node:
            case exp.Subquery():
                self._only(node, {"this", "alias", "with_", "order", "limit", "offset"})
                block = self.query(node.this, ctes, parent)
                return self._ordered(node, block, ctes)
            case exp.Select():
                return self._select(name_windows(node), ctes, parent)
            case exp.SetOperation():
                return self._ordered(node, self._set_operation(node, ctes), ctes)
            case exp.Values():
                raise self.refuse("INLINE_TABLE", "VALUES", node)
            case _:
                raise self.refuse("OTHER", type(node).__name__, node)

    def _with(self, node: exp.Expr, ctes: Ctes) -> Ctes:
        clause = node.args.get("with_")
        if clause is None:
            return ctes
        if clause.args.get("recursive"):
            raise self.refuse("RECURSIVE_CTE", "WITH RECURSIVE", clause)
        visible = dict(ctes)
        for cte in clause.expressions:
            # Each use is lowered anew: a CTE used twice is two sets of leaves, as in a self-join.
            outer = dict(visible)

            def define(cte: exp.CTE = cte, outer: Ctes = outer) -> Block:
                self.used_ctes.add(id(cte))
                return self._renamed(self.query(cte.this, outer), cte.args.get("alias"))

            visible[cte.alias.lower()] = define
        return visible

    def _set_operation(self, node: exp.SetOperation, ctes: Ctes) -> Block:
        self._only(node, {"this", "expression", "distinct", "by_name", "with_", "order", "limit", "offset"})
        if node.args.get("by_name"):
            raise self.refuse("UNION_BY_NAME", "BY NAME", node)
        if isinstance(node, exp.Union):
            block = self._union([self.query(each, ctes) for each in self._branches(node)])
            if node.args.get("distinct"):
                distinct(self.fresh_node("group"), block)
            return block
        return self._subtracted(node, self.query(node.this, ctes), self.query(node.expression, ctes))

    def _union(self, branches: list[Block]) -> Block:
        alias = self._fresh(f"union{self._number('union')}")
        names = [name for name, _ in branches[0].columns]
        attributes = tuple(f"{alias}.{index}" for index in range(len(names)))
        together = UnionOf(branches, attributes)
        return Block([together], [], [(name, column(a)) for name, a in zip(names, attributes, strict=True)])

    def _branches(self, node: exp.Expr) -> Iterator[exp.Expr]:
        """``a UNION ALL b UNION ALL c`` parses as a tree; its branches stand side by side in one union."""
        for side in (node.this, node.expression):
            nested = (
                isinstance(side, exp.Union)
                and side.args.get("distinct") == node.args.get("distinct")
                and not any(side.args.get(key) for key in ("by_name", "order", "limit", "offset", "with_"))
            )
            yield from self._branches(side) if nested else [side]

    def _subtracted(self, node: exp.SetOperation, left: Block, right: Block) -> Block:
        """INTERSECT and EXCEPT: how often each row stands on either side, and how often it is to stand."""
        names = [name for name, _ in left.columns]
        for number, side in enumerate((left, right)):
            side.columns.append((None, exp.Literal.number(number)))
        block = self._union([left, right])
        *columns, (_, which) = block.columns
        name = self.fresh_node("group")
        counted = AggregateOn(name, block.close(), [(f"{name}.k{i}", value) for i, (_, value) in enumerate(columns)])
        ours, theirs = column(f"{name}.v0"), column(f"{name}.v1")
        counted.values = [
            (attribute.name, call("count_if", exp.EQ(this=which.copy(), expression=exp.Literal.number(number))))
            for number, attribute in enumerate((ours, theirs))
        ]
        block.inputs = [counted]
        block.columns = [(title, column(key)) for title, (key, _) in zip(names, counted.keys, strict=True)]
        both = isinstance(node, exp.Intersect)
        if node.args.get("distinct"):
            block.conditions.append(exp.GT(this=ours, expression=exp.Literal.number(0)))
            kind = exp.GT if both else exp.EQ
            block.conditions.append(kind(this=theirs, expression=exp.Literal.number(0)))
            return block
        times = call("least", ours, theirs) if both else exp.Sub(this=ours, expression=theirs)
        copies = call("array_repeat", exp.Literal.number(0), exp.cast(call("greatest", times, _zero()), "INT"))
        self._generate(call("explode", copies), False, ["copy"], block)
        return block

    def _select(self, node: exp.Select, ctes: Ctes, parent: Scope | None) -> Block:
        for clause, code in _REFUSED_CLAUSES.items():
            if node.args.get(clause):
                found = node.args[clause]
                raise self.refuse(code, clause.upper(), found[0] if isinstance(found, list) else found)
        self._only(node, _SELECT_ALLOWED)
        if node.args.get("kind"):
            raise self.refuse("OTHER", f"SELECT AS {node.args['kind']}", node)
        source = node.args.get("from_")
        if source is None:
            raise self.refuse("NO_TABLE", "SELECT without FROM", node)
        scope, block = Scope(parent=parent), Block()
        self._from(source.this, scope, block, ctes)
        for join in node.args.get("joins") or []:
            self._join(join, scope, block, ctes)
        for lateral in node.args.get("laterals") or []:
            self._lateral_view(lateral, scope, block, ctes)
        where = node.args.get("where")
        if where is not None:
            conditions = [self.expressions.read(each, scope, {}, ctes) for each in conjuncts(where.this)]
            # A subquery puts the block under a node: the conditions that join its tables must be in it by then.
            for condition in sorted(conditions, key=lambda each: each.find(Hole) is not None):
                add_condition(self, condition, block, _same)
        self._project(node, scope, block, ctes)
        return block

    # ------------------------------------------------------------------ what is selected

    def _project(self, node: exp.Select, scope: Scope, block: Block, ctes: Ctes) -> None:
        items, aliases = self._items(node, scope, block, ctes)

        def read(part: exp.Expr) -> exp.Expr:
            return self.expressions.read(part, scope, aliases, ctes)

        having = [read(each) for each in conjuncts(node.args["having"].this)] if node.args.get("having") else []
        qualify = [read(each) for each in conjuncts(node.args["qualify"].this)] if node.args.get("qualify") else []
        order = self._order_items(node, items, read)
        values = [value for _, value in items]
        clause = node.args.get("group")
        above = _same
        if clause is not None or having or has_aggregates([*values, *order]):
            by = read_group_by(clause, items, read) if clause is not None else GroupBy(())
            if any(is_generator(part) for value in values for part in value.find_all(exp.Anonymous)):
                raise self.refuse("GENERATOR", "a generator beside GROUP BY", node)
            grouping = Grouping(self.fresh_node("group"), block, by, self.expressions)
            above = grouping.above
            for condition in sorted(having, key=lambda each: each.find(Hole) is not None):
                add_condition(self, condition, block, above)
            if grouping.split_by_correlation:
                if having:
                    raise self.refuse("CORRELATION", "HAVING in a correlated subquery without GROUP BY", node)
                block.when_empty = grouping.when_empty([(None, above(value)) for value in values])
        filled = [fill(self, value, block, above) for value in (*values, *qualify, *order)]
        if any(each.find(exp.Window) for each in filled):
            filled = add_windows(self, filled, block)
        values = filled[: len(items)]
        block.conditions.extend(filled[len(items) : len(items) + len(qualify)])
        block.columns = [(name, value) for (name, _), value in zip(items, values, strict=True)]
        if node.args.get("distinct"):
            self._distinct(node, block)
        if node.args.get("limit") or node.args.get("offset") or order:
            positions = [self._position(value, values) for value in filled[len(items) + len(qualify) :]]
            self._top(node, block, filled[len(items) + len(qualify) :], positions)

    def _distinct(self, node: exp.Select, block: Block) -> None:
        if node.args["distinct"].args.get("on"):
            raise self.refuse("OTHER", "DISTINCT ON", node)
        distinct(self.fresh_node("group"), block)

    def _items(
        self, node: exp.Select, scope: Scope, block: Block, ctes: Ctes
    ) -> tuple[list[tuple[str | None, exp.Expr]], dict[str, exp.Expr]]:
        items: list[tuple[str | None, exp.Expr]] = []
        aliases: dict[str, exp.Expr] = {}
        for item in node.expressions:
            if isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star)):
                items.extend(self._star(item, scope))
                continue
            inner = item.this if isinstance(item, exp.Alias | exp.Aliases) else item
            if is_generator(inner) or isinstance(item, exp.Aliases):
                items.extend(self._generated(item, inner, scope, block, ctes))
                continue
            value = self.expressions.read(inner, scope, aliases, ctes)
            items.append((item.alias if isinstance(item, exp.Alias) else _implied_name(inner), value))
            if isinstance(item, exp.Alias):
                aliases.setdefault(item.alias.lower(), value)
        return items, aliases

    def _star(self, item: exp.Expr, scope: Scope) -> list[tuple[str | None, exp.Expr]]:
        star = item if isinstance(item, exp.Star) else item.this
        if star.args.get("replace") or star.args.get("rename"):
            raise self.refuse("STAR_REPLACE", to_text(item), item)
        parts = [part.name for part in item.parts[:-1]] if isinstance(item, exp.Column) else []
        found = scope.star(parts[0] if parts else None) if len(parts) < 2 else None
        if found is None:
            raise self.refuse("STRUCT_STAR", to_text(item), item)
        excluded = set()
        for left_out in star.args.get("except_") or []:
            if len(getattr(left_out, "parts", [left_out])) > 1:
                raise self.refuse("STAR_REPLACE", to_text(item), item)
            excluded.add(left_out.name.lower())
        return [(name, value) for name, value in found if name is None or name.lower() not in excluded]

    def _generated(
        self, item: exp.Expr, call: exp.Expr, scope: Scope, block: Block, ctes: Ctes
    ) -> list[tuple[str | None, exp.Expr]]:
        """explode(...) in the select list: LATERAL VIEW by another name."""
        if isinstance(item, exp.Aliases):
            names = [each.name for each in item.expressions]
        elif isinstance(item, exp.Alias):
            names = [item.alias]
        else:
            raise self.refuse("GENERATOR", f"{to_text(call)} without a name for its columns", item)
        generator = self.expressions.read(call, scope, {}, ctes)
        outputs = self._generate(generator, False, names, block)
        return list(zip(names, outputs, strict=True))

    def _generate(self, generator: exp.Expr, outer: bool, names: Sequence[str], block: Block) -> list[exp.Expr]:
        alias = self._fresh(f"generator{self._number('generator')}")
        outputs = tuple(f"{alias}.{name}" for name in names)
        block.inputs = [GeneratorOn(block.close(), generator, outer, outputs)]
        return [column(name) for name in outputs]

    def _lateral_view(self, lateral: exp.Lateral, scope: Scope, block: Block, ctes: Ctes) -> None:
        alias = lateral.args.get("alias")
        if alias is None:
            raise self.refuse("LATERAL", f"{to_text(lateral)} without names for its columns", lateral)
        names = [each.name for each in alias.args.get("columns") or []]
        if not lateral.args.get("view") or not is_generator(lateral.this) or not names:
            raise self.refuse("LATERAL", to_text(lateral), lateral)
        generator = self.expressions.read(lateral.this, scope, {}, ctes)
        values = self._generate(generator, bool(lateral.args.get("outer")), names, block)
        scope.relations.append(Relation(alias.name or None, tuple(names), lambda index: values[index].copy()))

    # ------------------------------------------------------------------ ORDER BY and LIMIT

    def _order_items(
        self, node: exp.Expr, items: Sequence[tuple[str | None, exp.Expr]], read: Callable[[exp.Expr], exp.Expr]
    ) -> list[exp.Expr]:
        """ORDER BY keys: a number or a name of the select list goes before a column of the tables."""
        clause = node.args.get("order")
        found: list[exp.Expr] = []
        for each in clause.expressions if clause is not None else []:
            key = each.this
            if isinstance(key, exp.Literal) and not key.is_string and key.name.isdigit():
                found.append(items[int(key.name) - 1][1].copy())
                continue
            named = [
                v for n, v in items if n is not None and isinstance(key, exp.Column) and n.lower() == key.name.lower()
            ]
            plain = isinstance(key, exp.Column) and not key.args.get("table")
            found.append(named[0].copy() if named and plain else read(key))
        return found

    def _position(self, value: exp.Expr, values: Sequence[exp.Expr]) -> int | None:
        return next((place for place, each in enumerate(values) if each == value), None)

    def _ordered(self, node: exp.Expr, block: Block, ctes: Ctes) -> Block:
        """ORDER BY and LIMIT after a query in parentheses or a set operation: over its columns."""
        if not any(node.args.get(key) for key in ("order", "limit", "offset")):
            return block
        values = [value for _, value in block.columns]
        scope = Scope([Relation(None, tuple(name for name, _ in block.columns), lambda index: values[index].copy())])
        order = self._order_items(node, block.columns, lambda part: self.expressions.read(part, scope, {}, ctes))
        self._top(node, block, order, [self._position(value, values) for value in order])
        return block

    def _top(self, node: exp.Expr, block: Block, order: Sequence[exp.Expr], positions: Sequence[int | None]) -> None:
        clause = node.args.get("order")
        limit, offset = node.args.get("limit"), node.args.get("offset")
        if limit is None and offset is None:
            raise self.refuse("ORDER_BY", "ORDER BY without LIMIT", clause)
        if clause is None:
            raise self.refuse("LIMIT", "LIMIT without ORDER BY", limit or offset)
        name = self.fresh_node("top")
        outputs = [(f"{name}.{index}", value) for index, (_, value) in enumerate(block.columns)]
        computed: list[tuple[str, exp.Expr]] = []
        keys: list[exp.Expr] = []
        for each, value, place in zip(clause.expressions, order, positions, strict=True):
            key = f"{name}.{place}" if place is not None else f"{name}.o{len(computed)}"
            if place is None:
                if node.args.get("distinct"):
                    raise self.refuse("ORDER_BY", "ORDER BY of what DISTINCT does not select", each)
                computed.append((key, value))
            keys.append(exp.Ordered(**{**each.copy().args, "this": column(key)}))
        floating = block.split()
        if floating:
            raise self.refuse("CORRELATION", "LIMIT in a correlated subquery", floating[0])
        top = TopOn(name, block.close(), outputs, computed, keys, self._whole(limit, 2**31 - 1), self._whole(offset, 0))
        block.inputs = [top]
        block.columns = [(title, column(key)) for (title, _), (key, _) in zip(block.columns, outputs, strict=True)]

    def _whole(self, clause: exp.Expr | None, default: int) -> int:
        if clause is None:
            return default
        number = clause.expression
        if isinstance(clause, exp.Fetch) or not isinstance(number, exp.Literal) or not number.name.isdigit():
            raise self.refuse("LIMIT", to_text(clause).strip(), clause)
        return int(number.name)

    # ------------------------------------------------------------------ FROM

    def _from(self, node: exp.Expr, scope: Scope, block: Block, ctes: Ctes) -> None:
        if isinstance(node, exp.Table):
            self._only(node, {"this", "alias", "joins", "db", "catalog"})
            if not isinstance(node.this, exp.Identifier):
                raise self.refuse("TABLE_FUNCTION", to_text(node), node)
            self._table(node, scope, block, ctes)
        elif isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table):
            if node.args.get("alias"):
                raise self.refuse("OTHER", "an alias for a join in parentheses", node)
            self._from(node.this, scope, block, ctes)
        elif isinstance(node, exp.Subquery):
            self._only(node, {"this", "alias", "with_", "joins", "order", "limit", "offset"})
            inner = self._renamed(self.query(node, ctes), node.args.get("alias"))
            self._derived(inner, node.alias or None, scope, block)
        elif isinstance(node, exp.Lateral):
            self._lateral(node, scope, block, ctes)
        elif isinstance(node, exp.Values):
            raise self.refuse("INLINE_TABLE", "VALUES", node)
        else:
            raise self.refuse("OTHER", type(node).__name__, node)
        for join in node.args.get("joins") or []:
            self._join(join, scope, block, ctes)

    def _table(self, node: exp.Table, scope: Scope, block: Block, ctes: Ctes) -> None:
        name = node.name
        qualified = node.args.get("db") is not None
        if not qualified and name.lower() in ctes:
            inner = self._renamed(ctes[name.lower()](), node.args.get("alias"))
            self._derived(inner, node.alias or name, scope, block)
            return
        if qualified or name.lower() not in self.tables:
            raise _unknown(node, [known for known, _ in self.tables.values()], self.text)
        table, columns = self.tables[name.lower()]
        leaf = Leaf(table, columns, self._fresh(node.alias or name))
        self.leaves.append(leaf)
        block.inputs.append(leaf)
        visible = self._column_names(node.args.get("alias"), columns)
        if visible is not columns:  # t AS x(a, b): the text holds only while the table has as many columns
            leaf.mentioned.update(range(len(columns)))
        scope.relations.append(Relation(node.alias or name, visible, leaf.value))

    def _derived(self, inner: Block, alias: str | None, scope: Scope, block: Block) -> None:
        block.inputs.extend(inner.inputs)
        block.conditions.extend(inner.conditions)
        values = [value for _, value in inner.columns]
        scope.relations.append(
            Relation(alias, tuple(name for name, _ in inner.columns), lambda index: values[index].copy())
        )

    def _lateral(self, node: exp.Lateral, scope: Scope, block: Block, ctes: Ctes) -> None:
        """LATERAL (SELECT ...): a subquery that may mention what stands before it."""
        if not isinstance(node.this, exp.Subquery):
            raise self.refuse("LATERAL", to_text(node), node)
        inner = self._renamed(self.query(node.this, ctes, scope), node.args.get("alias"))
        if inner.when_empty is None:
            inner.conditions = [outside(each, _same) for each in inner.conditions]
            values = [outside(value, _same) for _, value in inner.columns]
            block.inputs.extend(inner.inputs)
            block.conditions.extend(inner.conditions)
        else:
            values = attach_row(self, inner, block, _same, drops_null=False)
        scope.relations.append(
            Relation(node.alias or None, tuple(name for name, _ in inner.columns), lambda index: values[index].copy())
        )

    def _join(self, join: exp.Join, scope: Scope, block: Block, ctes: Ctes) -> None:
        side, kind, method = (str(join.args.get(key) or "").upper() for key in ("side", "kind", "method"))
        matched = _MATCHES.get((side, kind))
        if (matched is None and (side or kind not in ("", "INNER", "CROSS"))) or method not in ("", "NATURAL"):
            raise self.refuse("OTHER", " ".join(filter(None, (method, side, kind, "JOIN"))), join)
        self._only(join, {"this", "side", "kind", "method", "on", "using"})
        if matched is None:
            before = len(scope.relations)
            self._from(join.this, scope, block, ctes)
            left = Scope(scope.relations[:before], scope.merged)
            right = Scope(scope.relations[before:])
            block.conditions.extend(self._merged(join, scope, left, right, None))
            for condition in self._on(join, scope, ctes):
                add_condition(self, condition, block, _same)
            return
        if isinstance(join.this, exp.Lateral):
            raise self.refuse("LATERAL", f"{side} JOIN LATERAL", join)
        right, right_block = Scope(parent=scope.parent), Block()
        self._from(join.this, right, right_block, ctes)
        if right_block.split():
            raise self.refuse("CORRELATION", "an outer column below an outer join", join)
        left = Scope(list(scope.relations), scope.merged, scope.parent)
        scope.relations.extend(right.relations)
        conditions = self._merged(join, scope, left, right, matched)
        conditions += [fill(self, each, Block(), _same) for each in self._on(join, scope, ctes)]
        if any(each.find(OuterRef) for each in conditions):
            raise self.refuse("CORRELATION", "an outer column in the condition of an outer join", join)
        self._matched(matched, scope, left, right, block, right_block, conditions)

    def _matched(
        self,
        kind: MatchKind,
        scope: Scope,
        left: Scope,
        right: Scope,
        block: Block,
        right_block: Block,
        conditions: list[exp.Expr],
    ) -> None:
        """Put an outer, semi or anti join on the block, and read the names of its sides through it."""
        floating = block.split()
        match = add_match(self, kind, block, right_block, conditions)
        block.conditions.extend(floating)
        if kind in (MatchKind.SEMI, MatchKind.ANTI):
            scope.relations, scope.merged = left.relations, left.merged
            return
        through = []
        for side, relations in enumerate((left.relations, right.relations)):
            may_be_null = kind is MatchKind.FULL or (kind is MatchKind.LEFT) == (side == 1)
            for each in relations:
                if not may_be_null:
                    through.append(each)
                    continue

                def value(index: int, each: Relation = each, side: int = side) -> exp.Expr:
                    return match.bind(side, each.value(index))

                through.append(Relation(each.alias, each.columns, value))
        scope.relations = through
        if kind is not MatchKind.LEFT:
            own = left.merged
            scope.merged = {
                name: match.bind(0, value) if own.get(name) is value and not isinstance(value, exp.Column) else value
                for name, value in scope.merged.items()
            }

    def _on(self, join: exp.Join, scope: Scope, ctes: Ctes) -> list[exp.Expr]:
        on = join.args.get("on")
        if on is None or (isinstance(on, exp.Boolean) and on.this):
            return []
        return [self.expressions.read(each, scope, {}, ctes) for each in conjuncts(on)]

    def _merged(
        self, join: exp.Join, scope: Scope, left: Scope, right: Scope, kind: MatchKind | None
    ) -> list[exp.Expr]:
        """The conditions of USING or NATURAL; their columns are merged in the scope."""
        using = [name.name for name in join.args.get("using") or []]
        if str(join.args.get("method") or "").upper() == "NATURAL":
            theirs = {name.lower() for name in right.names()}
            using = [name for name in left.names() if name.lower() in theirs]
            for relation in (*left.relations, *right.relations):  # every name decides what is joined
                for index in range(len(relation.columns)):
                    relation.value(index)
        merged: dict[str, exp.Expr] = {}
        conditions: list[exp.Expr] = []
        for name in using:
            ours, other = left.resolve([name]), right.resolve([name])
            if ours is None or other is None:
                raise SqlAnalysisError(f"USING column {name} is missing on one side of the join.")
            conditions.append(exp.EQ(this=ours[0].copy(), expression=other[0].copy()))
            match kind:
                case MatchKind.FULL:
                    merged[name.lower()] = call("coalesce", ours[0].copy(), other[0].copy())
                case MatchKind.RIGHT:
                    merged[name.lower()] = other[0].copy()
                case _:
                    merged[name.lower()] = ours[0].copy()
        # Spark's order: the columns of the latest join come first.
        scope.merged = {**merged, **{name: value for name, value in scope.merged.items() if name not in merged}}
        return conditions

    def _renamed(self, block: Block, alias: exp.TableAlias | None) -> Block:
        names = self._column_names(alias, tuple(name for name, _ in block.columns))
        block.columns = [(n, v) for n, (_, v) in zip(names, block.columns, strict=True)]
        return block

    def _column_names(self, alias: exp.TableAlias | None, columns: tuple[str | None, ...]) -> tuple[str | None, ...]:
        given = tuple(name.name for name in alias.args.get("columns") or []) if alias is not None else ()
        return given or columns

    # ------------------------------------------------------------------ names

    def _only(self, node: exp.Expr, allowed: set[str]) -> None:
        """Refuse a clause that is not listed: what is not understood is never ignored."""
        for key, value in node.args.items():
            if value and key not in allowed:
                code = {
                    "sample": "SAMPLE",
                    "version": "TIME_TRAVEL",
                    "when": "TIME_TRAVEL",
                    "pivots": "PIVOT",
                    "laterals": "LATERAL",
                    "order": "ORDER_BY",
                    "limit": "LIMIT",
                    "offset": "LIMIT",
                    "fetch": "LIMIT",
                }.get(key, "OTHER")
                first = value[0] if isinstance(value, list) else value
                place = first if isinstance(first, exp.Expr) else node
                raise self.refuse(code, key.rstrip("_").upper(), place)

    def fresh_node(self, kind: str) -> str:
        """A name that no table can have."""
        return f"{kind}#{self._number(kind)}"

    def _number(self, kind: str) -> int:
        self.numbered[kind] = self.numbered.get(kind, 0) + 1
        return self.numbered[kind]

    def _fresh(self, wanted: str) -> str:
        wanted = wanted.replace(".", "_")  # so that alias.column is never two columns
        alias, number = wanted, 1
        while alias.lower() in self.aliases:
            number += 1
            alias = f"{wanted}#{number}"
        self.aliases.add(alias.lower())
        return alias

    def mentioned(self) -> dict[str, tuple[str, ...]]:
        found: dict[str, set[int]] = {}
        for leaf in self.leaves:
            found.setdefault(leaf.table, set()).update(leaf.mentioned)
        columns = {leaf.table: leaf.columns for leaf in self.leaves}
        return {table: tuple(columns[table][index] for index in sorted(used)) for table, used in found.items()}


def _same(value: exp.Expr) -> exp.Expr:
    return value


def _implied_name(node: exp.Expr) -> str | None:
    match node:
        case exp.Column():
            return node.name
        case exp.Dot(expression=exp.Identifier()):
            return str(node.expression.name)
        case exp.Paren():
            return _implied_name(node.this)
        case _:
            return None


def _zero() -> exp.Expr:
    return exp.Literal.number(0)
