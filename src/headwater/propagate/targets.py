"""How far the next step of a view takes each of its leaves: what ``width`` decides, from what the catalog knows."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.algebra.nodes import adds_up, blocks_of
from headwater.algebra.plan import Scan
from headwater.algebra.product import products
from headwater.algebra.time import Csn, Interval
from headwater.catalog.records import LeafRecord
from headwater.context import Context
from headwater.definition import CatalogMoments, Definition
from headwater.propagate.extents import table_extent
from headwater.propagate.frontier import Frontier
from headwater.propagate.width import (
    ByCsn,
    ByRows,
    Changing,
    Unlimited,
    Width,
    interval_end,
    next_targets,
    paired_end,
)


def step_targets(context: Context, definition: Definition, leaves: list[LeafRecord], to: Csn) -> tuple[Csn, ...]:
    """Where the leaves stand after the next step on the way to ``to``."""
    moments = CatalogMoments(context.catalog, definition)
    widths = [width_of(leaf) for leaf in leaves]
    for leaf, width in zip(leaves, widths, strict=True):
        if isinstance(width, ByRows):
            for table in moments.base_tables(leaf.table):
                count_rows(context, table, Interval(leaf.time, max(leaf.time, to)))
    if definition.nodes:
        most = None if adds_up(definition.nodes.values()) else context.sizes.csns
        targets = _together(leaves, to, widths, moments, most)
    else:
        targets = next_targets(definition.plan, frontier_of(leaves), to, widths, moments)
    return _paired(context, definition, leaves, targets, moments)


def within_limits(
    context: Context, definition: Definition, leaves: list[LeafRecord], wanted: Sequence[Csn]
) -> tuple[Csn, ...]:
    """Targets that somebody chose, or nearer ones where one step would have too much to do."""
    moments = CatalogMoments(context.catalog, definition)
    targets = tuple(wanted)
    if definition.nodes and not adds_up(definition.nodes.values()):
        unlimited: list[Width] = [Unlimited() for _ in leaves]
        targets = _together(leaves, max(targets), unlimited, moments, context.sizes.csns)
    return _paired(context, definition, leaves, targets, moments)


def _together(
    leaves: list[LeafRecord], to: Csn, widths: list[Width], moments: CatalogMoments, most: int | None
) -> tuple[Csn, ...]:
    """A node's change is from one moment to another: all leaves go as far as the narrowest width allows.

    And over ``most`` csns at which something changed.
    """
    end = min(
        interval_end(leaf.table, Interval(leaf.time, to), width, moments)
        for leaf, width in zip(leaves, widths, strict=True)
    )
    if most is not None:
        changed = {csn for leaf in leaves for csn, _ in moments.rows_by_csn(leaf.table, Interval(leaf.time, end))}
        end = min([end, *sorted(changed)[most - 1 : most]])
    return tuple(end for _ in leaves)


def _paired(
    context: Context,
    definition: Definition,
    leaves: list[LeafRecord],
    targets: tuple[Csn, ...],
    moments: CatalogMoments,
) -> tuple[Csn, ...]:
    """The targets, or nearer ones where changes of few keys would be paired too often."""
    changed = {
        leaf.alias: moments.rows_by_csn(leaf.table, Interval(leaf.time, target))
        for leaf, target in zip(leaves, targets, strict=True)
    }
    joined = [
        [scan for scan in product.scans if scan.table in definition.tables and changed[scan.alias]]
        for plan in blocks_of(definition.plan, definition.nodes)
        for product in products(plan)
    ]

    def nearest() -> Csn:
        return min([max(targets), *(end(scans) for scans in joined if len(scans) > 1)])

    def end(scans: list[Scan]) -> Csn:
        sizes = [table_extent(context, definition, moments, scan).rows for scan in scans]
        found = [Changing(rows, changed[scan.alias]) for scan, rows in zip(scans, sizes, strict=True)]
        return paired_end(found, max(targets), context.sizes.pairs)

    if nearest() == max(targets):
        return targets
    for table in definition.tables:
        context.statistics.forget(moments.location(table))  # that it has grown meanwhile is no reason
    limit = nearest()
    return tuple(max(leaf.time, min(target, limit)) for leaf, target in zip(leaves, targets, strict=True))


def frontier_of(leaves: list[LeafRecord]) -> Frontier:
    return Frontier(tuple(leaf.time for leaf in leaves))


def width_of(leaf: LeafRecord) -> Width:
    match leaf.width_kind:
        case "rows":
            return ByRows(leaf.width_value or 1)
        case "csn":
            return ByCsn(leaf.width_value or 1)
        case _:
            return Unlimited()


def count_rows(context: Context, table: str, interval: Interval) -> None:
    """Have the number of changed rows of every commit in the interval in the catalog."""
    record = context.catalog.base_table(table)
    units = context.catalog.units(table, interval.start, interval.end)
    # Before a table was begun anew, its versions were of another.
    unknown = [unit for unit in units if unit.rows is None and unit.csn >= record.since_csn]
    if unknown:
        counted = context.source.changed_rows(table, record.location, [unit.version for unit in unknown])
        for unit in unknown:
            context.catalog.set_rows(table, unit.version, counted.get(unit.version, 0))
