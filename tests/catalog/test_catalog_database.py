"""Opening, upgrading and losing the database behind a catalog."""

from __future__ import annotations

import hashlib
import sqlite3
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa
from alembic.operations import Operations
from tests.catalog.conftest import TickingClock
from tests.catalog.worlds import LEAVES, ORDERS, VIEW, everything, populate
from tests.postgres_server import PostgresServer

from headwater.algebra.constraints import Unique
from headwater.catalog import Catalog, database, migrations, open_catalog, schema
from headwater.catalog.database import Database
from headwater.catalog.migrations import MIGRATIONS, upgrade
from headwater.errors import (
    CatalogUnavailable,
    InternalError,
    InvalidInput,
    LakeTooNew,
    NotALake,
    StorageFull,
)


def test_the_newest_version_is_what_the_migrations_lead_to() -> None:
    assert len(MIGRATIONS) + 1 == schema.SCHEMA_VERSION


def test_a_catalog_is_made_once_and_found_again(url: str, clock: TickingClock) -> None:
    with pytest.raises(NotALake, match="no Headwater catalog"):
        open_catalog(url, clock=clock, create=False)
    with open_catalog(url, clock=clock, create=True) as catalog:
        lake = catalog.lake()
        assert lake.schema_version == schema.SCHEMA_VERSION
    for create in (True, False):
        with open_catalog(url, clock=clock, create=create) as catalog:
            assert catalog.lake() == lake


