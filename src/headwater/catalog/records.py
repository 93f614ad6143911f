"""What the catalog's rows look like to the rest of Headwater: plain values, compared by content."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from headwater.algebra.constraints import Constraint
from headwater.algebra.plan import LeafId
from headwater.algebra.time import BEGINNING, Csn, Interval

JsonObject: TypeAlias = dict[str, Any]
Micros: TypeAlias = int  # microseconds since 1970, UTC
TableMode: TypeAlias = Literal["versioned", "live"]
Method: TypeAlias = Literal["frontier", "propagate", "rolling"]
Driver: TypeAlias = Literal["propagate", "apply", "create", "drop"]
CostKind: TypeAlias = Literal["capture", "propagate", "apply", "recompute"]
StepState: TypeAlias = Literal["intended", "done"]
Layout: TypeAlias = Literal["current", "timeline"]
Columns: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class LakeRecord:
    lake_id: str
    schema_version: int
    created_at: Micros


@dataclass(frozen=True, slots=True)
class BaseTable:
    """At ``since_csn`` the table stood at ``since_version``; every commit up to ``captured_version`` is numbered.

    ``captured_at`` is the source's own timestamp of that commit, by which a recreated table is noticed.
    """

    name: str
    location: str
    table_uuid: str
    columns: Columns
    mode: TableMode
    since_csn: Csn
    since_version: int
    captured_version: int
    captured_at: Micros
    problem: JsonObject | None = None


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit of a table that capture has seen and wants numbered."""

    table: str
    version: int
    committed_at: Micros
    operation: str
    rows: int | None = None
    source: str | None = None
    """None for Delta's own commits."""
    transaction: str | None = None


@dataclass(frozen=True, slots=True)
class UnitOfWorkRow:
    """``committed_at`` never falls as csn grows, and is one moment for all rows of a unit of work."""

    csn: Csn
    table: str
    version: int
    committed_at: Micros
    operation: str
    rows: int | None
    source: str | None = None
    transaction: str | None = None


@dataclass(frozen=True, slots=True)
class ConstraintRecord:
    """``held``: known to hold at every csn of it, its start included; ``broken``: by what, and ``csn`` since when."""

    name: str
    constraint: Constraint
    created_at: Micros
    held: Interval | None = None
    broken: JsonObject | None = None


@dataclass(frozen=True, slots=True)
class ViewRecord:
    """The view's table holds the view at ``csn`` in its Delta version ``version``; it can go back to ``kept_from``."""

    name: str
    view_id: str
    sql: str
    definition: Any
    columns: Columns
    options: JsonObject
    cluster_by: tuple[str, ...]
    location: str
    delta_location: str
    created_csn: Csn
    csn: Csn
    version: int
    kept_from: Csn
    method: Method
    created_at: Micros
    problem: JsonObject | None = None
    last_mode: str | None = None
    last_reason: str | None = None

    @property
    def layout(self) -> Layout:
        """How its table holds it: at one csn, or every row with the time for which it stood in the view."""
        return "timeline" if str(self.options.get("layout", "")).lower() == "timeline" else "current"

    @property
    def from_scratch(self) -> bool:
        """Whether every refresh computes it from its tables alone, so that it needs nothing of their past."""
        return isinstance(self.definition, dict) and bool(self.definition.get("recomputed"))

    @property
    def hidden(self) -> Columns:
        """Columns of its table beside the public ones."""
        return tuple((name, kind) for name, kind in self.definition.get("hidden", ()))

    @property
    def stored(self) -> Columns:
        """All columns that its rows have in its table and its view delta."""
        return (*self.columns, *self.hidden)


@dataclass(frozen=True, slots=True)
class LeafRecord:
    """``time`` is the leaf's frontier τ (``frontier``) or its t_fwd (``rolling``)."""

    leaf: LeafId
    alias: str
    table: str
    time: Csn
    t_comp: Csn
    width_kind: str | None = None
    width_value: int | None = None


@dataclass(frozen=True, slots=True)
class LeafTime:
    """Where a propagation step brought a leaf."""

    leaf: LeafId
    time: Csn
    t_comp: Csn


@dataclass(frozen=True, slots=True)
class QueryListEntry:
    """A forward query over ``interval`` of the leaf that is not yet fully compensated [Salem00 §3.3]."""

    leaf: LeafId
    interval: Interval
    execution_time: Csn


@dataclass(frozen=True, slots=True)
class StepRecord:
    step_id: int
    view_id: str
    driver: Driver
    state: StepState
    intent: JsonObject
    outcome: JsonObject | None
    started_at: Micros
    finished_at: Micros | None


@dataclass(frozen=True, slots=True)
class CostRecord:
    """What ``rows`` changed rows took. ``part`` numbers a cost function of the view; ``cold`` is a process's first.

    ``by_part`` tells of a step of several parts how many rows of each there were. A capture is the lake's, not a
    view's: its ``view_id`` is empty.
    """

    view_id: str
    kind: CostKind
    part: int
    rows: int
    seconds: float
    cold: bool
    measured_at: Micros
    step_id: int | None = None
    by_part: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class ExecutionRecord:
    step_id: int
    ordinal: int
    query: str
    execution_time: Csn


