"""What the public calls return."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, TypeAlias

Columns: TypeAlias = str | Sequence[str]
"""One column, or several."""


@dataclass(frozen=True, slots=True)
class RefreshReport:
    """What a refresh did. ``mode`` is incremental, full or none; ``reason`` a stable code.

    ``alternatives`` tells how many seconds each way was expected to take, where the policy is to choose by that.
    """

    view: str
    from_csn: int
    csn: int
    mode: str
    reason: str
    rows: int
    seconds: float
    alternatives: dict[str, float] | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class UnitOfWork:
    csn: int
    source: str
    table: str
    version: int
    committed_at: datetime
    operation: str
    rows: int | None

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "committed_at": self.committed_at.isoformat()}


@dataclass(frozen=True, slots=True)
class TableStatus:
    name: str
    location: str
    mode: str
    since_csn: int
    version: int
    problem: dict[str, Any] | None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class ViewStatus:
    """``staleness``: how long, in seconds, the oldest captured change that the view lacks has waited; 0 if none."""

    name: str
    csn: int
    timestamp: datetime | None
    high_water_mark: int
    kept_from: int
    newest_csn: int
    staleness: float
    method: str
    last_mode: str | None
    last_reason: str | None
    problem: dict[str, Any] | None

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "timestamp": self.timestamp.isoformat() if self.timestamp else None}


@dataclass(frozen=True, slots=True)
class LakeStatus:
    location: str
    catalog: str
    newest_csn: int
    tables: tuple[TableStatus, ...]
    views: tuple[ViewStatus, ...]

    def as_dict(self) -> dict[str, Any]:
        return {
            "location": self.location,
            "catalog": self.catalog,
            "newest_csn": self.newest_csn,
            "tables": [table.as_dict() for table in self.tables],
            "views": [view.as_dict() for view in self.views],
        }


@dataclass(frozen=True, slots=True)
class ConstraintStatus:
    """A declared key or foreign key, and what is known of it.

    It is known to hold at every csn from ``held_from`` to ``held_to``; ``broken`` tells the csn at which it was found
    broken and keys that break it. ``kind`` is 'primary key', 'unique' or 'foreign key'.
    """

    name: str
    table: str
    kind: str
    columns: tuple[str, ...]
    referred_table: str | None
    referred_columns: tuple[str, ...] | None
    held_from: int | None
    held_to: int | None
    broken: dict[str, Any] | None

    def __str__(self) -> str:
        text = f"{self.table} {self.kind.upper()} ({', '.join(self.columns)})"
        if self.referred_table is not None:
            text += f" REFERENCES {self.referred_table} ({', '.join(self.referred_columns or ())})"
        return text

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Verification:
    """Whether a constraint holds at a csn; ``looked_at`` its whole 'state' there or the 'changes' up to there."""

    constraint: ConstraintStatus
    csn: int
    holds: bool
    looked_at: str
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        return {
            "constraint": self.constraint.as_dict(),
            "csn": self.csn,
            "holds": self.holds,
            "looked_at": self.looked_at,
            "seconds": self.seconds,
        }