def test_two_that_both_found_no_catalog_make_one(
    url: str, clock: TickingClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    both_looked = threading.Barrier(2)
    create = migrations._create

    def create_after_both_looked(base: Database) -> None:
        both_looked.wait(30)
        create(base)

    def open_and_tell() -> str:
        with open_catalog(url, clock=clock, create=True) as catalog:
            return catalog.lake().lake_id

    monkeypatch.setattr(migrations, "_create", create_after_both_looked)
    with ThreadPoolExecutor(2) as pool:
        one, two = [pool.submit(open_and_tell) for _ in range(2)]
        assert one.result() == two.result()


def test_making_a_sqlite_catalog_waits_for_another_program_and_then_uses_the_write_ahead_log(
    tmp_path: Path, clock: TickingClock
) -> None:
    path = tmp_path / "c.db"
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("CREATE TABLE notes (x)")
        other.execute("BEGIN IMMEDIATE")
        timer = threading.Timer(0.3, other.execute, ["COMMIT"])
        timer.start()
        with open_catalog(f"sqlite:///{path}", clock=clock, create=True) as catalog:
            timer.join()
            with catalog._database.read() as connection:
                assert connection.exec_driver_sql("PRAGMA journal_mode").scalar_one() == "wal"


def test_a_missing_sqlite_file_is_not_made_by_looking(tmp_path: Path, clock: TickingClock) -> None:
    with pytest.raises(NotALake):
        open_catalog(f"sqlite:///{tmp_path / 'no.db'}", clock=clock, create=False)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_database_stays_as_it_is(tmp_path: Path, clock: TickingClock) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database, " * 100)
    with pytest.raises(NotALake, match="not a SQLite database"):
        open_catalog(f"sqlite:///{path}", clock=clock, create=True)
    assert path.read_text() == "not a database, " * 100


def set_version(catalog: Catalog, version: int) -> None:
    with catalog._database.write() as connection:
        connection.execute(sa.update(schema.lake).values(schema_version=version))


def test_a_newer_catalog_is_left_alone(
    catalog: Catalog, opened: Callable[[], Catalog], url: str, clock: TickingClock
) -> None:
    with catalog.lease("v") as lease:
        populate(catalog, lease)
        set_version(catalog, 99)
        before = everything(catalog)
        path = catalog._database.path
        if path is not None:
            with catalog._database.read() as connection:
                connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
        digest = path and hashlib.sha256(path.read_bytes()).hexdigest()
        for create in (True, False):
            with pytest.raises(LakeTooNew, match=f"version 99; .* up to {schema.SCHEMA_VERSION}"):
                open_catalog(url, clock=clock, create=create)
        with pytest.raises(LakeTooNew):  # upgraded while we were at work
            catalog.set_table_problem(lease, "orders", {})
        assert everything(catalog) == before
        assert digest == (path and hashlib.sha256(path.read_bytes()).hexdigest())
        with catalog._database.schema_change() as connection:
            connection.execute(sa.update(schema.lake).values(schema_version=schema.SCHEMA_VERSION))


def add_owner(op: Operations) -> None:
    op.add_column("hw_views", sa.Column("owner", sa.Text(), nullable=True))
    op.execute("UPDATE hw_views SET owner = 'nobody'")


def rebuild_views(op: Operations) -> None:
    """What SQLite can do only by copying a table that others refer to."""
    with op.batch_alter_table("hw_views") as batch:
        batch.alter_column("owner", nullable=False)
        batch.drop_column("last_reason")


def break_half_way(op: Operations) -> None:
    op.create_table("hw_half", sa.Column("x", sa.Integer, primary_key=True))
    op.execute("UPDATE hw_views SET csn = 0")
    op.execute("DELETE FROM hw_query_lists")
    raise ZeroDivisionError


def columns(base: Database, table: str) -> set[str]:
    with base.read() as connection:
        inspector = sa.inspect(connection)
        return {column["name"] for column in inspector.get_columns(table)} if inspector.has_table(table) else set()


def test_an_older_catalog_is_upgraded_step_by_step(catalog: Catalog) -> None:
    base = catalog._database
    with catalog.lease("v") as lease:
        populate(catalog, lease)
        assert upgrade(base, [*MIGRATIONS, add_owner]) == schema.SCHEMA_VERSION + 1
        assert upgrade(base, [*MIGRATIONS, add_owner]) == schema.SCHEMA_VERSION + 1
        assert "owner" in columns(base, "hw_views")
        assert upgrade(base, [*MIGRATIONS, add_owner, rebuild_views]) == schema.SCHEMA_VERSION + 2
        assert columns(base, "hw_views") == {*(column.name for column in schema.views.c), "owner"} - {"last_reason"}
        with base.read() as connection:
            assert connection.execute(sa.text("SELECT name, owner FROM hw_views")).all() == [("totals", "nobody")]
        assert catalog.leaves(VIEW.view_id) == list(LEAVES)
        assert len(catalog.query_lists(VIEW.view_id)) == 3
        with pytest.raises(LakeTooNew):
            upgrade(base, [*MIGRATIONS, add_owner])
        with pytest.raises(LakeTooNew):
            catalog.set_table_problem(lease, "orders", {})


def test_a_failing_migration_changes_nothing(catalog: Catalog) -> None:
    base = catalog._database
    with catalog.lease("v") as lease:
        populate(catalog, lease)
    before = everything(catalog, leases=True)
    with pytest.raises(ZeroDivisionError):
        upgrade(base, [*MIGRATIONS, break_half_way])
    assert everything(catalog, leases=True) == before
    assert columns(base, "hw_half") == set()
    with pytest.raises(ZeroDivisionError):
        upgrade(base, [*MIGRATIONS, add_owner, break_half_way])
    assert catalog.lake().schema_version == schema.SCHEMA_VERSION + 1  # the first of the two is done and stays
    assert "owner" in columns(base, "hw_views")
    assert catalog.view("totals") == VIEW


def test_a_migration_that_leaves_rows_dangling_is_undone(catalog: Catalog) -> None:
    base = catalog._database
    with catalog.lease("v") as lease:
        populate(catalog, lease)
    before = everything(catalog)
    with pytest.raises(InternalError):
        upgrade(base, [*MIGRATIONS, lambda op: op.execute("DELETE FROM hw_leaves")])
    assert everything(catalog) == before
    with pytest.raises(InternalError), base.write() as connection:  # foreign keys are enforced again
        connection.execute(sa.delete(schema.leaves))


def test_foreign_keys_hold_in_a_catalog_opened_again(catalog: Catalog, opened: Callable[[], Catalog]) -> None:
    with catalog.lease("v") as lease:
        populate(catalog, lease)
    with pytest.raises(InternalError), opened()._database.write() as connection:
        connection.execute(sa.delete(schema.leaves))


def test_a_writer_waits_for_the_other_but_not_for_ever_and_readers_not_at_all(
    url: str, clock: TickingClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_catalog(url, clock=clock, create=True) as one:
        with one.lease("v") as lease:
            populate(one, lease)
        monkeypatch.setattr(database, "LOCK_WAIT_SECONDS", 0.5)
        with open_catalog(url, clock=clock, create=False) as two:
            with one._database.write() as connection:
                connection.execute(sa.update(schema.base_tables).values(problem={"code": "X"}))
                assert two.base_table("orders").problem is None
                with pytest.raises(CatalogUnavailable, match="lock"):
                    two.set_rows("orders", 4, 1)
            with one._database.write():
                thread = threading.Thread(target=two.set_rows, args=("orders", 4, 8))
                thread.start()
                thread.join(0.1)
                assert thread.is_alive()
            thread.join()
            assert one.units("orders")[0].rows == 8


def test_a_read_sees_one_moment(catalog: Catalog, opened: Callable[[], Catalog]) -> None:
    other = opened()
    with catalog.lease("v") as lease:
        populate(catalog, lease)
        newest = sa.select(sa.func.max(schema.units_of_work.c.csn))
        with other._database.read() as connection:
            assert connection.execute(newest).scalar_one() == 4
            with catalog._database.write() as writer:
                writer.execute(sa.delete(schema.units_of_work))
            assert connection.execute(newest).scalar_one() == 4
        assert other.newest_csn() == 0


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_lost_connections(catalog: Catalog, postgres: PostgresServer) -> None:
    def cut_off() -> None:
        with psycopg.connect(postgres.url(), autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'headwater'"
            )

    def delete_and_be_cut_off() -> None:
        with catalog._database.write() as connection:
            connection.execute(sa.delete(schema.base_tables))
            cut_off()

    with catalog.lease("v") as lease:
        cut_off()
        catalog.add_base_table(lease, ORDERS)  # idle connections are replaced unseen
        with pytest.raises(CatalogUnavailable):
            delete_and_be_cut_off()
        assert catalog.base_tables() == [ORDERS]


def test_a_full_disk_is_said_so_and_leaves_nothing(tmp_path: Path, clock: TickingClock) -> None:
    url = f"sqlite:///{tmp_path / 'c.db'}"
    with open_catalog(url, clock=clock, create=True) as catalog, catalog.lease("v") as lease:
        populate(catalog, lease)
        before = everything(catalog)
        with catalog._database.read() as connection:  # the one connection in the pool
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
            connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(StorageFull, match="No space is left"):
            catalog.number_units(lease, [], problems={"orders": {"code": "X"}, "lineitem": {"text": "x" * 10**6}})
        assert everything(catalog) == before
        with catalog._database.read() as connection:
            connection.exec_driver_sql("PRAGMA max_page_count = 100000")
        catalog.set_table_problem(lease, "orders", {"text": "x" * 10**6})


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://joe:s3cret@127.0.0.1:1/nowhere",
        "postgresql://joe@127.0.0.1:1/nowhere?password=s3cret",
        "mysql://joe:s3cret@127.0.0.1/x",
        "postgresql://joe:s3cret@127.0.0.1:port/x",
        "joe:s3cret",
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:////nonexistent/s3/c.db",
    ],
)
def test_passwords_stay_secret(url: str, clock: TickingClock) -> None:
    with pytest.raises((CatalogUnavailable, InvalidInput)) as caught:
        open_catalog(url, clock=clock, create=True)
    assert "s3cret" not in "".join(traceback.format_exception(caught.value))
    assert caught.value.remedy


