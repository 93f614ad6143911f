"""Answers on stdout: tables for people, one JSON document for scripts."""

from __future__ import annotations

import base64
import csv
import json
import math
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PIPE_WIDTH = 160
MOST_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class Rows:
    """The first rows of a result; ``more`` when it has others."""

    columns: tuple[tuple[str, str], ...]
    rows: tuple[tuple[object, ...], ...]
    more: bool

    def as_dict(self) -> dict[str, Any]:
        return {
            "columns": [{"name": name, "type": kind} for name, kind in self.columns],
            "rows": [[plain(value) for value in row] for row in self.rows],
            "more": self.more,
        }


def first_rows(frame: DataFrame, limit: int) -> Rows:
    """At most ``limit`` rows, and one more to see whether there are others."""
    columns = tuple((field.name, field.dataType.simpleString()) for field in frame.schema.fields)
    found = [tuple(row) for row in frame.limit(limit + 1).collect()]  # bounded by MOST_ROWS
    return Rows(columns, tuple(found[:limit]), len(found) > limit)


def plain(value: object) -> Any:
    """A value of Spark's as JSON can carry it without loss: decimals as text, times in ISO form, bytes in base 64."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case Decimal():
            return format(value, "f")
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case bytes() | bytearray():
            return base64.b64encode(value).decode("ascii")
        case Mapping():
            return {str(plain(key)): plain(item) for key, item in value.items()}
        case tuple() if hasattr(value, "asDict"):
            return {key: plain(item) for key, item in value.asDict().items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case _:
            return str(value)


def shown(value: object) -> str:
    """A value as a cell of a table."""
    found = plain(value)
    if found is None:
        return "NULL"
    return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)


def console() -> Console:
    """Stdout; a pipe has no width of its own, and wrapped cells would be hard to read in a file."""
    found = Console(highlight=False)
    if found.is_terminal or "COLUMNS" in os.environ:
        return found
    return Console(highlight=False, width=_PIPE_WIDTH)


def print_json(value: object) -> None:
    json.dump(plain(value), sys.stdout, indent=2, ensure_ascii=False)
    sys.stdout.write("\n")


def print_csv(found: Rows) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow([name for name, _ in found.columns])
    for row in found.rows:
        writer.writerow(["" if value is None else shown(value) for value in row])


def print_rows(found: Rows) -> None:
    numeric = ("int", "bigint", "double", "float", "decimal", "smallint", "tinyint")
    right = [index for index, (_, kind) in enumerate(found.columns) if kind.startswith(numeric)]
    print_table([name for name, _ in found.columns], [[shown(value) for value in row] for row in found.rows], right)
    count = f"{len(found.rows)} row{'' if len(found.rows) == 1 else 's'}"
    console().print(Text(f"first {count}; there are more (--limit)" if found.more else count, style="dim"))


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[str | Text]], right: Sequence[int] = (), *, title: str | None = None
) -> None:
    out = console()
    if title is not None:
        out.print(Text(title, style="bold"), soft_wrap=True)
    table = Table(header_style="bold")
    for index, name in enumerate(columns):
        table.add_column(Text(name), justify="right" if index in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else Text(cell) for cell in row))
    out.print(table)


def duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"
