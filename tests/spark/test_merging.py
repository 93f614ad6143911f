"""Rows of a change meet those of a large view by a hash of their columns, and by all of them where the hashes agree."""

from __future__ import annotations

from collections.abc import Callable

from tests.spark.oracle import World
from tests.spark.test_rewriting import MERGED, newest


def test_rows_of_one_hash_are_told_apart_by_what_is_not_hashed(make_world: Callable[..., World]) -> None:
    """Numbers with a fraction and arrays take no part in the hash: all rows here have the same one."""
    world = make_world("one hash")
    world.lake._context.sizes = MERGED
    start = "(1, 0.5, array('x')), (1, 0.25, NULL), (1, NULL, array())"
    world.make("r", "k INT, f DOUBLE, a ARRAY<STRING>", start)
    world.create("v", "SELECT k, f, a FROM r")
    world.create("two", "SELECT k, f, a, -k AS other FROM r")
    world.create("single", "SELECT f FROM r")  # nothing to hash
    for statement in (
        "INSERT INTO {r} VALUES (1, double('NaN'), array(NULL)), (1, 0.5, array('x')), (1, 0.5, array('y'))",
        "UPDATE {r} SET f = 0.75 WHERE f = 0.25",
        "DELETE FROM {r} WHERE isnan(f) OR f IS NULL",
    ):
        world.run(statement)
        for view in world.views:
            assert world.refresh(view, label=statement).mode == "incremental"
            assert newest(world, view)[0] == "MERGE"
    for view in world.views:
        world.check_law(view)
