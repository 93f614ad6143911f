"""Where the rows of a base table at a csn are found: a Delta version, or a mirror's version and its log."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from headwater.algebra.time import Csn, Interval
from headwater.catalog.records import MirrorRecord
from headwater.catalog.store import Catalog
from headwater.errors import InvalidInput
from headwater.sql.pinned import PinnedMirror, PinnedTable, pinned_relation


def pinned_table(catalog: Catalog, name: str, csn: Csn) -> PinnedTable | PinnedMirror:
    """A base table at a csn."""
    version = catalog.version_at(name, csn)
    table, mirror = catalog.base_table(name), catalog.mirror(name)
    if mirror is None:
        return PinnedTable(table.location, version)
    require_copy(mirror)
    state = catalog.mirror_state(name, csn)
    exact = not catalog.changed_csns(name, Interval(state.csn, max(state.csn, csn)))
    return PinnedMirror(
        table.location,
        state.version,
        tuple(column for column, _ in table.columns),
        csn if exact else state.csn,
        csn,
        mirror.log_location,
        unique=bool(mirror.described.get("key")),
    )


def require_copy(mirror: MirrorRecord) -> None:
    if mirror.mode == "query":
        raise InvalidInput(
            f"{mirror.name!r} is in mode 'query': nothing of it is copied, so it can't be read as a table of the lake.",
            remedy="Read a view on it, or ask the database itself; track it in mode 'mirror' to have a copy.",
            code="NOT_COPIED",
        )


def table_rows(catalog: Catalog, name: str, csn: Csn, columns: Sequence[str] | None = None) -> exp.Query:
    """The rows of a base table at a csn: all of its columns, or some."""
    return pinned_relation(pinned_table(catalog, name, csn), columns)
