"""Snapshots of a real server against its log: every one is rebuilt exactly."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager

import psycopg
import pytest

from headwater.algebra.time import Csn
from headwater.errors import DatabaseUnavailable
from headwater.sources.postgres.changes import Change, Truncated, signed_rows
from headwater.sources.postgres.connection import Connection
from headwater.sources.postgres.initial_copy import InitialCopy, copying, take_fence
from headwater.sources.postgres.positions import parse_lsn
from headwater.sources.postgres.publication import lost_keys, membership, prepare
from headwater.sources.postgres.spool import Transaction
from headwater.sources.postgres.tables import Row
from headwater.sources.postgres.visibility import LoggedUnit, TransactionSnapshot, difference, execution_time
from tests.postgres_server import PostgresServer
from tests.sources.postgres.conftest import PUBLICATION, Source

Bag = Counter[Row]


def bag(changes: list[Change]) -> Bag:
    total: Bag = Counter()
    for change in changes:
        assert not isinstance(change, Truncated)
        for row, count in signed_rows(change):
            total[row] += count
    return total


def plus(*bags: Bag) -> Bag:
    total: Bag = Counter()
    for each in bags:
        total.update(each)
    return Counter({row: count for row, count in total.items() if count})


def minus(left: Bag, right: Bag) -> Bag:
    return plus(left, Counter({row: -count for row, count in right.items()}))


def snapshot_of(connection: Connection) -> TransactionSnapshot:
    found = connection.execute("SELECT pg_current_snapshot()::text").fetchone()
    assert found is not None
    return TransactionSnapshot.parse(found[0])


@contextmanager
def seen(connection: Connection) -> Iterator[tuple[TransactionSnapshot, Bag]]:
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        rows: Bag = Counter(connection.execute("SELECT k, n FROM public.accounts").fetchall())
        yield snapshot_of(connection), rows


def write(url: str, seed: int, stop: threading.Event) -> None:
    """Short transactions of every kind on few rows, some rolled back, some in subtransactions."""
    choose = random.Random(seed)
    with psycopg.connect(url, autocommit=True) as connection:
        while not stop.is_set():
            try:
                with connection.transaction():
                    for _ in range(choose.randint(1, 3)):
                        key = choose.randint(1, 60)
                        with connection.transaction():
                            match choose.randrange(4):
                                case 0:
                                    connection.execute("INSERT INTO public.accounts VALUES (%s, %s)", (key, seed))
                                case 1:
                                    connection.execute("DELETE FROM public.accounts WHERE k = %s", (key,))
                                case 2:
                                    connection.execute("UPDATE public.accounts SET k = %s WHERE k = %s", (key + 1, key))
                                case _:
                                    connection.execute("UPDATE public.accounts SET n = n + 1 WHERE k = %s", (key,))
                    if choose.random() < 0.1:
                        raise psycopg.Rollback
            except psycopg.errors.DeadlockDetected:
                continue


@contextmanager
def writers(source: Source, postgres: PostgresServer, count: int) -> Iterator[None]:
    stop = threading.Event()
    url = postgres.url(source.address.database)
    threads = [threading.Thread(target=write, args=(url, seed, stop)) for seed in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_each_snapshot_under_concurrent_writers_is_rebuilt_from_the_log(
    source: Source, postgres: PostgresServer
) -> None:
    source.run(
        "CREATE TABLE public.accounts (k int, n int)",
        "INSERT INTO public.accounts SELECT i, 0 FROM generate_series(1, 40) AS i",
        "ALTER TABLE public.accounts REPLICA IDENTITY FULL",
    )
    taken: list[tuple[TransactionSnapshot, Bag]] = []
    log: list[tuple[Transaction, Bag]] = []
    with writers(source, postgres, 6), closing(source.connect()) as connection:
        # Everything begins while the writers write: slot, copy, snapshots.
        joined = source.follow("public.accounts")
        fence = take_fence(connection, source.name)
        with copying(connection, fence, database=source.name) as copy:
            copied: Bag = Counter(copy.rows(source.tables[0]))
        reader = source.reader(joined)
        until = time.monotonic() + 1.0
        while len(taken) < 150 or time.monotonic() < until:
            with seen(connection) as one:
                taken.append(one)
            if len(taken) % 50 == 0:
                log += [(t, bag(changes)) for t, changes in source.drain(reader)]
    source.owner.execute("INSERT INTO public.accounts VALUES (0, 0)")  # flushes what the writers left
    while not copy.covered.by(source.position) or not log or log[-1][1] != Counter({(0, 0): 1}):
        log += [(t, bag(changes)) for t, changes in source.drain(reader)]

    # The copy, and all that it does not hold, is the table.
    kept = [(t, change) for t, change in log if not copy.holds(t.head)]
    with seen(source.connect()) as (_, final):
        assert plus(copied, *(change for _, change in kept)) == final
    assert len(kept) > 20

    units = [LoggedUnit(Csn(csn), t.head.xid) for csn, (t, _) in enumerate(kept, start=1)]
    effects = {unit.csn: change for unit, (_, change) in zip(units, kept, strict=True)}
    newest = Csn(len(units))
    states = [copied]
    for unit in units:
        states.append(plus(states[-1], effects[unit.csn]))
    choose = random.Random(1)
    for snapshot, rows in taken:
        assert plus(copied, *(effects[u.csn] for u in units if snapshot.sees(u.xid))) == rows
        at = execution_time(units, snapshot, newest)
        for frontier in (at, Csn(max(0, at - choose.randrange(20))), Csn(min(newest, at + choose.randrange(20)))):
            found = difference(units, snapshot, frontier)
            assert frontier > at or not found.missing
            undone = minus(rows, plus(*(effects[u.csn] for u in found.interfering)))
            assert plus(undone, *(effects[u.csn] for u in found.missing)) == states[frontier]


@contextmanager
def waiting_for_nobody(source: Source, postgres: PostgresServer) -> Iterator[psycopg.Connection]:
    """A connection whose commits wait for a standby that never answers; those of the owner do not."""
    source.run("CREATE TABLE public.probe (k int)")
    source.owner.execute("SET synchronous_commit = local")
    source.owner.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
    source.owner.execute("SELECT pg_reload_conf()")
    try:
        url = postgres.url(source.address.database)
        with psycopg.connect(url, autocommit=True, options="-csynchronous_commit=on") as waiting:
            _until_commits_wait(source, waiting)
            yield waiting
    finally:
        source.owner.execute("ALTER SYSTEM RESET synchronous_standby_names")
        source.owner.execute("SELECT pg_reload_conf()")


def begun(source: Source, waiting: psycopg.Connection, statements: str) -> threading.Thread:
    """A commit that waits until its backend is cancelled; it stands all the same."""
    committing = threading.Thread(target=waiting.execute, args=(statements,))
    committing.start()
    _until_waiting(source, waiting.info.backend_pid)
    return committing


def let_go(source: Source, waiting: psycopg.Connection, committing: threading.Thread) -> None:
    source.owner.execute("SELECT pg_cancel_backend(%s)", (waiting.info.backend_pid,))
    committing.join()


def test_a_commit_that_is_logged_and_not_yet_visible_is_overtaken(source: Source, postgres: PostgresServer) -> None:
    """Made certain by a standby that never answers: the first commit waits for it, the second does not."""
    source.run("CREATE TABLE public.accounts (k int, n int)")
    joined = source.follow("public.accounts")
    reader = source.reader(joined)
    with waiting_for_nobody(source, postgres) as waiting:
        first = begun(source, waiting, "INSERT INTO public.accounts VALUES (1, 1)")
        source.run("INSERT INTO public.accounts VALUES (2, 2)")
        with closing(source.connect()) as connection, seen(connection) as (snapshot, rows):
            pass
        found = source.drain(reader)
        let_go(source, waiting, first)
    assert rows == Counter({(2, 2): 1})
    units = [LoggedUnit(Csn(csn), t.head.xid) for csn, (t, _) in enumerate(found, start=1)]
    assert [bag(changes) for _, changes in found] == [Counter({(1, 1): 1}), Counter({(2, 2): 1})]
    assert execution_time(units, snapshot, Csn(2)) == 0
    assert difference(units, snapshot, Csn(0)).interfering == (units[1],)
    at_two = difference(units, snapshot, Csn(2))
    assert (at_two.interfering, at_two.missing) == ((), (units[0],))


def test_a_key_that_is_dropped_by_a_commit_which_nobody_sees_yet_is_lost_already(
    source: Source, postgres: PostgresServer
) -> None:
    """Its change is read, and the server's catalog still shows the key."""
    source.run("CREATE TABLE public.accounts (k int PRIMARY KEY, n int)", "INSERT INTO public.accounts VALUES (1, 1)")
    joined = source.follow("public.accounts")
    reader = source.reader(joined)
    with waiting_for_nobody(source, postgres) as waiting:
        dropping = begun(
            source,
            waiting,
            "ALTER TABLE public.accounts DROP CONSTRAINT accounts_pkey; INSERT INTO public.accounts VALUES (1, 1)",
        )
        with closing(reader.read(source.position)) as batch:
            assert [bag(list(each.changes())) for each in batch.transactions] == [Counter({(1, 1): 1})]
            assert batch.lost_keys == {source.tables[0].oid}
        with closing(source.connect()) as connection:
            assert lost_keys(connection, source.tables) == frozenset()
            let_go(source, waiting, dropping)
            assert lost_keys(connection, source.tables) == {source.tables[0].oid}


