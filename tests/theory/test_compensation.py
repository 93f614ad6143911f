"""Live tables: ComputeDelta and Propagate [Salem00 §3.2, §3.3, Fig. 4, 5, 7, 8, Theorems 4.1 and 4.2]."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import product

import pytest

from headwater.algebra.plan import LeafId, scans
from headwater.algebra.query import BaseDelta, CsnRule, Present, Query, Snapshot, Term
from headwater.algebra.time import Csn, Interval
from headwater.algebra.zset import ZSet
from headwater.engine.reference import History, ReferenceEngine
from headwater.errors import InternalError
from headwater.propagate.compensation import Execution, compute_delta, present_view, propagate_interval
from tests.theory.worlds import CHUNKS, Law, World, natural_join, random_moment, random_world, seeds


def queries_of(execution: Execution, execution_times: Iterable[int]) -> list[str]:
    """The queries that are yielded when they are answered as of the given times, in print."""
    times = iter(execution_times)
    found = []
    try:
        query = next(execution)
        while True:
            found.append(str(query))
            query = execution.send(Csn(next(times)))
    except StopIteration:
        return found


def drive(law: Law, execution: Execution, change: Callable[[Query], Query | None] = lambda query: query) -> None:
    """Run a propagation while updates arrive; ``change`` may spoil or drop a query to see that the law notices."""
    world = law.world
    try:
        query = next(execution)
        while True:
            world.pass_time(world.random.choice((0, 0, 0, 1, 1, 2)))
            changed = change(query)
            query = execution.send(law.run(changed) if changed is not None else world.history.now)
    except StopIteration:
        return


def interval(start: int, end: int) -> Interval:
    return Interval(Csn(start), Csn(end))


class TestTheFiguresOfThePaper:
    def test_equation_3_figure_7_four_queries_for_two_relations(self) -> None:
        a, b, c, d = 1, 5, 7, 9
        assert queries_of(propagate_interval(natural_join("a", "b"), interval(a, b)), [c, c, d, d]) == [
            "r1Δ(1, 5] ⋈ r2@now",  # R1_{a,b} R2_c
            "-r1Δ(1, 5] ⋈ r2Δ(5, 7]",  # R1_{a,b} R2_{b,c}
            "r1@now ⋈ r2Δ(1, 5]",  # R1_d R2_{a,b}
            "-r1Δ(1, 9] ⋈ r2Δ(1, 5]",  # R1_{a,d} R2_{a,b}
        ]

    def test_figure_8_three_iterations_of_propagate(self) -> None:
        plan = natural_join("a", "b")
        found = []
        for start, end, first, second in ((1, 3, 4, 5), (3, 6, 7, 8), (6, 9, 9, 12)):
            found.append(queries_of(propagate_interval(plan, interval(start, end)), [first, first, second, second]))
        assert found == [
            ["r1Δ(1, 3] ⋈ r2@now", "-r1Δ(1, 3] ⋈ r2Δ(3, 4]", "r1@now ⋈ r2Δ(1, 3]", "-r1Δ(1, 5] ⋈ r2Δ(1, 3]"],
            ["r1Δ(3, 6] ⋈ r2@now", "-r1Δ(3, 6] ⋈ r2Δ(6, 7]", "r1@now ⋈ r2Δ(3, 6]", "-r1Δ(3, 8] ⋈ r2Δ(3, 6]"],
            # executed as of the interval's end: nothing to compensate for on the right
            ["r1Δ(6, 9] ⋈ r2@now", "r1@now ⋈ r2Δ(6, 9]", "-r1Δ(6, 9] ⋈ r2Δ(6, 9]"],
        ]

    def test_figure_4_compensates_the_compensation_of_three_relations(self) -> None:
        found = queries_of(propagate_interval(natural_join("a", "b", "c"), interval(0, 1)), range(2, 100))
        assert found[:5] == [
            "r1Δ(0, 1] ⋈ r2@now ⋈ r3@now",
            "-r1Δ(0, 1] ⋈ r2Δ(1, 2] ⋈ r3@now",
            "r1Δ(0, 1] ⋈ r2Δ(1, 2] ⋈ r3Δ(2, 3]",
            "-r1Δ(0, 1] ⋈ r2@now ⋈ r3Δ(1, 2]",
            "r1Δ(0, 1] ⋈ r2Δ(1, 5] ⋈ r3Δ(1, 2]",
        ]
        assert len(found) == 15

    def test_a_self_join_has_the_same_table_at_both_leaves(self) -> None:
        assert queries_of(propagate_interval(natural_join("a", "a"), interval(0, 1)), [1] * 4)[-1] == (
            "-r1Δ(0, 1] ⋈ r2Δ(0, 1]"
        )


class TestTheExamplesOfSection33:
    """Both tuples change inside (t_0, t_1] = (0, 3], at t_a = 1 and t_b = 2; queries run at t_c = t_d = 4."""

    def run(self, history: History) -> dict[str, ZSet]:
        plan = natural_join("r", "s")
        engine = ReferenceEngine(history)
        execution = propagate_interval(plan, interval(0, 3))
        answers: dict[str, ZSet] = {}
        query = next(execution)
        try:
            while True:
                answer = engine.run(query)
                answers[str(query)] = answer.rows
                query = execution.send(answer.execution_time)
        except StopIteration:
            return answers

    def test_deletion(self) -> None:
        history = History.beginning_with({"r": [(1, "r1")], "s": [(1, "r2")]})
        history.commit({"r": [((1, "r1"), -1)]})
        history.commit({"s": [((1, "r2"), -1)]})
        history.commit({})
        history.commit({})
        assert self.run(history) == {
            "r1Δ(0, 3] ⋈ r2@now": ZSet(),
            "-r1Δ(0, 3] ⋈ r2Δ(3, 4]": ZSet(),
            "r1@now ⋈ r2Δ(0, 3]": ZSet(),
            "-r1Δ(0, 4] ⋈ r2Δ(0, 3]": ZSet.of([((1, "r1", 1, "r2"), -1, Csn(1))]),
        }

    def test_insertion(self) -> None:
        history = History()
        history.commit({"r": [((1, "x1"), 1)]})
        history.commit({"s": [((1, "x2"), 1)]})
        history.commit({})
        history.commit({})
        answers = self.run(history)
        row = (1, "x1", 1, "x2")
        assert answers == {
            "r1Δ(0, 3] ⋈ r2@now": ZSet.of([(row, 1, Csn(1))]),
            "-r1Δ(0, 3] ⋈ r2Δ(3, 4]": ZSet(),
            "r1@now ⋈ r2Δ(0, 3]": ZSet.of([(row, 1, Csn(2))]),
            "-r1Δ(0, 4] ⋈ r2Δ(0, 3]": ZSet.of([(row, -1, Csn(1))]),
        }
        everything = sum(answers.values(), ZSet())
        assert everything.consolidate() == ZSet.of([(row, 1, Csn(2))])


def snapshot_query(world: World, times: Iterable[int], **marked: BaseDelta) -> Query:
    terms: list[Term] = [Snapshot(Csn(time)) for time in times]
    for leaf, term in marked.items():
        terms[int(leaf.removeprefix("leaf"))] = term
    return Query(world.plan, tuple(terms), CsnRule.LATEST)


@pytest.mark.parametrize("seed", range(100))
def test_equation_1_synchronous_propagation(seed: int) -> None:
    """[Salem00 §3.1, Eq. 1]: 2^n - 1 queries that all see the tables at the interval's end, signed by inclusion and
    exclusion.
    """
    world = random_world(seed, passed=True)
    leaves = len(world.tables())
    middle = world.random.randint(0, world.last)
    changes = BaseDelta(interval(middle, world.last))
    view_delta = ZSet()
    for choice in product((False, True), repeat=leaves):
        if any(choice):
            marked = {f"leaf{leaf}": changes for leaf, chosen in enumerate(choice) if chosen}
            rows = world.engine.run(snapshot_query(world, [world.last] * leaves, **marked)).rows
            view_delta += rows if sum(choice) % 2 else -rows
    rolled = world.engine.view_at(world.plan, Csn(middle)) + view_delta
    assert rolled.net_effect() == world.engine.view_at(world.plan, world.last)


@pytest.mark.parametrize("seed", range(100))
def test_equation_2_synchronous_propagation(seed: int) -> None:
    """[Salem00 §3.1, Eq. 2]: n queries, tables left of the delta seen at the start, right of it at the end."""
    world = random_world(seed, passed=True)
    leaves = len(world.tables())
    middle = world.random.randint(0, world.last)
    view_delta = ZSet()
    for leaf in range(leaves):
        times = [middle] * leaf + [world.last] * (leaves - leaf)
        marked = {f"leaf{leaf}": BaseDelta(interval(middle, world.last))}
        view_delta += world.engine.run(snapshot_query(world, times, **marked)).rows
    rolled = world.engine.view_at(world.plan, Csn(middle)) + view_delta
    assert rolled.net_effect() == world.engine.view_at(world.plan, world.last)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_theorem_4_2_propagate_keeps_the_law_while_updates_arrive(chunk: int) -> None:
    for seed in list(seeds(chunk))[::2]:
        world = random_world(seed)
        world.pass_time(world.random.randint(1, 4))
        current = random_moment(world)
        law = Law(world, current)
        log = world.history if world.random.random() < 0.8 else None
        while current < world.last:
            if current == world.history.now:
                world.pass_time(world.random.randint(1, 2))
            end = Csn(world.random.randint(current + 1, world.history.now))
            drive(law, propagate_interval(world.plan, Interval(current, end), log))
            current = end
            law.check(current)


@pytest.mark.parametrize("seed", range(200))
def test_theorem_4_1_compute_delta_from_a_vector_of_times_with_a_marked_leaf(seed: int) -> None:
    """The equation (*) of headwater.propagate.compensation, from which Theorems 4.1 to 4.3 follow."""
    world = random_world(seed)
    random, leaves = world.random, len(world.tables())
    world.pass_time(random.randint(2, 6))
    new = random.randint(1, world.history.now)
    old = [random.randint(0, new) for _ in range(leaves)]
    marked = random.choice((None, random.randrange(leaves)))
    query = present_view(world.plan)
    moments: list[int | None] = [None]
    if marked is not None:
        start = random.randint(0, world.history.now - 1)
        end = random.randint(start + 1, world.history.now)
        query = replace(
            query,
            terms=tuple(BaseDelta(interval(start, end)) if leaf == marked else Present() for leaf in range(leaves)),
        )
        moments = list(range(start + 1, end + 1))

    law = Law(world, Csn(0))
    drive(law, compute_delta(query, tuple(map(Csn, old)), Csn(new), world.history))

    def box(moment: int | None, times: Iterable[int]) -> ZSet:
        at_leaf = {} if moment is None else {f"leaf{marked}": BaseDelta(interval(moment - 1, moment))}
        return world.engine.run(snapshot_query(world, times, **at_leaf)).rows

    for t in range(world.history.now + 1):
        expected = ZSet()
        for moment in moments:
            if moment is not None and moment <= t:
                reached = [new] * leaves
            else:
                reached = [max(time, min(t, new)) for time in old]
            expected += box(moment, reached) - box(moment, old)
        assert law.view_delta.select(interval(0, t)).counts() == expected.counts(), f"seed {seed} at {t}"


def is_forward(query: Query) -> bool:
    return len(query.marked) == 1


SPOILERS: dict[str, Callable[[Query], Query | None]] = {
    "the latest csn rule": lambda query: replace(query, rule=CsnRule.LATEST),
    "no compensation": lambda query: query if is_forward(query) else None,
    "compensation without its sign": lambda query: replace(query, sign=1),
    "no compensation of the compensation": lambda query: query if len(query.marked) < 3 else None,
}


@pytest.mark.parametrize("spoiled", SPOILERS)
def test_the_check_catches(spoiled: str) -> None:
    caught = 0
    for seed in range(80):
        world = random_world(seed)
        world.pass_time(6)
        law = Law(world, Csn(0))
        drive(law, propagate_interval(world.plan, interval(0, 6)), SPOILERS[spoiled])
        caught += any(law.violations(Csn(6)))
    assert caught >= 5


def test_queries_empty_by_form_are_not_run() -> None:
    """Over a union, changes of different branches never meet."""
    for seed in range(100):
        world = random_world(seed, passed=True)
        execution = propagate_interval(world.plan, interval(0, 1))
        query = next(execution)
        try:
            while True:
                assert not query.is_empty
                query = execution.send(world.history.now)
        except StopIteration:
            pass


class TestRefusals:
    plan = natural_join("a", "b")

    def test_the_latest_rule(self) -> None:
        query = replace(present_view(self.plan), rule=CsnRule.LATEST)
        with pytest.raises(InternalError, match="earliest csn rule"):
            next(compute_delta(query, (Csn(0), Csn(0)), Csn(1)))

    def test_snapshots(self) -> None:
        query = replace(present_view(self.plan), terms=(Snapshot(Csn(0)), Present()))
        with pytest.raises(InternalError, match="live or as base deltas"):
            next(compute_delta(query, (Csn(0), Csn(0)), Csn(1)))

    def test_going_back(self) -> None:
        with pytest.raises(InternalError, match="back to 1"):
            next(compute_delta(present_view(self.plan), (Csn(2), Csn(0)), Csn(1)))

    def test_an_execution_time_before_the_changes_that_were_read(self) -> None:
        execution = propagate_interval(self.plan, interval(0, 5))
        next(execution)
        with pytest.raises(InternalError, match="answered as of 4, before 5"):
            execution.send(Csn(4))


def test_a_log_leaves_out_what_has_no_changes() -> None:
    history = History.beginning_with({"a": [(1, 1)], "b": [(1, 2)]})
    history.commit({"a": [((1, 3), 1)]})
    history.commit({"b": [((1, 4), 1)]})
    plan = natural_join("a", "b")
    assert [scan.leaf for scan in scans(plan)] == [LeafId(0), LeafId(1)]
    found = queries_of(propagate_interval(plan, interval(0, 1), history), [2, 2, 2])
    assert found == ["r1Δ(0, 1] ⋈ r2@now", "-r1Δ(0, 1] ⋈ r2Δ(1, 2]"]
