"""What tables that are processed together share: the problem, its search, and how it is learned."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.errors import InvalidInput
from headwater.schedule.ahead import Ahead
from headwater.schedule.cost import Linear, Lowered, Scaled, cost_from_dict
from headwater.schedule.heuristic import AloneBound, BatchBound
from headwater.schedule.keeping import Memory, Seen, decide
from headwater.schedule.online import Online
from headwater.schedule.plan import Action, greedy_actions, is_lazy, is_valid
from headwater.schedule.policy import Naive
from headwater.schedule.priced import PricedBound
from headwater.schedule.problem import Arrivals, Counts, Promise, subtract
from headwater.schedule.search import best_lgm_plan
from headwater.schedule.service_level import ServiceLevel
from headwater.schedule.simulate import simulate
from headwater.schedule.streams import constant
from headwater.schedule.view_costs import JointCosts, Measured, ViewCosts, fitted
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
    apart = promise.without_shared()
    assert promise.is_full(backlog) == (apart.cost(backlog) > promise.cost_limit - promise.shared + 1e-6)


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


def test_rounding_does_not_cut_the_bounds_short() -> None:
    """0.1 + 0.2 - 0.2 is not 0.1."""
    arrivals = Arrivals.of([(2, 0, 1), (1, 1, 1), (2, 2, 1), (2, 2, 1), (1, 2, 1), (2, 2, 2)])
    promise = Promise((Linear(0.1, 0.1), Linear(0, 0.2), Linear(0, 0.7)), 0.3, 0.2)
    found = best_lgm_plan(arrivals, promise)
    assert is_valid(found.plan, arrivals, promise)
    assert found.lower_bound <= found.cost + 1e-9


def test_a_cost_that_is_lowered_below_its_fixed_part_is_not_concave() -> None:
    """Batches of it would cost more together than apart, which a bound for concave functions does not know."""
    assert not Lowered(Linear(1.5), 1.5).is_concave
    arrivals = Arrivals.of([(2, 1), (1, 2), (1, 1)])
    promise = Promise((Linear(1.5), Linear(2)), 2.25, 1.5)
    bound = BatchBound.of(arrivals, promise.without_shared())
    best = best_lgm_plan(arrivals, promise)
    assert bound(-1, (0, 0)) <= best.cost == best.lower_bound


def test_a_simulation_may_take_the_margin_off() -> None:
    true = (Linear(0.1, 4), Linear(0.1, 4))
    promise = Promise((Scaled(true[0], 1.3), Scaled(true[1], 1.3)), 12, 5)
    assert simulate(Naive(), constant((1, 1), 50), promise, actual=true).violations == ()


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


def line(fixed: float, per_row: float, noise: float = 0.0, at: float = 0.0) -> list[Measured]:
    """Eight samples of each size; with noise, as many above as below."""
    sizes = (1, 10, 100, 1000, 5000)
    shares = [1 + noise * place / 4 for place in (-4, -3, -2, -1, 1, 2, 3, 4)]
    return [Measured(rows, share * (fixed + per_row * rows), at) for rows in sizes for share in shares]


def learned(*parts: list[Measured], steps: Sequence[tuple[Counts, float]] = (), at: float = 1.0) -> ViewCosts:
    functions = tuple(fitted(each) for each in parts)
    joint = [Measured(sum(counts), seconds, at, by_part=counts) for counts, seconds in steps]
    return ViewCosts(functions, joint=JointCosts.of(functions, parts, joint), apply=fitted([Measured(1, 1.0, 0.0)]))


def joint(*seconds: float) -> ViewCosts:
    """Steps of 100 and 1000 rows, which take 5 and 6 seconds apart."""
    return learned(line(4, 0.01), line(5, 0.001), steps=[((100, 1000), each) for each in seconds])


def promised(costs: ViewCosts) -> Promise:
    promise = costs.promise(9)
    assert promise is not None
    return promise


def test_what_is_shared_is_the_middle_of_what_steps_saved() -> None:
    assert joint().joint.shared == 0
    found = joint(8, 7.5, 7)
    assert found.joint.shared == pytest.approx(3.5, abs=0.01)
    assert found.expected((100, 1000), 1) == pytest.approx(11 - 3.5 + 1, abs=0.01)
    assert found.expected((100, 0), 1) == pytest.approx(5 + 1, abs=0.01)
    assert found.as_dict(("a", "b"))["shared"] == pytest.approx(3.5, abs=0.01)
    assert found.bound((100, 1000), 1) == pytest.approx(8 + 1, abs=0.01)  # the slowest of the three


def test_each_part_beyond_the_first_saves() -> None:
    found = learned(*[line(4, 0.01)] * 3, steps=[((100, 100, 100), 15 - 2 * 3.0)] * 5)
    assert found.joint.shared == pytest.approx(3, abs=0.01)
    assert found.expected((100, 100, 0), 0) == pytest.approx(10 - 3, abs=0.01)
    assert found.bound((100, 100, 100), 0) == pytest.approx(15 - 6, abs=0.01)


def test_two_steps_are_not_enough_to_rely_on() -> None:
    assert joint(7, 7).joint.shared == 0
    assert promised(joint(7, 7)).cost((100, 1000)) == pytest.approx(11, abs=0.01)


def test_no_more_is_shared_than_the_cheapest_costs() -> None:
    assert joint(0.1, 0.1, 0.1).joint.shared == pytest.approx(4.01, abs=0.01)


def test_steps_of_several_parts_that_take_longer_than_their_parts_are_believed() -> None:
    """A promise would be shown as kept while every refresh breaks it: parts are hardly ever processed alone."""
    slow = joint(*[20.0] * 30)
    assert slow.joint.shared == 0
    assert slow.expected((100, 1000), 1) == pytest.approx(20 + 1, abs=0.1)
    bound = slow.bound((100, 1000), 1)
    assert bound is not None
    assert bound >= 20
    seen = Seen("v", ServiceLevel(response_time=14), ("a", "b"), (100, 1000), 1, 0.0, slow)
    assert seen.state == "broken"


def test_steps_from_before_the_parts_were_measured_tell_nothing() -> None:
    """Twice as slow since: old steps of several parts would look like savings."""
    parts = (line(8, 0, at=100.0), line(10, 0, at=100.0))
    assert learned(*parts, steps=[((1, 1), 7.0)] * 20, at=99.0).joint == JointCosts()
    assert learned(*parts, steps=[((1, 1), 14.0)] * 20, at=100.0).joint.shared == pytest.approx(4, abs=0.01)


def test_a_margin_is_no_saving() -> None:
    """Steps of several parts that save nothing stay below the sum of the parts' bounds, which lie a third higher."""
    costs = learned(line(1, 0.01, 0.3), line(1, 0.01, 0.3), steps=[((1000, 1000), 22.0)] * 40)
    assert costs.joint.shared == pytest.approx(0, abs=0.1)
    bound, expected = costs.bound((1, 1), 0), costs.expected((1, 1), 0)
    assert bound is not None
    assert expected is not None
    assert bound > expected


