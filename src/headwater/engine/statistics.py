"""How large the tables are that a change meets: rows, and how many values their keys can have.

Delta answers these questions from its log alone, without reading data. They are asked once in a while, since only the
order of magnitude matters, and not again before the table may have outgrown it.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from headwater.algebra.grid import WHOLE_NUMBERS, Grid
from headwater.engine.spark import SparkEngine
from headwater.sql.storage import extent_sql

# Types of which the distance between the smallest and the largest value bounds the number of values.
COUNTABLE = WHOLE_NUMBERS | {"date"}
_FRESH_SECONDS = 600.0
_OUTGROWN = 0.1  # of the rows: of a table of which fewer have changed, the answers hold for longer


@dataclass(frozen=True, slots=True)
class Extent:
    """Rows of a table, and for some columns how many values there can be at most and, of whole numbers, where."""

    rows: int
    values: Mapping[str, int]
    grids: Mapping[str, Grid] = field(default_factory=dict)


def _unknown() -> None:
    """How many rows have changed, where nobody counts."""


@dataclass(frozen=True, slots=True)
class _Known:
    """An answer: when it was asked for (``time.monotonic``), after how many changed rows, and of which columns."""

    asked: float
    changed: int | None
    columns: frozenset[str]
    extent: Extent

    def still_holds(self, changed: int | None) -> bool:
        if changed is None or self.changed is None:
            return False
        return 0 <= changed - self.changed <= _OUTGROWN * self.extent.rows


@dataclass(slots=True)
class Statistics:
    engine: SparkEngine
    _known: dict[str, _Known] = field(default_factory=dict)

    def extent(self, location: str, columns: Sequence[str], changed: Callable[[], int | None] = _unknown) -> Extent:
        """Of these columns at least; what was asked for before is asked for again with them.

        ``changed`` says how many rows of the table have ever changed, if that is known.
        """
        known = self._known.get(location)
        if known is not None and known.columns.issuperset(columns):
            if time.monotonic() - known.asked <= _FRESH_SECONDS:
                return known.extent
            if known.still_holds(changed()):
                self._known[location] = replace(known, asked=time.monotonic())
                return known.extent
        wanted = frozenset(columns).union(known.columns if known is not None else ())
        found = _Known(time.monotonic(), changed(), wanted, self._ask(location, sorted(wanted)))
        self._known[location] = found
        return found.extent

    def forget(self, location: str) -> None:
        """Ask for a table's extent again when it is next needed: it may have grown."""
        self._known.pop(location, None)

    def _ask(self, location: str, columns: Sequence[str]) -> Extent:
        try:
            row = self.engine.compute(extent_sql(location, columns)).collect()[0]  # one row
        except Exception:  # noqa: BLE001 (who reads the table next says what is wrong with it)
            return Extent(0, {})
        values, grids = {}, {}
        for place, name in enumerate(columns):
            low, high = row[1 + 2 * place], row[2 + 2 * place]
            if low is not None:
                distance = high - low
                values[name] = 1 + (distance.days if isinstance(distance, datetime.timedelta) else int(distance))
                grid = Grid.over(low, high) if isinstance(low, int) else None
                if grid is not None:
                    grids[name] = grid
        return Extent(int(row[0]), values, grids)
