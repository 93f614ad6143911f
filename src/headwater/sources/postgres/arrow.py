"""Rows as Arrow, for Spark: bounded batches, never a whole table."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice

import pyarrow as pa

from headwater.errors import InternalError
from headwater.sources.postgres.tables import Row, SourceTable

ROWS_A_BATCH = 10_000

_TYPES = {
    "boolean": pa.bool_(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}


def arrow_type(spark_type: str) -> pa.DataType:
    """The Arrow type that Spark reads as ``spark_type``, for the types that ``type_map`` gives."""
    if found := re.fullmatch(r"array<(.+)>", spark_type):
        return pa.list_(arrow_type(found[1]))
    if found := re.fullmatch(r"decimal\((\d+),(\d+)\)", spark_type):
        return pa.decimal128(int(found[1]), int(found[2]))
    if spark_type not in _TYPES:
        raise InternalError(f"No Arrow type stands for {spark_type}.")
    return _TYPES[spark_type]


def arrow_schema(table: SourceTable) -> pa.Schema:
    return pa.schema([(name, arrow_type(spark_type)) for name, spark_type in table.spark_columns])


def record_batches(table: SourceTable, rows: Iterable[Row], size: int = ROWS_A_BATCH) -> Iterator[pa.RecordBatch]:
    """The rows in batches of at most ``size``; values that do not fit their type raise, and are never cast."""
    schema = arrow_schema(table)
    remaining = iter(rows)
    while chunk := list(islice(remaining, size)):
        columns = zip(*chunk, strict=True)
        arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)
