"""Headwater from end to end in one small pass over any Spark session: track, create, change, go to any moment, read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import headwater
from tests.support.actions import FEED, check

TRIPLES = (
    "SELECT o.id, c.name, o.amount, p.id AS other FROM orders o JOIN customers c ON o.customer = c.id "
    "JOIN orders p ON p.customer <=> o.customer AND p.amount > o.amount"
)
PAIRS = "SELECT c.name, o.amount FROM orders o, customers c WHERE o.customer = c.id"


def end_to_end(spark: Any, folder: Path) -> None:
    orders, customers = (f"delta.`{folder}/{name}`" for name in ("orders", "customers"))
    spark.sql(f"CREATE TABLE {orders} (id INT, customer INT, amount DECIMAL(8, 2)) USING delta {FEED}")
    spark.sql(f"INSERT INTO {orders} VALUES (1, 1, 5.00), (2, 1, 7.50), (2, 1, 7.50), (3, NULL, 1.00), (4, 2, 9.99)")
    spark.sql(f"CREATE TABLE {customers} (id INT, name STRING) USING delta {FEED}")
    spark.sql(f"INSERT INTO {customers} VALUES (1, 'a'), (2, NULL), (NULL, 'x')")

    with headwater.connect(folder / "lake", spark=spark) as lake:
        for name in ("orders", "customers"):
            lake.track(name, folder / name)
        lake.sql(f"CREATE MATERIALIZED VIEW triples CLUSTER BY (id) OPTIONS ('width.o' = '1 csn') AS {TRIPLES}")
        lake.sql(f"CREATE MATERIALIZED VIEW pairs OPTIONS (method = 'rolling') AS {PAIRS}")
        for statement in (
            f"INSERT INTO {orders} VALUES (5, 1, 6.00), (6, 2, 6.00)",
            f"UPDATE {customers} SET name = 'b' WHERE id = 2",
            f"OPTIMIZE {orders}",  # no change of data, no csn
            (
                f"MERGE INTO {orders} t USING (SELECT 2 AS id UNION ALL SELECT 7) s ON t.id = s.id "
                "WHEN MATCHED THEN UPDATE SET amount = amount + 1 "
                "WHEN NOT MATCHED THEN INSERT (id, customer, amount) VALUES (s.id, 2, 3.00)"
            ),
            f"DELETE FROM {orders} WHERE id IN (1, 4)",
            f"INSERT OVERWRITE {customers} VALUES (1, 'a'), (1, 'a'), (2, 'c')",
        ):
            spark.sql(statement)
        assert lake.capture() == 5

        assert lake.propagate("triples", to=4) >= 4
        _refreshed(lake, "triples", 2)
        check(lake, "triples", read_all=True)  # at moments before and after the one at which it stands
        _refreshed(lake, "triples", None)
        _refreshed(lake, "triples", 1)

        spark.sql(f"INSERT INTO {customers} VALUES (2, 'd')")
        _refreshed(lake, "pairs", None)
        lake.sql("DROP MATERIALIZED VIEW pairs")


def _refreshed(lake: headwater.Lake, view: str, to: int | None) -> None:
    report = lake.refresh(view, to=to)
    assert report.mode == "incremental", report
    standing = check(lake, view, report.csn)
    assert standing["csn"] == report.csn == (standing["newest_csn"] if to is None else to)
