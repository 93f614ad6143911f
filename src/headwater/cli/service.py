"""The commands around promised response times: measuring, looking at what was measured, and keeping."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from headwater.cli.output import console, duration, print_json, print_table
from headwater.cli.session import Session
from headwater.engine.priority import IDLE
from headwater.errors import InvalidInput

if TYPE_CHECKING:
    from headwater.measured import ViewMeasure
    from headwater.schedule.fit import FittedCost

View = Annotated[str, typer.Argument(help="A materialized view.")]


def calibrate(
    session: Session,
    view: View,
    steps: Annotated[int, typer.Option(min=1, max=50, help="Steps for each part of the view.")] = 5,
) -> None:
    """Measure what a view's refreshes take: propagates its backlog in batches of several sizes, and applies it."""
    with session.open() as (lake, line):
        line(f"{view}: calibrating")
        found = lake.calibrate(view, steps=steps)
    if session.json:
        print_json(found.as_dict())
        return
    told = f"{view}: {found.steps} steps in {duration(found.seconds)}, {found.samples} of them samples; "
    console().print(Text(f"{told}the view stands at csn {found.csn}"), soft_wrap=True)
    _print_measure(found.measure)


def costs(
    session: Session,
    view: View,
    svg: Annotated[
        Path | None, typer.Option(metavar="FILE", dir_okay=False, help="Draw the functions and their samples.")
    ] = None,
) -> None:
    """Show what a view's steps take, as functions fitted from those that were run; reads the catalog only."""
    with session.open() as (lake, _):
        measure = lake.costs(view)
    if svg is not None:
        svg.parent.mkdir(parents=True, exist_ok=True)
        svg.write_text(_picture(view, measure), encoding="utf-8")
    if session.json:
        floor = measure.costs.floor()
        print_json(
            {
                "view": view,
                "floor": None if floor is None else round(floor.seconds, 3),
                **measure.costs.as_dict(measure.parts.labels),
                "samples": {
                    label: [{"rows": each.rows, "seconds": each.seconds, "cold": each.cold} for each in samples]
                    for label, samples in zip(measure.parts.labels, measure.samples, strict=True)
                },
            }
        )
        return
    _print_measure(measure)
    if svg is not None:
        console().print(Text(f"The picture is in {svg}"), soft_wrap=True)


def simulate(
    session: Session,
    view: View,
    response_time: Annotated[
        str | None, typer.Option(metavar="TIME", help="The bound to try; the view's own if not given.")
    ] = None,
    step: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="How often to look; if not given, a thousand times in all."),
    ] = None,
) -> None:
    """Try a response time and every policy on the recorded commits, by what steps take; runs nothing."""
    with session.open() as (lake, _):
        found = lake.simulate(view, response_time=response_time, step=step)
    if session.json:
        print_json(found.as_dict())
        return
    arrived = ", ".join(f"{rows:,} of {label}" for label, rows in found.rows.items())
    told = f"{view}: {arrived} changed rows in {found.steps:,} steps of {duration(found.step)}; "
    told += f"of {duration(found.response_time)} the backlog may cost {duration(found.limit)}"
    console().print(Text(told), soft_wrap=True)
    print_table(
        ["policy", "processing", "actions", "worst refresh", "late", "most pending"],
        [
            [
                each.policy,
                duration(each.seconds),
                f"{each.actions:,}",
                duration(each.worst_refresh),
                f"{each.late:,}",
                f"{each.most_pending:,} rows",
            ]
            for each in found.policies
        ],
        right=(1, 2, 3, 4, 5),
    )


def _functions(measure: ViewMeasure) -> list[tuple[str, FittedCost | None]]:
    return [
        *((f"propagate {label}", f) for label, f in zip(measure.parts.labels, measure.costs.parts, strict=True)),
        ("propagate several together", measure.costs.together),
        ("apply", measure.costs.apply),
        ("capture", measure.costs.capture),
    ]


