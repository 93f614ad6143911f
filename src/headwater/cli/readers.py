"""The commands for readers: releases and their tags, snapshots, retention and collection, staleness."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from headwater.cli.commands import Limit, moment
from headwater.cli.output import console, duration, first_rows, print_json, print_rows, print_table
from headwater.cli.session import Session
from headwater.durations import seconds_of

if TYPE_CHECKING:
    from headwater.lake import Lake
    from headwater.serve.snapshots import Snapshot
    from headwater.values import Release, RetentionReport, StalenessReport

At = Annotated[str | None, typer.Option("--at", metavar="MOMENT", help="A csn or a timestamp that is kept.")]
Tagged = Annotated[str | None, typer.Option("--tag", metavar="NAME", help="The release with this tag.")]
MaxStaleness = Annotated[
    str | None, typer.Option(metavar="TIME", help="How stale it may be, as 30 s or 5 min; else it is an error.")
]
Refresh = Annotated[bool, typer.Option("--refresh", metavar="", help="If it is too stale, release first.")]


def release(
    session: Session,
    tag: Annotated[str | None, typer.Option("--tag", metavar="NAME", help="Give the release a name.")] = None,
) -> None:
    """Bring all views to the newest csn and publish that, for snapshots to read."""
    with session.open() as (lake, line):
        line("releasing")
        done = lake.release()
        if tag is not None:
            lake.tag(tag, done.csn)
        found = next(each for each in lake.releases() if each.csn == done.csn)
    if session.json:
        left_out = {name: error.as_dict() for name, error in done.left_out.items()}
        print_json({**found.as_dict(), "left_out": left_out})
        return
    views = f"{len(found.versions)} view{'' if len(found.versions) == 1 else 's'}"
    console().print(Text(f"Released csn {found.csn} with {views}" + (f", tagged {tag}" if tag else "")))
    for name, error in done.left_out.items():
        console().print(Text(f"  without {name}: {error}", style="red"), soft_wrap=True)


def releases(session: Session) -> None:
    """List the releases that are kept; reads the catalog only."""
    with session.open() as (lake, _):
        found = lake.releases()
    if session.json:
        print_json({"releases": [each.as_dict() for each in found]})
        return
    print_table(
        ["csn", "published", "tags", "views with their Delta versions"],
        [_release_row(each) for each in found],
        right=(0,),
    )


def _release_row(found: Release) -> list[str | Text]:
    versions = ", ".join(f"{name} {version}" for name, version in sorted(found.versions.items()))
    return [str(found.csn), f"{found.published_at:%Y-%m-%d %H:%M:%S}+00:00", ", ".join(found.tags), versions]


def tag(
    session: Session,
    name: Annotated[str, typer.Argument(help="Such as june-close; a name that is in use moves.")],
    at: Annotated[int | None, typer.Option("--at", metavar="CSN", help="Of which release; else of the newest.")] = None,
) -> None:
    """Name a release, so that it is kept and found again."""
    with session.open() as (lake, _):
        csn = lake.tag(name, at)
    if session.json:
        print_json({"tag": name, "csn": csn})
    else:
        console().print(Text(f"{name} is the release of csn {csn}"))


def untag(session: Session, name: Annotated[str, typer.Argument(help="The tag.")]) -> None:
    """Take a release's name away; it goes with a collection if nothing else keeps it."""
    with session.open() as (lake, _):
        lake.untag(name)
    if session.json:
        print_json({"tag": name, "csn": None})
    else:
        console().print(Text(f"No release is called {name} any more"))


def retention(
    session: Session,
    count: Annotated[int | None, typer.Option(help="Keep so many of the newest releases.")] = None,
    age: Annotated[str | None, typer.Option(metavar="TIME", help="Keep the past so long, as 12 h or 7 days.")] = None,
    tags: Annotated[
        str | None, typer.Option(metavar="NAME,...", help="Keep releases with these tags only; 'any' for all tagged.")
    ] = None,
) -> None:
    """Show, and with options change, how much of the past is kept; reads and writes the catalog only."""
    with session.open() as (lake, _):
        if count is None and age is None and tags is None:
            found = lake.retention()
        else:
            named = None if tags is None else "any" if tags == "any" else [each for each in tags.split(",") if each]
            found = lake.set_retention(count=count, age=None if age is None else seconds_of(age), tags=named)
    if session.json:
        print_json(found.as_dict())
    else:
        _print_retention(found)


def _print_retention(found: RetentionReport) -> None:
    kept = ["the newest release" if found.count == 1 else f"the newest {found.count} releases"]
    if found.age:
        kept.append(f"the past {duration(found.age)}")
    if found.tags != ():
        kept.append("releases " + ("with a tag" if found.tags is None else f"tagged {' or '.join(found.tags)}"))
    readable = f"every csn from {found.kept_from} on" + "".join(f", {csn}" for csn in found.pinned)
    lines = [f"To be kept: {'; '.join(kept)}", f"Readable: {readable}"]
    console().print(Text("\n".join(lines)), soft_wrap=True)
    if found.readers:
        print_table(
            ["csn", "reader", "opened", "lease until"],
            [
                [str(each.csn), each.holder, f"{each.opened_at:%H:%M:%S}+00:00", f"{each.expires_at:%H:%M:%S}+00:00"]
                for each in found.readers
            ],
            right=(0,),
            title="Open snapshots",
        )


