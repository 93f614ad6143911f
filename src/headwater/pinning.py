"""Where the rows of a base table at a csn are found: a Delta version, a mirror's version and its log, or an answer.

A table of which nothing is copied has no rows in the lake. Who needs its state at a csn asks the source first and gives
the answer to those who build statements (``providing``); without that, no statement is built that could be run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeAlias

from sqlglot import exp

from headwater.algebra.time import Csn, Interval
from headwater.catalog.records import Columns, MirrorRecord
from headwater.catalog.store import Catalog
from headwater.errors import InvalidInput
from headwater.sql.mirrors import asked_state
from headwater.sql.pinned import PinnedMirror, PinnedTable, pinned_relation


@dataclass(frozen=True, slots=True)
class State:
    """What a source answered (``rows`` stands in FROM; None: nothing was asked for), and what leads to the csn."""

    columns: Columns
    rows: exp.Expr | None
    interfering: tuple[Csn, ...]
    missing: tuple[Csn, ...]
    log_location: str

    def relation(self, names: Sequence[str] | None = None) -> exp.Query:
        chosen = [name for name, _ in self.columns] if names is None else names
        return asked_state(self.rows, self.columns, self.interfering, self.missing, self.log_location, chosen)


States: TypeAlias = Mapping[tuple[str, Csn], State]

_provided: ContextVar[States] = ContextVar("headwater_states")


@contextmanager
def providing(states: States) -> Iterator[None]:
    """Let statements that are built inside find these states."""
    token = _provided.set({**_provided.get({}), **states})
    try:
        yield
    finally:
        _provided.reset(token)


def provided(name: str, csn: Csn) -> State | None:
    return _provided.get({}).get((name, csn))


def pinned_table(catalog: Catalog, name: str, csn: Csn) -> PinnedTable | PinnedMirror:
    """A base table at a csn."""
    version = catalog.version_at(name, csn)
    table, mirror = catalog.base_table(name), catalog.mirror(name)
    if mirror is None:
        return PinnedTable(table.location, version)
    require_copy(mirror)
    state = catalog.mirror_state(name, csn)
    catalog.require_logged(name, csn)
    exact = not catalog.changed_csns(name, Interval(state.csn, max(state.csn, csn)))
    return PinnedMirror(
        table.location,
        state.version,
        tuple(column for column, _ in table.columns),
        csn if exact else state.csn,
        csn,
        mirror.log_location,
        unique=mirror.described.get("key_oid") is not None,
    )


def require_copy(mirror: MirrorRecord) -> None:
    if mirror.mode == "query":
        raise InvalidInput(
            f"{mirror.name!r} is in mode 'query': nothing of it is copied, so it can't be read as a table of the lake.",
            remedy="Read a view on it, or ask the database itself; track it in mode 'mirror' to have a copy.",
            code="NOT_COPIED",
        )


def table_rows(catalog: Catalog, name: str, csn: Csn, columns: Sequence[str] | None = None) -> exp.Query:
    """The rows of a base table at a csn: all of its columns, or some."""
    found = provided(name, csn)
    if found is not None:
        return found.relation(columns)
    return pinned_relation(pinned_table(catalog, name, csn), columns)