def shape(base: Database) -> dict[str, object]:
    """Columns, keys and indexes of every table, as the database tells them."""
    with base.read() as connection:
        inspector = sa.inspect(connection)
        return {
            table: (
                sorted(
                    (c["name"], str(c["type"]), c["nullable"], bool(c.get("autoincrement")))
                    for c in inspector.get_columns(table)
                ),
                inspector.get_pk_constraint(table)["constrained_columns"],
                sorted(
                    (key["constrained_columns"], key["referred_table"]) for key in inspector.get_foreign_keys(table)
                ),
                sorted((index["name"] or "", index["column_names"]) for index in inspector.get_indexes(table)),
                sorted(check["name"] or "" for check in inspector.get_check_constraints(table)),
            )
            for table in inspector.get_table_names()
        }


def forget_sources(connection: sa.Connection) -> None:
    """As it was before version 5: no sources but Delta."""
    for table in ("rounds", "mirror_logs", "mirror_states", "mirrors", "sources"):
        connection.execute(sa.text(f"DROP TABLE hw_{table}"))
    for column in ("source_id", "transaction_id"):
        connection.execute(sa.text(f"ALTER TABLE hw_units_of_work DROP COLUMN {column}"))


def test_a_catalog_of_the_first_version_is_upgraded_to_the_schema_of_a_new_one(catalog: Catalog) -> None:
    """Refreshes did not tell their alternatives then, and there were no releases."""
    base = catalog._database
    with catalog.lease("v") as lease:
        populate(catalog, lease)
    new = shape(base)
    with base.schema_change() as connection:
        forget_sources(connection)
        for table in (
            "cost_samples",
            "constraints",
            "collections",
            "retention",
            "reader_leases",
            "release_tags",
            "release_views",
            "releases",
        ):
            connection.execute(sa.text(f"DROP TABLE hw_{table}"))
        connection.execute(sa.text("ALTER TABLE hw_refreshes DROP COLUMN alternatives"))
        connection.execute(sa.update(schema.lake).values(schema_version=1))
    assert upgrade(base) == schema.SCHEMA_VERSION
    assert shape(base) == new
    assert catalog.view("totals") == VIEW
    assert catalog.releases() == catalog.readers() == []
    assert all(record.alternatives is None for record in catalog.refreshes())
    assert "alternatives" in columns(base, "hw_refreshes")


