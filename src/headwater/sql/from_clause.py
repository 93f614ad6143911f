"""FROM: tables, CTEs, subqueries, LATERAL and joins, put into one block.

Inner joins add inputs and conditions to the block, so that joins of joins are one join. An outer, semi or anti join is
a node over what stands before it; names of a side that it may fill with NULL are read through it from then on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from headwater.algebra.nodes import MatchKind
from headwater.errors import SqlAnalysisError
from headwater.sql.blocks import Block, Leaf, MatchOn, OuterRef, replace_outer
from headwater.sql.context import Lowering, require_only
from headwater.sql.dialect import call, position, to_text
from headwater.sql.expressions import Ctes, Hole, conjuncts
from headwater.sql.pivot import pivoted, unpivoted
from headwater.sql.scope import Relation, Scope
from headwater.sql.subqueries import add_condition, add_match, attach_row, same

_MATCHES = {
    **dict.fromkeys([("LEFT", ""), ("LEFT", "OUTER")], MatchKind.LEFT),
    **dict.fromkeys([("RIGHT", ""), ("RIGHT", "OUTER")], MatchKind.RIGHT),
    **dict.fromkeys([("FULL", ""), ("FULL", "OUTER")], MatchKind.FULL),
    **dict.fromkeys([("", "SEMI"), ("LEFT", "SEMI")], MatchKind.SEMI),
    **dict.fromkeys([("", "ANTI"), ("LEFT", "ANTI")], MatchKind.ANTI),
}


def unknown_table(node: exp.Table, known: Iterable[str], text: str) -> SqlAnalysisError:
    line, place = position(node, text) or (None, None)
    return SqlAnalysisError(
        f"Table {to_text(node)} is not tracked by this lake.",
        line=line,
        column=place,
        remedy=f"Track it first: lake.track({node.name!r}, <path>). Known: {', '.join(sorted(known)) or 'none'}.",
    )


def renamed(block: Block, alias: exp.TableAlias | None) -> Block:
    """A block whose columns have the names that ``AS x(a, b)`` gives them, if it gives any."""
    names = _column_names(alias, tuple(name for name, _ in block.columns))
    block.columns = [(n, v) for n, (_, v) in zip(names, block.columns, strict=True)]
    return block


def _column_names(alias: exp.TableAlias | None, columns: tuple[str | None, ...]) -> tuple[str | None, ...]:
    given = tuple(name.name for name in alias.args.get("columns") or []) if alias is not None else ()
    return given or columns


@dataclass(frozen=True, slots=True)
class FromClause:
    """Puts what stands in FROM on a block, and its names into a scope."""

    lowering: Lowering
    scope: Scope
    block: Block
    ctes: Ctes

    def add(self, node: exp.Expr) -> None:
        if node.args.get("pivots"):
            self._pivot(node)
        elif isinstance(node, exp.Table):
            require_only(self.lowering, node, {"this", "alias", "joins", "db", "catalog"})
            if not isinstance(node.this, exp.Identifier):
                raise self.lowering.expressions.refuse("TABLE_FUNCTION", to_text(node), node)
            self._table(node)
        elif isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table):
            if node.args.get("alias"):
                raise self.lowering.expressions.refuse("OTHER", "an alias for a join in parentheses", node)
            self._parenthesised(node.this)
        elif isinstance(node, exp.Subquery):
            require_only(self.lowering, node, {"this", "alias", "with_", "joins", "order", "limit", "offset"})
            inner = renamed(self.lowering.query(node, self.ctes), node.args.get("alias"))
            self._derived(inner, node.alias or None)
        elif isinstance(node, exp.Lateral):
            self._lateral(node)
        elif isinstance(node, exp.Values):
            raise self.lowering.expressions.refuse("INLINE_TABLE", "VALUES", node)
        else:
            raise self.lowering.expressions.refuse("OTHER", type(node).__name__, node)
        for join in node.args.get("joins") or []:
            self.join(join)

    def _pivot(self, node: exp.Expr) -> None:
        alias = node.args["pivots"][0].args.get("alias")
        inner = self.lowering.query(pivoted(self.lowering, node, self._names(node)), self.ctes)
        self._derived(renamed(inner, alias), alias.name if alias is not None else None)

    def _names(self, node: exp.Expr) -> Sequence[str]:
        """The columns of a table or subquery before it is pivoted."""
        if isinstance(node, exp.Table) and not node.args.get("alias") and node.name.lower() not in self.ctes:
            return self.lowering.tables.get(node.name.lower(), ("", ()))[1]
        clause = FromClause(self.lowering, Scope(), Block(), self.ctes)
        clause.add(unpivoted(node))
        return clause.scope.names()

    def _parenthesised(self, node: exp.Table) -> None:
        """A join in parentheses: it knows nothing of what stands around it."""
        inner = FromClause(self.lowering, Scope(parent=self.scope.parent), Block(), self.ctes)
        inner.add(node)
        self._join_in(inner, node)

    def _join_in(self, other: FromClause, node: exp.Expr) -> None:
        """Take in what another clause has read."""
        if other.scope.merged and (self.scope.relations or self.scope.merged):
            # Its merged columns stand where the join stands, not before all others.
            found = "USING or NATURAL within a join that is itself joined"
            raise self.lowering.expressions.refuse("OTHER", found, node)
        self.block.take_in(other.block)
        self.scope.relations.extend(other.scope.relations)
        self.scope.merged.update(other.scope.merged)

    def _table(self, node: exp.Table) -> None:
        name = node.name
        qualified = node.args.get("db") is not None
        if not qualified and name.lower() in self.ctes:
            inner = renamed(self.ctes[name.lower()](), node.args.get("alias"))
            self._derived(inner, node.alias or name)
            return
        if qualified or name.lower() not in self.lowering.tables:
            known = [known for known, _ in self.lowering.tables.values()]
            raise unknown_table(node, known, self.lowering.expressions.text)
        table, columns = self.lowering.tables[name.lower()]
        leaf = Leaf(table, columns, self.lowering.names.alias(node.alias or name))
        self.lowering.leaves.append(leaf)
        self.block.inputs.append(leaf)
        visible = _column_names(node.args.get("alias"), columns)
        if visible is not columns:  # t AS x(a, b): the text holds only while the table has as many columns
            leaf.mentioned.update(range(len(columns)))
        self.scope.relations.append(Relation(node.alias or name, visible, leaf.value))

    def _derived(self, inner: Block, alias: str | None) -> None:
        self.block.take_in(inner)
        self._show(inner, alias, [value for _, value in inner.columns])

    def _show(self, inner: Block, alias: str | None, values: Sequence[exp.Expr]) -> None:
        """A subquery's columns in the scope, each standing for one of ``values``."""
        self.scope.relations.append(Relation.of(alias, [name for name, _ in inner.columns], values))

    def _lateral(self, node: exp.Lateral) -> None:
        """LATERAL (SELECT ...): a subquery that may mention what stands before it."""
        if not isinstance(node.this, exp.Subquery):
            raise self.lowering.expressions.refuse("LATERAL", to_text(node), node)
        inner = renamed(self.lowering.query(node.this, self.ctes, self.scope), node.args.get("alias"))
        if inner.when_empty is None:
            inner.conditions = [replace_outer(each, same) for each in inner.conditions]
            values = [replace_outer(value, same) for _, value in inner.columns]
            self.block.take_in(inner)
        else:
            values = attach_row(self.lowering, inner, self.block, same, drops_null=False)
        self._show(inner, node.alias or None, values)

    def join(self, join: exp.Join) -> None:
        side, kind, method = (str(join.args.get(key) or "").upper() for key in ("side", "kind", "method"))
        matched = _MATCHES.get((side, kind))
        if (matched is None and (side or kind not in ("", "INNER", "CROSS"))) or method not in ("", "NATURAL"):
            raise self.lowering.expressions.refuse("OTHER", " ".join(filter(None, (method, side, kind, "JOIN"))), join)
        require_only(self.lowering, join, {"this", "side", "kind", "method", "on", "using"})
        if join.this.args.get("pivots"):  # Spark pivots all that stands before
            raise self.lowering.expressions.refuse("PIVOT", "PIVOT of a join", join)
        if matched is None:
            self._inner(join)
        else:
            self._outer(join, matched)

    def _inner(self, join: exp.Join) -> None:
        before = Scope(list(self.scope.relations), dict(self.scope.merged))
        if isinstance(join.this, exp.Lateral):
            self.add(join.this)
            right = Scope(self.scope.relations[len(before.relations) :])
        else:
            other = FromClause(self.lowering, Scope(parent=self.scope.parent), Block(), self.ctes)
            other.add(join.this)
            right = other.scope
            self._join_in(other, join.this)
        pairs = self._merged(join, before, right)
        self._show_merged({name: ours for name, ours, _ in pairs})
        self.block.conditions.extend(_equal(pairs))
        for condition in self._on(join):
            add_condition(self.lowering, condition, self.block, same)

    def _outer(self, join: exp.Join, kind: MatchKind) -> None:
        """An outer, semi or anti join."""
        refuse = self.lowering.expressions.refuse
        if isinstance(join.this, exp.Lateral):
            raise refuse("LATERAL", f"{join.side} JOIN LATERAL", join)
        right, right_block = Scope(parent=self.scope.parent), Block()
        FromClause(self.lowering, right, right_block, self.ctes).add(join.this)
        if right_block.split():
            raise refuse("CORRELATION", "an outer column below an outer join", join)
        if right.merged:
            raise refuse("OTHER", "USING or NATURAL within a join that is itself joined", join)
        if kind in (MatchKind.RIGHT, MatchKind.FULL) and any(each.find(OuterRef) for each in self.block.conditions):
            raise refuse("CORRELATION", "an outer column below an outer join", join)
        left = Scope(list(self.scope.relations), dict(self.scope.merged), self.scope.parent)
        self.scope.relations.extend(right.relations)
        pairs = self._merged(join, left, right)
        conditions = [*_equal(pairs), *self._on(join)]
        if any(each.find(Hole) for each in conditions):
            raise refuse("SUBQUERY", "a subquery in the condition of an outer join", join)
        if any(each.find(OuterRef) for each in conditions):
            raise refuse("CORRELATION", "an outer column in the condition of an outer join", join)
        match = add_match(self.lowering, kind, self.block, right_block, conditions)
        self._read_through(match, left, right)
        if kind is MatchKind.FULL:
            both = {name: (match.bind(0, ours.copy()), match.bind(1, theirs.copy())) for name, ours, theirs in pairs}
            self._show_merged({name: call("coalesce", *values) for name, values in both.items()})
        elif kind is MatchKind.RIGHT:
            self._show_merged({name: theirs for name, _, theirs in pairs})
        elif kind is MatchKind.LEFT:
            self._show_merged({name: ours for name, ours, _ in pairs})

    def _read_through(self, match: MatchOn, left: Scope, right: Scope) -> None:
        """The names of both sides of an outer, semi or anti join, as they are above it."""
        kind, scope = match.kind, self.scope
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
            scope.merged = {name: match.bind(0, value) for name, value in left.merged.items()}

    def _on(self, join: exp.Join) -> list[exp.Expr]:
        on = join.args.get("on")
        if on is None or (isinstance(on, exp.Boolean) and on.this):
            return []
        return [self.lowering.expressions.read(each, self.scope, {}, self.ctes) for each in conjuncts(on)]

    def _merged(self, join: exp.Join, left: Scope, right: Scope) -> list[tuple[str, exp.Expr, exp.Expr]]:
        """The columns of USING or NATURAL, by name as they are on both sides."""
        using = [name.name for name in join.args.get("using") or []]
        if str(join.args.get("method") or "").upper() == "NATURAL":
            theirs = {name.lower() for name in right.names()}
            using = [name for name in left.names() if name.lower() in theirs]
            for relation in (*left.relations, *right.relations):  # every name decides what is joined
                for index in range(len(relation.columns)):
                    relation.value(index)
        found = []
        for name in using:
            ours, other = left.resolve([name]), right.resolve([name])
            if ours is None or other is None:
                raise SqlAnalysisError(f"USING column {name} is missing on one side of the join.")
            found.append((name.lower(), ours[0].copy(), other[0].copy()))
        return found

    def _show_merged(self, merged: dict[str, exp.Expr]) -> None:
        """Spark's order: the columns of the latest join come first."""
        before = {name: value for name, value in self.scope.merged.items() if name not in merged}
        self.scope.merged = {**merged, **before}


def _equal(pairs: Iterable[tuple[str, exp.Expr, exp.Expr]]) -> list[exp.Expr]:
    return [exp.EQ(this=ours.copy(), expression=theirs.copy()) for _, ours, theirs in pairs]
