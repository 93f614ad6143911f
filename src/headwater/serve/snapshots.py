"""Snapshots: every view and tracked table of a lake at one csn, for as long as a reader likes [Mauve98 §2.2].

A snapshot is a lease on a csn and what the catalog knew of that csn when the lease was given. Neither changes: a name
means the same Delta versions in every query, whatever maintenance does meanwhile, and nobody waits for anybody.

*What a name means.* A base table is the version that it had at the csn. A view is read from its anchor, the oldest
release at or after the csn (``headwater.serve.retention`` says why that one): at the release's own csn from one
version of its table, and between releases from that version less the view delta. A view that has no way there (it was
created later, is in no release since, was recomputed in between) is refused by name; the others can be read.

*The lease* is renewed by a thread for as long as the snapshot is open. If the process was held up for longer than the
lease lasts and garbage was collected meanwhile, every further call says so (SnapshotExpired). A query that was handed
out before that reads pinned versions only: it gives the right rows, or fails for want of a file.

*Staleness* is the age of the oldest update that the snapshot does not show. It can count only what has been captured,
so a bound on it captures first.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Generic, Literal, Protocol, TypeVar

from headwater.algebra.time import Csn
from headwater.catalog.database import Clock
from headwater.catalog.records import OpenedReader, ReleasedView, ViewRecord
from headwater.catalog.store import Catalog
from headwater.errors import (
    HeadwaterError,
    InvalidInput,
    MomentBeforeHistory,
    NothingReleased,
    SnapshotExpired,
    TooStale,
    UnknownName,
)
from headwater.moments import Moment, from_micros, resolve
from headwater.pinning import pinned_table
from headwater.serve.staleness import lag
from headwater.sql.dialect import to_text
from headwater.sql.other_engines import datafusion_sql, duckdb_sql
from headwater.sql.pinned import (
    Pinned,
    PinnedMirror,
    PinnedTimeline,
    PinnedView,
    names_read,
    pinned_relation,
)
from headwater.sql.storage import over_relations
from headwater.sql.timeline import visible_at

if TYPE_CHECKING:
    from typing_extensions import Self

Frame = TypeVar("Frame")
FrameOut = TypeVar("FrameOut", covariant=True)
_log = logging.getLogger("headwater.serve")

DEFAULT_TTL = 60.0


class Reader(Protocol[FrameOut]):
    """What a snapshot needs of an engine."""

    def user_query(self, text: str) -> FrameOut:
        """A query as a frame; nothing is computed yet."""
        ...

    def newest_version(self, location: str) -> int:
        """The newest version of the Delta table at a place."""
        ...


class Maintenance(Protocol):
    """What makes a snapshot fresh enough."""

    def capture(self) -> object:
        """Number the commits made so far."""
        ...

    def release(self) -> object:
        """Bring all views to the newest csn and publish that."""
        ...


@dataclass(frozen=True, slots=True)
class TableVersion:
    """What another engine reads: this version of the Delta table at ``location``, and of that the rows of ``where``.

    ``columns`` are the public ones (None: all); ``counted``: ``__hw_count`` tells how often a row stands in the view.
    """

    name: str
    kind: Literal["table", "view"]
    location: str
    version: int
    counted: bool
    where: str | None = None
    columns: tuple[str, ...] | None = None

    def duckdb_sql(self) -> str:
        """A query for DuckDB, with its extension ``delta``, that gives the rows as a bag."""
        return duckdb_sql(self.location, self.version, self.columns, counted=self.counted, where=self.where)

    def datafusion_sql(self, table: str | None = None) -> str:
        """The same for DataFusion, as of delta-rs, over the table as it was registered (by its own name)."""
        return datafusion_sql(table or self.name, self.columns, counted=self.counted, where=self.where)


@dataclass(frozen=True, slots=True)
class Freshness:
    """How stale a snapshot may be, in seconds, and whether to refresh rather than to refuse."""

    max_staleness: float
    refresh: bool = False

    def __post_init__(self) -> None:
        if not self.max_staleness >= 0:
            raise InvalidInput(
                f"A staleness of {self.max_staleness} seconds can't be kept.", remedy="Give 0 or more seconds."
            )


def open_snapshot(
    catalog: Catalog,
    reader: Reader[Frame],
    maintenance: Maintenance,
    *,
    clock: Clock,
    at: Moment | None = None,
    tag: str | None = None,
    freshness: Freshness | None = None,
    ttl: float = DEFAULT_TTL,
    beat: bool = True,
) -> Snapshot[Frame]:
    """A snapshot of the newest release, of the release with a tag, or of any csn or time that is kept.

    ``beat``: renew the lease in a thread; without it, the caller does (``Snapshot.heartbeat``).
    """
    if at is not None and tag is not None:
        raise InvalidInput("A snapshot is at a moment or of a tag, not both.", remedy="Give one of them.")
    if freshness is not None or isinstance(at, str | datetime):
        maintenance.capture()  # what is not captured yet may be older than the time that was asked for
    wanted = catalog.tagged(tag) if tag is not None else None if at is None else resolve(catalog, at, clock())
    may_refresh = freshness is not None and freshness.refresh and wanted is None
    try:
        opened = catalog.open_reader(wanted, holder=_holder(), ttl=ttl)
    except NothingReleased:
        if not may_refresh:
            raise
        maintenance.release()
        opened = catalog.open_reader(None, holder=_holder(), ttl=ttl)
    try:
        if freshness is not None and may_refresh and _staleness(catalog, opened, clock) > freshness.max_staleness:
            catalog.close_reader(opened.lease.snapshot_id)
            maintenance.release()
            opened = catalog.open_reader(None, holder=_holder(), ttl=ttl)
        if freshness is not None:
            _require_fresh(_staleness(catalog, opened, clock), opened.lease.csn, freshness, named=wanted is not None)
        return Snapshot(catalog, reader, opened, clock=clock, ttl=ttl, beat=beat)
    except BaseException:
        catalog.close_reader(opened.lease.snapshot_id)
        raise


def _staleness(catalog: Catalog, opened: OpenedReader, clock: Clock) -> float:
    pending = catalog.pending_since(opened.lease.csn)
    return lag(clock() / 1e6, None if pending is None else pending / 1e6)


def _require_fresh(staleness: float, csn: Csn, wanted: Freshness, *, named: bool) -> None:
    if staleness <= wanted.max_staleness:
        return
    if named:
        remedy = "Ask for a later moment, or allow more."
    elif wanted.refresh:
        remedy = "It was refreshed, and more was captured meanwhile: allow more, or release more often."
    else:
        remedy = "Publish a release first (refresh=True does), or allow more."
    raise TooStale(
        f"Csn {csn} is {staleness:.1f} seconds stale; at most {wanted.max_staleness:g} were allowed.",
        staleness=staleness,
        max_staleness=wanted.max_staleness,
        remedy=remedy,
    )


def _holder() -> str:
    return f"pid {os.getpid()} on {socket.gethostname()}"


class Snapshot(Generic[Frame]):
    """Made by ``open_snapshot``; close it, or use it in a ``with`` block. Safe to use from several threads."""

    def __init__(
        self, catalog: Catalog, reader: Reader[Frame], opened: OpenedReader, *, clock: Clock, ttl: float, beat: bool
    ) -> None:
        self._catalog = catalog
        self._reader = reader
        self._opened = opened
        self._clock = clock
        self._ttl = ttl
        self._views = {view.name: view for view in opened.views}
        self._delta_versions: dict[str, int] = {}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        if beat:
            name = f"headwater-snapshot-{self.snapshot_id[:8]}"
            self._thread = threading.Thread(target=self._keep, name=name, daemon=True)
            self._thread.start()

    @property
    def snapshot_id(self) -> str:
        return self._opened.lease.snapshot_id

    @property
    def csn(self) -> int:
        return self._opened.lease.csn

    @property
    def timestamp(self) -> datetime | None:
        """When the newest unit of work that it shows was committed; None for the state in which the lake began."""
        at = self._catalog.committed_at(self._opened.lease.csn)
        return None if at is None else from_micros(at)

    @property
    def staleness(self) -> float:
        """The age, in seconds, of the oldest captured update that it does not show; 0 when it shows all."""
        return _staleness(self._catalog, self._opened, self._clock)

    # ------------------------------------------------------------------ reading

    def table(self, name: str) -> Frame:
        """A view or a tracked table as a bag of rows."""
        self._require_open()
        return self._reader.user_query(to_text(pinned_relation(self._pin(self._known(name)))))

    def sql(self, text: str) -> Frame:
        """Any query over views and tracked tables; other names are refused."""
        self._require_open()
        names = names_read(text, self._names())
        return self._reader.user_query(over_relations(text, {name: pinned_relation(self._pin(name)) for name in names}))

    def versions(self, names: Iterable[str] | None = None) -> dict[str, TableVersion]:
        """The exact Delta versions, for other engines, of the names given or of all that can be told so.

        A view between two releases has no version of its own: it is left out, and an error where it was named.
        """
        self._require_open()
        if names is not None:
            return {known: self._version(known) for known in map(self._known, names)}
        found: dict[str, TableVersion] = {}
        for name in self._names():
            try:
                found[name] = self._version(name)
            except MomentBeforeHistory:
                continue
        return found

    def _version(self, name: str) -> TableVersion:
        view = self._views.get(name)
        if view is not None and view.layout == "current":
            stored_at, anchor = self._anchor(view)
            if stored_at != self.csn:
                raise MomentBeforeHistory(
                    f"No version of view {name!r} holds csn {self.csn}, which is between two releases.",
                    remedy="Read it with table() or sql(), or open a snapshot of a release.",
                    view=name,
                )
            columns = tuple(column for column, _ in view.columns)
            return TableVersion(name, "view", anchor.location, anchor.version, counted=True, columns=columns)
        pinned = self._pin(name)
        where = to_text(visible_at(pinned.at)) if isinstance(pinned, PinnedTimeline) else None
        if isinstance(pinned, PinnedMirror) and pinned.at != pinned.stored_at:
            raise MomentBeforeHistory(
                f"No version of {name!r} holds csn {self.csn}, which is inside a round of capture.",
                remedy="Read it with table() or sql(), or open a snapshot of a release.",
                table=name,
            )
        if view is None:
            mirrored = isinstance(pinned, PinnedMirror)
            return TableVersion(name, "table", pinned.location, pinned.version, counted=mirrored)
        columns = tuple(column for column, _ in view.columns)
        return TableVersion(name, "view", pinned.location, pinned.version, counted=True, where=where, columns=columns)

    def _names(self) -> list[str]:
        return sorted({*self._views, *(table.name for table in self._catalog.base_tables())})

    def _known(self, name: str) -> str:
        names = self._names()
        found = next((known for known in names if known.lower() == name.lower()), None)
        if found is None:
            raise UnknownName(
                f"The snapshot of csn {self.csn} has no view or table {name!r}.",
                remedy=f"Known: {', '.join(names) or 'none'}.",
                name=name,
            )
        return found

    def _pin(self, name: str) -> Pinned:
        view = self._views.get(name)
        at = self._opened.lease.csn
        if view is None:
            return self._pinned_table(name, at)
        stored_at, anchor = self._anchor(view)
        columns = tuple(column for column, _ in view.columns)
        if view.layout == "timeline":
            return PinnedTimeline(anchor.location, anchor.version, columns, at)
        delta_version = None if stored_at == at else self._delta_version(anchor.delta_location)
        return PinnedView(anchor.location, anchor.version, columns, stored_at, at, anchor.delta_location, delta_version)

    def _pinned_table(self, name: str, at: Csn) -> Pinned:
        pinned = pinned_table(self._catalog, name, at)
        if isinstance(pinned, PinnedMirror) and pinned.at != pinned.stored_at:
            return replace(pinned, log_version=self._delta_version(pinned.log_location))
        return pinned

    def _anchor(self, view: ViewRecord) -> tuple[Csn, ReleasedView]:
        """The release from which the view is read, with its csn; raises where no way leads from there to ours."""
        at = self._opened.lease.csn
        if all(each.view_id != view.view_id for each in self._catalog.views()):
            raise UnknownName(
                f"View {view.name!r} was dropped after the snapshot of csn {at} was opened.",
                remedy="Open a new snapshot.",
                name=view.name,
            )
        if view.created_csn > at:
            raise MomentBeforeHistory(
                f"View {view.name!r} was created at csn {view.created_csn}, after csn {at}.",
                remedy=f"Open a snapshot of csn {view.created_csn} or later.",
                view=view.name,
            )
        found = self._opened.anchors.get(view.view_id)
        if found is None:
            raise MomentBeforeHistory(
                f"View {view.name!r} is in no release of csn {at} or later.",
                remedy="Release again; if it is left out once more, the report says why.",
                view=view.name,
            )
        stored_at, anchor = found
        if at < anchor.kept_from:
            raise MomentBeforeHistory(
                f"View {view.name!r} was recomputed, and can't be had at csn {at}, which is between two releases.",
                remedy=f"Open a snapshot of csn {stored_at}, which is a release, or of a later one.",
                view=view.name,
            )
        return found

    def _delta_version(self, location: str) -> int:
        """The same for all queries; what was the newest once the lease was given stays readable while it lasts."""
        if location not in self._delta_versions:
            self._delta_versions[location] = self._reader.newest_version(location)
        return self._delta_versions[location]

    # ------------------------------------------------------------------ the lease

    def heartbeat(self) -> None:
        """Renew the lease; SnapshotExpired when it is lost."""
        self._require_not_closed()
        self._catalog.renew_reader(self.snapshot_id, ttl=self._ttl)

    def close(self) -> None:
        """Give the lease back. Queries that were handed out may still run, for as long as their files are there."""
        if self._stop.is_set():
            return
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        try:
            self._catalog.close_reader(self.snapshot_id)
        except HeadwaterError as error:
            # It runs out by itself; raising here would hide how the block ended.
            _log.warning("could not give back the lease of snapshot %s, it will run out: %s", self.snapshot_id, error)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _require_open(self) -> None:
        self._require_not_closed()
        self._catalog.reader(self.snapshot_id)

    def _require_not_closed(self) -> None:
        if self._stop.is_set():
            raise InvalidInput("The snapshot is closed.", remedy="Open a new one.")

    def _keep(self) -> None:
        while not self._stop.wait(self._ttl / 3):
            try:
                self._catalog.renew_reader(self.snapshot_id, ttl=self._ttl)
            except SnapshotExpired:
                _log.warning("the lease of snapshot %s of csn %s is lost", self.snapshot_id, self.csn)
                return
            except HeadwaterError as error:
                _log.warning("could not renew the lease of snapshot %s, trying again: %s", self.snapshot_id, error)
