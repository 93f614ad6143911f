"""Bringing a catalog to the schema that this Headwater knows.

A new catalog is made at the newest version at once. An older one is upgraded one version at a time, each in a
transaction of its own that also counts the version up: a migration that fails leaves the catalog as it was
before that migration, readable by the Headwater of that version. Both databases roll back DDL.

``MIGRATIONS[k]`` leads from version k + 1 to k + 2. A migration is written with alembic's operations (on SQLite,
``op.batch_alter_table`` for what ALTER TABLE can't do there) and never edited once released.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import sqlalchemy as sa
from alembic.migration import MigrationContext
from alembic.operations import Operations

from headwater.catalog import schema
from headwater.catalog.database import LOCK_WAIT_SECONDS, Database
from headwater.errors import CatalogUnavailable, NotALake

Migration: TypeAlias = Callable[[Operations], None]


def _refreshes_tell_their_alternatives(op: Operations) -> None:
    op.add_column("hw_refreshes", sa.Column("alternatives", schema.json_type(), nullable=True))


def _releases_and_their_readers(op: Operations) -> None:
    identity = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

    def column(name: str, kind: Any, *, null: bool = False) -> sa.Column[Any]:
        return sa.Column(name, kind, nullable=null)

    op.create_table(
        "hw_releases",
        sa.Column("csn", sa.BigInteger, primary_key=True, autoincrement=False),
        column("published_at", sa.BigInteger),
    )
    op.create_table(
        "hw_release_views",
        sa.Column("csn", sa.BigInteger, sa.ForeignKey("hw_releases.csn"), primary_key=True, autoincrement=False),
        sa.Column("view_id", sa.Text, sa.ForeignKey("hw_views.view_id"), primary_key=True),
        column("location", sa.Text),
        column("version", sa.BigInteger),
        column("delta_location", sa.Text),
        column("kept_from", sa.BigInteger),
    )
    op.create_index("hw_release_views_by_view", "hw_release_views", ["view_id", "csn"])
    op.create_table(
        "hw_release_tags",
        sa.Column("tag", sa.Text, primary_key=True),
        sa.Column("csn", sa.BigInteger, sa.ForeignKey("hw_releases.csn"), nullable=False),
        column("tagged_at", sa.BigInteger),
    )
    op.create_table(
        "hw_reader_leases",
        sa.Column("snapshot_id", sa.Text, primary_key=True),
        column("csn", sa.BigInteger),
        column("holder", sa.Text),
        column("opened_at", sa.BigInteger),
        column("heartbeat_at", sa.BigInteger),
        column("expires_at", sa.BigInteger),
    )
    op.create_table(
        "hw_retention",
        sa.Column("lake_id", sa.Text, sa.ForeignKey("hw_lake.lake_id"), primary_key=True),
        column("count", sa.Integer),
        column("age", sa.BigInteger),
        column("tags", schema.json_type(), null=True),
        column("kept_from", sa.BigInteger),
        column("pinned", schema.json_type()),
    )
    op.create_table(
        "hw_collections",
        sa.Column("collection_id", identity, primary_key=True, autoincrement=True),
        column("state", sa.Text),
        column("plan", schema.json_type()),
        column("outcome", schema.json_type(), null=True),
        column("started_at", sa.BigInteger),
        column("finished_at", sa.BigInteger, null=True),
        sa.CheckConstraint("state IN ('intended', 'done')", name="hw_collections_state"),
        sqlite_autoincrement=True,
    )


def _constraints_are_declared(op: Operations) -> None:
    op.create_table(
        "hw_constraints",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("table_name", sa.Text, sa.ForeignKey("hw_base_tables.name"), nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("columns", schema.json_type(), nullable=False),
        sa.Column("referred_table", sa.Text, sa.ForeignKey("hw_base_tables.name"), nullable=True),
        sa.Column("referred_columns", schema.json_type(), nullable=True),
        sa.Column("held_from", sa.BigInteger, nullable=True),
        sa.Column("held_to", sa.BigInteger, nullable=True),
        sa.Column("broken", schema.json_type(), nullable=True),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.CheckConstraint("kind IN ('primary key', 'unique', 'foreign key')", name="hw_constraints_kind"),
        sa.CheckConstraint("(held_from IS NULL) = (held_to IS NULL)", name="hw_constraints_held"),
    )


def _steps_are_measured(op: Operations) -> None:
    identity = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "hw_cost_samples",
        sa.Column("sample_id", identity, primary_key=True, autoincrement=True),
        sa.Column("view_id", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("part", sa.Integer, nullable=False),
        sa.Column("rows", sa.BigInteger, nullable=False),
        sa.Column("seconds", sa.Double, nullable=False),
        sa.Column("cold", sa.Boolean, nullable=False),
        sa.Column("measured_at", sa.BigInteger, nullable=False),
        sa.Column("step_id", sa.BigInteger, nullable=True),
        sa.UniqueConstraint("step_id", name="hw_cost_samples_once"),
        sa.CheckConstraint("kind IN ('capture', 'propagate', 'apply', 'recompute')", name="hw_cost_samples_kind"),
        sqlite_autoincrement=True,
    )
    op.create_index("hw_cost_samples_by_part", "hw_cost_samples", ["view_id", "kind", "part", "sample_id"])


def _sources_and_their_mirrors(op: Operations) -> None:
    identity = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.add_column("hw_units_of_work", sa.Column("source_id", sa.Text, nullable=True))
    op.add_column("hw_units_of_work", sa.Column("transaction_id", sa.Text, nullable=True))
    op.create_table(
        "hw_sources",
        sa.Column("source_id", sa.Text, primary_key=True),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("address", sa.Text, nullable=False),
        sa.Column("settings", schema.json_type(), nullable=False),
        sa.Column("position", schema.json_type(), nullable=True),
        sa.Column("waiting", schema.json_type(), nullable=True),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.CheckConstraint("kind IN ('postgresql', 'messages')", name="hw_sources_kind"),
    )
    op.create_table(
        "hw_mirrors",
        sa.Column("name", sa.Text, sa.ForeignKey("hw_base_tables.name"), primary_key=True),
        sa.Column("mirror_id", sa.Text, nullable=False, unique=True),
        sa.Column("source_id", sa.Text, sa.ForeignKey("hw_sources.source_id"), nullable=False),
        sa.Column("mode", sa.Text, nullable=False),
        sa.Column("log_location", sa.Text, nullable=False),
        sa.Column("described", schema.json_type(), nullable=False),
        sa.Column("copied", sa.Text, nullable=True),
        sa.CheckConstraint("mode IN ('mirror', 'query')", name="hw_mirrors_mode"),
    )
    op.create_table(
        "hw_mirror_states",
        sa.Column("mirror_id", sa.Text, sa.ForeignKey("hw_mirrors.mirror_id"), primary_key=True),
        sa.Column("csn", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("version", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "hw_rounds",
        sa.Column("round_id", identity, primary_key=True, autoincrement=True),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("intent", schema.json_type(), nullable=True),
        sa.Column("started_at", sa.BigInteger, nullable=False),
        sa.Column("finished_at", sa.BigInteger, nullable=True),
        sa.CheckConstraint("state IN ('intended', 'done', 'abandoned')", name="hw_rounds_state"),
        sqlite_autoincrement=True,
    )


def _logs_are_pruned(op: Operations) -> None:
    op.create_table(
        "hw_mirror_logs",
        sa.Column("mirror_id", sa.Text, sa.ForeignKey("hw_mirrors.mirror_id"), primary_key=True),
        sa.Column("log_from", sa.BigInteger, nullable=False),
        sa.Column("said_at", sa.BigInteger, nullable=True),
    )


def _steps_of_several_parts_tell_of_each(op: Operations) -> None:
    op.add_column("hw_cost_samples", sa.Column("by_part", schema.json_type(), nullable=True))


MIGRATIONS: tuple[Migration, ...] = (
    _refreshes_tell_their_alternatives,
    _releases_and_their_readers,
    _constraints_are_declared,
    _steps_are_measured,
    _sources_and_their_mirrors,
    _logs_are_pruned,
    _steps_of_several_parts_tell_of_each,
)


def prepare(database: Database, *, create: bool) -> None:
    """Make sure that the catalog is there and of the newest version; a newer one is not touched."""
    if not create and database.path is not None and not database.path.exists():
        raise _not_a_lake(database)
    with database.read() as connection:
        version = _version(connection)
    if version is None:
        if not create:
            raise _not_a_lake(database)
        _create(database)
    else:
        database.require_readable(version)
        upgrade(database)


def upgrade(database: Database, migrations: Sequence[Migration] = MIGRATIONS) -> int:
    """Run what is missing; the version reached."""
    newest = len(migrations) + 1
    while True:
        with database.read() as connection:
            version = _version(connection)
        if version is None:
            raise _not_a_lake(database)
        database.require_readable(version, newest)
        if version == newest:
            return version
        _run_next(database, migrations)


def _run_next(database: Database, migrations: Sequence[Migration]) -> None:
    table = schema.lake
    with database.schema_change() as connection:
        # Read again, under the lock: another process may have upgraded meanwhile. Writers wait for this row.
        version = connection.execute(sa.select(table.c.schema_version).with_for_update()).scalar_one()
        if version <= len(migrations):
            migrations[version - 1](Operations(MigrationContext.configure(connection)))
            connection.execute(sa.update(table).values(schema_version=version + 1))


def _create(database: Database) -> None:
    if database.is_sqlite:
        _use_write_ahead_log(database)
    with database.schema_change() as connection:
        if _version(connection) is not None:
            return  # another process was faster
        schema.metadata.create_all(connection, checkfirst=False)
        connection.execute(
            sa.insert(schema.lake).values(
                lake_id=str(uuid.uuid4()), schema_version=schema.SCHEMA_VERSION, created_at=database.clock()
            )
        )


def _use_write_ahead_log(database: Database) -> None:
    """SQLite does not wait for a lock here, so several processes that create one catalog together must."""
    deadline = time.monotonic() + LOCK_WAIT_SECONDS
    while not database.switch_to_wal():
        if time.monotonic() > deadline:
            raise CatalogUnavailable(f"Another program holds {database.display}.", remedy="Stop it and try again.")
        time.sleep(0.02)


def _version(connection: sa.Connection) -> int | None:
    if not sa.inspect(connection).has_table(schema.lake.name):
        return None
    return connection.execute(sa.select(schema.lake.c.schema_version)).scalar_one_or_none()


def _not_a_lake(database: Database) -> NotALake:
    return NotALake(f"There is no Headwater catalog at {database.display}.", remedy="Create the lake first.")
