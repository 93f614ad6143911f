"""Views over tables of PostgreSQL and Delta together, on Spark, against Spark's own answer over the same states."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from headwater.context import Sizes
from headwater.errors import MomentProblem, SourceProblem
from headwater.serve.sweeping import SparkSweeper
from headwater.sources.postgres.slot import drop_slot
from tests.postgres_server import PostgresServer, committed, running_postgres
from tests.spark.oracle import World, assert_rows_equal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ORDERS = "k int, customer int, total decimal(10,2), note string"
CUSTOMERS = "k int, name string"
JOIN = (
    "SELECT o.k, c.name, o.total, r.factor FROM orders o JOIN customers c ON o.customer = c.k "
    "JOIN rates r ON c.k = r.customer"
)
TOTALS = (
    "SELECT c.name, COUNT(*) AS n, SUM(o.total) AS total, MAX(o.note) AS last "
    "FROM orders o JOIN customers c ON o.customer = c.k GROUP BY c.name"
)
BAG = "SELECT customer, note FROM orders WHERE total > 1"
VIEWS = {"joined": JOIN, "totals": TOTALS, "bag": BAG}


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with running_postgres({"max_replication_slots": "20", "synchronous_commit": "on"}) as found:
        yield found


@dataclass
class Shop:
    """A database, a Delta table beside it, a lake over both, and what the database held after each transaction."""

    world: World
    url: str
    connection: psycopg.Connection
    seen: dict[str, dict[str, list[tuple[Any, ...]]]] = field(default_factory=dict)
    first: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)

    def contents(self) -> dict[str, list[tuple[Any, ...]]]:
        return {name: self.connection.execute(f"SELECT * FROM {name}").fetchall() for name in ("orders", "customers")}

    def run(self, *statements: str) -> None:
        xid = committed(self.connection, *statements)
        self.seen[xid] = self.contents()

    def at(self, csn: int) -> dict[str, list[tuple[Any, ...]]]:
        """The database at a csn: as its last transaction up to there left it."""
        units = [u for u in self.world.lake.units_of_work() if u.csn <= csn and u.transaction is not None]
        return self.seen[str(units[-1].transaction)] if units else self.first

    def expected(self, sql: str, csn: int, held: dict[str, list[tuple[Any, ...]]] | None = None) -> DataFrame:
        spark, held = self.world.spark, held or self.at(csn)
        spark.createDataFrame(held["orders"], ORDERS).createOrReplaceTempView("orders")
        spark.createDataFrame(held["customers"], CUSTOMERS).createOrReplaceTempView("customers")
        return self.world.expected(sql, csn)

    def check(self, *, held: dict[str, list[tuple[Any, ...]]] | None = None) -> None:
        """Every view against Spark, at its csn."""
        for name, sql in VIEWS.items():
            report = self.world.lake.refresh(name)
            assert report.mode in ("incremental", "none"), (name, report)
            actual = self.world.lake.read(name)
            assert_rows_equal(actual, self.expected(sql, report.csn, held), label=f"{name} at csn {report.csn}")


@pytest.fixture(scope="module")
def shop(make_world: Callable[..., World], server: PostgresServer) -> Iterator[Shop]:
    url = server.create_database("shop")
    world = make_world("mirrors")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE orders (k int, customer int, total numeric(10,2), note text)")
        connection.execute("CREATE TABLE customers (k int PRIMARY KEY, name text)")
        connection.execute("INSERT INTO orders SELECT i, i % 3, i * 1.5, 'n' || i FROM generate_series(1, 9) AS i")
        connection.execute("INSERT INTO orders VALUES (1, 1, 1.5, 'n1'), (77, NULL, NULL, NULL)")
        connection.execute("INSERT INTO customers VALUES (0, 'ann'), (1, 'bob'), (2, NULL)")
        made = Shop(world, url, connection)
        made.first = made.contents()
        for name in ("orders", "customers"):
            world.lake.track(name, url, table=f"public.{name}", mode="mirror", prepare=True)
        world.make("rates", "customer INT, factor INT", "(0, 10), (1, 11), (1, 12)")
        for name, sql in VIEWS.items():
            world.lake.sql(f"CREATE MATERIALIZED VIEW {name} AS {sql}")
        yield made
        for source in world.lake._context.catalog.sources():
            world.lake._context.feeds.close()
            drop_slot(connection, source.settings["slot"], url)  # type: ignore[arg-type]


def test_views_over_a_database_and_delta_follow_every_transaction(shop: Shop) -> None:
    shop.check()
    start = shop.world.lake.capture()
    shop.run("INSERT INTO orders VALUES (10, 2, 99, 'new')", "UPDATE customers SET name = 'cid' WHERE k = 2")
    shop.world.run("INSERT INTO {rates} VALUES (2, 20)")
    shop.run("DELETE FROM orders WHERE k = 1", "UPDATE customers SET k = 5 WHERE k = 0")
    shop.run("UPDATE orders SET total = total + 1 WHERE customer = 1")
    shop.check()
    assert shop.world.lake.status().newest_csn == start + 4
    for name, sql in VIEWS.items():
        for csn in range(start, start + 5):
            actual = shop.world.lake.read(name, at=csn)
            assert_rows_equal(actual, shop.expected(sql, csn), label=f"{name} at csn {csn}")
    for csn in range(start, start + 5):  # the mirrored tables themselves, inside the round too
        actual = shop.world.lake.read("orders", at=csn)
        expected = shop.world.spark.createDataFrame(shop.at(csn)["orders"], ORDERS)
        assert_rows_equal(actual, expected, label=f"orders at csn {csn}")


def test_a_refresh_to_a_moment_inside_a_round_and_truncate(shop: Shop) -> None:
    start = shop.world.lake.capture()
    shop.run("INSERT INTO orders VALUES (30, 1, 3, 'a')")
    shop.run("TRUNCATE orders", "INSERT INTO orders VALUES (31, 1, 3, 'b'), (31, 1, 3, 'b')")
    shop.run("INSERT INTO orders VALUES (32, 5, 4, 'c')")
    assert shop.world.lake.capture() == start + 3
    for csn in (start + 1, start + 2, start + 3):
        for name, sql in VIEWS.items():
            assert shop.world.lake.refresh(name, to=csn).csn == csn
            actual = shop.world.lake.read(name)
            assert_rows_equal(actual, shop.expected(sql, csn), label=f"{name} at csn {csn}")


def test_large_tables_are_merged_not_written_anew(shop: Shop) -> None:
    sizes = shop.world.lake._context.sizes
    shop.world.lake._context.sizes = Sizes(large_table=1, small_view=0)
    try:
        shop.run("UPDATE orders SET note = 'm' WHERE k = 31", "DELETE FROM customers WHERE k = 5")
        shop.run("INSERT INTO customers VALUES (5, 'eve')")
        shop.check()
    finally:
        shop.world.lake._context.sizes = sizes


def test_changes_that_no_moment_kept_needs_go_from_the_logs(shop: Shop) -> None:
    """Every moment that is kept reads as before, a frame made before reads what it read, and the rest is refused."""
    lake, spark = shop.world.lake, shop.world.spark
    shop.check()
    start = lake.release().csn
    lake.tag("kept", start)
    for number in range(3):
        for _ in range(3):
            shop.run(f"INSERT INTO orders VALUES (5{number}, 1, 3, 'go')", "UPDATE customers SET name = name || '.'")
        lake.capture()
    inside = lake.capture() - 1  # not the end of a round
    assert not lake.collect(grace=0).busy  # the tagged release needs all that came after it
    assert_rows_equal(lake.read("orders", at=inside), spark.createDataFrame(shop.at(inside)["orders"], ORDERS))
    frame = lake.read("orders", at=inside)
    end = lake.release().csn
    lake.untag("kept")
    lake.set_retention(count=1)
    log = lake._context.catalog.mirrors()[1].log_location
    assert SparkSweeper(lake._context).keeps_all(log)
    # A tagged release may be older than Delta lets a version be read by itself.
    assert SparkSweeper(lake._context).keeps_all(lake._context.catalog.base_table("orders").location)
    lake.collect(grace=0)
    with pytest.raises(MomentProblem) as refused:
        lake.read("orders", at=inside)
    assert refused.value.code == "MOMENT_BEFORE_HISTORY"
    assert spark.sql(f"SELECT * FROM delta.`{log}` WHERE __hw_csn <= {inside}").count() > 0
    lake.collect(grace=0)
    assert spark.sql(f"SELECT * FROM delta.`{log}` WHERE __hw_csn <= {end}").count() == 0
    assert_rows_equal(frame, spark.createDataFrame(shop.at(inside)["orders"], ORDERS), label="as it was pinned")
    with pytest.raises(MomentProblem):
        lake.read("orders", at=start)  # the end of a round, whose version of the copy may be gone
    assert_rows_equal(lake.read("orders", at=end), spark.createDataFrame(shop.at(end)["orders"], ORDERS))
    with lake.snapshot() as snapshot:
        assert_rows_equal(snapshot.table("orders"), spark.createDataFrame(shop.at(end)["orders"], ORDERS))
    shop.run("INSERT INTO orders VALUES (60, 1, 3, 'on')", "DELETE FROM orders WHERE note = 'go'")
    shop.check()
    shop.run("TRUNCATE orders", "INSERT INTO orders VALUES (61, 1, 3, 'b')")
    shop.check()


def test_a_lost_slot_is_resynced_without_rebuilding_views(shop: Shop) -> None:
    shop.check()
    lake = shop.world.lake
    (source,) = lake._context.catalog.sources()
    lake._context.feeds.close()
    drop_slot(shop.connection, source.settings["slot"], shop.url)  # type: ignore[arg-type]
    shop.run("DELETE FROM orders WHERE k = 31", "INSERT INTO orders VALUES (40, 1, 8, 'gap')")
    with pytest.raises(SourceProblem, match="was dropped") as raised:
        lake.refresh("bag")
    assert raised.value.code == "SLOT_LOST"
    shop.run("UPDATE customers SET name = 'later' WHERE k = 1")
    lake.resync("orders")
    shop.check(held=shop.contents())
    shop.run("INSERT INTO orders VALUES (41, 1, 9, 'on')")
    shop.check()


def test_rows_that_a_dropped_key_lets_in_twice_are_read_twice(shop: Shop) -> None:
    """A row without a twin is read without looking at its count, for as long as a key is known to keep twins out."""
    shop.check()
    shop.run("ALTER TABLE customers DROP CONSTRAINT customers_pkey", "INSERT INTO customers VALUES (0, 'ann')")
    shop.run("INSERT INTO customers SELECT * FROM customers WHERE k = 1")
    shop.check()
    actual = shop.world.lake.read("customers")
    assert_rows_equal(actual, shop.world.spark.createDataFrame(shop.contents()["customers"], CUSTOMERS))


def test_rows_that_differ_only_in_a_key_that_is_left_out_are_as_many_as_there_are(shop: Shop) -> None:
    shop.connection.execute("CREATE TABLE colors (id int PRIMARY KEY, color text)")
    shop.connection.execute("INSERT INTO colors VALUES (1, 'red'), (2, 'red'), (3, 'blue')")
    lake = shop.world.lake
    lake.track("colors", shop.url, table="public.colors", columns=["color"], mode="mirror", prepare=True)
    lake.sql("CREATE MATERIALIZED VIEW seen AS SELECT color FROM colors")
    for statement in ("INSERT INTO colors VALUES (4, 'red')", "DELETE FROM colors WHERE id = 1"):
        shop.run(statement)
        expected = shop.connection.execute("SELECT color FROM colors").fetchall()
        lake.refresh("seen")
        for name in ("colors", "seen"):
            assert_rows_equal(lake.read(name), shop.world.spark.createDataFrame(expected, "color string"), label=name)
