"""From a SELECT to a plan.

Subqueries in FROM and CTEs are inlined, so that every branch of UNION ALL becomes one normal form: a projection
of a selection of one join, of tables and of nodes for what is not linear. A derived column is replaced by its
expression wherever it is used, which is right because every expression that gets this far is deterministic. What a
view may not hold is refused here with its reason code and its place in the text; nothing is guessed and nothing is
dropped, except optimizer hints, which do not change the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from headwater.algebra.nodes import Nodes, all_expressions
from headwater.algebra.plan import Plan
from headwater.sql.blocks import Block, Finish, Leaf, OuterRef
from headwater.sql.context import Names, require_only
from headwater.sql.dialect import parse, to_text
from headwater.sql.expressions import Ctes, Expressions, Hole
from headwater.sql.from_clause import renamed, unknown_table
from headwater.sql.scope import Scope
from headwater.sql.select import select
from headwater.sql.set_operations import set_operation
from headwater.sql.top import order_columns
from headwater.sql.windows import name_windows


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
    by_name = {name.lower(): (name, columns) for name, columns in tables.items()}
    lowering = _Lowering(Expressions(text, functions), by_name)
    block = lowering.query(parse(text), {})
    finish = Finish()
    plan = finish.plan(block)
    _require_whole(lowering.expressions, plan, finish.nodes)
    return Lowered(plan, finish.nodes, tuple(name for name, _ in block.columns), _mentioned(lowering.leaves))


def _require_whole(reading: Expressions, plan: Plan, nodes: Nodes) -> None:
    """Refuse a text with a subquery, or a column from around one, in a place where none is joined (GROUP BY, say)."""
    for value in all_expressions(plan, nodes):
        for part in value.find_all(Hole, OuterRef):
            if isinstance(part, Hole):
                node = reading.set_aside(part).node
                raise reading.refuse("SUBQUERY", to_text(node), node)
            raise reading.refuse("CORRELATION", "an outer column where no join can bring it", value)


def require_tables_known(text: str, names: Iterable[str]) -> None:
    """Raise unless every table of a text is one of ``names`` or a CTE; Spark may know more tables than we do."""
    query, known = parse(text), list(names)
    ctes = {cte.alias.lower() for cte in query.find_all(exp.CTE)}
    for table in query.find_all(exp.Table):
        named = isinstance(table.this, exp.Identifier)
        if named and (table.args.get("db") or table.name.lower() not in {*ctes, *(name.lower() for name in known)}):
            raise unknown_table(table, known, text)


def _mentioned(leaves: Sequence[Leaf]) -> dict[str, tuple[str, ...]]:
    found: dict[str, set[int]] = {}
    for leaf in leaves:
        found.setdefault(leaf.table, set()).update(leaf.mentioned)
    columns = {leaf.table: leaf.columns for leaf in leaves}
    return {table: tuple(columns[table][index] for index in sorted(used)) for table, used in found.items()}


@dataclass(slots=True)
class _Lowering:
    """``headwater.sql.context.Lowering``: what a query is, and the CTEs that it may name."""

    expressions: Expressions
    tables: Mapping[str, tuple[str, tuple[str, ...]]]
    names: Names = field(default_factory=Names)
    leaves: list[Leaf] = field(default_factory=list)
    _used_ctes: set[int] = field(default_factory=set)

    def query(self, node: exp.Expr, ctes: Ctes, parent: Scope | None = None) -> Block:
        visible = self._with(node, ctes)
        block = self._body(node, visible, parent)
        for cte in node.args["with_"].expressions if node.args.get("with_") else []:
            if id(cte) not in self._used_ctes:
                visible[cte.alias.lower()]()  # its tables and columns are in the text, so the text needs them
        return block

    def _body(self, node: exp.Expr, ctes: Ctes, parent: Scope | None) -> Block:
        match node:
            case exp.Subquery():
                require_only(self, node, {"this", "alias", "with_", "order", "limit", "offset"})
                block = self.query(node.this, ctes, parent)
            case exp.Select():
                return select(self, name_windows(node), ctes, parent)
            case exp.SetOperation():
                block = set_operation(self, node, ctes)
            case exp.Values():
                raise self.expressions.refuse("INLINE_TABLE", "VALUES", node)
            case _:
                raise self.expressions.refuse("OTHER", type(node).__name__, node)
        order_columns(self, node, block, ctes)
        return block

    def _with(self, node: exp.Expr, ctes: Ctes) -> Ctes:
        clause = node.args.get("with_")
        if clause is None:
            return ctes
        if clause.args.get("recursive"):
            raise self.expressions.refuse("RECURSIVE_CTE", "WITH RECURSIVE", clause)
        visible = dict(ctes)
        for cte in clause.expressions:
            # Each use is lowered anew: a CTE used twice is two sets of leaves, as in a self-join.
            outer = dict(visible)

            def define(cte: exp.CTE = cte, outer: Ctes = outer) -> Block:
                self._used_ctes.add(id(cte))
                return renamed(self.query(cte.this, outer), cte.args.get("alias"))

            visible[cte.alias.lower()] = define
        return visible
