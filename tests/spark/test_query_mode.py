"""Views over tables of which nothing is copied, in two databases at once and with Delta and messages beside them."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from headwater.errors import DatabaseUnavailable, InvalidInput
from headwater.propagate import asking_driver
from headwater.sources.postgres.slot import drop_slot
from tests.postgres_server import committed, running_postgres
from tests.spark.oracle import World, assert_rows_equal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KINDS = {
    "orders": "k int, customer int, v int",
    "customers": "k int, name string",
    "lines": "k int, item int, tag string",
    "items": "k int, maker int, tag string",
    "makers": "k int, name string",
    "stock": "k int, n int",
}
JOINED = (
    "SELECT o.k, o.v, c.name, s.n, r.factor FROM orders o JOIN customers c ON o.customer = c.k "
    "JOIN stock s ON o.k = s.k JOIN rates r ON c.k = r.customer"
)
CHAIN = (
    "SELECT s.n, l.k AS line, l.tag, i.k AS item, i.tag AS sort, m.name FROM sales s JOIN lines l ON s.line = l.k "
    "JOIN items i ON l.item = i.k JOIN makers m ON i.maker = m.k"
)
TOTALS = "SELECT name, COUNT(*) AS n, SUM(v * factor) AS total FROM joined GROUP BY name"


@dataclass
class Sources:
    """All but stock in one database, stock in another, Delta tables rates and sales, and prices by messages."""

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
        xid = committed(self.connections[database], *statements)
        names = [name for name in KINDS if (name == "stock") == (database == "two")]
        self.seen[f"{database} {xid}"] = self.contents(*names)

    def at(self, csn: int) -> dict[str, list[tuple[Any, ...]]]:
        held = dict(self.first)
        for unit in self.world.lake.units_of_work():
            if unit.csn <= csn and unit.transaction is not None and unit.source.startswith("postgresql"):
                database = "two" if unit.source.endswith("/two") else "one"
                held |= self.seen[f"{database} {unit.transaction}"]
        return held

    def expected(self, csn: int, held: dict[str, list[tuple[Any, ...]]], text: str = JOINED) -> DataFrame:
        for name, rows in held.items():
            self.world.spark.createDataFrame(rows, KINDS[name]).createOrReplaceTempView(name)
        return self.world.expected(text, csn)

    def wait_for_changes(self, view: str) -> None:
        """Until writers of other threads have written something that the view has not seen."""
        shown = self.world.view_csn(view)
        for _ in range(300):
            if self.world.lake.capture() > shown:
                return
            time.sleep(0.1)
        raise AssertionError("nobody writes")

    def check(self, held: dict[str, list[tuple[Any, ...]]] | None = None) -> Any:
        report = self.world.lake.refresh("joined")
        expected = self.expected(report.csn, held or self.at(report.csn))
        assert_rows_equal(self.world.lake.read("joined"), expected, label=f"at csn {report.csn}")
        return report

    def check_chain(self, to: int | None = None) -> tuple[int, int, int]:
        """Refresh the chain and compare; how many sub-queries, keys and rows that took."""
        asked = self.world.lake._context.questions
        before = (asked.queries, asked.keys, asked.rows)
        report = self.world.lake.refresh("chain", to=to)
        queries, keys, rows = (b - a for a, b in zip(before, (asked.queries, asked.keys, asked.rows), strict=True))
        expected = self.expected(report.csn, self.at(report.csn), CHAIN)
        assert_rows_equal(self.world.lake.read("chain"), expected, label=f"chain at csn {report.csn}")
        return queries, keys, rows


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
        one.execute("CREATE TABLE lines (k int, item int, tag text)")
        one.execute("CREATE TABLE items (k int, maker int, tag text)")
        one.execute("CREATE TABLE makers (k int, name text)")
        one.execute(
            "INSERT INTO lines VALUES (1, 1, 'a'), (1, 1, 'a'), (1, 2, 'b'), (2, 2, NULL), (3, 3, 'c'), (4, 9, 'd')"
        )
        one.execute(
            "INSERT INTO items VALUES (1, 1, 'x'), (2, 1, 'y'), (2, 1, 'y'), (3, 2, NULL), (NULL, 3, 'z'), (5, 3, 'v')"
        )
        one.execute("INSERT INTO makers VALUES (1, 'ann'), (1, 'ann'), (2, 'bob'), (3, 'cid'), (NULL, 'eve')")
        two.execute("INSERT INTO stock SELECT i, i * 10 FROM generate_series(1, 30) AS i")
        made = Sources(world, connections, tmp_path_factory.mktemp("messages"))
        made.first = made.contents()
        for name in KINDS:
            url = urls["two" if name == "stock" else "one"]
            lake.track(name, url, table=name, mode="query", prepare=True)
        world.make("rates", "customer INT, factor INT", "(0, 1), (1, 2), (1, 3), (2, 4)")
        world.make("sales", "line INT, n INT", "(1, 1), (2, 2), (NULL, 3)")
        lake.sql(f"CREATE MATERIALIZED VIEW joined AS {JOINED}")
        lake.sql(f"CREATE MATERIALIZED VIEW chain AS {CHAIN}")
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


# ---------------------------------------------------------------------- a chain of tables in one source


def test_a_chain_of_tables_in_one_source_is_one_sub_query(sources: Sources) -> None:
    """Rows that several others lead to are shipped once, duplicates as often as they are there."""
    sources.check_chain()
    sources.world.run("INSERT INTO {sales} VALUES (1, 10), (1, 11), (4, 12), (77, 13), (NULL, 14)")
    # lines 1 and 4: four rows; items 1, 2: three; makers 1: two
    assert sources.check_chain() == (1, 3, 9)
    sources.world.run("DELETE FROM {sales} WHERE n = 13")
    assert sources.check_chain() == (1, 1, 0)
    sources.world.run("INSERT INTO {sales} VALUES (NULL, 15)")
    assert sources.check_chain() == (0, 0, 0)


def test_a_change_inside_the_chain_asks_for_what_lies_on_both_sides_at_once(sources: Sources) -> None:
    sources.check_chain()
    sources.run("one", "UPDATE items SET maker = 3 WHERE k = 3", "INSERT INTO items VALUES (9, 2, 'w')")
    # lines by item and makers by maker, both from the changed rows
    assert sources.check_chain()[0] == 1


def test_what_a_later_unit_took_out_of_the_path_is_asked_for_again(sources: Sources) -> None:
    """The source shows a join column as it is by now; at the view's csn it led elsewhere."""
    lake = sources.world.lake
    sources.run(
        "one",
        "INSERT INTO lines VALUES (11, 11, 'p')",
        "INSERT INTO items VALUES (11, 11, 'p'), (12, 12, 'q')",
        "INSERT INTO makers VALUES (11, 'dan'), (12, 'fay')",
    )
    for before, after, queries in (
        (None, "UPDATE items SET tag = 'later' WHERE k = 11", 1),  # mended, and leads where it led
        (None, "UPDATE items SET maker = 12 WHERE k = 11", 2),  # maker 11 was not followed
        (None, "DELETE FROM items WHERE k = 11", 2),
        ("INSERT INTO items VALUES (11, 11, 'p')", "UPDATE lines SET item = 12 WHERE k = 11", 3),  # nor item 11
        (None, "INSERT INTO lines VALUES (11, 11, 'new')", 1),  # more than was needed
        (None, "UPDATE makers SET k = 13 WHERE k = 12", 1),  # nothing follows it
    ):
        if before is not None:
            sources.run("one", before)
        sources.check_chain()
        sources.world.run("INSERT INTO {sales} VALUES (11, 20)")
        csn = lake.capture()
        sources.run("one", after)
        assert sources.check_chain(to=csn)[0] == queries, after
    sources.check_chain()


