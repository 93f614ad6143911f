"""What the public calls return."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, TypeAlias

from headwater.errors import HeadwaterError

Columns: TypeAlias = str | Sequence[str]
"""One column, or several."""


@dataclass(frozen=True, slots=True)
class RefreshReport:
    """What a refresh did. ``mode`` is incremental, full or none; ``reason`` a stable code.

    ``alternatives`` tells how many seconds each way was expected to take, where the policy is to choose by that.
    ``predicted`` and ``within`` are of a refresh that was asked for within a time, in seconds.
    """

    view: str
    from_csn: int
    csn: int
    mode: str
    reason: str
    rows: int
    seconds: float
    alternatives: dict[str, float] | None = None
    predicted: float | None = None
    within: float | None = None

    @property
    def met(self) -> bool | None:
        """Whether it took no longer than asked for; None if nothing was."""
        return None if self.within is None else self.seconds <= self.within

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "met": self.met}


@dataclass(frozen=True, slots=True)
class RefreshRound:
    """Several views that were brought to one csn; ``failed``: those that could not be, each with what kept it back."""

    csn: int
    reports: tuple[RefreshReport, ...]
    failed: Mapping[str, HeadwaterError]

    def as_dict(self) -> dict[str, Any]:
        failed = {name: error.as_dict() for name, error in self.failed.items()}
        return {"csn": self.csn, "views": [each.as_dict() for each in self.reports], "failed": failed}


@dataclass(frozen=True, slots=True)
class UnitOfWork:
    csn: int
    source: str
    table: str
    version: int
    committed_at: datetime
    operation: str
    rows: int | None
    transaction: str | None = None

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
    source: str | None = None
    """Of a table that is kept by a source's changes: which."""
    waiting: tuple[dict[str, Any], ...] = ()
    """What its source waits for, and why."""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class PromiseStatus:
    """What is promised of a view, and whether a refresh now would keep it; seconds, None where nothing is known.

    ``state`` is kept, at risk, broken, or unknown before anything was measured; ``outlook`` says
    why and what is to come.
    """

    response_time: float | None
    max_staleness: float | None
    policy: str
    priority: int
    state: str
    predicted: float | None = None
    floor: float | None = None
    outlook: str | None = None


@dataclass(frozen=True, slots=True)
class ViewStatus:
    """``staleness``: how long, in seconds, the oldest captured change that the view lacks has waited; 0 if none.

    ``promise`` is None for a view of which nothing is promised.
    ``measured``: how long updates took to reach the view, on average over its last refreshes; None before any did.
    """

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
    promise: PromiseStatus | None = None
    layout: str = "current"
    measured: MeasuredStaleness | None = None

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "timestamp": self.timestamp.isoformat() if self.timestamp else None}


@dataclass(frozen=True, slots=True)
class MeasuredStaleness:
    """``vs`` = ``s1`` + ``s2``, in seconds, averaged over ``updates``: from the commit to the begin of the refresh that
    took it in, and from there to its end."""

    updates: int
    s1: float
    s2: float
    vs: float
    worst: float


@dataclass(frozen=True, slots=True)
class ChunkPrediction:
    chunk_size: int
    s1: float
    s2: float
    vs: float


@dataclass(frozen=True, slots=True)
class MeasuredRefresh:
    """A refresh that brought updates into a view; ``vs`` of these on average."""

    csn: int
    installed_at: datetime
    updates: int
    seconds: float
    s1: float
    s2: float
    vs: float


@dataclass(frozen=True, slots=True)
class StalenessReport:
    """The updates arrived over ``arrived_over`` seconds; of ``predicted``, by falling size, ``advised`` is the best."""

    view: str
    measured: MeasuredStaleness | None
    arrived_over: float
    refreshes: tuple[MeasuredRefresh, ...]
    predicted: tuple[ChunkPrediction, ...]
    advised: ChunkPrediction | None

    def as_dict(self) -> dict[str, Any]:
        refreshes = [{**asdict(each), "installed_at": each.installed_at.isoformat()} for each in self.refreshes]
        return {**asdict(self), "refreshes": refreshes}


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
class Release:
    """A csn at which all views can be read together; ``versions`` gives the Delta version of each view's table."""

    csn: int
    published_at: datetime
    versions: dict[str, int]
    tags: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "published_at": self.published_at.isoformat()}


@dataclass(frozen=True, slots=True)
class RetentionReport:
    """What is to be kept: the newest ``count`` releases, the past ``age`` seconds, releases with ``tags`` (None: any).

    ``kept_from`` and ``pinned``: which csns the last collection left readable, all from one on and single older ones;
    ``readers`` are the open snapshots.
    """

    count: int
    age: float
    tags: tuple[str, ...] | None
    kept_from: int
    pinned: tuple[int, ...]
    readers: tuple[ReaderStatus, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "readers": [reader.as_dict() for reader in self.readers]}


@dataclass(frozen=True, slots=True)
class ReaderStatus:
    csn: int
    holder: str
    opened_at: datetime
    expires_at: datetime

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "opened_at": self.opened_at.isoformat(), "expires_at": self.expires_at.isoformat()}


@dataclass(frozen=True, slots=True)
class CollectionReport:
    """What a garbage collection did: ``views`` were swept, ``busy`` ones of files only; ``releases`` are no more."""

    kept_from: int
    pinned: tuple[int, ...]
    releases: tuple[int, ...]
    views: tuple[str, ...]
    busy: tuple[str, ...]
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


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
