"""Readers beside maintenance: n versions, as a state machine [Mauve98 §2.2, §2.4, §5].

Maintenance writes a chunk table by table, with timestamps beyond the global timestamp, and only when the last table
is written does the global timestamp move. A reader takes a local timestamp when it opens, by default the global one,
and keeps it. So the two share one number:

- *A reader never sees two moments.* What it sees of a table is a function of the table's timeline and of its own
  timestamp. A chunk changes no moment at or before the global timestamp at which it began, and a local timestamp is
  never beyond that. Tables already written and tables not yet written look alike to it.
- *A reader never waits,* and never makes maintenance wait: no event needs another party's consent.
- *Garbage collection* keeps every moment since the oldest of the newest ``versions`` releases, and the timestamps of
  open readers. It takes all else, also while a chunk is being written: what a chunk closes or opens is visible from
  the global timestamp on or later, and so is needed.
- *A reader outlives any number of chunks.* With two versions [QW97] a reader expires when it overlaps a second
  maintenance transaction; here it does when its lease ran out and not before (``Expire``), and is then told so.
- *A crash in a chunk* (``AbandonChunk``) loses nothing: written tables go back to the global timestamp, or, which is
  the same, the chunk is written again.

Events in, state out; nothing here reads a clock or a table. ``validate`` holds between any two events.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from headwater.algebra.time import Csn
from headwater.algebra.zset import ZSet
from headwater.errors import InternalError, LeaseLost, MomentBeforeHistory, MomentInFuture
from headwater.serve.timeline import Run, Timeline, advance, needed, prune, rewind


@dataclass(frozen=True, slots=True)
class Chunk:
    """A chunk that began and is not installed; ``written`` tables have its rows already."""

    to: Csn
    written: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Serving:
    tables: Mapping[str, Timeline]  # at the global timestamp, or at chunk.to if written
    versions: int  # how many releases garbage collection leaves
    global_timestamp: Csn  # what a new reader gets; the end of the newest installed chunk
    releases: tuple[Csn, ...]  # ascending; the last is the global timestamp
    readers: Mapping[str, Csn] = field(default_factory=dict)  # open readers with their local timestamps
    chunk: Chunk | None = None

    @classmethod
    def beginning(cls, tables: Mapping[str, ZSet], csn: Csn, *, versions: int) -> Serving:
        timelines = {name: Timeline.beginning(rows, csn) for name, rows in tables.items()}
        return cls(timelines, versions, csn, (csn,))

    @property
    def kept_from(self) -> Csn:
        """Where garbage collection would let the past begin."""
        return self.releases[-self.versions :][0]

    def validate(self) -> None:
        if self.versions < 1 or self.global_timestamp != self.releases[-1]:
            raise InternalError(f"the newest of the releases {self.releases} must be {self.global_timestamp}")
        if self.chunk is not None and self.chunk.to <= self.global_timestamp:
            raise InternalError(f"a chunk up to {self.chunk.to} can't follow {self.global_timestamp}")
        for name, table in self.tables.items():
            table.validate()
            written = self.chunk is not None and name in self.chunk.written
            if table.csn != (self.chunk.to if self.chunk is not None and written else self.global_timestamp):
                raise InternalError(f"table {name} stands at {table.csn} within {self.chunk}")
            if not all(table.readable(moment) for moment in (*self.releases, *self.readers.values())):
                raise InternalError(f"table {name} has lost a moment that a reader needs or a release promises")
        if any(moment > self.global_timestamp for moment in self.readers.values()):
            raise InternalError("a reader stands at a moment that is not yet there")
        if len({(table.kept_from, table.pinned) for table in self.tables.values()}) > 1:
            raise InternalError("tables keep different moments")


@dataclass(frozen=True, slots=True)
class OpenReader:
    reader: str
    at: Csn | None = None


@dataclass(frozen=True, slots=True)
class CloseReader:
    reader: str


@dataclass(frozen=True, slots=True)
class Expire:
    """The reader's lease ran out: garbage collection may take its moment."""

    reader: str


@dataclass(frozen=True, slots=True)
class BeginChunk:
    to: Csn


@dataclass(frozen=True, slots=True)
class WriteTable:
    table: str
    view_delta: ZSet


@dataclass(frozen=True, slots=True)
class InstallChunk:
    pass


@dataclass(frozen=True, slots=True)
class AbandonChunk:
    pass


@dataclass(frozen=True, slots=True)
class CollectGarbage:
    pass


Event: TypeAlias = (
    OpenReader | CloseReader | Expire | BeginChunk | WriteTable | InstallChunk | AbandonChunk | CollectGarbage
)


def handle(state: Serving, event: Event) -> Serving:
    match event:
        case OpenReader(reader=reader, at=at):
            return _open(state, reader, at)
        case CloseReader(reader=reader) | Expire(reader=reader):
            return replace(state, readers={name: at for name, at in state.readers.items() if name != reader})
        case BeginChunk(to=to):
            if state.chunk is not None or to <= state.global_timestamp:
                raise InternalError(f"a chunk up to {to} can't begin at {state.global_timestamp} beside {state.chunk}")
            return replace(state, chunk=Chunk(to))
        case WriteTable(table=table, view_delta=view_delta):
            chunk = _current(state)
            if table in chunk.written:
                raise InternalError(f"table {table} has the rows of {chunk} already")
            return replace(
                state,
                tables={**state.tables, table: advance(state.tables[table], view_delta, chunk.to)},
                chunk=Chunk(chunk.to, chunk.written | {table}),
            )
        case InstallChunk():
            chunk = _current(state)
            if chunk.written != state.tables.keys():
                raise InternalError(f"{chunk} is not written to all of {', '.join(state.tables)}")
            return replace(state, global_timestamp=chunk.to, releases=(*state.releases, chunk.to), chunk=None)
        case AbandonChunk():
            _current(state)
            tables = {name: rewind(table, state.global_timestamp) for name, table in state.tables.items()}
            return replace(state, tables=tables, chunk=None)
        case CollectGarbage():
            kept, pinned = state.kept_from, frozenset(state.readers.values())
            return replace(
                state,
                tables={name: prune(table, kept, pinned) for name, table in state.tables.items()},
                releases=state.releases[-state.versions :],
            )


def read(state: Serving, reader: str, table: str) -> ZSet:
    """What the reader sees of the table now, which is what it saw before."""
    if reader not in state.readers:
        raise LeaseLost(f"Reader {reader} is not open: its lease ran out.", remedy="Open a new snapshot.")
    return state.tables[table].at(state.readers[reader])


def garbage(state: Serving) -> Iterator[tuple[str, Run]]:
    """(table, run) of everything that garbage collection would take now."""
    pinned = frozenset(state.readers.values())
    for name, table in state.tables.items():
        for run in table.runs:
            if not needed(run, state.kept_from, pinned):
                yield name, run


def _open(state: Serving, reader: str, at: Csn | None) -> Serving:
    if reader in state.readers:
        raise InternalError(f"reader {reader} is open already")
    moment = state.global_timestamp if at is None else at
    if moment > state.global_timestamp:
        raise MomentInFuture(
            f"The newest moment to read is csn {state.global_timestamp}, not {moment}.", remedy="Refresh first."
        )
    if not all(table.readable(moment) for table in state.tables.values()):
        raise MomentBeforeHistory(f"Csn {moment} is not kept any more.", remedy="Read a later moment.")
    return replace(state, readers={**state.readers, reader: moment})


def _current(state: Serving) -> Chunk:
    if state.chunk is None:
        raise InternalError("no chunk has begun")
    return state.chunk
