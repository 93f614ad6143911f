"""Keys and foreign keys on Spark: verified on the data, used while they hold, never trusted into a wrong view."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from headwater.context import Sizes
from headwater.errors import HistoryLost
from tests.spark.keyed import VIEWS, Keyed
from tests.spark.oracle import WAYS, World


def outcomes(world: World, view: str) -> list[dict[str, Any]]:
    """What the last propagation steps of a view say of its constraints, newest first."""
    record = world.lake._context.catalog.view(view)
    steps = world.lake._context.catalog.done_steps(record.view_id, "propagate", limit=50)
    return [(step.outcome or {})["integrity"] for step in steps]


def known(world: World) -> dict[str, tuple[int | None, int | None]]:
    return {each.name: (each.held_from, each.held_to) for each in world.lake.constraints()}


@pytest.mark.heavy
def test_what_constraints_make_empty_is_not_computed_until_the_data_breaks_them(
    make_world: Callable[..., World],
) -> None:
    world = make_world("births")
    keyed = Keyed.made(world, 1)
    world.create("v", VIEWS[0])
    assert all(each.holds and each.looked_at == "state" for each in world.lake.verify())

    # A new order is not looked for among old items.
    keyed.new_orders()
    world.lake.capture()
    world.lake.propagate("v")
    assert outcomes(world, "v")[0] == {"queries": 2, "cut": 1, "broken": {}}

    # A day of new and deleted orders: taken apart by the fates of their keys.
    keyed.new_orders()
    keyed.orders_go()
    newest = world.lake.capture()
    world.lake.propagate("v")
    assert outcomes(world, "v")[0]["pieces"] == ["o[kept by k]", "o[born+kept by k]"]
    assert known(world)["l_o_fkey"][1] == known(world)["o_pkey"][1] == newest

    # A second order of a key: found when the change arrives, told, and the view is kept without the constraint.
    world.run("INSERT INTO {o} VALUES (1, NULL, 9), (2, NULL, 9)")
    world.refresh("v")
    told = outcomes(world, "v")[0]
    assert (told["queries"], told["cut"]) == (1, 0)
    problem = told["broken"]["o_pkey"]
    assert problem["csn"] == newest + 1
    (broken,) = [each for each in world.lake.constraints("o") if each.name == "o_pkey"]
    assert broken.broken == problem
    assert broken.held_to == newest
    world.check_law("v")

    # A check pays where it spares reading a large table; of small ones, nothing is asked.
    world.lake._context.sizes = Sizes()
    keyed.new_orders()
    world.refresh("v")
    assert outcomes(world, "v")[0] == {"queries": 2, "cut": 0, "broken": {}}


@pytest.mark.heavy
def test_a_constraint_that_was_mended_is_used_again_after_a_look(make_world: Callable[..., World]) -> None:
    world = make_world("mended")
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
    world.refresh("v")
    assert outcomes(world, "v")[0]["cut"] == 1
    assert [each.looked_at for each in world.lake.verify("o")] == ["changes", "changes"]

    newest = world.view_csn("v")
    world.run("INSERT INTO {o} VALUES (1, NULL, 9)")
    world.refresh("v")
    assert outcomes(world, "v")[0]["broken"] == {"o_pkey": {"csn": newest + 1, "keys": [{"key": '{"k":1}', "rows": 2}]}}
    keyed.new_orders()
    world.refresh("v")
    assert outcomes(world, "v")[0]["cut"] == 0
    found = {each.constraint.name: each for each in world.lake.verify("o")}
    assert (found["o_pkey"].holds, found["o_pkey"].looked_at) == (False, "state")

    world.run("DELETE FROM {o} WHERE v = 9")
    assert all(each.holds for each in world.lake.verify("o"))
    world.refresh("v")
    keyed.new_orders()
    world.refresh("v")
    assert outcomes(world, "v")[0]["cut"] == 1
    world.check_law("v")


@pytest.mark.heavy
def test_what_is_known_of_a_column_is_not_believed_of_another_under_its_name(make_world: Callable[..., World]) -> None:
    """An old row refers, under the new name, to an order that comes later: as one that can't be, it would be cut."""
    world = make_world("renamed_key")
    world.make("o", "k STRING", "('a')", mapped=True)
    world.make("i", "id INT, f STRING, g STRING", "(1, 'a', 'Z')", mapped=True)
    world.look()
    world.lake.declare("o", primary_key="k")
    world.lake.declare("i", foreign_key={"f": "o.k"})
    assert all(each.holds for each in world.lake.verify())
    for old, new in (("f", "f0"), ("g", "f")):
        world.run(f"ALTER TABLE {{i}} RENAME COLUMN {old} TO {new}")
    world.run("INSERT INTO {i} (id, f0, f) VALUES (2, 'a', 'a')")
    world.create("v", "SELECT i.id, o.k FROM i JOIN o ON i.f = o.k")
    world.lake._context.sizes = replace(Sizes(), checked=0)
    world.run("INSERT INTO {o} VALUES ('Z')")
    assert world.refresh("v").mode == "incremental"
    assert outcomes(world, "v")[0]["cut"] == 0
    found = {each.constraint.name: each for each in world.lake.verify()}
    assert (found["i_f_fkey"].looked_at, found["i_f_fkey"].holds) == ("state", True)
    # And verify by itself, without a step before it.
    world.run("ALTER TABLE {i} RENAME COLUMN f TO other")
    world.run("ALTER TABLE {i} RENAME COLUMN f0 TO f")
    world.run("INSERT INTO {i} (id, f, other) VALUES (3, 'a', 'nobody')")
    found = {each.constraint.name: each for each in world.lake.verify()}
    assert (found["i_f_fkey"].looked_at, found["i_f_fkey"].holds) == ("state", True)