def _print_measure(measure: ViewMeasure) -> None:
    rows = []
    for name, function in _functions(measure):
        if function is None:
            if name != "propagate several together":
                rows.append([name, "0", "", "not measured yet", "", "", ""])
            continue
        size = max(1, function.largest)
        rows.append(
            [
                name,
                str(function.samples),
                f"{function.smallest:,} to {function.largest:,}",
                duration(function(1)),
                duration(function(size)),
                f"{1000 * (function(size) - function(1)) / max(1, size - 1):.2f} ms",
                f"{function.relative_error:.0%}",
            ]
        )
    print_table(
        ["step", "samples", "rows", "one row", "the largest", "each more", "error"], rows, right=(1, 2, 3, 4, 5, 6)
    )
    floor = measure.costs.floor()
    told = (
        "There is no floor yet: the view was never measured." if floor is None else f"Floor {duration(floor.seconds)}: "
    )
    if floor is not None:
        told += f"one changed row of {measure.parts.labels[floor.part]} takes {floor}"
    if measure.costs.joint.shared:
        told += f"\nParts that go in one step save {duration(measure.costs.joint.shared)} for each beyond the first"
    console().print(Text(told), soft_wrap=True)


def _picture(view: str, measure: ViewMeasure) -> str:
    from headwater.schedule.picture import Panel, cost_picture

    samples = [*measure.samples, measure.together, measure.applied, measure.captured]
    panels = [
        Panel(name, function, found)
        for (name, function), found in zip(_functions(measure), samples, strict=True)
        if function is not None or (name.startswith("propagate") and found)
    ]
    return cost_picture(f"What steps of {view} take", panels)


def run(
    session: Session,
    views: Annotated[
        list[str] | None, typer.Argument(help="The views to keep; without any, all that promise something.")
    ] = None,
    tick: Annotated[str, typer.Option(metavar="TIME", help="How often to look when there is nothing to do.")] = "1s",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Of the metrics and of refreshes on demand, on loopback; 0: any.")
    ] = 9464,
    serve: Annotated[bool, typer.Option("--serve/--no-serve", help="Whether to open that port.")] = True,
    log: Annotated[
        Path | None, typer.Option(metavar="FILE", dir_okay=False, help="Where decisions go instead of stdout.")
    ] = None,
    release_every: Annotated[
        str | None, typer.Option(metavar="TIME", help="Also publish a release of all views, so often.")
    ] = None,
    collect_every: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Also remove what retention does not keep, and join small files, so often."),
    ] = None,
    stop_after: Annotated[
        str | None, typer.Option("--for", metavar="TIME", help="Stop after so long; without it, at SIGTERM.")
    ] = None,
    nice: Annotated[
        int,
        typer.Option(
            min=0,
            max=IDLE,
            help="Give way to readers on this machine: the niceness of Spark and of us; 20: run when nobody else does.",
        ),
    ] = 0,
) -> None:
    """Keep views within their promises (response_time, max_staleness) until stopped; one JSON line a decision."""
    from headwater.service.loop import LoopSettings
    from headwater.service.run import RunSettings
    from headwater.service.run import run as keep

    settings = RunSettings(
        views=views or None,
        loop=LoopSettings(
            tick=_above_zero("--tick", tick),
            release_every=None if release_every is None else _above_zero("--release-every", release_every),
            collect_every=None if collect_every is None else _above_zero("--collect-every", collect_every),
        ),
        port=port if serve else None,
        seconds=None if stop_after is None else _above_zero("--for", stop_after),
        niceness=nice,
    )
    with session.open() as (lake, line):
        for name in views or ():
            lake.explain(name)
        line("the service is starting")
        if log is None:
            keep(lake, sys.stdout, settings)
        else:
            log.parent.mkdir(parents=True, exist_ok=True)
            with log.open("a", encoding="utf-8") as file:
                keep(lake, file, settings)


def _above_zero(option: str, text: str) -> float:
    """A length of time after which something is done again."""
    from headwater.schedule.service_level import seconds_of

    found = seconds_of(text)
    if not found > 0:
        raise InvalidInput(f"{option} {text!r} leaves no time between.", remedy="Give a time above 0.")
    return found


SERVICE_COMMANDS = (calibrate, costs, simulate, run)