def test_a_commit_that_the_source_does_not_show_yet_is_followed_too(sources: Sources) -> None:
    """It is in the log and waits for a standby: the answer does not hold it, and its join column leads elsewhere."""
    one, lake = sources.connections["one"], sources.world.lake
    one.execute("SET synchronous_commit = local")
    sources.run("one", "INSERT INTO lines VALUES (7, 7, 'seven')", "INSERT INTO items VALUES (7, 1, 'seven')")
    sources.run("one", "INSERT INTO makers VALUES (8, 'gus')")
    sources.check_chain()
    with commit_that_waits(one, "UPDATE items SET maker = 8 WHERE k = 7") as xid:
        held = sources.contents(*(name for name in KINDS if name != "stock"))
        held["items"] = [(k, 8 if k == 7 else maker, tag) for k, maker, tag in held["items"]]
        sources.seen[f"one {xid}"] = held
        sources.check_chain()
        sources.world.run("INSERT INTO {sales} VALUES (7, 30)")
        assert sources.check_chain()[0] == 2  # the chain, and makers by what the waiting commit says
        found = lake.read("chain").where("n = 30").select("name").collect()
        assert [row.name for row in found] == ["gus"]
    one.execute("SET synchronous_commit = on")
    sources.world.run("INSERT INTO {sales} VALUES (7, 31)")
    assert sources.check_chain()[0] == 1


