"""Versions of tables that statements name again and again, looked up once.

For every relation that names an older version of a table, Delta reads that table's log anew and works out which files
the version has, before it can choose among them. A step names the same few versions over and over: in the terms of one
statement, in one statement after another, and for one view after another. So each version gets a frame of its own
under a name of its own, which keeps what Delta has found out; a statement names that.

A version of a table never changes, and the table's own id tells it from another table that was put in its place. The id
stands in the frame too: Spark takes plans for equal that read the same path at the same version, whatever table was
there, and would otherwise answer one from what it holds of the other. Names are of one thread, as its session is.
"""

from __future__ import annotations

import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater.sql.dialect import to_text
from headwater.sql.storage import identified_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MOST = 48  # versions that are still known when a step begins


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a table: where that is, and its own id."""

    location: str
    table_id: str
    number: int


class Versions:
    """``session`` gives this thread's session, in which the names stand."""

    def __init__(self, session: Callable[[], SparkSession]) -> None:
        self._session = session
        self._own = threading.local()

    def named(self, version: Version) -> str | None:
        """A name for it; None where it can't be had, which the statement that needs it then tells."""
        found = self._found(version)
        return None if found is None else found[0]

    def frame(self, version: Version) -> DataFrame | None:
        """What stands under its name."""
        found = self._found(version)
        return None if found is None else found[1]

    def _found(self, version: Version) -> tuple[str, DataFrame] | None:
        known = self._known
        if version not in known:
            name = f"__hw_version_{uuid.uuid4().hex}"
            text = to_text(identified_table(version.location, version.number, version.table_id))
            try:
                frame = self._session().sql(text)
                frame.createOrReplaceTempView(name)
            except Exception:  # noqa: BLE001 (classic and Connect raise different ones)
                return None
            known[version] = name, frame
        known.move_to_end(version)
        return known[version]

    def trim(self) -> None:
        """Let go of the versions that were used longest ago; no statement that names them may be about to run."""
        known = self._known
        while len(known) > MOST:
            _, (name, _) = known.popitem(last=False)
            self._session().catalog.dropTempView(name)

    @property
    def _known(self) -> OrderedDict[Version, tuple[str, DataFrame]]:
        """The last one used comes last."""
        if not hasattr(self._own, "known"):
            self._own.known = OrderedDict()
        known: OrderedDict[Version, tuple[str, DataFrame]] = self._own.known
        return known
