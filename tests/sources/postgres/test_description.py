"""Tables and their types, as a real server has them: the log and the copy tell the same values."""

from __future__ import annotations

from contextlib import closing
from datetime import date, datetime, timezone
from decimal import Decimal

import pyarrow as pa
import pytest

from headwater.errors import TableNotDecoded, UnknownName, UnsupportedType, ValueRefused
from headwater.sources.postgres.arrow import arrow_schema, record_batches
from headwater.sources.postgres.description import describe
from headwater.sources.postgres.initial_copy import copying, take_fence
from headwater.sources.postgres.tables import ReplicaIdentity, Row, SourceTable, TableName
from tests.sources.postgres.conftest import Source

# (column, PostgreSQL type, Spark type, literal, value)
COLUMNS = [
    ("b", "bool", "boolean", "true", True),
    ("i2", "int2", "smallint", "-32768", -32768),
    ("i4", "int4", "int", "2147483647", 2147483647),
    ("i8", "int8", "bigint", "-9223372036854775808", -(2**63)),
    ("f4", "float4", "float", "'-Infinity'", float("-inf")),
    ("f8", "float8", "double", "0.1::float8 + 0.2::float8", 0.1 + 0.2),
    ("num", "numeric(38,10)", "decimal(38,10)", "1234567890123456789012345678.0123456789", None),
    ("money2", "numeric(12,2)", "decimal(12,2)", "-1.5", Decimal("-1.50")),
    ("t", "text", "string", "E'\\\\N\\t\"{},\\n'", '\\N\t"{},\n'),
    ("v", "varchar(20)", "string", "'žluťoučký 🐎'", "žluťoučký 🐎"),
    ("c", "char(5)", "string", "'ab'", "ab"),
    ("by", "bytea", "binary", r"'\x00ff5c'", b"\x00\xff\\"),
    ("d", "date", "date", "'0001-01-01'", date(1, 1, 1)),
    ("ts", "timestamp", "timestamp_ntz", "'9999-12-31 23:59:59.999999'", datetime(9999, 12, 31, 23, 59, 59, 999999)),
    (
        "tz",
        "timestamptz",
        "timestamp",
        "'2024-07-01 12:00:00.5+02'",
        datetime(2024, 7, 1, 10, 0, 0, 500_000, tzinfo=timezone.utc),
    ),
    ("ti", "time", "string", "'24:00:00'", "24:00:00"),
    ("tt", "timetz", "string", "'01:02:03.4+02'", "01:02:03.4+02"),
    ("iv", "interval", "string", "'1 year -2 days 3 hours 0.5 seconds'", "P1Y-2DT3H0.5S"),
    ("u", "uuid", "string", "'C2D29867-3D0B-4497-9191-18A9D8EE7830'", "c2d29867-3d0b-4497-9191-18a9d8ee7830"),
    ("j", "json", "string", '\'{"b" : 1,  "a": [null]}\'', '{"b" : 1,  "a": [null]}'),
    ("jb", "jsonb", "string", '\'{"b" : 1,  "a": [null]}\'', '{"a": [null], "b": 1}'),
    ("e", "shop.mood", "string", "'so so'", "so so"),
    ("dom", "shop.price", "decimal(9,3)", "1.25", Decimal("1.250")),
    ("ai", "int[]", "array<int>", "'{1,NULL,3}'", [1, None, 3]),
    ("at", "text[]", "array<string>", "ARRAY['a,b', 'NULL', NULL, '', '\"\\{}']", ["a,b", "NULL", None, "", '"\\{}']),
    ("ad", "shop.price[]", "array<decimal(9,3)>", "'{1.25}'", [Decimal("1.250")]),
    ("ae", "shop.mood[]", "array<string>", "'{\"so so\"}'", ["so so"]),
    ("an", "numeric(6,2)[]", "array<decimal(6,2)>", "'{1,-2.5}'", [Decimal("1.00"), Decimal("-2.50")]),
    ("az", "timestamptz[]", "array<timestamp>", "'{2024-07-01 00:00+00}'", [datetime(2024, 7, 1, tzinfo=timezone.utc)]),
    ("ip", "inet", "string", "'10.0.0.1/8'", "10.0.0.1/8"),
    ("bi", "bit(3)", "string", "'101'", "101"),
]
TYPES = (
    "CREATE SCHEMA shop",
    "CREATE TYPE shop.mood AS ENUM ('so so', 'fine')",
    "CREATE DOMAIN shop.price AS numeric(9,3)",
)


