"""How large the tables are that a change meets: rows, and how many values their keys can have.

Delta answers these questions from its log alone, without reading data. They are asked once in a while, since only the
order of magnitude matters.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headwater.engine.spark import SparkEngine
from headwater.sql.storage import extent_sql

# Types of which the distance between the smallest and the largest value bounds the number of values.
COUNTABLE = frozenset({"tinyint", "smallint", "int", "bigint", "date"})
_FRESH_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Extent:
    """Rows of a table, and for some columns how many values there can be at most."""

    rows: int
    values: Mapping[str, int]


@dataclass(slots=True)
class Statistics:
    engine: SparkEngine
    _known: dict[tuple[str, tuple[str, ...]], tuple[float, Extent]] = field(default_factory=dict)

    def extent(self, location: str, columns: Sequence[str]) -> Extent:
        key = (location, tuple(columns))
        if key not in self._known or time.monotonic() - self._known[key][0] > _FRESH_SECONDS:
            self._known[key] = (time.monotonic(), self._ask(location, columns))
        return self._known[key][1]

    def _ask(self, location: str, columns: Sequence[str]) -> Extent:
        try:
            row = self.engine.compute(extent_sql(location, columns)).collect()[0]  # one row
        except Exception:  # noqa: BLE001 (who reads the table next says what is wrong with it)
            return Extent(0, {})
        values = {}
        for place, name in enumerate(columns):
            low, high = row[1 + 2 * place], row[2 + 2 * place]
            if low is not None:
                distance = high - low
                values[name] = 1 + (distance.days if isinstance(distance, datetime.timedelta) else int(distance))
        return Extent(int(row[0]), values)
