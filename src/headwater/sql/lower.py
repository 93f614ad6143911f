"""From a SELECT to a plan.

Subqueries in FROM and CTEs are inlined, so that every branch of UNION ALL becomes one normal form: a projection
of a selection of one join of scans. A derived column is replaced by its expression wherever it is used,
which is right because every expression that gets this far is deterministic. What a view may not hold is refused
here with its reason code and its place in the text; nothing is guessed and nothing is dropped, except ORDER-free
optimizer hints, which do not change the answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from headwater.algebra.plan import Filter, Join, LeafId, Plan, Project, Scan, Union, validate
from headwater.errors import SqlAnalysisError
from headwater.sql import constructs
from headwater.sql.constructs import refuse
from headwater.sql.dialect import TypedLiteral, column, parse, position, quoted, to_text
from headwater.sql.scope import Relation, Scope

_SELECT_CLAUSES = {
    "group": "AGGREGATE",
    "having": "AGGREGATE",
    "distinct": "DISTINCT",
    "windows": "WINDOW",
    "qualify": "WINDOW",
    "order": "ORDER_BY",
    "sort": "ORDER_BY",
    "cluster": "ORDER_BY",
    "distribute": "ORDER_BY",
    "limit": "LIMIT",
    "offset": "LIMIT",
    "fetch": "LIMIT",
    "laterals": "LATERAL",
    "pivots": "PIVOT",
    "sample": "SAMPLE",
}
_SELECT_ALLOWED = {"expressions", "from_", "joins", "where", "with_", "hint", "kind"}
# With three arguments the first is a unit such as DAY, which reads like a column.
_UNIT_FIRST = frozenset({"dateadd", "date_add", "datediff", "date_diff", "timestampadd", "timestampdiff"})
# DATE'today' reads the clock when the text is analysed.
_CLOCK_WORD = re.compile(r"\s*(now|today|tomorrow|yesterday)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Lowered:
    """``plan``'s attributes are the view's outputs in order; ``names`` what we take them to be called (None: unknown).

    ``mentioned`` gives for each base table the columns that the text needs to be understood; the plan's scans may hold
    fewer, since a column that ``*`` brought into a subquery and nobody uses is not read.
    """

    plan: Plan
    names: tuple[str | None, ...]
    mentioned: Mapping[str, tuple[str, ...]]


@dataclass(slots=True)
class _Block:
    """A select-project-join under construction: the join's inputs, its conditions, and the named outputs."""

    inputs: list[_Leaf | _Union]
    conditions: list[exp.Expr]
    columns: list[tuple[str | None, exp.Expr]]


@dataclass(slots=True, eq=False)
class _Leaf:
    """A base table in FROM; its scan is made at the end, when the columns in use are known."""

    table: str
    columns: tuple[str, ...]
    alias: str
    mentioned: set[int] = field(default_factory=set)

    def attribute(self, index: int) -> str:
        return f"{self.alias}.{self.columns[index]}"

    def value(self, index: int) -> exp.Expr:
        self.mentioned.add(index)
        return column(self.attribute(index))


@dataclass(slots=True, eq=False)
class _Union:
    branches: list[_Block]
    attributes: tuple[str, ...]


def lower(
    text: str, tables: Mapping[str, tuple[str, ...]], *, views: frozenset[str], functions: frozenset[str] | None
) -> Lowered:
    """``tables`` maps each tracked name to its columns; ``functions`` are Spark's built-in ones (None: not checked)."""
    lowering = _Lowering(text, {name.lower(): (name, columns) for name, columns in tables.items()}, views, functions)
    block = lowering.query(parse(text), {})
    plan = lowering.finish(block)
    validate(plan)
    return Lowered(plan, tuple(name for name, _ in block.columns), lowering.mentioned())