def _until_commits_wait(source: Source, connection: psycopg.Connection) -> None:
    """The server takes up its new setting in its own time."""
    stop = threading.Event()

    def probe() -> None:
        while not stop.is_set():
            connection.execute("INSERT INTO public.probe VALUES (1)")

    probing = threading.Thread(target=probe)
    probing.start()
    try:
        _until_waiting(source, connection.info.backend_pid)
    finally:
        stop.set()
        source.owner.execute("SELECT pg_cancel_backend(%s)", (connection.info.backend_pid,))
        probing.join()


def _until_waiting(source: Source, backend: int) -> None:
    deadline = time.monotonic() + 20
    while source.owner.execute(
        "SELECT 1 FROM pg_stat_activity WHERE pid = %s AND wait_event = 'SyncRep'", (backend,)
    ).fetchone() is None:  # fmt: skip
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_transaction_that_wrote_before_its_table_was_published_is_waited_for(
    source: Source, postgres: PostgresServer
) -> None:
    """Its rows before the publication are in no log; a copy that did not see it would lose them."""
    source.run("CREATE TABLE public.first (k int, n int)")
    source.follow("public.first")
    source.run("CREATE TABLE public.accounts (k int, n int)", "ALTER TABLE public.accounts REPLICA IDENTITY FULL")
    with psycopg.connect(postgres.url(source.address.database)) as early, closing(source.connect()) as connection:
        early.execute("INSERT INTO public.accounts VALUES (1, 1)")
        source.tables += source.describe("public.accounts")
        prepare(connection, PUBLICATION, source.tables)
        joined = membership(connection, PUBLICATION, source.tables, source.name)
        fence = take_fence(connection, source.name)

        def copied(patience: float) -> tuple[InitialCopy, Bag]:
            with copying(connection, fence, database=source.name, patience=patience) as copy:
                return copy, Counter(copy.rows(source.tables[1]))

        with pytest.raises(DatabaseUnavailable, match="is still open after 0 s"):
            copied(0.2)
        early.execute("INSERT INTO public.accounts VALUES (2, 2)")
        committing = threading.Timer(0.3, early.commit)
        committing.start()
        copy, rows = copied(20)
        committing.join()
    source.run("INSERT INTO public.accounts VALUES (3, 3)")
    found = source.drain(source.reader(joined))
    applied = [bag(changes) for t, changes in found if not copy.holds(t.head)]
    assert plus(rows, *applied) == Counter({(1, 1): 1, (2, 2): 1, (3, 3): 1})


