"""Versions of tables that statements name again and again, looked up once.

For every relation that names an older version of a table, Delta reads that table's log anew and works out which files
the version has, before it can choose among them. A step names the same few versions over and over: in the terms of one
statement, in one statement after another, and for one view after another. So each version gets a frame of its own
under a name of its own, which keeps what Delta has found out; a statement names that.

A version of a table never changes, and the table's own id tells it from another table that was put in its place. Names
are of one thread, as its session is.
"""

from __future__ import annotations

import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from headwater.sql.dialect import to_text
from headwater.sql.storage import table_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST = 48  # versions that are still known when a step begins

_Version: TypeAlias = tuple[str, str, int]
"""Where a table is, its id, and the version."""


class Versions:
    """``session`` gives this thread's session, in which the names stand."""

    def __init__(self, session: Callable[[], SparkSession]) -> None:
        self._session = session
        self._own = threading.local()

    def named(self, location: str, table_id: str, version: int) -> str | None:
        """A name for a version of a table; None where it can't be had, which the statement that needs it then tells."""
        known, key = self._known, (location, table_id, version)
        if key not in known:
            name = f"__hw_version_{uuid.uuid4().hex}"
            try:
                self._session().sql(to_text(table_at(location, version))).createOrReplaceTempView(name)
            except Exception:  # noqa: BLE001 (classic and Connect raise different ones)
                return None
            known[key] = name
        known.move_to_end(key)
        return known[key]

    def trim(self) -> None:
        """Let go of the versions that were used longest ago; no statement that names them may be about to run."""
        known = self._known
        while len(known) > MOST:
            _, name = known.popitem(last=False)
            self._session().catalog.dropTempView(name)

    @property
    def _known(self) -> OrderedDict[_Version, str]:
        """The last one used comes last."""
        if not hasattr(self._own, "known"):
            self._own.known = OrderedDict()
        known: OrderedDict[_Version, str] = self._own.known
        return known
