from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, cast

import pytest
from tests.catalog.worlds import ENTRIES, LEAVES, ORDERS, REFRESH, TIMES, VIEW, everything, populate

from headwater.algebra.plan import LeafId
from headwater.algebra.time import Csn
from headwater.apply.driver import Applied, apply, finish_begun, recompute, stay
from headwater.catalog import Catalog, LeafRecord, LeafTime, Lease
from headwater.context import Context
from headwater.errors import InternalError, InvalidInput, NameTaken, UnknownName
from headwater.propagate.driver import propagate, propagate_leaves


def test_views_come_back_as_they_were_given(catalog: Catalog) -> None:
    bare = replace(VIEW, name="a", view_id="x", columns=(), cluster_by=(), definition=[1, None], problem={"code": "X"})
    with catalog.lease("v") as lease:
        populate(catalog, lease)
        catalog.insert_view(lease, bare, [])
    assert catalog.view("totals") == VIEW
    assert catalog.views() == [bare, VIEW]
    assert catalog.leaves(VIEW.view_id) == list(LEAVES)
    assert catalog.leaves("x") == []
    assert catalog.query_lists(VIEW.view_id) == [ENTRIES[0], ENTRIES[2], ENTRIES[1]]
    assert catalog.users_of("orders") == ["totals"]
    with pytest.raises(UnknownName, match="Did you mean 'totals'"):
        catalog.view("total")


@pytest.mark.parametrize(
    "driver",
    [
        lambda context: propagate(context, "totals", Csn(4)),
        lambda context: propagate_leaves(context, "totals", [Csn(4), Csn(4)]),
        lambda context: apply(context, "totals", Csn(4)),
        lambda context: finish_begun(context, "totals"),
        lambda context: recompute(context, "totals", Csn(4), "POLICY_FULL", started=0.0),
        lambda context: stay(context, "totals", Csn(4), started=0.0),
    ],
    ids=["propagate", "propagate_leaves", "apply", "finish_begun", "recompute", "stay"],
)
def test_a_driver_that_waited_while_its_view_was_replaced_leaves_the_new_one_alone(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch, driver: Callable[[Context], object]
) -> None:
    """It took one view's lease and worked on another view, by what it had read of the first."""
    lease_of, new = catalog.lease, replace(VIEW, view_id="new")

    @contextmanager
    def had_late(resource: str, **options: float) -> Iterator[Lease]:
        if catalog.view("totals") == VIEW:
            with lease_of("other") as other:
                catalog.insert_view(other, new, LEAVES, replacing=(VIEW.view_id, {}))
        with lease_of(resource, **options) as lease:
            yield lease

    with catalog.lease("v") as lease:
        populate(catalog, lease)
        catalog.begin_step(lease, VIEW.view_id, "apply", {"from": 2, "to": 4})
        monkeypatch.setattr(catalog, "lease", had_late)
        nothing = cast(Any, None)
        with pytest.raises(UnknownName, match="'totals' was replaced meanwhile"):
            driver(Context(catalog, nothing, nothing, "/lake", lambda: 0))
    assert catalog.view("totals", "new") == new
    assert catalog.leaves("new") == list(LEAVES)
    assert catalog.open_steps("new") == []


def test_a_recomputation_that_was_overtaken_does_not_take_the_view_back(catalog: Catalog) -> None:
    with catalog.lease("v") as lease:
        populate(catalog, lease)
        before = everything(catalog)
        nothing = cast(Any, None)
        context = Context(catalog, nothing, nothing, "/lake", lambda: 0)
        done = recompute(context, "totals", Csn(VIEW.csn - 1), "FULL_IS_CHEAPER", started=0.0, never_back=True)
        assert done == Applied(VIEW.csn, 0, "none", "UP_TO_DATE")
        assert everything(catalog) == before


def test_base_tables_and_views_share_their_names(catalog: Catalog) -> None:
    with catalog.lease("v") as lease:
        populate(catalog, lease)
        before = everything(catalog)
        for name in ("totals", "orders"):
            with pytest.raises(NameTaken):
                catalog.insert_view(lease, replace(VIEW, name=name, view_id="other"), [])
        with pytest.raises(NameTaken, match="already a view 'totals'"):
            catalog.add_base_table(lease, replace(catalog.base_table("orders"), name="totals"))
        with pytest.raises(InternalError):
            catalog.insert_view(lease, replace(VIEW, name="same id"), [])
        with pytest.raises(InternalError, match="not numbered"):
            catalog.insert_view(lease, replace(VIEW, name="w", view_id="w"), LEAVES[1:])
        stray = LeafRecord(LeafId(0), "c", "customers", Csn(1), Csn(1))
        with pytest.raises(UnknownName, match="customers"):
            catalog.insert_view(lease, replace(VIEW, name="w", view_id="w"), [stray])
        assert everything(catalog) == before


