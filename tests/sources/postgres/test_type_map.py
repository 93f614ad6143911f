"""Types and values: without loss, or refused."""

from __future__ import annotations

import math
from datetime import date, datetime, timezone
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import UnsupportedType
from headwater.sources.postgres.arrow import arrow_type
from headwater.sources.postgres.tables import TableName, column_of
from headwater.sources.postgres.type_map import (
    TYPES,
    ArrayOf,
    EnumType,
    NoSuchMapping,
    OtherType,
    PgType,
    Scalar,
    Unrepresentable,
    Value,
    declared,
    mapped,
)


def numeric(precision: int, scale: int) -> Scalar:
    return Scalar("numeric", (precision << 16 | scale & 0x7FF) + 4)


INT, TEXT = Scalar("int4"), Scalar("text")


@pytest.mark.parametrize(
    ("pg", "spark_type", "text", "value"),
    [
        (Scalar("bool"), "boolean", "t", True),
        (Scalar("bool"), "boolean", "f", False),
        (Scalar("int2"), "smallint", "-32768", -32768),
        (INT, "int", "2147483647", 2147483647),
        (Scalar("int8"), "bigint", "-9223372036854775808", -(2**63)),
        (Scalar("oid"), "bigint", "4294967295", 2**32 - 1),
        (Scalar("float4"), "float", "0.1", 0.1),
        (Scalar("float8"), "double", "1e-320", 1e-320),
        (Scalar("float8"), "double", "-Infinity", -math.inf),
        (numeric(10, 2), "decimal(10,2)", "-12345678.90", Decimal("-12345678.90")),
        (numeric(38, 38), "decimal(38,38)", "0." + "9" * 38, Decimal("0." + "9" * 38)),
        (numeric(3, 5), "decimal(5,5)", "0.00123", Decimal("0.00123")),
        (numeric(2, -3), "decimal(5,0)", "99000", Decimal(99000)),
        (TEXT, "string", "", ""),
        (Scalar("varchar", 14), "string", "né\n", "né\n"),
        (Scalar("bpchar", 14), "string", "ab        ", "ab"),
        (Scalar("bytea"), "binary", "\\x00ff", b"\x00\xff"),
        (Scalar("bytea"), "binary", "\\x", b""),
        (Scalar("date"), "date", "0001-01-01", date(1, 1, 1)),
        (Scalar("timestamp"), "timestamp_ntz", "2024-02-29 23:59:59.5", datetime(2024, 2, 29, 23, 59, 59, 500_000)),
        (Scalar("timestamp"), "timestamp_ntz", "9999-12-31 00:00:00", datetime(9999, 12, 31)),
        (
            Scalar("timestamptz"),
            "timestamp",
            "2024-01-02 03:04:05.000001+00",
            datetime(2024, 1, 2, 3, 4, 5, 1, tzinfo=timezone.utc),
        ),
        (Scalar("time"), "string", "24:00:00", "24:00:00"),
        (Scalar("interval"), "string", "P1Y2M3DT4H5M6.7S", "P1Y2M3DT4H5M6.7S"),
        (Scalar("uuid"), "string", "c2d29867-3d0b-4497-9191-18a9d8ee7830", "c2d29867-3d0b-4497-9191-18a9d8ee7830"),
        (Scalar("jsonb"), "string", '{"a": 1}', '{"a": 1}'),
        (EnumType("shop.mood"), "string", "so so", "so so"),
        (ArrayOf(INT), "array<int>", "{}", []),
        (ArrayOf(INT), "array<int>", "{1,NULL,-3}", [1, None, -3]),
        (ArrayOf(TEXT), "array<string>", '{a,"NULL",null,"","x,{}\\"\\\\"}', ["a", "NULL", None, "", 'x,{}"\\']),
        (ArrayOf(numeric(4, 1)), "array<decimal(4,1)>", "{1.5,NULL}", [Decimal("1.5"), None]),
        (ArrayOf(Scalar("bytea")), "array<binary>", '{"\\\\x00"}', [b"\0"]),
    ],
)
def test_types_and_values(pg: PgType, spark_type: str, text: str, value: Value) -> None:
    found = mapped(pg)
    assert found.spark_type == spark_type
    assert found.read(text) == value
    held = pa.array([found.read(text), None], arrow_type(spark_type)).to_pylist()
    assert held[1] is None
    assert held[0] == (pytest.approx(value, rel=1e-7) if spark_type == "float" else value)


def test_not_a_number_is_a_double_but_no_decimal() -> None:
    assert math.isnan(mapped(Scalar("float8")).read("NaN"))
    assert math.isnan(mapped(Scalar("float4")).read("NaN"))
    with pytest.raises(Unrepresentable, match="NaN"):
        mapped(numeric(5, 2)).read("NaN")


