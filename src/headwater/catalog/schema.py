"""The catalog's tables: one schema for SQLite and PostgreSQL.

Times are microseconds since 1970 in UTC, csns and Delta versions are 64-bit integers, identifiers are text. Values
that the catalog only carries (definitions, intents, outcomes, problems) are JSON.

``hw_units_of_work`` outlives the base tables that it speaks of, because csns are never given twice. A name that is
tracked, dropped and tracked again is a new table with versions of its own: ``tracked_since`` (the base table's
``since_csn``) keeps the two apart.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

SCHEMA_VERSION = 8

metadata = sa.MetaData()

# SQLite gives never-reused row ids only to a column declared INTEGER.
_Identity = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def json_type() -> sa.JSON:
    return sa.JSON(none_as_null=True)


def _column(name: str, kind: Any, *, null: bool = False) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=null)


lake = sa.Table(
    "hw_lake",
    metadata,
    sa.Column("lake_id", sa.Text, primary_key=True),
    _column("schema_version", sa.Integer),
    _column("created_at", sa.BigInteger),
)

base_tables = sa.Table(
    "hw_base_tables",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    _column("location", sa.Text),
    _column("table_uuid", sa.Text),
    _column("columns", json_type()),
    _column("mode", sa.Text),
    _column("since_csn", sa.BigInteger),
    _column("since_version", sa.BigInteger),
    _column("captured_version", sa.BigInteger),
    _column("captured_at", sa.BigInteger),
    _column("problem", json_type(), null=True),
    sa.CheckConstraint("mode IN ('versioned', 'live')", name="hw_base_tables_mode"),
)

units_of_work = sa.Table(
    "hw_units_of_work",
    metadata,
    sa.Column("csn", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("table_name", sa.Text, primary_key=True),
    sa.Column("version", sa.BigInteger, primary_key=True, autoincrement=False),
    _column("tracked_since", sa.BigInteger),
    _column("committed_at", sa.BigInteger),
    _column("operation", sa.Text),
    _column("rows", sa.BigInteger, null=True),
    # NULL for Delta; else the source that told of the change, and its transaction there.
    _column("source_id", sa.Text, null=True),
    _column("transaction_id", sa.Text, null=True),
    sa.UniqueConstraint("table_name", "tracked_since", "version", name="hw_units_of_work_once"),
    sa.Index("hw_units_of_work_by_table", "table_name", "csn", "version"),
    sa.Index("hw_units_of_work_by_time", "committed_at", "csn"),
)

views = sa.Table(
    "hw_views",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("view_id", sa.Text, nullable=False, unique=True),
    _column("sql", sa.Text),
    _column("definition", json_type()),
    _column("columns", json_type()),
    _column("options", json_type()),
    _column("cluster_by", json_type()),
    _column("location", sa.Text),
    _column("delta_location", sa.Text),
    _column("created_csn", sa.BigInteger),
    _column("csn", sa.BigInteger),
    _column("version", sa.BigInteger),
    _column("kept_from", sa.BigInteger),
    _column("method", sa.Text),
    _column("problem", json_type(), null=True),
    _column("last_mode", sa.Text, null=True),
    _column("last_reason", sa.Text, null=True),
    _column("created_at", sa.BigInteger),
    sa.CheckConstraint("method IN ('frontier', 'propagate', 'rolling')", name="hw_views_method"),
)

leaves = sa.Table(
    "hw_leaves",
    metadata,
    sa.Column("view_id", sa.Text, sa.ForeignKey("hw_views.view_id"), primary_key=True),
    sa.Column("leaf", sa.Integer, primary_key=True, autoincrement=False),
    _column("alias", sa.Text),
    _column("table_name", sa.Text),
    _column("time", sa.BigInteger),
    _column("t_comp", sa.BigInteger),
    _column("width_kind", sa.Text, null=True),
    _column("width_value", sa.BigInteger, null=True),
    sa.Index("hw_leaves_by_table", "table_name"),
)

query_lists = sa.Table(
    "hw_query_lists",
    metadata,
    sa.Column("view_id", sa.Text, primary_key=True),
    sa.Column("leaf", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
    _column("start_csn", sa.BigInteger),
    _column("end_csn", sa.BigInteger),
    _column("execution_time", sa.BigInteger),
    sa.ForeignKeyConstraint(["view_id", "leaf"], ["hw_leaves.view_id", "hw_leaves.leaf"], name="hw_query_lists_leaf"),
)

steps = sa.Table(
    "hw_steps",
    metadata,
    sa.Column("step_id", _Identity, primary_key=True, autoincrement=True),
    # No foreign key: the step that creates a view begins before the view is there, the one that drops it ends after.
    _column("view_id", sa.Text),
    _column("driver", sa.Text),
    _column("state", sa.Text),
    _column("intent", json_type()),
    _column("outcome", json_type(), null=True),
    _column("started_at", sa.BigInteger),
    _column("finished_at", sa.BigInteger, null=True),
    sa.CheckConstraint("driver IN ('propagate', 'apply', 'create', 'drop')", name="hw_steps_driver"),
    sa.CheckConstraint("state IN ('intended', 'done')", name="hw_steps_state"),
    sa.Index("hw_steps_by_view", "view_id", "state"),
    sqlite_autoincrement=True,
)

executions = sa.Table(
    "hw_executions",
    metadata,
    sa.Column("step_id", sa.BigInteger, sa.ForeignKey("hw_steps.step_id"), primary_key=True, autoincrement=False),
    sa.Column("ordinal", sa.Integer, primary_key=True, autoincrement=False),
    _column("query", sa.Text),
    _column("execution_time", sa.BigInteger),
)

refreshes = sa.Table(
    "hw_refreshes",
    metadata,
    sa.Column("id", _Identity, primary_key=True, autoincrement=True),
    # No foreign key: the story of a dropped view stays readable.
    _column("view_id", sa.Text),
    _column("view_name", sa.Text),
    _column("from_csn", sa.BigInteger),
    _column("csn", sa.BigInteger),
    _column("mode", sa.Text),
    _column("reason", sa.Text, null=True),
    _column("rows", sa.BigInteger),
    _column("seconds", sa.Double),
    _column("finished_at", sa.BigInteger),
    _column("alternatives", json_type(), null=True),
    sa.Index("hw_refreshes_by_view", "view_name", "id"),
    sqlite_autoincrement=True,
)

constraints = sa.Table(
    "hw_constraints",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("table_name", sa.Text, sa.ForeignKey("hw_base_tables.name"), nullable=False),
    _column("kind", sa.Text),
    _column("columns", json_type()),
    sa.Column("referred_table", sa.Text, sa.ForeignKey("hw_base_tables.name"), nullable=True),
    _column("referred_columns", json_type(), null=True),
    # Known to hold at every csn from the one to the other, both included.
    _column("held_from", sa.BigInteger, null=True),
    _column("held_to", sa.BigInteger, null=True),
    _column("broken", json_type(), null=True),
    _column("created_at", sa.BigInteger),
    sa.CheckConstraint("kind IN ('primary key', 'unique', 'foreign key')", name="hw_constraints_kind"),
    sa.CheckConstraint("(held_from IS NULL) = (held_to IS NULL)", name="hw_constraints_held"),
)

cost_samples = sa.Table(
    "hw_cost_samples",
    metadata,
    sa.Column("sample_id", _Identity, primary_key=True, autoincrement=True),
    # No foreign key: capture is of the whole lake, and what a dropped view took is still a measurement of the lake.
    _column("view_id", sa.Text),
    _column("kind", sa.Text),
    _column("part", sa.Integer),
    _column("rows", sa.BigInteger),
    _column("seconds", sa.Double),
    _column("cold", sa.Boolean),
    _column("measured_at", sa.BigInteger),
    # The step that was measured, once; none for a capture.
    _column("step_id", sa.BigInteger, null=True),
    # Rows of each part, of a step of several.
    _column("by_part", json_type(), null=True),
    sa.UniqueConstraint("step_id", name="hw_cost_samples_once"),
    sa.CheckConstraint("kind IN ('capture', 'propagate', 'apply', 'recompute')", name="hw_cost_samples_kind"),
    sa.Index("hw_cost_samples_by_part", "view_id", "kind", "part", "sample_id"),
    sqlite_autoincrement=True,
)

driver_leases = sa.Table(
    "hw_driver_leases",
    metadata,
    sa.Column("resource", sa.Text, primary_key=True),
    _column("holder", sa.Text),
    _column("host", sa.Text),
    _column("pid", sa.Integer),
    _column("process", sa.Text),
    _column("token", sa.BigInteger),
    _column("expires_at", sa.BigInteger),
)

releases = sa.Table(
    "hw_releases",
    metadata,
    sa.Column("csn", sa.BigInteger, primary_key=True, autoincrement=False),
    _column("published_at", sa.BigInteger),
)

release_views = sa.Table(
    "hw_release_views",
    metadata,
    sa.Column("csn", sa.BigInteger, sa.ForeignKey("hw_releases.csn"), primary_key=True, autoincrement=False),
    sa.Column("view_id", sa.Text, sa.ForeignKey("hw_views.view_id"), primary_key=True),
    _column("location", sa.Text),
    _column("version", sa.BigInteger),
    _column("delta_location", sa.Text),
    _column("kept_from", sa.BigInteger),
    sa.Index("hw_release_views_by_view", "view_id", "csn"),
)

release_tags = sa.Table(
    "hw_release_tags",
    metadata,
    sa.Column("tag", sa.Text, primary_key=True),
    sa.Column("csn", sa.BigInteger, sa.ForeignKey("hw_releases.csn"), nullable=False),
    _column("tagged_at", sa.BigInteger),
)

reader_leases = sa.Table(
    "hw_reader_leases",
    metadata,
    sa.Column("snapshot_id", sa.Text, primary_key=True),
    _column("csn", sa.BigInteger),
    _column("holder", sa.Text),
    _column("opened_at", sa.BigInteger),
    _column("heartbeat_at", sa.BigInteger),
    _column("expires_at", sa.BigInteger),
)

retention = sa.Table(
    "hw_retention",
    metadata,
    sa.Column("lake_id", sa.Text, sa.ForeignKey("hw_lake.lake_id"), primary_key=True),
    _column("count", sa.Integer),
    _column("age", sa.BigInteger),
    _column("tags", json_type(), null=True),
    # What the last collection left: a reader is given a lease only on what is still there.
    _column("kept_from", sa.BigInteger),
    _column("pinned", json_type()),
)

collections = sa.Table(
    "hw_collections",
    metadata,
    sa.Column("collection_id", _Identity, primary_key=True, autoincrement=True),
    _column("state", sa.Text),
    _column("plan", json_type()),
    _column("outcome", json_type(), null=True),
    _column("started_at", sa.BigInteger),
    _column("finished_at", sa.BigInteger, null=True),
    sa.CheckConstraint("state IN ('intended', 'done')", name="hw_collections_state"),
    sqlite_autoincrement=True,
)

sources = sa.Table(
    "hw_sources",
    metadata,
    sa.Column("source_id", sa.Text, primary_key=True),
    _column("kind", sa.Text),
    # Where it is and where its password is found; never a secret.
    _column("address", sa.Text),
    _column("settings", json_type()),
    # Up to where its log is durable in the lake; NULL until it was set up.
    _column("position", json_type(), null=True),
    _column("waiting", json_type(), null=True),
    _column("created_at", sa.BigInteger),
    sa.CheckConstraint("kind IN ('postgresql', 'messages')", name="hw_sources_kind"),
)

mirrors = sa.Table(
    "hw_mirrors",
    metadata,
    sa.Column("name", sa.Text, sa.ForeignKey("hw_base_tables.name"), primary_key=True),
    sa.Column("mirror_id", sa.Text, nullable=False, unique=True),
    sa.Column("source_id", sa.Text, sa.ForeignKey("hw_sources.source_id"), nullable=False),
    _column("mode", sa.Text),
    _column("log_location", sa.Text),
    _column("described", json_type()),
    # Which transactions the first copy held, by number; NULL where the source has no such numbers.
    _column("copied", sa.Text, null=True),
    sa.CheckConstraint("mode IN ('mirror', 'query')", name="hw_mirrors_mode"),
)

mirror_states = sa.Table(
    "hw_mirror_states",
    metadata,
    sa.Column("mirror_id", sa.Text, sa.ForeignKey("hw_mirrors.mirror_id"), primary_key=True),
    sa.Column("csn", sa.BigInteger, primary_key=True, autoincrement=False),
    _column("version", sa.BigInteger),
)

mirror_logs = sa.Table(
    "hw_mirror_logs",
    metadata,
    sa.Column("mirror_id", sa.Text, sa.ForeignKey("hw_mirrors.mirror_id"), primary_key=True),
    # Changes up to this csn may be gone from the log; a mirror without a row here has them all.
    _column("log_from", sa.BigInteger),
    # When that was said, as long as they are still there.
    _column("said_at", sa.BigInteger, null=True),
)

rounds = sa.Table(
    "hw_rounds",
    metadata,
    sa.Column("round_id", _Identity, primary_key=True, autoincrement=True),
    _column("state", sa.Text),
    _column("intent", json_type(), null=True),
    _column("started_at", sa.BigInteger),
    _column("finished_at", sa.BigInteger, null=True),
    sa.CheckConstraint("state IN ('intended', 'done', 'abandoned')", name="hw_rounds_state"),
    sqlite_autoincrement=True,
)