def test_what_is_set_on_a_view(catalog: Catalog) -> None:
    with catalog.lease("v") as lease:
        populate(catalog, lease)
        catalog.set_view_problem(lease, VIEW.view_id, {"code": "SCHEMA_CHANGED"})
        assert catalog.view("totals").problem == {"code": "SCHEMA_CHANGED"}
        catalog.set_view_problem(lease, VIEW.view_id, None)
        catalog.set_kept_from(lease, VIEW.view_id, Csn(1))
        assert catalog.view("totals") == replace(VIEW, kept_from=Csn(1))
        catalog.set_width(lease, VIEW.view_id, LeafId(0), "csns", 5)
        catalog.set_width(lease, VIEW.view_id, LeafId(1), None, None)
        assert catalog.leaves(VIEW.view_id) == [
            replace(LEAVES[0], width_kind="csns", width_value=5),
            replace(LEAVES[1], width_kind=None, width_value=None),
        ]
        catalog.replace_query_lists(lease, VIEW.view_id, ENTRIES[:1])
        assert catalog.query_lists(VIEW.view_id) == [ENTRIES[0]]
        for write in (
            lambda: catalog.set_view_problem(lease, "nobody", None),
            lambda: catalog.set_width(lease, VIEW.view_id, LeafId(2), None, None),
            lambda: catalog.replace_query_lists(lease, "nobody", []),
            lambda: catalog.begin_drop(lease, "nobody", {}),
            lambda: catalog.begin_step(lease, "nobody", "apply", {}),
        ):
            with pytest.raises(UnknownName):
                write()
        with pytest.raises(InternalError):  # a foreign key
            catalog.replace_query_lists(lease, VIEW.view_id, [replace(ENTRIES[0], leaf=LeafId(7))])
        assert catalog.query_lists(VIEW.view_id) == [ENTRIES[0]]


def test_a_view_read_by_another_stays(catalog: Catalog) -> None:
    with catalog.lease("v") as lease:
        populate(catalog, lease)
        upper = replace(VIEW, name="upper", view_id="upper")
        catalog.insert_view(lease, upper, [replace(LEAVES[0], table="totals")])
        with pytest.raises(InvalidInput, match="'totals' is read by upper"):
            catalog.begin_drop(lease, VIEW.view_id, {})
        catalog.begin_drop(lease, "upper", {})
        catalog.begin_drop(lease, VIEW.view_id, {})
    assert catalog.views() == []


def test_the_life_of_a_view_in_steps(catalog: Catalog) -> None:
    with catalog.lease("v") as lease:
        populate(catalog, lease)
        fresh = replace(VIEW, name="fresh", view_id="fresh")
        create = catalog.begin_step(lease, "fresh", "create", {"sql": "SELECT 1"})
        assert (create.state, create.intent, create.outcome, create.finished_at) == (
            "intended", {"sql": "SELECT 1"}, None, None,
        )  # fmt: skip
        assert catalog.open_steps() == catalog.open_steps("fresh", "create") == [create]
        catalog.insert_view(lease, fresh, LEAVES, step_id=create.step_id, outcome={"version": 0})
        assert catalog.open_steps() == []
        done = catalog.step(create.step_id)
        assert (done.state, done.outcome) == ("done", {"version": 0})
        assert done.finished_at is not None
        assert done.finished_at > done.started_at

        left_open = catalog.begin_step(lease, "fresh", "propagate", {})
        catalog.record_execution(lease, left_open.step_id, 0, "o@now", Csn(4))
        assert [step.step_id for step in catalog.open_steps("fresh")] == [left_open.step_id]
        drop = catalog.begin_drop(lease, "fresh", {"locations": ["a"]})
        assert (drop.driver, drop.state, drop.intent) == ("drop", "intended", {"locations": ["a"]})
        assert catalog.open_steps() == [drop]  # what is left to do: its files
        catalog.finish_step(lease, drop.step_id, {"files": 3})
        assert catalog.open_steps() == []
        assert catalog.executions(left_open.step_id) == []
        again = catalog.begin_drop(lease, VIEW.view_id, {})
        assert again.step_id > drop.step_id