class _Lowering:
    def __init__(
        self,
        text: str,
        tables: Mapping[str, tuple[str, tuple[str, ...]]],
        views: frozenset[str],
        functions: frozenset[str] | None,
    ) -> None:
        self.text = text
        self.tables = tables
        self.views = views
        self.functions = functions
        self.leaves: list[_Leaf] = []
        self.aliases: set[str] = set()
        self.used_ctes: set[int] = set()
        self.unions = 0

    # ------------------------------------------------------------------ queries

    def query(self, node: exp.Expr, ctes: Mapping[str, Callable[[], _Block]]) -> _Block:
        visible = self._with(node, ctes)
        block = self._body(node, visible)
        for cte in node.args["with_"].expressions if node.args.get("with_") else []:
            if id(cte) not in self.used_ctes:
                visible[cte.alias.lower()]()  # its tables and columns are in the text, so the text needs them
        return block

    def _body(self, node: exp.Expr, ctes: Mapping[str, Callable[[], _Block]]) -> _Block:
        match node:
            case exp.Subquery():
                self._only(node, {"this", "alias", "with_"})
                return self.query(node.this, ctes)
            case exp.Select():
                return self._select(node, ctes)
            case exp.Union():
                return self._union(node, ctes)
            case exp.SetOperation():
                raise refuse("SET_OPERATION", type(node).__name__.upper(), node, self.text)
            case exp.Values():
                raise refuse("INLINE_TABLE", "VALUES", node, self.text)
            case _:
                raise refuse("OTHER", type(node).__name__, node, self.text)

    def _with(self, node: exp.Expr, ctes: Mapping[str, Callable[[], _Block]]) -> Mapping[str, Callable[[], _Block]]:
        clause = node.args.get("with_")
        if clause is None:
            return ctes
        if clause.args.get("recursive"):
            raise refuse("RECURSIVE_CTE", "WITH RECURSIVE", clause, self.text)
        visible = dict(ctes)
        for cte in clause.expressions:
            # Each use is lowered anew: a CTE used twice is two sets of leaves, as in a self-join.
            outer = dict(visible)

            def define(cte: exp.CTE = cte, outer: Mapping[str, Callable[[], _Block]] = outer) -> _Block:
                self.used_ctes.add(id(cte))
                return self._renamed(self.query(cte.this, outer), cte.args.get("alias"))

            visible[cte.alias.lower()] = define
        return visible

    def _union(self, node: exp.Union, ctes: Mapping[str, Callable[[], _Block]]) -> _Block:
        self._only(node, {"this", "expression", "distinct", "by_name", "with_"})
        if node.args.get("distinct"):
            raise refuse("SET_OPERATION", "UNION without ALL", node, self.text)
        if node.args.get("by_name"):
            raise refuse("UNION_BY_NAME", "UNION ALL BY NAME", node, self.text)
        branches = [self.query(branch, ctes) for branch in self._branches(node, ctes)]
        self.unions += 1
        alias = self._fresh(f"union{self.unions}")
        names = [name for name, _ in branches[0].columns]
        attributes = tuple(f"{alias}.{index}" for index in range(len(names)))
        union = _Union(branches, attributes)
        return _Block([union], [], [(name, column(a)) for name, a in zip(names, attributes, strict=True)])

    def _branches(self, node: exp.Expr, ctes: Mapping[str, Callable[[], _Block]]) -> Iterator[exp.Expr]:
        """``a UNION ALL b UNION ALL c`` parses as a tree; its branches stand side by side in one union."""
        if isinstance(node, exp.Union) and not node.args.get("distinct") and not node.args.get("by_name"):
            left, right = node.this, node.expression
            yield from self._branches(left, ctes) if not left.args.get("with_") else [left]
            yield from self._branches(right, ctes) if not right.args.get("with_") else [right]
        else:
            yield node

    def _select(self, node: exp.Select, ctes: Mapping[str, Callable[[], _Block]]) -> _Block:
        for clause, code in _SELECT_CLAUSES.items():
            if node.args.get(clause):
                found = node.args[clause]
                raise refuse(code, clause.upper(), found[0] if isinstance(found, list) else found, self.text)
        self._only(node, _SELECT_ALLOWED)
        if node.args.get("kind"):
            raise refuse("OTHER", f"SELECT AS {node.args['kind']}", node, self.text)
        source = node.args.get("from_")
        if source is None:
            raise refuse("NO_TABLE", "SELECT without FROM", node, self.text)
        scope = Scope()
        block = _Block([], [], [])
        self._from(source.this, scope, block, ctes)
        for join in node.args.get("joins") or []:
            self._join(join, scope, block, ctes)
        where = node.args.get("where")
        if where is not None:
            block.conditions.extend(self._conjuncts(self._scalar(where.this, scope, {})))
        self._select_list(node, scope, block)
        return block

    # ------------------------------------------------------------------ FROM

    def _from(self, node: exp.Expr, scope: Scope, block: _Block, ctes: Mapping[str, Callable[[], _Block]]) -> None:
        if isinstance(node, exp.Table):
            self._only(node, {"this", "alias", "joins", "db", "catalog"})
            if not isinstance(node.this, exp.Identifier):
                raise refuse("TABLE_FUNCTION", to_text(node), node, self.text)
            self._table(node, scope, block, ctes)
        elif isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table):
            if node.args.get("alias"):
                raise refuse("OTHER", "an alias for a join in parentheses", node, self.text)
            self._from(node.this, scope, block, ctes)
        elif isinstance(node, exp.Subquery):
            self._only(node, {"this", "alias", "with_", "joins"})
            inner = self._renamed(self.query(node, ctes), node.args.get("alias"))
            self._derived(inner, node.alias or None, scope, block)
        elif isinstance(node, exp.Lateral):
            raise refuse("LATERAL", "LATERAL", node, self.text)
        elif isinstance(node, exp.Values):
            raise refuse("INLINE_TABLE", "VALUES", node, self.text)
        else:
            raise refuse("OTHER", type(node).__name__, node, self.text)
        for join in node.args.get("joins") or []:
            self._join(join, scope, block, ctes)

    def _table(self, node: exp.Table, scope: Scope, block: _Block, ctes: Mapping[str, Callable[[], _Block]]) -> None:
        name = node.name
        qualified = node.args.get("db") is not None
        if not qualified and name.lower() in ctes:
            inner = self._renamed(ctes[name.lower()](), node.args.get("alias"))
            self._derived(inner, node.alias or name, scope, block)
            return
        if not qualified and name.lower() in self.views:
            raise refuse("VIEW_ON_VIEW", name, node, self.text)
        if qualified or name.lower() not in self.tables:
            line, place = position(node, self.text) or (None, None)
            raise SqlAnalysisError(
                f"Table {to_text(node)} is not tracked by this lake.",
                line=line,
                column=place,
                remedy=f"Track it first: lake.track({name!r}, <path>). Tracked: "
                + (", ".join(sorted(known for known, _ in self.tables.values())) or "none")
                + ".",
            )
        table, columns = self.tables[name.lower()]
        leaf = _Leaf(table, columns, self._fresh(node.alias or name))
        self.leaves.append(leaf)
        block.inputs.append(leaf)
        visible = self._column_names(node.args.get("alias"), columns)
        if visible is not columns:  # t AS x(a, b): the text holds only while the table has as many columns
            leaf.mentioned.update(range(len(columns)))
        scope.relations.append(Relation(node.alias or name, visible, leaf.value))

    def _derived(self, inner: _Block, alias: str | None, scope: Scope, block: _Block) -> None:
        block.inputs.extend(inner.inputs)
        block.conditions.extend(inner.conditions)
        values = [value for _, value in inner.columns]
        scope.relations.append(
            Relation(alias, tuple(name for name, _ in inner.columns), lambda index: values[index].copy())
        )

    def _join(self, join: exp.Join, scope: Scope, block: _Block, ctes: Mapping[str, Callable[[], _Block]]) -> None:
        side, kind, method = (str(join.args.get(key) or "").upper() for key in ("side", "kind", "method"))
        if kind in ("SEMI", "ANTI"):
            raise refuse(f"{kind}_JOIN", f"{side} {kind} JOIN".strip(), join, self.text)
        if side or kind == "OUTER":
            raise refuse("OUTER_JOIN", f"{side} {kind} JOIN".replace("  ", " ").strip(), join, self.text)
        if kind not in ("", "INNER", "CROSS") or method not in ("", "NATURAL"):
            raise refuse("OTHER", f"{method} {kind} JOIN".strip(), join, self.text)
        self._only(join, {"this", "side", "kind", "method", "on", "using"})
        before = len(scope.relations)
        self._from(join.this, scope, block, ctes)
        left, right = scope.relations[:before], scope.relations[before:]
        using = [name.name for name in join.args.get("using") or []]
        if method == "NATURAL":
            theirs = {name.lower() for name in Scope(right).names()}
            using = [name for name in Scope(left, scope.merged).names() if name.lower() in theirs]
            for relation in (*left, *right):  # every name decides what is joined
                for index in range(len(relation.columns)):
                    relation.value(index)
        merged = [self._merge(name, Scope(left, scope.merged), Scope(right), block) for name in using]
        # Spark's order: the columns of the latest join come first.
        scope.merged = {**dict(merged), **{name: v for name, v in scope.merged.items() if name not in dict(merged)}}
        on = join.args.get("on")
        if on is not None and not (isinstance(on, exp.Boolean) and on.this):
            block.conditions.extend(self._conjuncts(self._scalar(on, scope, {})))

    def _merge(self, name: str, left: Scope, right: Scope, block: _Block) -> tuple[str, exp.Expr]:
        ours, theirs = left.resolve([name]), right.resolve([name])
        if ours is None or theirs is None:
            raise SqlAnalysisError(f"USING column {name} is missing on one side of the join.")
        block.conditions.append(exp.EQ(this=ours[0], expression=theirs[0]))
        return name.lower(), ours[0].copy()

    def _renamed(self, block: _Block, alias: exp.TableAlias | None) -> _Block:
        names = self._column_names(alias, tuple(name for name, _ in block.columns))
        return _Block(block.inputs, block.conditions, [(n, v) for n, (_, v) in zip(names, block.columns, strict=True)])

    def _column_names(self, alias: exp.TableAlias | None, columns: tuple[str | None, ...]) -> tuple[str | None, ...]:
        given = tuple(name.name for name in alias.args.get("columns") or []) if alias is not None else ()
        return given or columns

    # ------------------------------------------------------------------ SELECT list and expressions

    def _select_list(self, node: exp.Select, scope: Scope, block: _Block) -> None:
        aliases: dict[str, exp.Expr] = {}
        for item in node.expressions:
            if isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star)):
                block.columns.extend(self._star(item, scope))
                continue
            if isinstance(item, exp.Aliases):
                raise refuse("GENERATOR", to_text(item), item, self.text)
            inner = item.this if isinstance(item, exp.Alias) else item
            value = self._scalar(inner, scope, aliases)
            name = item.alias if isinstance(item, exp.Alias) else self._implied_name(inner)
            block.columns.append((name, value))
            if isinstance(item, exp.Alias):
                aliases.setdefault(item.alias.lower(), value)

    def _star(self, item: exp.Expr, scope: Scope) -> list[tuple[str | None, exp.Expr]]:
        star = item if isinstance(item, exp.Star) else item.this
        if star.args.get("replace") or star.args.get("rename"):
            raise refuse("STAR_REPLACE", to_text(item), item, self.text)
        parts = [part.name for part in item.parts[:-1]] if isinstance(item, exp.Column) else []
        found = scope.star(parts[0] if parts else None) if len(parts) < 2 else None
        if found is None:
            raise refuse("STRUCT_STAR", to_text(item), item, self.text)
        excluded = set()
        for left_out in star.args.get("except_") or []:
            if len(getattr(left_out, "parts", [left_out])) > 1:
                raise refuse("STAR_REPLACE", to_text(item), item, self.text)
            excluded.add(left_out.name.lower())
        return [(name, value) for name, value in found if name is None or name.lower() not in excluded]

    def _implied_name(self, node: exp.Expr) -> str | None:
        match node:
            case exp.Column():
                return node.name
            case exp.Dot(expression=exp.Identifier()):
                return str(node.expression.name)
            case exp.Paren():
                return self._implied_name(node.this)
            case _:
                return None

    def _scalar(self, node: exp.Expr, scope: Scope, aliases: Mapping[str, exp.Expr]) -> exp.Expr:
        """A copy of an expression with every column replaced by what it stands for."""
        for part in node.walk():
            self._check(part)

        def replace(part: exp.Expr) -> exp.Expr:
            if isinstance(part, exp.Column) and not _is_unit(part):
                return self._column(part, scope, aliases)
            return part

        # The root of a copy may itself be replaced, so it hangs under a node of its own.
        held = exp.Paren(this=node.copy())
        _name_fields(held)
        replaced: exp.Expr = held.transform(replace).this
        return replaced

    def _column(self, node: exp.Column, scope: Scope, aliases: Mapping[str, exp.Expr]) -> exp.Expr:
        parts = [part.name for part in node.parts]
        found = scope.resolve(parts)
        if found is None and len(parts) == 1 and parts[0].lower() in aliases:
            found = exp.paren(aliases[parts[0].lower()].copy()), []
        elif found is None and parts[0].lower() in aliases:
            found = exp.paren(aliases[parts[0].lower()].copy()), parts[1:]
        if found is None:
            if len(parts) == 1 and self._is_bare_function(parts[0]):
                raise refuse("NONDETERMINISTIC", f"{parts[0]}", node, self.text)
            # Spark, which has accepted the text, knows it as a session variable or under a name that it made up.
            variable = len(parts) == 1 and parts[0].isidentifier()
            raise refuse("PARAMETER" if variable else "UNNAMED_COLUMN", to_text(node), node, self.text)
        value, fields = found
        if (fields and not isinstance(value, exp.Column)) or not isinstance(
            value, exp.Column | exp.Literal | exp.Paren
        ):
            value = exp.paren(value)
        for name in fields:
            value = exp.Dot(this=value, expression=exp.to_identifier(name, quoted=True))
        return value

    def _is_bare_function(self, name: str) -> bool:
        return name.lower() in constructs.NONDETERMINISTIC_FUNCTIONS

    def _check(self, node: exp.Expr) -> None:
        match node:
            case exp.Window() | exp.WithinGroup() | exp.IgnoreNulls() | exp.RespectNulls():
                raise refuse("WINDOW" if isinstance(node, exp.Window) else "AGGREGATE", to_text(node), node, self.text)
            case exp.Query() | exp.Exists():
                raise refuse("SUBQUERY", "a query inside an expression", node, self.text)
            case exp.Parameter() | exp.Placeholder() | exp.SessionParameter():
                raise refuse("PARAMETER", to_text(node), node, self.text)
            case exp.AggFunc():
                raise refuse("AGGREGATE", to_text(node), node, self.text)
            case exp.Any() if not isinstance(node.parent, exp.Binary):  # any(b); LIKE ANY (...) is another thing
                raise refuse("AGGREGATE", to_text(node), node, self.text)
            case exp.Star():
                raise refuse("STAR_REPLACE", "* inside an expression", node.parent, self.text)
            case TypedLiteral() if _CLOCK_WORD.match(node.this.name):
                raise refuse("NONDETERMINISTIC", to_text(node), node, self.text)
            case exp.Anonymous():
                self._check_function(node)

    def _check_function(self, node: exp.Anonymous) -> None:
        name = node.name.lower()
        if name in constructs.NONDETERMINISTIC_FUNCTIONS:
            raise refuse("NONDETERMINISTIC", to_text(node), node, self.text)
        if name in constructs.CLOCK_WITHOUT_ARGUMENTS and not node.expressions:
            raise refuse("NONDETERMINISTIC", to_text(node), node, self.text)
        if name in constructs.GENERATOR_FUNCTIONS:
            raise refuse("GENERATOR", to_text(node), node, self.text)
        if name in constructs.AGGREGATE_FUNCTIONS:
            raise refuse("AGGREGATE", to_text(node), node, self.text)
        if self.functions is not None and name not in self.functions | _UNIT_FIRST:
            raise refuse("USER_FUNCTION", to_text(node), node, self.text)

    def _conjuncts(self, condition: exp.Expr) -> Iterator[exp.Expr]:
        if isinstance(condition, exp.And):
            yield from self._conjuncts(condition.this)
            yield from self._conjuncts(condition.expression)
        elif isinstance(condition, exp.Paren) and isinstance(condition.this, exp.And):
            yield from self._conjuncts(condition.this)
        else:
            yield condition

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
                }.get(key, "OTHER")
                first = value[0] if isinstance(value, list) else value
                place = first if isinstance(first, exp.Expr) else node
                raise refuse(code, key.rstrip("_").upper(), place, self.text)

    def _fresh(self, wanted: str) -> str:
        wanted = wanted.replace(".", "_")  # so that alias.column is never two columns
        alias, number = wanted, 1
        while alias.lower() in self.aliases:
            number += 1
            alias = f"{wanted}#{number}"
        self.aliases.add(alias.lower())
        return alias

    # ------------------------------------------------------------------ the plan

    def mentioned(self) -> dict[str, tuple[str, ...]]:
        found: dict[str, set[int]] = {}
        for leaf in self.leaves:
            found.setdefault(leaf.table, set()).update(leaf.mentioned)
        columns = {leaf.table: leaf.columns for leaf in self.leaves}
        return {table: tuple(columns[table][index] for index in sorted(used)) for table, used in found.items()}

    def finish(self, block: _Block) -> Plan:
        counter = iter(range(1_000_000))
        outputs = tuple(f"out.{index}" for index in range(len(block.columns)))
        return self._plan(block, outputs, counter)

    def _plan(self, block: _Block, outputs: tuple[str, ...], counter: Iterator[int]) -> Plan:
        values = [value for _, value in block.columns]
        used = {part.name for each in (*block.conditions, *values) for part in each.find_all(exp.Column)}
        inputs = [self._input(each, used, counter) for each in block.inputs]
        plan: Plan = inputs[0] if len(inputs) == 1 else Join(tuple(inputs), tuple(block.conditions))
        if len(inputs) == 1:
            for condition in block.conditions:
                plan = Filter(plan, condition)
        return Project(plan, tuple(zip(outputs, values, strict=True)))

    def _input(self, each: _Leaf | _Union, used: set[str], counter: Iterator[int]) -> Plan:
        match each:
            case _Leaf():
                kept = [index for index in range(len(each.columns)) if each.attribute(index) in used]
                return Scan(
                    LeafId(next(counter)),
                    each.table,
                    each.alias,
                    tuple(each.columns[index] for index in kept),
                    tuple(each.attribute(index) for index in kept),
                )
            case _Union():
                children = []
                for number, branch in enumerate(each.branches):
                    names = tuple(f"{attribute}.{number}" for attribute in each.attributes)
                    children.append(self._plan(branch, names, counter))
                return Union(tuple(children), each.attributes)


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
