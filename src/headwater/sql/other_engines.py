"""A pinned table as text for engines other than Spark.

A view's table holds each distinct row once, with its count; the text gives the bag. DuckDB reads a version of a Delta
table by a function of its extension ``delta``. DataFusion, with which delta-rs answers SQL, knows it by whatever name
it was registered under.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from headwater.sql.dialect import column, parse, quoted
from headwater.sql.relations import COUNT

_COPY = "__hw_copy"


def duckdb_sql(
    location: str, version: int, columns: Sequence[str] | None, *, counted: bool, where: str | None = None
) -> str:
    """A query for DuckDB; ``columns`` None: all that the table has."""
    place = exp.Literal.string(location).sql("duckdb")
    return _bag(f"delta_scan({place}, version={version})", columns, counted=counted, where=where, numbers="range")


def datafusion_sql(table: str, columns: Sequence[str] | None, *, counted: bool, where: str | None = None) -> str:
    """A query for DataFusion over a table that was registered under a name."""
    # DataFusion's range of one bound is one of its newer ones.
    name = quoted(table).sql("duckdb")
    return _bag(name, columns, counted=counted, where=where, numbers="range(0, {})")


def _bag(table: str, columns: Sequence[str] | None, *, counted: bool, where: str | None, numbers: str) -> str:
    names = "*" if columns is None else ", ".join(column(name).sql("duckdb") for name in columns)
    condition = "" if where is None else f" WHERE {_condition(where)}"
    if not counted:
        return f"SELECT {names} FROM {table}{condition}"
    count = column(COUNT).sql("duckdb")
    copies = numbers.format(count) if "{}" in numbers else f"{numbers}({count})"
    copy = quoted(_COPY).sql("duckdb")
    return f"SELECT {names} FROM (SELECT {names}, unnest({copies}) AS {copy} FROM {table}{condition}) AS q"


def _condition(where: str) -> str:
    """A predicate of ours, in the quotes of these engines."""
    found = parse(f"SELECT 1 WHERE {where}").args["where"]
    text: str = found.this.sql("duckdb")
    return text
