"""Views, their leaves with their times, and their query lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import sqlalchemy as sa

from headwater.algebra.plan import LeafId
from headwater.algebra.time import Csn, Interval
from headwater.catalog import names, schema
from headwater.catalog.base_tables import resynced
from headwater.catalog.fencing import FencedTables, Held
from headwater.catalog.mirrors import read_logs
from headwater.catalog.records import (
    JsonObject,
    LeafRecord,
    LeafTime,
    QueryListEntry,
    RefreshRecord,
    StepRecord,
    ViewRecord,
)
from headwater.catalog.steps import close_step, forget_steps, insert_step
from headwater.errors import InternalError, InvalidInput, MomentBeforeHistory, UnknownName

_views = schema.views
_leaves = schema.leaves
_lists = schema.query_lists


class Views(FencedTables):
    def insert_view(
        self,
        lease: Held,
        view: ViewRecord,
        leaves: Sequence[LeafRecord],
        *,
        query_lists: Sequence[QueryListEntry] = (),
        step_id: int | None = None,
        outcome: JsonObject | None = None,
        replacing: tuple[str, JsonObject] | None = None,
        refresh: RefreshRecord | None = None,
    ) -> StepRecord | None:
        """The view with its leaves, and, with ``step_id``, the end of the step that created it, told by ``refresh``.

        ``replacing`` is a view that goes in the same transaction, with what is to be removed of it: the step for that.
        """
        if [leaf.leaf for leaf in leaves] != list(range(len(leaves))):
            raise InternalError(f"The leaves of view {view.name!r} are not numbered 0, 1, ...")
        dropping = None
        with self._under(lease) as connection:
            if replacing is not None:
                _delete_view(connection, replacing[0])
                dropping = insert_step(connection, self._database.clock(), replacing[0], "drop", replacing[1])
            names.require_free(connection, view.name)
            _require_readable(connection, leaves)
            if not view.from_scratch:
                _require_kept(connection, leaves)
            connection.execute(sa.insert(_views).values(**asdict(view)))
            if leaves:
                connection.execute(sa.insert(_leaves), [_leaf_values(view.view_id, leaf) for leaf in leaves])
            write_query_lists(connection, view.view_id, query_lists)
            if view.problem is None:
                update_view(connection, view.view_id, problem=problem_at(connection, view.view_id, view.csn))
            if step_id is not None:
                close_step(connection, self._database.clock(), step_id, ("create",), outcome)
            if refresh is not None:
                insert_refresh(connection, refresh)
        return dropping

    def alter_view(
        self,
        lease: Held,
        view_id: str,
        *,
        options: JsonObject,
        leaves: Sequence[LeafRecord],
        sql: str | None = None,
        definition: JsonObject | None = None,
    ) -> None:
        """Other options, with the widths of leaves that follow from them; another text for the same plan."""
        with self._under(lease) as connection:
            values = {"options": options, "sql": sql, "definition": definition}
            update_view(connection, view_id, **{key: value for key, value in values.items() if value is not None})
            for leaf in leaves:
                this = sa.and_(_leaves.c.view_id == view_id, _leaves.c.leaf == leaf.leaf)
                widths = {"width_kind": leaf.width_kind, "width_value": leaf.width_value}
                connection.execute(sa.update(_leaves).where(this).values(**widths))

    def view(self, name: str, view_id: str | None = None) -> ViewRecord:
        """``view_id``: the view that bore the name when its lease was asked for. By now another one may bear it."""
        with self._database.read() as connection:
            row = connection.execute(sa.select(_views).where(_views.c.name == name)).one_or_none()
            if row is None:
                raise names.unknown("view", name, connection.execute(sa.select(_views.c.name)).scalars())
        if view_id not in (None, row.view_id):
            raise UnknownName(
                f"View {name!r} was replaced meanwhile: it is another view now.",
                remedy="Do it again, if it is still wanted.",
                name=name,
                view_id=view_id,
            )
        return _view(row)

    def views(self) -> list[ViewRecord]:
        """All of them, by name."""
        with self._database.read() as connection:
            return read_views(connection)

    def users_of(self, name: str) -> list[str]:
        """The names of the views that read the table or view ``name``."""
        with self._database.read() as connection:
            return names.users_of(connection, name)

    def leaves(self, view_id: str) -> list[LeafRecord]:
        """By leaf id."""
        with self._database.read() as connection:
            return read_leaves(connection, view_id)

    def query_lists(self, view_id: str) -> list[QueryListEntry]:
        """Of all leaves, by leaf id and in the order given when they were written."""
        wanted = sa.select(_lists).where(_lists.c.view_id == view_id).order_by(_lists.c.leaf, _lists.c.position)
        with self._database.read() as connection:
            return [_entry(row) for row in connection.execute(wanted)]

    def replace_query_lists(self, lease: Held, view_id: str, entries: Sequence[QueryListEntry]) -> None:
        with self._under(lease) as connection:
            names.require_view(connection, view_id)
            write_query_lists(connection, view_id, entries)

    def begin_drop(self, lease: Held, view_id: str, intent: JsonObject) -> StepRecord:
        """Forget the view and, in the same transaction, record what of it is to be removed.

        All that hangs on it goes but its refreshes and open steps that drop it; refused while another view reads it.
        One transaction, since an open step that drops a view says that its tables may be removed by anybody.
        """
        with self._under(lease) as connection:
            _delete_view(connection, view_id)
            return insert_step(connection, self._database.clock(), view_id, "drop", intent)

    def set_view_problem(self, lease: Held, view_id: str, problem: JsonObject | None) -> None:
        """Note why the view can't be kept; None when it can again."""
        with self._under(lease) as connection:
            update_view(connection, view_id, problem=problem)

    def set_kept_from(self, lease: Held, view_id: str, csn: Csn) -> None:
        """The view can no longer be rolled back beyond ``csn``."""
        with self._under(lease) as connection:
            update_view(connection, view_id, kept_from=csn)

    def set_width(self, lease: Held, view_id: str, leaf: LeafId, kind: str | None, value: int | None) -> None:
        """How far a leaf advances in one step."""
        with self._under(lease) as connection:
            this = sa.and_(_leaves.c.view_id == view_id, _leaves.c.leaf == leaf)
            changed = sa.update(_leaves).where(this).values(width_kind=kind, width_value=value)
            if not connection.execute(changed).rowcount:
                raise UnknownName(f"View {view_id} has no leaf {leaf}.", view_id=view_id, leaf=leaf)


