"""Two PostgreSQL servers under load, messages and a Delta table in views by mirrors and by questions; things break.

Servers are killed, connections cut, slots dropped; messages come late, twice and out of order. After every refresh each
view must be Spark's answer at exactly its csn, and at one more csn of before, over what the servers' logs say that they
held then (``tests.support.replay``). A refresh may be refused while a server is away; none may be wrong. By `make
soak`, for HEADWATER_LIVE_MINUTES (5); each of the four writers pauses HEADWATER_LIVE_PAUSE (1) seconds on average. All
of them write to the same 40 keys, and ten times as fast (0.1) they would leave the views behind.
"""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from headwater.errors import HeadwaterError
from headwater.sources.postgres.slot import drop_slot
from tests.postgres_server import PostgresServer, running_postgres
from tests.spark.oracle import World, assert_rows_equal
from tests.support.proxy import Proxy, proxied
from tests.support.replay import Replay, Rows

if TYPE_CHECKING:
    from typing_extensions import Self

MINUTES = float(os.environ.get("HEADWATER_LIVE_MINUTES", "5"))
PAUSE = float(os.environ.get("HEADWATER_LIVE_PAUSE", "1"))
KEYS = 40
KINDS = {
    "orders": "k int, customer int, v int",
    "customers": "k int, name string",
    "asked_orders": "k int, customer int, v int",
    "stock": "k int, n int",
    "asked_stock": "k int, n int",
    "prices": "k int, price decimal(8,2)",
}
TABLES = {"one": ("orders", "customers", "asked_orders"), "two": ("stock", "asked_stock")}
ASKED = ("asked_orders", "asked_stock")
VIEWS = {
    "mirrored": "SELECT o.k, o.v, c.name, s.n, p.price, r.factor FROM orders o JOIN customers c ON o.customer = c.k "
    "JOIN stock s ON s.k = o.k JOIN prices p ON p.k = o.k JOIN rates r ON r.customer = o.customer",
    "totals": "SELECT c.name, COUNT(*) AS n, SUM(o.v) AS total, MAX(s.n) AS most FROM orders o "
    "JOIN customers c ON o.customer = c.k LEFT JOIN stock s ON s.k = o.k GROUP BY c.name",
    "asked": "SELECT o.k, o.v, s.n, r.factor FROM asked_orders o JOIN asked_stock s ON s.k = o.k "
    "JOIN rates r ON r.customer = o.customer",
}


@dataclass
class Database:
    name: str
    server: PostgresServer
    proxy: Proxy
    replay: Replay

    @property
    def url(self) -> str:
        return self.server.url(self.name)

    @property
    def by_proxy(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.proxy.port}/{self.name}"

    def is_behind(self, source: str) -> bool:
        return source.endswith(f":{self.proxy.port}/{self.name}")

    def kill(self) -> None:
        """The server and all that it was doing; it starts again and recovers from its log."""
        os.kill(int((self.server.data / "postmaster.pid").read_text().split()[0]), signal.SIGKILL)
        for _ in range(30):
            time.sleep(0.5)
            with suppress(RuntimeError):
                self.server.start()
                return
        raise AssertionError(f"{self.name} does not start again")