def copy_of(source: Source, table: SourceTable) -> list[Row]:
    with closing(source.connect()) as connection:
        fence = take_fence(connection, source.name)
        with copying(connection, fence, database=source.name) as copy:
            return list(copy.rows(table))


def test_every_common_type_arrives_alike_by_the_log_and_by_the_copy(source: Source) -> None:
    source.run(*TYPES, "CREATE TABLE shop.every (" + ", ".join(f'"{c[0]}" {c[1]}' for c in COLUMNS) + ")")
    # The application's own habits must not show.
    source.owner.execute("SET DateStyle = 'German'; SET TimeZone = 'Asia/Kolkata'; SET extra_float_digits = -5")
    joined = source.follow("shop.every")
    (table,) = source.tables
    assert table.spark_columns == tuple((c[0], c[2]) for c in COLUMNS)
    source.owner.execute("SET DateStyle = 'ISO'; SET TimeZone = 'UTC'")
    source.run("INSERT INTO shop.every VALUES (" + ", ".join(c[3] for c in COLUMNS) + ")")
    source.run("INSERT INTO shop.every DEFAULT VALUES")
    logged = [change.new for _, changes in source.drain(source.reader(joined)) for change in changes]  # type: ignore[union-attr]
    expected = tuple(c[4] if c[4] is not None else Decimal(c[3]) for c in COLUMNS)
    assert logged == [expected, (None,) * len(COLUMNS)]
    assert copy_of(source, table) == logged
    (batch,) = record_batches(table, logged)
    assert batch.schema == arrow_schema(table)
    assert batch.num_rows == 2
    held = batch.to_pylist()
    assert tuple(held[0].values()) == expected
    assert set(held[1].values()) == {None}


def test_not_a_number_arrives_as_such(source: Source) -> None:
    source.run("CREATE TABLE public.f (a float4, b float8)", "INSERT INTO public.f VALUES ('NaN', 'NaN')")
    (table,) = source.describe("public.f")
    (batch,) = record_batches(table, copy_of(source, table))
    assert str(batch.to_pylist()) == "[{'a': nan, 'b': nan}]"


@pytest.mark.parametrize(
    ("pg_type", "literal", "why"),
    [
        ("date", "'infinity'", "infinite"),
        ("timestamptz", "'-infinity'", "infinite"),
        ("timestamp", "'0044-03-15 BC'", "before the year 1"),
        ("numeric(5,2)", "'NaN'", "NaN"),
        ("int[]", "'{{1},{2}}'", "more than one dimension"),
        ("int[]", "'[0:1]={1,2}'", "index 1"),
    ],
)
def test_values_without_a_place_in_spark_are_refused_by_name(
    source: Source, pg_type: str, literal: str, why: str
) -> None:
    source.run(f"CREATE TABLE public.x (a {pg_type})", f"INSERT INTO public.x VALUES ({literal})")
    (table,) = source.describe("public.x")
    with pytest.raises(ValueRefused, match=rf"column 'a' of public\.x .*{why}"):
        copy_of(source, table)
    (declared,) = source.describe("public.x", types={"a": "string"})
    (row,) = copy_of(source, declared)
    assert isinstance(row[0], str)


