"""Every write is one transaction under its lease: it happens as a whole, or not at all."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
import sqlalchemy as sa
from tests.catalog.worlds import ENTRIES, LEAVES, ORDERS, REFRESH, RELEASED, TIMES, VIEW, commit, everything, populate

from headwater.algebra.constraints import ForeignKey, Unique
from headwater.algebra.plan import LeafId
from headwater.algebra.time import Csn, Interval
from headwater.catalog import Catalog, CollectionIntent, CostRecord, Holdings, Horizon, Lease, RetentionSettings, schema
from headwater.catalog.records import MirrorRecord, SourceRecord
from headwater.catalog.rounds import RoundOutcome
from headwater.errors import LeaseLost


@dataclass(frozen=True)
class Steps:
    create: int
    propagate: int
    apply: int
    drop: int
    collection: int | None = None
    snapshot: str = ""
    round: int = 0


Write = Callable[[Catalog, Lease, Steps], Any]
NATION = replace(ORDERS, name="nation")
SAMPLE = CostRecord(VIEW.view_id, "propagate", 0, 10, 1.5, False, 9, 1)
FRESH = replace(VIEW, name="fresh", view_id="fresh")
SHOP = SourceRecord("shop", "postgresql", "postgresql://localhost/shop", {}, None, 5)
MIRROR = MirrorRecord("nation", "m", "shop", "mirror", "/log", {})


def some_garbage(_: Holdings) -> CollectionIntent:
    return CollectionIntent(Horizon(Csn(4), frozenset({Csn(1)})), (Csn(2),), {VIEW.view_id: Csn(3)}, {"views": {}})


WRITES: dict[str, Write] = {
    "add_base_table": lambda c, lease, s: c.add_base_table(lease, NATION),
    "remove_base_table": lambda c, lease, s: c.remove_base_table(lease, "unused"),
    "restart_base_table": lambda c, lease, s: c.restart_base_table(lease, replace(ORDERS, since_version=20)),
    "set_table_problem": lambda c, lease, s: c.set_table_problem(lease, "orders", {"code": "X"}),
    "add_constraint": lambda c, lease, s: c.add_constraint(lease, "order_keys", Unique("orders", ("o_orderkey",))),
    "remove_constraint": lambda c, lease, s: c.remove_constraint(lease, "line_orders"),
    "hold_constraint": lambda c, lease, s: c.hold_constraint(lease, "line_orders", Interval(Csn(2), Csn(4))),
    "forget_constraint": lambda c, lease, s: c.forget_constraint(lease, "line_orders"),
    "break_constraint": lambda c, lease, s: c.break_constraint(lease, "line_orders", Csn(3), {"key": [7]}),
    "number_units": lambda c, lease, s: c.number_units(
        lease,
        [[commit("orders", 7, 9), commit("lineitem", 3, 9)], [commit("orders", 8, 9)]],
        captured={"orders": (8, 9), "lineitem": (3, 9)},
        problems={"orders": {"code": "X"}},
        new_table=NATION,
    ),
    "insert_view": lambda c, lease, s: c.insert_view(
        lease, FRESH, LEAVES, query_lists=ENTRIES, step_id=s.create, outcome={}
    ),
    "alter_view": lambda c, lease, s: c.alter_view(
        lease, VIEW.view_id, options={"refresh": "strict"}, leaves=[replace(LEAVES[0], width_kind="csn", width_value=7)]
    ),
    "begin_drop": lambda c, lease, s: c.begin_drop(lease, VIEW.view_id, {"locations": ["a", "b"]}),
    "replace_query_lists": lambda c, lease, s: c.replace_query_lists(lease, VIEW.view_id, ENTRIES[:1]),
    "set_view_problem": lambda c, lease, s: c.set_view_problem(lease, VIEW.view_id, {"code": "X"}),
    "set_kept_from": lambda c, lease, s: c.set_kept_from(lease, VIEW.view_id, Csn(1)),
    "set_width": lambda c, lease, s: c.set_width(lease, VIEW.view_id, LeafId(0), "csns", 2),
    "begin_step": lambda c, lease, s: c.begin_step(lease, VIEW.view_id, "apply", {"to": 3}),
    "record_execution": lambda c, lease, s: c.record_execution(lease, s.propagate, 1, "o@now", Csn(3)),
    "finish_step": lambda c, lease, s: c.finish_step(lease, s.drop, {}),
    "finish_propagate": lambda c, lease, s: c.finish_propagate(
        lease, s.propagate, TIMES, query_lists=ENTRIES[:1], outcome={}
    ),
    "finish_apply": lambda c, lease, s: c.finish_apply(
        lease, s.apply, csn=Csn(4), version=1, outcome={}, refresh=REFRESH
    ),
    "reset_view": lambda c, lease, s: c.reset_view(
        lease, VIEW.view_id, s.apply, csn=Csn(4), version=1, delta_location="/new", outcome={}, refresh=REFRESH
    ),
    "record_refresh": lambda c, lease, s: c.record_refresh(lease, REFRESH),
    "publish_release": lambda c, lease, s: c.publish_release(lease, Csn(4), [RELEASED]),
    "begin_collection": lambda c, lease, s: c.begin_collection(lease, some_garbage),
    "finish_collection": lambda c, lease, s: c.finish_collection(lease, s.collection or 0, {"files": 7}),
    "add_source": lambda c, lease, s: c.add_source(lease, replace(SHOP, source_id="other")),
    "set_up_source": lambda c, lease, s: c.set_up_source(lease, "shop", {"slot": "s"}, {"lsn": 7}),
    "set_waiting": lambda c, lease, s: c.set_waiting(lease, "shop", [{"what": "version 3"}]),
    "remove_source": lambda c, lease, s: c.remove_source(lease, "shop"),
    "add_mirror": lambda c, lease, s: c.add_mirror(lease, NATION, MIRROR, 2),
    "forget_key": lambda c, lease, s: c.forget_key(lease, MIRROR),
    "begin_round": lambda c, lease, s: c.begin_round(lease, {"first": c.newest_csn() + 1}),
    "finish_round": lambda c, lease, s: c.finish_round(
        lease,
        s.round,
        RoundOutcome([[commit("orders", 7, 9)]], captured={"orders": (7, 9)}, positions={"shop": {"lsn": 9}}),
    ),
    "abandon_round": lambda c, lease, s: c.abandon_round(lease, s.round),
    "move_sources": lambda c, lease, s: c.move_sources(lease, {"shop": {"lsn": 8}}, {"orders": {"code": "X"}}),
}
UNFENCED: dict[str, Write] = {
    "add_cost_samples": lambda c, lease, s: c.add_cost_samples([SAMPLE]),
    "set_rows": lambda c, lease, s: c.set_rows("orders", 4, 17),
    "tag_release": lambda c, lease, s: c.tag_release("june", Csn(3)),
    "untag_release": lambda c, lease, s: c.untag_release("may"),
    "set_retention": lambda c, lease, s: c.set_retention(RetentionSettings(7, 8, frozenset({"may"}))),
    "open_reader": lambda c, lease, s: c.open_reader(None, holder="me", ttl=60),
    "renew_reader": lambda c, lease, s: c.renew_reader(s.snapshot, ttl=90),
    "close_reader": lambda c, lease, s: c.close_reader(s.snapshot),
}
"""Writes that anyone may make: what they say is true whoever says it, or concerns nobody else."""


def prepare(catalog: Catalog, lease: Lease, name: str) -> Steps:
    populate(catalog, lease)
    catalog.publish_release(lease, Csn(2), [RELEASED])
    catalog.publish_release(lease, Csn(3), [])
    catalog.tag_release("may", Csn(2))
    snapshot = catalog.open_reader(Csn(2), holder="reader", ttl=60).lease.snapshot_id
    begun = catalog.begin_collection(lease, lambda _: CollectionIntent(Horizon(Csn(0)), ()))
    if name != "finish_collection":
        catalog.finish_collection(lease, begun.collection_id)
    catalog.add_base_table(lease, replace(ORDERS, name="unused"))
    catalog.add_source(lease, SHOP)
    if name == "forget_key":
        catalog.add_mirror(lease, NATION, MIRROR, 2)
    rounds = [catalog.begin_round(lease, {"first": catalog.newest_csn() + 1})] if name.endswith("_round") else []
    if name == "begin_round":
        catalog.abandon_round(lease, rounds[0].round_id)
    steps = Steps(
        catalog.begin_step(lease, "fresh", "create", {}).step_id,
        catalog.begin_step(lease, VIEW.view_id, "propagate", {}).step_id,
        catalog.begin_step(lease, VIEW.view_id, "apply", {}).step_id,
        catalog.begin_step(lease, VIEW.view_id, "drop", {}).step_id,
        begun.collection_id,
        snapshot,
        rounds[0].round_id if rounds else 0,
    )
    catalog.add_constraint(lease, "line_keys", Unique("lineitem", ("o_orderkey",)))
    catalog.add_constraint(lease, "line_orders", ForeignKey("orders", ("o_orderkey",), "lineitem", ("o_orderkey",)))
    catalog.add_constraint(lease, "unused_keys", Unique("unused", ("o_orderkey",)))
    catalog.hold_constraint(lease, "line_orders", Interval(Csn(2), Csn(2)))
    catalog.record_execution(lease, steps.propagate, 0, "l@now", Csn(2))
    return steps


def test_no_write_is_forgotten_here() -> None:
    methods = inspect.getmembers(Catalog, inspect.isfunction)
    fenced = {
        name
        for name, method in methods
        if not name.startswith("_") and "lease" in inspect.signature(method).parameters and name != "check_lease"
    }
    assert fenced == set(WRITES)


@pytest.mark.parametrize("name", WRITES)
def test_a_zombie_can_not_write(catalog: Catalog, opened: Callable[[], Catalog], name: str) -> None:
    other = opened()
    with catalog.lease("view") as lease:
        steps = prepare(catalog, lease, name)
        with catalog._database.write() as connection:
            connection.execute(sa.update(schema.driver_leases).values(expires_at=1))
        with other.lease("view") as taken:
            before = everything(catalog, leases=True)
            with pytest.raises(LeaseLost, match=taken.holder):
                WRITES[name](catalog, lease, steps)
            assert everything(catalog, leases=True) == before
            WRITES[name](other, taken, steps)
            assert everything(catalog, leases=True) != before


class Cut(Exception):
    """The process ends here."""


@pytest.mark.parametrize("name", WRITES | UNFENCED)
def test_a_write_cut_short_anywhere_leaves_nothing(catalog: Catalog, name: str) -> None:
    """Fail before the first statement, the second, ... and the commit, until the write goes through."""
    engine = catalog._database.engine
    remaining = 0

    def count(*_: Any) -> None:
        nonlocal remaining
        remaining -= 1
        if remaining < 0:
            raise Cut

    with catalog.lease("view") as lease:
        steps = prepare(catalog, lease, name)
        before = everything(catalog)
        cuts = 0
        while True:
            remaining = cuts
            for moment in ("before_cursor_execute", "commit"):
                sa.event.listen(engine, moment, count)
            try:
                (WRITES | UNFENCED)[name](catalog, lease, steps)
                break
            except Cut:
                cuts += 1
            finally:
                for moment in ("before_cursor_execute", "commit"):
                    sa.event.remove(engine, moment, count)
            assert everything(catalog) == before
        assert cuts >= (3 if name in WRITES else 2)  # the write lock, the lease if any, and at least one statement
        assert everything(catalog) != before


def test_a_view_is_replaced_as_a_whole_or_not_at_all(catalog: Catalog) -> None:
    with catalog.lease("view") as lease:
        steps = prepare(catalog, lease, "insert_view")
        new = replace(VIEW, view_id="fresh", sql="SELECT 2")
        dropping = catalog.insert_view(
            lease, new, LEAVES, step_id=steps.create, replacing=(VIEW.view_id, {"name": VIEW.name, "locations": ["a"]})
        )
        assert dropping is not None
        assert (dropping.driver, dropping.state, dropping.view_id) == ("drop", "intended", VIEW.view_id)
        assert catalog.view(VIEW.name).view_id == "fresh"
