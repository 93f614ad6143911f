"""The ``headwater`` command."""

from __future__ import annotations

import platform

import typer
from rich.text import Text

from headwater.cli.bench import bench
from headwater.cli.commands import COMMANDS
from headwater.cli.constraints import COMMANDS as CONSTRAINTS
from headwater.cli.demo import demo
from headwater.cli.output import console, print_json
from headwater.cli.readers import READER_COMMANDS, SNAPSHOT_COMMANDS
from headwater.cli.service import SERVICE_COMMANDS
from headwater.cli.session import CatalogOption, Given, JsonOption, LakeOption, Session, with_json, with_session

app = typer.Typer(
    name="headwater",
    help="Incremental materialized views for Spark over Delta Lake, at any committed moment.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def given(ctx: typer.Context, lake: LakeOption = None, catalog: CatalogOption = None, json: JsonOption = False) -> None:
    """Incremental materialized views for Spark over Delta Lake, at any committed moment."""
    ctx.obj = Given(lake, catalog, json)


def version(session: Session) -> None:
    """Print the versions of Headwater and of what it runs on."""
    from importlib.metadata import version as installed

    from headwater import __version__
    from headwater.engine.jars import DELTA_VERSION

    found = {
        "headwater": __version__,
        "pyspark": installed("pyspark"),
        "delta": DELTA_VERSION,
        "python": platform.python_version(),
    }
    if session.json:
        print_json(found)
    else:
        console().print(Text(", ".join(f"{name} {number}" for name, number in found.items())))


for each in (*COMMANDS, *CONSTRAINTS, *SERVICE_COMMANDS):
    app.command()(with_session(each))
for reader in READER_COMMANDS:
    app.command()(with_session(reader))
snapshot = typer.Typer(help="Read views and tables together, at one moment.", no_args_is_help=True)
for part in SNAPSHOT_COMMANDS:
    snapshot.command()(with_session(part))
app.add_typer(snapshot, name="snapshot")
app.command()(with_json(demo))
app.command()(bench)
app.command()(with_json(version))


if __name__ == "__main__":
    app()