def collect(
    session: Session,
    grace: Annotated[
        str | None, typer.Option(metavar="TIME", help="Leave files that were in use so long ago; 1 h if not given.")
    ] = None,
) -> None:
    """Remove what no release kept, tag, open snapshot or driver needs."""
    with session.open() as (lake, line):
        line("collecting")
        found = lake.collect(grace=None if grace is None else seconds_of(grace))
    if session.json:
        print_json(found.as_dict())
        return
    gone = f"{len(found.releases)} release{'' if len(found.releases) == 1 else 's'}"
    swept = f"{len(found.views)} view{'' if len(found.views) == 1 else 's'}"
    text = f"Collected {gone}, swept {swept} in {duration(found.seconds)}; readable from csn {found.kept_from} on"
    console().print(Text(text), soft_wrap=True)
    if found.busy:
        console().print(Text(f"  at work meanwhile, so left for the next time: {', '.join(found.busy)}"))


def staleness(
    session: Session,
    view: Annotated[str | None, typer.Argument(help="A materialized view; all of them if not given.")] = None,
    svg: Annotated[
        Path | None, typer.Option("--svg", metavar="FILE", dir_okay=False, help="Draw what was measured and predicted.")
    ] = None,
) -> None:
    """Show how long updates took to reach the views, and the chunk size advised; reads the catalog only."""
    with session.open() as (lake, _):
        names = [view] if view is not None else [each.name for each in lake.status().views]
        found = [lake.staleness(name) for name in names]
    if svg is not None:
        from headwater.pictures import draw_staleness

        draw_staleness(found, svg)
    if session.json:
        print_json({"views": [each.as_dict() for each in found]})
        return
    print_table(
        ["view", "refreshes", "updates", "S1", "S2", "VS", "worst", "advised chunk", "VS then"],
        [_staleness_row(each) for each in found],
        right=range(1, 9),
    )
    if svg is not None:
        console().print(Text(f"The picture is in {svg}"), soft_wrap=True)


def _staleness_row(found: StalenessReport) -> list[str | Text]:
    if found.measured is None or found.advised is None:
        return [found.view, "0", *[""] * 7]
    own = found.measured
    return [
        found.view,
        str(len(found.refreshes)),
        str(own.updates),
        *(duration(each) for each in (own.s1, own.s2, own.vs, own.worst)),
        str(found.advised.chunk_size),
        duration(found.advised.vs),
    ]


# ---------------------------------------------------------------------- snapshot


def sql(
    session: Session,
    text: Annotated[str, typer.Argument(help="A query over views and tracked tables.")],
    at: At = None,
    tag: Tagged = None,
    max_staleness: MaxStaleness = None,
    refresh: Refresh = False,
    limit: Limit = 20,
) -> None:
    """Run a query with every view and table at one moment: the newest release unless another is given."""
    with session.open() as (lake, line):
        line("reading")
        with _opened(lake, at, tag, max_staleness, refresh) as snapshot:
            found = first_rows(snapshot.sql(text), limit)
            about = _about(snapshot)
    if session.json:
        print_json({**about, **found.as_dict()})
        return
    print_rows(found)
    stale = about["staleness"]
    console().print(Text(f"csn {about['csn']}, {duration(stale) + ' stale' if stale else 'fresh'}", style="dim"))


def versions(
    session: Session,
    at: At = None,
    tag: Tagged = None,
    max_staleness: MaxStaleness = None,
    refresh: Refresh = False,
) -> None:
    """Tell other engines which Delta versions to read to see all views and tables at one moment.

    The lease on them ends with the command: a reader that takes longer than the grace of a collection keeps a snapshot
    open, or tags the release.
    """
    with session.open() as (lake, _), _opened(lake, at, tag, max_staleness, refresh) as snapshot:
        found = list(snapshot.versions().values())
        about = _about(snapshot)
    if session.json:
        tables = [
            {
                "name": each.name,
                "kind": each.kind,
                "location": each.location,
                "version": each.version,
                "counted": each.counted,
                "where": each.where,
                "columns": each.columns,
                "duckdb": each.duckdb_sql(),
            }
            for each in found
        ]
        print_json({**about, "tables": tables})
        return
    print_table(
        ["name", "kind", "version", "location", "counted", "where"],
        [
            [each.name, each.kind, str(each.version), each.location, "yes" if each.counted else "", each.where or ""]
            for each in found
        ],
        right=(2,),
        title=f"Csn {about['csn']}",
    )


def _opened(lake: Lake, at: str | None, tag: str | None, max_staleness: str | None, refresh: bool) -> Snapshot[Any]:
    bound = None if max_staleness is None else seconds_of(max_staleness)
    return lake.snapshot(moment(at), tag=tag, max_staleness=bound, refresh=refresh)


def _about(snapshot: Snapshot[Any]) -> dict[str, Any]:
    return {"csn": snapshot.csn, "timestamp": snapshot.timestamp, "staleness": snapshot.staleness}


READER_COMMANDS = (release, releases, tag, untag, retention, collect, staleness)
SNAPSHOT_COMMANDS = (sql, versions)
__all__ = ["READER_COMMANDS", "SNAPSHOT_COMMANDS"]
