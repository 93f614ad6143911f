"""What ``headwater bench he`` simulates, on functions of the shape of [He05 Fig. 4]."""

from __future__ import annotations

from headwater.bench.he.simulated import figure_6, figure_7, limit
from headwater.schedule.cost import Linear, PiecewiseLinear

COSTS = (PiecewiseLinear(((0, 2.0), (2000, 6.0), (100_000, 7.0))), Linear(0.0015, 1.0))


def test_nobody_beats_the_best_plan_and_all_beat_naive_over_refresh_times() -> None:
    for run in figure_6(COSTS, 333, (60, 120)):
        assert run["opt_lgm"] <= min(run["online"], run["adapt"], run["ahead"]) + 1e-9
        assert run["online"] < run["naive"]
        assert not any(run["violations"].values())


def test_streams_are_set_in_relation_to_the_best_plan() -> None:
    runs = figure_7(COSTS, 100, 120, seeds=(1,))
    assert [run["stream"] for run in runs] == ["SS", "SU", "FS", "FU"]
    assert all(run["over_opt"]["opt_lgm"] == 1.0 for run in runs)
    # Both only take lazy, greedy and minimal actions, of which the best plan is the best.
    assert all(run["over_opt"][policy] >= 1 - 1e-9 for run in runs for policy in ("online", "ahead"))


def test_the_limit_is_what_so_many_steps_cost() -> None:
    assert limit(COSTS, 100, 20) == COSTS[0](2000) + COSTS[1](2000)
