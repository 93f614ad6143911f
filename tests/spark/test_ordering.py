"""A large view's table is kept in the order of a key, and a change is merged within the ranges of its keys."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.context import Sizes
from tests.spark.oracle import World

KINDS = {
    "tiny": ("TINYINT", ("-128", "-1", "0", "127")),
    "big": ("BIGINT", ("-9223372036854775808", "-1025", "5000", "9223372036854775807")),
    "day": ("DATE", ("DATE '0001-01-01'", "DATE '1999-12-31'", "DATE '2000-01-01'", "DATE '9999-12-31'")),
    "text": ("STRING", ("''", "'a`b'", "'it''s'", "'\\u00fc'")),
    "moment": ("TIMESTAMP_NTZ", tuple(f"TIMESTAMP_NTZ'2020-01-01 00:00:0{n}.00000{n}'" for n in range(4))),
    "zoned": ("TIMESTAMP", tuple(f"TIMESTAMP'2020-10-25 0{n}:30:00'" for n in range(4))),
}


def test_a_change_of_few_keys_reads_the_files_of_those_keys_alone(make_world: Callable[..., World]) -> None:
    """The others are taken away before the refresh, which does not notice."""
    world = make_world("ranges")
    world.lake._context.sizes = Sizes(small_view=0)
    world.make("r", "v STRING, k INT, g INT", "('a', 1, 1), ('b', 2, 1), ('b', 2, 1)")
    world.create("v", "SELECT v, g, k FROM r")
    stored = world.lake._context.catalog.view("v")
    assert stored.cluster_by == ("k",)  # it has the most values
    first = list(Path(stored.location).glob("*.parquet"))
    world.run("INSERT INTO {r} VALUES ('c', 5000, 2), ('n', NULL, 3)")
    assert world.refresh("v").mode == "incremental"
    for place in first:
        place.rename(place.with_suffix(".away"))
    for statement in ("UPDATE {r} SET v = 'x' WHERE k = 5000 OR k IS NULL", "INSERT INTO {r} VALUES ('m', NULL, 3)"):
        world.run(statement)
        world.lake.refresh("v")
    for place in first:
        place.with_suffix(".away").rename(place)
    world.run("DELETE FROM {r} WHERE k = 2")
    assert world.refresh("v").mode == "incremental"
    world.check_law("v")


@pytest.mark.heavy
def test_new_rows_of_new_keys_are_appended_and_all_else_is_merged(make_world: Callable[..., World]) -> None:
    world = make_world("appended")
    world.lake._context.sizes = Sizes(small_view=0)
    world.make("r", "k INT, v STRING", "(1, 'a'), (1000, 'b')")
    world.create("v", "SELECT k, v FROM r", "CLUSTER BY (k)")

    def operation(*statements: str) -> str:
        for statement in statements:
            world.run(statement)
        assert world.refresh("v").mode == "incremental"
        stored = world.lake._context.catalog.view("v")
        newest = world.lake._context.engine.history(stored.location, 1)[0]
        assert newest.version == stored.version
        kept = world.lake._context.engine.rows_in(stored.location, stored.version)
        assert kept == world.lake.read("v").distinct().count()
        return newest.operation

    # The first of them is in the cell of keys that 1000 is in too.
    assert operation("INSERT INTO {r} VALUES (1001, 'c'), (1001, 'c'), (5000, 'd')") == "WRITE"
    assert operation("INSERT INTO {r} VALUES (1001, 'other')") == "MERGE"
    assert operation("INSERT INTO {r} VALUES (6000, 'e')", "DELETE FROM {r} WHERE k = 1") == "MERGE"
    assert operation("INSERT INTO {r} VALUES (NULL, 'f')") == "WRITE"
    assert operation("INSERT INTO {r} VALUES (NULL, 'f'), (7000, 'g')") == "MERGE"
    # What came and went again takes something away, though it nets to new rows alone.
    assert operation("INSERT INTO {r} VALUES (8000, 'h'), (9000, 'i')", "DELETE FROM {r} WHERE k = 8000") == "MERGE"
    assert operation("INSERT INTO {r} VALUES (-5, 'j')") == "WRITE"
    assert operation("INSERT INTO {r} VALUES (3, 'between')") == "WRITE"
    world.check_law("v")
    world.refresh("v", to=world.kept_from("v"))


def test_a_small_view_is_not_put_in_order_when_it_is_recomputed(
    make_world: Callable[..., World], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark computed its rows twice, to see first where the keys lie: TPC-H Q2 took twice as long as it should."""
    world = make_world("recomputed in order")
    world.make("r", "k INT, v STRING", "(1, 'a'), (1000, 'b')")
    world.create("v", "SELECT k, v FROM r", "CLUSTER BY (k) OPTIONS (refresh = 'full')")
    engine, computed = world.lake._context.engine, list[str]()
    compute = engine.compute
    monkeypatch.setattr(engine, "compute", lambda text: (computed.append(text), compute(text))[1])
    for small, ordered in ((100, False), (0, True)):
        world.lake._context.sizes = Sizes(small_view=small)
        world.run(f"INSERT INTO {{r}} VALUES ({small}, 'c')")
        assert world.refresh("v").mode == "full"
        assert any("REPARTITION_BY_RANGE" in text for text in computed) is ordered
        computed.clear()


@pytest.mark.heavy
def test_keys_of_every_kind_with_nulls_and_at_the_ends_of_their_types(make_world: Callable[..., World]) -> None:
    world = make_world("kinds")
    world.lake._context.sizes = Sizes(small_view=0)
    columns = ", ".join(f"{name} {kind}" for name, (kind, _) in KINDS.items())
    row = [", ".join(values[n] for _, values in KINDS.values()) for n in range(4)]
    world.make("r", f"n INT, {columns}", f"(0, {row[0]}), (1, {row[1]})")
    for name in KINDS:
        world.create(f"by_{name}", f"SELECT {name}, n FROM r", f"CLUSTER BY ({name})")
    world.run(f"INSERT INTO {{r}} VALUES (2, {row[2]}), (2, {row[2]}), (3, {row[3]})")
    world.run(f"INSERT INTO {{r}} VALUES (4{', NULL' * len(KINDS)})")
    for name in KINDS:
        world.refresh(f"by_{name}")
    world.run("UPDATE {r} SET n = n + 10 WHERE n <> 1")
    world.run("DELETE FROM {r} WHERE n = 12")
    for name in KINDS:
        assert world.refresh(f"by_{name}").mode == "incremental"
