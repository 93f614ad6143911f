"""Mirrored tables: every csn is exactly one transaction of the source, whatever happens in between."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from headwater.algebra.time import Csn
from headwater.capture import mirroring
from headwater.capture.attach import detach
from headwater.capture.driver import Captured
from headwater.catalog.database import system_clock
from headwater.durable import DurablePoint as Point
from headwater.errors import (
    DatabaseUnavailable,
    InvalidInput,
    NameTaken,
    PublicationIncomplete,
    PublicationMissing,
    ReplicaIdentityNarrow,
)
from headwater.sources import opening
from headwater.sources.postgres.connection import connect
from headwater.sources.postgres.slot import drop_slot, slot_state
from tests.postgres_server import PostgresServer, committed
from tests.postgres_server import _run as run_server_program
from tests.sources.postgres.conftest import Source
from tests.sources.postgres.mirror_world import World, contents
from tests.support.proxy import proxied


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


@pytest.fixture
def shop(source: Source, world: World) -> Iterator[str]:
    """Two tables, one of them without a key and with the same row twice; the address of their database."""
    source.run(
        "CREATE TABLE a (k int PRIMARY KEY, v text)",
        "CREATE TABLE b (k int, w numeric(8,2))",
        "INSERT INTO a SELECT i, 'v' || i FROM generate_series(1, 5) AS i",
        "INSERT INTO b VALUES (1, 1.5), (1, 1.5), (2, NULL)",
    )
    yield f"postgresql://{source.address.user}@{source.address.host}:{source.address.port}/{source.address.database}"
    for each in world.context.catalog.sources():
        drop_slot(connect(source.address), each.settings["slot"], source.name)


def slot_of(world: World) -> str:
    return str(world.context.catalog.sources()[0].settings["slot"])


def test_the_first_copy_and_one_csn_for_each_transaction(world: World, shop: str, source: Source) -> None:
    world.track("a", shop, table="public.a")
    world.track("b", shop, table="public.b")
    assert world.rows("a") == contents(source.owner, "a")
    assert world.rows("b") == contents(source.owner, "b")
    assert world.newest() == 0
    expected = []
    for statements in (
        ["UPDATE a SET v = 'x' WHERE k = 1", "DELETE FROM b WHERE w IS NULL"],
        ["UPDATE a SET k = 100 WHERE k = 2"],
        ["INSERT INTO b VALUES (1, 1.5)", "INSERT INTO b VALUES (9, 9)", "DELETE FROM b WHERE k = 9"],
    ):
        source.run(*statements)
        expected.append((contents(source.owner, "a"), contents(source.owner, "b")))
    assert world.capture().csn == 3
    for csn, (a, b) in enumerate(expected, 1):
        assert (world.rows("a", csn), world.rows("b", csn)) == (a, b), csn
    units = world.context.catalog.units()
    assert [(unit.csn, unit.table, unit.rows) for unit in units] == [(1, "a", 2), (1, "b", 1), (2, "a", 2), (3, "b", 3)]
    assert {unit.source for unit in units} == {world.context.catalog.sources()[0].source_id}
    assert all(unit.transaction and unit.transaction.isdigit() for unit in units)
    assert [unit.version for unit in units] == sorted(unit.version for unit in units)
    assert world.store.appends == 2  # one for each table, not one for each transaction
    assert world.capture().csn == 3


def test_truncate_takes_away_what_the_transaction_itself_put_there(world: World, shop: str, source: Source) -> None:
    world.track("a", shop, table="public.a")
    world.track("b", shop, table="public.b")
    source.run("INSERT INTO a VALUES (50, 'before')")
    source.run("INSERT INTO a VALUES (51, 'gone')", "TRUNCATE a, b", "INSERT INTO a VALUES (1, 'after')")
    source.run("INSERT INTO b VALUES (7, 7)")
    world.capture()
    assert world.rows("a", 1)[(50, "before")] == 1
    assert (world.rows("a", 2), world.rows("b", 2)) == (Counter({(1, "after"): 1}), Counter())
    assert world.rows("b", 3) == contents(source.owner, "b")
    truncated = {unit.table: unit.rows for unit in world.context.catalog.units() if unit.csn == 2}
    assert truncated == {"a": 1 + 7 + 1, "b": 2}  # as log rows: b's two equal rows are one of count -2


def test_long_values_that_an_update_does_not_touch_are_kept(world: World, shop: str, source: Source) -> None:
    source.run(
        "CREATE TABLE long (k int PRIMARY KEY, big text, small int)", "ALTER TABLE long ALTER big SET STORAGE EXTERNAL"
    )
    source.owner.execute("INSERT INTO long VALUES (1, %s, 1)", ("x" * 100_000,))
    world.track("long", shop, table="long")
    source.run("UPDATE long SET small = 2")
    world.capture()
    assert world.rows("long") == Counter({(1, "x" * 100_000, 2): 1})


def test_a_large_transaction_goes_through_in_commits_of_bounded_size(
    world: World, shop: str, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirroring, "ROWS_A_COMMIT", 1000)
    world.track("a", shop, table="a")
    source.run("INSERT INTO a SELECT i, 'v' FROM generate_series(1000, 5999) AS i")
    source.run("UPDATE a SET v = 'w' WHERE k < 1010")
    world.capture()
    assert world.newest() == 2
    assert world.store.largest == 1000
    assert world.rows("a") == contents(source.owner, "a")


def test_random_transactions_are_exact_at_every_csn(world: World, shop: str, source: Source) -> None:
    dice = random.Random(7)
    world.track("a", shop, table="a")
    seen: dict[str, tuple[Counter, Counter]] = {}
    for step in range(90):
        if step == 30:
            world.track("b", shop, table="b")
        k = dice.randrange(8)
        statements = dice.sample(
            [
                f"INSERT INTO a VALUES ({k}, 'n{step}') ON CONFLICT (k) DO UPDATE SET v = excluded.v",
                f"DELETE FROM a WHERE k = {k}",
                f"UPDATE a SET k = {1000 + step} WHERE k = {k}",
                f"INSERT INTO b VALUES ({k}, {step})",
                f"UPDATE b SET w = w + 1 WHERE k <= {k}",
                f"DELETE FROM b WHERE k = {k}",
                "TRUNCATE b",
            ],
            dice.randrange(1, 4),
        )
        xid = committed(source.owner, *statements)
        seen[xid] = (contents(source.owner, "a"), contents(source.owner, "b"))
        if dice.random() < 0.1:
            world.capture()
        if dice.random() < 0.05:
            world.restart()
    world.capture()
    since = world.context.catalog.base_table("b").since_csn
    for unit in world.context.catalog.units():
        assert world.rows("a", unit.csn) == seen[str(unit.transaction)][0]
        if unit.csn > since:
            assert world.rows("b", unit.csn) == seen[str(unit.transaction)][1]
    assert world.newest() > 60


def test_no_transaction_is_torn_when_a_table_is_tracked_under_load(world: World, shop: str, source: Source) -> None:
    """Money moves between two tables; the second is tracked while it does. At every csn the sum is the same."""
    source.run("CREATE TABLE x (k int PRIMARY KEY, n int)", "INSERT INTO x SELECT i, 100 FROM generate_series(1, 9) i")
    source.run("CREATE TABLE y (k int PRIMARY KEY, n int)", "INSERT INTO y SELECT i, 100 FROM generate_series(1, 9) i")
    world.track("x", shop, table="x")
    over = threading.Event()

    def move(seed: int) -> None:
        dice = random.Random(seed)
        with psycopg.connect(shop, autocommit=True) as connection:
            connection.execute("SET synchronous_commit = on")
            while not over.is_set():
                with connection.transaction():
                    amount, k = dice.randrange(9), dice.randrange(1, 10)
                    connection.execute("UPDATE x SET n = n - %s WHERE k = %s", (amount, k))
                    if dice.random() < 0.3:
                        over.wait(dice.random() * 0.02)
                    connection.execute("UPDATE y SET n = n + %s WHERE k = %s", (amount, k))

    movers = [threading.Thread(target=move, args=(seed,)) for seed in range(4)]
    for mover in movers:
        mover.start()
    try:
        world.capture()
        world.track("y", shop, table="y")
        for _ in range(2):
            over.wait(0.1)
            world.capture()
    finally:
        over.set()
        for mover in movers:
            mover.join()
    world.capture()
    since = world.context.catalog.base_table("y").since_csn
    assert world.newest() > since
    for csn in range(since, world.newest() + 1):
        total = sum(n * count for name in ("x", "y") for (_, n), count in world.rows(name, csn).items())
        assert total == 1800, csn
    assert world.rows("y") == contents(source.owner, "y")


class Killed(BaseException):
    pass


@contextmanager
def killed_at(world: World, point: Point) -> Iterator[None]:
    """What is done inside ends at a durable point."""

    def kill(reached: Point) -> None:
        if reached is point:
            raise Killed

    world.reached = kill
    with pytest.raises(Killed):
        yield
    world.reached = lambda _: None


ROUND_POINTS = [Point.ROUND_INTENDED, Point.ROUND_LOGGED, Point.ROUND_SETTLED, Point.ROUND_NUMBERED]


@pytest.mark.parametrize("point", ROUND_POINTS)
def test_a_crash_at_any_point_of_a_round_loses_and_doubles_nothing(
    world: World, shop: str, source: Source, point: Point
) -> None:
    world.track("a", shop, table="a")
    world.track("b", shop, table="b")
    source.run("INSERT INTO a VALUES (70, 'x')", "INSERT INTO b VALUES (70, 1)")
    with killed_at(world, point):
        world.capture()
    source.run("DELETE FROM a WHERE k = 1")
    world.restart()
    assert world.capture().csn == 2
    for name in ("a", "b"):
        assert world.rows(name) == contents(source.owner, name)
    assert world.context.catalog.open_round() is None


@pytest.mark.parametrize("first", [Point.ROUND_INTENDED, Point.ROUND_LOGGED, Point.ROUND_SETTLED])
def test_a_crash_while_giving_up_a_round_loses_and_doubles_nothing(
    world: World, shop: str, source: Source, first: Point
) -> None:
    world.track("a", shop, table="a")
    source.run("INSERT INTO a VALUES (70, 'x')")
    for point in (first, Point.ROUND_GIVEN_UP):
        with killed_at(world, point):
            world.capture()
        world.restart()
    assert world.capture().csn == 1
    assert world.rows("a") == contents(source.owner, "a")
    assert world.context.catalog.open_round() is None


def test_every_durable_point_of_a_round_has_its_crash() -> None:
    assert {point for point in Point if point.name.startswith("ROUND_")} == {*ROUND_POINTS, Point.ROUND_GIVEN_UP}


def test_a_lost_slot_is_told_and_resync_finds_what_changed_in_the_gap(world: World, shop: str, source: Source) -> None:
    world.track("a", shop, table="a")
    world.track("b", shop, table="b")
    source.run("INSERT INTO a VALUES (70, 'x')")
    world.capture()
    before = (world.rows("a", 1), world.rows("b", 1))
    world.context.feeds.close()
    drop_slot(connect(source.address), slot_of(world), source.name)
    source.run("DELETE FROM a WHERE k IN (1, 2)", "UPDATE a SET v = 'gap' WHERE k = 3", "DELETE FROM b WHERE k = 1")
    captured = world.capture()
    assert [(problem.table, problem.code) for problem in captured.problems] == [("a", "SLOT_LOST"), ("b", "SLOT_LOST")]
    source.run("INSERT INTO b VALUES (1, 1.5)")
    world.resync("b")
    assert world.newest() == 2  # one unit of work for all of the database
    assert {unit.table: unit.operation for unit in world.context.catalog.units() if unit.csn == 2} == {
        "a": "RESYNC",
        "b": "RESYNC",
    }
    for name in ("a", "b"):
        assert world.rows(name) == contents(source.owner, name)
    assert (world.rows("a", 1), world.rows("b", 1)) == before
    source.run("INSERT INTO a VALUES (99, 'on')")
    assert world.capture() == Captured(Csn(3), ())
    assert world.rows("a") == contents(source.owner, "a")


def test_one_table_that_was_left_behind_is_resynced_alone_and_nothing_is_torn(
    world: World, shop: str, source: Source
) -> None:
    world.track("a", shop, table="a")
    world.track("b", shop, table="b")
    source.run("ALTER TABLE b REPLICA IDENTITY DEFAULT")
    source.run("DELETE FROM a WHERE k = 1")
    captured = world.capture()
    assert [(problem.table, problem.code) for problem in captured.problems] == [("b", "REPLICA_IDENTITY_NARROW")]
    assert world.rows("a") == contents(source.owner, "a")  # the others go on
    source.run("ALTER TABLE b REPLICA IDENTITY FULL", "UPDATE b SET k = 5 WHERE k = 1")
    world.resync("b")
    assert world.capture().problems == ()
    source.run("INSERT INTO b VALUES (6, 6)", "INSERT INTO a VALUES (6, 'six')")
    world.capture()
    for name in ("a", "b"):
        assert world.rows(name) == contents(source.owner, name)


def test_a_value_that_can_not_be_held_leaves_only_its_table_behind(world: World, shop: str, source: Source) -> None:
    source.run("CREATE TABLE d (k int PRIMARY KEY, at date)")
    world.track("a", shop, table="a")
    world.track("d", shop, table="d")
    source.run("INSERT INTO a VALUES (60, 'x')", "INSERT INTO d VALUES (1, 'infinity')")
    source.run("INSERT INTO a VALUES (61, 'y')")
    captured = world.capture()
    assert [(problem.table, problem.code) for problem in captured.problems] == [("d", "VALUE_REFUSED")]
    assert world.rows("a") == contents(source.owner, "a")
    source.run("UPDATE d SET at = '2024-01-01'")
    world.resync("d")
    assert world.rows("d") == contents(source.owner, "d")


def test_what_the_owner_must_do_is_asked_for(world: World, shop: str, source: Source) -> None:
    with pytest.raises(ReplicaIdentityNarrow, match="REPLICA IDENTITY FULL"):
        world.track("a", shop, table="a", prepare=False)
    source.run("ALTER TABLE a REPLICA IDENTITY FULL")
    with pytest.raises(PublicationMissing, match="CREATE PUBLICATION"):
        world.track("a", shop, table="a", prepare=False)
    source.run("CREATE PUBLICATION headwater FOR TABLE b")
    with pytest.raises(PublicationIncomplete, match="ALTER PUBLICATION"):
        world.track("a", shop, table="a", prepare=False)
    assert world.context.catalog.sources() == []
    source.run("ALTER PUBLICATION headwater ADD TABLE a")
    world.track("a", shop, table="a", prepare=False)
    with pytest.raises(NameTaken, match="'a' already"):
        world.track("again", shop, table="a")
    with pytest.raises(InvalidInput, match="needs table"):
        world.track("b", shop)


def test_a_table_that_can_not_be_copied_leaves_nothing_behind(world: World, shop: str, source: Source) -> None:
    source.run("CREATE TABLE d (k int PRIMARY KEY, at date)", "INSERT INTO d VALUES (1, '-infinity')")
    with pytest.raises(Exception, match="infinite"):
        world.track("d", shop, table="d")
    assert world.context.catalog.base_tables() == world.context.catalog.sources() == []
    assert world.store.logs == world.store.versions == {}
    found = source.owner.execute("SELECT count(*) FROM pg_replication_slots WHERE database = current_database()")
    assert found.fetchone() == (0,)


def test_untracking_the_last_table_drops_the_slot(world: World, shop: str, source: Source) -> None:
    world.track("a", shop, table="a")
    world.track("b", shop, table="b")
    slot = slot_of(world)
    detach(world.context, "a")
    assert slot_state(connect(source.address), slot) is not None
    detach(world.context, "b")
    assert slot_state(connect(source.address), slot) is None
    assert world.store.logs == {}


def test_the_slot_follows_what_is_durable(world: World, shop: str, source: Source) -> None:
    world.track("a", shop, table="a")
    source.run("INSERT INTO a VALUES (80, 'x')")
    world.capture()
    position = world.context.catalog.sources()[0].position
    state = slot_state(connect(source.address), slot_of(world))
    assert position is not None
    assert state is not None
    assert state.confirmed == position["lsn"]


def test_a_server_that_is_away_is_told_and_nothing_is_lost(world: World, shop: str, source: Source) -> None:
    world.track("a", shop, table="a")
    source.run("INSERT INTO a VALUES (81, 'x')")

    class Away:
        def read(self, position: object) -> object:
            raise DatabaseUnavailable("The server is away.", database="shop")

        def close(self) -> None: ...

    feeds = world.context.feeds
    world.context.feeds = opening.Feeds(lambda source, mirrors: Away())  # type: ignore[arg-type, return-value]
    captured = world.capture()
    assert captured.csn == 0
    assert list(captured.unreachable) == ["a"]
    assert world.context.catalog.base_table("a").problem is None
    world.context.feeds = feeds
    assert world.capture().csn == 1
    assert world.rows("a") == contents(source.owner, "a")


def test_transactions_beyond_the_horizon_wait(world: World, shop: str, source: Source) -> None:
    world.track("a", shop, table="a")
    source.run("INSERT INTO a VALUES (82, 'x')")
    behind = source.owner.execute("SELECT (extract(epoch FROM now()) * 1e6)::bigint - 60000000").fetchone()
    assert behind is not None
    world.clock = lambda: behind[0]
    assert world.capture().csn == 0
    world.clock = system_clock
    assert world.capture().csn == 1
    assert world.rows("a") == contents(source.owner, "a")


def test_a_network_that_is_cut_at_any_byte_loses_and_doubles_nothing(world: World, shop: str, source: Source) -> None:
    dice = random.Random(5)
    with proxied(source.address.host, source.address.port) as proxy:
        through = shop.replace(f":{source.address.port}/", f":{proxy.port}/")
        world.track("a", through, table="a")
        world.track("b", through, table="b")
        for step in range(12):
            source.run(f"INSERT INTO a VALUES ({2000 + step}, 'x')", f"INSERT INTO b VALUES ({step}, 1)")
            source.run(f"DELETE FROM a WHERE k = {2000 + step - 2}")
            proxy.cut_after(dice.randrange(1, 1200))
            captured = world.capture()
            assert not captured.problems
        proxy.cut_after(None)
        world.capture()
        assert proxy.cuts > 5, proxy.cuts
        for name in ("a", "b"):
            assert world.rows(name) == contents(source.owner, name)
        assert len({unit.transaction for unit in world.context.catalog.units()}) == world.newest() == 24 - 2


def test_a_server_that_is_killed_and_started_again_loses_and_doubles_nothing(
    world: World, shop: str, source: Source, postgres: PostgresServer
) -> None:
    world.track("a", shop, table="a")
    data = str(postgres.directory / "data")
    restart = ["-D", data, "-l", str(postgres.log), "-m", "immediate", "-w", "-t", "60", "restart"]
    for step in range(2):
        writer = psycopg.connect(shop, autocommit=True)
        writer.execute("SET synchronous_commit = on")
        writer.execute("INSERT INTO a VALUES (%s, 'x')", (3000 + step,))
        world.capture()
        writer.execute("INSERT INTO a VALUES (%s, 'y')", (4000 + step,))
        writer.execute("BEGIN")
        writer.execute("INSERT INTO a VALUES (%s, 'never')", (5000 + step,))
        run_server_program(postgres.binaries / "pg_ctl", *restart, cwd=postgres.directory)
        writer.close()
        world.capture()
    with psycopg.connect(shop, autocommit=True) as reader:
        assert world.rows("a") == contents(reader, "a")
    assert world.newest() == 4


def test_in_mode_query_only_the_changes_are_kept(world: World, shop: str, source: Source) -> None:
    world.track("a", shop, table="a", mode="query")
    source.run("INSERT INTO a VALUES (90, 'x')", "UPDATE a SET v = 'y' WHERE k = 1")
    source.run("DELETE FROM a WHERE k = 90")
    assert world.capture().csn == 2
    mirror = world.context.catalog.mirror("a")
    assert mirror is not None
    logged = [(csn, count, row) for csn, count, row in world.store.logs[mirror.log_location]]
    assert logged == [(1, 1, (90, "x")), (1, -1, (1, "v1")), (1, 1, (1, "y")), (2, -1, (90, "x"))]
    source.run("TRUNCATE a")
    source.run("INSERT INTO a VALUES (91, 'z')")
    captured = world.capture()
    assert [problem.code for problem in captured.problems] == ["HISTORY_LOST"]
    world.resync("a")
    before = world.newest()
    source.run("INSERT INTO a VALUES (92, 'z')")
    assert world.capture() == Captured(Csn(before + 1), ())


@pytest.mark.parametrize("point", [Point.ROUND_INTENDED, Point.ROUND_LOGGED, Point.ROUND_SETTLED])
def test_a_resync_that_was_cut_short_is_run_again(world: World, shop: str, source: Source, point: Point) -> None:
    world.track("a", shop, table="a")
    world.track("b", shop, table="b")
    world.context.feeds.close()
    drop_slot(connect(source.address), slot_of(world), source.name)
    source.run("DELETE FROM a WHERE k = 1", "INSERT INTO b VALUES (8, 8)")
    with killed_at(world, point):
        world.resync("a")
    world.restart()
    source.run("INSERT INTO a VALUES (9, 'between')")
    assert {problem.code for problem in world.capture().problems} == {"SLOT_LOST"}  # the new slot is nobody's yet
    world.resync("a")
    source.run("INSERT INTO a VALUES (10, 'after')")
    assert world.capture().problems == ()
    assert world.newest() == 2
    for name in ("a", "b"):
        assert world.rows(name) == contents(source.owner, name)


def test_versions_go_on_growing_on_a_server_whose_log_begins_again(world: World, shop: str, source: Source) -> None:
    """As after a restore from a backup: its places in the log lie before those that were captured."""
    world.track("a", shop, table="a")
    source.run("INSERT INTO a VALUES (71, 'x')")
    world.capture()
    ahead = 1 << 40
    catalog = world.context.catalog
    with catalog.lease("capture") as lease:
        catalog.number_units(lease, [], captured={"a": (catalog.base_table("a").captured_version + ahead, 0)})
        catalog.move_sources(lease, {catalog.sources()[0].source_id: {"lsn": ahead * 2}}, {})
    assert [problem.code for problem in world.capture().problems] == ["SLOT_LOST"]
    world.resync("a")
    source.run("INSERT INTO a VALUES (72, 'y')")
    world.capture()
    versions = [unit.version for unit in catalog.units()]
    assert versions == sorted(versions)
    assert versions[1] > ahead
    assert world.rows("a") == contents(source.owner, "a")
