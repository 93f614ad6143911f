"""The commands on a lake; each mirrors a call of ``headwater.Lake``."""

from __future__ import annotations

import sys
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from headwater.cli.output import (
    MOST_ROWS,
    Rows,
    console,
    duration,
    first_rows,
    print_csv,
    print_json,
    print_rows,
    print_table,
    shown,
)
from headwater.cli.session import Session
from headwater.cli.sources import resync, track
from headwater.cli.statements import split
from headwater.errors import InvalidInput, SqlSyntaxError

if TYPE_CHECKING:
    from headwater.values import PromiseStatus, RefreshReport, TableStatus, UnitOfWork, ViewStatus

_UNITS_SHOWN = 20


class Format(str, Enum):
    table = "table"
    json = "json"
    csv = "csv"


Limit = Annotated[int, typer.Option(min=1, max=MOST_ROWS, help="How many rows to print at most.")]
ToMoment = Annotated[
    str | None, typer.Option("--to", metavar="MOMENT", help="A csn or a timestamp; without it, the newest state.")
]


def moment(text: str | None) -> int | str | None:
    """A csn if it is all digits, else a timestamp."""
    if text is None:
        return None
    return int(text) if text.isascii() and text.isdigit() else text


def init(session: Session) -> None:
    """Make a lake, or bring an older one to this version."""
    with session.open(create=True) as (lake, _):
        status = lake.status()
    if session.json:
        print_json({"location": status.location, "catalog": status.catalog})
    else:
        console().print(Text(f"Lake at {status.location}, catalog {status.catalog}"), soft_wrap=True)


def untrack(session: Session, name: Annotated[str, typer.Argument(help="A tracked table that no view uses.")]) -> None:
    """Stop following a table."""
    with session.open() as (lake, _):
        lake.untrack(name)
    if session.json:
        print_json({"name": name, "tracked": False})
    else:
        console().print(Text(f"{name} is no longer tracked; the table itself is untouched."))


def sql(
    session: Session,
    text: Annotated[str | None, typer.Argument(help="Statements, separated by ; ('-' or nothing: stdin).")] = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", exists=True, dir_okay=False, help="Read them from a file.")
    ] = None,
    limit: Limit = 20,
) -> None:
    """Run statements: CREATE, REFRESH, DROP, SHOW or EXPLAIN MATERIALIZED VIEW, or a query over views and tables."""
    if text is not None and file is not None:
        raise typer.BadParameter("Give the SQL as text or as a file, not both.")
    if file is not None:
        text = file.read_text(encoding="utf-8")
    elif text is None or text == "-":
        if sys.stdin.isatty():
            raise typer.BadParameter("Give the SQL as text, with --file or on stdin.")
        text = sys.stdin.read()
    statements = split(text)
    if not statements:
        raise SqlSyntaxError("There is no statement.", remedy="Give one such as SHOW MATERIALIZED VIEWS.")
    results: list[dict[str, Any]] = []
    with session.open() as (lake, line):
        for statement in statements:
            line(" ".join(statement.split())[:60])
            found = first_rows(lake.sql(statement), limit)
            results.append({"statement": statement.strip(), **found.as_dict()})
            if not session.json:
                line.clear()
                _print_result(found)
    if session.json:
        print_json({"results": results})


def _print_result(found: Rows) -> None:
    if [name for name, _ in found.columns] == ["plan"] and len(found.rows) == 1:
        console().print(Text(str(found.rows[0][0])), soft_wrap=True)
    else:
        print_rows(found)


def capture(session: Session) -> None:
    """Number the commits made since the last capture."""
    with session.open() as (lake, line):
        before = lake.status().newest_csn
        line("capturing")
        csn = lake.capture()
        units = [unit for unit in lake.units_of_work() if unit.csn > before]
    if session.json:
        print_json({"csn": csn, "units_of_work": [unit.as_dict() for unit in units]})
        return
    if units:
        print_units(units)
    console().print(Text(f"Newest csn {csn}, {csn - before} new"))


