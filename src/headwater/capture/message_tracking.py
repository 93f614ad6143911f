"""Beginning to follow a table that change messages tell of, and repairing it by query.

Options: ``table`` as the messages name it; ``columns``: Spark types by name, since messages do not tell them;
``format`` ('plain' or 'debezium'); ``key``: columns by which no row stands twice; ``initial``: a Delta table with the
rows as they were at version ``after`` (default: no rows, version 0); ``waiting``: seconds before the source is asked
again, and ``askings``: how often before only a query helps; ``requests``: a place to which what is asked of the source
is written.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from headwater.algebra.time import BEGINNING, Csn
from headwater.capture.attach import require_options
from headwater.capture.driver import capture_under
from headwater.capture.mirror_store import MirrorTarget, standing_at
from headwater.capture.mirroring import LogWriter, give_up, settle, store_of, target_of
from headwater.catalog.records import BaseTable, Commit, MirrorRecord, MirrorState, SourceRecord
from headwater.catalog.rounds import RoundOutcome
from headwater.context import CAPTURE, Context
from headwater.durable import DurablePoint
from headwater.errors import HeadwaterError, InvalidInput
from headwater.sources.change_message import Position
from headwater.sources.message_values import row_reader
from headwater.sources.messages import DEFAULT_LIMITS, FORMATS, Place

_OPTIONS = frozenset({"table", "columns", "format", "key", "initial", "after", "waiting", "askings", "requests"})
REPAIR = "REPAIR"


def track_messages(context: Context, name: str, place: str, mode: str | None, given: Mapping[str, Any]) -> None:
    if mode not in (None, "mirror"):
        raise InvalidInput("Tables of change messages are kept as mirrors.", remedy="Leave the mode out.")
    require_options(given, _OPTIONS, {"table", "columns"})
    form = given.get("format", "plain")
    if form not in FORMATS:
        raise InvalidInput(f"Unknown format {form!r}.", remedy=f"Use one of {', '.join(FORMATS)}.")
    columns = tuple((str(column), str(kind).lower()) for column, kind in dict(given["columns"]).items())
    key = tuple(given.get("key", ()))
    if not set(key) <= {column for column, _ in columns}:
        raise InvalidInput(f"The key {key} is not among the columns.", remedy="Name columns that are.")
    row_reader(given["table"], columns)
    Place(place).files()
    catalog, source_id = context.catalog, f"messages:{place}#{given['table']}"
    mirror_id = uuid.uuid4().hex
    described = {"message_table": given["table"], "columns": [list(each) for each in columns], "key": list(key)}
    mirror = MirrorRecord(name, mirror_id, source_id, "mirror", context.place("logs", name, mirror_id), described)
    target = _target(context, mirror)
    after = int(given.get("after", 0))
    with catalog.lease(CAPTURE, ttl=context.lease_ttl, wait=context.lease_wait) as lease:
        capture_under(context, lease)
        settings = {
            "format": form,
            "waiting": float(given.get("waiting", DEFAULT_LIMITS.waiting)),
            "askings": int(given.get("askings", DEFAULT_LIMITS.askings)),
            "requests": given.get("requests"),
        }
        if any(source.source_id == source_id for source in catalog.sources()):
            if catalog.mirrors(source_id):
                raise InvalidInput(f"{given['table']} of {place} is tracked already.", remedy="Use that table.")
            catalog.remove_source(lease, source_id)
        position = _position(after)
        catalog.add_source(lease, SourceRecord(source_id, "messages", place, settings, position, context.clock()))
        store = store_of(context)
        try:
            store.create(target)
            version = store.fill(target, ()) if "initial" not in given else store.adopt(target, str(given["initial"]))
            catalog.add_mirror(
                lease,
                BaseTable(
                    name=name,
                    location=target.location,
                    table_uuid=mirror_id,
                    columns=columns,
                    mode="versioned",
                    since_csn=catalog.newest_csn(),
                    since_version=after,
                    captured_version=after,
                    captured_at=catalog.committed_at(catalog.newest_csn()) or 0,
                ),
                mirror,
                version,
            )
        except BaseException:
            store.remove(target)
            catalog.remove_source(lease, source_id)
            raise


def resync_messages(context: Context, name: str, state: str | None, version: int | None) -> Csn:
    """Take a Delta table for what the messages' table held at a version; the csn of what was found."""
    if state is None or version is None:
        raise InvalidInput(
            f"{name!r} is known by its messages alone, which can't be asked for its rows.",
            remedy="Give a Delta table with the rows as they were at a version: lake.resync(name, state=..., "
            "version=...) (headwater resync NAME --state PATH --version N). lake.status() tells which is needed.",
        )
    catalog = context.catalog
    with catalog.lease(CAPTURE, ttl=context.lease_ttl, wait=context.lease_wait) as lease:
        capture_under(context, lease)
        mirror = catalog.mirror(name)
        assert mirror is not None  # noqa: S101  the caller has looked
        source = catalog.source(mirror.source_id)
        delivered = (source.position or _position(0))["delivered"]
        if version <= delivered[0]:
            raise InvalidInput(
                f"{name!r} is at version {delivered[0]} already.",
                remedy=f"Give its state at version {delivered[0] + 1} or later.",
            )
        target, store = target_of(context, mirror), store_of(context)
        copy_id = uuid.uuid4().hex
        beside = replace(mirror, mirror_id=copy_id, log_location=context.place("logs", name, copy_id))
        copy = _target(context, beside)
        csn = Csn(catalog.newest_csn() + 1)
        number = catalog.begin_round(lease, {"first": csn, "tables": [name]}).round_id
        context.reached(DurablePoint.ROUND_INTENDED)
        try:
            store.create(copy)
            copy = standing_at(copy, BEGINNING, store.adopt(copy, state))
            writer = LogWriter(store, number, {name: target})
            writer.compare(name, csn, copy)
            context.reached(DurablePoint.ROUND_LOGGED)
            states = settle(context, [target], number, csn)
            context.reached(DurablePoint.ROUND_SETTLED)
        except Exception:
            with suppress(HeadwaterError):
                give_up(context, lease)
            raise
        finally:
            store.remove(copy)
        now, rows = context.clock(), writer.rows.get((name, csn), 0)
        catalog.finish_round(
            lease,
            number,
            RoundOutcome(
                [[Commit(name, version, now, REPAIR, rows, mirror.source_id)]],
                captured={name: (version, now)},
                problems={name: None},
                positions={mirror.source_id: _position(version)},
                states=states,
            ),
        )
        context.reached(DurablePoint.ROUND_NUMBERED)
        capture_under(context, lease)
        return csn


def _position(version: int) -> dict[str, Any]:
    end = Position.end_of(version)
    return {"delivered": [end.version, end.part], "files": []}


def _target(context: Context, mirror: MirrorRecord) -> MirrorTarget:
    return MirrorTarget(
        mirror.name,
        mirror.mirror_id,
        context.place("mirrors", mirror.name, mirror.mirror_id),
        mirror.log_location,
        tuple((column, kind) for column, kind in mirror.described["columns"]),
        bool(mirror.described["key"]),
        MirrorState(mirror.mirror_id, BEGINNING, 0),
    )
