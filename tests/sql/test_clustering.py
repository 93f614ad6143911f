"""By which column a view is kept in order."""

from __future__ import annotations

from headwater.algebra.plan import Scan
from headwater.apply.clustering import clustering_of, order_settings
from headwater.definition import Definition
from headwater.engine.statistics import Extent
from headwater.sql.lower import lower

ORDERS = (("k", "bigint"), ("customer", "int"), ("day", "date"), ("note", "string"), ("many", "array<int>"))
WIDE = tuple((f"c{number}", "int") for number in range(40))
TABLES = {"orders": ORDERS, "wide": WIDE}
VALUES = {
    "k": 6_000_000,
    "customer": 150_000,
    "day": 2_500,
    **{name: 1_000_000 + n for n, (name, _) in enumerate(WIDE)},
}


def chosen(text: str, kinds: dict[str, str] | None = None, small: int = 100_000) -> str | None:
    names = {name: tuple(column for column, _ in columns) for name, columns in TABLES.items()}
    lowered = lower(text, names, functions=None)
    definition = Definition.of(text, lowered, TABLES, {}, {})
    known = {name: kind for columns in TABLES.values() for name, kind in columns} | (kinds or {})
    columns = tuple((name or "", known.get(name or "", "bigint")) for name in lowered.names)

    def extent(scan: Scan) -> Extent:
        return Extent(6_000_000, VALUES)

    return clustering_of(definition, columns, extent, small)


def test_the_column_of_a_table_with_the_most_values() -> None:
    assert chosen("SELECT note, customer, k, day FROM orders") == "k"
    assert chosen("SELECT customer, day FROM orders") == "customer"
    assert chosen("SELECT k AS number, customer FROM orders", {"number": "bigint"}) == "number"


def test_none_where_the_values_are_computed_or_few() -> None:
    assert chosen("SELECT k + 1 AS k, note FROM orders") is None
    assert chosen("SELECT day FROM orders") is None
    assert chosen("SELECT day FROM orders", small=0) == "day"
    assert chosen("SELECT k FROM orders UNION ALL SELECT k FROM orders") is None


def test_the_key_of_an_aggregate_and_not_its_values() -> None:
    assert chosen("SELECT customer, max(k) AS k FROM orders GROUP BY customer") == "customer"


def test_only_columns_that_delta_has_statistics_of() -> None:
    names = ", ".join(name for name, _ in WIDE)
    assert chosen(f"SELECT {names} FROM wide") == "c27"
    assert chosen("SELECT many, k FROM orders") is None
    assert chosen("SELECT customer, many, k FROM orders") == "customer"


def test_a_name_that_would_be_read_as_a_path_is_none() -> None:
    assert chosen("SELECT k AS `a.b` FROM orders", {"a.b": "bigint"}) is None


def test_files_are_cut_by_how_many_rows_there_may_be() -> None:
    assert order_settings((), 10**9) == {}
    key = "spark.sql.adaptive.coalescePartitions.initialPartitionNum"
    assert [order_settings(("k",), rows)[key] for rows in (0, 10, 6_000_000, 10**12)] == ["1", "1", "60", "2000"]
