"""Small tables that stay as they are while others change, held in memory from one step to the next.

A change of facts meets the same customers, suppliers and nations day by day. To read one of them, Delta builds its file
list and Spark opens its files, which takes longer than to go through a few rows. So a table that a second step finds at
the version of an earlier one is persisted. A version of a table never changes, and Spark itself puts what is persisted
in the place of the relation, in every statement of ours that names this version (``engine.versions``); nothing else
needs to know, and nobody else's statements are answered from it. What is held is bounded, goes when the table moves on,
and is Spark's to throw out: then it is read again.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater.engine.versions import Version, Versions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MOST_ROWS = 500_000  # of one table
FEW_ROWS = 200_000  # of a table that goes to every task
MOST_VALUES = 8_000_000  # rows times columns, of all tables together: some hundred megabytes


@dataclass(slots=True)
class _Resident:
    version: Version
    rows: int
    values: int = 0
    held: DataFrame | None = None


class Residents:
    """What is held are frames of ``versions``."""

    def __init__(self, versions: Versions) -> None:
        self._versions = versions
        self._lock = threading.Lock()
        self._known: OrderedDict[str, _Resident] = OrderedDict()  # the last one used comes last

    def met(self, version: Version, rows: int) -> None:
        """A step reads a table of about so many rows, which does not change in it, at a version."""
        location = version.location
        with self._lock:
            known = self._known.get(location)
            if known is None or known.version != version:
                self._let_go(location)
                self._known[location] = _Resident(version, rows)
                return
            self._known.move_to_end(location)
            if known.held is not None and not known.held.storageLevel.useMemory:
                known.held, known.values = None, 0  # with a name that was dropped, Spark lets go of what it stood for
            if known.held is not None or rows > MOST_ROWS:
                return
            frame = self._versions.frame(version)
            if frame is None:
                return
            values = max(1, rows) * len(frame.columns)
            if values <= MOST_VALUES:
                self._make_room(MOST_VALUES - values)
                known.held, known.values = frame.persist(), values

    def holds_few(self, location: str) -> bool:
        """Whether a table is held that is small enough for every task."""
        known = self._known.get(location)
        return known is not None and known.held is not None and known.rows <= FEW_ROWS

    def close(self) -> None:
        with self._lock:
            for location in list(self._known):
                self._let_go(location)

    def _make_room(self, most: int) -> None:
        """Let go of those that were used longest ago until the others have no more values than this."""
        for location in list(self._known):
            if sum(each.values for each in self._known.values()) <= most:
                return
            if self._known[location].values:
                self._let_go(location)

    def _let_go(self, location: str) -> None:
        known = self._known.pop(location, None)
        if known is not None and known.held is not None:
            known.held.unpersist()
