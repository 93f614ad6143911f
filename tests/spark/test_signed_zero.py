"""-0.0 and 0.0 are equal and one group, but two texts: what a view made of one is taken away as it was given."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headwater.context import Sizes
from tests.spark.oracle import World

VIEWS = {
    "beside_a_join": "SELECT r.k, s.w, CAST(r.d AS STRING) AS t FROM r LEFT JOIN s ON r.k = s.k",
    "within_an_array": "SELECT r.k, s.w, CAST(r.a AS STRING) AS t FROM r LEFT JOIN s ON r.k = s.k",
    "beside_a_rank": "SELECT k, CAST(d AS STRING) AS t, rank() OVER (PARTITION BY k ORDER BY n) AS i FROM r",
    "first_rows": "SELECT k, CAST(d AS STRING) AS t FROM (SELECT k, n, d FROM r ORDER BY n LIMIT 3)",
    "joined": "SELECT r.k, s.w, CAST(r.d AS STRING) AS t FROM r JOIN s ON r.k = s.k",
}


@pytest.mark.heavy
def test_the_sign_of_zero_is_not_lost_on_the_way(make_world: Callable[..., World]) -> None:
    world = make_world("zeros")
    rows = "(1, 1, -0.0D, array(-0.0D)), (1, 2, 0.0D, array(0.0D)), (2, 3, 1.5D, array(1.5D))"
    world.make("r", "k INT, n INT, d DOUBLE, a ARRAY<DOUBLE>", rows)
    world.make("s", "k INT, w INT", "(2, 3)")
    world.look()
    for name, sql in VIEWS.items():
        world.create(name, sql, "OPTIONS (refresh = 'incremental')")
    world.lake._context.sizes = Sizes(large_table=1)
    for statement in (
        "INSERT INTO {s} VALUES (1, 5)",
        "INSERT INTO {r} VALUES (1, 0, -0.0D, array(-0.0D, NULL))",
        "DELETE FROM {r} WHERE n = 1",
        "UPDATE {s} SET w = 6 WHERE k = 1",
        "DELETE FROM {s} WHERE k = 1",
    ):
        world.run(statement)
    for name in VIEWS:
        assert world.refresh(name, label=name).mode == "incremental"
        world.check_law(name)


@pytest.mark.heavy
def test_a_view_on_a_view_sees_zeros_as_they_are_stored(make_world: Callable[..., World]) -> None:
    world = make_world("stored")
    world.make("r", "k INT, d DOUBLE", "(1, -0.0D), (2, 1.5D)")
    world.look()
    world.create("below", "SELECT k, d FROM r", "OPTIONS (refresh = 'incremental')")
    world.create("above", "SELECT k, CAST(d AS STRING) AS t FROM below", "OPTIONS (refresh = 'incremental')")
    for statement, rows in (
        ("INSERT INTO {r} VALUES (3, -0.0D)", [(1, "0.0"), (2, "1.5"), (3, "0.0")]),
        ("DELETE FROM {r} WHERE k = 1", [(2, "1.5"), (3, "0.0")]),
    ):
        world.run(statement)
        assert world.lake.refresh("above").mode == "incremental"
        assert sorted(map(tuple, world.lake.read("above").collect())) == rows
