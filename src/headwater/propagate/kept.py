"""What a step keeps while it computes, under names; how large it and all else is; and where its keys lie.

Changes are computed once and kept: those of leaves without rows that the block's own conditions leave out and without
what cancels out, what there is so far before each large table, the changes of nodes, and keys that are asked for. All
of it goes when the step's stack is closed. ``headwater.propagate.stepping`` decides what is kept when.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from sqlglot import exp

from headwater.algebra.grid import Grid
from headwater.algebra.nodes import Aggregate, origin, scans_below
from headwater.algebra.plan import Attribute, Plan, Scan, scans
from headwater.algebra.time import Interval
from headwater.context import Context, Sizes
from headwater.definition import CatalogMoments, Definition
from headwater.engine.spark import MOST_FEW
from headwater.engine.staging import Key, Spread, StagedRows
from headwater.engine.statistics import Extent
from headwater.propagate.extents import table_extent
from headwater.propagate.frontier import ChangeLog
from headwater.propagate.join_order import InputSize
from headwater.sql.dialect import to_text
from headwater.sql.plain_types import is_plain_type
from headwater.sql.relations import Staged, changes_of

LeafChange: TypeAlias = tuple[str, Interval]
"""Changes in an interval, of a table or of a leaf by its alias."""


class CountedLog(Protocol):
    def known_rows(self, name: str, interval: Interval) -> int | None: ...


class StepLog(CountedLog, ChangeLog, Protocol):
    """What changed, and how much."""


def few(rows: int | None, sizes: Sizes) -> bool:
    """Whether a change is known to be small enough for every task."""
    return rows is not None and rows <= sizes.broadcast


@dataclass(frozen=True, slots=True)
class Meeting:
    """A column of what is kept that equals a key of a large table, told by its ``attribute``; ``nulls``: NULL too."""

    column: str
    grid: Grid
    attribute: Attribute
    key: str
    nulls: bool

    @property
    def spread(self) -> Spread:
        return self.column, self.grid


class Kept:
    """Of one view's step; what it keeps is let go with ``stack``."""

    def __init__(
        self, context: Context, definition: Definition, moments: CatalogMoments, log: StepLog, stack: ExitStack
    ) -> None:
        self._context = context
        self.sizes = context.sizes
        self._definition = definition
        self._moments = moments
        self._log = log
        self.stack = stack
        self._steps = 0
        self.stages: dict[str, StagedRows] = {}  # names in plans that stand for changes that are kept
        self.kept: dict[LeafChange, int] = {}  # rows of the leaves' changes that are kept, by the names of these
        self.spans: dict[tuple[str, Meeting], exp.Expr] = {}  # where the keys of what is kept under a name lie
        self._names: dict[str, list[object]] = {}

    # ------------------------------------------------------------------ sizes

    def known_rows(self, name: str, interval: Interval) -> int | None:
        """Rows of a change by what was kept, else by the log."""
        return self.stages[name].rows if name in self.stages else self._log.known_rows(name, interval)

    def extent(self, scan: Scan) -> Extent:
        uses = self._definition.tables
        if scan.table in self.stages:
            return Extent(self.stages[scan.table].rows, {})
        if scan.table in uses or scan.table in self._definition.views:
            return table_extent(self._context, self._definition, self._moments, scan)
        below = [self.extent(each) for each in scans_below(scan.table, self._definition.nodes)]
        return Extent(max((each.rows for each in below), default=1), {})

    def grid(self, scan: Scan, attribute: Attribute) -> Grid | None:
        """Where the values of a large table's column lie, also where it is read through a node."""
        found = origin(scan, attribute, self._definition.nodes)
        if found is None or found[0].table in self._definition.views:
            return None
        extent = self.extent(found[0])
        return extent.grids.get(found[1]) if extent.rows >= self.sizes.large_table else None

    def size(self, plan: Plan) -> InputSize:
        if not isinstance(plan, Scan):
            return InputSize(sum(self.extent(scan).rows for scan in scans(plan)))
        extent = self.extent(plan)
        pairs = zip(plan.columns, plan.attributes, strict=True)
        values = {attribute: extent.values[name] for name, attribute in pairs if name in extent.values}
        node = self._definition.nodes.get(plan.table)
        if isinstance(node, Aggregate):
            values |= dict.fromkeys(node.keys, extent.rows)
        return InputSize(extent.rows, values)

    def is_large(self, size: InputSize) -> bool:
        return size.rows >= self.sizes.large_table

    # ------------------------------------------------------------------ under names

    def is_derived(self, scan: Scan) -> bool:
        return scan.table in self._definition.nodes or scan.table in self._definition.views

    def is_kept(self, scan: Scan) -> bool:
        """Whether the changes are those of a node or a stage, which are kept already."""
        return scan.table in self._definition.nodes or scan.table in self.stages

    def is_plain(self, scan: Scan) -> bool:
        return all(is_plain_type(self._definition.type_of(scan.table, name) or "") for name in scan.columns)

    def keep(self, text: str) -> str:
        """Rows that are no changes, kept under a name."""
        return self.stack.enter_context(self._context.engine.staging.rows(text))

    def stage(self, text: str, spreads: Sequence[Spread] = ()) -> StagedRows:
        return self.stack.enter_context(self._context.engine.staging.changes(text, spreads))

    def stage_leaves(
        self,
        texts: Mapping[Key, str],
        spreads: Mapping[Key, Sequence[Spread]] | None = None,
        *,
        rows: int | None = None,
    ) -> dict[Key, StagedRows]:
        """``rows``: of all changes together, if that is known."""
        engine = self._context.engine
        are_few = rows is not None and rows <= MOST_FEW
        with engine.for_rows(rows):
            return self.stack.enter_context(engine.staging.leaf_changes(texts, spreads, few=are_few))

    def stage_feeds(self, feeds: Iterable[LeafChange]) -> Staged:
        """Keep the changes of base tables that are read more than once: no relation is as dear to plan as a feed."""
        texts = {
            (table, interval): self._feed(table, interval, self._definition.used_columns(table))
            for table, interval in feeds
            if few(self._moments.known_rows(table, interval), self.sizes)
        }
        rows = sum(self._moments.known_rows(*feed) or 0 for feed in texts)
        return {feed: kept.name for feed, kept in self.stage_leaves(texts, rows=rows).items()}

    def shared_feeds(self, interval: Interval) -> Staged:
        """Those that other views of the round read too."""
        sharing = self._context.sharing
        if sharing is None:
            return {}
        changed = [table for table in self._definition.tables if self._moments.has_changes(table, interval)]
        small = [table for table in changed if few(self._moments.known_rows(table, interval), self.sizes)]
        used = {table: self._definition.used_columns(table) for table in small}

        def stage(columns: Mapping[str, Sequence[str]]) -> dict[str, str]:
            texts = {table: self._feed(table, interval, names) for table, names in columns.items()}
            found = sharing.stack.enter_context(self._context.engine.staging.leaf_changes(texts))
            return {table: rows.name for table, rows in found.items()}

        try:
            return sharing.feeds_of(used, interval, stage)
        except Exception as error:  # noqa: BLE001 (a column that another view reads may be gone)
            self._context.progress(f"changes are not shared with other views: {error}")
            sharing.give_up_feeds(small, interval)
            return {}

    def _feed(self, table: str, interval: Interval, columns: Sequence[str]) -> str:
        return to_text(changes_of(table, interval, columns, self._moments))

    def next_name(self) -> str:
        self._steps += 1
        return f"step#{self._steps}"

    def named(self, alias: str, rows: object) -> str:
        """A name for some rows of a leaf; ``rows`` says which.

        A leaf may stand in several products of a union, and by the conditions of each other rows of it take part.
        """
        known = self._names.setdefault(alias, [])
        if rows not in known:
            known.append(rows)
        return f"{alias}#{known.index(rows) + 1}"

    def kept_rows(self, scan: Scan, interval: Interval) -> int | None:
        """Rows of a leaf's changes that are kept, under all their names; None if none are."""
        names = [f"{scan.alias}#{number + 1}" for number in range(len(self._names.get(scan.alias, ())))]
        found = [self.kept[name, interval] for name in names if (name, interval) in self.kept]
        return sum(found) if found else None
