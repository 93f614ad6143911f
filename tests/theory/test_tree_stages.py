"""Every strategy and every delta tree keeps the law at every csn; the relations that are staged on the way."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from sqlglot import exp

from headwater.algebra.plan import Generate, Join, LeafId, Project, scans
from headwater.algebra.product import products
from headwater.algebra.query import BaseDelta, Patched, Query, Snapshot
from headwater.algebra.time import Csn, Interval
from headwater.engine.reference import History, ReferenceEngine
from headwater.errors import InternalError
from headwater.propagate.delta_tree import accesses, n_term
from headwater.propagate.frontier import Frontier, advance
from headwater.propagate.linear_work import Cardinalities, LeafSize
from headwater.propagate.strategy import (
    ByTree,
    NTerm,
    Recompute,
    best_trees,
    change_over,
    estimated_work,
    find_tree,
    works,
)
from headwater.propagate.tree_stages import NewSide, evaluate, reads_of_changes, staged_delta, without
from tests.theory.test_product import equal, union_below_a_join
from tests.theory.trees import leaf_ids, random_tree, tree
from tests.theory.worlds import CHUNKS, Law, World, column, natural_join, random_moment, random_world, scan, seeds


def random_trees(world: World) -> ByTree:
    return ByTree(tuple(random_tree(world.random, product.leaves) for product in products(world.plan)))


def random_interval(world: World) -> Interval:
    start = random_moment(world)
    return Interval(start, Csn(world.random.randint(start, world.last)))


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_the_law_holds_at_every_csn_for_every_strategy_and_tree(chunk: int) -> None:
    for seed in seeds(chunk)[::2]:
        world = random_world(seed, passed=True)
        interval = random_interval(world)
        law = Law(world, interval.start)
        for strategy, new_side in (
            (Recompute(), NewSide.LEAVES),
            (NTerm(), NewSide.LEAVES),
            (random_trees(world), NewSide.LEAVES),
            (random_trees(world), NewSide.PARTS),
        ):
            delta = change_over(world.plan, interval, world.history, strategy, new_side=new_side)
            law.view_delta = evaluate(delta, world.engine)
            law.check(interval.end)


def violations(seed: int, new_side: NewSide) -> list[str]:
    world = random_world(seed, passed=True)
    interval = Interval(Csn(0), world.last)
    law = Law(world, interval.start)
    delta = change_over(world.plan, interval, world.history, random_trees(world), new_side=new_side)
    law.view_delta = evaluate(delta, world.engine)
    at_the_end = (world.engine.view_at(world.plan, interval.start) + law.view_delta).counts()
    assert at_the_end == law.expected(interval.end)
    return list(law.violations(interval.end))


def test_snapshots_at_the_end_are_right_there_and_wrong_before() -> None:
    assert not any(violations(seed, NewSide.LEAVES) for seed in range(60))
    assert sum(bool(violations(seed, NewSide.ENDS)) for seed in range(60)) >= 5


@pytest.mark.parametrize("seed", range(60))
def test_the_n_terms_are_the_frontier_from_one_moment_to_another(seed: int) -> None:
    world = random_world(seed, passed=True)
    interval = Interval(Csn(0), world.last)
    law = Law(world, interval.start)
    targets = tuple(interval.end for _ in scans(world.plan))
    for query in advance(world.plan, Frontier.at(world.plan, interval.start), targets, world.history).queries:
        law.run(query)
    delta = change_over(world.plan, interval, world.history, NTerm())
    assert not delta.stages
    assert evaluate(delta, world.engine).consolidate() == law.view_delta.consolidate()


def five_tables(changed: str = "abcde") -> History:
    history = History.beginning_with({table: [(1, 0), (2, 0), (None, 0)] for table in "abcde"})
    for number, table in enumerate(changed):
        history.commit({table: [((1, number), 1), ((2, 0), -1)]})
    return history


FIVE = natural_join(*"abcde")
FIVE_CONDITIONS = tuple(equal("r1.k", f"r{number}.k") for number in (2, 3, 4, 5))
ALL = Interval(Csn(0), Csn(5))


def shown(history: History, strategy: ByTree, new_side: NewSide = NewSide.LEAVES) -> list[str]:
    delta = change_over(FIVE, ALL, history, strategy, new_side=new_side)
    stages = [f"{stage.name} = {' + '.join(map(str, stage.queries))}" for stage in delta.stages]
    return [*stages, " + ".join(map(str, delta.answer))]


def test_stages_come_before_what_reads_them_and_the_root_is_the_answer() -> None:
    strategy = ByTree((tree(tree(tree(0, 1), 2), 3, 4),))
    delta = change_over(FIVE, ALL, five_tables(), strategy)
    assert [stage.name for stage in delta.stages] == ["Δ1(r1 ⋈ r2)", "Δ2(r1 ⋈ r2 ⋈ r3)"]
    assert [sorted(stage.leaves) for stage in delta.stages] == [[0, 1], [0, 1, 2]]
    known: set[str] = set("abcde")
    for stage in delta.stages:
        assert {leaf.table for query in stage.queries for leaf in scans(query.plan)} <= known
        known.add(stage.name)
    assert [len(stage.queries) for stage in delta.stages] == [2, 2]
    assert len(delta.answer) == 3
    changes, old, new = BaseDelta(ALL), Snapshot(Csn(0)), Patched(ALL)
    assert [query.terms for query in delta.stages[1].queries] == [(changes, old), (changes, new, new)]
    assert reads_of_changes(delta) == {"a": 5, "b": 4, "c": 3, "d": 2, "e": 1, **dict.fromkeys(known - set("abcde"), 1)}


def test_a_stage_keeps_what_is_needed_above_it_and_tests_what_it_can() -> None:
    plan = Project(FIVE, (("out", column("r2.v")),))
    delta = change_over(plan, ALL, five_tables(), ByTree((tree(tree(tree(0, 1), 2), 3, 4),)))
    assert [stage.attributes for stage in delta.stages] == [("r1.k", "r2.v"), ("r1.k", "r2.v")]
    tested = [_conditions(query) for query in (delta.stages[0].queries[0], delta.stages[1].queries[1], delta.answer[0])]
    assert tested == [(equal("r1.k", "r2.k"),), (equal("r1.k", "r2.k"), equal("r1.k", "r3.k")), FIVE_CONDITIONS[2:]]
    law = evaluate(delta, ReferenceEngine(five_tables()))
    assert (
        law.consolidate()
        == evaluate(change_over(plan, ALL, five_tables(), Recompute()), ReferenceEngine(five_tables())).consolidate()
    )


def _conditions(query: Query) -> tuple[exp.Expr, ...]:
    match query.plan:
        case Project(child=Join(conditions=conditions)):
            return conditions
    raise AssertionError(query.plan)


@pytest.mark.parametrize("seed", range(40))
def test_a_relation_is_read_as_often_as_the_tree_says(seed: int) -> None:
    random = Random(seed)
    made = random_tree(random, leaf_ids(5))
    touched = "".join(sorted(random.sample("abcde", random.randint(1, 5))))
    changed = frozenset(LeafId("abcde".index(table)) for table in touched)
    for new_side in NewSide:
        delta = change_over(FIVE, ALL, five_tables(touched), ByTree((made,)), new_side=new_side)
        read = [
            leaf.table
            for query in delta.queries()
            for leaf in scans(query.plan)
            if leaf.table in "abcde" and not isinstance(query.terms[leaf.leaf], BaseDelta)
        ]
        assert [read.count(table) for table in "abcde"] == [accesses(made, changed)[leaf] for leaf in leaf_ids(5)]


def test_the_changed_part_of_two_stands_as_it_was_plus_its_stage() -> None:
    strategy = ByTree((tree(tree(0, 1), tree(2, 3, 4)),))
    *_, by_leaves = shown(five_tables(), strategy)
    *_, by_parts = shown(five_tables(), strategy, NewSide.PARTS)
    *_, at_ends = shown(five_tables(), strategy, NewSide.ENDS)
    first = "Δ1(r1 ⋈ r2)Δ(0, 5] ⋈ r3@0 ⋈ r4@0 ⋈ r5@0"
    second = "Δ2(r3 ⋈ r4 ⋈ r5)Δ(0, 5]"
    assert by_leaves == f"{first} + {second} ⋈ r1@0+Δ(0, 5] ⋈ r2@0+Δ(0, 5]"
    assert by_parts == f"{first} + {second} ⋈ r1@0 ⋈ r2@0 + {second} ⋈ Δ1(r1 ⋈ r2)Δ(0, 5]"
    assert at_ends == f"{first} + {second} ⋈ r1@5 ⋈ r2@5"


def test_leaves_without_changes_are_cut_away() -> None:
    strategy = ByTree((tree(tree(0, 1), tree(2, 3), 4),))
    assert shown(five_tables("be"), strategy) == [
        "Δ1(r1 ⋈ r2) = r2Δ(0, 5] ⋈ r1@0",
        "Δ1(r1 ⋈ r2)Δ(0, 5] ⋈ r3@0 ⋈ r4@0 ⋈ r5@0 + r5Δ(0, 5] ⋈ r1@0 ⋈ r2@0+Δ(0, 5] ⋈ r3@0 ⋈ r4@0",
    ]
    delta = change_over(FIVE, ALL, five_tables(""), strategy)
    assert (delta.stages, delta.answer) == ((), ())
    assert change_over(FIVE, ALL, five_tables(""), Recompute()).answer == ()


@pytest.mark.parametrize("seed", range(60))
def test_what_joins_a_stage_without_rows_need_not_be_run(seed: int) -> None:
    world = random_world(seed, passed=True)
    interval = Interval(Csn(0), world.last)
    new_side = world.random.choice((NewSide.LEAVES, NewSide.PARTS))
    delta = change_over(world.plan, interval, world.history, random_trees(world), new_side=new_side)
    expected = evaluate(delta, world.engine).consolidate()
    engine, rest, done = world.engine, delta, 0
    while done < len(rest.stages):
        stage = rest.stages[done]
        found = evaluate(replace(rest, stages=(), answer=stage.queries), engine)
        if len(found):
            engine, done = engine.with_changes(stage.name, found), done + 1
        else:
            rest = without(rest, stage)
    assert evaluate(replace(rest, stages=()), engine).consolidate() == expected
    assert len(rest.stages) <= len(delta.stages)


def test_products_that_share_a_part_share_its_stage() -> None:
    """(a + b) ⋈ (c ⋈ d): the change of c ⋈ d is staged once for both products."""
    union = union_below_a_join()
    assert isinstance(union, Join)
    plan = Join((*union.children, scan(3, "d")), (*union.conditions, equal("r3.k", "r4.k")))
    history = five_tables("abcd")
    strategy = ByTree((tree(0, tree(2, 3)), tree(1, tree(2, 3))))
    delta = change_over(plan, ALL, history, strategy)
    assert [stage.name for stage in delta.stages] == ["Δ1(r3 ⋈ r4)"]
    assert len(delta.answer) == 4
    recomputed = evaluate(change_over(plan, ALL, history, Recompute()), ReferenceEngine(history))
    assert evaluate(delta, ReferenceEngine(history)).consolidate() == recomputed.consolidate()


def test_generators_and_constant_conditions_stand_once_at_the_end() -> None:
    exploded = Generate(scan(0, "a"), exp.Anonymous(this="explode", expressions=[equal("r1.v", "r1.k")]), False, ("g",))
    late, early = equal("g", "r2.k"), equal("r1.k", "r2.k")
    joined = Join((exploded, scan(1, "b"), scan(2, "c")), (late, early, exp.true(), equal("r2.k", "r3.k")))
    delta = change_over(joined, ALL, five_tables("abc"), ByTree((tree(tree(0, 1), 2),)))
    staged = delta.stages[0].queries[0].plan
    assert isinstance(staged, Project)
    assert isinstance(staged.child, Join)
    assert staged.child.conditions == (early,)
    assert set(delta.stages[0].attributes) == {"r1.k", "r1.v", "r2.k", "r2.v"}
    for query in delta.answer:
        assert isinstance(query.plan, Project)
        assert query.plan.child.condition == late  # type: ignore[union-attr]
        assert isinstance(query.plan.child.child, Generate)  # type: ignore[union-attr]
        assert exp.true() in query.plan.child.child.child.conditions  # type: ignore[union-attr]


def sizes(*pairs: tuple[int, int]) -> Cardinalities:
    return Cardinalities({LeafId(number): LeafSize(*pair) for number, pair in enumerate(pairs)})


def test_the_work_of_each_strategy() -> None:
    plan = natural_join("a", "b", "c")
    given = sizes((100, 1), (200, 2), (50_000, 4))
    found = {str(strategy): work for strategy, work in works(plan, given).items()}
    assert found["recompute"] == 50_307
    assert found["n-term"] == (1 + 200 + 50_000) + (101 + 2 + 50_000) + (101 + 202 + 4)
    best = best_trees(plan, given)
    assert found["tree"] == estimated_work(plan, best, given) < found["recompute"] + 2_000 < found["n-term"]
    assert estimated_work(plan, Recompute(), sizes((1, 0), (1, 0), (1, 0))) == 0


def test_a_wide_product_is_searched_without_cross_products_and_runs() -> None:
    plan = natural_join(*"abcdeabcdeab")
    (product,) = products(plan)
    found = find_tree(product, sizes(*((100 + number, 3) for number in range(12))))
    assert found.extent.space.value == "trees without cross products"
    history = History.beginning_with({table: [(1, 0)] for table in "abcde"})
    history.commit({"a": [((1, 1), 1)]})
    history.commit({"c": [((1, 0), -1)]})
    interval = Interval(Csn(0), Csn(2))
    answers = [
        evaluate(change_over(plan, interval, history, strategy), ReferenceEngine(history)).consolidate()
        for strategy in (Recompute(), NTerm(), ByTree((found.tree,)))
    ]
    assert answers[0] == answers[1] == answers[2]
    assert len(answers[0]) > 0


def test_trees_must_be_over_the_leaves_of_their_products() -> None:
    (product,) = products(FIVE)
    with pytest.raises(InternalError, match="a tree over"):
        staged_delta([(product, n_term(leaf_ids(4)))], ALL, frozenset(leaf_ids(5)))
    with pytest.raises(InternalError, match="given 2 trees"):
        change_over(FIVE, ALL, five_tables(), ByTree((n_term(leaf_ids(5)),) * 2))


def test_a_staged_relation_has_changes_alone_and_a_name_of_its_own() -> None:
    engine = ReferenceEngine(five_tables())
    with pytest.raises(ValueError, match="already"):
        engine.with_changes("a", engine.history.base_delta("a", ALL))
    with pytest.raises(ValueError, match="no csn"):
        engine.with_changes("x", engine.history.state("a", Csn(0)))
