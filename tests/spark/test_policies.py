"""OPTIONS (refresh = ...), ALTER, CREATE OR REPLACE, and EXPLAIN before anything is made."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import headwater
from headwater.choice import ADVANTAGE, HOPELESS, UNLIKELY
from tests.spark.constructs import TABLES
from tests.spark.oracle import World

PIVOT = "SELECT * FROM (SELECT k, v, 1 AS c FROM r) PIVOT (sum(v) FOR (k, c) IN ((1, 1) AS one, (2, 1) AS two))"
GROUPED = "SELECT k, count(*) AS n FROM r GROUP BY k"


@pytest.fixture(scope="module")
def world(make_world: Callable[..., World]) -> World:
    world = make_world("policies")
    for name in ("r", "s"):
        world.make(name, *TABLES[name])
    world.look()
    return world


def test_what_can_not_be_kept_is_recomputed_and_says_why(world: World) -> None:
    world.create("pivoted", PIVOT)
    status = next(each for each in world.lake.status().views if each.name == "pivoted")
    assert (status.last_mode, status.last_reason) == ("full", "PIVOT")
    assert "PIVOT" in str(world.lake.explain("pivoted"))
    world.run("INSERT INTO {r} VALUES (1, 5, 'a', 1.0)")
    report = world.refresh("pivoted")
    assert (report.mode, report.reason) == ("full", "PIVOT")
    assert world.lake.refresh("pivoted").mode == "none"
    with pytest.raises(headwater.HeadwaterError) as caught:
        world.lake.propagate("pivoted")
    assert caught.value.code == "PIVOT"


def test_auto_takes_the_way_that_it_expects_to_be_cheaper_and_tells_both(world: World) -> None:
    world.create("chosen", GROUPED, "OPTIONS (refresh = 'auto')")
    modes = []
    for value in range(3):
        world.run(f"INSERT INTO {{r}} VALUES (1, {value}, 'a', 1.0)")
        report = world.refresh("chosen")
        costs = report.alternatives
        assert costs is not None
        assert set(costs) == {"incremental", "full"}
        # What was never tried is tried, unless it looks hopeless; the first try is cold, and says little of warm ones.
        limit = (1 / HOPELESS, 1 / UNLIKELY, ADVANTAGE)[min(modes.count("incremental"), 2)]
        cheaper = costs["full"] < limit * costs["incremental"]
        assert (report.mode, report.reason) == (
            ("full", "FULL_IS_CHEAPER") if cheaper else ("incremental", "CHANGES_APPLIED")
        )
        modes.append(report.mode)
    told = world.lake.explain("chosen").as_dict()
    assert told["policy"] == "auto"
    assert set(told["costs"]["seconds"]) == {"incremental", "full"}
    assert "FULL_IS_CHEAPER" in told["falls_back"]
    if modes[-1] == "full":
        # What a recomputation leaves behind goes on: the next change is kept by its delta again.
        world.lake.sql("ALTER MATERIALIZED VIEW chosen SET OPTIONS (refresh = 'default')")
    world.run("DELETE FROM {r} WHERE v = 2")
    world.run("UPDATE {r} SET k = 2 WHERE v = 1")
    newest = world.lake.capture()
    assert world.lake.propagate("chosen") == newest
    world.check_law("chosen")


def test_auto_keeps_a_view_that_others_read(world: World) -> None:
    world.create("below", GROUPED, "OPTIONS (refresh = 'auto')")
    world.create("on_top", "SELECT n, count(*) AS m FROM below GROUP BY n")
    world.run("INSERT INTO {r} VALUES (1, 7, 'a', 1.0)")
    assert world.lake.refresh("below").mode == "incremental"


@pytest.mark.parametrize("policy", ["incremental", "strict"])
def test_incremental_refuses_at_create_what_can_not_be_kept(world: World, policy: str) -> None:
    with pytest.raises(headwater.HeadwaterError) as caught:
        world.create("refused", PIVOT, f"OPTIONS (refresh = '{policy}')")
    assert caught.value.code == "PIVOT"
    assert "refused" not in {view.name for view in world.lake.status().views}


def test_what_is_not_deterministic_is_not_even_recomputed(world: World) -> None:
    with pytest.raises(headwater.HeadwaterError) as caught:
        world.create("refused", PIVOT.replace("SELECT k, v", "SELECT k, rand() AS v"))
    assert caught.value.code == "NONDETERMINISTIC"


def test_full_recomputes_always(world: World) -> None:
    world.create("recomputed", GROUPED, "OPTIONS (refresh = 'full')")
    world.run("INSERT INTO {r} VALUES (1, 5, 'a', 1.0)")
    report = world.refresh("recomputed")
    assert (report.mode, report.reason) == ("full", "POLICY_FULL")


def test_a_view_on_a_recomputed_one_is_recomputed_too(world: World) -> None:
    world.create("above", "SELECT one FROM pivoted")
    world.views["above"] = f"SELECT one FROM ({PIVOT})"
    world.run("INSERT INTO {r} VALUES (1, 7, 'a', 1.0)")
    report = world.refresh("above")
    assert (report.mode, report.reason) == ("full", "VIEW_ON_RECOMPUTED")


def test_strict_fails_rather_than_recompute(make_world: Callable[..., World]) -> None:
    world = make_world("strict")
    world.make("r", *TABLES["r"])
    world.look()
    world.create("v", GROUPED, "OPTIONS (refresh = 'strict')")
    world.lake.resync("r")
    world.noticed("r")
    before = world.view_csn("v")
    with pytest.raises(headwater.HeadwaterError) as caught:
        world.lake.refresh("v")
    assert caught.value.code == "WOULD_RECOMPUTE"
    assert world.view_csn("v") == before
    world.lake.sql("ALTER MATERIALIZED VIEW v SET OPTIONS (refresh = 'auto')")
    assert world.refresh("v").mode == "full"


def test_alter_changes_widths_and_refuses_what_is_stored(world: World) -> None:
    world.create("altered", "SELECT r.k, s.w FROM r JOIN s ON r.k = s.k")
    world.lake.sql("ALTER MATERIALIZED VIEW altered SET OPTIONS ('width.r' = '1 csn')")
    leaves = {leaf["alias"]: leaf["width"] for leaf in world.lake.explain("altered").leaves}
    assert leaves == {"r": "1 csn", "s": "unlimited"}
    for options in ("refresh = 'full'", "method = 'rolling'", "refresh = 'sometimes'"):
        with pytest.raises(headwater.HeadwaterError):
            world.lake.sql(f"ALTER MATERIALIZED VIEW altered SET OPTIONS ({options})")
    world.run("INSERT INTO {s} VALUES (1, 77, 'x')")
    assert world.refresh("altered").mode == "incremental"


def test_replace_keeps_what_is_stored_if_the_text_means_the_same(world: World) -> None:
    world.create("again", GROUPED)
    csn = world.view_csn("again")
    world.run("INSERT INTO {r} VALUES (1, 5, 'a', 1.0)")
    world.lake.sql(f"CREATE OR REPLACE MATERIALIZED VIEW again OPTIONS (refresh = 'strict') AS {GROUPED.lower()}")
    assert world.view_csn("again") == csn  # nothing was computed
    assert world.refresh("again").mode == "incremental"


def test_replace_by_another_text_builds_anew_and_leaves_nothing_behind(world: World) -> None:
    world.create("changed", GROUPED)
    text = "SELECT k, sum(v) AS t FROM r GROUP BY k"
    world.lake.sql(f"CREATE OR REPLACE MATERIALIZED VIEW changed AS {text}")
    world.views["changed"] = text
    world.check("changed")
    world.run("INSERT INTO {r} VALUES (1, 5, 'a', 1.0)")
    assert world.refresh("changed").mode == "incremental"
    kept = [each.name for each in (world.folder / "lake" / "views").iterdir() if each.name.startswith("changed-")]
    assert len(kept) == 1


def test_replace_of_a_recomputed_view_by_another_text_builds_anew(world: World) -> None:
    """Of a recomputed view no plan is known, so only an equal text means the same."""
    world.create("whole", "SELECT k, count(v) AS n FROM r GROUP BY k", "OPTIONS (refresh = 'full')")
    for text in ("SELECT k, sum(v) AS n FROM r GROUP BY k", "SELECT k,  sum(v) AS n FROM r /* the same */ GROUP BY k"):
        before = world.lake._context.catalog.view("whole")
        world.lake.sql(f"CREATE OR REPLACE MATERIALIZED VIEW whole OPTIONS (refresh = 'full') AS {text}")
        world.views["whole"] = text
        world.check("whole")
        after = world.lake._context.catalog.view("whole")
        assert (after.view_id == before.view_id) is ("the same" in text)


def test_replace_by_the_same_text_keeps_what_is_stored_when_a_table_has_gained_a_column(world: World) -> None:
    world.make("grown", "k INT, v INT", "(1, 1), (1, 2)")
    world.create("on_grown", "SELECT k, count(*) AS n FROM grown GROUP BY k")
    before = world.lake._context.catalog.view("on_grown")
    world.run("ALTER TABLE {grown} ADD COLUMN z INT")
    world.run("INSERT INTO {grown} VALUES (2, 2, 2)")
    world.lake.sql(f"CREATE OR REPLACE MATERIALIZED VIEW on_grown AS {world.views['on_grown']}")
    assert world.lake._context.catalog.view("on_grown").view_id == before.view_id
    assert world.refresh("on_grown").mode == "incremental"
    assert world.kept_from("on_grown") == before.kept_from


def test_a_recomputed_view_does_not_mind_a_column_that_it_does_not_use(world: World) -> None:
    world.make("shrunk", "k INT, v INT, w INT", "(1, 1, 1), (1, 2, 2)", mapped=True)
    world.create("on_shrunk", "SELECT k, count(*) AS n FROM shrunk GROUP BY k", "OPTIONS (refresh = 'full')")
    world.run("ALTER TABLE {shrunk} DROP COLUMN w")
    world.run("INSERT INTO {shrunk} VALUES (2, 2)")
    assert world.refresh("on_shrunk").mode == "full"


@pytest.mark.heavy
def test_nothing_is_recomputed_where_no_table_of_the_view_changed(world: World) -> None:
    world.create("unmoved", GROUPED, "OPTIONS (refresh = 'full')")
    world.create("chosen_too", GROUPED, "OPTIONS (refresh = 'auto')")
    for _ in range(2):
        world.run("INSERT INTO {s} VALUES (5, 5, 'x')")
        report = world.refresh("unmoved")
        assert (report.mode, report.reason, report.csn) == ("none", "NO_CHANGES", world.newest_csn())
        report = world.refresh("chosen_too")
        assert (report.mode, report.reason, report.alternatives) == ("none", "NO_CHANGES", None)
        assert world.kept_from("chosen_too") < report.csn
    assert world.mark("unmoved") == world.newest_csn()
    world.lake.release()
    assert "unmoved" in world.lake.releases()[-1].versions
    world.run("INSERT INTO {r} VALUES (4, 5, 'a', 1.0)")
    assert world.refresh("unmoved").reason == "POLICY_FULL"


def test_a_replace_that_fails_leaves_the_old_view(world: World) -> None:
    world.create("kept", GROUPED)
    for text in ("SELECT nosuch FROM r", "SELECT k, rand() AS x FROM r", "SELECT k FROM kept"):
        with pytest.raises(headwater.HeadwaterError):
            world.lake.sql(f"CREATE OR REPLACE MATERIALIZED VIEW kept AS {text}")
    world.run("INSERT INTO {r} VALUES (4, 5, 'a', 1.0)")
    assert world.refresh("kept").mode == "incremental"


def test_explain_of_a_select_makes_nothing(world: World) -> None:
    before = {view.name for view in world.lake.status().views}
    plan = world.lake.sql(f"EXPLAIN MATERIALIZED VIEW {GROUPED}").collect()[0][0]
    assert "Kept incrementally" in plan
    assert "changes added to the view's own rows" in plan
    assert "Rows to go through" in plan
    plan = world.lake.sql(f"EXPLAIN MATERIALIZED VIEW {PIVOT}").collect()[0][0]
    assert "Recomputed at every refresh: PIVOT" in plan
    assert {view.name for view in world.lake.status().views} == before


def test_a_change_that_comes_to_nothing_in_a_view_without_rows(world: World) -> None:
    """A view that is written anew counts its changed rows where Spark can't leave the counting out."""
    world.create("empty", "SELECT r.k, s.w FROM r JOIN s ON r.k = s.k WHERE r.v = 12345")
    world.run("INSERT INTO {r} VALUES (1, 9, 'a', 1.0)")
    report = world.refresh("empty")
    assert (report.mode, report.reason, report.rows) == ("incremental", "NO_NET_CHANGE", 0)
    world.run("INSERT INTO {r} VALUES (1, 12345, 'a', 1.0)")
    assert world.refresh("empty").mode == "incremental"
    world.run("DELETE FROM {r} WHERE v = 12345")
    assert world.refresh("empty").mode == "incremental"