def _delete_view(connection: sa.Connection, view_id: str) -> None:
    name = names.require_view(connection, view_id)
    users = names.users_of(connection, name)
    if users:
        raise InvalidInput(
            f"View {name!r} is read by {', '.join(users)}.", remedy="Drop these views first.", view=name, views=users
        )
    for table in (schema.release_views, _lists, _leaves, _views):
        connection.execute(sa.delete(table).where(table.c.view_id == view_id))
    forget_steps(connection, view_id, but="drop")


def insert_refresh(connection: sa.Connection, refresh: RefreshRecord) -> None:
    values = asdict(refresh)
    del values["refresh_id"]
    connection.execute(sa.insert(schema.refreshes).values(**values))
    update_view(connection, refresh.view_id, last_mode=refresh.mode, last_reason=refresh.reason)


def update_view(connection: sa.Connection, view_id: str, **values: Any) -> None:
    names.require_view(connection, view_id)
    connection.execute(sa.update(_views).where(_views.c.view_id == view_id).values(**values))


def mark_readers(connection: sa.Connection, view_id: str, kept_from: Csn) -> None:
    """Views that read this one from before ``kept_from`` on have lost its past and can't be propagated.

    Those that are recomputed at every refresh never need it.
    """
    name = names.require_view(connection, view_id)
    behind = sa.select(_leaves.c.view_id).where(_leaves.c.table_name == name, _leaves.c.time < kept_from)
    readers = connection.execute(sa.select(_views.c.view_id, _views.c.definition).where(_views.c.view_id.in_(behind)))
    for reader in readers.all():
        if not reader.definition.get("recomputed"):
            update_view(connection, reader.view_id, problem=_upstream_recomputed(name, kept_from))


