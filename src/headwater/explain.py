"""What a view is and how it is kept, as a value that prints itself.

The queries shown are the very ones that the next propagation would run: explain and the drivers read the same object.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from headwater.algebra.nodes import Nodes, scans_below
from headwater.algebra.plan import Plan
from headwater.algebra.time import BEGINNING, Csn, Interval
from headwater.catalog.records import LeafRecord, ViewRecord
from headwater.choice import Workload
from headwater.context import Context
from headwater.definition import CatalogMoments, Definition
from headwater.drafting import check
from headwater.outline import Outline, lines, outline
from headwater.propagate.choosing import Wanted
from headwater.propagate.frontier import advance, block_queries
from headwater.propagate.stepping import small_changes
from headwater.propagate.targets import frontier_of, width_of
from headwater.propagate.width import ByCsn, ByRows, Unlimited, Width
from headwater.refresh import Policy, rows_of
from headwater.sql.render import view_delta_sql
from headwater.sql.statements import CreateView
from headwater.step_picture import lines as step_lines
from headwater.step_picture import picture


@dataclass(frozen=True, slots=True)
class Explanation:
    view: str
    text: str
    csn: int
    high_water_mark: int
    newest_csn: int
    method: str
    policy: str
    recomputed: str | None
    falls_back: tuple[tuple[str, str], ...]
    costs: dict[str, Any] | None
    plan: str
    leaves: tuple[dict[str, Any], ...]
    queries: tuple[str, ...]
    sql: str | None
    strategy: str
    last: dict[str, Any] | None
    shape: Outline

    def svg(self) -> str:
        """The delta trees of the last propagation, with what was expected and found; else the plan."""
        return picture(self.view, (self.last or {}).get("blocks", ()), self.shape)

    def as_dict(self) -> dict[str, Any]:
        return {
            "view": self.view,
            "text": self.text,
            "csn": self.csn,
            "high_water_mark": self.high_water_mark,
            "newest_csn": self.newest_csn,
            "method": self.method,
            "policy": self.policy,
            "recomputed": self.recomputed,
            "falls_back": dict(self.falls_back),
            "costs": self.costs,
            "plan": self.plan.splitlines(),
            "leaves": list(self.leaves),
            "queries": list(self.queries),
            "sql": self.sql,
            "strategy": self.strategy,
            "last_propagation": self.last,
        }

    def __str__(self) -> str:
        where = f"at csn {self.csn}, propagated to {self.high_water_mark}, newest captured {self.newest_csn}"
        lines = [
            f"Materialized view {self.view}: {where}",
            f"Kept incrementally, method {self.method}, strategy {self.strategy}, policy {self.policy}"
            if self.recomputed is None
            else f"Recomputed at every refresh: {self.recomputed}",
            *_fallback_lines(self.falls_back),
        ]
        if self.costs is not None:
            seconds = ", ".join(f"{way} {value:.1f} s" for way, value in self.costs["seconds"].items())
            lines.append(f"Last choice: {self.costs['chosen']} ({seconds})")
        lines += ["", self.plan, "", "Leaves"]
        lines += [
            f"  {leaf['alias']}: table {leaf['table']}, at csn {leaf['time']}, step width {leaf['width']}"
            for leaf in self.leaves
        ]
        lines += ["", "Next propagation"]
        lines += [f"  {query}" for query in self.queries] or ["  nothing to do"]
        if self.last is not None:
            rows = self.last.get("rows", 0)
            lines += ["", f"Last propagation: {rows} row{'' if rows == 1 else 's'}"]
            lines += _integrity_lines(self.last.get("integrity", {}))
            lines += step_lines(self.last.get("blocks", ()))
        return "\n".join(lines)


def _integrity_lines(told: dict[str, Any]) -> list[str]:
    found = [f"  {told['cut']} of {told['queries']} queries cut by constraints"] if told.get("cut") else []
    broken = told.get("broken", {}).items()
    return found + [f"  constraint {name} broken at csn {problem['csn']}, not used" for name, problem in broken]


@dataclass(frozen=True, slots=True)
class DraftExplanation:
    """What a view of a text would be, before anything is made."""

    columns: tuple[tuple[str, str], ...]
    recomputed: str | None
    falls_back: tuple[tuple[str, str], ...]
    plan: str
    tables: tuple[str, ...]
    rows_from_scratch: int
    rows_of_a_change: dict[str, int]

    def as_dict(self) -> dict[str, Any]:
        return {
            "columns": [list(column) for column in self.columns],
            "recomputed": self.recomputed,
            "falls_back": dict(self.falls_back),
            "plan": self.plan.splitlines(),
            "tables": list(self.tables),
            "rows_from_scratch": self.rows_from_scratch,
            "rows_of_a_change": self.rows_of_a_change,
        }

    def __str__(self) -> str:
        how = "Kept incrementally" if self.recomputed is None else f"Recomputed at every refresh: {self.recomputed}"
        columns = ", ".join(f"{name} {kind}" for name, kind in self.columns)
        lines = [how, *_fallback_lines(self.falls_back), f"Reads {', '.join(self.tables)}", f"Columns {columns}"]
        lines += ["", self.plan, "", "Rows to go through", f"  from scratch: {self.rows_from_scratch:,}"]
        lines += [f"  one changed row of {table}: {rows:,}" for table, rows in self.rows_of_a_change.items()]
        return "\n".join(lines)


def _fallback_lines(falls_back: tuple[tuple[str, str], ...]) -> list[str]:
    return [f"  recomputed when {when} ({code})" for code, when in falls_back]


def fallbacks(definition: Definition, policy: Policy) -> tuple[tuple[str, str], ...]:
    """What would make a refresh of a view that is kept incrementally recompute it, by reason code."""
    if definition.recomputed is not None or policy is Policy.STRICT:
        return ()
    found = [
        ("TABLE_RESYNCED", "a table whose history was lost or which was replaced is resynced"),
        ("FAILED_BETWEEN", "its text failed over rows that were there for a while"),
    ]
    if definition.views:
        found.append(("UPSTREAM_RECOMPUTED", "a view that it reads was recomputed"))
    if policy is Policy.AUTO:
        found.append(("FULL_IS_CHEAPER", "that is expected to take less time than its changes"))
    return tuple(found)


def explain_draft(context: Context, statement: CreateView) -> DraftExplanation:
    draft = check(context, statement)
    definition = draft.definition
    names = sorted({*definition.tables, *definition.views})
    rows = {name: rows_of(context, definition, name) for name in names}

    def work(changed: dict[str, int]) -> Workload:
        return Workload(definition.plan, definition.nodes, rows.__getitem__, changed, versions=1)

    kept = [] if definition.recomputed is not None else names
    return DraftExplanation(
        draft.columns,
        definition.recomputed,
        fallbacks(definition, Policy.of(statement.options)),
        "\n".join(_tree(definition.plan, definition.nodes)),
        tuple(names),
        round(work({}).from_scratch()),
        {name: round(work({name: 1}).of_the_change().rows) for name in kept},
    )


@dataclass(frozen=True, slots=True)
class _PossibleLog:
    """What may have changed: a node if anything below it did."""

    moments: CatalogMoments
    nodes: Nodes

    def has_changes(self, name: str, interval: Interval) -> bool:
        if name not in self.nodes:
            return self.moments.has_changes(name, interval)
        return any(self.moments.has_changes(scan.table, interval) for scan in scans_below(name, self.nodes))


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
    past = (record.alternatives for record in context.catalog.refreshes(view.name) if record.view_id == view.view_id)
    return Explanation(
        view=view.name,
        text=view.sql,
        csn=view.csn,
        high_water_mark=min(leaf.t_comp for leaf in leaves),
        newest_csn=newest,
        method=view.method,
        policy=Policy.of(view.options).value,
        recomputed=definition.recomputed,
        falls_back=fallbacks(definition, Policy.of(view.options)),
        costs=next((told for told in past if told is not None), None),
        plan="\n".join(_tree(definition.plan, definition.nodes)),
        leaves=tuple(_leaf(leaf) for leaf in leaves),
        queries=tuple(queries),
        sql=sql,
        strategy=Wanted.of(view.options).value,
        last=next((step.outcome for step in context.catalog.done_steps(view.view_id, "propagate", limit=1)), None),
        shape=outline(definition.plan, definition.nodes),
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


def _tree(plan: Plan, nodes: Nodes) -> Iterator[str]:
    return lines(outline(plan, nodes))
