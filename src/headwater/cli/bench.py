"""``headwater bench``: runs a benchmark of ``headwater.bench``."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.text import Text

from headwater.cli.output import console, print_table, shown
from headwater.cli.progress import ProgressLine
from headwater.cli.session import errors_as_exit_codes
from headwater.errors import InvalidInput, UnknownName

_Number = TypeVar("_Number", int, float)


def bench(
    name: Annotated[str | None, typer.Argument(help="Which benchmark; without it, their names are listed.")] = None,
    sf: Annotated[float | None, typer.Option(help="TPC-H scale factor, where the benchmark takes one.")] = None,
    queries: Annotated[
        str | None, typer.Option(metavar="N,N,...", help="For tpch: which queries; all 22 if not given.")
    ] = None,
    fractions: Annotated[
        str | None,
        typer.Option(metavar="X,X,...", help="For choices, daily, lee, tpch: shares of the tables that change."),
    ] = None,
    repeats: Annotated[int | None, typer.Option(help="For choices, daily, he, lee, tpch: rounds of each size.")] = None,
    warm_up: Annotated[int | None, typer.Option(help="For tpch and daily: rounds or days that do not count.")] = None,
    scales: Annotated[
        str | None, typer.Option(metavar="X,X,...", help="For daily, lee: sizes of the tables, as parts of --sf.")
    ] = None,
    strategy: Annotated[str | None, typer.Option(help="For daily: n-term, tree, recompute or auto.")] = None,
    constraints: Annotated[
        bool | None, typer.Option("--constraints/--no-constraints", help="For daily: whether keys are declared.")
    ] = None,
    together: Annotated[
        bool | None, typer.Option("--together/--no-together", help="For daily: both views in one round, too.")
    ] = None,
    changes: Annotated[
        str | None,
        typer.Option(
            metavar="KIND", help="For tpch: 'values' change (default), or 'attributes' that queries sort by too."
        ),
    ] = None,
    minutes: Annotated[float | None, typer.Option(help="For service and mauve: how long it runs, each time.")] = None,
    readers: Annotated[int | None, typer.Option(min=1, help="For mauve: how many processes read.")] = None,
    parts: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,...",
            help="For mauve: sizes, streams, tables, readers. For sources: load, asking. "
            "For choices: strategies, policies. Else all.",
        ),
    ] = None,
    mix: Annotated[
        float | None, typer.Option(help="For service: the share of commits that are to the larger table.")
    ] = None,
    json_path: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", dir_okay=False, help="Write the figures to a file.")
    ] = None,
) -> None:
    """Run a benchmark."""
    with errors_as_exit_codes(as_json=False):
        module = _module()
        known: dict[str, str] = module.BENCHES
        if name is None:
            print_table(["benchmark", "what it measures"], [[each, what] for each, what in known.items()])
            return
        if name not in known:
            raise UnknownName(f"There is no benchmark {name!r}.", remedy=f"Choose among {', '.join(known)}.")
        options = {
            "queries": _numbers("--queries", queries, int),
            "fractions": _numbers("--fractions", fractions, float),
            "repeats": repeats,
            "warm_up": warm_up,
            "changes": changes,
            "minutes": minutes,
            "readers": readers,
            "parts": None if parts is None else tuple(parts.split(",")),
            "scales": _numbers("--scales", scales, float),
            "strategy": strategy,
            "constraints": constraints,
            "together": together,
            "mix": mix,
        }
        given = {option: value for option, value in options.items() if value is not None}
        with ProgressLine(live=True) as line:
            report: dict[str, Any] = module.run(name, sf=sf, json_path=json_path, progress=line, **given)
    print_table(
        ["target", "wanted", "measured", "met"],
        [
            [shown(each["name"]), shown(each["target"]), shown(each["measured"]), "yes" if each["met"] else "NO"]
            for each in report.get("targets", [])
        ],
        right=(1, 2),
    )
    if json_path is not None:
        console().print(Text(f"The figures are in {json_path}"), soft_wrap=True)


def _numbers(option: str, text: str | None, kind: Callable[[str], _Number]) -> tuple[_Number, ...] | None:
    if text is None:
        return None
    try:
        return tuple(kind(part) for part in text.split(","))
    except ValueError as error:
        raise InvalidInput(f"{option} {text} is not a list of numbers.", remedy="Give one such as 1,3,5.") from error


def _module() -> Any:
    try:
        return importlib.import_module("headwater.bench")
    except ModuleNotFoundError as error:
        if error.name != "headwater.bench":
            raise
        raise UnknownName(
            "This installation of Headwater has no benchmarks.", remedy="Use one made from the whole source tree."
        ) from error
