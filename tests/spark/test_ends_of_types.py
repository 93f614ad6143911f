"""Values at the ends of their types, where arithmetic and spelling are narrow."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headwater.context import Sizes
from tests.spark.oracle import World


@pytest.mark.heavy
def test_the_smallest_bigint_leaves_a_sum_and_comes_back(make_world: Callable[..., World]) -> None:
    """What is left can be had, though 2^63 is no bigint: with and without carried totals."""
    world = make_world("least")
    world.make("r", "k INT, v BIGINT", "(1, -9223372036854775808), (1, 5), (2, 7), (2, NULL)")
    world.make("s", "k INT", "(1), (2)")
    world.create("carried", "SELECT k, sum(v) AS t, avg(k) AS a FROM r GROUP BY k", "OPTIONS (refresh = 'strict')")
    world.create(
        "joined",
        "SELECT s.k, t FROM s JOIN (SELECT k, sum(v) AS t FROM r GROUP BY k) g ON s.k = g.k",
        "OPTIONS (refresh = 'strict')",
    )
    for statement in (
        "DELETE FROM {r} WHERE v < 0",
        "INSERT INTO {r} VALUES (2, -9223372036854775808), (3, -9223372036854775808)",
        "UPDATE {r} SET k = 4 WHERE v < 0 AND k = 2",
        "DELETE FROM {r} WHERE v < 0",
    ):
        world.run(statement)
        for view in ("carried", "joined"):
            assert world.refresh(view).mode == "incremental"
    for view in ("carried", "joined"):
        world.check_law(view)


def test_keys_with_a_nul_before_digits_are_found_in_the_view(make_world: Callable[..., World]) -> None:
    world = make_world("nul")
    world.lake._context.sizes = Sizes(small_view=0)
    world.make("r", "k STRING, n INT", "('a', 0)")
    world.create("v", "SELECT k, n FROM r", "CLUSTER BY (k)")
    world.run("INSERT INTO {r} SELECT CAST(X'003031' AS STRING), 1")
    world.run("INSERT INTO {r} SELECT CAST(X'61003031' AS STRING), 1")
    world.refresh("v")
    world.run("UPDATE {r} SET n = 2 WHERE n = 1")
    assert world.refresh("v").mode == "incremental"
    world.check_law("v")
