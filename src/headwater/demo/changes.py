"""The stream of changes: what a business does to its tables, with plain Spark and Delta statements.

Headwater has no part in these writes. Orders and their line items are two commits to two tables; a tag in the commits'
metadata declares them one unit of work, so that no moment shows an order without its lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.demo.report import Narrator
from headwater.demo.tpch import KEYS, bucket, held_back
from headwater.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
_DELETED_FROM = 50  # buckets: 0.. arrive, 50.. are deleted, 70.. are shipped late
_LATE_FROM = 70


def one_round(lake: Lake, parquet: Path, places: Mapping[str, Path], number: int, narrator: Narrator) -> None:
    """Four units of work: new orders, deleted orders, an UPDATE, a MERGE."""
    tables = {name: f"delta.`{place}`" for name, place in places.items()}
    spark = lake.spark

    narrator.busy("INSERT new orders with their line items")
    tag = lake.unit_of_work(f"new-orders-{number}", commits=2)
    for table in ("orders", "lineitem"):
        rows = held_back(spark, parquet, table, number)
        rows.write.format("delta").mode("append").option("userMetadata", tag).save(str(places[table]))

    narrator.busy("DELETE orders with their line items")
    with _commit_metadata(spark, lake.unit_of_work(f"deleted-orders-{number}", commits=2)):
        for table in ("lineitem", "orders"):
            spark.sql(f"DELETE FROM {tables[table]} WHERE {bucket(KEYS[table])} = {_DELETED_FROM + number}")

    narrator.busy("UPDATE customers")
    spark.sql(
        f"UPDATE {tables['customer']} SET c_mktsegment = 'BUILDING', c_acctbal = c_acctbal + 100 "
        f"WHERE c_custkey % 100 = {number}"
    )

    narrator.busy("MERGE late shipments into the line items")
    late = f"{bucket('l_orderkey')} = {_LATE_FROM + number}"
    spark.sql(
        f"""
        MERGE INTO {tables["lineitem"]} t
        USING (
          SELECT *, l_linenumber AS number FROM {tables["lineitem"]} WHERE {late}
          UNION ALL
          SELECT *, l_linenumber + 100 AS number FROM {tables["lineitem"]} WHERE {late} AND l_linenumber = 1
        ) s
        ON t.l_orderkey = s.l_orderkey AND t.l_linenumber = s.number
        WHEN MATCHED AND s.l_linenumber > 5 THEN DELETE
        WHEN MATCHED THEN UPDATE SET
          l_shipdate = date_add(t.l_shipdate, 30), l_receiptdate = date_add(t.l_receiptdate, 30)
        WHEN NOT MATCHED THEN INSERT (
          l_orderkey, l_partkey, l_suppkey, l_linenumber, l_quantity, l_extendedprice, l_discount, l_tax, l_returnflag,
          l_linestatus, l_shipdate, l_commitdate, l_receiptdate, l_shipinstruct, l_shipmode, l_comment
        ) VALUES (
          s.l_orderkey, s.l_partkey, s.l_suppkey, s.number, s.l_quantity, s.l_extendedprice, s.l_discount, s.l_tax,
          s.l_returnflag, s.l_linestatus, s.l_shipdate, s.l_commitdate, s.l_receiptdate, s.l_shipinstruct, s.l_shipmode,
          s.l_comment
        )
        """
    )


@contextmanager
def _commit_metadata(spark: SparkSession, text: str) -> Iterator[None]:
    before = spark.conf.get(_METADATA, None)
    spark.conf.set(_METADATA, text)
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(_METADATA)
        else:
            spark.conf.set(_METADATA, before)
