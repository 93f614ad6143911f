"""Columns that were added, dropped or renamed after the last change of a table's rows.

Such a commit has no csn, so at the newest csn a table is read with the columns of before. A view that is created then
would not know the new columns, and would fail at its first refresh for the old ones. So it is not made, and who creates
it is told what to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headwater.algebra.time import Csn
from headwater.context import Context
from headwater.definition import Definition
from headwater.engine.failures import reading_table
from headwater.errors import SchemaChanged
from headwater.sql.dialect import to_text
from headwater.sql.storage import table_at


def require_columns_that_stay(context: Context, definition: Definition, csn: Csn) -> None:
    """Refuse a view on columns that are gone already, or of another type."""
    for table, use in definition.tables.items() if definition.recomputed is None else ():
        later = _later_columns(context, table, csn)
        used = [column for column in use.columns if column[0] in definition.used_columns(table)]
        gone = [name for name, kind in used if later is not None and later.get(name) != kind]
        if gone:
            raise _changed(context, table, f"{', '.join(gone)} of {table!r} was dropped, renamed or retyped")


def require_no_later_columns(context: Context, tables: Mapping[str, Iterable[tuple[str, str]]], csn: Csn) -> None:
    """Say of a text that names an unknown column that a table may have it by now."""
    for table, columns in tables.items():
        later = _later_columns(context, table, csn)
        new = sorted((later or {}).keys() - {name for name, _ in columns})
        if new:
            raise _changed(context, table, f"{', '.join(new)} of {table!r} was added or renamed")


def _later_columns(context: Context, name: str, csn: Csn) -> dict[str, str] | None:
    """The columns of a table at the newest version that capture has seen; None where the csn means that version."""
    table, version = context.catalog.base_table(name), context.catalog.version_at(name, csn)
    if table.captured_version <= version or context.catalog.mirror(name) is not None:
        return None
    with reading_table(name, table.captured_version, f"reading the columns of {name}"):
        frame = context.engine.query(to_text(table_at(table.location, table.captured_version)))
        return dict(context.engine.columns(frame))


def _changed(context: Context, table: str, what: str) -> SchemaChanged:
    return SchemaChanged(
        f"{what} after the last change of its rows, and is not at a csn yet.",
        table=table,
        version=context.catalog.base_table(table).captured_version,
        remedy=f"Change a row of the table, or start over with lake.resync({table!r}) (headwater resync {table}); "
        "that recomputes the views on it. Then create the view again.",
    )
