"""The change of a view with non-linear nodes over one interval.

Nodes are worked off from the tables upwards. The change of a node's input is a linear block's and is computed as any
view delta, from one moment to another; it is staged, since the node reads it more than once and what follows depends
on whether there is any and whether it takes rows away. Then the node's own change is staged, and stands in the block
above like the change of a table; a node that is all that the view's own block reads is left to that block's query.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace

from headwater.algebra.nodes import Aggregate
from headwater.algebra.plan import Plan, scans
from headwater.algebra.query import Query
from headwater.algebra.time import Interval
from headwater.catalog.records import ViewRecord
from headwater.context import Context
from headwater.definition import CatalogMoments, Definition, carried_totals
from headwater.engine.staging import StagedRows
from headwater.propagate.frontier import ChangeLog, Frontier, advance
from headwater.propagate.stepping import Prepared, Stepping, few
from headwater.sql.dialect import to_text
from headwater.sql.relations import Sources, changes_of
from headwater.sql.render import view_delta_sql
from headwater.sql.transitions import InputChange, change_of, summed_change, touched_keys


@dataclass(slots=True)
class NodeLog:
    """What changed in an interval: tables and views by the catalog, nodes by what was staged."""

    moments: CatalogMoments
    nodes: Mapping[str, object]
    staged: dict[str, StagedRows] = field(default_factory=dict)
    inlined: set[str] = field(default_factory=set)

    def has_changes(self, name: str, interval: Interval) -> bool:
        if name in self.nodes:
            return name in self.staged or name in self.inlined
        return self.moments.has_changes(name, interval)

    def known_rows(self, name: str, interval: Interval) -> int | None:
        if name in self.nodes:
            return self.staged[name].rows if name in self.staged else None
        return self.moments.known_rows(name, interval)

    def names(self, interval: Interval) -> dict[tuple[str, Interval], str]:
        return {(node, interval): rows.name for node, rows in self.staged.items()}


def block_queries(plan: Plan, interval: Interval, log: ChangeLog) -> tuple[Query, ...]:
    """The queries for all leaves of a block together."""
    targets = tuple(interval.end for _ in scans(plan))
    return advance(plan, Frontier.at(plan, interval.start), targets, log).queries


@contextmanager
def staged_nodes(
    context: Context, view: ViewRecord, definition: Definition, moments: CatalogMoments, interval: Interval
) -> Iterator[Prepared]:
    """Stage the changes of all nodes; the queries of the view's own block over them."""
    log = NodeLog(moments, definition.nodes)
    relations = moments.relations(interval.start)
    alone = [scan.table for scan in scans(definition.plan)]
    with ExitStack() as stack:
        stepping = Stepping(context, definition, moments, log, stack)

        def stage(text: str) -> StagedRows:
            return stack.enter_context(context.engine.staging.changes(text))

        texts = {
            table: to_text(changes_of(table, interval, definition.used_columns(table), moments))
            for table in _read_often(context, definition, interval, moments)
        }
        kept = stack.enter_context(context.engine.staging.leaf_changes(texts)) if texts else {}
        feeds = {(table, interval): rows.name for table, rows in kept.items()}
        for name, node in definition.nodes.items():
            sources = replace(relations.sources, staged={**feeds, **log.names(interval)})
            changes = [_input_change(plan, interval, log, sources, stepping, stage) for plan in node.inputs]
            if any(change is not None for change in changes):
                if isinstance(node, Aggregate) and node.sums is not None and changes[0] is not None:
                    carried = definition.carried if node.carried else None
                    totals = carried_totals(carried, view, interval.start) if carried is not None else None
                    change = summed_change(node, node.sums, interval, changes[0], sources, totals)
                else:
                    keys = to_text(touched_keys(node, interval.start, changes))
                    touched = stack.enter_context(context.engine.staging.rows(keys))
                    change = change_of(node, interval, changes, touched, sources)
                if alone == [name]:
                    relations.inlined[name] = change
                    log.inlined.add(name)
                elif (found := stage(to_text(change))).rows:
                    log.staged[name] = found
        sources = replace(relations.sources, staged={**feeds, **log.names(interval)})
        yield stepping.prepared(block_queries(definition.plan, interval, log), sources)


def _input_change(
    plan: Plan,
    interval: Interval,
    log: NodeLog,
    sources: Sources,
    stepping: Stepping,
    stage: Callable[[str], StagedRows],
) -> InputChange | None:
    ready = stepping.prepared(block_queries(plan, interval, log), sources)
    if not ready.queries:
        return None
    found = stage(view_delta_sql(ready.queries, plan.attributes, ready.sources, broadcast=ready.broadcast))
    return InputChange(found.name, found.retracts) if found.rows else None


def _read_often(context: Context, definition: Definition, interval: Interval, moments: CatalogMoments) -> list[str]:
    """Base tables whose changes are few and are read in several places."""
    uses: Counter[str] = Counter()
    for plan in [definition.plan, *(each for node in definition.nodes.values() for each in node.inputs)]:
        changed = [scan.table for scan in scans(plan) if scan.table in definition.tables]
        changed = [table for table in changed if moments.has_changes(table, interval)]
        for table in changed:
            uses[table] += len(changed)
    return [
        table for table, count in uses.items() if count > 1 and few(moments.known_rows(table, interval), context.sizes)
    ]