def print_units(units: list[UnitOfWork]) -> None:
    rows = [
        [
            str(unit.csn),
            unit.table,
            str(unit.version),
            unit.operation,
            "" if unit.rows is None else str(unit.rows),
            f"{unit.committed_at:%Y-%m-%d %H:%M:%S}.{unit.committed_at.microsecond // 1000:03d}+00:00",
        ]
        for unit in units[-_UNITS_SHOWN:]
    ]
    if len(units) > _UNITS_SHOWN:
        rows.insert(0, ["...", f"{len(units) - _UNITS_SHOWN} earlier", "", "", "", ""])
    print_table(["csn", "table", "version", "operation", "rows", "committed"], rows, right=(0, 2, 4))


def propagate(
    session: Session,
    view: Annotated[str, typer.Argument(help="A materialized view.")],
    to: ToMoment = None,
    strategy: Annotated[
        str | None, typer.Option(help="n-term, tree, recompute or auto; without it, the view's own.")
    ] = None,
) -> None:
    """Compute the view's changes up to a moment, without applying them."""
    with session.open() as (lake, line):
        line(f"{view}: propagating")
        mark = lake.propagate(view, moment(to), strategy=strategy)
    if session.json:
        print_json({"view": view, "high_water_mark": mark})
    else:
        console().print(Text(f"{view} is propagated to csn {mark}"))


def refresh(
    session: Session,
    views: Annotated[list[str] | None, typer.Argument(metavar="VIEW...", help="Materialized views.")] = None,
    every: Annotated[bool, typer.Option("--all", help="All views of the lake, to one moment.")] = False,
    to: ToMoment = None,
    within: Annotated[
        str | None, typer.Option(metavar="TIME", help="Such as 10s: also tell what was predicted, and if it was kept.")
    ] = None,
) -> None:
    """Bring views to a moment: capture, propagate and apply what is needed."""
    if every == bool(views):
        raise typer.BadParameter("name one or more views, or say --all")
    if within is not None and len(views or ()) != 1:
        raise typer.BadParameter("--within is about one view")
    with session.open() as (lake, line):
        if views is not None and len(views) == 1:
            line(f"{views[0]}: refreshing")
            report = lake.refresh(views[0], moment(to), within=within)
            if session.json:
                print_json(report.as_dict())
            else:
                _print_refresh(report)
            return
        line("refreshing")
        done = lake.refresh_all(views, moment(to))
    if session.json:
        print_json(done.as_dict())
    else:
        for report in done.reports:
            _print_refresh(report)
        for name, error in done.failed.items():
            console().print(Text(f"{name}: {error}", style="red"), soft_wrap=True)
    if done.failed:
        raise typer.Exit(1)


def _print_refresh(report: RefreshReport) -> None:
    moved = f"csn {report.from_csn} -> {report.csn}" if report.from_csn != report.csn else f"csn {report.csn}"
    changed = f"{report.rows} row{'' if report.rows == 1 else 's'} changed"
    text = f"{report.view}: {moved}, {report.mode} ({report.reason}), {changed}, {duration(report.seconds)}"
    console().print(Text(text), soft_wrap=True)
    if report.alternatives:
        expected = ", ".join(f"{way} {duration(seconds)}" for way, seconds in report.alternatives.items())
        console().print(Text(f"  expected: {expected}", style="dim"), soft_wrap=True)
    if report.within is not None:
        predicted = "nothing was measured before" if report.predicted is None else f"{duration(report.predicted)}"
        kept = "kept" if report.met else "NOT kept"
        told = f"predicted {predicted}, took {duration(report.seconds)}, within {duration(report.within)}: {kept}"
        console().print(Text(told), soft_wrap=True)


def read(
    session: Session,
    name: Annotated[str, typer.Argument(help="A view or a tracked table.")],
    at: Annotated[
        str | None, typer.Option("--at", metavar="MOMENT", help="A csn or a timestamp up to the high-water mark.")
    ] = None,
    limit: Limit = 20,
    form: Annotated[Format, typer.Option("--format", help="How to print them.")] = Format.table,
) -> None:
    """Print the first rows of a view or tracked table, at any moment, without changing anything."""
    with session.open() as (lake, line):
        line(f"reading {name}")
        found = first_rows(lake.read(name, at=moment(at)), limit)
    if session.json or form is Format.json:
        print_json(found.as_dict())
    elif form is Format.csv:
        print_csv(found)
    else:
        print_rows(found)


