"""Keys and foreign keys on Spark: verified on the data, used while they hold, never trusted into a wrong view."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.spark.keyed import VIEWS, Keyed
from tests.spark.oracle import WAYS, World


def outcomes(world: World, view: str) -> list[dict[str, Any]]:
    """What the last propagation steps of a view say of its constraints, newest first."""
    record = world.lake._context.catalog.view(view)
    steps = world.lake._context.catalog.done_steps(record.view_id, "propagate", limit=50)
    return [(step.outcome or {})["integrity"] for step in steps]


def known(world: World) -> dict[str, tuple[int | None, int | None]]:
    return {each.name: (each.held_from, each.held_to) for each in world.lake.constraints()}


def test_a_new_order_is_not_looked_for_among_old_items(make_world: Callable[..., World]) -> None:
    world = make_world("births")
    keyed = Keyed.made(world, 1)
    world.create("v", VIEWS[0])
    keyed.new_orders()
    world.refresh("v")
    assert outcomes(world, "v")[0] == {"queries": 2, "cut": 0, "broken": {}}  # nothing is verified yet
    verified = world.lake.verify()
    assert [(each.constraint.name, each.holds, each.looked_at) for each in verified] == [
        (name, True, "state") for name in ("c_pkey", "l_o_fkey", "o_c_fkey", "o_pkey")
    ]
    keyed.new_orders()
    keyed.new_orders()
    world.refresh("v")
    assert outcomes(world, "v")[0] == {"queries": 2, "cut": 1, "broken": {}}
    newest = world.view_csn("v")
    assert known(world)["l_o_fkey"][1] == known(world)["o_pkey"][1] == newest
    assert [each.looked_at for each in world.lake.verify("o")] == ["changes", "changes"]
    world.check_law("v")

    # A second order of a key: found when the change arrives, told, and from then on the view is kept without it.
    world.run("INSERT INTO {o} VALUES (1, NULL, 9)")
    world.refresh("v")
    told = outcomes(world, "v")[0]
    assert (told["queries"], told["cut"]) == (1, 0)
    assert told["broken"] == {"o_pkey": {"csn": newest + 1, "keys": [{"key": '{"k":1}', "rows": 2}]}}
    (broken,) = [each for each in world.lake.constraints("o") if each.name == "o_pkey"]
    assert broken.broken == {"csn": newest + 1, "keys": [{"key": '{"k":1}', "rows": 2}]}
    keyed.new_orders()
    world.refresh("v")
    assert outcomes(world, "v")[0]["cut"] == 0
    found = {each.constraint.name: each for each in world.lake.verify("o")}
    assert (found["o_pkey"].holds, found["o_pkey"].looked_at) == (False, "state")

    # Mended, and looked at again: it is used again.
    world.run("DELETE FROM {o} WHERE v = 9")
    assert all(each.holds for each in world.lake.verify("o"))
    world.refresh("v")
    keyed.new_orders()
    world.refresh("v")
    assert outcomes(world, "v")[0]["cut"] == 1
    world.check_law("v")


def test_the_ddl_of_a_delta_table_declares_what_it_can(make_world: Callable[..., World]) -> None:
    world = make_world("ddl")
    world.make("o", "k INT, v INT")
    assert world.lake.declare("o", from_ddl=True) == []


def history(make_world: Callable[..., World], seed: int, *, commits: int) -> int:
    """A random history of a random view over tables whose constraints may be broken; how many queries were cut."""
    rng = random.Random(seed)
    world = make_world(f"keyed{seed}")
    keyed = Keyed.made(world, seed)
    story = [f"seed {seed}"]
    honest = rng.random() < 0.5
    try:
        world.lake.verify()
        world.lake._context.sizes = WAYS[seed % len(WAYS)]
        world.create("v", VIEWS[seed % len(VIEWS)])
        done = 0
        while done < commits:
            for _ in range(rng.randint(1, 3)):
                done += 1
                story.append(keyed.honest() if honest or rng.random() < 0.6 else keyed.dishonest())
            if rng.random() < 0.3:
                story.append(f"verified {[each.as_dict() for each in world.lake.verify()]}")
            story.append(str(world.refresh("v")))
            story.append(str(outcomes(world, "v")[0]))
        world.check_law("v")
        if honest:
            assert all(each.holds for each in world.lake.verify(full=True))
        return sum(each["cut"] for each in outcomes(world, "v"))
    except Exception as error:
        story_text = "\n".join(story)
        raise AssertionError(f"{type(error).__name__}: {error}\n{story_text}") from error


def test_a_history_with_keys_kept_and_broken(make_world: Callable[..., World]) -> None:
    assert history(make_world, 5, commits=5) >= 0


@pytest.mark.soak
@pytest.mark.parametrize("chunk", range(4))
def test_histories_with_keys_kept_and_broken(make_world: Callable[..., World], chunk: int) -> None:
    assert sum(history(make_world, seed, commits=8) for seed in range(chunk * 6, chunk * 6 + 6)) > 0