@pytest.mark.parametrize(
    ("pg", "text", "why"),
    [
        (Scalar("date"), "infinity", "infinite"),
        (Scalar("date"), "-infinity", "infinite"),
        (Scalar("date"), "0044-03-15 BC", "before the year 1"),
        (Scalar("date"), "10000-01-01", "after the year 9999"),
        (Scalar("timestamp"), "infinity", "infinite"),
        (Scalar("timestamptz"), "-infinity", "infinite"),
        (Scalar("timestamptz"), "0044-03-15 00:00:00+00 BC", "before the year 1"),
        (Scalar("timestamptz"), "10000-01-01 00:00:00+00", "after the year 9999"),
        (Scalar("timestamptz"), "2024-01-01 00:00:00+02", "not printed in UTC"),
        (ArrayOf(INT), "{{1,2},{3,4}}", "more than one dimension"),
        (ArrayOf(INT), "[0:1]={1,2}", "does not begin at index 1"),
        (ArrayOf(INT), "{1,2", "can't be read"),
        (ArrayOf(INT), "{1,,2}", "can't be read"),
        (Scalar("bytea"), "\\000", "hexadecimal"),
    ],
)
def test_values_that_spark_can_not_hold_are_refused(pg: PgType, text: str, why: str) -> None:
    with pytest.raises(Unrepresentable, match=why):
        mapped(pg).read(text)


@pytest.mark.parametrize(
    "pg",
    [Scalar("numeric"), numeric(39, 0), numeric(1000, 500), Scalar("money"), Scalar("tsvector"), Scalar("int4range"),
     OtherType("public.citext"), ArrayOf(OtherType("shop.address")), ArrayOf(Scalar("numeric"))],
    ids=str,
)  # fmt: skip
def test_types_that_spark_can_not_hold_are_refused_and_can_be_declared(pg: PgType) -> None:
    with pytest.raises(NoSuchMapping):
        mapped(pg)
    table = TableName("shop", "sales")
    with pytest.raises(UnsupportedType, match=r"Column 'c' of shop\.sales is of type .*Declare"):
        column_of(table, "c", pg, 1)
    assert column_of(table, "c", pg, 1, {"c": "STRING"}).mapping.read("as it is") == "as it is"


def test_a_numeric_may_be_declared_a_decimal_and_every_value_is_checked() -> None:
    found = declared(Scalar("numeric"), "DECIMAL(5, 2)")
    assert found.spark_type == "decimal(5,2)"
    for fits in ("0", "-999.99", "999.9900", "0.00000", "1"):
        assert found.read(fits) == Decimal(fits)
        assert pa.array([found.read(fits)], arrow_type(found.spark_type)).to_pylist() == [Decimal(fits)]
    for does_not in ("1000", "0.001", "-1000.00", "123456789012345678901234567890.123", "NaN", "Infinity"):
        with pytest.raises(Unrepresentable):
            found.read(does_not)


@pytest.mark.parametrize("wanted", ["decimal(39,0)", "decimal(2,3)", "decimal", "double", "int"])
def test_other_declarations_are_refused(wanted: str) -> None:
    with pytest.raises(NoSuchMapping):
        declared(Scalar("numeric"), wanted)
    with pytest.raises(NoSuchMapping):
        declared(Scalar("int4"), "decimal(10,0)")


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@given(st.lists(st.none() | texts, max_size=6))
def test_arrays_of_any_texts_come_back(items: list[str | None]) -> None:
    quoted = ["NULL" if item is None else '"' + item.replace("\\", "\\\\").replace('"', '\\"') + '"' for item in items]
    assert mapped(ArrayOf(TEXT)).read("{" + ",".join(quoted) + "}") == items


@given(st.decimals(-(10**20), 10**20) | st.decimals(-10, 10, places=12), st.integers(1, 38), st.integers(0, 38))
def test_a_declared_decimal_takes_just_what_arrow_takes(value: Decimal, precision: int, scale: int) -> None:
    scale = min(scale, precision)
    found = declared(Scalar("numeric"), f"decimal({precision},{scale})")
    text = f"{value:f}"
    try:
        read = found.read(text)
    except Unrepresentable:
        with pytest.raises(pa.ArrowInvalid):
            pa.array([Decimal(text.rstrip("0") if "." in text else text)], arrow_type(found.spark_type))
        return
    assert pa.array([read], arrow_type(found.spark_type)).to_pylist() == [value]


def test_the_table_names_every_type_once() -> None:
    names = [name for row in TYPES for name in row.names]
    assert len(names) == len(set(names))
