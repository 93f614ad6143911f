"""What PostgreSQL sources are asked for, and what following them costs them.

*Asking.* A view joins three tables of two databases in mode ``query``. For changes of several sizes its refresh is set
beside one that ships the tables that changed rows are joined with whole: sub-queries, rows shipped, seconds. The
larger the tables, the more the one saves; the other ships all of them each time. Beside both, changes that the view's
own rows answer for.

*Load.* The server's own transaction rate under its own ``pgbench``, alone, and with its tables followed: REPLICA
IDENTITY FULL, a publication, a slot, and a thread that reads, decodes and confirms all there is, batch after batch, and
looks again after five seconds, as capture does. The two take turns, and the figure is the median of the ratios. Reader
and server share the machine, so the reader gives way as ``headwater run --nice`` does; its connection, in which the
server decodes the log, does not. Beside it stands what share of the transactions was read while they were made: a
reader decodes some thousands a second at most, and the rest the server keeps for it.
"""

from __future__ import annotations

import os
import re
import shutil
import statistics
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

from headwater.bench.postgres_server import SERVER_USER, PostgresServer, running_postgres
from headwater.bench.report import at_least, at_most, write
from headwater.engine.session import describe_machine, local_session
from headwater.lake import Lake, connect
from headwater.sources.postgres.connection import Address
from headwater.sources.postgres.connection import connect as connect_to
from headwater.sources.postgres.description import describe
from headwater.sources.postgres.feed import Followed, PostgresFeed, position_of
from headwater.sources.postgres.publication import membership, prepare
from headwater.sources.postgres.slot import create_slot, drop_slot
from headwater.sources.postgres.tables import TableName

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEPT = 0.95
SHIPPED = 0.1
ORDERS = 200_000
CHANGES = (10, 1_000)
PAIRS = 5
SECONDS = 15
WARM_UP = 2
EVERY = 5.0  # seconds between captures
PGBENCH = ("accounts", "branches", "tellers", "history")
SETTINGS = {
    "max_replication_slots": "5",
    "synchronous_commit": "on",
    "fsync": "on",
    "full_page_writes": "on",
    "shared_buffers": "256MB",
}
VIEW = """SELECT o.k, o.amount, c.name, s.status
FROM orders o JOIN customers c ON o.customer = c.k JOIN shipments s ON s.order_key = o.k"""


