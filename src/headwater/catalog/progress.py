"""How views move: the ends of propagation, apply and recomputation steps, each one transaction.

What such an end must keep true is checked inside that transaction: a leaf's times never fall while propagating,
never pass the newest csn, and t_comp never passes time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from headwater.algebra.time import Csn
from headwater.catalog.base_tables import newest_csn
from headwater.catalog.fencing import FencedTables, Held
from headwater.catalog.records import JsonObject, LeafTime, QueryListEntry, RefreshRecord
from headwater.catalog.steps import close_step, supersede_steps
from headwater.catalog.views import (
    insert_refresh,
    mark_readers,
    problem_at,
    read_leaves,
    update_view,
    write_leaf_times,
    write_query_lists,
)
from headwater.errors import InternalError


class Progress(FencedTables):
    def finish_propagate(
        self,
        lease: Held,
        step_id: int,
        leaves: Sequence[LeafTime],
        *,
        query_lists: Sequence[QueryListEntry] | None = None,
        outcome: JsonObject | None = None,
    ) -> None:
        """The leaves given stand at their new times, the view's query lists are ``query_lists`` (None: as before)."""
        with self._under(lease) as connection:
            step = close_step(connection, self._database.clock(), step_id, ("propagate",), outcome)
            _require_forward(connection, step.view_id, leaves)
            write_leaf_times(connection, step.view_id, leaves)
            if query_lists is not None:
                write_query_lists(connection, step.view_id, query_lists)

    def finish_apply(
        self,
        lease: Held,
        step_id: int,
        *,
        csn: Csn,
        version: int,
        outcome: JsonObject | None = None,
        refresh: RefreshRecord | None = None,
        kept_from: Csn | None = None,
    ) -> None:
        """The view's table stands at ``csn`` in ``version``; ``refresh`` is the story of it."""
        values: dict[str, Any] = {"csn": csn, "version": version}
        if kept_from is not None:
            values["kept_from"] = kept_from
        with self._under(lease) as connection:
            step = close_step(connection, self._database.clock(), step_id, ("apply",), outcome)
            update_view(connection, step.view_id, **values)
            _tell(connection, step.view_id, refresh)

    def reset_view(
        self,
        lease: Held,
        view_id: str,
        step_id: int,
        *,
        csn: Csn,
        version: int,
        delta_location: str,
        kept_from: Csn | None = None,
        problem: JsonObject | None = None,
        outcome: JsonObject | None = None,
        refresh: RefreshRecord | None = None,
    ) -> None:
        """The view was recomputed at ``csn``: all its times are that, its query lists empty, other open steps void.

        Its view delta begins anew, empty, at ``delta_location``: the old one may hold parts of steps that went
        beyond ``csn`` on some leaves. ``kept_from`` is ``csn`` unless given; the view's problem becomes ``problem``,
        so by default it has none, but for what it reads having been begun anew after ``csn``, which may have happened
        while it was recomputed.
        """
        kept = csn if kept_from is None else kept_from
        at = self._database.clock()
        with self._under(lease) as connection:
            step = close_step(connection, at, step_id, ("apply", "propagate"), outcome)
            if step.view_id != view_id:
                raise InternalError(f"Step {step_id} belongs to view {step.view_id}, not to {view_id}.")
            supersede_steps(connection, at, view_id, step_id)
            update_view(
                connection,
                view_id,
                csn=csn,
                version=version,
                kept_from=kept,
                problem=problem or problem_at(connection, view_id, csn),
                delta_location=delta_location,
            )
            times = [LeafTime(leaf.leaf, csn, csn) for leaf in read_leaves(connection, view_id)]
            write_leaf_times(connection, view_id, times)
            write_query_lists(connection, view_id, ())
            mark_readers(connection, view_id, kept)
            _tell(connection, view_id, refresh)


def _tell(connection: sa.Connection, view_id: str, refresh: RefreshRecord | None) -> None:
    if refresh is None:
        return
    if refresh.view_id != view_id:
        raise InternalError(f"The refresh is of view {refresh.view_id}, the step of {view_id}.")
    insert_refresh(connection, refresh)


def _require_forward(connection: sa.Connection, view_id: str, times: Sequence[LeafTime]) -> None:
    before = {leaf.leaf: leaf for leaf in read_leaves(connection, view_id)}
    newest = newest_csn(connection)
    for new in times:
        old = before.get(new.leaf)
        if old is None:
            raise InternalError(f"View {view_id} has no leaf {new.leaf}.")
        if new.time < old.time or new.t_comp < old.t_comp:
            raise InternalError(
                f"Leaf {new.leaf} of view {view_id} would fall back from time {old.time}, t_comp {old.t_comp} "
                f"to time {new.time}, t_comp {new.t_comp}."
            )
        if not new.t_comp <= new.time <= newest:
            raise InternalError(
                f"Leaf {new.leaf} of view {view_id} can't stand at time {new.time}, t_comp {new.t_comp}: "
                f"t_comp never passes time, and time never passes the newest csn, {newest}."
            )
