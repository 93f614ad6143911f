"""The six-way join of [Lee01 §5] over TPC-H, what changes below it, and what both benchmarks on it measure.

    V = CUSTOMER ⋈ ORDERS ⋈ LINEITEM ⋈ SUPPLIER ⋈ NATION ⋈ REGION

along the foreign keys; NATION is the supplier's. The view has as many rows as LINEITEM.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.bench.tpch.oracle import bound
from headwater.bench.tpch.refresh import Round
from headwater.errors import InvalidInput
from headwater.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TABLES = ("customer", "orders", "lineitem", "supplier", "nation", "region")
SIX_WAY = """
SELECT c_custkey, c_name, c_mktsegment, o_orderkey, o_orderdate, o_totalprice, l_linenumber, l_quantity,
       l_extendedprice, l_discount, l_shipdate, s_suppkey, s_name, n_name, r_name
FROM customer
JOIN orders ON o_custkey = c_custkey
JOIN lineitem ON l_orderkey = o_orderkey
JOIN supplier ON s_suppkey = l_suppkey
JOIN nation ON n_nationkey = s_nationkey
JOIN region ON r_regionkey = n_regionkey
""".strip()
REVENUE = """
SELECT n_name, r_name, year(o_orderdate) AS year, sum(l_extendedprice * (1 - l_discount)) AS revenue, count(*) AS items
FROM customer
JOIN orders ON o_custkey = c_custkey
JOIN lineitem ON l_orderkey = o_orderkey
JOIN supplier ON s_suppkey = l_suppkey
JOIN nation ON n_nationkey = s_nationkey
JOIN region ON r_regionkey = n_regionkey
GROUP BY n_name, r_name, year(o_orderdate)
""".strip()
KEYS = {
    "customer": "c_custkey",
    "orders": "o_orderkey",
    "supplier": "s_suppkey",
    "nation": "n_nationkey",
    "region": "r_regionkey",
}
FOREIGN_KEYS = {
    "orders": {"o_custkey": "customer.c_custkey"},
    "lineitem": {"l_orderkey": "orders.o_orderkey"},
    "supplier": {"s_nationkey": "nation.n_nationkey"},
    "nation": {"n_regionkey": "region.r_regionkey"},
}
SUPPLIERS = {"l_suppkey": "supplier.s_suppkey"}


class BaseChanges(Round):
    """About ``2 · fraction`` of the tuples of CUSTOMER, ORDERS, LINEITEM and SUPPLIER inserted or deleted.

    Half of them come and half go: new orders with their line items against old ones, and customers and suppliers that
    are replaced by others of the same key. NATION and REGION have too few rows for a share of them to change.
    """

    def _commits(self) -> Iterator[tuple[str, Callable[[], None]]]:
        new = self._new_orders()
        yield "INSERT new orders", lambda: self._append("orders", new.orders())
        yield "INSERT their line items", lambda: self._append("lineitem", new.lines())
        yield "UPDATE customers", self.customers
        yield "MERGE into suppliers", self.suppliers
        old = self._old_orders()
        yield "DELETE line items of old orders", lambda: self._delete("lineitem", old("l_orderkey"))
        yield "DELETE the orders", lambda: self._delete("orders", old("o_orderkey"))


class RefreshFunctions(Round):
    """RF1 and RF2 of TPC-H: new orders with their line items, and as many old ones that go."""

    def _commits(self) -> Iterator[tuple[str, Callable[[], None]]]:
        new = self._new_orders()
        yield "RF1: INSERT new orders", lambda: self._append("orders", new.orders())
        yield "RF1: INSERT their line items", lambda: self._append("lineitem", new.lines())
        old = self._old_orders()
        yield "RF2: DELETE line items of old orders", lambda: self._delete("lineitem", old("l_orderkey"))
        yield "RF2: DELETE the orders", lambda: self._delete("orders", old("o_orderkey"))


def require_scale(scale_factor: float) -> None:
    if not 0 < scale_factor <= 100:
        raise InvalidInput(f"A scale factor of {scale_factor} is out of range.", remedy="Give one above 0, up to 100.")


def track(lake: Lake, places: Mapping[str, Path]) -> None:
    for name in TABLES:
        lake.track(name, places[name])


def declare(lake: Lake) -> None:
    """Declare the keys and foreign keys along which the views join, and verify them."""
    for table, key in KEYS.items():
        lake.declare(table, primary_key=key)
    for table, foreign in FOREIGN_KEYS.items():
        lake.declare(table, foreign_key=foreign)
    lake.declare("lineitem", foreign_key=SUPPLIERS)
    for found in lake.verify():
        if not found.holds:
            raise InvalidInput(f"{found.constraint} is broken by the generated data.", remedy="Generate it anew.")


def recompute(spark: SparkSession, places: Mapping[str, Path], text: str, place: Path) -> None:
    """The text over the newest tables, written over a Delta table."""
    read = spark.read.format("delta")
    with bound(spark, {name: read.load(str(places[name])) for name in TABLES}):
        answer = spark.sql(text)
    answer.write.format("delta").mode("overwrite").save(str(place))


def digest(rows: DataFrame) -> tuple[int, int]:
    """The number of rows and a sum over their hashes: the same for equal bags, in whatever order."""
    from pyspark.sql.functions import count, lit, sum, xxhash64  # noqa: A004

    hashed = xxhash64(*(rows[name] for name in rows.columns)).cast("decimal(20, 0)")
    found = rows.select(hashed.alias("h")).agg(count(lit(1)), sum("h")).collect()[0]  # one row
    return int(found[0]), int(found[1] or 0)
