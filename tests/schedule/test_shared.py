"""What tables that are processed together share: the problem, its search, and how it is learned."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.errors import InvalidInput
from headwater.schedule.ahead import Ahead
from headwater.schedule.cost import Linear, Lowered, cost_from_dict
from headwater.schedule.fit import Sample, fit
from headwater.schedule.heuristic import AloneBound, BatchBound
from headwater.schedule.keeping import Memory, Seen, decide
from headwater.schedule.online import Online
from headwater.schedule.plan import Action, greedy_actions, is_lazy, is_valid
from headwater.schedule.policy import Naive
from headwater.schedule.priced import PricedBound
from headwater.schedule.problem import Promise, subtract
from headwater.schedule.search import best_lgm_plan
from headwater.schedule.service_level import ServiceLevel
from headwater.schedule.simulate import simulate
from headwater.schedule.streams import constant
from headwater.schedule.view_costs import Joint, ViewCosts
from tests.schedule.instances import Instance, greedy_plans, instances, linear_costs

TWO = Promise((Linear(1, 4), Linear(0.1, 6)), 12)
SHARING = Promise(TWO.costs, 12, shared=4)


@st.composite
def sharing(draw: st.DrawFn, *, tables: int = 3, refresh_time: int = 3, most: int = 2) -> Instance:
    instance = draw(instances(linear_costs, tables=tables, refresh_time=refresh_time, most=most))
    promise = instance.promise
    fixed = min(cost(1) for cost in promise.costs)
    return Instance(
        instance.arrivals, Promise(promise.costs, promise.cost_limit, draw(st.integers(0, int(4 * fixed))) / 4)
    )


def test_tables_that_are_processed_together_save_what_they_share() -> None:
    assert TWO.cost((1, 10)) == 5 + 7
    assert SHARING.cost((1, 10)) == 5 + 7 - 4
    assert SHARING.cost((1, 0)) == 5
    assert SHARING.cost((0, 0)) == 0
    assert Promise((*TWO.costs, Linear(1, 4)), 12, 4).cost((1, 10, 1)) == 5 + 7 + 5 - 2 * 4


@pytest.mark.parametrize("shared", [-1.0, 5.5, float("nan")])
def test_no_table_saves_more_than_it_costs(shared: float) -> None:
    with pytest.raises(InvalidInput, match="being processed together"):
        Promise(TWO.costs, 12, shared)


@given(sharing(), st.data())
def test_a_backlog_is_full_when_it_is_without_what_is_shared(instance: Instance, data: st.DataObject) -> None:
    promise = instance.promise
    if promise.shared > promise.cost_limit:
        return
    backlog = tuple(data.draw(st.integers(0, 4)) for _ in promise.costs)
    # Costs are at least what is shared, so nothing is cut off at 0.
    assert promise.is_full(backlog) == promise.without_shared().is_full(backlog)


def test_a_lowered_cost_function_comes_back_from_its_text() -> None:
    lowered = Lowered(Linear(1, 4), 3)
    assert (lowered(0), lowered(1), lowered(10)) == (0, 2, 11)
    assert cost_from_dict(lowered.to_dict()) == lowered
    assert lowered.is_concave
    with pytest.raises(InvalidInput):
        Lowered(Linear(1, 4), -1)


@given(sharing(), st.data())
def test_the_actions_are_all_sets_that_leave_no_full_backlog(instance: Instance, data: st.DataObject) -> None:
    promise = instance.promise
    backlog = tuple(data.draw(st.integers(0, 4)) for _ in promise.costs)
    if not promise.shared or not promise.is_full(backlog):
        return
    tables = [table for table, count in enumerate(backlog) if count]
    sets = [frozenset(chosen) for size in range(len(tables) + 1) for chosen in combinations(tables, size)]
    wanted = {Action.emptying(each, backlog) for each in sets}
    wanted = {action for action in wanted if not promise.is_full(subtract(backlog, action.counts))}
    assert set(greedy_actions(backlog, promise)) == wanted


def test_of_many_tables_the_smallest_sets_and_all_of_them_are_looked_at() -> None:
    promise = Promise((Linear(1, 4),) * 10, 10 * 5 - 9 * 3 - 1, shared=3)
    found = greedy_actions((1,) * 10, promise)
    assert [len(action.touched) for action in found] == [1] * 10 + [10]


@settings(max_examples=150)
@given(sharing())
def test_the_search_finds_the_best_lazy_and_greedy_plan(instance: Instance) -> None:
    arrivals, promise = instance.arrivals, instance.promise
    plans = [
        plan
        for plan in greedy_plans(instance)
        if is_valid(plan, arrivals, promise) and is_lazy(plan, arrivals, promise)
    ]
    least = min(plan.cost(promise) for plan in plans)
    for bound in (AloneBound, BatchBound, PricedBound):
        found = best_lgm_plan(arrivals, promise, bound=bound.of(arrivals, promise.without_shared()))
        assert found.cost == pytest.approx(least, abs=1e-9)
    assert best_lgm_plan(arrivals, promise).cost == pytest.approx(least, abs=1e-9)


@settings(max_examples=60)
@given(sharing(refresh_time=8))
def test_policies_keep_the_bound_and_their_cost_is_never_below_the_best(instance: Instance) -> None:
    arrivals, promise = instance.arrivals, instance.promise
    least = best_lgm_plan(arrivals, promise).cost
    for policy in (Naive(), Online(), Ahead()):
        run = simulate(policy, arrivals, promise)
        assert run.violations == ()
        assert run.total_cost >= least - 1e-9


def test_who_knows_what_is_shared_acts_less_often() -> None:
    """Two tables whose steps are nearly all fixed cost, as they are here."""
    arrivals = constant((1, 1), 200)
    functions = (Linear(0.1, 4), Linear(0.05, 4))
    apart, sharing = Promise(functions, 9), Promise(functions, 9, 4)
    published = simulate(Naive(), arrivals, apart).plan.cost(sharing)  # processed together, for all that
    knowing = simulate(Online(), arrivals, sharing)
    assert knowing.violations == ()
    assert knowing.total_cost < 0.5 * published


# ---------------------------------------------------------------------- learned


def line(fixed: float, per_row: float) -> Any:
    return fit([Sample(rows, fixed + per_row * rows) for rows in (1, 10, 100, 1000) for _ in range(8)])


PARTS = (line(4, 0.01), line(5, 0.001))


def joint(*seconds: float) -> ViewCosts:
    """Steps of 100 and 1000 rows, which take 5 and 6 seconds apart."""
    return ViewCosts(PARTS, apply=line(1, 0), joint=tuple(Joint((100, 1000), each) for each in seconds))


def test_what_is_shared_is_the_middle_of_what_steps_saved() -> None:
    assert joint().shared == 0
    assert joint(8, 7.5, 7).shared == pytest.approx(3.5, abs=0.01)
    assert joint(8, 7.5, 7).expected((100, 1000), 1) == pytest.approx(11 - 3.5 + 1, abs=0.01)
    assert joint(8, 7.5, 7).expected((100, 0), 1) == pytest.approx(5 + 1, abs=0.01)
    assert joint(8, 7.5, 7).as_dict(("a", "b"))["shared"] == pytest.approx(3.5, abs=0.01)


def test_a_step_that_saved_nothing_promises_nothing() -> None:
    promise = joint(8, 11.5, 7).promise(9)
    assert promise is not None
    assert promise.shared == 0


def test_no_more_is_shared_than_the_cheapest_costs() -> None:
    assert joint(0.1).shared == pytest.approx(4.01, abs=0.01)


def test_steps_of_one_part_or_of_other_parts_tell_nothing() -> None:
    steps = (Joint((100, 0), 1.0), Joint((100, 100, 100), 1.0))
    assert ViewCosts(PARTS, joint=steps).shared == 0
    assert ViewCosts((None, None), joint=steps).promise(9) is None


@given(st.lists(st.floats(5, 12), min_size=1, max_size=60))
def test_the_bound_covers_nearly_all_steps_that_it_was_learned_from(seconds: list[float]) -> None:
    promise = joint(*seconds).promise(9)
    assert promise is not None
    apart = Promise(promise.costs, 9).cost((100, 1000))
    above = sum(each > promise.cost((100, 1000)) + 1e-9 for each in seconds if each <= apart)
    assert above <= 0.05 * (len(seconds) + 1)


def test_a_view_waits_longer_and_processes_all_at_once_when_its_parts_share_their_steps() -> None:
    level = ServiceLevel(response_time=12, policy="ahead")
    known = joint(*[7.0] * 30)
    seen = Seen("v", level, ("a", "b"), (150, 1500), 0, 0.0, known)

    def look(seen: Seen) -> Any:
        return decide(seen, Memory.begin(seen, 0.0), 5.0, tick=1.0)[0]

    alone = Seen("v", level, ("a", "b"), (150, 1500), 0, 0.0, joint())
    assert look(alone).deed == "process"
    assert look(seen).deed == "wait"
    full = look(Seen("v", level, ("a", "b"), (600, 4000), 0, 0.0, known))
    assert (full.deed, full.counts) == ("process", (600, 4000))
    assert full.as_dict()["shared"] == pytest.approx(4, abs=0.02)
