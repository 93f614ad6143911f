"""Control state: what is tracked, what was committed when, where each view stands, who drives it.

Small, hot and transactional, in SQLite (a file of the lake) or PostgreSQL. The data itself is in Delta tables.
"""

from headwater.catalog.database import Clock, system_clock
from headwater.catalog.fencing import Held, Lease
from headwater.catalog.records import (
    BaseTable,
    Columns,
    Commit,
    Driver,
    ExecutionRecord,
    JsonObject,
    LakeRecord,
    LeafRecord,
    LeafTime,
    Method,
    Micros,
    QueryListEntry,
    RefreshRecord,
    StepRecord,
    StepState,
    TableMode,
    UnitOfWorkRow,
    ViewRecord,
)
from headwater.catalog.store import Catalog, open_catalog

__all__ = [
    "BaseTable",
    "Catalog",
    "Clock",
    "Columns",
    "Commit",
    "Driver",
    "ExecutionRecord",
    "Held",
    "JsonObject",
    "LakeRecord",
    "LeafRecord",
    "LeafTime",
    "Lease",
    "Method",
    "Micros",
    "QueryListEntry",
    "RefreshRecord",
    "StepRecord",
    "StepState",
    "TableMode",
    "UnitOfWorkRow",
    "ViewRecord",
    "open_catalog",
    "system_clock",
]
