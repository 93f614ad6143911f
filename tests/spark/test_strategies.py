"""Every strategy on Spark keeps the law at every csn, over the same history."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

import headwater
from tests.spark.histories import COLUMNS, commit, rows
from tests.spark.oracle import WAYS, World

STRATEGIES = ("n-term", "tree", "recompute", "auto")
JOINED = "SELECT x.k, y.v, z.s FROM r x JOIN s y ON x.k = y.k JOIN t z ON y.v = z.k WHERE x.v > 0"
TEXTS = {
    "joined": JOINED,
    "self_joined": "SELECT a.k, b.v, c.s FROM r a JOIN r b ON a.k = b.k JOIN s c ON b.v <=> c.v",
    "united": "SELECT x.k, u.v FROM r x "
    "JOIN (SELECT k, v FROM s UNION ALL SELECT k, length(s) + 0.5 FROM t) u ON u.k = x.k",
    "grouped": f"SELECT k, count(*) AS n, sum(v) AS total FROM ({JOINED}) GROUP BY k",
}


def reports(world: World, view: str) -> list[dict[str, Any]]:
    record = world.lake._context.catalog.view(view)
    steps = world.lake._context.catalog.done_steps(record.view_id, "propagate", limit=50)
    return [block for step in steps for block in (step.outcome or {})["blocks"]]


def history(make_world: Callable[..., World], text: str, seed: int, *, rounds: int) -> World:
    rng = random.Random(seed)
    world = make_world(f"strategies{seed}")
    for name in ("r", "s", "t"):
        world.make(name, COLUMNS, rows(rng, 6))
    world.look()
    for name in STRATEGIES:
        world.create(name.replace("-", "_"), text, f"OPTIONS (strategy = '{name}')")
    story = [f"seed {seed}: {text}"]
    try:
        for number in range(rounds):
            world.lake._context.sizes = WAYS[(seed + number) % len(WAYS)]
            story += [commit(rng, world) for _ in range(rng.randint(2, 4))]
            world.lake.capture()
            for name in STRATEGIES:
                world.lake.propagate(name.replace("-", "_"))
        for name in STRATEGIES:
            view = name.replace("-", "_")
            story.append(f"the law for {name}: {reports(world, view)[:1]}")
            world.check_law(view)
            world.refresh(view)
    except Exception as error:
        told = "\n".join(story)
        raise AssertionError(f"{type(error).__name__}: {error}\n{told}") from error
    return world


@pytest.mark.heavy
def test_the_law_holds_for_every_strategy(make_world: Callable[..., World]) -> None:
    world = history(make_world, JOINED, 5, rounds=2)
    assert {report["strategy"] for report in reports(world, "tree")} == {"tree"}
    assert {report["strategy"] for report in reports(world, "recompute")} == {"recompute"}
    told = reports(world, "auto")[0]
    assert set(told["expected_seconds"]) == {"n-term", "tree", "recompute"}
    whole = reports(world, "tree")[0]["nodes"][-1]
    assert whole["leaves"] == [0, 1, 2]
    assert {"rows", "seconds", "expected"} <= whole.keys()


def test_a_strategy_is_forced_for_one_propagation_and_refused_where_there_is_none(
    make_world: Callable[..., World],
) -> None:
    world = make_world("forced")
    for name in ("r", "s"):
        world.make(name, COLUMNS, "(1, 1, 'a'), (2, 0, 'b')")
    world.look()
    world.create("v", "SELECT x.k, y.v FROM r x JOIN s y ON x.k = y.k")
    world.create("rolling", "SELECT x.k, y.v FROM r x JOIN s y ON x.k = y.k", "OPTIONS (method = 'rolling')")
    for number, name in enumerate(STRATEGIES):
        world.run(f"INSERT INTO {{r}} VALUES (1, {number}, 'c')")
        world.run("UPDATE {s} SET v = v + 1")
        world.lake.capture()
        world.lake.propagate("v", strategy=name)
    assert [report["strategy"] for report in reports(world, "v")[1:]] == ["recompute", "tree", "n-term"]
    world.check_law("v")
    for wrong in ({"view": "v", "strategy": "forest"}, {"view": "rolling", "strategy": "tree"}):
        with pytest.raises(headwater.HeadwaterError):
            world.lake.propagate(**wrong)
    with pytest.raises(headwater.HeadwaterError, match="no strategies"):
        world.create("w", "SELECT k FROM r", "OPTIONS (method = 'rolling', strategy = 'tree')")


@pytest.mark.heavy
@pytest.mark.parametrize("name", sorted(TEXTS))
def test_the_law_holds_for_every_shape_and_strategy(make_world: Callable[..., World], name: str) -> None:
    history(make_world, TEXTS[name], len(name), rounds=3)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(12))
def test_the_law_holds_for_every_shape_and_strategy_over_many_histories(
    make_world: Callable[..., World], seed: int
) -> None:
    history(make_world, sorted(TEXTS.values())[seed % len(TEXTS)], 100 + seed, rounds=4)
