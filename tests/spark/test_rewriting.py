"""A large view, all over which a large change lies, is written anew around it; any other change is merged."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headwater.context import Sizes
from headwater.engine.rewriting import MOST_HASHES, is_worth_it
from tests.spark.oracle import World

ALWAYS = Sizes(large_table=1, small_view=0, scattered=1)
MERGED = Sizes(large_table=1, small_view=0)
KINDS = (
    "k INT, b BIGINT, d DECIMAL(20, 3), f DOUBLE, s STRING, t TIMESTAMP, n TIMESTAMP_NTZ, y DATE, l BOOLEAN, x BINARY,"
    " a ARRAY<INT>, r STRUCT<p: INT, q: DOUBLE>"
)
ROW = (
    "({0}, bigint({0}) * 1000000007, {0} / 8, CASE WHEN {0} % 5 = 0 THEN double('NaN') ELSE {0} / 3 END, 'row {0}',"
    " TIMESTAMP'2020-01-01 00:00:00' + make_dt_interval({0}), TIMESTAMP_NTZ'2020-01-01 00:00:00',"
    " DATE'2020-01-01' + {0}, {0} % 2 = 0, CAST('{0}' AS BINARY), array({0}, NULL),"
    " named_struct('p', {0}, 'q', {0} / 7))"
)


def rows(*keys: int) -> str:
    return ", ".join(ROW.format(key) for key in keys)


def newest(world: World, view: str) -> tuple[str, str | None]:
    """The operation of the view's newest commit, and its mode; what the engine remembers of the table is right."""
    stored, engine = world.lake._context.catalog.view(view), world.lake._context.engine
    commit = engine.history(stored.location, 1)[0]
    assert commit.version == stored.version
    assert engine.rows_in(stored.location, stored.version) == world.lake.read(view).distinct().count()
    return commit.operation, commit.parameters.get("mode")


@pytest.mark.parametrize(
    ("sizes", "written"),
    [
        pytest.param(ALWAYS, ("WRITE", "Overwrite"), id="anew"),
        pytest.param(MERGED, ("MERGE", None), id="merged", marks=pytest.mark.heavy),
    ],
)
def test_a_change_all_over_a_view_of_all_types_is_written_with_all_of_it(
    make_world: Callable[..., World], sizes: Sizes, written: tuple[str, str | None]
) -> None:
    world = make_world("all over")
    world.lake._context.sizes = sizes
    world.make("r", KINDS, f"{rows(*range(20))}, {rows(3, 3)}")
    world.run("INSERT INTO {r} (k) VALUES (NULL), (NULL)")  # a row of NULLs, twice
    world.create("v", "SELECT * FROM r", "CLUSTER BY (k)")
    statements = (
        "UPDATE {r} SET f = -f, s = concat(s, '!'), r = named_struct('p', r.p, 'q', 0.5D) WHERE k % 3 = 0 OR k IS NULL",
        f"INSERT INTO {{r}} VALUES {rows(1, 7, 19, 40)}",  # some are there already
        "DELETE FROM {r} WHERE k IS NULL OR k > 2",
    )
    for statement in statements:
        world.run(statement)
        assert world.refresh("v", label=statement).mode == "incremental"
        assert newest(world, "v") == written, statement
    world.check_law("v")
    assert world.refresh("v", to=world.kept_from("v")).mode == "incremental"  # back over all of it
    assert newest(world, "v") == written
    world.refresh("v")


@pytest.mark.heavy
def test_changes_in_one_place_of_few_rows_or_of_numbers_alone_are_merged(make_world: Callable[..., World]) -> None:
    world = make_world("one place")
    world.lake._context.sizes = Sizes(small_view=0, scattered=2)
    world.make("r", "k INT, v STRING, f DOUBLE", ", ".join(f"({2000 * key}, 'v{key}', {key})" for key in range(10)))
    world.create("by_key", "SELECT k, v FROM r", "CLUSTER BY (k)")
    world.create("by_none", "SELECT v, k % 1000 AS m FROM r")
    world.create("numbers", "SELECT f FROM r")
    merged, anew = ("MERGE", None), ("WRITE", "Overwrite")
    for statement, by_key, by_none in (
        ("UPDATE {r} SET v = 'one', f = 0.5 WHERE k = 2000", merged, anew),  # without a key it may lie all over
        ("DELETE FROM {r} WHERE k = 4000", merged, merged),
        ("UPDATE {r} SET v = concat(v, '!'), f = f + 1 WHERE k <> 6000", anew, anew),
    ):
        world.run(statement)
        for view, wanted in (("by_key", by_key), ("by_none", by_none), ("numbers", merged)):
            assert world.refresh(view, label=statement).mode == "incremental"
            assert newest(world, view) == wanted, (view, statement)
    for view in world.views:
        world.check_law(view)


def test_what_goes_and_comes_again_is_no_change(make_world: Callable[..., World]) -> None:
    world = make_world("cancelling")
    world.lake._context.sizes = ALWAYS
    world.make("r", "k INT, v STRING", "(1, 'a'), (2, 'b'), (2, 'b')")
    world.create("v", "SELECT k, v FROM r", "CLUSTER BY (k)")
    world.run("UPDATE {r} SET v = 'x'")
    world.run("UPDATE {r} SET v = CASE k WHEN 1 THEN 'a' ELSE 'b' END")
    before = world.lake._context.catalog.view("v").version
    report = world.refresh("v")
    assert (report.mode, report.reason, report.rows) == ("incremental", "NO_NET_CHANGE", 0)
    assert world.lake._context.catalog.view("v").version == before
    world.check_law("v")


@pytest.mark.parametrize(
    ("rows", "changed", "among", "worth"),
    [
        (1_000_000, 40_000, 1_000_000, True),
        (1_000_000, 40_000, 500_000, True),
        (1_000_000, 40_000, 499_999, False),  # MERGE leaves out the other half
        (1_000_000, 39_999, 1_000_000, False),  # less than a twenty-fifth of it
        (200_000, 9_999, 200_000, False),  # few
        (200_000, 10_000, 200_000, True),
        (10**8, MOST_HASHES, 10**8, True),
        (10**8, MOST_HASHES + 1, 10**8, False),  # no task could hold the hashes
    ],
)
def test_writing_anew_pays_where_a_large_change_lies_all_over(rows: int, changed: int, among: int, worth: bool) -> None:
    assert is_worth_it(rows, changed, among, least=10_000) is worth
