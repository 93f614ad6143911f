"""Views over tables of which nothing is copied, in two databases at once and with Delta and messages beside them."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from headwater.errors import InvalidInput
from headwater.sources.postgres.slot import drop_slot
from tests.postgres_server import running_postgres
from tests.spark.oracle import World, assert_rows_equal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KINDS = {"orders": "k int, customer int, v int", "customers": "k int, name string", "stock": "k int, n int"}
JOINED = (
    "SELECT o.k, o.v, c.name, s.n, r.factor FROM orders o JOIN customers c ON o.customer = c.k "
    "JOIN stock s ON o.k = s.k JOIN rates r ON c.k = r.customer"
)
TOTALS = "SELECT name, COUNT(*) AS n, SUM(v * factor) AS total FROM joined GROUP BY name"


@dataclass
class Sources:
    """orders and customers in one database, stock in another, a Delta table rates and prices by messages."""

    world: World
    connections: dict[str, psycopg.Connection]
    messages: Path
    seen: dict[str, dict[str, list[tuple[Any, ...]]]] = field(default_factory=dict)
    first: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)

    def of(self, name: str) -> psycopg.Connection:
        return self.connections["two" if name == "stock" else "one"]

    def contents(self, *names: str) -> dict[str, list[tuple[Any, ...]]]:
        return {name: self.of(name).execute(f"SELECT * FROM {name}").fetchall() for name in names or KINDS}

    def run(self, database: str, *statements: str) -> None:
        connection = self.connections[database]
        with connection.transaction():
            for statement in statements:
                connection.execute(statement)
            xid = connection.execute("SELECT pg_current_xact_id()::text").fetchone()
        assert xid is not None
        names = ("stock",) if database == "two" else ("orders", "customers")
        self.seen[f"{database} {xid[0]}"] = self.contents(*names)

    def at(self, csn: int) -> dict[str, list[tuple[Any, ...]]]:
        held = dict(self.first)
        for unit in self.world.lake.units_of_work():
            if unit.csn <= csn and unit.transaction is not None and unit.source.startswith("postgresql"):
                database = "two" if unit.source.endswith("/two") else "one"
                held |= self.seen[f"{database} {unit.transaction}"]
        return held

    def expected(self, csn: int, held: dict[str, list[tuple[Any, ...]]]) -> DataFrame:
        for name, rows in held.items():
            self.world.spark.createDataFrame(rows, KINDS[name]).createOrReplaceTempView(name)
        return self.world.expected(JOINED, csn)

    def check(self, held: dict[str, list[tuple[Any, ...]]] | None = None) -> Any:
        report = self.world.lake.refresh("joined")
        expected = self.expected(report.csn, held or self.at(report.csn))
        assert_rows_equal(self.world.lake.read("joined"), expected, label=f"at csn {report.csn}")
        return report


@pytest.fixture(scope="module")
def sources(make_world: Callable[..., World], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sources]:
    settings = {"max_replication_slots": "5", "synchronous_commit": "on"}
    world = make_world("asked")
    lake = world.lake
    with ExitStack() as stack:
        connections, urls = {}, {}
        for name in ("one", "two"):
            server = stack.enter_context(running_postgres(settings))
            urls[name] = server.create_database(name)
            connections[name] = stack.enter_context(psycopg.connect(urls[name], autocommit=True))
        one, two = connections.values()
        one.execute("CREATE TABLE orders (k int, customer int, v int)")
        one.execute("CREATE TABLE customers (k int PRIMARY KEY, name text)")
        two.execute("CREATE TABLE stock (k int, n int)")
        one.execute("INSERT INTO customers VALUES (0, 'ann'), (1, 'bob'), (2, 'cid')")
        one.execute("INSERT INTO orders SELECT i, i % 3, i FROM generate_series(1, 30) AS i")
        two.execute("INSERT INTO stock SELECT i, i * 10 FROM generate_series(1, 30) AS i")
        made = Sources(world, connections, tmp_path_factory.mktemp("messages"))
        made.first = made.contents()
        lake.track("orders", urls["one"], table="orders", mode="query", prepare=True)
        lake.track("customers", urls["one"], table="customers", mode="query", prepare=True)
        lake.track("stock", urls["two"], table="stock", mode="query", prepare=True)
        world.make("rates", "customer INT, factor INT", "(0, 1), (1, 2), (1, 3), (2, 4)")
        lake.sql(f"CREATE MATERIALIZED VIEW joined AS {JOINED}")
        lake.sql(f"CREATE MATERIALIZED VIEW totals AS {TOTALS}")
        yield made
        lake._context.feeds.close()
        for source in lake._context.catalog.sources():
            if source.kind == "postgresql":
                name = source.source_id.rpartition("/")[2]
                drop_slot(connections[name], source.settings["slot"], name)  # type: ignore[arg-type]


def test_changes_in_every_source_are_joined_with_what_the_others_held(sources: Sources) -> None:
    sources.check()
    start = sources.world.lake.capture()
    sources.run(
        "one", "INSERT INTO orders VALUES (31, 1, 7), (3, 0, 8)", "UPDATE customers SET name = 'eve' WHERE k = 0"
    )
    sources.run("two", "INSERT INTO stock VALUES (31, 5)", "DELETE FROM stock WHERE k = 2")
    sources.world.run("UPDATE {rates} SET factor = 9 WHERE customer = 2")
    sources.run("one", "DELETE FROM orders WHERE k = 5", "UPDATE customers SET k = 9 WHERE k = 1")
    sources.run("two", "UPDATE stock SET n = n + 1 WHERE k IN (3, 4)")
    report = sources.check()
    assert report.mode == "incremental"
    for csn in range(start, report.csn + 1):
        actual = sources.world.lake.read("joined", at=csn)
        assert_rows_equal(actual, sources.expected(csn, sources.at(csn)), label=f"joined at csn {csn}")
    # an aggregate on top, over the view that is kept
    sources.world.lake.refresh("totals")
    joined = sources.expected(report.csn, sources.at(report.csn))
    joined.createOrReplaceTempView("joined")
    assert_rows_equal(sources.world.lake.read("totals"), sources.world.spark.sql(TOTALS), label="totals")


def test_the_present_of_a_source_is_not_what_a_view_at_a_csn_shows(sources: Sources) -> None:
    """What changed after the csn is in every answer, and is undone."""
    start = sources.world.lake.capture()
    sources.run("one", "INSERT INTO orders VALUES (40, 2, 1)")
    sources.run("two", "INSERT INTO stock VALUES (40, 4)")
    sources.run("one", "DELETE FROM orders WHERE k = 40", "INSERT INTO orders VALUES (41, 2, 1)")
    sources.run("two", "UPDATE stock SET k = 41 WHERE k = 40")
    sources.world.lake.capture()
    for csn in range(start + 1, start + 5):
        assert sources.world.lake.refresh("joined", to=csn).csn == csn
        expected = sources.expected(csn, sources.at(csn))
        assert_rows_equal(sources.world.lake.read("joined"), expected, label=f"joined at csn {csn}")


def test_under_load_every_refresh_is_some_committed_moment_and_the_last_is_the_present(sources: Sources) -> None:
    over = threading.Event()
    urls = {name: each.info.dsn for name, each in sources.connections.items()}

    def write(database: str, seed: int) -> None:
        dice = random.Random(seed)
        with psycopg.connect(urls[database], autocommit=True) as connection:
            while not over.is_set():
                k = dice.randrange(1, 30)
                with connection.transaction():
                    if database == "one":
                        connection.execute("UPDATE orders SET v = v + 1 WHERE k = %s", (k,))
                        connection.execute("DELETE FROM orders WHERE k = %s AND v > 60", (k,))
                    else:
                        connection.execute("UPDATE stock SET n = n + 1 WHERE k = %s", (k,))
                over.wait(0.02)

    writers = [threading.Thread(target=write, args=pair) for pair in (("one", 1), ("one", 2), ("two", 3))]
    for writer in writers:
        writer.start()
    try:
        for _ in range(2):
            assert sources.world.lake.refresh("joined").mode == "incremental"
    finally:
        over.set()
        for writer in writers:
            writer.join()
    sources.check(sources.contents())


def test_what_query_mode_can_not_do_is_said(sources: Sources) -> None:
    with pytest.raises(InvalidInput, match="can only select, join and unite") as raised:
        sources.world.lake.sql(
            "CREATE MATERIALIZED VIEW n AS SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer"
        )
    assert raised.value.code == "QUERY_MODE_NODE"
    with pytest.raises(InvalidInput, match="nothing of it is copied"):
        sources.world.lake.read("orders")
    sources.run("one", "UPDATE orders SET v = v + 1 WHERE k = 7")
    sources.world.lake.capture()
    assert "asked of its source" in str(sources.world.lake.explain("joined").sql)


def test_messages_a_database_and_delta_in_one_view(sources: Sources) -> None:
    lake = sources.world.lake
    put(sources.messages, 1, "c", after={"k": 1, "price": "1.50"})
    lake.track("prices", f"messages:{sources.messages}", table="p", columns={"k": "int", "price": "decimal(8,2)"})
    sql = "SELECT s.k, s.n, p.price, r.factor FROM stock s JOIN prices p ON s.k = p.k JOIN rates r ON r.customer = p.k"
    lake.sql(f"CREATE MATERIALIZED VIEW priced AS {sql}")
    put(sources.messages, 3, "d", before={"k": 2, "price": "2.00"})
    sources.run("two", "UPDATE stock SET n = 77 WHERE k = 1")
    lake.refresh("priced")
    assert [
        (row.k, row.n, str(row.price)) for row in lake.read("priced").select("k", "n", "price").distinct().collect()
    ] == [(1, 77, "1.50")]
    waiting = next(table.waiting for table in lake.status().tables if table.name == "prices")
    assert waiting[0]["what"] == "versions 2"
    put(sources.messages, 2, "c", after={"k": 2, "price": "2.00"})
    put(sources.messages, 4, "u", before={"k": 1, "price": "1.50"}, after={"k": 1, "price": "9.00"})
    report = lake.refresh("priced")
    assert report.mode == "incremental"
    spark = sources.world.spark
    spark.createDataFrame([(1, 9.0)], "k int, price double").selectExpr(
        "k", "CAST(price AS decimal(8,2)) AS price"
    ).createOrReplaceTempView("prices")
    spark.createDataFrame(sources.contents("stock")["stock"], KINDS["stock"]).createOrReplaceTempView("stock")
    assert_rows_equal(lake.read("priced"), sources.world.expected(sql, report.csn), label="priced")


def put(place: Path, version: int, op: str, **images: dict[str, Any]) -> None:
    message = {"table": "p", "version": version, "op": op, **images}
    (place / f"{version}.json").write_text(json.dumps(message))
