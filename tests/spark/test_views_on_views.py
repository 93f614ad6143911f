"""Views on views: to any depth, diamonds included, all at one csn."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import headwater
from headwater.algebra.time import Csn
from headwater.apply.driver import recompute
from headwater.definition import Definition
from headwater.errors import BeyondHighWaterMark
from headwater.propagate.driver import propagate_leaves
from headwater.refresh import bring_below
from tests.spark.constructs import TABLES
from tests.spark.oracle import World, assert_rows_equal

PER_KEY = "SELECT k, count(*) AS n, sum(v) AS t FROM r GROUP BY k"
JOINED = "SELECT r.k, r.v, s.w FROM r JOIN s ON r.k = s.k"
DIAMOND = "SELECT p.k, p.n, j.w FROM per_key p LEFT JOIN joined j ON p.k = j.k"
TOP = "SELECT n, count(*) AS m FROM diamond GROUP BY n"
CTES = {"per_key": PER_KEY, "joined": JOINED, "diamond": DIAMOND}
WHOLE = f"WITH {', '.join(f'{name} AS ({text})' for name, text in CTES.items())} "


@pytest.fixture(scope="module")
def world(make_world: Callable[..., World]) -> World:
    world = make_world("views_on_views")
    for name in ("r", "s"):
        world.make(name, *TABLES[name])
    world.look()
    for name, text in CTES.items():
        world.create(name, text)
    world.create("top", TOP)
    world.views |= {"diamond": WHOLE + DIAMOND, "top": WHOLE + TOP}
    return world


def test_a_graph_of_views_is_brought_to_one_csn_whatever_is_refreshed_first(world: World) -> None:
    world.run("INSERT INTO {r} VALUES (1, 1, 'a', 1.0), (9, 9, 'n', 9.0)")
    world.run("DELETE FROM {s} WHERE k = 1")
    report = world.refresh("top")
    assert report.mode == "incremental"
    assert world.view_csn("per_key") < report.csn  # propagated, not refreshed
    world.run("UPDATE {r} SET k = 2 WHERE k = 9")
    world.run("INSERT INTO {s} VALUES (2, 7, 'q'), (NULL, 1, 'x')")
    for name in ("joined", "top", "diamond", "per_key"):
        report = world.refresh(name)
        assert report.mode == "incremental"
    assert len({world.view_csn(name) for name in ("per_key", "joined", "diamond", "top")}) == 1
    for name in ("diamond", "top"):
        world.check_law(name)


def test_a_view_that_others_read_is_not_dropped(world: World) -> None:
    with pytest.raises(headwater.HeadwaterError, match="read by diamond"):
        world.lake.sql("DROP MATERIALIZED VIEW joined")
    world.refresh("joined")


def test_a_view_over_a_recomputed_past_is_recomputed_and_says_so(make_world: Callable[..., World]) -> None:
    world = make_world("lost_past")
    world.make("r", *TABLES["r"])
    world.look()
    world.create("per_key", PER_KEY)
    world.create("big", "SELECT k, n FROM per_key WHERE n > 1")
    world.views["big"] = f"WITH per_key AS ({PER_KEY}) SELECT k, n FROM per_key WHERE n > 1"
    world.lake.resync("r")
    world.noticed("r")
    world.run("INSERT INTO {r} VALUES (2, 1, 'a', 1.0)")
    report = world.refresh("big")
    assert (report.mode, report.reason) == ("full", "UPSTREAM_RECOMPUTED")
    world.run("INSERT INTO {r} VALUES (3, 1, 'a', 1.0)")
    assert world.refresh("big").mode == "incremental"


def test_a_chain_of_views_over_a_recomputed_past_is_recomputed_from_below(make_world: Callable[..., World]) -> None:
    """What lies between is marked only when the lowest one is recomputed: it must be looked at again."""
    world = make_world("lost_below")
    world.make("r", *TABLES["r"])
    world.look()
    world.create("low", PER_KEY)
    world.create("mid", "SELECT k, n FROM low WHERE n > 0")
    world.create("high", "SELECT n, count(*) AS m FROM mid GROUP BY n")
    whole = f"WITH low AS ({PER_KEY}), mid AS (SELECT k, n FROM low WHERE n > 0) "
    world.views |= {"high": whole + "SELECT n, count(*) AS m FROM mid GROUP BY n"}
    world.lake.resync("r")
    world.noticed("r")
    world.run("INSERT INTO {r} VALUES (2, 1, 'a', 1.0)")
    report = world.refresh("high")
    assert (report.mode, report.reason) == ("full", "UPSTREAM_RECOMPUTED")
    world.run("INSERT INTO {r} VALUES (3, 1, 'a', 1.0)")
    assert world.refresh("high").mode == "incremental"


def test_a_recomputed_view_does_not_stay_when_a_table_below_another_view_was_begun_anew(
    make_world: Callable[..., World],
) -> None:
    """Nothing had marked it, and a table that is followed since a csn has no change at that csn."""
    world = make_world("lost_unmarked")
    world.make("r", *TABLES["r"])
    world.look()
    world.create("low", PER_KEY)
    world.create("high", "SELECT k, n FROM low", "OPTIONS (refresh = 'full')")
    world.views["high"] = f"SELECT k, n FROM ({PER_KEY})"
    world.run("INSERT INTO {r} VALUES (2, 1, 'a', 1.0), (77, 1, 'a', 1.0)")
    world.lake.resync("r")
    world.noticed("r")
    report = world.refresh("high")
    assert (report.mode, report.reason) == ("full", "POLICY_FULL")
    assert world.lake.refresh("high").mode == "none"


def test_a_select_reads_views_and_tables_together(world: World) -> None:
    answer = world.lake.sql("SELECT p.k, p.n FROM per_key p JOIN r ON r.k = p.k WHERE p.n > 1")
    expected = world.expected(
        f"SELECT p.k, p.n FROM ({PER_KEY}) p JOIN r ON r.k = p.k WHERE p.n > 1", world.newest_csn()
    )
    assert_rows_equal(answer, expected)


def test_a_view_below_is_not_taken_back_and_not_read_beyond_where_it_stands(make_world: Callable[..., World]) -> None:
    """Another driver may read it where it stands; at a csn that it has not reached its rows are of another moment."""
    world = make_world("below stays")
    world.make("r", "k INT, v INT", "(1, 1)")
    world.create("low", "SELECT k, v FROM r", "OPTIONS (refresh = 'full')")
    world.create("high", "SELECT k, count(*) AS n FROM low GROUP BY k")
    context = world.lake._context
    for key in (2, 3):
        world.run(f"INSERT INTO {{r}} VALUES ({key}, 1)")
    newest = world.lake.refresh("low").csn
    bring_below(context, Definition.load(context.catalog.view("high")), Csn(newest - 1))
    assert context.catalog.view("low").csn == newest
    world.run("INSERT INTO {r} VALUES (4, 1)")
    later = world.lake.capture()
    with pytest.raises(BeyondHighWaterMark):
        recompute(context, "high", Csn(later), "VIEW_ON_RECOMPUTED", started=0.0)
    world.views["high"] = "WITH low AS (SELECT k, v FROM r) SELECT k, count(*) AS n FROM low GROUP BY k"
    world.refresh("high")
    assert world.view_csn("high") == later


def test_a_leaf_on_a_view_may_stay_behind_the_others(make_world: Callable[..., World]) -> None:
    """Each leaf goes where it is told; the view below is needed as far as its own leaf goes."""
    world = make_world("leaf behind")
    world.make("r", "k INT, v INT", "(1, 1)")
    world.make("s", "k INT, w INT", "(1, 5)")
    world.create("low", "SELECT k, v FROM r WHERE v > 0")
    world.create("high", "SELECT low.k, low.v, s.w FROM low JOIN s ON low.k = s.k")
    start = world.lake.capture()
    world.run("INSERT INTO {r} VALUES (2, 2)")
    world.run("INSERT INTO {s} VALUES (1, 6), (2, 7)")
    newest = world.lake.capture()
    context = world.lake._context
    assert propagate_leaves(context, "high", [Csn(start), Csn(newest)]) == start
    assert context.catalog.leaves(context.catalog.view("low").view_id)[0].t_comp == start
    world.views["high"] = f"WITH low AS ({world.views['low']}) {world.views['high']}"
    assert world.refresh("high").mode == "incremental"
    world.check_law("high")
