"""The tables of a view: made, and written whole in one commit, when it is created and when it is recomputed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.algebra.time import Csn
from headwater.apply import timeline
from headwater.apply.clustering import order_settings, ordered_text
from headwater.catalog.records import Columns, Layout
from headwater.context import Context
from headwater.definition import CatalogMoments, Definition
from headwater.engine.spark import CommitTag, Written
from headwater.propagate.states import whole_states
from headwater.sql.dialect import to_text
from headwater.sql.pruning import KEEP_ALL
from headwater.sql.relations import COUNT, CSN
from headwater.sql.render import named_state
from headwater.sql.storage import add_constraint_sql, counted_sql, create_table_sql
from headwater.sql.timeline import beginning_sql


@dataclass(frozen=True, slots=True)
class ViewTable:
    """A view's own table: where it is, what it holds, in which order and layout."""

    location: str
    stored: Columns
    cluster_by: tuple[str, ...]
    layout: Layout


def write_whole(
    context: Context,
    definition: Definition,
    table: ViewTable,
    csn: Csn,
    tag: CommitTag,
    doing: str,
    *,
    rows: int,
    anew: bool = False,
) -> Written | None:
    """Compute a view from its tables at a csn; ``rows``: about how many it has, ``anew``: in place of what is there.

    Where that is a small view it is not put in order: Spark would compute the rows twice, first to see where their keys
    lie, and a small view is written anew whatever changes.
    """
    names = [name for name, _ in table.stored]
    cluster_by = () if anew and rows <= context.sizes.small_view else table.cluster_by
    order = order_settings(cluster_by, rows)
    with whole_states(context, definition, csn), context.engine.under({**definition.settings, **order}):
        text = _stored_text(table.layout, _full_text(context, definition, names, csn), names, csn)
        frame = context.engine.compute(ordered_text(text, cluster_by))
        return context.engine.append(frame, table.location, tag, doing, mode="overwrite" if anew else "append")


def _full_text(context: Context, definition: Definition, names: Sequence[str], csn: Csn) -> str:
    """The view from scratch at a csn, all that is stored of it.

    By the user's own text, unless ties are broken and must be as they will be when it changes, or there are hidden
    columns.
    """
    if not definition.breaks_ties and definition.carried is None:
        return definition.at(context.catalog, csn)
    sources = CatalogMoments(context.catalog, definition).sources(csn)
    return to_text(named_state(definition.plan, names, csn, sources))


def _stored_text(layout: Layout, text: str, names: Sequence[str], csn: Csn) -> str:
    """What a table of a layout holds of a view just computed, from a query that gives the view's rows at a csn."""
    return beginning_sql(text, names, csn) if layout == "timeline" else counted_sql(text, names)


def create_view_table(context: Context, table: ViewTable) -> None:
    location, columns, cluster_by = table.location, table.stored, table.cluster_by
    properties = {"delta.enableDeletionVectors": "true", **KEEP_ALL, **_name_mapping(columns)}
    if table.layout == "timeline":
        timeline.create_timeline(context, location, columns, cluster_by, properties)
    else:
        text = create_table_sql(location, columns, bookkeeping=[COUNT], cluster_by=cluster_by, properties=properties)
        context.engine.run(text, f"creating {location}")
    # A count that would fall to zero or below is a wrong view: Delta refuses the commit.
    context.engine.run(add_constraint_sql(location, "hw_positive", f"{COUNT} > 0"), f"guarding {location}")


def create_delta_table(context: Context, location: str, columns: tuple[tuple[str, str], ...]) -> None:
    # Rows are looked for by their csn alone, and Delta's statistics of a wide row take longer than to write it.
    bookkeeping = [CSN, COUNT]
    properties = {"delta.dataSkippingNumIndexedCols": str(len(bookkeeping)), **KEEP_ALL, **_name_mapping(columns)}
    text = create_table_sql(location, columns, bookkeeping=bookkeeping, cluster_by=(), properties=properties)
    context.engine.run(text, f"creating {location}")


def _name_mapping(columns: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """Delta stores names such as ``(a + 1)`` only with column mapping."""
    plain = all(not set(name) & set(" ,;{}()\n\t=") for name, _ in columns)
    return {} if plain else {"delta.columnMapping.mode": "name"}
