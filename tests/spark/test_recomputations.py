"""What comes after a view was recomputed: its view delta goes on, or begins anew; a view on it may have no past."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from headwater.algebra.time import Csn
from headwater.apply.driver import recompute
from headwater.durable import DurablePoint
from headwater.errors import ExpressionFails, MomentBeforeHistory
from headwater.propagate.driver import propagate_leaves
from tests.spark.oracle import World


class Died(Exception):
    """Raised where a process is killed: leases are given back, the step stays open."""


def recompute_at(world: World, view: str, csn: int) -> None:
    recompute(world.lake._context, view, Csn(csn), "FULL_IS_CHEAPER", started=time.monotonic())


@pytest.mark.parametrize("point", [DurablePoint.APPLY_INTENDED, DurablePoint.APPLY_COMMITTED])
@pytest.mark.parametrize("propagated", [False, True])
def test_a_recomputation_that_died_is_finished_before_what_came_after_it(
    make_world: Callable[..., World], point: DurablePoint, propagated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Changes propagated after it stood in the view delta that it kept, and were propagated once more: twice each."""
    world = make_world("died")
    world.make("r", "k INT, v INT", "(1, 1)")
    world.create("v", "SELECT k, v FROM r")
    world.run("INSERT INTO {r} VALUES (2, 2)")
    csn = world.lake.capture()

    def die(reached: DurablePoint) -> None:
        if reached is point:
            raise Died

    with monkeypatch.context() as patched:
        patched.setattr(world.lake._context, "reached", die)
        with pytest.raises(Died):
            recompute_at(world, "v", csn)
    newest = csn
    if propagated:
        world.run("INSERT INTO {r} VALUES (3, 3)")
        newest = world.lake.capture()
        world.lake.propagate("v", to=newest)
    report = world.refresh("v")
    assert (report.csn, report.mode) == (newest, "incremental" if propagated else "full")
    world.run("DELETE FROM {r} WHERE k = 2")
    assert world.refresh("v").mode == "incremental"
    assert world.kept_from("v") == csn
    world.check_law("v")


def test_a_view_recomputed_while_a_leaf_was_ahead_begins_a_new_view_delta(make_world: Callable[..., World]) -> None:
    """The rows of the leaf that was ahead stood in the view delta already and were added again."""
    world = make_world("ahead")
    world.make("a", "k INT, v INT", "(1, 1)")
    world.make("b", "k INT, w INT", "(1, 5)")
    world.create("v", "SELECT a.k, a.v, b.w FROM a JOIN b ON a.k = b.k")
    start = world.lake.capture()
    world.run("INSERT INTO {a} VALUES (1, 2)")
    world.run("INSERT INTO {b} VALUES (1, 6)")
    world.run("INSERT INTO {a} VALUES (1, 3)")
    newest = world.lake.capture()
    propagate_leaves(world.lake._context, "v", [Csn(newest), Csn(start)])
    recompute_at(world, "v", newest - 1)
    world.check("v")
    assert world.refresh("v").mode == "incremental"
    world.check_law("v")


@pytest.mark.heavy
def test_a_step_that_fails_leaves_other_leaves_ahead_of_the_recomputation(make_world: Callable[..., World]) -> None:
    world = make_world("failed ahead")
    world.make("a", "k INT, v INT", "(1, 1), (2, 2)")
    world.make("b", "k INT, w INT", "(1, 5)")
    world.create("v", "SELECT a.k, a.v, 10 / b.w AS q FROM a JOIN b ON a.k = b.k", "OPTIONS (width = '100 csn')")
    for statement in (
        "INSERT INTO {a} VALUES (1, 7)",
        "INSERT INTO {b} VALUES (2, 0)",
        "DELETE FROM {b} WHERE w = 0",
        "INSERT INTO {a} VALUES (1, 8)",
    ):
        world.run(statement)
    newest = world.lake.capture()
    with pytest.raises(ExpressionFails):
        world.lake.propagate("v")
    view = world.lake._context.catalog.view("v")
    times = [leaf.time for leaf in world.lake._context.catalog.leaves(view.view_id)]
    assert times[0] == newest > times[1]
    assert world.refresh("v", to=newest - 1).reason == "FAILED_BETWEEN"
    assert world.refresh("v").mode == "incremental"
    world.check_law("v")


COUNTED = "SELECT k, count(*) AS n FROM r GROUP BY k"


@pytest.mark.parametrize("layout", ["current", "timeline"])
def test_a_recomputed_view_is_not_read_at_a_moment_before(make_world: Callable[..., World], layout: str) -> None:
    """A recomputed view on it took the rows of one csn for those of another."""
    world = make_world(f"further {layout}")
    world.make("r", "k INT", "(1)")
    world.create("below", COUNTED, f"OPTIONS (refresh = 'full', layout = '{layout}')")
    world.create("above", "SELECT k, n FROM below", "OPTIONS (refresh = 'full')")
    world.views["above"] = f"SELECT k, n FROM ({COUNTED})"
    for value in (2, 3):
        world.run(f"INSERT INTO {{r}} VALUES ({value})")
    newest = world.lake.capture()
    world.refresh("below", to=newest)
    with pytest.raises(MomentBeforeHistory, match="below"):
        world.lake.refresh("above", to=newest - 1)
    world.check("above")
    assert world.refresh("above").csn == newest


def test_the_reader_of_a_recomputed_view_is_not_brought_to_before_that(make_world: Callable[..., World]) -> None:
    """The wrong rows were the beginning of its past from then on."""
    world = make_world("lost")
    world.make("r", "k INT", "(1)")
    world.create("below", COUNTED)
    world.create("above", "SELECT k, n FROM below")
    world.views["above"] = f"SELECT k, n FROM ({COUNTED})"
    world.lake.resync("r")
    world.noticed("r")
    for value in (2, 3):
        world.run(f"INSERT INTO {{r}} VALUES ({value})")
    newest = world.lake.capture()
    assert world.refresh("below").mode == "full"
    with pytest.raises(MomentBeforeHistory, match="below"):
        world.lake.refresh("above", to=newest - 1)
    report = world.refresh("above")
    assert (report.mode, report.reason, report.csn) == ("full", "UPSTREAM_RECOMPUTED", newest)
    world.check_law("above")


def test_a_view_whose_hidden_columns_nobody_knows_any_more_is_recomputed_without_them(
    make_world: Callable[..., World],
) -> None:
    """Its definition could not be read, and so neither could the lake's status."""
    world = make_world("unknown_hidden")
    world.make("r", "k INT, v INT", "(1, 1), (1, 2), (2, 5)")
    for layout in ("current", "timeline"):
        world.create(f"in_{layout}", "SELECT k, avg(v) AS a FROM r GROUP BY k", f"OPTIONS (layout = '{layout}')")
        catalog = world.lake._context.catalog
        view = catalog.view(f"in_{layout}")
        assert view.hidden
        other = {**view.definition, "hidden": [[f"{name}0", kind] for name, kind in view.hidden]}
        with catalog.lease("by hand") as lease:
            leaves = catalog.leaves(view.view_id)
            catalog.alter_view(lease, view.view_id, options=view.options, leaves=leaves, definition=other)
        world.check(view.name)
        for row in ("(2, 6)", "(3, 7)"):
            world.run(f"INSERT INTO {{r}} VALUES {row}")
            report = world.refresh(view.name)
            assert (report.mode, report.reason) == ("full", "MISREAD")
        assert not catalog.view(view.name).hidden
