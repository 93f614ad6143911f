"""A text that fails over some row: the view waits for the row to be corrected, and then goes on."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headwater.errors import ExpressionFails, WouldRecompute
from tests.spark.oracle import World


def test_a_row_that_fails_does_not_stop_a_view_for_good(make_world: Callable[..., World]) -> None:
    world = make_world("failing")
    world.make("r", "k INT, v INT", "(1, 1), (2, 2)")
    world.create("shares", "SELECT k, 10 / v AS x FROM r")
    world.create("sums", "SELECT k, sum(x) AS x FROM shares GROUP BY k")
    world.create("strict_shares", "SELECT k, 10 / v AS x FROM r", "OPTIONS (refresh = 'strict')")
    world.views["sums"] = "SELECT k, sum(10 / v) AS x FROM r GROUP BY k"
    world.run("INSERT INTO {r} VALUES (3, 0)")
    for view, kind in (("shares", ExpressionFails), ("sums", ExpressionFails), ("strict_shares", WouldRecompute)):
        with pytest.raises(kind, match="DIVIDE_BY_ZERO"):
            world.lake.refresh(view)
        world.check(view, at=0)
    world.run("UPDATE {r} SET v = 5 WHERE v = 0")
    report = world.refresh("sums")
    assert (report.mode, report.reason) == ("full", "UPSTREAM_RECOMPUTED")
    assert world.lake._context.catalog.refreshes("shares", limit=1)[0].reason == "FAILED_BETWEEN"
    with pytest.raises(WouldRecompute, match="FAILED_BETWEEN"):
        world.lake.refresh("strict_shares")
    world.run("INSERT INTO {r} VALUES (1, 2)")
    for view in ("shares", "sums"):
        assert world.refresh(view).mode == "incremental"
        world.check_law(view)


def test_a_decimal_sum_that_overflows_to_null_comes_back(make_world: Callable[..., World]) -> None:
    world = make_world("overflow")
    key = "spark.sql.ansi.enabled"
    before = world.spark.conf.get(key)
    world.spark.conf.set(key, "false")
    try:
        world.make("r", "k INT, d DECIMAL(38,0)", "(1, 6e37), (2, 1)")
        world.create("v", "SELECT k, sum(d) AS t, count(*) AS n FROM r GROUP BY k")
        for statement in (
            "INSERT INTO {r} VALUES (1, 6e37)",
            "DELETE FROM {r} WHERE k = 2",
            "INSERT INTO {r} VALUES (1, -6e37)",
        ):
            world.run(statement)
            assert world.refresh("v").mode == "incremental"
        world.check_law("v")
    finally:
        world.spark.conf.set(key, before)
