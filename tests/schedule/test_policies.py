"""Policies: NAIVE, ADAPT, ONLINE, AHEAD, and the estimates they live on [He05 §4.2, §4.3]."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.schedule.adapt import Adapt
from headwater.schedule.ahead import Ahead
from headwater.schedule.compare import COST_LIMIT, SHAPES
from headwater.schedule.cost import Linear
from headwater.schedule.online import Online
from headwater.schedule.plan import Action, is_lgm, is_valid
from headwater.schedule.policy import Naive, Policy, Situation
from headwater.schedule.problem import Arrivals, Promise, nothing
from headwater.schedule.rates import NEVER, Rates, RecentRate, SettledRate, time_to_full
from headwater.schedule.search import best_lgm_plan
from headwater.schedule.simulate import simulate
from headwater.schedule.streams import PAPER_STREAMS, constant, drawn
from tests.schedule.instances import Instance, instances, linear_costs

POLICIES: list[Policy[Any]] = [Naive(), Online(), Online(SettledRate()), Ahead()]


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
@settings(max_examples=40)
@given(instance=instances(tables=3, refresh_time=10, most=3))
def test_every_policy_keeps_the_promise(policy: Policy[Any], instance: Instance) -> None:
    run = simulate(policy, instance.arrivals, instance.promise)
    assert is_valid(run.plan, instance.arrivals, instance.promise)
    assert run.violations == ()
    assert run.total_cost == pytest.approx(run.plan.cost(instance.promise))
    if not isinstance(policy, Naive):
        assert is_lgm(run.plan, instance.arrivals, instance.promise)
        assert run.total_cost >= best_lgm_plan(instance.arrivals, instance.promise).cost - 1e-9


def test_naive_processes_everything_when_it_must_and_only_then() -> None:
    run = simulate(Naive(), constant((1, 2), 5), Promise((Linear(1.0), Linear(1.0)), 6.0))
    assert [action.counts for action in run.plan.actions] == [(0, 0), (0, 0), (3, 6), (0, 0), (0, 0), (3, 6)]
    assert run.actions == 2


class TestAdapt:
    @settings(max_examples=60)
    @given(instances(linear_costs, tables=3, refresh_time=9, most=3), st.integers(0, 8))
    def test_theorem_4_refreshed_earlier(self, instance: Instance, earlier: int) -> None:
        """f(Q_T0,T) <= OPT_T + Σ b_i for T < T0."""
        arrivals, promise = instance.arrivals, instance.promise
        if earlier >= arrivals.refresh_time:
            return
        cut = arrivals.until(earlier)
        run = simulate(Adapt.to(arrivals, promise), cut, promise)
        assert is_valid(run.plan, cut, promise)
        assert run.total_cost <= best_lgm_plan(cut, promise).cost + sum(map(fixed, promise.costs)) + 1e-9

    @settings(max_examples=60)
    @given(instances(linear_costs, tables=2, refresh_time=5, most=3), st.integers(1, 20))
    def test_theorem_4_refreshed_later(self, instance: Instance, later: int) -> None:
        """f(Q_T0,T) <= OPT_T + ⌈(T+1)/(T0+1)⌉·Σ b_i for T > T0 and periodic arrivals; the paper's ⌈T/T0⌉ is no less."""
        arrivals, promise = instance.arrivals, instance.promise
        first = arrivals.refresh_time
        refresh_time = first + later
        repeated = arrivals.until(refresh_time)
        run = simulate(Adapt.to(arrivals, promise), repeated, promise)
        repetitions = -(-(refresh_time + 1) // (first + 1))
        assert repetitions <= -(-refresh_time // first)
        assert is_valid(run.plan, repeated, promise)
        bound = best_lgm_plan(repeated, promise).cost + repetitions * sum(map(fixed, promise.costs))
        assert run.total_cost <= bound + 1e-9

    @settings(max_examples=50)
    @given(instances(tables=3, refresh_time=9, most=3))
    def test_refreshed_when_foreseen_it_is_the_best_lgm_plan(self, instance: Instance) -> None:
        arrivals, promise = instance.arrivals, instance.promise
        found = best_lgm_plan(arrivals, promise)
        assert simulate(Adapt.following(found.plan), arrivals, promise).plan == found.plan

    @settings(max_examples=50)
    @given(st.data())
    def test_arrivals_that_were_not_foreseen_do_not_break_the_promise(self, data: st.DataObject) -> None:
        instance = data.draw(instances(tables=2, refresh_time=8, most=3))
        tables = instance.arrivals.tables
        others = Arrivals.of(data.draw(st.lists(st.tuples(*[st.integers(0, 9)] * tables), min_size=1, max_size=25)))
        run = simulate(Adapt.to(instance.arrivals, instance.promise), others, instance.promise)
        assert is_valid(run.plan, others, instance.promise)


def fixed(function: object) -> float:
    assert isinstance(function, Linear)
    return function.fixed


class TestRates:
    def test_a_settled_rate_is_the_mean_until_it_has_settled(self) -> None:
        rates = Rates.unknown(2)
        for step in [(1, 0), (2, 0), (6, 4)]:
            rates = SettledRate().observe(rates, step)
        assert rates.per_step == pytest.approx((3.0, 4 / 3))

    @pytest.mark.parametrize("estimator", [RecentRate(10), SettledRate(50)])
    def test_a_rate_gets_over_a_change(self, estimator: RecentRate | SettledRate) -> None:
        rates = Rates.unknown(1)
        for count in [1] * 200 + [9] * 300:
            rates = estimator.observe(rates, (count,))
        assert rates.per_step == pytest.approx((9.0,), rel=0.02)

    @given(instances(tables=2, refresh_time=1, most=3), st.tuples(*[st.integers(0, 12).map(lambda n: n / 4)] * 2))
    def test_time_to_full_is_the_first_step_at_which_it_would_be(
        self, instance: Instance, rates: tuple[float, ...]
    ) -> None:
        promise = instance.promise
        rates = rates[: promise.tables]
        backlog = nothing(promise.tables)
        found = time_to_full(backlog, Rates(rates), promise)
        looked = (
            steps
            for steps in range(1, 200)
            if promise.is_full(tuple(int(count + steps * rate) for count, rate in zip(backlog, rates, strict=True)))
        )
        assert found == next(looked, found)
        assert found == NEVER or promise.is_full(tuple(int(found * rate) for rate in rates))

    def test_what_never_fills(self) -> None:
        assert time_to_full((1,), Rates((0.0,)), Promise((Linear(1.0),), 5.0)) == NEVER


class TestOnline:
    promise = Promise((Linear(0.5, 4.0), Linear(1.0)), 10.0)
    situation = Situation(time=9, arrived=(1, 1), backlog=(4, 5), spent=3.0, promise=promise)

    def test_h_as_the_paper_defines_it(self) -> None:
        """Full at 6 + 5 = 11 > 10; at one arrival of each a step."""
        decision = Online(RecentRate(1)).decide(Rates((1.0, 1.0), 5), self.situation)
        first, second = decision.considered
        # the first emptied: 5 pending of the second; 4 + 0.5k + 5 + k > 10 for k = 1
        assert (first.action.counts, first.cost, first.score) == ((4, 0), 6.0, pytest.approx((3 + 6) / (9 + 1)))
        # the second emptied: 4 pending of the first; 4 + 0.5(4 + k) + k > 10 for k = 3
        assert (second.action.counts, second.cost, second.score) == ((0, 5), 5.0, pytest.approx((3 + 5) / (9 + 3)))
        assert decision.action == Action((0, 5))

    def test_nothing_is_done_before_it_must_be(self) -> None:
        decision = Online().decide(
            Online().begin(2), Situation(time=0, arrived=(4, 4), backlog=(4, 4), spent=0.0, promise=self.promise)
        )
        assert decision.action.is_none
        assert decision.considered == ()
        assert decision.memory.per_step == (4.0, 4.0)

    @pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
    def test_the_same_situation_gives_the_same_decision(self, policy: Policy[Any]) -> None:
        memory = policy.begin(2)
        assert policy.decide(memory, self.situation) == policy.decide(memory, self.situation)


class TestAhead:
    @pytest.mark.parametrize("stream", ["SS", "SU"])
    def test_what_is_behind_makes_online_worse_than_it_need_be(self, stream: str) -> None:
        """Rates are not what it lacks: with the same ones, the cycle ahead alone comes to the best plan."""
        promise = Promise(SHAPES["figure 4"], COST_LIMIT)
        arrivals = drawn([PAPER_STREAMS[stream]] * 2, 400, Random(5))
        best = best_lgm_plan(arrivals, promise).cost
        online = simulate(Online(SettledRate()), arrivals, promise).total_cost
        ahead = simulate(Ahead(SettledRate()), arrivals, promise).total_cost
        assert online > 1.05 * best
        assert ahead < 1.02 * best

    def test_when_nothing_more_is_expected_it_still_decides(self) -> None:
        promise = Promise((Linear(1.0), Linear(1.0)), 3.0)
        situation = Situation(time=0, arrived=(0, 0), backlog=(2, 2), spent=0.0, promise=promise)
        decision = Ahead(RecentRate(1)).decide(Rates((0.0, 0.0), 1), situation)
        assert len(decision.considered) == 2
        assert not decision.action.is_none

    def test_what_was_spent_changes_nothing(self) -> None:
        promise = Promise((Linear(0.1, 4.0), Linear(0.2, 2.0)), 20.0)
        rates = Rates((1.0, 1.0), 50)
        chosen = {
            Ahead().decide(rates, Situation(time, (1, 1), (40, 40), spent, promise)).action
            for time in (1, 100)
            for spent in (0.0, 500.0)
        }
        assert len(chosen) == 1