def test_a_copy_waits_until_what_it_sees_can_not_vanish(source: Source) -> None:
    source.run("CREATE TABLE public.accounts (k int, n int)")
    (table,) = source.describe("public.accounts")
    source.owner.execute("SET synchronous_commit = off")
    with closing(source.connect()) as connection:
        fence = take_fence(connection, source.name)
        source.owner.execute("INSERT INTO public.accounts VALUES (1, 1)")
        with copying(connection, fence, database=source.name) as copy:
            flushed = source.owner.execute("SELECT pg_current_wal_flush_lsn()::text").fetchone()
            assert flushed is not None
            assert copy.covered.by(parse_lsn(flushed[0]))
            assert list(copy.rows(table)) == [(1, 1)]


def test_an_exported_snapshot_shows_others_the_copy(source: Source) -> None:
    source.run("CREATE TABLE public.accounts (k int, n int)", "INSERT INTO public.accounts VALUES (1, 1)")
    source.follow("public.accounts")
    with closing(source.connect()) as connection, closing(source.connect()) as other:
        with copying(connection, take_fence(connection, source.name), database=source.name) as copy:
            source.run("INSERT INTO public.accounts VALUES (2, 2)")
            with other.transaction():
                other.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
                other.execute(f"SET TRANSACTION SNAPSHOT '{copy.exported}'")
                assert snapshot_of(other) == copy.snapshot
                assert other.execute("SELECT k FROM public.accounts").fetchall() == [(1,)]
            assert list(copy.rows(source.tables[0])) == [(1, 1)]
        # The connection is as it was.
        connection.execute("CREATE TABLE public.writable (k int)")
        assert snapshot_of(connection) != copy.snapshot
