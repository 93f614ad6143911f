"""Sources that tell of their changes in a log: what capture reads of them, whatever they are.

A feed is read from a position on. It gives whole transactions in the order in which the source committed them, each
with a version that grows along the log, and tells where the log stands after each. Nothing that was read is forgotten
by the source before it was ``confirm``-ed, so a position may be stored after the changes before it are durable, and a
crash in between reads them again.

Tables are called by the lake's names here; rows have the columns that the table was described with.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from headwater.errors import SourceProblem

Position: TypeAlias = dict[str, Any]
Row: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class RowChange:
    table: str
    row: Row
    count: int
    """+1 or -1."""


@dataclass(frozen=True, slots=True)
class Emptied:
    """All that the table holds after the changes before this one is gone."""

    table: str


FeedChange: TypeAlias = RowChange | Emptied


class FeedTransaction(Protocol):
    """One unit of work; its changes can be read, again and again, until its batch is closed."""

    @property
    def version(self) -> int:
        """Its place in the source's log: greater than that of every one before."""
        ...

    @property
    def transaction(self) -> str | None:
        """What the source calls it."""
        ...

    @property
    def committed_at(self) -> int:
        """Microseconds since 1970, UTC."""
        ...

    @property
    def touched(self) -> frozenset[str]:
        """The tables that it changes, as far as they are followed."""
        ...

    @property
    def after(self) -> Position:
        """Where the log stands behind it."""
        ...

    def changes(self) -> Iterator[FeedChange]:
        """In the order in which the transaction made them; a table whose changes can't be read raises its problem."""
        ...


class FeedBatch(Protocol):
    @property
    def transactions(self) -> Sequence[FeedTransaction]: ...

    @property
    def position(self) -> Position:
        """Behind everything that was read, which may be more than the last transaction."""
        ...

    @property
    def complete(self) -> bool:
        """Whether it has all that the source had when it was read."""
        ...

    @property
    def problems(self) -> Mapping[str, SourceProblem]:
        """Tables of which the log may not have told all: their changes are left out."""
        ...

    @property
    def lost_keys(self) -> Collection[str]:
        """Tables whose rows their key need not tell apart any more, from these transactions on."""
        ...

    @property
    def waiting(self) -> list[dict[str, Any]]:
        """What the source waits for and why, for ``status``."""
        ...

    def close(self) -> None: ...


class Feed(Protocol):
    def read(self, position: Position) -> FeedBatch:
        """What was committed after ``position``, up to which the caller has everything durably."""
        ...

    def confirm(self, position: Position) -> None:
        """Let the source forget what lies at or before ``position``."""
        ...

    def close(self) -> None: ...
