"""One short way through: a table of a real PostgreSQL and a Delta table in one view."""

from __future__ import annotations

from collections.abc import Callable

import psycopg

from tests.postgres_server import running_postgres
from tests.spark.oracle import World, assert_rows_equal

SQL = "SELECT o.k, o.at, r.factor FROM orders o JOIN rates r ON o.k = r.k"


def test_a_mirrored_table_in_a_view(make_world: Callable[..., World]) -> None:
    world = make_world("source")
    with running_postgres({"synchronous_commit": "on"}) as server, psycopg.connect(server.url(), autocommit=True) as pg:
        pg.execute("CREATE TABLE orders (k int PRIMARY KEY, at timestamptz, tags text[])")
        pg.execute("INSERT INTO orders VALUES (1, '2024-01-01 00:00+02', '{a,NULL}'), (2, NULL, NULL)")
        world.lake.track("orders", server.url(), table="public.orders", prepare=True)
        world.make("rates", "k INT, factor INT", "(1, 10), (3, 30)")
        world.lake.sql(f"CREATE MATERIALIZED VIEW v AS {SQL}")
        with pg.transaction():
            pg.execute("INSERT INTO orders VALUES (3, '2024-06-01 12:00:00.000001+00', '{}')")
            pg.execute("DELETE FROM orders WHERE k = 1")
        report = world.lake.refresh("v")
        assert (report.mode, report.rows) == ("incremental", 2)
        held = pg.execute("SELECT k, at, tags FROM orders").fetchall()
        frame = world.spark.createDataFrame(held, "k int, at timestamp, tags array<string>")
        frame.createOrReplaceTempView("orders")
        assert_rows_equal(world.lake.read("orders"), frame, label="orders")
        assert_rows_equal(world.lake.read("v"), world.expected(SQL, report.csn), label="v")
        unit = world.lake.units_of_work()[-1]
        assert (unit.table, unit.operation, unit.rows) == ("orders", "TRANSACTION", 2)
        assert unit.source == f"postgresql://127.0.0.1:{server.port}/postgres"
        (table,) = (each for each in world.lake.status().tables if each.name == "orders")
        assert (table.mode, table.source, table.problem) == ("mirror", unit.source, None)
        world.lake.sql("DROP MATERIALIZED VIEW v")
        world.lake.untrack("orders")
        assert pg.execute("SELECT count(*) FROM pg_replication_slots").fetchone() == (0,)


def test_a_table_of_which_nothing_is_copied_in_a_view(make_world: Callable[..., World]) -> None:
    """Its rows were once looked for in the lake, where all leaves go to one moment."""
    world = make_world("asked")
    with running_postgres({"synchronous_commit": "on"}) as server, psycopg.connect(server.url(), autocommit=True) as pg:
        pg.execute("CREATE TABLE orders (k int PRIMARY KEY, v int)")
        pg.execute("INSERT INTO orders VALUES (1, 1), (2, 2)")
        world.lake.track("orders", server.url(), table="public.orders", mode="query", prepare=True)
        world.make("rates", "k INT, factor INT", "(1, 10), (3, 30)")
        sql = "SELECT o.k, o.v, r.factor FROM orders o JOIN rates r ON o.k = r.k"
        world.lake.sql(f"CREATE MATERIALIZED VIEW v AS {sql}")
        pg.execute("INSERT INTO orders VALUES (3, 3)")
        world.run("INSERT INTO {rates} VALUES (2, 20), (3, 31)")
        report = world.lake.refresh("v")
        assert (report.mode, report.rows) == ("incremental", 3)
        held = pg.execute("SELECT k, v FROM orders").fetchall()
        world.spark.createDataFrame(held, "k int, v int").createOrReplaceTempView("orders")
        assert_rows_equal(world.lake.read("v"), world.expected(sql, report.csn), label="v")
        world.lake.sql("DROP MATERIALIZED VIEW v")
        world.lake.untrack("orders")