def test_propagation_moves_the_leaves(catalog: Catalog) -> None:
    with catalog.lease("v") as lease:
        populate(catalog, lease)
        step = catalog.begin_step(lease, VIEW.view_id, "propagate", {"interval": [2, 4]})
        catalog.finish_propagate(lease, step.step_id, TIMES, outcome={"rows": 3})
        assert [(leaf.time, leaf.t_comp) for leaf in catalog.leaves(VIEW.view_id)] == [(4, 3), (3, 3)]
        assert len(catalog.query_lists(VIEW.view_id)) == 3
        assert catalog.step(step.step_id).outcome == {"rows": 3}
        step = catalog.begin_step(lease, VIEW.view_id, "propagate", {})
        only = [LeafTime(LeafId(1), Csn(4), Csn(4))]
        catalog.finish_propagate(lease, step.step_id, only, query_lists=ENTRIES[:1])
        assert [(leaf.time, leaf.t_comp) for leaf in catalog.leaves(VIEW.view_id)] == [(4, 3), (4, 4)]
        assert catalog.query_lists(VIEW.view_id) == [ENTRIES[0]]
        assert catalog.leaves(VIEW.view_id)[1].width_kind == "rows"


@pytest.mark.parametrize(
    ("leaf", "time", "t_comp", "why"),
    [
        (0, 1, 1, "fall back"),
        (0, 3, 1, "fall back"),
        (0, 3, 4, "never passes time"),
        (0, 5, 3, "newest csn, 4"),
        (2, 3, 3, "no leaf 2"),
    ],
)
def test_a_frontier_that_can_not_be_is_refused(catalog: Catalog, leaf: int, time: int, t_comp: int, why: str) -> None:
    with catalog.lease("v") as lease:
        populate(catalog, lease)
        step = catalog.begin_step(lease, VIEW.view_id, "propagate", {})
        before = everything(catalog)
        times = [TIMES[1], LeafTime(LeafId(leaf), Csn(time), Csn(t_comp))]
        with pytest.raises(InternalError, match=why):
            catalog.finish_propagate(lease, step.step_id, times, query_lists=[])
        assert everything(catalog) == before


def test_apply_moves_the_view_and_tells_the_story(catalog: Catalog) -> None:
    with catalog.lease("v") as lease:
        populate(catalog, lease)
        step = catalog.begin_step(lease, VIEW.view_id, "apply", {"to": 4})
        catalog.finish_apply(lease, step.step_id, csn=Csn(4), version=1, outcome={"rows": 17}, refresh=REFRESH)
        moved = replace(VIEW, csn=Csn(4), version=1, last_mode="incremental")
        assert catalog.view("totals") == moved
        nothing = replace(REFRESH, mode="none", reason="UP_TO_DATE", from_csn=Csn(4), rows=0)
        catalog.record_refresh(lease, nothing)
        assert catalog.view("totals") == replace(moved, last_mode="none", last_reason="UP_TO_DATE")
        step = catalog.begin_step(lease, VIEW.view_id, "apply", {"to": 3})
        catalog.finish_apply(lease, step.step_id, csn=Csn(3), version=2, kept_from=Csn(3))
        assert (catalog.view("totals").csn, catalog.view("totals").kept_from) == (3, 3)
        newest, first = catalog.refreshes("totals")
        assert (newest, first) == (replace(nothing, refresh_id=newest.refresh_id), replace(REFRESH, refresh_id=1))
        catalog.begin_drop(lease, VIEW.view_id, {})
    assert catalog.refreshes(limit=1) == [newest]
    assert catalog.refreshes("other") == []


def test_a_step_is_closed_once_by_its_own_driver(catalog: Catalog) -> None:
    with catalog.lease("v") as lease:
        populate(catalog, lease)
        step = catalog.begin_step(lease, VIEW.view_id, "apply", {})
        with pytest.raises(InternalError, match="belongs to apply, not to propagate"):
            catalog.finish_propagate(lease, step.step_id, TIMES)
        with pytest.raises(InternalError, match="The refresh is of view"):
            catalog.finish_apply(
                lease, step.step_id, csn=Csn(4), version=1, refresh=replace(REFRESH, view_id="another")
            )
        catalog.finish_apply(lease, step.step_id, csn=Csn(4), version=1)
        before = everything(catalog)
        for write in (
            lambda: catalog.finish_apply(lease, step.step_id, csn=Csn(3), version=2),
            lambda: catalog.finish_step(lease, step.step_id),
            lambda: catalog.record_execution(lease, step.step_id, 0, "q", Csn(1)),
            lambda: catalog.finish_step(lease, 999),
        ):
            with pytest.raises(InternalError):
                write()
        assert everything(catalog) == before


