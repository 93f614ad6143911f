"""The log of a real server: every kind of change, exactly once, and every way to lose it noticed."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import replace

import psycopg
import pytest

from headwater.errors import (
    DatabaseNotReady,
    DatabaseUnavailable,
    InvalidInput,
    PublicationIncomplete,
    PublicationMissing,
    ReplicaIdentityNarrow,
    SchemaChanged,
    SlotLost,
    TableReplaced,
)
from headwater.sources.postgres.changes import Deleted, Inserted, Truncated, Updated
from headwater.sources.postgres.connection import Address, Retry, connect
from headwater.sources.postgres.description import describe
from headwater.sources.postgres.positions import Lsn
from headwater.sources.postgres.publication import membership, prepare
from headwater.sources.postgres.slot import create_slot, drop_slot, require_usable, slot_state
from headwater.sources.postgres.spool import spool_beyond
from headwater.sources.postgres.tables import TableName
from tests.postgres_server import PostgresServer
from tests.postgres_server import _run as run_server_program
from tests.sources.postgres.conftest import PUBLICATION, Source

TWO_SCHEMAS = (
    'CREATE SCHEMA "Odd ""schema"',
    "CREATE TABLE public.orders (id int PRIMARY KEY, body text)",
    'CREATE TABLE "Odd ""schema"."a.b" ("Key %s" int, n int)',
)
ODD = 'Odd "schema'


@pytest.fixture
def orders(source: Source) -> Source:
    source.run("CREATE TABLE public.orders (id int PRIMARY KEY, body text)")
    return source


def test_every_kind_of_change_over_several_schemas(source: Source) -> None:
    source.run(*TWO_SCHEMAS)
    source.owner.execute("ALTER TABLE public.orders ALTER COLUMN body SET STORAGE EXTERNAL")
    orders = source.describe("public.orders")[0]
    with closing(source.connect()) as connection:
        odd = describe(connection, TableName(ODD, "a.b"))
        done = prepare(connection, PUBLICATION, [orders, odd])
        assert done == (
            'ALTER TABLE "public"."orders" REPLICA IDENTITY FULL',
            'ALTER TABLE "Odd ""schema"."a.b" REPLICA IDENTITY FULL',
            'CREATE PUBLICATION "Head""water" FOR TABLE "public"."orders", "Odd ""schema"."a.b"',
        )
        orders, odd = describe(connection, orders.name), describe(connection, odd.name)
        assert prepare(connection, PUBLICATION, [orders, odd]) == ()
        joined = membership(connection, PUBLICATION, [orders, odd], source.name)
        source.tables = [orders, odd]
        source.position = create_slot(connection, source.slot, source.name)
    long = "x" * 10_000
    started = time.time()
    source.run(
        f"INSERT INTO public.orders VALUES (1, NULL), (2, '{long}')",
        f'INSERT INTO "{ODD.replace(chr(34), chr(34) * 2)}"."a.b" VALUES (7, NULL)',
    )
    source.run("UPDATE public.orders SET body = 'b' WHERE id = 1", "UPDATE public.orders SET id = 3 WHERE id = 2")
    source.run("DELETE FROM public.orders WHERE id = 1")
    source.run("SAVEPOINT s", "INSERT INTO public.orders VALUES (9, 'x')", "ROLLBACK TO s")
    source.run("INSERT INTO public.orders VALUES (4, 'd')", "TRUNCATE public.orders")
    found = source.drain(source.reader(joined))
    assert [changes for _, changes in found] == [
        [Inserted(orders, (1, None)), Inserted(orders, (2, long)), Inserted(odd, (7, None))],
        [Updated(orders, (1, None), (1, "b")), Updated(orders, (2, long), (3, long))],
        [Deleted(orders, (1, "b"))],
        [Inserted(orders, (4, "d")), Truncated((orders,))],
    ]
    heads = [transaction.head for transaction, _ in found]
    assert sorted(heads, key=lambda head: head.commit_lsn) == heads
    assert len({head.xid for head in heads}) == 4
    assert all(abs(head.committed_at / 1e6 - started) < 60 for head in heads)


def test_the_slot_moves_only_when_the_changes_are_durable(orders: Source) -> None:
    joined = orders.follow("public.orders")
    reader = orders.reader(joined)
    for number in range(6):
        orders.run(f"INSERT INTO public.orders VALUES ({number}, 'x')")
    stored: list[int] = []
    position = orders.position
    while True:
        for _crash in range(2):  # the first look at each batch is lost with the process that looked
            with closing(orders.reader(joined).read(position, most_messages=6)) as batch:
                rows = [change.new[0] for t in batch.transactions for change in t.changes()]  # type: ignore[union-attr]
        stored, position = stored + rows, batch.position
        if batch.complete:
            break
        assert 0 < len(rows) < 6
    assert stored == list(range(6))
    orders.run("INSERT INTO public.orders VALUES (6, 'x')")
    with closing(reader.read(position)) as batch:
        assert len(batch.transactions) == 1

    def confirmed() -> Lsn:
        state = slot_state(orders.connect(), orders.slot)
        assert state is not None
        return state.confirmed

    assert confirmed() == position < batch.position
    reader.confirm(batch.position)
    reader.confirm(batch.position)
    assert confirmed() == batch.position


def test_what_is_durable_is_passed_over_when_the_server_has_forgotten_how_far_its_slot_was(orders: Source) -> None:
    joined = orders.follow("public.orders")
    orders.run("INSERT INTO public.orders VALUES (1, 'x')")
    orders.run("INSERT INTO public.orders VALUES (2, 'x')")
    with closing(orders.reader(joined).read(orders.position)) as batch:
        first, second = batch.transactions
    reader = orders.reader(joined)
    reader._advance = lambda *_: None  # type: ignore[method-assign]
    with closing(reader.read(first.end)) as batch:
        assert [t.head for t in batch.transactions] == [second.head]


def test_traffic_that_is_not_ours_moves_the_slot_on(orders: Source) -> None:
    joined = orders.follow("public.orders")
    before = orders.position
    reader = orders.reader(joined)
    deadline = time.monotonic() + 20
    orders.run("CREATE TABLE public.other (x int)")
    orders.owner.execute("SET synchronous_commit = off")
    while orders.position == before:
        orders.run("INSERT INTO public.other VALUES (1)")  # never flushed when we look
        with closing(reader.read(orders.position)) as batch:
            assert batch.transactions == ()
            assert batch.complete
        orders.position = batch.position
        assert time.monotonic() < deadline
        time.sleep(0.02)
    orders.owner.execute("SET synchronous_commit = on")
    orders.run("INSERT INTO public.orders VALUES (1, 'x')")
    assert len(orders.drain(reader)) == 1


def test_ends_of_the_log_are_forgotten_with_their_connection(orders: Source) -> None:
    """A server that crashed writes other records where unflushed ones were; a slot put there could split a commit."""
    joined = orders.follow("public.orders")
    orders.owner.execute("SET synchronous_commit = off")
    reader = orders.reader(joined)
    deadline = time.monotonic() + 20
    while not reader._ends:
        orders.run("CREATE TABLE IF NOT EXISTS public.other (x int)", "INSERT INTO public.other VALUES (1)")
        reader.read(orders.position).close()
        assert time.monotonic() < deadline
    orders.owner.execute("SELECT pg_terminate_backend(%s)", (orders.opened[-1].info.backend_pid,))
    with pytest.raises(DatabaseUnavailable):
        reader.problems()
    assert reader._ends == []


def test_a_large_transaction_passes_through_a_small_memory(orders: Source) -> None:
    joined = orders.follow("public.orders")
    orders.run("INSERT INTO public.orders SELECT i, repeat('x', 100) FROM generate_series(1, 20000) AS i")
    orders.run("DELETE FROM public.orders WHERE id <= 10")
    reader = orders.reader(joined, spool=spool_beyond(64 << 10))
    with closing(reader.read(orders.position, most_messages=100)) as batch:
        (large,) = batch.transactions
        assert not batch.complete
        assert batch._spool._rolled  # type: ignore[attr-defined]
        assert sum(isinstance(change, Inserted) for change in large.changes()) == 20_000
    with closing(reader.read(batch.position)) as batch:
        assert [len(list(t.changes())) for t in batch.transactions] == [10]


def test_a_connection_that_breaks_is_made_anew_and_nothing_is_lost(orders: Source) -> None:
    joined = orders.follow("public.orders")
    pauses: list[float] = []
    reader = orders.reader(joined, retry=Retry(attempts=3), sleep=pauses.append)
    orders.drain(reader)
    orders.run("INSERT INTO public.orders VALUES (1, 'x')")
    orders.owner.execute("SELECT pg_terminate_backend(%s)", (orders.opened[-1].info.backend_pid,))
    assert len(orders.drain(reader)) == 1
    assert pauses == [0.2]


def test_after_a_crash_of_the_server_nothing_comes_twice_and_nothing_is_lost(
    orders: Source, postgres: PostgresServer
) -> None:
    """The server saves what was confirmed at its next checkpoint, or when it moves its log on: most crashes undo it."""
    joined = orders.follow("public.orders")
    reader = orders.reader(joined, retry=Retry(attempts=20))
    data = str(postgres.data)
    restart = ["-D", data, "-l", str(postgres.log), "-m", "immediate", "-w", "-t", "60", "restart"]
    found: list[object] = []
    forgotten = 0
    for crash in range(5):
        orders.run(f"INSERT INTO public.orders VALUES ({2 * crash}, 'x')")
        found += [change.new[0] for _, changes in orders.drain(reader) for change in changes]  # type: ignore[union-attr]
        reader.confirm(orders.position)
        orders.run(f"INSERT INTO public.orders VALUES ({2 * crash + 1}, 'x')")
        run_server_program(postgres.binaries / "pg_ctl", *restart, cwd=postgres.directory)
        with closing(orders.connect()) as connection:
            state = slot_state(connection, orders.slot)
        assert state is not None
        forgotten += state.confirmed < orders.position
        found += [change.new[0] for _, changes in orders.drain(reader) for change in changes]  # type: ignore[union-attr]
        assert found == list(range(2 * crash + 2))
        if forgotten:
            break
    assert forgotten


def test_a_source_that_is_gone_says_so_after_the_last_try(orders: Source) -> None:
    joined = orders.follow("public.orders")

    def refuse() -> psycopg.Connection:
        return connect(Address("127.0.0.1", "d", "u", port=1))

    reader = orders.reader(joined, retry=Retry(attempts=2), sleep=lambda _: None)
    reader._connect = refuse
    with pytest.raises(DatabaseUnavailable, match="the slot keeps the changes"):
        reader.read(orders.position)


def test_a_dropped_slot_is_noticed(orders: Source) -> None:
    joined = orders.follow("public.orders")
    with closing(orders.connect()) as connection:
        drop_slot(connection, orders.slot, orders.name)
        drop_slot(connection, orders.slot, orders.name)
    with pytest.raises(SlotLost, match=r"was dropped.*resync"):
        orders.reader(joined).read(orders.position)


def test_a_slot_made_anew_or_moved_by_somebody_else_is_noticed(orders: Source) -> None:
    joined = orders.follow("public.orders")
    with closing(orders.connect()) as connection:
        drop_slot(connection, orders.slot, orders.name)
        orders.run("INSERT INTO public.orders VALUES (1, 'lost')")
        create_slot(connection, orders.slot, orders.name)
    with pytest.raises(SlotLost, match="somebody else has moved it"):
        orders.reader(joined).read(orders.position)


def test_a_slot_whose_log_was_removed_is_noticed(orders: Source, postgres: PostgresServer) -> None:
    joined = orders.follow("public.orders")
    other = f"{orders.slot}_kept"
    orders.owner.execute("ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'")
    try:
        orders.owner.execute("SELECT pg_reload_conf()")
        deadline = time.monotonic() + 30
        while True:
            for _ in range(3):
                orders.run("INSERT INTO public.orders SELECT coalesce(max(id), 0) + 1 FROM public.orders")
                orders.owner.execute("SELECT pg_switch_wal()")
            orders.owner.execute("CHECKPOINT")
            state = slot_state(orders.connect(), orders.slot)
            assert state is not None
            if state.wal_status == "lost":
                break
            assert time.monotonic() < deadline
    finally:
        orders.owner.execute("ALTER SYSTEM RESET max_slot_wal_keep_size")
        orders.owner.execute("SELECT pg_reload_conf()")
    with pytest.raises(SlotLost, match=r"given up.*max_slot_wal_keep_size"):
        orders.reader(joined).read(orders.position)
    # Repair begins with another slot.
    with closing(orders.connect()) as connection:
        assert create_slot(connection, other, orders.name) > orders.position
        drop_slot(connection, other, orders.name)


def test_a_server_restored_from_a_backup_is_noticed(orders: Source) -> None:
    joined = orders.follow("public.orders")
    with pytest.raises(SlotLost, match="restored from a backup"):
        orders.reader(joined).read(Lsn(2**62))


def test_a_slot_of_another_plugin_or_database_is_refused(orders: Source, postgres: PostgresServer) -> None:
    joined = orders.follow("public.orders")
    with closing(orders.connect()) as connection:
        state = slot_state(connection, orders.slot)
    assert state is not None
    for wrong in (replace(state, plugin="test_decoding"), replace(state, of_this_database=False)):
        with pytest.raises(DatabaseNotReady):
            require_usable(wrong, orders.slot, orders.position, Lsn(2**62), orders.name)
    with pytest.raises(InvalidInput):
        create_slot(orders.connect(), 'Bad"name', orders.name)
    assert joined.tokens


def test_a_publication_that_is_gone_is_noticed(orders: Source) -> None:
    joined = orders.follow("public.orders")
    orders.run('DROP PUBLICATION "Head""water"')
    with pytest.raises(PublicationMissing, match='CREATE PUBLICATION "Head""water" FOR TABLE'):
        orders.reader(joined).read(orders.position)


def test_a_table_that_left_the_publication_is_noticed_also_when_it_is_back(orders: Source) -> None:
    orders.run("CREATE TABLE public.other (x int)")
    joined = orders.follow("public.orders", "public.other")
    reader = orders.reader(joined)
    assert reader.problems() == ()
    orders.run('ALTER PUBLICATION "Head""water" DROP TABLE public.orders')
    orders.run("INSERT INTO public.orders VALUES (1, 'lost')", "INSERT INTO public.other VALUES (1)")
    with closing(reader.read(orders.position)) as batch:
        (problem,) = batch.problems
        assert isinstance(problem, PublicationIncomplete)
        assert 'ADD TABLE "public"."orders"' in str(problem)
        # The other table goes on.
        assert [len(list(t.changes())) for t in batch.transactions] == [1]
    orders.run('ALTER PUBLICATION "Head""water" ADD TABLE public.orders')
    (problem,) = reader.problems()
    assert isinstance(problem, PublicationIncomplete)
    assert "put back" in str(problem)


@pytest.mark.parametrize(
    "partial",
    [
        'ALTER PUBLICATION "Head""water" SET (publish = \'insert, update\')',
        'ALTER PUBLICATION "Head""water" SET TABLE public.orders WHERE (id > 5)',
        'ALTER PUBLICATION "Head""water" SET TABLE public.orders (id, body)',
    ],
)
def test_a_publication_of_a_part_is_noticed(orders: Source, partial: str) -> None:
    joined = orders.follow("public.orders")
    if orders.owner.info.server_version < 150000 and "SET TABLE" in partial:
        pytest.skip("PostgreSQL 14 has neither row filters nor column lists")
    orders.run(partial)
    (problem,) = orders.reader(joined).problems()
    assert isinstance(problem, PublicationIncomplete)


def test_publications_of_all_tables_and_of_schemas_serve_too(orders: Source) -> None:
    orders.run("ALTER TABLE public.orders REPLICA IDENTITY FULL")
    orders.tables = orders.describe("public.orders")
    kinds = ["ALL TABLES"] + (["TABLES IN SCHEMA public"] if orders.owner.info.server_version >= 150000 else [])
    for number, kind in enumerate(kinds):
        orders.run(f"CREATE PUBLICATION p{number} FOR {kind}")
        with closing(orders.connect()) as connection:
            joined = membership(connection, f"p{number}", orders.tables, orders.name)
        assert list(joined.tokens) == [orders.tables[0].oid]
        assert orders.reader(joined).problems() == ()


def test_a_narrow_replica_identity_is_noticed_before_and_after_the_change(orders: Source) -> None:
    joined = orders.follow("public.orders")
    orders.run("INSERT INTO public.orders VALUES (1, 'x')")
    orders.run("ALTER TABLE public.orders REPLICA IDENTITY DEFAULT")
    orders.run("UPDATE public.orders SET body = 'y'")
    reader = orders.reader(joined)
    (problem,) = reader.problems()
    assert isinstance(problem, ReplicaIdentityNarrow)
    statement = 'ALTER TABLE "public"."orders" REPLICA IDENTITY FULL'
    assert statement in str(problem)
    orders.run(statement)
    assert reader.problems() == ()
    with closing(reader.read(orders.position)) as batch:
        inserted, updated = batch.transactions
        assert len(list(inserted.changes())) == 1
        with pytest.raises(ReplicaIdentityNarrow):
            list(updated.changes())


def test_a_key_that_is_dropped_is_noticed_with_the_first_change_also_when_it_is_back(orders: Source) -> None:
    joined = orders.follow("public.orders")
    reader = orders.reader(joined)
    (table,) = orders.tables
    orders.run("INSERT INTO public.orders VALUES (1, 'x')")
    with closing(reader.read(orders.position)) as batch:
        assert batch.lost_keys == frozenset()
    orders.run("ALTER TABLE public.orders DROP CONSTRAINT orders_pkey; INSERT INTO public.orders VALUES (1, 'twin')")
    orders.run("DELETE FROM public.orders WHERE body = 'twin'; ALTER TABLE public.orders ADD PRIMARY KEY (id)")
    with closing(reader.read(orders.position)) as batch:
        assert batch.lost_keys == {table.oid}
        assert batch.problems == ()


def test_changed_columns_and_tables_are_noticed(orders: Source) -> None:
    orders.run("CREATE TABLE public.other (x int)")
    joined = orders.follow("public.orders", "public.other")
    table = orders.tables[0]
    orders.run("ALTER TABLE public.orders ADD COLUMN extra int DEFAULT 5", "INSERT INTO public.orders VALUES (1, 'x')")
    orders.run("ALTER TABLE public.orders ALTER COLUMN id TYPE bigint", "INSERT INTO public.orders VALUES (2, 'x')")
    orders.run("DROP TABLE public.other")
    reader = orders.reader(joined)
    with closing(reader.read(orders.position)) as batch:
        assert [type(problem) for problem in batch.problems] == [TableReplaced]
        added, retyped = batch.transactions[0], batch.transactions[-1]
        assert list(added.changes()) == [Inserted(table, (1, "x"))]
        with pytest.raises(SchemaChanged, match="another type"):
            list(retyped.changes())
