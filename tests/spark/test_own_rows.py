"""Changes that a view answers for by its own rows: sources are asked for the rest alone [SzeLing00 §4.3]."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from headwater.sources.postgres.slot import drop_slot
from tests.postgres_server import committed, running_postgres
from tests.spark.oracle import World, assert_rows_equal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COLUMNS = {
    "customers": "k int, name string, segment string",
    "orders": "k int, line int, customer int, v int",
}
SHOWN = (
    "SELECT c.k AS customer, c.name, o.k, o.line, o.v * 2 AS twice FROM orders o JOIN customers c ON o.customer = c.k "
    "WHERE c.segment = 'near' AND o.v >= 0"
)


@dataclass
class Source:
    world: World
    connection: psycopg.Connection
    first: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)
    seen: dict[str, dict[str, list[tuple[Any, ...]]]] = field(default_factory=dict)
    newest: str | None = None  # transaction that changed anything

    def contents(self) -> dict[str, list[tuple[Any, ...]]]:
        return {name: self.connection.execute(f"SELECT * FROM {name}").fetchall() for name in COLUMNS}

    def run(self, *statements: str) -> None:
        xid = committed(self.connection, *statements)
        last = list(self.seen.values())[-1] if self.seen else self.first
        self.seen[xid] = self.contents()
        if self.seen[xid] != last:
            self.newest = xid

    def expected(self, csn: int) -> DataFrame:
        held = self.first
        for unit in self.world.lake.units_of_work():
            if unit.csn <= csn and unit.transaction is not None:
                held = self.seen[unit.transaction]
        for name, rows in held.items():
            self.world.spark.createDataFrame(rows, COLUMNS[name]).createOrReplaceTempView(name)
        return self.world.spark.sql(SHOWN)

    def refreshed(self) -> tuple[int, int]:
        """Refresh and compare at every csn since; how many sub-queries were asked, and how many rows they shipped."""
        lake, asked = self.world.lake, self.world.lake._context.questions
        before, queries, rows = self.world.view_csn("shown"), asked.queries, asked.rows
        report = lake.refresh("shown")
        assert report.mode in ("incremental", "none")
        assert self.newest in {unit.transaction for unit in lake.units_of_work() if unit.csn <= report.csn}
        told = asked.queries - queries, asked.rows - rows
        for csn in range(before, report.csn + 1):
            assert_rows_equal(lake.read("shown", at=csn), self.expected(csn), label=f"at csn {csn}")
        return told


@pytest.fixture(scope="module")
def source(make_world: Callable[..., World]) -> Iterator[Source]:
    world = make_world("own rows")
    with running_postgres({"max_replication_slots": "5", "synchronous_commit": "on"}) as server:
        url = server.create_database("shop")
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CREATE TABLE customers (k int PRIMARY KEY, name text, segment text)")
            connection.execute("CREATE TABLE orders (k int, line int, customer int, v int, PRIMARY KEY (k, line))")
            connection.execute(
                "INSERT INTO customers SELECT i, 'c' || i, CASE WHEN i % 3 = 0 THEN 'far' ELSE 'near' END "
                "FROM generate_series(1, 9) AS i"
            )
            connection.execute(
                "INSERT INTO orders SELECT i / 2, i % 2, 1 + i % 9, CASE WHEN i % 7 > 0 THEN i - 3 END "
                "FROM generate_series(0, 39) AS i"
            )
            made = Source(world, connection)
            made.first = made.contents()
            for name in COLUMNS:
                world.lake.track(name, url, table=name, mode="query", prepare=True)
            world.lake.sql(f"CREATE MATERIALIZED VIEW shown AS {SHOWN}")
            yield made
            world.lake._context.feeds.close()
            for known in world.lake._context.catalog.sources():
                drop_slot(connection, known.settings["slot"], "shop")


def test_updates_and_deletions_by_key_ask_nothing(source: Source) -> None:
    source.run("UPDATE customers SET name = 'ann' WHERE k = 2")
    source.run("DELETE FROM orders WHERE k = 4", "UPDATE orders SET line = line WHERE k = 6")
    source.run("UPDATE customers SET name = NULL WHERE k IN (2, 3)")
    assert source.refreshed() == (0, 0)


def test_both_tables_changed_and_the_view_answers_for_the_one_with_the_other(source: Source) -> None:
    source.run("UPDATE customers SET name = 'both' WHERE k = 4", "DELETE FROM orders WHERE customer = 4 AND line = 0")
    source.run("UPDATE customers SET name = 'again' WHERE k = 4")
    assert source.refreshed() == (0, 0)


def test_what_was_not_there_or_changed_where_a_condition_looks_is_asked_for_alone(source: Source) -> None:
    source.run(
        "UPDATE customers SET name = 'still' WHERE k = 5",
        "UPDATE customers SET segment = 'near', name = 'new' WHERE k = 6",
        "INSERT INTO orders VALUES (100, 0, 7, 1)",
        "DELETE FROM orders WHERE k = 8",
    )
    held = source.contents()["orders"]
    queries, rows = source.refreshed()
    assert queries == 2
    assert rows == 1 + sum(customer == 6 for _, _, customer, _ in held)  # customer 7, and the orders of customer 6


def test_a_key_that_comes_back_and_one_that_comes_and_goes(source: Source) -> None:
    source.run("DELETE FROM customers WHERE k = 7")
    source.run("INSERT INTO customers VALUES (7, 'back', 'near')")
    source.run("INSERT INTO orders VALUES (200, 1, 7, 5)")
    source.run("DELETE FROM orders WHERE k = 200")
    source.run("DELETE FROM customers WHERE k = 8", "INSERT INTO customers VALUES (8, 'at once', 'near')")
    source.refreshed()


@pytest.mark.parametrize("seed", range(3))
def test_random_histories(source: Source, seed: int) -> None:
    chosen = random.Random(seed)
    for _ in range(4):
        statements = []
        for _ in range(chosen.randint(1, 3)):
            customer, order, line = chosen.randint(1, 9), chosen.randint(0, 19), chosen.randint(0, 1)
            statements.append(
                chosen.choice(
                    [
                        f"UPDATE customers SET name = 'n{chosen.randint(0, 2)}' WHERE k = {customer}",
                        f"UPDATE customers SET segment = '{chosen.choice(['near', 'far'])}' WHERE k = {customer}",
                        f"DELETE FROM customers WHERE k = {customer}",
                        f"INSERT INTO customers VALUES ({customer}, 'new', 'near') ON CONFLICT DO NOTHING",
                        f"DELETE FROM orders WHERE k = {order} AND line = {line}",
                        f"UPDATE orders SET v = v + 1 WHERE k = {order}",
                        f"UPDATE orders SET customer = {customer} WHERE k = {order}",
                        f"INSERT INTO orders VALUES ({order}, {line}, {customer}, 1) ON CONFLICT DO NOTHING",
                    ]
                )
            )
        source.run(*statements)
        if chosen.random() < 0.5:
            source.refreshed()
    source.refreshed()


def test_a_key_that_was_dropped_is_not_relied_on(source: Source) -> None:
    source.run(
        "ALTER TABLE customers DROP CONSTRAINT customers_pkey", "INSERT INTO customers VALUES (1, 'two', 'near')"
    )
    source.run("UPDATE customers SET name = name || '!' WHERE k = 1 AND name = 'two'")
    source.refreshed()
    assert source.world.lake._context.catalog.mirror("customers").described["key_oid"] is None  # type: ignore[union-attr]
    source.run("DELETE FROM customers WHERE k = 1 AND name LIKE 'two%'")
    assert source.refreshed()[0] > 0
    source.run("DELETE FROM orders WHERE k = 0 AND line = 1")
    assert source.refreshed() == (0, 0)  # the other table's key is still there
