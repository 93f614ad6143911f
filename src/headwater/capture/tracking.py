"""Beginning to follow a table of a PostgreSQL database.

*The first copy stands at one csn.* It is taken in a snapshot S of the source. Capture, which is ours alone meanwhile,
then reads the log up to where it ended when S was taken (``Covered``), so that every transaction that S sees is
numbered, if it touches another table of the lake. Those that were read by then and that S does not see are added to
the copy. So at the newest csn the copy holds exactly what is numbered, no transaction is torn between two tables, and
from there on the log goes on.
"""

from __future__ import annotations

import hashlib
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial

from headwater.algebra.time import BEGINNING, Csn
from headwater.capture.driver import capture_with
from headwater.capture.mirror_store import MirrorTarget, standing_at
from headwater.capture.mirroring import LogWriter, give_up, store_of, target_of
from headwater.catalog.fencing import Held, Lease
from headwater.catalog.records import BaseTable, JsonObject, MirrorMode, MirrorRecord, MirrorState, SourceRecord
from headwater.context import CAPTURE, Context
from headwater.errors import (
    DatabaseUnavailable,
    InvalidInput,
    NameTaken,
    PublicationIncomplete,
)
from headwater.sources.feed import FeedChange
from headwater.sources.postgres.connection import Address, Connection, connect, translated
from headwater.sources.postgres.description import describe
from headwater.sources.postgres.feed import position_of
from headwater.sources.postgres.initial_copy import copying, take_fence
from headwater.sources.postgres.positions import Lsn
from headwater.sources.postgres.publication import joining_statement, membership, prepare, require_key
from headwater.sources.postgres.slot import create_slot, drop_slot
from headwater.sources.postgres.stored import table_as_json
from headwater.sources.postgres.tables import SourceTable, TableName, require_full_identity
from headwater.sources.postgres.visibility import Covered

PUBLICATION = "headwater"
RESYNC = "RESYNC"
_PATIENCE = 600.0
_PAUSE = 0.1
# What a copy lacked goes through the log of its table under numbers that no round and no unit of work has.
_COPYING = 0
_AFTER_COPY = Csn(1)


@dataclass(frozen=True, slots=True)
class PostgresTable:
    """What to follow: a table of a database, all of its columns or some, with declared types for some of them.

    ``prepare``: execute what the tables' owner has to (replica identity, publication), instead of asking for it.
    """

    address: Address
    url: str
    table: TableName
    mode: MirrorMode = "mirror"
    columns: Sequence[str] | None = None
    types: Mapping[str, str] | None = None
    publication: str = PUBLICATION
    slot: str | None = None
    prepare: bool = False

    @property
    def source_id(self) -> str:
        return f"postgresql://{self.address.host}:{self.address.port}/{self.address.database}"


def track_postgres(context: Context, name: str, wanted: PostgresTable) -> BaseTable:
    """Copy a table and follow it from the newest csn on."""
    with (
        context.catalog.lease(CAPTURE, ttl=context.lease_ttl, wait=context.lease_wait) as lease,
        closing(connect(wanted.address)) as connection,
    ):
        give_up(context, lease)
        database = str(wanted.address)
        table, token = described(connection, wanted, database)
        source = _source(context, lease, wanted, connection)
        _require_new(context, source, table)
        mirror_id = uuid.uuid4().hex
        mirror = MirrorRecord(
            name=name,
            mirror_id=mirror_id,
            source_id=source.source_id,
            mode=wanted.mode,
            log_location=context.place("logs", name, mirror_id),
            described={**table_as_json(table), "token": token},
        )
        target = new_target(context, mirror, table)
        store = store_of(context)
        try:
            store.create(target)
            version: int | None = None
            fence = take_fence(connection, database)
            with copying(connection, fence, database=database) as copy:
                if target.state is not None:
                    context.progress(f"{name}: copying {table.name}")
                    version = store.fill(target, copy.rows(table))
            mirror = replace(mirror, copied=str(copy.snapshot))
            standing = None if version is None else standing_at(target, BEGINNING, version)
            version = catch_up(context, lease, mirror, standing, copy.covered)
            if version is None:
                wait_for_the_read(connection, database)
            require_key(connection, table)
            return context.catalog.add_mirror(
                lease,
                BaseTable(
                    name=name,
                    location=target.location,
                    table_uuid=mirror_id,
                    columns=table.spark_columns,
                    mode="versioned",
                    since_csn=context.catalog.newest_csn(),
                    since_version=copy.covered.log_end,
                    captured_version=copy.covered.log_end,
                    captured_at=context.catalog.committed_at(context.catalog.newest_csn()) or 0,
                ),
                mirror,
                version,
            )
        except BaseException:
            store.remove(target)
            drop_if_unused(context, lease, source.source_id, connection)
            raise


def new_target(context: Context, mirror: MirrorRecord, table: SourceTable) -> MirrorTarget:
    """The tables that a mirror will have, before they are made."""
    return MirrorTarget(
        mirror.name,
        mirror.mirror_id,
        context.place("mirrors", mirror.name, mirror.mirror_id),
        mirror.log_location,
        table.spark_columns,
        table.key_oid is not None,
        None if mirror.mode == "query" else MirrorState(mirror.mirror_id, BEGINNING, 0),
    )


