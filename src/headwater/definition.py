"""A view's definition: the text, what it meant when it was created, and the plan that follows from both.

The columns of the base tables are frozen at CREATE, so ``SELECT *`` and unqualified names keep their meaning when a
table gains columns; so are the session settings on which expressions depend, such as the time zone. The plan is not
stored: lowering is a function of the text and the frozen columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headwater.algebra.plan import Plan, scans
from headwater.algebra.time import Csn, Interval
from headwater.catalog.records import BaseTable, ViewRecord
from headwater.catalog.store import Catalog
from headwater.errors import InternalError
from headwater.sql.lower import lower
from headwater.sql.relations import Changes
from headwater.sql.storage import PinnedTable, over_tables


@dataclass(frozen=True, slots=True)
class TableUse:
    """A base table as a view sees it."""

    columns: tuple[tuple[str, str], ...]
    mentioned: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Definition:
    text: str
    tables: Mapping[str, TableUse]
    plan: Plan
    settings: Mapping[str, str]

    @classmethod
    def load(cls, view: ViewRecord) -> Definition:
        tables = {
            name: TableUse(tuple((c, t) for c, t in use["columns"]), tuple(use["mentioned"]))
            for name, use in view.definition["tables"].items()
        }
        columns = {name: tuple(c for c, _ in use.columns) for name, use in tables.items()}
        lowered = lower(view.sql, columns, views=frozenset(), functions=None)
        return cls(view.sql, tables, lowered.plan, view.definition["settings"])

    def as_json(self) -> dict[str, Any]:
        return {
            "settings": dict(self.settings),
            "tables": {
                name: {"columns": [list(c) for c in use.columns], "mentioned": list(use.mentioned)}
                for name, use in self.tables.items()
            },
        }

    def at(self, catalog: Catalog, csn: Csn) -> str:
        """The user's own text over the base tables as they were at a csn."""
        versions = catalog.versions_at(self.tables, csn)
        return over_tables(
            self.text,
            {
                name: PinnedTable(catalog.base_table(name).location, versions[name], use.mentioned)
                for name, use in self.tables.items()
            },
        )

    def used_columns(self, table: str) -> tuple[str, ...]:
        found = {c for scan in scans(self.plan) if scan.table == table for c in scan.columns}
        return tuple(name for name, _ in self.tables[table].columns if name in found)


class CatalogMoments:
    """Versions and changes of base tables by csn, as the catalog knows them; read once: the past does not change."""

    def __init__(self, catalog: Catalog, definition: Definition) -> None:
        self._catalog = catalog
        self._definition = definition
        self._tables: dict[str, BaseTable] = {}
        self._versions: dict[tuple[str, Csn], int] = {}
        self._changes: dict[tuple[str, Interval], tuple[tuple[int, Csn], ...]] = {}

    def table(self, name: str) -> BaseTable:
        if name not in self._tables:
            self._tables[name] = self._catalog.base_table(name)
        return self._tables[name]

    def location(self, table: str) -> str:
        return self.table(table).location

    def types(self, table: str) -> Mapping[str, str]:
        return dict(self._definition.tables[table].columns)

    def version(self, table: str, csn: Csn) -> int:
        if (table, csn) not in self._versions:
            self._versions[table, csn] = self._catalog.version_at(table, csn)
        return self._versions[table, csn]

    def _numbered(self, table: str, interval: Interval) -> tuple[tuple[int, Csn], ...]:
        if (table, interval) not in self._changes:
            units = self._catalog.units(table, interval.start, interval.end)
            self._changes[table, interval] = tuple((unit.version, unit.csn) for unit in units)
        return self._changes[table, interval]

    def changes(self, table: str, interval: Interval) -> Changes:
        versions = self._numbered(table, interval)
        if not versions:
            raise InternalError(f"{table} has no changes in {interval}, yet a query asks for them.")
        return Changes(versions)

    def has_changes(self, table: str, interval: Interval) -> bool:
        return bool(self._numbered(table, interval))

    def rows_by_csn(self, table: str, interval: Interval) -> list[tuple[Csn, int]]:
        """Rows changed at each csn, where they are known; ``headwater.propagate.driver`` sees to it that they are."""
        found: dict[Csn, int] = {}
        for unit in self._catalog.units(table, interval.start, interval.end):
            found[unit.csn] = found.get(unit.csn, 0) + (unit.rows or 0)
        return sorted(found.items())

    def known_rows(self, table: str, interval: Interval) -> int | None:
        """Rows changed in the interval; None if a commit did not tell."""
        rows = [unit.rows for unit in self._catalog.units(table, interval.start, interval.end)]
        return None if any(count is None for count in rows) else sum(count or 0 for count in rows)
