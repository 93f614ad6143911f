"""The capture driver: commits of the tracked tables into units of work.

A table that can't be read any further is marked with its problem and left behind; the others are numbered as always,
and views that do not use it go on.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from headwater.algebra.time import Csn
from headwater.capture.ordering import SeenCommit, order, tag_of
from headwater.catalog.fencing import Lease
from headwater.catalog.records import BaseTable, Commit, JsonObject
from headwater.context import CAPTURE, Context
from headwater.durable import DurablePoint
from headwater.engine.spark import StoredCommit
from headwater.errors import SourceProblem, by_code
from headwater.sources.delta import NO_DATA_CHANGE, DeltaTable, rows_of

_PATIENCE = 600.0  # seconds that a unit of work of several commits may stay incomplete
_MICROS = 1_000_000


@dataclass(frozen=True, slots=True)
class Captured:
    csn: Csn
    problems: tuple[SourceProblem, ...]


@dataclass(frozen=True, slots=True)
class _Look:
    """What was seen of one table: its new commits, or why they can't be read."""

    table: BaseTable
    commits: Sequence[StoredCommit]
    problem: SourceProblem | None = None


def capture(context: Context) -> Captured:
    """Number every commit up to a horizon taken now."""
    with context.catalog.lease(CAPTURE, ttl=context.lease_ttl, wait=context.lease_wait) as lease:
        return _capture(context, lease)


def track(context: Context, name: str, table: DeltaTable, mode: str) -> BaseTable:
    """Begin to follow a table: its newest version at the horizon becomes its state at the newest csn."""
    return _start(context, name, table, mode, again=False)


def resync(context: Context, name: str, table: DeltaTable) -> BaseTable:
    """Begin anew with a table whose changes were lost; views on it must be rebuilt from here."""
    return _start(context, name, table, context.catalog.base_table(name).mode, again=True)


def _start(context: Context, name: str, table: DeltaTable, mode: str, *, again: bool) -> BaseTable:
    with context.catalog.lease(CAPTURE, ttl=context.lease_ttl, wait=context.lease_wait) as lease:
        horizon = _horizon(context)
        history = context.engine.history(table.location)
        standing = [commit for commit in history if commit.timestamp <= horizon]
        if not standing:
            raise SourceProblem(
                f"The newest commit of {name!r} is younger than the allowed clock skew of {context.clock_skew} s.",
                table=name,
                remedy="Try again a little later.",
                code="NOT_YET_VISIBLE",
            )
        captured = _capture(context, lease, horizon=horizon, apart_from=name if again else None)
        record = BaseTable(
            name=name,
            location=table.location,
            table_uuid=table.uuid,
            columns=table.columns,
            mode="live" if mode == "live" else "versioned",
            since_csn=captured.csn,
            since_version=standing[0].version,
            captured_version=standing[0].version,
            captured_at=standing[0].timestamp,
        )
        if again:
            return context.catalog.restart_base_table(lease, record)
        return context.catalog.add_base_table(lease, record)


def _horizon(context: Context) -> int:
    return context.clock() - int(context.clock_skew * _MICROS)


def _capture(context: Context, lease: Lease, *, horizon: int | None = None, apart_from: str | None = None) -> Captured:
    if horizon is None:
        horizon = _horizon(context)
    followed = [table for table in context.catalog.base_tables() if table.name != apart_from]
    healthy = [table for table in followed if table.problem is None]
    looks = _look(context, healthy)
    histories = {
        look.table.name: [_seen(look.table.name, c) for c in look.commits if c.operation not in NO_DATA_CHANGE]
        for look in looks
    }
    units = order(histories, horizon, patience=int(_PATIENCE * _MICROS))
    problems = {look.table.name: look.problem for look in looks if look.problem}
    context.reached(DurablePoint.CAPTURE_LOOKED)
    captured = _captured(looks, units, horizon)
    if units or problems or captured:
        context.catalog.number_units(
            lease,
            [[Commit(c.table, c.version, c.timestamp, c.operation, c.rows) for c in unit] for unit in units],
            captured=captured,
            problems={name: problem.as_dict() for name, problem in problems.items()},
        )
    context.reached(DurablePoint.CAPTURE_NUMBERED)
    known = [problem_of(table) for table in followed if table.problem is not None]
    return Captured(context.catalog.newest_csn(), (*known, *problems.values()))


def _look(context: Context, tables: Sequence[BaseTable]) -> list[_Look]:
    if len(tables) < 2:
        return [_look_at(context, table) for table in tables]
    with ThreadPoolExecutor(max_workers=min(8, len(tables))) as pool:
        return list(pool.map(lambda table: _look_at(context, table), tables))


def _look_at(context: Context, table: BaseTable) -> _Look:
    try:
        commits = context.source.commits_after(
            table.name, table.location, table.table_uuid, table.captured_version, table.captured_at
        )
        context.source.check_readable(table.name, commits)
    except SourceProblem as problem:
        return _Look(table, (), problem)
    return _Look(table, commits)


def _seen(table: str, commit: StoredCommit) -> SeenCommit:
    tag, size = tag_of(commit.metadata)
    return SeenCommit(table, commit.version, commit.timestamp, commit.operation, rows_of(commit), tag, size)


def _captured(
    looks: Sequence[_Look],
    units: list[tuple[SeenCommit, ...]],
    horizon: int,
) -> dict[str, tuple[int, int]]:
    """How far each table is captured now: through its last numbered commit and those after it that change no data."""
    numbered = {(commit.table, commit.version) for unit in units for commit in unit}
    found: dict[str, tuple[int, int]] = {}
    for look in looks:
        for commit in look.commits:
            name = look.table.name
            if commit.timestamp > horizon:
                break
            if commit.operation not in NO_DATA_CHANGE and (name, commit.version) not in numbered:
                break
            found[name] = (commit.version, commit.timestamp)
    return found


def problem_of(table: BaseTable) -> SourceProblem:
    """The recorded problem of a table as the error that it was."""
    found: JsonObject = dict(table.problem or {})
    kind = by_code().get(str(found.get("code")), SourceProblem)
    maker = kind if issubclass(kind, SourceProblem) else SourceProblem
    return maker(str(found.get("message")), table=table.name, version=found.get("version"), remedy=found.get("remedy"))
