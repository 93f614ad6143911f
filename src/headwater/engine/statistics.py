"""How large the tables are that a change meets: rows, and how many values their keys can have.

Delta answers these questions from its log alone, without reading data. They are asked once in a while, since only the
order of magnitude matters.
"""

from __future__ import annotations

import datetime
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headwater.algebra.grid import WHOLE_NUMBERS, Grid
from headwater.engine.spark import SparkEngine
from headwater.sql.storage import extent_sql

# Types of which the distance between the smallest and the largest value bounds the number of values.
COUNTABLE = WHOLE_NUMBERS | {"date"}
_FRESH_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Extent:
    """Rows of a table, and for some columns how many values there can be at most and, of whole numbers, where."""

    rows: int
    values: Mapping[str, int]
    grids: Mapping[str, Grid] = field(default_factory=dict)


@dataclass(slots=True)
class Statistics:
    engine: SparkEngine
    _known: dict[str, tuple[float, frozenset[str], Extent]] = field(default_factory=dict)

    def extent(self, location: str, columns: Sequence[str]) -> Extent:
        """Of these columns at least; what was asked for before is asked for again with them."""
        asked, before, known = self._known.get(location, (-math.inf, frozenset(), Extent(0, {})))
        if time.monotonic() - asked > _FRESH_SECONDS or not before.issuperset(columns):
            wanted = before.union(columns)
            known = self._ask(location, sorted(wanted))
            self._known[location] = (time.monotonic(), wanted, known)
        return known

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
