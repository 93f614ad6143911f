"""A query taken apart answers as it did whole, whatever its inputs' order and however often it is taken apart."""

from __future__ import annotations

import pytest

from headwater.algebra.apart import Joined, apart, in_order
from headwater.algebra.plan import Join, validate
from headwater.algebra.query import BaseDelta, CsnRule, Query, Snapshot
from headwater.algebra.time import Csn, Interval
from headwater.engine.reference import ReferenceEngine
from headwater.propagate.frontier import Frontier, advance
from tests.theory.worlds import World, natural_join, random_world


def in_parts(world: World, query: Query) -> tuple[ReferenceEngine, Query, int]:
    """The query in a random order from the changed input on, with its first inputs staged again and again."""
    engine, steps = world.engine, 0
    (leaf,) = query.marked
    whole = Joined.of(query.plan)
    start = whole.input_with(leaf)
    others = [index for index in range(len(whole.inputs)) if index != start]
    world.random.shuffle(others)
    term = query.terms[leaf]
    assert isinstance(term, BaseDelta)
    query = in_order(query, [start, *others])
    while (width := len(Joined.of(query.plan).inputs)) > 1 and world.random.random() < 0.8:
        first = world.random.randint(1, width)
        inner, query = apart(query, first, f"step#{steps}", term.interval)
        validate(inner.plan)
        validate(query.plan)
        engine = engine.with_changes(f"step#{steps}", engine.run(inner).rows)
        steps += 1
        if first == 1 and steps > 3:
            break
    return engine, query, steps


def test_parts_answer_as_the_whole() -> None:
    taken = 0
    for seed in range(400):
        world = random_world(seed, passed=True)
        targets = tuple(world.last for _ in world.tables())
        for query in advance(world.plan, Frontier.at(world.plan, Csn(0)), targets, world.history).queries:
            engine, rest, steps = in_parts(world, query)
            found = engine.run(rest).rows.consolidate()
            assert found == world.engine.run(query).rows.consolidate(), f"seed {seed}: {query}"
            taken += steps
    assert taken > 300


def test_conditions_go_with_the_first_part_that_can_ask_them_and_nothing_is_kept_for_nothing() -> None:
    plan = natural_join("a", "b", "c")
    interval = Interval(Csn(0), Csn(2))
    query = Query(plan, (BaseDelta(interval), Snapshot(Csn(0)), Snapshot(Csn(0))), CsnRule.LATEST, sign=-1)
    inner, rest = apart(query, 2, "step", interval)
    assert isinstance(plan, Join)
    assert Joined.of(inner.plan).conditions == plan.conditions[:1]
    assert Joined.of(rest.plan).conditions == plan.conditions[1:]
    assert (inner.sign, rest.sign) == (1, -1)
    assert rest.terms == (BaseDelta(interval), Snapshot(Csn(0)))


def test_the_changed_input_must_be_in_the_first_part() -> None:
    interval = Interval(Csn(0), Csn(2))
    query = Query(natural_join("a", "b"), (Snapshot(Csn(0)), BaseDelta(interval)), CsnRule.LATEST)
    with pytest.raises(ValueError, match="do not hold all changes"):
        apart(query, 1, "step", interval)
