"""Plans: what the definitions say, and the lemmas and theorems of [He05 §3] against all plans there are."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.schedule.cost import Linear, PiecewiseLinear
from headwater.schedule.plan import (
    Action,
    MaintenancePlan,
    greedy_actions,
    is_greedy,
    is_lazy,
    is_lgm,
    is_minimal,
    is_minimal_action,
    is_valid,
    replay,
)
from headwater.schedule.problem import Arrivals, Promise, subtract
from headwater.schedule.search import best_lgm_plan
from headwater.schedule.streams import constant
from headwater.schedule.transform import make_lazy, make_lgm, minimize_action
from tests.schedule.instances import Instance, best_plan, instances, lgm_plans, linear_costs, valid_plans

ONE = Promise((Linear(1.0),), 2.0)


def plan(*actions: tuple[int, ...]) -> MaintenancePlan:
    return MaintenancePlan(tuple(map(Action, actions)))


class TestDefinitions:
    """One table, cost 1 for each modification, limit 2, one arrival at each step."""

    arrivals = constant((1,), 3)

    def test_valid(self) -> None:
        assert is_valid(plan((0,), (0,), (3,), (1,)), self.arrivals, ONE)
        assert not is_valid(plan((0,), (0,), (0,), (4,)), self.arrivals, ONE)  # 3 pending after step 2
        assert not is_valid(plan((2,), (0,), (1,), (1,)), self.arrivals, ONE)  # 2 before they are there
        assert not is_valid(plan((0,), (0,), (3,), (0,)), self.arrivals, ONE)  # not refreshed at the end

    def test_the_limit_itself_is_not_full(self) -> None:
        assert is_valid(plan((0,), (0,), (2,), (2,)), self.arrivals, ONE)
        assert not ONE.is_full((2,))
        assert ONE.is_full((3,))

    def test_lazy(self) -> None:
        assert is_lazy(plan((0,), (0,), (1,), (3,)), self.arrivals, ONE)
        assert not is_lazy(plan((0,), (1,), (0,), (3,)), self.arrivals, ONE)

    def test_greedy(self) -> None:
        assert is_greedy(plan((0,), (2,), (0,), (2,)), self.arrivals)
        assert not is_greedy(plan((0,), (1,), (0,), (3,)), self.arrivals)

    def test_minimal(self) -> None:
        two = Promise((Linear(1.0), Linear(1.0)), 3.0)
        arrivals = Arrivals.of([(2, 2), (0, 0)])
        assert is_minimal(plan((2, 0), (0, 2)), arrivals, two)
        assert not is_minimal(plan((2, 2), (0, 0)), arrivals, two)


@given(instances(tables=3, refresh_time=1, most=3))
def test_greedy_actions_are_all_and_only_the_valid_minimal_ones(instance: Instance) -> None:
    backlog, promise = instance.arrivals.steps[0], instance.promise
    if not promise.is_full(backlog):
        return
    tables = range(len(backlog))
    by_definition = {
        action
        for chosen in range(1 << len(backlog))
        for action in [Action.emptying(frozenset(t for t in tables if chosen >> t & 1), backlog)]
        if not promise.is_full(subtract(backlog, action.counts)) and is_minimal_action(action, backlog, promise)
    }
    found = greedy_actions(backlog, promise)
    assert set(found) == by_definition
    assert len(found) == len(by_definition) > 0


@settings(max_examples=50)
@given(st.data())
def test_lemma_1_a_lazy_plan_costs_no_more(data: st.DataObject) -> None:
    instance = data.draw(instances(tables=3, refresh_time=6, most=3))
    original = data.draw(valid_plans(instance))
    lazy = make_lazy(original, instance.arrivals, instance.promise)
    assert is_valid(lazy, instance.arrivals, instance.promise)
    assert is_lazy(lazy, instance.arrivals, instance.promise)
    assert lazy.cost(instance.promise) <= original.cost(instance.promise)


@settings(max_examples=50)
@given(st.data())
def test_lemma_2_theorem_1_any_plan_becomes_lgm_at_no_more_than_twice_its_cost_for_each_table(
    data: st.DataObject,
) -> None:
    instance = data.draw(instances(tables=3, refresh_time=6, most=3))
    original = data.draw(valid_plans(instance))
    made = make_lgm(original, instance.arrivals, instance.promise)
    assert is_valid(made, instance.arrivals, instance.promise)
    assert is_lgm(made, instance.arrivals, instance.promise)
    for table, function in enumerate(instance.promise.costs):
        ours = sum(function(count) for _, count in made.actions_on(table))
        theirs = sum(function(count) for _, count in original.actions_on(table))
        assert ours <= 2 * theirs


def shared(plan: MaintenancePlan, other: MaintenancePlan, table: int) -> list[int]:
    """For each action of a plan on a table, with how many of the other plan's it has modifications in common."""

    def ranges(of: MaintenancePlan) -> list[tuple[int, int]]:
        done, found = 0, []
        for _, count in of.actions_on(table):
            found.append((done, done + count))
            done += count
        return found

    return [sum(a < d and c < b for c, d in ranges(other)) for a, b in ranges(plan)]