def test_types_without_a_place_in_spark_are_refused_or_declared_or_left_out(source: Source) -> None:
    source.run(
        "CREATE TYPE public.pair AS (a int, b int)",
        "CREATE TABLE public.x (id int, n numeric, p public.pair, r int4range,"
        " g int GENERATED ALWAYS AS (id + 1) STORED)",
        "INSERT INTO public.x VALUES (1, 12.345, (1, 2), '[1,5)')",
    )
    with pytest.raises(UnsupportedType, match=r"'n' of public\.x is of type numeric: a numeric without a precision"):
        source.describe("public.x")
    with pytest.raises(UnsupportedType, match=r"'p' of public\.x is of type public\.pair"):
        source.describe("public.x", types={"n": "string"})
    (declared,) = source.describe("public.x", types={"n": "decimal(20,4)", "p": "string", "r": "string"})
    assert copy_of(source, declared) == [(1, Decimal("12.345"), "(1,2)", "[1,5)")]
    with pytest.raises(ValueRefused, match="without rounding"):
        copy_of(source, source.describe("public.x", types={"n": "decimal(20,2)", "p": "string", "r": "string"})[0])
    with closing(source.connect()) as connection:
        assert describe(connection, TableName("public", "x"), only=["id"]).spark_columns == (("id", "int"),)
        for asked in ({"only": ["g"]}, {"types": {"nothing": "string"}}):
            with pytest.raises(UnknownName, match="no column"):
                describe(connection, TableName("public", "x"), **asked)  # type: ignore[arg-type]
        with pytest.raises(UnknownName, match="no table"):
            describe(connection, TableName("public", "nothing"))


def test_a_key_that_is_left_out_tells_no_rows_apart(source: Source) -> None:
    source.run("CREATE TABLE public.colors (id int, part int, color text, PRIMARY KEY (id, part))")
    with closing(source.connect()) as connection:
        name = TableName("public", "colors")
        whole = describe(connection, name)
        assert (whole.key, whole.key_oid is None) == (("id", "part"), False)
        for only in (["color"], ["id", "color"]):
            part = describe(connection, name, only=only)
            assert (part.key, part.key_oid) == ((), None)


def test_a_table_is_described_with_its_key_and_identity(source: Source) -> None:
    source.run("CREATE TABLE public.k (a int, b text, c int, PRIMARY KEY (c, a))")
    (table,) = source.describe("public.k")
    assert (table.key, table.replica_identity) == (("c", "a"), ReplicaIdentity.DEFAULT)


def test_what_the_log_does_not_tell_as_a_table_is_refused(source: Source) -> None:
    source.run(
        "CREATE TABLE public.parts (a int) PARTITION BY RANGE (a)",
        "CREATE TABLE public.part PARTITION OF public.parts FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE public.parent (a int)",
        "CREATE TABLE public.child () INHERITS (public.parent)",
        "CREATE UNLOGGED TABLE public.quick (a int)",
        "CREATE VIEW public.seen AS SELECT 1 AS a",
    )
    for name, why in (
        ("parts", "a partitioned table"),
        ("parent", "that others inherit from"),
        ("quick", "an unlogged table"),
        ("seen", "a view"),
    ):
        with pytest.raises(TableNotDecoded, match=why):
            source.describe(f"public.{name}")
    assert [table.name.name for table in source.describe("public.part", "public.child")] == ["part", "child"]


def test_rows_in_batches_of_a_bounded_size(source: Source) -> None:
    source.run("CREATE TABLE public.n (a int)", "INSERT INTO public.n SELECT generate_series(1, 25)")
    (table,) = source.describe("public.n")
    batches = list(record_batches(table, copy_of(source, table), size=10))
    assert [batch.num_rows for batch in batches] == [10, 10, 5]
    assert sorted(pa.Table.from_batches(batches).column("a").to_pylist()) == list(range(1, 26))
    assert list(record_batches(table, [])) == []


def test_a_policy_that_hides_rows_raises_and_does_not_hide(source: Source) -> None:
    from dataclasses import replace

    from headwater.errors import DatabaseNotReady

    source.run(
        "CREATE TABLE public.p (a int)",
        "INSERT INTO public.p VALUES (1), (2)",
        "ALTER TABLE public.p ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY few ON public.p USING (a = 1)",
        f"CREATE ROLE {source.slot}_reader LOGIN",
        f"GRANT SELECT ON public.p TO {source.slot}_reader",
    )
    source.address = replace(source.address, user=f"{source.slot}_reader")
    with pytest.raises(DatabaseNotReady, match="row-level security"):
        copy_of(source, source.describe("public.p")[0])
    source.address = replace(source.address, user="postgres")