def problem_at(connection: sa.Connection, view_id: str, csn: Csn) -> JsonObject | None:
    """What keeps a view that comes to stand at a csn from going on by changes: something that it reads was begun anew
    after that, maybe while the view was being computed."""
    view = connection.execute(sa.select(_views.c.definition).where(_views.c.view_id == view_id)).one()
    for leaf in read_leaves(connection, view_id):
        tables, views = schema.base_tables.c, _views.c
        since = connection.execute(sa.select(tables.since_csn).where(tables.name == leaf.table)).scalar()
        if since is not None and since > csn:
            return resynced(leaf.table, Csn(since))
        kept_from = connection.execute(sa.select(views.kept_from).where(views.name == leaf.table)).scalar()
        if kept_from is not None and kept_from > csn and not view.definition.get("recomputed"):
            return _upstream_recomputed(leaf.table, Csn(kept_from))
    return None


def _upstream_recomputed(view: str, kept_from: Csn) -> JsonObject:
    return {
        "code": "UPSTREAM_RECOMPUTED",
        "message": f"view {view!r}, which it reads, was recomputed at csn {kept_from} and has no past before that",
    }


def read_views(connection: sa.Connection) -> list[ViewRecord]:
    return [_view(row) for row in connection.execute(sa.select(_views).order_by(_views.c.name))]


def read_leaves(connection: sa.Connection, view_id: str) -> list[LeafRecord]:
    wanted = sa.select(_leaves).where(_leaves.c.view_id == view_id).order_by(_leaves.c.leaf)
    return [_leaf(row) for row in connection.execute(wanted)]


def write_leaf_times(connection: sa.Connection, view_id: str, times: Sequence[LeafTime]) -> None:
    for leaf in times:
        this = sa.and_(_leaves.c.view_id == view_id, _leaves.c.leaf == leaf.leaf)
        connection.execute(sa.update(_leaves).where(this).values(time=leaf.time, t_comp=leaf.t_comp))


def write_query_lists(connection: sa.Connection, view_id: str, entries: Sequence[QueryListEntry]) -> None:
    connection.execute(sa.delete(_lists).where(_lists.c.view_id == view_id))
    rows = [
        {
            "view_id": view_id,
            "leaf": entry.leaf,
            "position": position,
            "start_csn": entry.interval.start,
            "end_csn": entry.interval.end,
            "execution_time": entry.execution_time,
        }
        for position, entry in enumerate(entries)
    ]
    if rows:
        connection.execute(sa.insert(_lists), rows)


def _require_readable(connection: sa.Connection, leaves: Sequence[LeafRecord]) -> None:
    tables = set(connection.execute(sa.select(schema.base_tables.c.name)).scalars())
    known = tables | set(connection.execute(sa.select(_views.c.name)).scalars())
    for leaf in leaves:
        if leaf.table not in known:
            raise names.unknown("base table", leaf.table, known)


def _require_kept(connection: sa.Connection, leaves: Sequence[LeafRecord]) -> None:
    """A view is made while what it reads goes on: garbage may have been collected, or one recomputed, meanwhile."""
    kept_from = {row.name: row.kept_from for row in connection.execute(sa.select(_views.c.name, _views.c.kept_from))}
    for leaf in leaves:
        if leaf.t_comp < kept_from.get(leaf.table, leaf.t_comp):
            raise MomentBeforeHistory(
                f"View {leaf.table!r} can't be had at csn {leaf.t_comp}, only from {kept_from[leaf.table]} on.",
                remedy="Create the view again.",
                view=leaf.table,
            )
    for log in read_logs(connection):
        if any(leaf.table == log.name and leaf.t_comp < log.log_from for leaf in leaves):
            raise MomentBeforeHistory(
                f"The changes of {log.name!r} are kept from csn {log.log_from} on, which is later than the view's.",
                remedy="Create the view again.",
                table=log.name,
            )


def _leaf_values(view_id: str, leaf: LeafRecord) -> dict[str, Any]:
    values = asdict(leaf)
    return {"view_id": view_id, "table_name": values.pop("table"), **values}


def _view(row: sa.Row[Any]) -> ViewRecord:
    columns = tuple((name, kind) for name, kind in row.columns)
    return ViewRecord(**row._asdict() | {"columns": columns, "cluster_by": tuple(row.cluster_by)})


def _leaf(row: sa.Row[Any]) -> LeafRecord:
    return LeafRecord(
        LeafId(row.leaf), row.alias, row.table_name, Csn(row.time), Csn(row.t_comp), row.width_kind, row.width_value
    )


def _entry(row: sa.Row[Any]) -> QueryListEntry:
    return QueryListEntry(LeafId(row.leaf), Interval(Csn(row.start_csn), Csn(row.end_csn)), Csn(row.execution_time))
