"""By which column a view's table is kept in order, so that a change of few keys meets few of its files.

A change of a base table comes with keys that lie near one another more often than not: new orders have the highest
numbers, yesterday's shipments one date. Of the columns that a view takes from its tables as they are, the one with the
most values has the shortest range of them in each file. A view that is small by the sizes of its tables is written anew
when it changes, and needs no order; one that is recomputed neither.

The user's CLUSTER BY comes first.
"""

from __future__ import annotations

from collections.abc import Callable

from headwater.algebra.nodes import origin
from headwater.algebra.plan import Scan
from headwater.catalog.records import Columns
from headwater.context import Context
from headwater.definition import CatalogMoments, Definition
from headwater.engine.statistics import COUNTABLE, Extent
from headwater.propagate.extents import table_extent
from headwater.sql.ordering import in_order_sql

# Delta has statistics of a table's first 32 columns, and some are ours; a struct counts as all its fields.
_INDEXED = 28
_FILE_BYTES = 16 * 2**20  # of rows as Spark shuffles them: some 250,000 rows of a wide view
_ROWS_A_PART = 100_000
_MOST_PARTS = 2_000


def kept_order(
    context: Context, definition: Definition, columns: Columns, wanted: tuple[str, ...]
) -> tuple[tuple[str, ...], int]:
    """By what to keep a view in order, ``wanted`` first, and how many rows it may have."""
    if definition.recomputed is not None:
        return wanted, 0
    moments = CatalogMoments(context.catalog, definition)
    extents = {scan.alias: table_extent(context, definition, moments, scan) for scan in definition.leaves}
    own = clustering_of(definition, columns, lambda scan: extents[scan.alias], context.sizes.small_view)
    rows = max((extent.rows for extent in extents.values()), default=0)
    return wanted or ((own,) if own is not None else ()), rows


def clustering_of(definition: Definition, columns: Columns, extent: Callable[[Scan], Extent], small: int) -> str | None:
    """The column by which to keep a view in order; None where it would not help."""
    found: list[tuple[int, int, str]] = []
    nested = next((place for place, (_, kind) in enumerate(columns) if "<" in kind), len(columns))
    for place, (name, kind) in enumerate(columns[: min(nested, _INDEXED)]):
        if kind not in COUNTABLE or not name.isidentifier():
            continue
        source = origin(definition.plan, definition.plan.attributes[place], definition.nodes)
        if source is not None and source[0].table in definition.tables:
            values = extent(source[0]).values.get(source[1], 0)
            found.append((values, -place, name))
    values, _, name = max(found, default=(0, 0, ""))
    return name if values > small else None


def ordered_text(text: str, cluster_by: tuple[str, ...]) -> str:
    return in_order_sql(text, cluster_by[0]) if cluster_by else text


def order_settings(cluster_by: tuple[str, ...], rows: int) -> dict[str, str]:
    """What Spark needs to cut a table of about so many rows into files by its key, neither large nor tiny."""
    if not cluster_by:
        return {}
    parts = max(1, min(_MOST_PARTS, rows // _ROWS_A_PART))
    return {
        "spark.sql.adaptive.coalescePartitions.initialPartitionNum": str(parts),
        "spark.sql.adaptive.advisoryPartitionSizeInBytes": str(_FILE_BYTES),
    }