def run(*, sf: float | None, json_path: Path | None, progress: Callable[[str], None]) -> dict[str, Any]:
    rows = int(ORDERS * (sf or 1))
    with ExitStack() as stack:
        one = stack.enter_context(running_postgres(SETTINGS))
        load = _load(one, progress)
        two = stack.enter_context(running_postgres(SETTINGS))
        folder = Path(tempfile.mkdtemp(prefix="headwater-sources-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        spark = local_session("headwater-bench", master="local[2]", memory="3g")
        machine = describe_machine(spark)
        asking = _asking(spark, folder, (one, two), rows, progress)
    report = {
        "benchmark": "sources",
        "command": "headwater bench sources",
        "machine": machine,
        "data": {"orders": rows, "customers": rows // 10, "shipments": rows, "pgbench_seconds": SECONDS},
        "view": VIEW,
        "asking": asking,
        "load": load,
    }
    targets = [at_least("transaction rate that a followed server keeps", KEPT, load["kept"])]
    for each in asking:
        name = f"rows shipped for {each['changed']} changed rows / rows of the tables asked"
        targets.append(at_most(name, SHIPPED, each["by_keys"]["rows"] / max(1, each["whole"]["rows"])))
        name = f"sub-queries for {each['changed']} changed rows that the view answers for"
        targets.append(at_most(name, 0, each["own"]["queries"]))
    if json_path is not None:
        _draw(asking, load, json_path.with_suffix(".svg"))
    return write(json_path, report, targets)


# ---------------------------------------------------------------------- what is asked


def _asking(
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


# ---------------------------------------------------------------------- what it costs the source


def _load(server: PostgresServer, progress: Callable[[str], None]) -> dict[str, Any]:
    url = server.create_database("bench")
    _pgbench(server, "-i", "-s", "10", "-q")
    pairs: list[dict[str, float]] = []
    for number in range(PAIRS):
        progress(f"load: pair {number + 1} of {PAIRS}, alone")
        alone = _rate(server)
        progress(f"load: pair {number + 1} of {PAIRS}, followed")
        with _followed(url) as read:
            followed = _rate(server)
            meanwhile = read[0]
        committed = followed * (SECONDS + WARM_UP)
        pairs.append(
            {"alone": round(alone, 1), "followed": round(followed, 1), "read_share": round(meanwhile / committed, 3)}
        )
    with psycopg.connect(url, autocommit=True) as connection:
        for name in PGBENCH:
            connection.execute(f"ALTER TABLE pgbench_{name} REPLICA IDENTITY DEFAULT")
    return {
        "pairs": pairs,
        "kept": round(statistics.median(pair["followed"] / pair["alone"] for pair in pairs), 4),
        "read_share": round(statistics.median(pair["read_share"] for pair in pairs), 3),
    }


@contextmanager
def _followed(url: str) -> Iterator[list[int]]:
    """Somebody who reads and decodes the log of all tables, as capture does."""
    address, read, over = Address.parse(url), [0], threading.Event()
    slot = "bench"
    with closing(connect_to(address)) as connection:
        tables = [describe(connection, TableName("public", f"pgbench_{name}")) for name in PGBENCH]
        prepare(connection, "bench", tables)
        tables = [describe(connection, table.name) for table in tables]
        tokens = membership(connection, "bench", tables, str(address)).tokens
        position = position_of(create_slot(connection, slot, str(address)))
        followed = [Followed(table.name.name, table, tokens[table.oid]) for table in tables]
        feed = PostgresFeed(partial(connect_to, address), slot, "bench", followed, database=str(address))

        def follow() -> None:
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 19)
            at = position
            while not over.is_set():
                before = read[0]
                with closing(feed.read(at)) as batch:
                    for transaction in batch.transactions:
                        for _ in transaction.changes():
                            pass
                        read[0] += 1
                    at = batch.position
                feed.confirm(at)
                if read[0] == before:
                    over.wait(EVERY)

        reader = threading.Thread(target=follow)
        reader.start()
        try:
            yield read
        finally:
            over.set()
            reader.join()
            feed.close()
            drop_slot(connection, slot, str(address))
            for table in tables:
                connection.execute(f"ALTER TABLE {table.name.quoted} REPLICA IDENTITY DEFAULT")
            connection.execute("DROP PUBLICATION bench")


def _rate(server: PostgresServer) -> float:
    """Transactions a second of the server's own TPC-B-like load."""
    _pgbench(server, "-T", str(WARM_UP), "-c", "4", "-n")
    said = _pgbench(server, "-T", str(SECONDS), "-c", "4", "-n")
    found = re.search(r"tps = ([\d.]+)", said)
    if found is None:
        raise RuntimeError(f"pgbench told no rate: {said}")
    return float(found[1])


def _pgbench(server: PostgresServer, *arguments: str) -> str:
    program = server.binaries / "pgbench"
    where = ["-h", "127.0.0.1", "-p", str(server.port), "-U", SERVER_USER, "bench"]
    done = subprocess.run([program, *arguments, *where], capture_output=True, text=True, check=True)
    return done.stdout


def _draw(asking: list[dict[str, Any]], load: dict[str, Any], path: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(8, 3.2))
    ways = {
        "own": ("from the view's own rows", "#74c476"),
        "by_keys": ("by keys", "#4292c6"),
        "whole": ("whole tables", "#fd8d3c"),
    }
    places = range(len(asking))
    for shift, (way, (label, color)) in zip((-0.27, 0.0, 0.27), ways.items(), strict=True):
        bars = left.bar(
            [p + shift for p in places], [each[way]["rows"] for each in asking], 0.25, color=color, label=label
        )
        left.bar_label(bars, fmt="{:,.0f}", fontsize=6)
    left.set_yscale("symlog", linthresh=1)
    left.set_ylim(bottom=0)
    left.set_xticks(list(places), [f"{each['changed']} changed" for each in asking])
    left.set_title("rows shipped for one refresh", fontsize=10)
    left.legend(fontsize=7)
    pairs = load["pairs"]
    right.plot([pair["alone"] for pair in pairs], "o-", color="#fd8d3c", label="alone")
    right.plot([pair["followed"] for pair in pairs], "o-", color="#4292c6", label="followed")
    right.set_ylim(bottom=0)
    right.set_xticks(range(len(pairs)), [f"pair {number + 1}" for number in range(len(pairs))])
    right.set_title(f"transactions a second ({load['kept']:.2f} kept)", fontsize=10)
    right.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path)
    pyplot.close(figure)
