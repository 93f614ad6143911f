"""Value distributions against their definitions: shares found by inverting the quantile functions."""

from __future__ import annotations

import math
from itertools import pairwise
from random import Random
from statistics import NormalDist

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import InvalidInput
from headwater.genesis.distributions import (
    Distribution,
    Normal,
    SelfSimilar,
    Uniform,
    Zipf,
    distribution_as_json,
    distribution_of_json,
    exponential_gap,
    quantile,
)

lows = st.integers(-50, 50)
widths = st.integers(1, 60)
distributions = st.one_of(
    st.builds(lambda low, width: Uniform(low, low + width - 1), lows, widths),
    st.builds(lambda low, width, theta: Zipf(low, low + width - 1, theta), lows, widths, st.floats(0, 3)),
    st.builds(
        lambda low, width, where, deviation: Normal(low, low + width - 1, low + where * (width - 1), deviation),
        lows,
        widths,
        st.floats(0, 1),
        st.floats(0.1, 100),
    ),
    st.builds(lambda low, width, h: SelfSimilar(low, low + width - 1, h), lows, widths, st.floats(0.01, 0.5)),
)
below_one = st.floats(0, 1, exclude_max=True)


def share(distribution: Distribution, up_to: int) -> float:
    """The probability of a value at most ``up_to``, read off the quantile function by bisection."""
    draw = quantile(distribution)
    if draw(0.0) > up_to:
        return 0.0
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if middle < 1 and draw(middle) <= up_to:
            low = middle
        else:
            high = middle
    return high


@given(distributions, below_one)
def test_every_value_is_in_range(distribution: Distribution, u: float) -> None:
    draw = quantile(distribution)
    assert distribution.low <= draw(u) <= distribution.high
    assert distribution.low <= draw(math.nextafter(1.0, 0.0)) <= distribution.high


@given(distributions, below_one, below_one)
def test_quantiles_never_fall(distribution: Distribution, u: float, v: float) -> None:
    draw = quantile(distribution)
    assert draw(min(u, v)) <= draw(max(u, v))


@given(distributions)
def test_json_and_back(distribution: Distribution) -> None:
    assert distribution_of_json(distribution_as_json(distribution)) == distribution


def test_uniform_gives_every_value_the_same_share() -> None:
    assert [share(Uniform(1, 4), value) for value in range(5)] == pytest.approx([0, 0.25, 0.5, 0.75, 1])


@pytest.mark.parametrize("theta", [0.0, 0.5, 0.86, 1.0, 2.0])
def test_zipf_shares_are_in_the_ratio_of_powers_of_ranks(theta: float) -> None:
    shares = [share(Zipf(1, 20, theta), value) for value in range(21)]
    own = [right - left for left, right in pairwise(shares)]
    assert own == pytest.approx([own[0] / rank**theta for rank in range(1, 21)])
    assert shares[-1] == pytest.approx(1)


def test_zipf_agrees_with_the_formula_of_gse94_where_that_is_exact() -> None:
    """Gray's closed form takes u * zeta(n) < 1 for the first value and < 1 + 0.5^theta for the second."""
    n, theta = 1000, 0.5
    zeta = sum(rank**-theta for rank in range(1, n + 1))
    assert share(Zipf(1, n, theta), 1) == pytest.approx(1 / zeta)
    assert share(Zipf(1, n, theta), 2) == pytest.approx((1 + 0.5**theta) / zeta)
    alpha, eta = 1 / (1 - theta), (1 - (2 / n) ** (1 - theta)) / (1 - (1 + 0.5**theta) / zeta)
    draw = quantile(Zipf(1, n, theta))
    for u in (0.2, 0.5, 0.9):  # beyond the second value the formula is near, not equal
        assert draw(u) == pytest.approx(1 + int(n * (eta * u - eta + 1) ** alpha), rel=0.1)


def test_self_similar_80_20_of_gse94() -> None:
    distribution = SelfSimilar(1, 1000, 0.2)
    assert share(distribution, 200) == pytest.approx(0.8)
    assert share(distribution, 40) == pytest.approx(0.64)  # and again inside the first fifth
    assert share(SelfSimilar(1, 1000, 0.5), 200) == pytest.approx(0.2)


def test_normal_is_the_bell_between_its_ends_with_nothing_piled_up_there() -> None:
    distribution, bell = Normal(-5, 10, 2.0, 4.0), NormalDist(2.0, 4.0)
    inside = bell.cdf(11) - bell.cdf(-5)
    for value in range(-5, 11):
        assert share(distribution, value) == pytest.approx((bell.cdf(value + 1) - bell.cdf(-5)) / inside)


def test_a_bell_far_narrower_than_its_range_has_values_at_both_ends_of_u() -> None:
    """Its cumulative share rounds to 0 and 1, where the inverse is undefined."""
    draw = quantile(Normal(0, 59, 30.0, 0.109375))
    assert 0 <= draw(0.0) <= 30 == draw(0.5) <= draw(math.nextafter(1.0, 0.0)) <= 59


def test_exponential_gaps_have_their_mean_and_no_memory() -> None:
    uniform = Random(7).random
    gaps = sorted(exponential_gap(3.0, uniform()) for _ in range(20_000))
    assert sum(gaps) / len(gaps) == pytest.approx(3.0, rel=0.03)
    assert gaps[len(gaps) // 2] == pytest.approx(3.0 * math.log(2), rel=0.03)
    assert exponential_gap(3.0, 0.0) == 0


@pytest.mark.parametrize(
    "make",
    [
        lambda: Uniform(2, 1),
        lambda: Zipf(1, 2, -1),
        lambda: Normal(1, 2, 1.5, 0),
        lambda: Normal(1, 2, 7, 1),
        lambda: SelfSimilar(1, 2, 0.6),
        lambda: SelfSimilar(1, 2, 0),
        lambda: distribution_of_json({"kind": "pareto"}),
    ],
)
def test_what_is_no_distribution_is_refused(make: object) -> None:
    with pytest.raises(InvalidInput):
        make()  # type: ignore[operator]