def status(session: Session) -> None:
    """Show the tables and views of the lake; reads the catalog only."""
    with session.open() as (lake, _):
        found = lake.status()
    if session.json:
        print_json(found.as_dict())
        return
    out = console()
    out.print(Text(f"Lake {found.location}\nCatalog {found.catalog}\nNewest csn {found.newest_csn}"), soft_wrap=True)
    print_table(
        ["table", "version", "since csn", "mode", "location", "problem"],
        [
            [t.name, str(t.version), str(t.since_csn), t.mode, t.source or t.location, _problem(t.problem)]
            for t in found.tables
        ],
        right=(1, 2),
        title="Tracked tables",
    )
    print_waiting(found.tables)
    print_table(
        ["view", "csn", "mark", "kept from", "staleness", "average", "method", "last refresh", "problem"],
        [_view_row(view) for view in found.views],
        right=(1, 2, 3, 4, 5),
        title="Materialized views",
    )
    promised = [view for view in found.views if view.promise is not None]
    if promised:
        print_table(
            ["view", "response time", "floor", "a refresh now", "max staleness", "policy", "priority", "promise"],
            [_promise_row(view.name, view.promise) for view in promised if view.promise is not None],
            right=(1, 2, 3, 4, 6),
            title="Promises",
        )


def print_waiting(tables: tuple[TableStatus, ...]) -> None:
    """What sources wait for and why."""
    rows: list[list[str | Text]] = []
    for table in tables:
        for each in table.waiting:
            what = str(each.get("what") or each.get("code"))
            why = str(each.get("why") or shown(each.get("message")))
            more = (
                f"since {each['since']}, asked {each['askings']} times"
                if "since" in each
                else str(each.get("file", ""))
            )
            rows.append([table.name, what, why, more])
    if rows:
        print_table(["table", "waits for", "because", "since"], rows, title="Waiting")


def _view_row(view: ViewStatus) -> list[str | Text]:
    last = f"{view.last_mode} ({view.last_reason})" if view.last_mode else ""
    return [
        view.name,
        str(view.csn),
        str(view.high_water_mark),
        str(view.kept_from),
        duration(view.staleness) if view.staleness else "fresh",
        duration(view.measured.vs) if view.measured is not None else "",
        view.method if view.layout == "current" else f"{view.method}, {view.layout}",
        last,
        _problem(view.problem),
    ]


def _promise_row(name: str, promise: PromiseStatus) -> list[str | Text]:
    def seconds(value: float | None) -> str:
        return "" if value is None else duration(value)

    shown_state = promise.state if promise.outlook is None else f"{promise.state}; {promise.outlook}"
    return [
        name,
        seconds(promise.response_time),
        seconds(promise.floor),
        seconds(promise.predicted),
        seconds(promise.max_staleness),
        promise.policy,
        str(promise.priority),
        Text(shown_state, style="red" if promise.state in ("at risk", "broken") else ""),
    ]


def _problem(problem: dict[str, Any] | None) -> Text:
    if problem is None:
        return Text("")
    return Text(f"{problem.get('code')}: {shown(problem.get('message'))}", style="red")


def explain(
    session: Session,
    view: Annotated[str, typer.Argument(help="A materialized view.")],
    with_sql: Annotated[bool, typer.Option("--sql", metavar="", help="Also the SQL of the next propagation.")] = False,
    svg: Annotated[
        Path | None,
        typer.Option(metavar="FILE", dir_okay=False, help="Draw the last propagation: rows, seconds and bytes."),
    ] = None,
) -> None:
    """Show a view's plan, its last propagation and what the next one would run; reads the catalog only."""
    with session.open() as (lake, _):
        found = lake.explain(view)
    if svg is not None:
        try:
            svg.write_text(found.svg(), encoding="utf-8")
        except OSError as error:
            raise InvalidInput(f"{svg} can't be written: {error.strerror}.", remedy="Choose another file.") from error
    if session.json:
        print_json(found.as_dict())
        return
    console().print(Text(str(found)), soft_wrap=True)
    if with_sql:
        console().print(Text(f"\n{found.sql or 'There is nothing to propagate.'}"), soft_wrap=True)
    if svg is not None:
        console().print(Text(f"\nThe picture is in {svg}"), soft_wrap=True)


COMMANDS = (init, track, untrack, resync, sql, capture, propagate, refresh, read, status, explain)
__all__ = ["COMMANDS", "moment", "print_units"]
