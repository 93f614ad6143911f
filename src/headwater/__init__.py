"""Incremental materialized views for Spark over Delta Lake tables."""

from headwater.errors import HeadwaterError
from headwater.lake import Lake, connect
from headwater.values import LakeStatus, RefreshReport, TableStatus, UnitOfWork, ViewStatus

__version__ = "0.1.0"

__all__ = [
    "HeadwaterError",
    "Lake",
    "LakeStatus",
    "RefreshReport",
    "TableStatus",
    "UnitOfWork",
    "ViewStatus",
    "__version__",
    "connect",
]
