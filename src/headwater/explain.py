"""What a view is and how it is kept, as a value that prints itself.

The queries shown are the very ones that the next propagation would run: explain and the drivers read the same object.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from headwater.algebra.nodes import Aggregate, Match, Node, Nodes, Top, Window, all_scans
from headwater.algebra.plan import Filter, Generate, Join, Plan, Project, Scan, Union
from headwater.algebra.time import BEGINNING, Csn, Interval
from headwater.catalog.records import LeafRecord, ViewRecord
from headwater.context import Context
from headwater.definition import CatalogMoments, Definition
from headwater.lifecycle import check
from headwater.propagate.driver import frontier_of, width_of
from headwater.propagate.frontier import advance
from headwater.propagate.nodes import block_queries
from headwater.propagate.stepping import small_changes
from headwater.propagate.width import ByCsn, ByRows, Unlimited, Width
from headwater.sql.carrying import HIDDEN
from headwater.sql.dialect import to_text
from headwater.sql.render import view_delta_sql
from headwater.sql.statements import CreateView


@dataclass(frozen=True, slots=True)
class Explanation:
    view: str
    text: str
    csn: int
    high_water_mark: int
    newest_csn: int
    method: str
    recomputed: str | None
    plan: str
    leaves: tuple[dict[str, Any], ...]
    queries: tuple[str, ...]
    sql: str | None

    def as_dict(self) -> dict[str, Any]:
        return {
            "view": self.view,
            "text": self.text,
            "csn": self.csn,
            "high_water_mark": self.high_water_mark,
            "newest_csn": self.newest_csn,
            "method": self.method,
            "recomputed": self.recomputed,
            "plan": self.plan.splitlines(),
            "leaves": list(self.leaves),
            "queries": list(self.queries),
            "sql": self.sql,
        }

    def __str__(self) -> str:
        where = f"at csn {self.csn}, propagated to {self.high_water_mark}, newest captured {self.newest_csn}"
        lines = [
            f"Materialized view {self.view}: {where}",
            f"Kept incrementally, method {self.method}"
            if self.recomputed is None
            else f"Recomputed at every refresh: {self.recomputed}",
            "",
            self.plan,
            "",
            "Leaves",
        ]
        lines += [
            f"  {leaf['alias']}: table {leaf['table']}, at csn {leaf['time']}, step width {leaf['width']}"
            for leaf in self.leaves
        ]
        lines += ["", "Next propagation"]
        lines += [f"  {query}" for query in self.queries] or ["  nothing to do"]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class DraftExplanation:
    """What a view of a text would be, before anything is made."""

    columns: tuple[tuple[str, str], ...]
    recomputed: str | None
    plan: str
    tables: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        return {
            "columns": [list(column) for column in self.columns],
            "recomputed": self.recomputed,
            "plan": self.plan.splitlines(),
            "tables": list(self.tables),
        }

    def __str__(self) -> str:
        how = "Kept incrementally" if self.recomputed is None else f"Recomputed at every refresh: {self.recomputed}"
        columns = ", ".join(f"{name} {kind}" for name, kind in self.columns)
        return "\n".join([how, f"Reads {', '.join(self.tables)}", f"Columns {columns}", "", self.plan])


def explain_draft(context: Context, statement: CreateView) -> DraftExplanation:
    draft = check(context, statement)
    definition = draft.definition
    return DraftExplanation(
        draft.columns,
        definition.recomputed,
        "\n".join(_tree(definition.plan, definition.nodes)),
        tuple(sorted({*definition.tables, *definition.views})),
    )


@dataclass(frozen=True, slots=True)
class _PossibleLog:
    """What may have changed: a node if anything below it did."""

    moments: CatalogMoments
    nodes: Nodes

    def has_changes(self, name: str, interval: Interval) -> bool:
        if name not in self.nodes:
            return self.moments.has_changes(name, interval)
        below = [scan for plan in self.nodes[name].inputs for scan in all_scans(plan, self.nodes)]
        return any(self.moments.has_changes(scan.table, interval) for scan in below)


def explain(context: Context, view: ViewRecord) -> Explanation:
    definition = Definition.load(view)
    leaves = context.catalog.leaves(view.view_id)
    newest = context.catalog.newest_csn()
    moments = CatalogMoments(context.catalog, definition)
    queries: list[str] = []
    sql = None
    if definition.nodes:
        log = _PossibleLog(moments, definition.nodes)
        start = frontier_of(leaves).high_water_mark
        interval = Interval(start, Csn(max(start, newest)))
        for name, node in definition.nodes.items():
            for plan in node.inputs:
                queries += [f"{name} <- {query}" for query in block_queries(plan, interval, log)]
        queries += [str(query) for query in block_queries(definition.plan, interval, log)]
    elif definition.recomputed is None:
        targets = tuple(Csn(max(leaf.time, newest)) for leaf in leaves)
        step = advance(definition.plan, frontier_of(leaves), targets, moments)
        queries = [str(query) for query in step.queries]
        if step.queries and view.method == "frontier":
            small = small_changes(step.queries, moments, context.sizes)
            names = [name for name, _ in view.columns]
            sql = view_delta_sql(step.queries, names, moments.sources(BEGINNING), broadcast=small, pretty=True)
    return Explanation(
        view=view.name,
        text=view.sql,
        csn=view.csn,
        high_water_mark=min(leaf.t_comp for leaf in leaves),
        newest_csn=newest,
        method=view.method,
        recomputed=definition.recomputed,
        plan="\n".join(_tree(definition.plan, definition.nodes)),
        leaves=tuple(_leaf(leaf) for leaf in leaves),
        queries=tuple(queries),
        sql=sql,
    )


def _leaf(leaf: LeafRecord) -> dict[str, Any]:
    return {"alias": leaf.alias, "table": leaf.table, "time": leaf.time, "width": _width(width_of(leaf))}


def _width(width: Width) -> str:
    match width:
        case ByRows(rows=rows):
            return f"{rows} rows"
        case ByCsn(csns=csns):
            return f"{csns} csn"
        case Unlimited():
            return "unlimited"


def _tree(plan: Plan, nodes: Nodes, depth: int = 0) -> Iterator[str]:
    pad = "  " * depth
    match plan:
        case Scan() if plan.table in nodes:
            node = nodes[plan.table]
            yield f"{pad}{describe_node(plan.table, node)}"
            for child in node.inputs:
                yield from _tree(child, nodes, depth + 1)
        case Scan():
            yield f"{pad}Scan {plan.table} as {plan.alias} ({', '.join(plan.columns)})"
        case Filter(child=child, condition=condition):
            yield f"{pad}Filter {to_text(condition)}"
            yield from _tree(child, nodes, depth + 1)
        case Project(child=child, outputs=outputs):
            public = [to_text(value) for name, value in outputs if not name.startswith(HIDDEN)]
            yield f"{pad}Project {', '.join(public)}"
            yield from _tree(child, nodes, depth + 1)
        case Generate(child=child, generator=generator):
            yield f"{pad}Generate {to_text(generator)}"
            yield from _tree(child, nodes, depth + 1)
        case Join(children=children, conditions=conditions):
            yield f"{pad}Join on {' AND '.join(to_text(c) for c in conditions) or 'nothing (cross product)'}"
            for child in children:
                yield from _tree(child, nodes, depth + 1)
        case Union(children=children):
            yield f"{pad}Union all"
            for child in children:
                yield from _tree(child, nodes, depth + 1)


def describe_node(name: str, node: Node) -> str:
    """A node in one line: what it does and by which key it is kept."""
    match node:
        case Aggregate(values=values):
            what = f"Aggregate {', '.join(to_text(value) for _, value in values) or 'distinct rows'}"
        case Match(kind=kind, conditions=conditions):
            what = f"{kind.value.capitalize()} join on {' AND '.join(to_text(c) for c in conditions) or 'nothing'}"
        case Window(values=values):
            what = f"Window {', '.join(to_text(value) for _, value in values)}"
        case Top(limit=limit, offset=offset, order=order):
            what = f"First {limit} rows" + (f" after {offset}" if offset else "")
            what += f" by {', '.join(to_text(each) for each in order)}"
    by = ", ".join(node.key(0))
    if isinstance(node, Aggregate) and node.sums is not None:
        how = "changes added to the view's own rows" if node.carried else "changes added to what was"
        return f"{name}: {what}; {how}, keys ({by})" if by else f"{name}: {what}; {how}"
    return f"{name}: {what}; touched keys ({by})" if by else f"{name}: {what}; one key for all rows"
