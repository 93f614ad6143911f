"""A view over three tables of two databases in mode ``query``: what a refresh asks for, beside whole tables."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

from headwater.bench.postgres_server import PostgresServer
from headwater.lake import Lake, connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHANGES = (10, 1_000)
VIEW = """SELECT o.k, o.amount, c.name, s.status
FROM orders o JOIN customers c ON o.customer = c.k JOIN shipments s ON s.order_key = o.k"""


def measure(
    spark: SparkSession,
    folder: Path,
    servers: tuple[PostgresServer, PostgresServer],
    rows: int,
    progress: Callable[[str], None],
) -> list[dict[str, Any]]:
    urls = [server.create_database("shop") for server in servers]
    with ExitStack() as stack:
        one, two = (stack.enter_context(psycopg.connect(url, autocommit=True)) for url in urls)
        progress(f"making {rows:,} orders")
        one.execute("CREATE TABLE orders (k bigint PRIMARY KEY, customer bigint, amount numeric(10,2))")
        one.execute("CREATE TABLE customers (k bigint PRIMARY KEY, name text)")
        two.execute("CREATE TABLE shipments (order_key bigint, status text)")
        two.execute("CREATE INDEX ON shipments (order_key)")
        one.execute("CREATE INDEX ON orders (customer)")
        one.execute("INSERT INTO customers SELECT i, 'customer ' || i FROM generate_series(1, %s) AS i", (rows // 10,))
        one.execute(
            "INSERT INTO orders SELECT i, 1 + i %% %s, i %% 977 FROM generate_series(1, %s) AS i", (rows // 10, rows)
        )
        two.execute("INSERT INTO shipments SELECT i, 'status ' || i %% 5 FROM generate_series(1, %s) AS i", (rows,))
        for connection in (one, two):
            connection.execute("ANALYZE")
        with connect(folder / "lake", spark=spark) as lake:
            for name, url in (("orders", urls[0]), ("customers", urls[0]), ("shipments", urls[1])):
                lake.track(name, url, table=name, mode="query", prepare=True)
            progress("computing the view")
            lake.sql(f"CREATE MATERIALIZED VIEW shipped AS {VIEW}")
            return [_one_size(lake, one, two, size, rows, progress) for size in CHANGES]


def _one_size(
    lake: Lake,
    one: psycopg.Connection[Any],
    two: psycopg.Connection[Any],
    size: int,
    rows: int,
    progress: Callable[[str], None],
) -> dict[str, Any]:
    """A refresh that asks by keys, beside one that ships whole tables for the same number of changed rows.

    Beside them one of as many changes that the view's own rows answer for: of what no condition reads, by a shown key.
    """
    from headwater.propagate import asking_driver

    step = max(1, rows // size)
    found: dict[str, Any] = {"changed": size}
    for way, most_keys in (("own", asking_driver.MOST_KEYS), ("by_keys", asking_driver.MOST_KEYS), ("whole", 0)):
        if way == "own":
            one.execute("UPDATE orders SET amount = amount + 1 WHERE k %% %s = 0", (step,))
        else:
            one.execute("UPDATE orders SET customer = 1 + customer %% %s WHERE k %% %s = 0", (rows // 10, step))
            two.execute("UPDATE shipments SET status = status || '.' WHERE order_key %% %s = 1", (step,))
        progress(f"{size} changed rows, {way}")
        asked = lake._context.questions  # noqa: SLF001 (the counters)
        queries, shipped = asked.queries, asked.rows
        kept, asking_driver.MOST_KEYS = asking_driver.MOST_KEYS, most_keys
        try:
            report = lake.refresh("shipped")
        finally:
            asking_driver.MOST_KEYS = kept
        told = {"queries": asked.queries - queries, "rows": asked.rows - shipped, "seconds": round(report.seconds, 3)}
        found[way] = told
    return found
