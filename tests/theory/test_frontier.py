"""Versioned tables: the frontier formula keeps the law, in whatever order and widths the leaves advance."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headwater.algebra.query import BaseDelta, CsnRule, Patched, Snapshot
from headwater.algebra.time import Csn, Interval
from headwater.engine.reference import History
from headwater.errors import InternalError
from headwater.propagate.frontier import Frontier, PropagationStep, advance
from tests.theory.worlds import CHUNKS, Law, World, natural_join, random_moment, random_world, seeds


def random_targets(world: World, frontier: Frontier) -> tuple[Csn, ...]:
    """Some leaves advance, by any width, most often one at a time."""
    random, last = world.random, world.last
    together = random.random() < 0.3
    chosen = random.randrange(len(frontier.times))
    return tuple(
        Csn(random.randint(time, last)) if together or leaf == chosen else time
        for leaf, time in enumerate(frontier.times)
    )


def run_step(law: Law, step: PropagationStep) -> None:
    for query in step.queries:
        law.run(query)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_the_law_holds_at_every_csn_up_to_the_mark(chunk: int) -> None:
    for seed in seeds(chunk):
        world = random_world(seed, passed=True)
        start = random_moment(world)
        law = Law(world, start)
        frontier = Frontier.at(world.plan, start)
        steps = 0
        while frontier.high_water_mark < world.last:
            steps += 1
            targets = random_targets(world, frontier) if steps < 8 else tuple(world.last for _ in frontier.times)
            step = advance(world.plan, frontier, targets, world.history)
            assert step.before == frontier
            run_step(law, step)
            frontier = step.after
            frontier.validate()
            law.check(frontier.high_water_mark)


class AlwaysChanging:
    """A log that knows nothing: no query is skipped, no term simplified."""

    def has_changes(self, table: str, interval: Interval) -> bool:
        return True


@pytest.mark.parametrize("seed", range(100))
def test_skipping_and_simplifying_change_no_answer(seed: int) -> None:
    world = random_world(seed, passed=True)
    start = Frontier.at(world.plan, Csn(0))
    halfway = random_targets(world, start)
    short, full = Law(world, Csn(0)), Law(world, Csn(0))
    for log, law in ((world.history, short), (AlwaysChanging(), full)):
        step = advance(world.plan, start, halfway, log)
        run_step(law, step)
        run_step(law, advance(world.plan, step.after, tuple(world.last for _ in halfway), log))
    assert short.view_delta.consolidate() == full.view_delta.consolidate()
    full.check(world.last)


def violated(world: World, rule: CsnRule, *, patched: bool) -> bool:
    law = Law(world, Csn(0))
    frontier = Frontier.at(world.plan, Csn(0))
    for query in advance(world.plan, frontier, tuple(world.last for _ in frontier.times), world.history).queries:
        terms = tuple(
            Snapshot(term.interval.end) if isinstance(term, Patched) and not patched else term for term in query.terms
        )
        law.run(replace(query, terms=terms, rule=rule))
    return any(law.violations(world.last))


def test_the_check_catches_the_earliest_rule_and_snapshots_that_lost_their_csns() -> None:
    worlds = [random_world(seed, passed=True) for seed in range(60)]
    assert not any(violated(world, CsnRule.LATEST, patched=True) for world in worlds)
    assert sum(violated(world, CsnRule.EARLIEST, patched=True) for world in worlds) >= 5
    assert sum(violated(world, CsnRule.LATEST, patched=False) for world in worlds) >= 5


def history_with(csns: int, **changed_at: tuple[int, ...]) -> History:
    history = History()
    for csn in range(1, csns + 1):
        history.commit({table: [((1, csn), 1)] for table, at in changed_at.items() if csn in at})
    return history


def test_terms_of_a_leaf_behind_level_and_ahead() -> None:
    plan = natural_join("a", "b", "c")
    log = history_with(9, a=(5,), b=(4, 7), c=(1,))
    step = advance(plan, Frontier((Csn(4), Csn(8), Csn(2))), (Csn(6), Csn(8), Csn(2)), log)
    assert [query.terms for query in step.queries] == [
        (BaseDelta(Interval(Csn(4), Csn(6))), Patched(Interval(Csn(4), Csn(8))), Snapshot(Csn(2)))
    ]
    assert step.queries[0].rule is CsnRule.LATEST
    assert step.after == Frontier((Csn(6), Csn(8), Csn(2)))
    assert step.after.high_water_mark == 2


def test_a_table_unchanged_ahead_is_one_snapshot() -> None:
    plan = natural_join("a", "b")
    log = history_with(9, a=(5,), b=(4,))
    step = advance(plan, Frontier((Csn(4), Csn(8))), (Csn(6), Csn(8)), log)
    assert step.queries[0].terms == (BaseDelta(Interval(Csn(4), Csn(6))), Snapshot(Csn(4)))


def test_leaves_advance_in_leaf_order_within_a_step() -> None:
    """[Salem00 §3.1, Eq. 2] mirrored: tables already advanced are seen new, the others old."""
    plan = natural_join("a", "b", "c")
    log = history_with(3, a=(1, 2, 3), b=(1, 2, 3), c=(1, 2, 3))
    step = advance(plan, Frontier.at(plan, Csn(0)), (Csn(3),) * 3, log)
    changes, old, new = BaseDelta(Interval(Csn(0), Csn(3))), Snapshot(Csn(0)), Patched(Interval(Csn(0), Csn(3)))
    assert [query.terms for query in step.queries] == [(changes, old, old), (new, changes, old), (new, new, changes)]


def test_a_leaf_without_changes_advances_without_a_query() -> None:
    plan = natural_join("a", "b")
    step = advance(plan, Frontier.at(plan, Csn(0)), (Csn(5), Csn(5)), history_with(5, b=(2,)))
    assert [sorted(query.marked) for query in step.queries] == [[1]]
    assert step.after.high_water_mark == 5


def test_targets_never_go_back() -> None:
    plan = natural_join("a", "b")
    with pytest.raises(InternalError, match="never goes back"):
        advance(plan, Frontier((Csn(3), Csn(3))), (Csn(4), Csn(2)), History())


def test_leaves_frontier_and_targets_must_agree() -> None:
    plan = natural_join("a", "b")
    with pytest.raises(InternalError, match="2 leaves"):
        advance(plan, Frontier((Csn(3),)), (Csn(4),), History())
    with pytest.raises(InternalError, match="at least one leaf"):
        Frontier(()).validate()
    with pytest.raises(InternalError, match="before the beginning"):
        Frontier((Csn(-1),)).validate()
