"""The change of a view with non-linear nodes over one interval.

Nodes are worked off from the tables upwards. The change of a node's input is a linear block's and is computed as any
view delta, from one moment to another; it is staged, since the node reads it more than once and what follows depends
on whether there is any and whether it takes rows away. Then the node's own change is staged, and stands in the block
above like the change of a table; a node that is all that the view's own block reads is left to that block's query.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace

from sqlglot import exp

from headwater.algebra.nodes import Aggregate, blocks_of
from headwater.algebra.plan import Attribute, Plan, scans
from headwater.algebra.time import Csn, Interval
from headwater.catalog.records import ViewRecord
from headwater.context import Context
from headwater.definition import CatalogMoments, Definition, carried_totals
from headwater.engine.staging import StagedRows
from headwater.propagate.stepping import Prepared, Stepping
from headwater.propagate.tree_driver import Blocks
from headwater.sql.dialect import to_text
from headwater.sql.relations import Sources
from headwater.sql.summing import totals
from headwater.sql.transitions import (
    InputChange,
    asked_keys,
    change_of,
    changed_keys,
    key_names,
    staged_rows,
    summed_change,
    touched_keys,
    touched_rows,
    touched_totals,
)


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


@contextmanager
def staged_nodes(
    context: Context,
    view: ViewRecord,
    definition: Definition,
    moments: CatalogMoments,
    interval: Interval,
    blocks: Blocks,
) -> Iterator[Prepared]:
    """Stage the changes of all nodes; the queries of the view's own block over them."""
    log = NodeLog(moments, definition.nodes)
    relations = moments.relations(interval.start)
    alone = [scan.table for scan in scans(definition.plan)]
    with ExitStack() as stack:
        stepping = Stepping(context, definition, moments, log, stack)
        shared = stepping.shared_feeds(interval)
        whole = blocks_of(definition.plan, definition.nodes)
        often = stepping.read_often([plan for plan in whole if not blocks.is_shared(plan, interval)], interval)
        feeds = {**shared, **stepping.stage_feeds(feed for feed in often if feed not in shared)}
        for name, node in definition.nodes.items():
            sources = replace(relations.sources, staged={**feeds, **log.names(interval)})
            changes = [
                _input_change(f"{name}.{side}", plan, interval, log, sources, stepping, blocks)
                for side, plan in enumerate(node.inputs)
            ]
            change: exp.Query
            match node, changes:
                case _ if all(each is None for each in changes):
                    continue
                case Aggregate(sums=sums), [InputChange() as own] if sums is not None:
                    touched = changed_keys(node.keys, own)
                    if node.carried and definition.carried is not None:
                        kept_totals = carried_totals(definition.carried, view, interval.start)
                        before = touched_totals(node, sums, kept_totals, touched)
                    else:
                        rows = _touched_rows(node.input, node.keys, touched, interval.start, sources, stepping)
                        before = totals(sums, node.keys, rows)
                    change = summed_change(node, sums, interval, own, before)
                case _:
                    table = stack.enter_context(
                        context.engine.staging.rows(to_text(touched_keys(node, interval.start, changes)))
                    )
                    touched = staged_rows(table, key_names(node.key(0)))
                    states = [
                        _touched_rows(plan, node.key(side), touched, interval.start, sources, stepping)
                        for side, plan in enumerate(node.inputs)
                    ]
                    change = change_of(node, interval, changes, table, states, sources)
            if alone == [name]:
                relations.inlined[name] = change
                log.inlined.add(name)
            elif (found := stepping.stage(to_text(change))).rows:
                log.staged[name] = found
        sources = replace(relations.sources, staged={**feeds, **log.names(interval)})
        yield blocks.prepared("", definition.plan, interval, log, sources, stepping)


def _touched_rows(
    plan: Plan, keys: Sequence[Attribute], touched: exp.Query, at: Csn, sources: Sources, stepping: Stepping
) -> exp.Query:
    kept = stepping.touched_state(plan, keys, asked_keys(keys, touched.copy(), at), at, sources) if keys else None
    return touched_rows(plan, keys, touched.copy(), at, sources) if kept is None else kept


def _input_change(
    name: str,
    plan: Plan,
    interval: Interval,
    log: NodeLog,
    sources: Sources,
    stepping: Stepping,
    blocks: Blocks,
) -> InputChange | None:
    ready = blocks.prepared(name, plan, interval, log, sources, stepping)
    if not ready.queries:
        return None
    found = stepping.stage(ready.text(plan.attributes))
    blocks.answered(found.rows, found.bytes())
    return InputChange(found.name, found.retracts) if found.rows else None
