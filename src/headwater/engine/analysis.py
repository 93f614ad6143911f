"""Spark as the judge of a new view: names and types come from its analysis of the user's own text, and our reading must
mean the same.

Two checks stand between a text and a wrong row. The text as we parsed it, printed again, must have the same optimized
plan as the user's own; and the lowered plan, rendered over the same versions, must have the same names and types.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from headwater.engine.failures import translated
from headwater.engine.spark import SparkEngine
from headwater.errors import InternalError
from headwater.sql.constructs import refuse
from headwater.sql.dialect import parse, to_text

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

# Anywhere in a type's text, but never a field's name, which a colon follows.
_UNGROUPABLE = re.compile(r"(?:^|[<:,])(?:map<|(?:variant|geometry|geography)(?:\([^)]*\))?(?=[>,]|$))| collate ")
# Where Spark keeps what a column of text was declared as.
_DECLARED = "__CHAR_VARCHAR_TYPE_STRING"
_UNSTORABLE = re.compile(r"(?:^|[<:,])(?:void|interval(?: [a-z ]+)?)(?=[>,]|$)")


def kinds_of(engine: SparkEngine, query: exp.Query) -> dict[str, str]:
    """The types of a query's columns, by their names."""
    return dict(engine.columns(engine.query(to_text(query))))


def require_storable(columns: Sequence[tuple[str, str]], text: str) -> None:
    """Refuse output columns that can't be stored, compared or told apart."""
    seen: set[str] = set()
    for name, kind in columns:
        if name.lower() in seen:
            raise refuse("DUPLICATE_COLUMN", f"{name} twice", None, text)
        seen.add(name.lower())
        if name.lower().startswith("__hw_"):
            raise refuse("RESERVED_COLUMN", name, None, text)
        if _UNGROUPABLE.search(kind):
            raise refuse("UNGROUPABLE_COLUMN", f"{name} {kind}", None, text)
        if _UNSTORABLE.search(kind):
            raise refuse("UNSTORABLE_COLUMN", f"{name} {kind}", None, text)


def require_fields_apart(columns: DataType, text: str) -> None:
    """Refuse structs with two fields of one name: Delta knows fields by their names, in any case."""
    for path, names in _structs(columns, ()):
        lowered = [name.lower() for name in names]
        twice = next((name for name in names if lowered.count(name.lower()) > 1), None)
        if path and twice is not None:
            raise refuse("UNSTORABLE_COLUMN", f"{'.'.join(path)} with two fields {twice}", None, text)


def _structs(kind: DataType, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """Every struct in a type, by where it stands, with the names of its fields."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(kind, StructType):
        yield path, kind.names
        for field in kind.fields:
            yield from _structs(field.dataType, (*path, field.name))
    elif isinstance(kind, ArrayType):
        yield from _structs(kind.elementType, path)
    elif isinstance(kind, MapType):
        yield from _structs(kind.keyType, path)
        yield from _structs(kind.valueType, path)


def require_comparable(node: str, kinds: Mapping[str, str], text: str) -> None:
    """Refuse a node over values that can't be told apart: its changes could not be added up."""
    for name, kind in kinds.items():
        if _UNGROUPABLE.search(kind):
            raise refuse("UNGROUPABLE_COLUMN", f"{name} {kind} below {node}", None, text)


def require_unpadded(columns: StructType, text: str) -> None:
    """Refuse columns of type CHAR, at any depth: Spark takes them for STRING, but 'a' and 'a ' may be equal then."""
    for field in columns.fields:
        kind = str(field.metadata.get(_DECLARED, ""))
        if re.search(r"\bchar\(", kind):
            raise refuse("CHAR_COLUMN", f"{field.name} {kind}", None, text)


def require_same_names(spark: Sequence[str], ours: Sequence[str | None], text: str) -> None:
    """Columns are matched by position, so positions must agree: * expanded in another order would be a wrong view."""
    agree = len(spark) == len(ours) and all(
        own is None or own.lower() == name.lower() for name, own in zip(spark, ours, strict=True)
    )
    if not agree:
        raise refuse("MISREAD", f"columns {list(ours)} where Spark has {list(spark)}", None, text)


def require_same_reading(engine: SparkEngine, text: str, own: str, reread: str) -> None:
    """``own`` is the user's text over pinned tables, ``reread`` our printing of it over the same."""
    with translated("comparing plans"):
        if engine.optimized_plan(own) != engine.optimized_plan(reread):
            raise refuse("MISREAD", "an expression that does not survive reading and printing", None, text)


def require_same_schema(expected: Sequence[tuple[str, str]], lowered: Sequence[tuple[str, str]]) -> None:
    if tuple(expected) != tuple(lowered):
        raise InternalError(
            f"Spark gives the view the columns {list(expected)}, its plan gives {list(lowered)}.",
            remedy="Please report this with the view's text; nothing was created.",
        )


def printed(text: str) -> str:
    return to_text(parse(text))
