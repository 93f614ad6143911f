"""The commands about keys and foreign keys; each mirrors a call of ``headwater.Lake``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from headwater.cli.output import console, duration, print_json, print_table
from headwater.cli.session import Session
from headwater.errors import InvalidInput

if TYPE_CHECKING:
    from headwater.values import ConstraintStatus, Verification

_BROKEN = 1  # exit code of verify, as of any other bad news


def declare(
    session: Session,
    table: Annotated[str, typer.Argument(help="A tracked table.")],
    primary_key: Annotated[
        str | None, typer.Option(metavar="COLUMN,...", help="No two rows agree in these, none has a NULL there.")
    ] = None,
    unique: Annotated[str | None, typer.Option(metavar="COLUMN,...", help="No two rows agree in these.")] = None,
    foreign_key: Annotated[
        str | None,
        typer.Option(metavar="COLUMN=TABLE.COLUMN,...", help="Every row refers to a row of the other table."),
    ] = None,
    from_ddl: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Read them from the table's own DDL: its name in Spark's catalog, or '.'."),
    ] = None,
    name: Annotated[str | None, typer.Option(help="What to call the constraint.")] = None,
) -> None:
    """Declare a key or a foreign key of a tracked table; verify it before it is used."""
    keys = None if foreign_key is None else _pairs(foreign_key)
    with session.open() as (lake, line):
        line(f"declaring constraints of {table}")
        found = lake.declare(
            table,
            primary_key=_columns(primary_key),
            unique=_columns(unique),
            foreign_key=keys,
            name=name,
            from_ddl=False if from_ddl is None else (True if from_ddl == "." else from_ddl),
        )
    if session.json:
        print_json({"declared": [each.as_dict() for each in found]})
        return
    for each in found:
        console().print(Text(f"{each.name}: {each}"), soft_wrap=True)
    if found:
        console().print(Text(f"Not used until it is verified: headwater verify {found[0].table}"), soft_wrap=True)
    else:
        console().print(Text("Nothing to declare."))


def undeclare(session: Session, name: Annotated[str, typer.Argument(help="A constraint, by its name.")]) -> None:
    """Forget a declared constraint."""
    with session.open() as (lake, _):
        lake.undeclare(name)
    if session.json:
        print_json({"name": name, "declared": False})
    else:
        console().print(Text(f"{name} is no longer declared."))


def constraints(
    session: Session, table: Annotated[str | None, typer.Argument(help="A tracked table; without it, all.")] = None
) -> None:
    """List the declared constraints and what is known of each; reads the catalog only."""
    with session.open() as (lake, _):
        found = lake.constraints(table)
    if session.json:
        print_json({"constraints": [each.as_dict() for each in found]})
        return
    print_table(["name", "constraint", "known to hold", "broken"], [_row(each) for each in found])


def verify(
    session: Session,
    table: Annotated[str | None, typer.Argument(help="A tracked table; without it, all.")] = None,
    full: Annotated[bool, typer.Option("--full", metavar="", help="Look at all rows again, not only changes.")] = False,
) -> None:
    """Look at the data whether constraints hold; exit code 1 if one does not."""
    with session.open() as (lake, line):
        line("verifying")
        found = lake.verify(table, full=full)
    broken = [each for each in found if not each.holds]
    if session.json:
        print_json({"verified": [each.as_dict() for each in found], "all_hold": not broken})
    else:
        rows = [_verified(each) for each in found]
        print_table(["name", "constraint", "at csn", "holds", "looked at", "took"], rows, right=(2, 5))
        for each in broken:
            console().print(Text(f"{each.constraint.name}: {_why(each.constraint)}", style="red"), soft_wrap=True)
    if broken:
        raise typer.Exit(_BROKEN)


def _verified(found: Verification) -> list[str | Text]:
    holds = Text("yes") if found.holds else Text("NO", style="red")
    shown = found.constraint
    return [shown.name, str(shown), str(found.csn), holds, found.looked_at, duration(found.seconds)]


def _row(found: ConstraintStatus) -> list[str | Text]:
    held = "not verified" if found.held_from is None else f"csn {found.held_from} to {found.held_to}"
    return [found.name, str(found), held, Text("" if found.broken is None else _why(found), style="red")]


def _why(found: ConstraintStatus) -> str:
    broken = found.broken or {}
    keys = ", ".join(str(each["key"]) for each in broken.get("keys", ()))
    return f"at csn {broken.get('csn')}" + (f" by {keys}" if keys else "")


def _columns(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(part.strip() for part in text.split(","))


def _pairs(text: str) -> dict[str, str]:
    pairs = [part.partition("=") for part in text.split(",")]
    if any(not (own.strip() and other.strip()) for own, _, other in pairs):
        raise InvalidInput(
            f"{text!r} is no foreign key.", remedy="Write it as column=table.column,column=table.column."
        )
    return {own.strip(): other.strip() for own, _, other in pairs}


COMMANDS = (declare, undeclare, constraints, verify)
__all__ = ["COMMANDS"]
