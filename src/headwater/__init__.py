"""Incremental materialized views for Spark over Delta Lake tables."""

from headwater.errors import HeadwaterError
from headwater.lake import Lake, connect
from headwater.values import (
    ConstraintStatus,
    LakeStatus,
    RefreshReport,
    RefreshRound,
    TableStatus,
    UnitOfWork,
    Verification,
    ViewStatus,
)

__version__ = "0.1.0"

__all__ = [
    "ConstraintStatus",
    "HeadwaterError",
    "Lake",
    "LakeStatus",
    "RefreshReport",
    "RefreshRound",
    "TableStatus",
    "UnitOfWork",
    "Verification",
    "ViewStatus",
    "__version__",
    "connect",
]