def test_executions_are_remembered_for_the_replay(catalog: Catalog) -> None:
    with catalog.lease("v") as lease:
        populate(catalog, lease)
        step = catalog.begin_step(lease, VIEW.view_id, "propagate", {})
        second = catalog.record_execution(lease, step.step_id, 1, "-oΔ(2, 4] ⋈ l@now", Csn(4))
        first = catalog.record_execution(lease, step.step_id, 0, "oΔ(2, 3] ⋈ l@now", Csn(3))
        assert catalog.record_execution(lease, step.step_id, 0, "oΔ(2, 3] ⋈ l@now", Csn(3)) == first
        with pytest.raises(InternalError, match="recorded at csn 3"):
            catalog.record_execution(lease, step.step_id, 0, "oΔ(2, 3] ⋈ l@now", Csn(4))
        assert catalog.executions(step.step_id) == [first, second]


def test_a_recomputed_view_starts_anew(catalog: Catalog) -> None:
    with catalog.lease("v") as lease:
        populate(catalog, lease)
        catalog.set_view_problem(lease, VIEW.view_id, {"code": "HISTORY_LOST"})
        cut_short = catalog.begin_step(lease, VIEW.view_id, "propagate", {})
        step = catalog.begin_step(lease, VIEW.view_id, "apply", {"mode": "full"})
        with pytest.raises(InternalError, match="belongs to view"):
            catalog.reset_view(lease, "another", step.step_id, csn=Csn(4), version=5, delta_location="/new")
        catalog.reset_view(
            lease,
            VIEW.view_id,
            step.step_id,
            csn=Csn(4),
            version=5,
            delta_location="/new",
            outcome={"rows": 1},
            refresh=replace(REFRESH, mode="full", reason="HISTORY_LOST"),
        )
        assert catalog.view("totals") == replace(
            VIEW,
            csn=Csn(4),
            version=5,
            kept_from=Csn(4),
            delta_location="/new",
            last_mode="full",
            last_reason="HISTORY_LOST",
        )
        assert catalog.leaves(VIEW.view_id) == [replace(leaf, time=Csn(4), t_comp=Csn(4)) for leaf in LEAVES]
        assert catalog.query_lists(VIEW.view_id) == []
        assert catalog.open_steps() == []
        assert catalog.step(step.step_id).outcome == {"rows": 1}
        assert catalog.step(cut_short.step_id).outcome == {"superseded_by": step.step_id}


def test_what_began_anew_while_a_view_was_computed_is_its_problem(catalog: Catalog) -> None:
    with catalog.lease("v") as lease:
        populate(catalog, lease)
        step = catalog.begin_step(lease, VIEW.view_id, "apply", {"recompute": 4})
        since = catalog.restart_base_table(lease, replace(ORDERS, since_version=20)).since_csn
        catalog.reset_view(lease, VIEW.view_id, step.step_id, csn=Csn(4), version=5, delta_location="/new")
        problem = catalog.view("totals").problem
        assert problem is not None
        assert (problem["code"], problem["table"], problem["csn"]) == ("TABLE_RESYNCED", "orders", since)
        made = replace(VIEW, name="made", view_id="made", csn=Csn(4))
        catalog.insert_view(lease, made, [replace(leaf, time=Csn(4), t_comp=Csn(4)) for leaf in LEAVES])
        assert catalog.view("made").problem == problem
        step = catalog.begin_step(lease, VIEW.view_id, "apply", {"recompute": since})
        catalog.reset_view(lease, VIEW.view_id, step.step_id, csn=since, version=6, delta_location="/newer")
        assert catalog.view("totals").problem is None


def test_a_view_below_that_lost_its_past_while_a_view_was_recomputed_is_its_problem(catalog: Catalog) -> None:
    with catalog.lease("v") as lease:
        populate(catalog, lease)
        upper = replace(VIEW, name="upper", view_id="upper", csn=Csn(3), kept_from=Csn(3), definition={})
        catalog.insert_view(lease, upper, [replace(LEAVES[0], table="totals", time=Csn(3), t_comp=Csn(3))])
        running = catalog.begin_step(lease, "upper", "apply", {"recompute": 3})
        step = catalog.begin_step(lease, VIEW.view_id, "apply", {"recompute": 4})
        catalog.reset_view(lease, VIEW.view_id, step.step_id, csn=Csn(4), version=5, delta_location="/new")
        catalog.reset_view(lease, "upper", running.step_id, csn=Csn(3), version=5, delta_location="/upper")
        problem = catalog.view("upper").problem
        assert problem is not None
        assert problem["code"] == "UPSTREAM_RECOMPUTED"
        again = catalog.begin_step(lease, "upper", "apply", {"recompute": 4})
        catalog.reset_view(lease, "upper", again.step_id, csn=Csn(4), version=6, delta_location="/upper")
        assert catalog.view("upper").problem is None
