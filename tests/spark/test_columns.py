"""Columns that change without a change of rows: renamed, dropped, added, and what a view then says."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headwater.errors import SchemaChanged
from tests.spark.oracle import World


@pytest.mark.heavy
def test_another_column_under_the_name_of_one_that_a_view_uses_is_told(make_world: Callable[..., World]) -> None:
    """Names and types are as before; what stands in them is not, and no feed tells of it."""
    world = make_world("columns")
    world.make("swapped", "k INT, a INT, b INT", "(1, 10, 20)", mapped=True)
    world.make("again", "k INT, v INT, w INT", "(1, 10, 20)", mapped=True)
    world.create("on_swapped", "SELECT k, a FROM swapped")
    world.create("on_again", "SELECT k, v FROM again")
    world.create("on_others", "SELECT again.k, w FROM swapped JOIN again ON swapped.k = again.k")
    for old, new in (("a", "tmp"), ("b", "a"), ("tmp", "b")):
        world.run(f"ALTER TABLE {{swapped}} RENAME COLUMN {old} TO {new}")
    world.run("INSERT INTO {swapped} (k, a, b) VALUES (2, 1, 2)")
    world.run("ALTER TABLE {again} DROP COLUMN v")
    world.run("ALTER TABLE {again} ADD COLUMN v INT")
    world.run("INSERT INTO {again} (k, v, w) VALUES (2, 30, 40)")
    with pytest.raises(SchemaChanged, match="Column a of 'swapped' has the name b"):
        world.lake.refresh("on_swapped")
    with pytest.raises(SchemaChanged, match="Column v of 'again' has been dropped"):
        world.lake.refresh("on_again")
    assert world.refresh("on_others").mode == "incremental"  # it uses none of these columns
    world.check_law("on_others")
    # One way out that the message names.
    world.lake.resync("again")
    world.noticed("again")
    assert world.refresh("on_again").mode == "full"
    # Where rows changed meanwhile, giving the names back is none.
    for old, new in (("a", "tmp"), ("b", "a"), ("tmp", "b")):
        world.run(f"ALTER TABLE {{swapped}} RENAME COLUMN {old} TO {new}")
    world.run("DELETE FROM {swapped} WHERE k = 2")
    with pytest.raises(SchemaChanged, match="Column a of 'swapped' has the name b") as caught:
        world.lake.refresh("on_swapped")
    assert "resync" in (caught.value.remedy or "")
    world.lake.resync("swapped")
    world.noticed("swapped")
    assert world.refresh("on_swapped").mode == "full"
    # Where none did, it is.
    for old, new in (("a", "tmp"), ("tmp", "a")):
        world.run(f"ALTER TABLE {{swapped}} RENAME COLUMN {old} TO {new}")
    world.run("INSERT INTO {swapped} (k, a, b) VALUES (3, 5, 6)")
    assert world.refresh("on_swapped").mode == "incremental"
    world.check_law("on_swapped")


@pytest.mark.heavy
def test_a_column_that_is_dropped_with_the_schema_is_told_though_no_view_uses_it(
    make_world: Callable[..., World],
) -> None:
    """Delta reads no feed across it where columns are not mapped by name."""
    world = make_world("overwritten")
    world.make("r", "k INT, v INT, unused INT", "(1, 1, 1)")
    world.create("v", "SELECT k, v FROM r")
    world.run("INSERT INTO {r} VALUES (2, 2, 2)")
    frame = world.spark.sql("SELECT 1 AS k, 10 AS v")
    frame.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(world.path("r"))
    world.look()
    with pytest.raises(SchemaChanged, match="A column of 'r' was dropped") as caught:
        world.lake.refresh("v")
    assert "resync" in (caught.value.remedy or "")
    world.lake.resync("r")
    world.noticed("r")
    assert world.refresh("v").mode == "full"
    world.run("INSERT INTO {r} VALUES (3, 3)")
    assert world.refresh("v").mode == "incremental"


@pytest.mark.heavy
def test_a_view_on_columns_that_changed_since_the_last_change_of_rows_is_not_made(
    make_world: Callable[..., World],
) -> None:
    """It would not know the new ones, and would fail at every refresh for the old ones."""
    world = make_world("later")
    world.make("dropped", "k INT, v INT, old INT", "(1, 1, 1)", mapped=True)
    world.make("added", "k INT", "(1)")
    world.run("ALTER TABLE {dropped} DROP COLUMN old")
    world.run("ALTER TABLE {added} ADD COLUMN z INT")
    with pytest.raises(SchemaChanged, match="old of 'dropped'"):
        world.create("on_dropped", "SELECT * FROM dropped")
    with pytest.raises(SchemaChanged, match="z of 'added'"):
        world.create("on_added", "SELECT k, z FROM added")
    world.create("on_others", "SELECT dropped.k, v FROM dropped JOIN added ON dropped.k = added.k")
    # The two ways out that the message names.
    world.run("INSERT INTO {dropped} VALUES (2, 2)")
    world.lake.resync("added")
    world.noticed("added")
    world.create("on_dropped", "SELECT * FROM dropped")
    world.create("on_added", "SELECT k, z FROM added")
    world.run("INSERT INTO {dropped} VALUES (3, 3)")
    world.run("INSERT INTO {added} VALUES (2, 2)")
    for view in ("on_dropped", "on_added"):
        assert world.refresh(view).mode == "incremental"
        world.check_law(view)