def described(connection: Connection, wanted: PostgresTable, database: str) -> tuple[SourceTable, str]:
    """The table, and the token of its membership in the publication; raises what the owner has to mend."""
    with translated(database, f"describing {wanted.table}"):
        table = describe(connection, wanted.table, only=wanted.columns, types=wanted.types)
        if wanted.prepare:
            prepare(connection, wanted.publication, [table])
            table = describe(connection, wanted.table, only=wanted.columns, types=wanted.types)
        require_full_identity(table)
        joined = membership(connection, wanted.publication, [table], database)
    if table.oid not in joined.tokens:
        raise PublicationIncomplete(
            f"The publication {wanted.publication!r} does not hold {table.name} with all its rows, columns and kinds "
            "of change.",
            table=str(table.name),
            remedy=f"As the table's owner: {joining_statement(wanted.publication, [table.name])}; or let Headwater do "
            "it (prepare=True, --prepare).",
        )
    return table, joined.tokens[table.oid]


def _source(context: Context, lease: Lease, wanted: PostgresTable, connection: Connection) -> SourceRecord:
    """The source's record, with its slot; made when the first of its tables is tracked."""
    catalog, source_id = context.catalog, wanted.source_id
    known = next((source for source in catalog.sources() if source.source_id == source_id), None)
    slot = wanted.slot or default_slot(catalog.lake().lake_id, source_id)
    if known is None:
        settings: JsonObject = {"slot": slot, "publication": wanted.publication}
        # Recorded before the slot is made: a crash in between leaves nothing in the server that nobody knows of.
        known = SourceRecord(source_id, "postgresql", wanted.url, settings, None, catalog.lake().created_at)
        catalog.add_source(lease, known)
    elif known.position is not None and (
        (wanted.slot is not None and wanted.slot != known.settings["slot"])
        or wanted.publication != known.settings["publication"]
    ):
        raise InvalidInput(
            f"{source_id} is read by the slot {known.settings['slot']!r} and the publication "
            f"{known.settings['publication']!r} already.",
            remedy="Leave slot and publication out, and put the table into that publication.",
        )
    if known.position is None:
        drop_slot(connection, slot, source_id)
        position = position_of(create_slot(connection, slot, source_id))
        known = replace(known, settings={"slot": slot, "publication": wanted.publication}, position=position)
        catalog.set_up_source(lease, source_id, known.settings, position)
    return known


def default_slot(lake_id: str, source_id: str) -> str:
    """One slot for each lake and database."""
    return f"headwater_{hashlib.sha256(f'{lake_id} {source_id}'.encode()).hexdigest()[:16]}"


def _require_new(context: Context, source: SourceRecord, table: SourceTable) -> None:
    for mirror in context.catalog.mirrors(source.source_id):
        if mirror.described["oid"] == table.oid:
            raise NameTaken(
                f"{table.name} of {source.source_id} is tracked as {mirror.name!r} already.",
                remedy="Use that name.",
                name=mirror.name,
            )


def catch_up(
    context: Context, lease: Lease, mirror: MirrorRecord, target: MirrorTarget | None, covered: Covered
) -> int | None:
    """Capture until every transaction that the copy sees was read, and add to it what it does not see of these.

    Its log is empty afterwards: what is added is a part of the copy. The version that holds it.
    """
    store = store_of(context)
    writer = LogWriter(store, _COPYING, {} if target is None else {mirror.name: target})
    deadline = time.monotonic() + _PATIENCE
    while True:
        take = writer.write if target is not None else _nowhere
        position = capture_with(context, lease, mirror, partial(take, csn=_AFTER_COPY))
        if position is not None and covered.by(Lsn(position["lsn"])):
            break
        if time.monotonic() > deadline:
            raise DatabaseUnavailable(
                f"The log of {mirror.source_id} could not be read up to where the copy of {mirror.name!r} was taken.",
                database=mirror.source_id,
                remedy="Look whether its clock runs ahead of this machine's; then track the table again.",
            )
        time.sleep(_PAUSE)
    if target is None or target.state is None or not writer.rows:
        return None if target is None or target.state is None else target.state.version
    writer.flush()
    version = store.settle(target, _COPYING, _AFTER_COPY)
    store.forget_log(target)
    return version


def wait_for_the_read(connection: Connection, database: str) -> None:
    """Until all that was read of the log so far is visible, for who asks the table later and adds nothing from before.

    A commit is logged before it is visible, and with a slow standby long before.
    """
    with copying(connection, take_fence(connection, database), database=database):
        pass


def _nowhere(_: FeedChange, csn: Csn) -> None:
    """Where nothing is copied, nothing is added."""


def untrack_mirror(context: Context, lease: Held, mirror: MirrorRecord) -> None:
    """Forget a mirrored table with what is kept of it, and its source with the last of its tables."""
    target = target_of(context, mirror)
    context.catalog.remove_base_table(lease, mirror.name)
    store_of(context).remove(target)
    source = context.catalog.source(mirror.source_id)
    if source.kind == "postgresql" and not context.catalog.mirrors(source.source_id):
        with closing(connect(Address.parse(source.address))) as connection:
            drop_if_unused(context, lease, source.source_id, connection)


def drop_if_unused(context: Context, lease: Held, source_id: str, connection: Connection) -> None:
    """A slot that nobody reads makes the server keep its log for ever."""
    if context.catalog.mirrors(source_id):
        return
    context.feeds.forget(source_id)
    source = next((each for each in context.catalog.sources() if each.source_id == source_id), None)
    if source is not None:
        drop_slot(connection, source.settings["slot"], source_id)
        context.catalog.remove_source(lease, source_id)
