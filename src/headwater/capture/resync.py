"""Beginning anew with tables of a PostgreSQL database whose changes were lost.

A fresh copy is compared with each table, and the differences, deletions too, become one unit of work; views take it in
like any other change and are not rebuilt. The states in between are of no csn, so nothing that was true of any csn
becomes false.

If the slot is lost, all tables of the database are copied in one snapshot, behind a new slot: what the snapshot sees is
in the difference, what it does not see is in the new log, and no transaction is torn between two tables. If only one
table was left behind, it alone is copied, and brought to the others' moment as when it was first tracked.

Until all is done the tables keep their problem, so no capture reads the new slot, and a resync that was cut short
is begun again.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace

from headwater.algebra.time import BEGINNING, Csn
from headwater.capture.mirror_store import MirrorTarget, standing_at
from headwater.capture.mirroring import LogWriter, give_up, settle, store_of, target_of
from headwater.capture.tracking import PostgresTable, catch_up, described, new_target, wait_for_the_read
from headwater.catalog.fencing import Lease
from headwater.catalog.records import Commit, JsonObject, MirrorRecord, SourceRecord
from headwater.catalog.rounds import RoundOutcome
from headwater.context import CAPTURE, Context
from headwater.durable import DurablePoint
from headwater.errors import HeadwaterError, PublicationMissing, SchemaChanged, SlotLost, UnknownName
from headwater.sources.postgres.connection import Address, Connection, connect
from headwater.sources.postgres.feed import position_of
from headwater.sources.postgres.initial_copy import copying, take_fence
from headwater.sources.postgres.positions import Lsn
from headwater.sources.postgres.publication import require_key
from headwater.sources.postgres.slot import create_slot, drop_slot, log_end, require_usable, slot_state
from headwater.sources.postgres.stored import table_as_json, table_of_json
from headwater.sources.postgres.tables import SourceTable

RESYNC = "RESYNC"


@dataclass(frozen=True, slots=True)
class _Copied:
    """A table and its fresh copy, as a second mirror of it that nobody knows of."""

    mirror: MirrorRecord
    target: MirrorTarget
    copy: MirrorTarget


def resync_postgres(context: Context, name: str) -> Csn:
    """Begin anew with a table, or with all tables of its database if its log is lost; the csn of what was found."""
    with context.catalog.lease(CAPTURE, ttl=context.lease_ttl, wait=context.lease_wait) as lease:
        give_up(context, lease)
        mirror = context.catalog.mirror(name)
        assert mirror is not None  # noqa: S101  the caller has looked
        source = context.catalog.source(mirror.source_id)
        address = Address.parse(source.address)
        context.feeds.forget(source.source_id)
        with closing(connect(address)) as connection:
            lost = _is_lost(context, source, connection)
            mirrors = context.catalog.mirrors(source.source_id) if lost else [mirror]
            now = [(each, *_as_it_is(connection, each, source, address)) for each in mirrors]
            _stop(context, lease, [each.name for each in mirrors], lost)
            if lost:
                slot = source.settings["slot"]
                drop_slot(connection, slot, source.source_id)
                position = position_of(create_slot(connection, slot, source.source_id))
                source = replace(source, position=position)
            copied: list[_Copied] = []
            try:
                return _resync(context, lease, source, now, connection, copied, lost)
            finally:
                for each in copied:
                    store_of(context).remove(each.copy)


def _resync(
    context: Context,
    lease: Lease,
    source: SourceRecord,
    now: Sequence[tuple[MirrorRecord, SourceTable, str]],
    connection: Connection,
    copied: list[_Copied],
    lost: bool,
) -> Csn:
    store = store_of(context)
    fence = take_fence(connection, source.source_id)
    with copying(connection, fence, database=source.source_id) as copy:
        for mirror, table, token in now:
            stored = {**table_as_json(table), "token": token}
            if table.key_oid != mirror.described.get("key_oid"):
                stored["key_oid"] = None  # another key tells nothing of rows before now
            known = replace(mirror, described=stored, copied=str(copy.snapshot))
            copy_id = uuid.uuid4().hex
            beside = replace(known, mirror_id=copy_id, log_location=context.place("logs", mirror.name, copy_id))
            target = new_target(context, beside, table)
            copied.append(_Copied(known, target_of(context, mirror), target))
            if target.state is not None:
                context.progress(f"{mirror.name}: copying {table.name}")
                store.create(target)
                version = store.fill(target, copy.rows(table))
                copied[-1] = replace(copied[-1], copy=standing_at(target, BEGINNING, version))
    if not lost:
        for place, each in enumerate(copied):
            standing = each.copy if each.copy.state is not None else None
            caught_up = catch_up(context, lease, each.mirror, standing, copy.covered)
            if caught_up is not None:
                copied[place] = replace(each, copy=standing_at(each.copy, BEGINNING, caught_up))
    if any(each.copy.state is None for each in copied):
        wait_for_the_read(connection, source.source_id)
    for _, table, _ in now:
        require_key(connection, table)
    return _take_in(context, lease, source, copied, copy.covered.log_end, lost)


def _is_lost(context: Context, source: SourceRecord, connection: Connection) -> bool:
    """Whether the slot can't go on from where it was read to."""
    if source.position is None:
        return True
    tables = {mirror.name for mirror in context.catalog.mirrors(source.source_id)}
    codes = {(table.problem or {}).get("code") for table in context.catalog.base_tables() if table.name in tables}
    if codes & {SlotLost.code, PublicationMissing.code}:
        return True
    slot = source.settings["slot"]
    try:
        found = slot_state(connection, slot)
        require_usable(found, slot, Lsn(source.position["lsn"]), log_end(connection), source.source_id)
    except SlotLost:
        return True
    return False


