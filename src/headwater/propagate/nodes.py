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

from headwater.algebra.nodes import Aggregate, Node, Top, blocks_of
from headwater.algebra.plan import Attribute, Plan, scans
from headwater.algebra.time import Csn, Interval
from headwater.catalog.records import ViewRecord
from headwater.context import Context
from headwater.definition import CatalogMoments, Definition, carried_rows, carried_totals
from headwater.engine.spark import SparkEngine
from headwater.engine.staging import StagedRows
from headwater.propagate.first_rows import first_rows_needed
from headwater.propagate.stepping import Prepared, Stepping
from headwater.propagate.tree_driver import Blocks
from headwater.sql.carrying import Carried
from headwater.sql.dialect import to_text
from headwater.sql.relations import Sources
from headwater.sql.render import state_relation
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
    alone, rows = [scan.table for scan in scans(definition.plan)], None
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
            own = _Carried(definition, view, name)
            change = _node_change(context, node, own, changes, interval, sources, stepping)
            if change is None:
                continue
            if alone == [name]:
                rows = own.rows_read(node, context.engine, changes)
                relations.inlined[name] = change
                log.inlined.add(name)
            elif (found := stepping.stage(to_text(change))).rows:
                log.staged[name] = found
        sources = replace(relations.sources, staged={**feeds, **log.names(interval)})
        ready = blocks.prepared("", definition.plan, interval, log, sources, stepping)
        yield replace(ready, rows=rows) if log.inlined else ready


@dataclass(frozen=True, slots=True)
class _Carried:
    """What the view's own table has of a node."""

    definition: Definition
    view: ViewRecord
    node: str

    def totals(self, at: Csn) -> exp.Query | None:
        carried = self._carried
        return None if carried is None else carried_totals(carried, self.view, at)

    def rows(self, at: Csn) -> exp.Query | None:
        carried = self._carried
        return None if carried is None else carried_rows(carried, self.view, at)

    def rows_read(self, node: Node, engine: SparkEngine, changes: Sequence[InputChange | None]) -> int | None:
        """What the node's change goes through: its input's and the view's own rows, where nothing else is read."""
        if self._carried is None or not isinstance(node, Aggregate):
            return None
        changed = sum(change.rows for change in changes if change is not None)
        return changed + engine.rows_in(self.view.location, self.view.version)

    @property
    def _carried(self) -> Carried | None:
        carried = self.definition.carried
        return carried if carried is not None and carried.node == self.node else None


def _node_change(
    context: Context,
    node: Node,
    own: _Carried,
    changes: Sequence[InputChange | None],
    interval: Interval,
    sources: Sources,
    stepping: Stepping,
) -> exp.Query | None:
    """A node's change by those of its inputs; None if there is none."""
    match node, changes:
        case _ if all(each is None for each in changes):
            return None
        case Aggregate(sums=sums), [InputChange() as change] if sums is not None:
            touched = changed_keys(node.keys, change)
            before = own.totals(interval.start)
            if before is not None:
                before = touched_totals(node, sums, before, touched)
            else:
                rows = _touched_rows(node.input, node.keys, touched, interval.start, sources, stepping)
                before = totals(sums, node.keys, rows)
            return summed_change(node, sums, interval, change, before)
        case Top(), [InputChange() as change]:
            known = own.rows(interval.start)
            state = state_relation(node.input, interval.start, sources)
            needed = first_rows_needed(context, node, change, known, state, stepping)
            if needed is None:
                return None
            changes, states = [needed.change], [needed.before]
            table = stepping.keep(to_text(touched_keys(node, interval.start, changes)))
            return change_of(node, interval, changes, table, states, sources)
        case _:
            table = stepping.keep(to_text(touched_keys(node, interval.start, changes)))
            touched = staged_rows(table, key_names(node.key(0)))
            states = [
                _touched_rows(plan, node.key(side), touched, interval.start, sources, stepping)
                for side, plan in enumerate(node.inputs)
            ]
            return change_of(node, interval, changes, table, states, sources)


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
    return InputChange(found.name, found.retracts, found.rows) if found.rows else None
