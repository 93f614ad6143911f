"""Cost functions from samples: right by construction, near the samples, and honest about the rest."""

from __future__ import annotations

import json
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.errors import InvalidInput
from headwater.schedule.cost import Blocks, CostFunction, Linear, PiecewiseLinear
from headwater.schedule.fit import FittedCost, Sample, fit
from headwater.schedule.least_squares import non_negative_least_squares
from tests.schedule.test_cost import is_monotone_and_subadditive

SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


def measured(function: CostFunction, seed: int, noise: float = 0.0, repeats: int = 1) -> list[Sample]:
    random = Random(seed)
    return [Sample(rows, function(rows) * max(0.0, random.gauss(1.0, noise))) for rows in SIZES for _ in range(repeats)]


@settings(max_examples=50)
@given(st.lists(st.builds(Sample, st.integers(1, 40), st.floats(0, 10)), min_size=1, max_size=12))
def test_whatever_the_samples_the_fit_is_monotone_and_subadditive(samples: list[Sample]) -> None:
    assert is_monotone_and_subadditive(fit(samples))


@pytest.mark.parametrize(
    "function",
    [
        Linear(0.25, 2.0),
        Linear(0.01),
        PiecewiseLinear(((0, 1.0), (20, 5.0), (200, 8.0), (1000, 9.0))),
        PiecewiseLinear(((0, 3.0),)),
    ],
)
def test_a_concave_function_is_found_again_from_exact_samples(function: CostFunction) -> None:
    found = fit(measured(function, seed=0))
    assert [found(rows) for rows in SIZES] == pytest.approx([function(rows) for rows in SIZES], rel=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_noise_is_averaged_out(seed: int) -> None:
    function = PiecewiseLinear(((0, 1.0), (20, 5.0), (1000, 9.0)))
    found = fit(measured(function, seed, noise=0.1, repeats=10))
    assert [found(rows) for rows in SIZES] == pytest.approx([function(rows) for rows in SIZES], rel=0.12)
    assert 0.07 < found.relative_error < 0.14


def test_nearly_all_new_steps_stay_under_the_upper_function() -> None:
    function = Linear(0.02, 1.0)
    upper = fit(measured(function, seed=1, noise=0.2, repeats=12)).upper(0.95)
    new = [sample for seed in range(2, 22) for sample in measured(function, seed, noise=0.2)]
    assert 0.90 <= sum(sample.seconds <= upper(sample.rows) for sample in new) / len(new) <= 0.99
    assert is_monotone_and_subadditive(upper)


def test_steps_of_blocks_are_met_by_a_concave_function_and_covered_by_its_margin() -> None:
    blocks = Blocks(100, 1.0)
    samples = [Sample(rows, blocks(rows)) for rows in range(10, 1001, 10)]
    found = fit(samples)
    assert is_monotone_and_subadditive(found)
    upper = found.upper(0.95)
    assert sum(sample.seconds <= upper(sample.rows) for sample in samples) >= 0.94 * len(samples)


def test_few_samples_give_no_factor_for_a_high_confidence() -> None:
    found = fit([Sample(10, 1.0), Sample(100, 2.0), Sample(50, 1.5)])
    assert found.factor(0.5) is not None
    assert found.factor(0.95) is None
    assert found.upper(0.95).factor >= 1.0
    with pytest.raises(InvalidInput):
        found.factor(1.0)


def test_outside_the_samples_the_function_goes_on() -> None:
    found = fit([Sample(10, 2.0), Sample(20, 3.0)])
    assert (found.smallest, found.largest, found.samples) == (10, 20, 2)
    assert found(40) == pytest.approx(5.0)
    assert found(1) == pytest.approx(1.1)


def test_one_sample_is_a_fixed_cost_or_a_rate_that_meets_it() -> None:
    assert fit([Sample(10, 2.0)])(10) == pytest.approx(2.0)


@pytest.mark.parametrize("rows", [1, 7, 100, 1000])
@pytest.mark.parametrize("count", [1, 2, 3, 5, 8])
def test_of_samples_of_one_size_all_is_fixed_cost(rows: int, count: int) -> None:
    """Rounding decided between that and all being per row, by which a small batch would have been nearly free."""
    found = fit([Sample(rows, 2.0 + 0.1 * number) for number in range(count)])
    assert found(1) == found(rows) == found(100 * rows)
    assert 2.0 <= found(1) <= 2.0 + 0.1 * count


def test_recent_samples_can_weigh_more() -> None:
    old = [Sample(rows, 1.0, weight=0.01) for rows in SIZES]
    new = [Sample(rows, 2.0) for rows in SIZES]
    assert fit(old + new)(100) > 1.9


def test_a_fit_is_the_same_after_json_and_in_any_order() -> None:
    samples = measured(Linear(0.02, 1.0), seed=3, noise=0.2)
    found = fit(samples)
    assert FittedCost.from_dict(json.loads(json.dumps(found.to_dict()))) == found
    assert fit(reversed(samples)) == found


def test_there_is_no_fit_without_samples() -> None:
    with pytest.raises(InvalidInput, match="without a sample"):
        fit([])
    with pytest.raises(InvalidInput, match="no measurement"):
        Sample(0, 1.0)


@settings(max_examples=60)
@given(
    st.integers(1, 5).flatmap(
        lambda width: st.tuples(
            st.lists(st.lists(st.integers(-4, 4), min_size=6, max_size=6), min_size=width, max_size=width),
            st.lists(st.integers(-9, 9), min_size=6, max_size=6),
        )
    )
)
def test_least_squares_ends_where_nothing_can_be_gained(problem: tuple[list[list[int]], list[int]]) -> None:
    """The conditions of Karush, Kuhn and Tucker, which for this convex problem only the optimum meets."""
    columns, values = problem
    found = non_negative_least_squares(columns, values)
    rest = [
        value - sum(x * column[row] for x, column in zip(found, columns, strict=True))
        for row, value in enumerate(values)
    ]
    for x, column in zip(found, columns, strict=True):
        gain = sum(a * b for a, b in zip(column, rest, strict=True))
        assert x >= 0
        assert gain <= 1e-6
        assert x == 0 or abs(gain) <= 1e-6
