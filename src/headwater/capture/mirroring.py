"""Rounds that write: the changes of mirrored tables into the lake, exactly once.

A round is (1) recorded as intended, with the csn of its first unit; (2) its changes are appended to the logs of the
tables, each with its csn; (3) the tables are brought to the round's last csn; (4) one catalog transaction numbers the
units, moves the positions of the sources and closes the round; (5) the sources may forget what lies before. Until (4)
no reader asks for a csn of the round. After a crash before (4) the round is given up, what it wrote is removed, and the
next one reads the same changes again, because no position has moved; after it nothing is left to do but (5), which
the next reading does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from headwater.algebra.time import Csn
from headwater.capture.mirror_store import LoggedRow, MirrorStore, MirrorTarget, SparkMirrorStore
from headwater.capture.ordering import SeenCommit
from headwater.capture.rounds import TRANSACTION, FromFeed, Round
from headwater.catalog.fencing import Lease
from headwater.catalog.records import Commit, JsonObject, Micros, MirrorRecord, MirrorState
from headwater.catalog.rounds import RoundOutcome
from headwater.context import Context
from headwater.durable import DurablePoint
from headwater.errors import HeadwaterError, HistoryLost, InternalError
from headwater.sources.feed import Emptied, RowChange

ROWS_A_COMMIT = 50_000
BYTES_A_COMMIT = 64 << 20


def store_of(context: Context) -> MirrorStore:
    return context.mirror_store or SparkMirrorStore(context.engine, context.sizes)


def target_of(context: Context, mirror: MirrorRecord) -> MirrorTarget:
    """A mirrored table as it stands at the newest csn."""
    table = context.catalog.base_table(mirror.name)
    state = None if mirror.mode == "query" else context.catalog.mirror_state(mirror.name, context.catalog.newest_csn())
    return MirrorTarget(
        mirror.name,
        mirror.mirror_id,
        table.location,
        mirror.log_location,
        table.columns,
        mirror.described.get("key_oid") is not None,
        state,
    )


@dataclass(slots=True)
class LogWriter:
    """Changes on their way to the logs, in commits of bounded size."""

    store: MirrorStore
    round_id: int
    targets: Mapping[str, MirrorTarget]
    rows: dict[tuple[str, Csn], int] = field(default_factory=dict)
    """Changes written or under way, by table and csn."""
    _held: dict[str, list[LoggedRow]] = field(default_factory=dict)
    _bytes: dict[str, int] = field(default_factory=dict)
    _ordinals: dict[str, int] = field(default_factory=dict)

    def write(self, change: RowChange | Emptied, csn: Csn) -> None:
        target = self.targets[change.table]
        if isinstance(change, Emptied):
            if target.state is None:
                raise HistoryLost(
                    f"{target.name!r} was truncated, and nothing of it is copied: what it held is not known.",
                    table=target.name,
                    remedy=f"Start over with lake.resync({target.name!r}) (headwater resync {target.name}); views on "
                    "it are then recomputed. In mode 'mirror' a TRUNCATE is a change like any other.",
                )
            self._flush(target)
            gone = self.store.empty(target, self.round_id, self._next(target.name), csn)
            self._count(target.name, csn, gone)
            return
        held = self._held.setdefault(target.name, [])
        held.append((csn, change.count, change.row))
        self._count(target.name, csn, 1)
        size = self._bytes.get(target.name, 0) + sum(len(v) for v in change.row if isinstance(v, str | bytes))
        self._bytes[target.name] = size
        if len(held) >= ROWS_A_COMMIT or size >= BYTES_A_COMMIT:
            self._flush(target)

    def compare(self, name: str, csn: Csn, copy: MirrorTarget) -> None:
        """Write the difference to a fresh copy."""
        found = self.store.compare(self.targets[name], self.round_id, self._next(name), csn, copy)
        self._count(name, csn, found)

    def flush(self) -> None:
        for name in list(self._held):
            self._flush(self.targets[name])

    def _flush(self, target: MirrorTarget) -> None:
        held = self._held.pop(target.name, [])
        self._bytes.pop(target.name, None)
        if held:
            self.store.append(target, self.round_id, self._next(target.name), held)

    def _next(self, name: str) -> int:
        self._ordinals[name] = self._ordinals.get(name, -1) + 1
        return self._ordinals[name]

    def _count(self, name: str, csn: Csn, rows: int) -> None:
        self.rows[name, csn] = self.rows.get((name, csn), 0) + rows


def carry_out(
    context: Context,
    lease: Lease,
    planned: Round,
    *,
    captured: Mapping[str, tuple[int, Micros]],
    problems: Mapping[str, JsonObject | None],
) -> list[Csn]:
    """Write what a round has of mirrored tables, and number all of it."""
    targets = {m.name: target_of(context, m) for m in context.catalog.mirrors() if m.name in planned.touched}
    first = Csn(context.catalog.newest_csn() + 1)
    number = context.catalog.begin_round(lease, {"first": first, "tables": sorted(targets)}).round_id
    context.reached(DurablePoint.ROUND_INTENDED)
    try:
        writer = LogWriter(store_of(context), number, targets)
        for place, unit in enumerate(planned.units):
            if isinstance(unit, FromFeed):
                for change in unit.transaction.changes():
                    if change.table in unit.tables:
                        writer.write(change, Csn(first + place))
        writer.flush()
        context.reached(DurablePoint.ROUND_LOGGED)
        states = settle(context, targets.values(), number, Csn(first + len(planned.units) - 1))
        context.reached(DurablePoint.ROUND_SETTLED)
    except Exception:
        # What can't be removed now, the next capture removes before it does anything else.
        with suppress(HeadwaterError):
            give_up(context, lease)
        raise
    units = [_commits(unit, Csn(first + place), writer) for place, unit in enumerate(planned.units)]
    outcome = RoundOutcome(
        units,
        captured={**captured, **_captured(units)},
        problems=problems,
        positions=planned.positions,
        states=states,
    )
    numbered = context.catalog.finish_round(lease, number, outcome)
    if numbered and numbered[0] != first:
        raise InternalError(f"Round {number} wrote csns from {first} on and was numbered from {numbered[0]} on.")
    context.reached(DurablePoint.ROUND_NUMBERED)
    return numbered


def settle(context: Context, targets: Iterable[MirrorTarget], number: int, to: Csn) -> list[MirrorState]:
    store = store_of(context)
    found = []
    for target in targets:
        if target.state is not None:
            context.progress(f"{target.name}: to csn {to}")
            found.append(MirrorState(target.mirror_id, to, store.settle(target, number, to)))
    return found


def give_up(context: Context, lease: Lease) -> None:
    """Remove what an open round has written, if there is one."""
    found = context.catalog.open_round()
    if found is None:
        return
    newest, store = context.catalog.newest_csn(), store_of(context)
    for name in found.intent["tables"]:
        mirror = context.catalog.mirror(name)
        if mirror is not None:
            store.clean(target_of(context, mirror), found.round_id, newest)
    context.catalog.abandon_round(lease, found.round_id)
    context.reached(DurablePoint.ROUND_GIVEN_UP)


def _commits(unit: Sequence[SeenCommit] | FromFeed, csn: Csn, writer: LogWriter) -> list[Commit]:
    if not isinstance(unit, FromFeed):
        return [Commit(c.table, c.version, c.timestamp, c.operation, c.rows) for c in unit]
    found = unit.transaction
    return [
        Commit(
            name,
            found.version,
            found.committed_at,
            TRANSACTION,
            writer.rows.get((name, csn), 0),
            unit.source_id,
            found.transaction,
        )
        for name in sorted(unit.tables)
    ]


def _captured(units: Sequence[Sequence[Commit]]) -> dict[str, tuple[int, Micros]]:
    """How far mirrored tables are captured: through their last transaction."""
    return {c.table: (c.version, c.committed_at) for unit in units for c in unit if c.source is not None}
