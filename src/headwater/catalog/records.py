"""What the catalog's rows look like to the rest of Headwater: plain values, compared by content."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from headwater.algebra.plan import LeafId
from headwater.algebra.time import Csn, Interval

JsonObject: TypeAlias = dict[str, Any]
Micros: TypeAlias = int  # microseconds since 1970, UTC
TableMode: TypeAlias = Literal["versioned", "live"]
Method: TypeAlias = Literal["frontier", "propagate", "rolling"]
Driver: TypeAlias = Literal["propagate", "apply", "create", "drop"]
StepState: TypeAlias = Literal["intended", "done"]
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


@dataclass(frozen=True, slots=True)
class UnitOfWorkRow:
    """``committed_at`` never falls as csn grows, and is one moment for all rows of a unit of work."""

    csn: Csn
    table: str
    version: int
    committed_at: Micros
    operation: str
    rows: int | None


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
