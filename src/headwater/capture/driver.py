"""The capture driver: commits of the tracked tables into units of work.

A table that can't be read any further is marked with its problem and left behind; the others are numbered as always,
and views that do not use it go on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field

from headwater.algebra.time import Csn
from headwater.capture.feeds import blamed, forget_keys, move_on, read_feeds
from headwater.capture.mirroring import carry_out, give_up
from headwater.capture.ordering import SeenCommit, tag_of
from headwater.capture.rounds import FromFeed, plan_round
from headwater.catalog.fencing import Lease
from headwater.catalog.records import BaseTable, Commit, JsonObject, MirrorRecord
from headwater.context import CAPTURE, Context
from headwater.durable import DurablePoint
from headwater.engine.spark import StoredCommit
from headwater.errors import DatabaseProblem, SourceProblem, by_code
from headwater.sources.delta import NO_DATA_CHANGE, DeltaTable, rows_of
from headwater.sources.feed import FeedBatch, FeedChange

_PATIENCE = 600.0  # seconds that a unit of work of several commits may stay incomplete
_MICROS = 1_000_000


@dataclass(frozen=True, slots=True)
class Captured:
    """``unreachable``: tables of sources that could not be read this time, and may be the next."""

    csn: Csn
    problems: tuple[SourceProblem, ...]
    unreachable: Mapping[str, DatabaseProblem] = field(default_factory=dict)


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


def capture_under(context: Context, lease: Lease) -> Captured:
    """The same for who holds the lease."""
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
    give_up(context, lease)
    unreachable: dict[str, DatabaseProblem] = {}
    while not _round(context, lease, horizon, apart_from, unreachable):
        pass
    followed = [table for table in context.catalog.base_tables() if table.name != apart_from]
    known = [problem_of(table) for table in followed if table.problem is not None]
    return Captured(context.catalog.newest_csn(), tuple(known), unreachable)


def capture_with(
    context: Context, lease: Lease, newcomer: MirrorRecord, take: Callable[[FeedChange], None]
) -> JsonObject | None:
    """One round in which the source of a table that is not followed yet is read for it too; where its log stands now.

    ``take`` is given the newcomer's changes.
    """
    unreachable: dict[str, DatabaseProblem] = {}
    _round(context, lease, _horizon(context), None, unreachable, newcomer, take)
    if newcomer.name in unreachable:
        raise unreachable[newcomer.name]
    return context.catalog.source(newcomer.source_id).position


def _round(
    context: Context,
    lease: Lease,
    horizon: int,
    apart_from: str | None,
    unreachable: dict[str, DatabaseProblem],
    newcomer: MirrorRecord | None = None,
    take: Callable[[FeedChange], None] | None = None,
) -> bool:
    """Look at everything once and number what is there up to the horizon; False when sources have more.

    Sources that can't be read are passed over and noted.
    """
    mirrored = {mirror.name for mirror in context.catalog.mirrors()}
    followed = [table for table in context.catalog.base_tables() if table.name != apart_from]
    healthy = [table for table in followed if table.problem is None and table.name not in mirrored]
    with ExitStack() as stack:
        batches, problems = read_feeds(context, stack, unreachable, newcomer)
        forget_keys(context, lease, batches.values())
        looks = _look(context, healthy)
        histories = {
            look.table.name: [_seen(look.table.name, c) for c in look.commits if c.operation not in NO_DATA_CHANGE]
            for look in looks
        }
        new = None if newcomer is None else newcomer.name
        _require_newcomer(batches, newcomer)
        patience = int(_PATIENCE * _MICROS)
        planned = plan_round(histories, batches, horizon, patience=patience, newcomer=new)
        problems |= {look.table.name: look.problem.as_dict() for look in looks if look.problem}
        context.reached(DurablePoint.CAPTURE_LOOKED)
        units = [unit for unit in planned.units if not isinstance(unit, FromFeed)]
        captured = _captured(looks, units, horizon)
        if planned.touched:
            try:
                carry_out(context, lease, planned, captured=captured, problems=problems)
            except SourceProblem as problem:
                # The table is left behind and the round begins again without it.
                name = blamed(context, problem)
                context.catalog.move_sources(lease, {}, {**problems, name: problem.as_dict()})
                return False
        elif units or problems or captured:
            context.catalog.number_units(
                lease,
                [[Commit(c.table, c.version, c.timestamp, c.operation, c.rows) for c in unit] for unit in units],
                captured=captured,
                problems=problems,
            )
        context.reached(DurablePoint.CAPTURE_NUMBERED)
        if newcomer is not None and take is not None:
            batch = batches.get(newcomer.source_id)
            for transaction in (batch.transactions if batch else ())[: planned.passed.get(newcomer.source_id, 0)]:
                for change in transaction.changes() if new in transaction.touched else ():
                    if change.table == new:
                        take(change)
        move_on(context, lease, planned, batches, newcomer)
        # What lies beyond the horizon waits for the next capture, however much there is.
        return all(batch.complete or planned.positions.get(key) != batch.position for key, batch in batches.items())


def _require_newcomer(batches: Mapping[str, FeedBatch], newcomer: MirrorRecord | None) -> None:
    if newcomer is not None:
        for batch in batches.values():
            if newcomer.name in batch.problems:
                raise batch.problems[newcomer.name]


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
    units: Sequence[tuple[SeenCommit, ...]],
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
    return maker(
        str(found.get("message")),
        table=table.name,
        version=found.get("version"),
        remedy=found.get("remedy"),
        code=found.get("code"),
    )
