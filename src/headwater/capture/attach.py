"""Tables of sources beside Delta, by the address that the user gives: tracked, resynced, untracked.

PostgreSQL: ``postgresql://user@host:port/database?password_env=NAME`` with

- ``table``: ``schema.name``, required;
- ``columns``: only these; ``types``: Spark types by column, where the default is not wanted or there is none;
- ``publication`` ('headwater') and ``slot`` (one of the lake's own for each database);
- ``prepare``: have Headwater execute what the owner of the table must (REPLICA IDENTITY, publication).

Change messages: ``messages:`` and a directory or URI, with the options of ``headwater.capture.message_tracking``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headwater.capture.mirroring import store_of, target_of
from headwater.catalog.records import MirrorMode
from headwater.context import CAPTURE, Context, name_lease
from headwater.errors import InvalidInput
from headwater.sources.opening import require_psycopg

_POSTGRES = ("postgresql://", "postgres://")
_OPTIONS = frozenset({"table", "columns", "types", "publication", "slot", "prepare"})


def is_source(where: str) -> bool:
    return where.startswith((*_POSTGRES, "messages:"))


def attach(context: Context, name: str, where: str, mode: str | None, options: Mapping[str, Any]) -> None:
    """Begin to follow a table of a source."""
    given = {key: value for key, value in options.items() if value is not None}
    if where.startswith("messages:"):
        from headwater.capture.message_tracking import track_messages

        track_messages(context, name, where.removeprefix("messages:"), mode, given)
        return
    require_psycopg()
    from headwater.capture.tracking import PUBLICATION, PostgresTable, track_postgres
    from headwater.sources.postgres.connection import Address
    from headwater.sources.postgres.tables import TableName

    require_options(given, _OPTIONS, {"table"})
    schema, _, table = str(given["table"]).rpartition(".")
    track_postgres(
        context,
        name,
        PostgresTable(
            address=Address.parse(where),
            url=where,
            table=TableName(schema or "public", table),
            mode=_mode(mode),
            columns=given.get("columns"),
            types=given.get("types"),
            publication=given.get("publication", PUBLICATION),
            slot=given.get("slot"),
            prepare=bool(given.get("prepare", False)),
        ),
    )


def reattach(context: Context, name: str, state: str | None = None, version: int | None = None) -> None:
    """Begin anew with a table of a source; ``state`` and ``version`` are for tables that only messages tell of."""
    mirror = context.catalog.mirror(name)
    if mirror is not None and context.catalog.source(mirror.source_id).kind == "messages":
        from headwater.capture.message_tracking import resync_messages

        resync_messages(context, name, state, version)
        return
    if state is not None or version is not None:
        raise InvalidInput(
            f"{name!r} is read from its database itself.", remedy="Give a state and version only for change messages."
        )
    require_psycopg()
    from headwater.capture.resync import resync_postgres

    resync_postgres(context, name)


def detach(context: Context, name: str) -> None:
    """Stop following a table of a source."""
    mirror = context.catalog.mirror(name)
    with (
        context.catalog.lease(name_lease(name), wait=context.lease_wait) as own,
        context.catalog.lease(CAPTURE, ttl=context.lease_ttl, wait=context.lease_wait) as capture,
    ):
        if mirror is not None and context.catalog.source(mirror.source_id).kind == "messages":
            target = target_of(context, mirror)
            context.catalog.remove_base_table([own, capture], name)
            context.catalog.remove_source([own, capture], mirror.source_id)
            context.feeds.forget(mirror.source_id)
            store_of(context).remove(target)
        elif mirror is not None:
            from headwater.capture.tracking import untrack_mirror

            untrack_mirror(context, [own, capture], mirror)


def require_options(given: Mapping[str, Any], known: frozenset[str], needed: set[str]) -> None:
    unknown, missing = sorted(given.keys() - known), sorted(needed - given.keys())
    if unknown or missing:
        what = f"does not know {', '.join(unknown)}" if unknown else f"needs {', '.join(missing)}"
        raise InvalidInput(f"This kind of source {what}.", remedy=f"Its options are {', '.join(sorted(known))}.")


def _mode(mode: str | None) -> MirrorMode:
    match mode:
        case None | "mirror":
            return "mirror"
        case "query":
            return "query"
        case _:
            raise InvalidInput(
                f"A table of a database can't be tracked in mode {mode!r}.", remedy="Use 'mirror' or 'query'."
            )