def test_a_part_that_never_changes_does_not_keep_the_others_from_sharing() -> None:
    found = learned(line(4, 0.01), line(5, 0.001), [], steps=[((100, 1000, 0), 7.0)] * 5)
    assert found.joint.shared == pytest.approx(4, abs=0.01)
    assert found.expected((100, 1000, 0), 0) == pytest.approx(7, abs=0.01)


def test_steps_of_one_part_or_of_other_parts_tell_nothing() -> None:
    steps: list[tuple[Counts, float]] = [((100, 0), 1.0), ((100, 100, 100), 1.0)] * 5
    assert learned(line(4, 0.01), line(5, 0.001), steps=steps).joint == JointCosts()
    assert learned(line(4, 0.01), [], steps=[((1, 1), 1.0)] * 5).joint == JointCosts()
    assert ViewCosts((None, None)).promise(9) is None


@given(st.lists(st.floats(1, 30), min_size=3, max_size=20))
def test_the_bound_covers_the_steps_that_it_was_learned_from(seconds: list[float]) -> None:
    found = joint(*seconds)
    promise = promised(found)
    # With fewer than twenty, 95 % of one more is all of them.
    uncovered = sum(each > promise.cost((100, 1000)) + 1e-6 for each in seconds)
    assert uncovered <= (1 if len(seconds) >= 20 else 0)
    expected = found.expected((100, 1000), 0)
    assert expected is not None
    assert promise.cost((100, 1000)) >= expected - 1e-6
    assert found.bound((100, 1000), 0) == pytest.approx(promise.cost((100, 1000)))


def test_a_view_waits_longer_and_processes_all_at_once_when_its_parts_share_their_steps() -> None:
    level = ServiceLevel(response_time=16, policy="ahead")
    known = joint(*[7.0] * 30)
    seen = Seen("v", level, ("a", "b"), (150, 1500), 0, 0.0, known)

    def look(seen: Seen) -> Any:
        return decide(seen, Memory.begin(seen, 0.0), 5.0, tick=1.0)[0]

    alone = Seen("v", level, ("a", "b"), (150, 1500), 0, 0.0, joint())
    assert look(alone).deed == "process"
    assert look(seen).deed == "wait"
    assert alone.next_action == pytest.approx(12, abs=0.02)
    assert seen.next_action == pytest.approx(8, abs=0.02)
    full = look(Seen("v", level, ("a", "b"), (600, 4000), 0, 0.0, known))
    assert (full.deed, full.counts) == ("process", (600, 4000))
    told = full.as_dict()
    assert (told["shared"], told["shared_surely"]) == (pytest.approx(4, abs=0.02), pytest.approx(4, abs=0.02))


def test_a_step_is_cut_to_what_others_can_wait_for_with_what_parts_share_counted_once() -> None:
    level = ServiceLevel(response_time=12, policy="naive")
    seen = Seen("v", level, ("a", "b"), (600, 4000), 0, 0.0, joint(*[7.0] * 30))
    for longest in (5.0, 8.0, 10.0, 12.0):
        verdict = decide(seen, Memory.begin(seen, 0.0), 5.0, tick=1.0, longest=longest)[0]
        taken = promised(seen.costs).cost(verdict.counts)
        assert 0 < taken <= longest + 1e-6
        # A row more of the last part would be too long.
        first, second = verdict.counts
        more = (first + 1, second) if first < 600 else (first, second + 10)
        assert promised(seen.costs).cost(more) > longest or verdict.counts == seen.backlog