@dataclass(frozen=True, slots=True)
class RefreshRecord:
    """``alternatives``: what each way was thought to take, where that was asked; ``refresh_id`` the catalog gives."""

    view_id: str
    view_name: str
    from_csn: Csn
    csn: Csn
    mode: str
    reason: str | None
    rows: int
    seconds: float
    finished_at: Micros
    alternatives: JsonObject | None = None
    refresh_id: int | None = None


@dataclass(frozen=True, slots=True)
class ReleasedView:
    """Version ``version`` of the table at ``location`` holds the view at the release's csn.

    From there it could be had, when the release was published, at every csn back to ``kept_from`` by its view delta.
    """

    view_id: str
    location: str
    version: int
    delta_location: str
    kept_from: Csn

    @classmethod
    def standing(cls, view: ViewRecord) -> ReleasedView:
        """The view as it stands, to be released at its csn."""
        return cls(view.view_id, view.location, view.version, view.delta_location, view.kept_from)


@dataclass(frozen=True, slots=True)
class ReleaseRecord:
    """[Mauve98 §2.2]'s global timestamp: the newest of these is what a new reader sees."""

    csn: Csn
    published_at: Micros
    views: tuple[ReleasedView, ...]
    tags: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ReaderLeaseRecord:
    """While the row is there, nothing that reading ``csn`` needs is taken; after ``expires_at`` it may go any time."""

    snapshot_id: str
    csn: Csn
    holder: str
    opened_at: Micros
    heartbeat_at: Micros
    expires_at: Micros


@dataclass(frozen=True, slots=True)
class OpenedReader:
    """A lease, and what the catalog knew of its moment when it was given.

    ``views`` are all views; ``anchors`` gives, by view id, the oldest release at or after the moment that has the view.
    """

    lease: ReaderLeaseRecord
    views: tuple[ViewRecord, ...]
    anchors: Mapping[str, tuple[Csn, ReleasedView]]


@dataclass(frozen=True, slots=True)
class RetentionSettings:
    """The newest ``count`` releases, the past ``age`` microseconds, releases with one of ``tags`` (None: any tag)."""

    count: int = 1
    age: Micros = 0
    tags: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Horizon:
    """What the last collection left: every csn from ``kept_from`` on, and the older ones in ``pinned``."""

    kept_from: Csn
    pinned: frozenset[Csn] = frozenset()


@dataclass(frozen=True, slots=True)
class HeldView:
    """A view as garbage collection sees it.

    Apply, open steps and views that read this one have taken its view delta up to ``consumed``.
    """

    record: ViewRecord
    consumed: Csn


@dataclass(frozen=True, slots=True)
class HeldLog:
    """The log of a mirrored table as garbage collection sees it.

    Views on the table have taken it up to ``consumed``. Changes up to ``log_from`` nobody asks for since ``said_at``;
    None: they are gone.
    """

    mirror_id: str
    name: str
    location: str
    consumed: Csn | None = None
    log_from: Csn = BEGINNING
    said_at: Micros | None = None


@dataclass(frozen=True, slots=True)
class Holdings:
    """All that decides about garbage, at one moment."""

    now: Micros
    releases: tuple[ReleaseRecord, ...]
    leases: tuple[ReaderLeaseRecord, ...]
    settings: RetentionSettings
    horizon: Horizon
    views: tuple[HeldView, ...]
    logs: tuple[HeldLog, ...] = ()


@dataclass(frozen=True, slots=True)
class CollectionIntent:
    """What a collection leaves (``horizon``) and takes: releases, the past of views, and, as ``plan`` says, files.

    ``kept_from`` gives views, by id, the csn before which their view delta has gaps from now on. ``logs`` gives, by
    mirror id, the earliest csn at which a mirrored table must stay readable.
    """

    horizon: Horizon
    spare_releases: tuple[Csn, ...]
    kept_from: Mapping[str, Csn] = field(default_factory=dict)
    plan: JsonObject = field(default_factory=dict)
    logs: Mapping[str, Csn] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CollectionRecord:
    collection_id: int
    state: StepState
    plan: JsonObject
    outcome: JsonObject | None
    started_at: Micros
    finished_at: Micros | None


SourceKind: TypeAlias = Literal["postgresql", "messages"]
MirrorMode: TypeAlias = Literal["mirror", "query"]


@dataclass(frozen=True, slots=True)
class SourceRecord:
    """A database, or a place of change messages. ``position``: up to where its log is durable in the lake.

    ``address`` tells where it is and where its password is found, and never holds one. ``waiting`` is what the source
    waits for and why, as ``status`` shows it.
    """

    source_id: str
    kind: SourceKind
    address: str
    settings: JsonObject
    position: JsonObject | None
    created_at: Micros
    waiting: list[JsonObject] | None = None


@dataclass(frozen=True, slots=True)
class MirrorRecord:
    """A base table that is kept by the changes of a source; its changes are in ``log_location``, each with its csn.

    ``copied`` tells which transactions its first copy held.
    """

    name: str
    mirror_id: str
    source_id: str
    mode: MirrorMode
    log_location: str
    described: JsonObject
    copied: str | None = None


@dataclass(frozen=True, slots=True)
class MirrorState:
    """At ``csn`` the mirror's table stood at ``version``."""

    mirror_id: str
    csn: Csn
    version: int


@dataclass(frozen=True, slots=True)
class RoundRecord:
    """A round of capture whose csns are given and whose changes may be partly written."""

    round_id: int
    intent: JsonObject