@settings(max_examples=50)
@given(st.data())
def test_lemma_3_figure_2_an_action_shares_modifications_with_at_most_two(data: st.DataObject) -> None:
    instance = data.draw(instances(tables=2, refresh_time=7, most=3))
    original = data.draw(valid_plans(instance))
    made = make_lgm(original, instance.arrivals, instance.promise)
    for table in range(instance.arrivals.tables):
        assert max(shared(original, made, table), default=0) <= 2


@settings(max_examples=50)
@given(st.data())
def test_lemma_4_an_action_costs_no_more_than_those_it_shares_modifications_with(data: st.DataObject) -> None:
    instance = data.draw(instances(tables=2, refresh_time=6, most=3))
    original = data.draw(valid_plans(instance))
    made = make_lgm(original, instance.arrivals, instance.promise)
    for table, function in enumerate(instance.promise.costs):
        done = 0
        for _, count in made.actions_on(table):
            start, end = done, done + count
            done, neighbours, theirs = end, 0.0, 0
            for _, other in original.actions_on(table):
                if theirs < end and start < theirs + other:
                    neighbours += function(other)
                theirs += other
            assert function(count) <= neighbours


@settings(max_examples=50)
@given(st.data())
def test_lemmas_5_and_6_at_most_one_action_between_two_of_the_original_and_after_the_last(data: st.DataObject) -> None:
    instance = data.draw(instances(tables=2, refresh_time=7, most=3))
    original = data.draw(valid_plans(instance))
    made = make_lgm(original, instance.arrivals, instance.promise)
    for table in range(instance.arrivals.tables):
        times = [time for time, _ in original.actions_on(table)]
        ours = [time for time, _ in made.actions_on(table)]
        for start, end in pairwise([*times, instance.arrivals.refresh_time + 1]):
            assert sum(start <= time < end for time in ours) <= 1
        assert not ours or ours[0] >= times[0]
        assert len(ours) <= len(times)


@settings(max_examples=50)
@given(st.data())
def test_a_minimized_action_empties_some_of_the_tables_and_none_too_many(data: st.DataObject) -> None:
    instance = data.draw(instances(tables=3, refresh_time=1, most=3))
    backlog, promise = instance.arrivals.steps[0], instance.promise
    everything = frozenset(range(len(backlog)))
    action = minimize_action(everything, backlog, promise)
    assert not promise.is_full(subtract(backlog, action.counts))
    assert is_minimal_action(action, backlog, promise)


@settings(max_examples=60)
@given(instances(tables=2, refresh_time=4, most=2))
def test_theorem_1_the_best_lgm_plan_costs_at_most_twice_the_best_plan(instance: Instance) -> None:
    best, optimal = best_plan(instance)
    assert is_valid(optimal, instance.arrivals, instance.promise)
    found = best_lgm_plan(instance.arrivals, instance.promise)
    assert best <= found.cost <= 2 * best


@settings(max_examples=60)
@given(instances(linear_costs, tables=2, refresh_time=4, most=2))
def test_theorem_2_with_linear_costs_the_best_lgm_plan_is_the_best_plan(instance: Instance) -> None:
    assert best_lgm_plan(instance.arrivals, instance.promise).cost == best_plan(instance)[0]


@settings(max_examples=60)
@given(instances(tables=2, refresh_time=4, most=2))
def test_there_is_always_an_lgm_plan_and_the_transformation_finds_one_of_them(instance: Instance) -> None:
    _, optimal = best_plan(instance)
    assert make_lgm(optimal, instance.arrivals, instance.promise) in lgm_plans(instance)


class TestTheExampleThatTheorem1IsTight:
    """[He05 §3.2]: ε = 1/2, m = 3, C = 1."""

    inverse, m = 2, 3
    half = 2 * inverse  # 2/ε
    steep = PiecewiseLinear(((0, 0.0), (half, 1.0), (half + 1, 1.25), (half + 2, 1.25)))
    promise = Promise((steep,), 1.0)
    arrivals = constant((half + 1,), 2 * m - 1)

    def test_the_function_is_the_papers_and_not_concave_only_at_its_jump(self) -> None:
        assert [self.steep(x) for x in range(8)] == [0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.25, 1.25]

    def test_an_lgm_plan_must_process_all_at_each_step(self) -> None:
        (only,) = lgm_plans(Instance(self.arrivals, self.promise))
        assert only.cost(self.promise) == 2.5 * self.m  # (2 + ε)·m·C
        assert best_lgm_plan(self.arrivals, self.promise).cost == 2.5 * self.m

    def test_the_plan_that_leaves_some_behind(self) -> None:
        other = plan(*((1,), (2 * self.half + 1,)) * self.m)
        assert is_valid(other, self.arrivals, self.promise)
        assert other.cost(self.promise) == 1.5 * self.m  # (1 + ε)·m·C
        assert best_plan(Instance(self.arrivals, self.promise))[0] <= 1.5 * self.m
        assert 2.5 >= (2 - 0.5) * 1.5  # OPT_LGM >= (2 - ε)·OPT


def test_states_follow_one_another() -> None:
    moments = replay(plan((0,), (1,), (2,)), constant((1,), 2))
    assert [(moment.before, moment.after) for moment in moments] == [((1,), (1,)), ((2,), (1,)), ((2,), (0,))]