class Writers:
    """Transactions of a few statements, from several connections at once, for as long as they may."""

    def __init__(self, databases: list[Database]) -> None:
        self._over = threading.Event()
        self._locks = [threading.Lock() for _ in range(2 * len(databases))]
        self._threads = [
            threading.Thread(target=self._write, args=(databases[number // 2], number), daemon=True)
            for number in range(2 * len(databases))
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(60)

    @contextmanager
    def paused(self) -> Iterator[None]:
        with ExitStack() as stack:
            for lock in self._locks:
                stack.enter_context(lock)
            yield

    def _write(self, database: Database, number: int) -> None:
        dice = random.Random(number)
        while not self._over.is_set():
            with suppress(psycopg.Error), psycopg.connect(database.url, autocommit=True) as connection:
                while not self._over.is_set():
                    with self._locks[number], suppress(psycopg.errors.DeadlockDetected), connection.transaction():
                        for _ in range(dice.randint(1, 4)):
                            connection.execute(statement(dice, database.name))
                    self._over.wait(dice.expovariate(1 / PAUSE))
            self._over.wait(0.3)


def statement(dice: random.Random, database: str) -> str:
    table, k = dice.choice(TABLES[database]), dice.randrange(KEYS)
    customer = "NULL" if dice.random() < 0.1 else str(dice.randrange(5))
    if table == "customers":
        return dice.choice(
            [
                f"UPDATE customers SET name = chr({97 + k % 20}) WHERE k = {k % 5}",
                f"INSERT INTO customers VALUES ({k % 5}, 'twin''s')",
                f"DELETE FROM customers WHERE k = {k % 5} AND name = 'twin''s'",
            ]
        )
    if table in ("orders", "asked_orders"):
        row, change = f"({k}, {customer}, {dice.randrange(9)})", f"v = v + 1, customer = {customer}"
    else:
        row, change = (
            f"({k}, {dice.randrange(9)})",
            dice.choice(["n = n + 1", "n = NULL", f"k = {dice.randrange(KEYS)}"]),
        )
    return dice.choice(
        [
            f"INSERT INTO {table} VALUES {row}",
            f"UPDATE {table} SET {change} WHERE k = {k}",
            f"DELETE FROM {table} WHERE k = {k}",
        ]
    )


@dataclass
class Messages:
    """Versions of ``prices``, delivered late, twice and in any order; what is held back comes in the end."""

    place: Path
    dice: random.Random = field(default_factory=lambda: random.Random(9))
    states: list[Counter[tuple[Any, ...]]] = field(default_factory=lambda: [Counter()])
    held_back: list[int] = field(default_factory=list)
    _texts: dict[int, str] = field(default_factory=dict)
    _files: int = 0

    def write(self, versions: int) -> None:
        for _ in range(versions):
            version, rows = len(self.states), self.states[-1]
            message: dict[str, Any] = {"table": "p", "version": version}
            if rows and self.dice.random() < 0.5:
                before = self.dice.choice(sorted(rows.elements()))
                message |= {"op": "d", "before": {"k": before[0], "price": str(before[1])}}
                after = rows - Counter([before])
                if self.dice.random() < 0.6:
                    changed = (before[0], before[1] + 1)
                    message |= {"op": "u", "after": {"k": changed[0], "price": str(changed[1])}}
                    after += Counter([changed])
            else:
                row = (self.dice.randrange(KEYS), Decimal(self.dice.randrange(900)) / 100)
                message |= {"op": "c", "after": {"k": row[0], "price": str(row[1])}}
                after = rows + Counter([row])
            self.states.append(after)
            self._texts[version] = json.dumps(message)
            self.held_back.append(version)

    def deliver(self, *, everything: bool = False) -> None:
        self.dice.shuffle(self.held_back)
        kept = 0 if everything else self.dice.randint(0, 3)
        while len(self.held_back) > kept:
            version = self.held_back.pop()
            for _ in range(self.dice.choice([1, 1, 2])):
                self._files += 1
                (self.place / f"{self._files}.json").write_text(self._texts[version])


@dataclass
class Live:
    world: World
    databases: list[Database]
    messages: Messages
    dice: random.Random = field(default_factory=lambda: random.Random(17))
    resynced: dict[tuple[str, int], set[str]] = field(default_factory=dict)  # by database and csn
    checks: int = 0

    def held(self, csn: int) -> dict[str, Counter[tuple[Any, ...]]]:
        """What every source held at a csn."""
        found: Rows = {}
        units = [unit for unit in self.world.lake.units_of_work() if unit.csn <= csn]
        for database in self.databases:
            inside: set[str] = set()
            for unit in units:
                if database.is_behind(unit.source):
                    if unit.operation == "RESYNC":
                        inside |= self.resynced[database.name, unit.csn]
                    elif unit.transaction is not None:
                        inside.add(unit.transaction)
            found |= database.replay.after(inside)
        version = max((unit.version for unit in units if unit.table == "prices"), default=0)
        found["prices"] = self.messages.states[version]
        return found

    def refresh(self, view: str) -> str | None:
        """The mode; None where it was refused."""
        try:
            return str(self.world.lake.refresh(view).mode)
        except HeadwaterError as error:
            if error.code not in ("DATABASE_UNAVAILABLE", "SLOT_LOST"):
                raise
            return None

    def check(self, view: str) -> None:
        """The view as it stands, and at one csn of before."""
        for database in self.databases:
            database.replay.read()
        now, first = self.world.view_csn(view), self.world.kept_from(view)
        for csn in {now, self.dice.randint(first, now)}:
            for name, rows in self.held(csn).items():
                frame = self.world.spark.createDataFrame(list(rows.elements()), KINDS[name])
                frame.createOrReplaceTempView(name)
            actual = self.world.lake.read(view, at=None if csn == now else csn)
            assert_rows_equal(actual, self.world.expected(VIEWS[view], csn), label=f"{view} at csn {csn}")
            self.checks += 1

    def lose_slot(self, database: Database, writers: Writers) -> None:
        """Dropped by somebody, with changes in the gap; repaired by the difference. Views that ask are recomputed."""
        lake = self.world.lake
        lake._context.feeds.close()
        (source,) = (each for each in lake._context.catalog.sources() if database.is_behind(each.source_id))
        with psycopg.connect(database.url, autocommit=True) as connection:
            drop_slot(connection, source.settings["slot"], database.name)  # type: ignore[arg-type]
        time.sleep(1)
        assert self.refresh("mirrored") is None
        with writers.paused():
            lake.resync(TABLES[database.name][0])
            database.replay.read()
            for unit in lake.units_of_work():
                if unit.operation == "RESYNC" and database.is_behind(unit.source):
                    self.resynced.setdefault((database.name, unit.csn), set(database.replay.order()))


@pytest.fixture
def live(make_world: Callable[..., World], tmp_path: Path) -> Iterator[Live]:
    world = make_world("live")
    lake = world.lake
    settings = {"max_replication_slots": "5", "synchronous_commit": "on"}
    with ExitStack() as stack:
        databases = []
        for name, tables in TABLES.items():
            server = stack.enter_context(running_postgres(settings))
            url = server.create_database(name)
            with psycopg.connect(url, autocommit=True) as connection:
                for table in tables:
                    connection.execute(f"CREATE TABLE {table} ({KINDS[table].replace('string', 'text')})")
                    if table == "customers":
                        connection.execute("INSERT INTO customers SELECT i, 'c' || i FROM generate_series(0, 4) AS i")
                    elif table.endswith("orders"):
                        connection.execute(f"INSERT INTO {table} SELECT i, i % 5, i FROM generate_series(0, 39) AS i")
                    else:
                        connection.execute(f"INSERT INTO {table} SELECT i, i FROM generate_series(0, 39) AS i")
            columns = {table: [part.split()[0] for part in KINDS[table].split(", ")] for table in tables}
            proxy = stack.enter_context(proxied("127.0.0.1", server.port))
            databases.append(Database(name, server, proxy, Replay(url, columns)))
        for database in databases:
            database.replay.begin()
            for table in TABLES[database.name]:
                mode = "query" if table in ASKED else "mirror"
                lake.track(table, database.by_proxy, table=f"public.{table}", mode=mode, prepare=True)
        place = tmp_path / "messages"
        place.mkdir()
        made = Live(world, databases, Messages(place))
        made.messages.write(30)
        made.messages.deliver(everything=True)
        columns = {"k": "int", "price": "decimal(8,2)"}
        lake.track("prices", f"messages:{place}", table="p", columns=columns)
        world.make("rates", "customer INT, factor INT", "(0, 10), (1, 11), (1, 12), (3, 13), (NULL, 14)")
        for name, sql in VIEWS.items():
            lake.sql(f"CREATE MATERIALIZED VIEW {name} AS {sql}")
        yield made
        lake._context.feeds.close()


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_whatever_breaks_every_view_is_exact_at_every_refresh(live: Live) -> None:
    end = time.monotonic() + 60 * MINUTES
    round_number, broken = 0, Counter[str]()
    with Writers(live.databases) as writers:
        while time.monotonic() < end:
            round_number += 1
            database = live.databases[round_number % 2]
            live.messages.write(live.dice.randint(0, 5))
            live.messages.deliver()
            live.world.run(f"UPDATE {{rates}} SET factor = factor + 1 WHERE customer = {live.dice.randrange(4)}")
            match round_number % 4:
                case 1:
                    database.proxy.cut_after(live.dice.randrange(20_000))
                    broken["cut"] += 1
                case 2:
                    killing = threading.Thread(target=database.kill)
                    killing.start()
                    broken["killed"] += 1
                case 3:
                    live.lose_slot(database, writers)
                    broken["slot"] += 1
                case _:
                    pass
            for view in VIEWS:
                mode = live.refresh(view)
                wanted = {"incremental", "none", "full"} if view == "asked" else {"incremental", "none"}
                assert mode is None or mode in wanted
            if round_number % 4 == 2:
                killing.join()
            for each in live.databases:
                each.proxy.cut_after(None)
            for view in VIEWS:
                live.check(view)
    live.messages.deliver(everything=True)
    for view in VIEWS:
        assert live.refresh(view) is not None
        live.check(view)
    held = live.held(live.world.lake.status().newest_csn)
    for database in live.databases:
        with psycopg.connect(database.url) as connection:
            for table in TABLES[database.name]:
                present = Counter(tuple(row) for row in connection.execute(f"SELECT * FROM {table}").fetchall())
                assert held[table] == present, f"{table}: something was lost"
    assert held["prices"] == live.messages.states[-1]
    assert min(broken.values()) >= 1
    assert live.checks > 3 * round_number
