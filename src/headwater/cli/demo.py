"""``headwater demo``: the demo of ``headwater.demo``, shown."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from headwater.cli.commands import print_units
from headwater.cli.output import console, duration, print_json, print_table
from headwater.cli.progress import ProgressLine
from headwater.cli.session import Session

if TYPE_CHECKING:
    from headwater.demo.report import Check, DemoReport
    from headwater.values import UnitOfWork


class Shown:
    """Tells the story: on stdout for a person, on stderr when stdout is for JSON."""

    def __init__(self, line: ProgressLine, *, quiet: bool) -> None:
        self._line = line
        self._quiet = quiet

    def busy(self, text: str) -> None:
        self._line(text)

    def say(self, text: str) -> None:
        if self._quiet:
            self._line(text)
        else:
            self._line.clear()
            console().print(Text(text), soft_wrap=True)

    def changed(self, units: list[UnitOfWork]) -> None:
        if self._quiet:
            self._line(f"captured up to csn {units[-1].csn}")
        else:
            self._line.clear()
            print_units(units)

    def checked(self, check: Check) -> None:
        changed = "" if check.rows_changed is None else f"{check.rows_changed} rows changed, "
        self.say(
            f"  {check.view} {check.action} {check.moment}: {changed}{check.incremental_seconds:.1f} s "
            f"(recompute {check.recompute_seconds:.1f} s), "
            + ("equal" if check.equal else f"NOT EQUAL: {check.surplus} rows too many, {check.missing} missing")
        )


def demo(
    session: Session,
    into: Annotated[Path, typer.Option(help="Where the demo's lake goes; an earlier demo's is replaced.")] = Path(
        "demo-lake"
    ),
    sf: Annotated[float, typer.Option(help="TPC-H scale factor; 1 is about 1 GB of text.")] = 0.01,
    rounds: Annotated[int, typer.Option(help="Rounds of changes, each of four units of work.")] = 2,
) -> None:
    """A small TPC-H lake, three views, changes, refreshes to several moments: each checked against recomputation."""
    from headwater.demo import run

    with session.working() as line:
        report = run(into, Shown(line, quiet=session.json), scale_factor=sf, rounds=rounds)
    if session.json:
        print_json(report.as_dict())
    else:
        _print_summary(report)
        _print_next(report)
    if not report.all_equal:
        raise typer.Exit(1)


def _print_summary(report: DemoReport) -> None:
    print_table(
        ["view", "moment", "csn", "rows changed", "incremental s", "recompute s", "equal"],
        [
            [
                check.view,
                f"read at {check.moment}" if check.action == "read" else check.moment,
                str(check.csn),
                "-" if check.rows_changed is None else str(check.rows_changed),
                f"{check.incremental_seconds:.1f}",
                f"{check.recompute_seconds:.1f}",
                Text("yes", style="green") if check.equal else Text("NO", style="bold red"),
            ]
            for check in report.checks
        ],
        right=(2, 3, 4, 5),
        title=f"{len(report.checks)} answers, each compared with Spark's own over the same versions of the tables",
    )
    verdict = "All are equal." if report.all_equal else "SOME ARE NOT EQUAL: please report this."
    out = console()
    out.print(Text(f"{verdict} Scale factor {report.scale_factor}, {duration(report.seconds)} in all."))


def _print_next(report: DemoReport) -> None:
    lake = _near(Path(report.lake))
    command = f"{_program('headwater', Path(sys.argv[0]))} --lake {shlex.quote(lake)}"
    newest = max(check.csn for check in report.checks)
    update = f"UPDATE delta.`{report.lake}/tables/partsupp` SET ps_supplycost = ps_supplycost * 2 WHERE ps_partkey < 20"
    change = f"import headwater; headwater.connect({json.dumps(lake)}).spark.sql({json.dumps(update)})"
    lines = [
        f"{command} status",
        f"{command} read shipments --at 1 --limit 5",
        f"{command} refresh attention",
        f'{command} sql "SELECT why, count(*) AS times FROM attention GROUP BY why"',
        f"{command} explain thin_margin",
        f"{_program('python', Path(sys.executable))} -c {shlex.quote(change)}",
        f"{command} refresh thin_margin",
        f"{command} refresh thin_margin --to {newest}",
    ]
    if cache := os.environ.get("HEADWATER_CACHE"):
        near = _near(Path(cache))
        place = f'"$PWD"/{shlex.quote(near)}' if near != cache else shlex.quote(cache)
        lines.insert(0, f"export HEADWATER_CACHE={place}")
    out = console()
    out.print(Text(f"\nThe lake is yours to play with, in {lake}. Try:"), soft_wrap=True)
    for line in lines:
        out.print(Text(f"  {line}"), soft_wrap=True)


def _program(name: str, running: Path) -> str:
    """How to start from here what is running now."""
    if shutil.which(name) == str(running) or not running.name.startswith(name):
        return name
    return shlex.quote(_near(running))


def _near(path: Path) -> str:
    """As short as it can be said from here."""
    if path.is_absolute() and path.is_relative_to(Path.cwd()):
        return str(path.relative_to(Path.cwd()))
    return str(path)