def test_a_catalog_of_the_third_version_is_upgraded(catalog: Catalog) -> None:
    """It knew of no constraints; the table made by the migration is the one that a new catalog has."""
    base = catalog._database
    with catalog.lease("v") as lease:
        populate(catalog, lease)
        with base.read() as connection:
            new = _shape(connection, "hw_constraints")
        with base.write() as connection:
            forget_sources(connection)
            for table in ("hw_cost_samples", "hw_constraints"):
                connection.execute(sa.text(f"DROP TABLE {table}"))
            connection.execute(sa.update(schema.lake).values(schema_version=3))
        assert upgrade(base) == schema.SCHEMA_VERSION
        with base.read() as connection:
            assert _shape(connection, "hw_constraints") == new
        key = catalog.add_constraint(lease, "order_keys", Unique("orders", ("o_orderkey",)))
        assert catalog.constraints() == [key]


def _shape(connection: sa.Connection, table: str) -> tuple[object, ...]:
    found = sa.inspect(connection)
    columns = [(each["name"], str(each["type"]), each["nullable"]) for each in found.get_columns(table)]
    checks = sorted(str(each["name"]) for each in found.get_check_constraints(table))
    referred = sorted((each["constrained_columns"], each["referred_table"]) for each in found.get_foreign_keys(table))
    return columns, checks, referred, found.get_pk_constraint(table)["constrained_columns"]
