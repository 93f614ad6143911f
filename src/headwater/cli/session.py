"""What the commands share: the options that every command takes, the lake that they open, and how errors leave.

Exit codes: 0 done, 1 an error of Headwater's, 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import inspect
import os
import shlex
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer
from rich.console import Console
from rich.text import Text

from headwater.cli.output import print_json
from headwater.cli.progress import ProgressLine
from headwater.errors import HeadwaterError, NotALake

if TYPE_CHECKING:
    from headwater.lake import Lake

DEFAULT_LAKE = "lake"
LAKE_VARIABLE = "HEADWATER_LAKE"
DEBUG_VARIABLE = "HEADWATER_DEBUG"

LakeOption = Annotated[
    str | None,
    typer.Option("--lake", metavar="PATH", help=f"The lake's folder or URI; ${LAKE_VARIABLE}, else '{DEFAULT_LAKE}'."),
]
CatalogOption = Annotated[
    str | None,
    typer.Option("--catalog", metavar="URL", help="The catalog's database, if it is not the lake's own SQLite file."),
]
JsonOption = Annotated[bool, typer.Option("--json", metavar="", help="Print one JSON document.")]


@dataclass(frozen=True, slots=True)
class Given:
    """The common options as they were given before the command."""

    lake: str | None = None
    catalog: str | None = None
    json: bool = False


@dataclass(frozen=True, slots=True)
class Session:
    lake: str
    catalog: str | None
    json: bool

    @contextmanager
    def working(self) -> Iterator[ProgressLine]:
        with ProgressLine(live=not self.json) as line:
            yield line

    @contextmanager
    def open(self, *, create: bool = False) -> Iterator[tuple[Lake, ProgressLine]]:
        """The lake, and the line that tells what it does. Spark starts when a call first needs it."""
        from headwater.lake import connect

        with self.working() as line:
            try:
                opened = connect(self.lake, catalog=self.catalog, create=create, progress=line)
            except NotALake as error:
                if create:
                    raise
                remedy = f"Name another one with --lake, or make it: headwater init --lake {shlex.quote(self.lake)}"
                raise NotALake(error.message, remedy=remedy, **error.fields) from error
            with opened as lake:
                yield lake, line


def with_session(function: Callable[..., None]) -> Callable[..., None]:
    """A command whose first parameter is the session: gives it ``--lake``, ``--catalog`` and ``--json``, after the
    command's name as well as before it, and turns errors into exit codes."""
    return _command(function, lake=True)


def with_json(function: Callable[..., None]) -> Callable[..., None]:
    """The same for a command that opens no lake."""
    return _command(function, lake=False)


def _command(function: Callable[..., None], *, lake: bool) -> Callable[..., None]:
    common: dict[str, Any] = {"lake_": LakeOption, "catalog_": CatalogOption} if lake else {}
    common |= {"json_": JsonOption}

    @wraps(function)
    def command(ctx: typer.Context, **values: Any) -> None:
        given = ctx.obj if isinstance(ctx.obj, Given) else Given()
        own = {name: values.pop(name) for name in common}
        session = Session(
            lake=own.get("lake_") or given.lake or os.environ.get(LAKE_VARIABLE) or DEFAULT_LAKE,
            catalog=own.get("catalog_") or given.catalog,
            json=own["json_"] or given.json,
        )
        with errors_as_exit_codes(as_json=session.json):
            function(session, **values)

    kept = list(inspect.signature(function).parameters.values())[1:]
    hints = get_type_hints(function, include_extras=True)
    parameters = [inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)]
    parameters += [each.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[each.name]) for each in kept]
    parameters += [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=False if name == "json_" else None, annotation=option
        )
        for name, option in common.items()
    ]
    # Typer reads the signature, older versions of it the annotations too.
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    del command.__wrapped__
    return command


@contextmanager
def errors_as_exit_codes(*, as_json: bool) -> Iterator[None]:
    try:
        yield
    except HeadwaterError as error:
        if as_json:
            print_json(error.as_dict())
        else:
            _print_error(error.code, error.message, error.remedy)
        _print_trace()
        raise typer.Exit(1) from error
    except KeyboardInterrupt as error:
        print("Interrupted. Nothing is half done: run it again to go on.", file=sys.stderr)
        raise typer.Exit(130) from error
    except (typer.Exit, BrokenPipeError):
        raise  # whoever read our output has seen enough; Typer ends quietly
    except Exception as error:
        if type(error).__module__.startswith(("typer", "click")):
            raise
        text = (str(error).strip().splitlines() or [""])[0][:300]
        message = f"{type(error).__name__}: {text}" if text else type(error).__name__
        remedy = None
        if not os.environ.get(DEBUG_VARIABLE):
            remedy = f"This was not expected; set {DEBUG_VARIABLE}=1 to see where it comes from."
        if as_json:
            print_json({"code": "UNEXPECTED", "message": message, "remedy": remedy})
        else:
            _print_error("UNEXPECTED", message, remedy)
        _print_trace()
        raise typer.Exit(1) from error


def _print_error(code: str, message: str, remedy: str | None) -> None:
    console = Console(stderr=True, highlight=False)
    console.print(Text.assemble(("error ", "bold red"), (f"[{code}] ", "red"), message), soft_wrap=True)
    if remedy:
        console.print(Text(f"  {remedy}"), soft_wrap=True)


def _print_trace() -> None:
    if os.environ.get(DEBUG_VARIABLE):
        traceback.print_exc(file=sys.stderr)