@pytest.mark.heavy
def test_what_is_known_of_a_column_is_not_believed_over_changes_made_under_another_name(
    make_world: Callable[..., World], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A column that had its name back was taken to have had it all along, and what others wrote to be its rows."""
    world = make_world("there_and_back")
    world.make("i", "f INT, g INT", "(1, 1)", mapped=True)
    world.look()
    world.lake.declare("i", unique="f")
    assert all(each.holds for each in world.lake.verify())
    held = known(world)["i_f_key"]
    for old, new in (("f", "x"), ("g", "f")):
        world.run(f"ALTER TABLE {{i}} RENAME COLUMN {old} TO {new}")
    world.run("INSERT INTO {i} (x, f) VALUES (1, 2)")
    for old, new in (("f", "g"), ("x", "f")):
        world.run(f"ALTER TABLE {{i}} RENAME COLUMN {old} TO {new}")
    world.run("INSERT INTO {i} (f, g) VALUES (3, 3)")
    (found,) = world.lake.verify()
    assert (found.looked_at, found.holds, found.constraint.held_from) == ("state", False, held[0])
    world.run("DELETE FROM {i} WHERE g = 2")
    (found,) = world.lake.verify()
    assert (found.looked_at, found.holds) == ("state", True)

    def lost(table: str, *_: Any) -> None:
        raise HistoryLost("its log was cleaned", table=table)

    # Where nobody knows what its columns were called, the whole state tells.
    monkeypatch.setattr(world.lake._context.source, "renaming_commits", lost)
    world.run("ALTER TABLE {i} ADD COLUMN h INT")
    world.run("INSERT INTO {i} (f, g) VALUES (4, 4)")
    (found,) = world.lake.verify()
    assert (found.looked_at, found.holds) == ("state", True)


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
        world.lake._context.sizes = replace(WAYS[seed % len(WAYS)], checked=0)
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


@pytest.mark.heavy
@pytest.mark.parametrize("seed", [5, 7])
def test_a_history_with_keys_kept_and_broken(make_world: Callable[..., World], seed: int) -> None:
    assert history(make_world, seed, commits=5) >= 0


@pytest.mark.soak
@pytest.mark.parametrize("chunk", range(4))
def test_histories_with_keys_kept_and_broken(make_world: Callable[..., World], chunk: int) -> None:
    assert sum(history(make_world, seed, commits=8) for seed in range(chunk * 6, chunk * 6 + 6)) > 0
