"""How large the tables of a view are: asked once, with all columns that anybody may ask for."""

from __future__ import annotations

from headwater.algebra.plan import Scan
from headwater.context import Context
from headwater.definition import CatalogMoments, Definition
from headwater.engine.statistics import COUNTABLE, Extent


def table_extent(context: Context, definition: Definition, moments: CatalogMoments, scan: Scan) -> Extent:
    """Of a base table, or of a view that is read as one."""
    use = definition.tables.get(scan.table)
    if use is None:
        return context.statistics.extent(context.catalog.view(scan.table).location, [])
    kinds = dict(use.columns)
    columns = [name for name in definition.used_columns(scan.table) if kinds[name] in COUNTABLE]
    return context.statistics.extent(moments.location(scan.table), columns, lambda: _ever_changed(context, scan.table))


def _ever_changed(context: Context, table: str) -> int | None:
    counts = [unit.rows for unit in context.catalog.units(table)]
    return None if None in counts else sum(count or 0 for count in counts)