def _as_it_is(
    connection: Connection, mirror: MirrorRecord, source: SourceRecord, address: Address
) -> tuple[SourceTable, str]:
    """The table as it is now, which must have the columns that it was tracked with."""
    before = table_of_json(mirror.described)
    wanted = PostgresTable(
        address,
        source.address,
        before.name,
        columns=[column.name for column in before.columns],
        types={column.name: column.spark_type for column in before.columns if column.declared},
        publication=source.settings["publication"],
    )
    try:
        table, token = described(connection, wanted, str(address))
    except UnknownName as error:
        raise SchemaChanged(
            f"{before.name} is not what it was when it was tracked: {error.message}",
            table=mirror.name,
            remedy="Drop the views on it, untrack it, and track it as it is now.",
        ) from error
    if table.spark_columns != before.spark_columns or (before.key and not table.key):
        raise SchemaChanged(
            f"{before.name} has columns {_listed(table)}, and had {_listed(before)} when it was tracked.",
            table=mirror.name,
            remedy="Change them back; or drop the views on it, untrack it, and track it as it is now.",
        )
    return table, token


def _listed(table: SourceTable) -> str:
    key = f", key ({', '.join(table.key)})" if table.key else ", no key"
    return ", ".join(f"{name} {kind}" for name, kind in table.spark_columns) + key


def _stop(context: Context, lease: Lease, names: Iterable[str], lost: bool) -> None:
    """Leave the tables behind until all is done; what is wrong already stays."""
    problem: JsonObject = {
        "code": SlotLost.code if lost else "RESYNCING",
        "message": "A resync was begun and is not done.",
        "remedy": "Run it again: lake.resync(...), headwater resync.",
    }
    healthy = [name for name in names if context.catalog.base_table(name).problem is None]
    context.catalog.move_sources(lease, {}, dict.fromkeys(healthy, problem))


def _take_in(context: Context, lease: Lease, source: SourceRecord, copied: list[_Copied], end: Lsn, lost: bool) -> Csn:
    """The differences between the copies and the lake as one unit of work."""
    targets: Mapping[str, MirrorTarget] = {each.mirror.name: each.target for each in copied}
    csn = Csn(context.catalog.newest_csn() + 1)
    number = context.catalog.begin_round(lease, {"first": csn, "tables": sorted(targets)}).round_id
    context.reached(DurablePoint.ROUND_INTENDED)
    try:
        writer = LogWriter(store_of(context), number, targets)
        for each in copied:
            if each.copy.state is not None:
                context.progress(f"{each.mirror.name}: looking for what changed")
                writer.compare(each.mirror.name, csn, each.copy)
        context.reached(DurablePoint.ROUND_LOGGED)
        states = settle(context, targets.values(), number, csn)
        context.reached(DurablePoint.ROUND_SETTLED)
    except Exception:
        with suppress(HeadwaterError):
            give_up(context, lease)
        raise
    settings = _numbered_on(context, source, end, targets) if lost else source.settings
    version, now = int(end) + settings.get("offset", 0), context.clock()
    rows = {name: writer.rows.get((name, csn), 0) for name in targets}
    context.catalog.finish_round(
        lease,
        number,
        RoundOutcome(
            [[Commit(name, version, now, RESYNC, rows[name], source.source_id) for name in targets]],
            captured=dict.fromkeys(targets, (version, now)),
            problems=dict.fromkeys(targets),
            positions={source.source_id: source.position} if lost and source.position else {},
            settings={source.source_id: settings},
            states=states,
            copied={each.mirror.name: (each.mirror.described, each.mirror.copied) for each in copied},
        ),
    )
    context.reached(DurablePoint.ROUND_NUMBERED)
    for each in copied:
        if each.copy.state is None:
            # Nothing to compare with: the table begins anew, and views on it are recomputed.
            context.catalog.restart_base_table(lease, context.catalog.base_table(each.mirror.name))
    return csn


def _numbered_on(context: Context, source: SourceRecord, end: Lsn, names: Iterable[str]) -> JsonObject:
    """Settings by which versions go on growing, also where a restored server counts its log from an earlier place."""
    newest = max(context.catalog.base_table(name).captured_version for name in names)
    offset = source.settings.get("offset", 0)
    if end + offset > newest:
        return source.settings
    return {**source.settings, "offset": newest - end + 1}
