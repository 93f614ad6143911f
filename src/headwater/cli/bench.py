"""``headwater bench``: runs a benchmark of ``headwater.bench``."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from headwater.cli.output import console
from headwater.cli.progress import ProgressLine
from headwater.cli.session import errors_as_exit_codes
from headwater.errors import UnknownName


def bench(
    name: Annotated[str | None, typer.Argument(help="Which benchmark; without it, their names are listed.")] = None,
    sf: Annotated[float | None, typer.Option(help="TPC-H scale factor, where the benchmark takes one.")] = None,
    json_path: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", dir_okay=False, help="Write the figures to a file.")
    ] = None,
) -> None:
    """Run a benchmark."""
    with errors_as_exit_codes(as_json=False):
        module = _module()
        names = list(module.BENCHES)
        if name is None:
            for each in names:
                console().print(Text(each))
            return
        if name not in names:
            raise UnknownName(f"There is no benchmark {name!r}.", remedy=f"Choose among {', '.join(names)}.")
        with ProgressLine(live=True) as line:
            module.run(name, sf=sf, json_path=json_path, progress=line)


def _module() -> Any:
    try:
        return importlib.import_module("headwater.bench")
    except ModuleNotFoundError as error:
        if error.name != "headwater.bench":
            raise
        raise UnknownName(
            "This installation of Headwater has no benchmarks.", remedy="Use one made from the whole source tree."
        ) from error
