"""Tables and the sources that they come from: Delta, PostgreSQL, change messages."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from headwater.cli.output import console, print_json
from headwater.cli.session import Session

if TYPE_CHECKING:
    from headwater.values import LakeStatus, TableStatus


class Mode(str, Enum):
    versioned = "versioned"
    live = "live"
    mirror = "mirror"
    query = "query"


class Format(str, Enum):
    plain = "plain"
    debezium = "debezium"


_SOURCE = "PostgreSQL and messages"
_POSTGRES = "PostgreSQL"
_MESSAGES = "Change messages"


def track(
    session: Session,
    name: Annotated[str, typer.Argument(help="The name that views will use.")],
    where: Annotated[
        str,
        typer.Argument(
            metavar="WHERE",
            help="Path or URI of a Delta table or its name in Spark's catalog; postgresql://user@host/database; "
            "or messages:PATH.",
        ),
    ],
    enable_change_feed: Annotated[
        bool, typer.Option("--enable-change-feed", metavar="", help="Switch the table's change feed on if it is off.")
    ] = False,
    mode: Annotated[
        Mode | None,
        typer.Option(
            help="'live' for a Delta table whose past can't be read (short retention); for a database 'mirror' "
            "(default) or 'query', which copies nothing."
        ),
    ] = None,
    table: Annotated[
        str | None, typer.Option(metavar="SCHEMA.TABLE", help="Which table of the source.", rich_help_panel=_SOURCE)
    ] = None,
    types: Annotated[
        list[str] | None,
        typer.Option(
            "--type",
            metavar="COLUMN=TYPE",
            help="A column's Spark type: for messages every column has one, for a database only where needed. May be "
            "given many times.",
            rich_help_panel=_SOURCE,
        ),
    ] = None,
    columns: Annotated[
        str | None, typer.Option("--columns", metavar="A,B,...", help="Only these.", rich_help_panel=_POSTGRES)
    ] = None,
    prepare: Annotated[
        bool,
        typer.Option(
            "--prepare",
            metavar="",
            help="Execute what the table's owner must: REPLICA IDENTITY FULL, and the publication.",
            rich_help_panel=_POSTGRES,
        ),
    ] = False,
    publication: Annotated[str | None, typer.Option(help="Its name.", rich_help_panel=_POSTGRES)] = None,
    slot: Annotated[
        str | None, typer.Option(help="The replication slot; one of the lake's own.", rich_help_panel=_POSTGRES)
    ] = None,
    form: Annotated[Format | None, typer.Option("--format", rich_help_panel=_MESSAGES)] = None,
    key: Annotated[
        str | None, typer.Option(metavar="A,B,...", help="By these no row stands twice.", rich_help_panel=_MESSAGES)
    ] = None,
    initial: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="A Delta table with the rows to begin with.", rich_help_panel=_MESSAGES),
    ] = None,
    after: Annotated[
        int | None, typer.Option(metavar="VERSION", help="At which version.", rich_help_panel=_MESSAGES)
    ] = None,
    waiting: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="Before the source is asked again (60).", rich_help_panel=_MESSAGES),
    ] = None,
    askings: Annotated[
        int | None, typer.Option(help="How often, before only a query helps (5).", rich_help_panel=_MESSAGES)
    ] = None,
    requests: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="Where to write what is asked of the source.", rich_help_panel=_MESSAGES),
    ] = None,
) -> None:
    """Follow a table: of Delta, of a PostgreSQL database, or one that change messages tell of."""
    options: dict[str, Any] = {
        "table": table,
        "publication": publication,
        "slot": slot,
        "prepare": prepare or None,
        "format": None if form is None else form.value,
        "key": _listed(key),
        "initial": None if initial is None else str(Path(initial).absolute()),
        "after": after,
        "waiting": waiting,
        "askings": askings,
        "requests": None if requests is None else str(Path(requests).absolute()),
    }
    declared = dict(_pair(each) for each in types or ())
    if where.startswith("messages:"):
        where = f"messages:{Path(where.removeprefix('messages:')).absolute()}" if "//" not in where else where
        options["columns"] = declared or None
    else:
        options |= {"columns": _listed(columns), "types": declared or None}
    # A folder of the working directory needs no ./ before it.
    where = str(Path(where).absolute()) if (Path(where) / "_delta_log").is_dir() else where
    with session.open() as (lake, line):
        line(f"tracking {name}")
        given = {option: value for option, value in options.items() if value is not None}
        lake.track(name, where, enable_change_feed=enable_change_feed, mode=mode.value if mode else None, **given)
        followed = _table(lake.status(), name)
    _tell_table(session, followed, "Tracking")


def resync(
    session: Session,
    name: Annotated[str, typer.Argument(help="A tracked table.")],
    state: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="For change messages: a Delta table with the rows as they were ..."),
    ] = None,
    version: Annotated[int | None, typer.Option(metavar="N", help="... at this version.")] = None,
) -> None:
    """Begin anew with a table whose changes were lost.

    Views on a Delta table are recomputed at their next refresh; views on a mirrored table take the difference in.
    """
    with session.open() as (lake, line):
        line(f"resyncing {name}")
        lake.resync(name, state=state, version=version)
        followed = _table(lake.status(), name)
    _tell_table(session, followed, "Began anew with")


def _pair(text: str) -> tuple[str, str]:
    name, equals, kind = text.partition("=")
    if not equals or not name or not kind:
        raise typer.BadParameter(f"{text!r} is not of the form COLUMN=TYPE.")
    return name, kind


def _listed(text: str | None) -> list[str] | None:
    return None if text is None else [each.strip() for each in text.split(",")]


def _table(status: LakeStatus, name: str) -> TableStatus:
    return next(table for table in status.tables if table.name.lower() == name.lower())


def _tell_table(session: Session, table: TableStatus, verb: str) -> None:
    if session.json:
        print_json(table.as_dict())
    else:
        place = table.location if table.source is None else f"{table.source} ({table.mode})"
        text = f"{verb} {table.name} at {place} from version {table.version} (csn {table.since_csn}) on"
        console().print(Text(text), soft_wrap=True)