@contextmanager
def commit_that_waits(owner: psycopg.Connection, statement: str) -> Iterator[str]:
    """A transaction whose commit is logged and not visible, by a standby that never answers; its number."""
    owner.execute("CREATE TABLE IF NOT EXISTS probe (k int)")
    owner.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
    owner.execute("SELECT pg_reload_conf()")
    try:
        with psycopg.connect(owner.info.dsn, options="-csynchronous_commit=on") as waiting:

            def commit(statement: str, patience: float) -> tuple[str, threading.Thread]:
                waiting.execute(statement)
                xid = waiting.execute("SELECT pg_current_xact_id()::text").fetchone()
                assert xid is not None
                committing = threading.Thread(target=waiting.commit)
                committing.start()
                committing.join(patience)
                return xid[0], committing

            def let_go(committing: threading.Thread) -> None:
                owner.execute("SELECT pg_cancel_backend(%s)", (waiting.info.backend_pid,))  # the commit stands
                committing.join()

            # The server takes up its new setting in its own time.
            while not (probing := commit("INSERT INTO probe VALUES (1)", 0.5)[1]).is_alive():
                pass
            let_go(probing)
            xid, committing = commit(statement, 0.5)
            assert committing.is_alive()
            try:
                yield xid
            finally:
                let_go(committing)
    finally:
        owner.execute("ALTER SYSTEM RESET synchronous_standby_names")
        owner.execute("SELECT pg_reload_conf()")


def test_too_many_keys_and_too_many_rows_for_memory(sources: Sources, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has too many keys is shipped whole, and what hangs on it is asked for after it."""
    sources.check_chain()
    monkeypatch.setattr(asking_driver, "ROWS_IN_MEMORY", 3)
    sources.world.run("INSERT INTO {sales} VALUES (1, 40), (2, 41)")
    csn = sources.world.lake.capture()
    sources.run("one", "UPDATE items SET maker = 1 WHERE k = 3")
    assert sources.check_chain(to=csn)[:2] == (2, 3)  # rows put aside are not looked through: makers again
    sources.check_chain()
    monkeypatch.setattr(asking_driver, "MOST_KEYS", 1)
    sources.world.run("INSERT INTO {sales} VALUES (1, 42), (2, 43)")
    queries, keys, rows = sources.check_chain()
    assert (queries, keys) == (3, 1)  # all lines and all items; the makers of those that take part are one
    assert rows > 10
    assert not list(Path(sources.world.lake._context.location).glob("staging/__hw_asked*"))


def test_a_source_that_breaks_off_is_asked_again_and_nothing_is_doubled(
    sources: Sources, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources.check_chain()
    failures = [DatabaseUnavailable("gone", database="one", remedy="Try again.")] * 2
    whole = asking_driver.Answer.rows

    def rows(answer: Any, *arguments: Any) -> Iterator[Any]:
        for number, row in enumerate(whole(answer, *arguments)):
            if number == 4 and failures:
                raise failures.pop()
            yield row

    monkeypatch.setattr(asking_driver.Answer, "rows", rows)
    monkeypatch.setattr(asking_driver, "ROWS_IN_MEMORY", 3)
    sources.world.run("INSERT INTO {sales} VALUES (1, 50)")
    assert sources.check_chain()[0] == 1
    assert not failures
    assert not list(Path(sources.world.lake._context.location).glob("staging/__hw_asked*"))


def test_random_histories_of_a_chain_at_every_csn(sources: Sources) -> None:
    """Join columns change all the time, in the past of the source's present and within the step."""
    dice, lake = random.Random(3), sources.world.lake

    def statement() -> str:
        k, j = dice.randrange(1, 6), dice.choice(["NULL", *map(str, range(1, 6))])
        return dice.choice(
            [
                f"UPDATE lines SET item = {j} WHERE k = {k}",
                f"UPDATE items SET maker = {j} WHERE k = {k}",
                f"UPDATE makers SET k = {j} WHERE k = {k}",
                f"INSERT INTO lines VALUES ({k}, {j}, 'r')",
                f"INSERT INTO items VALUES ({j}, {k}, 'r')",
                f"INSERT INTO makers VALUES ({k}, 'r')",
                f"DELETE FROM lines WHERE k = {k} AND item = 2",
                f"DELETE FROM items WHERE k = {k} AND maker = 3",
            ]
        )

    sources.check_chain()
    for _ in range(3):
        start = lake.capture()
        for _ in range(dice.randint(2, 4)):
            sources.run("one", *(statement() for _ in range(dice.randint(1, 3))))
        if dice.random() < 0.7:
            sources.world.run(f"INSERT INTO {{sales}} VALUES ({dice.randrange(1, 6)}, 60)")
        end = lake.capture()
        for csn in sorted({dice.randint(start, end), dice.randint(start, end), end}):
            sources.check_chain(to=csn)


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
            sources.wait_for_changes("joined")
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
    sources.run("one", "INSERT INTO orders VALUES (7, 1, 7)")  # whatever the writers before have left of it
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
