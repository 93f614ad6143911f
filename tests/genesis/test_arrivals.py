"""When updates arrive [Mauve98 §4.2]."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import InvalidInput
from headwater.genesis.arrivals import Discontinuous, Steady, Stream, UpdateRate, arrival_times


def arrivals(stream: Stream, sizes: list[int], seed: int = 0) -> list[float]:
    return list(arrival_times(stream, sizes, Random(seed).random))


def test_figure_12_a_discontinuous_stream_has_the_effective_rate_of_a_slower_steady_one() -> None:
    fast, broken = Steady(100), Discontinuous(100, idle=0.4, mean_gap=0.5)
    slow = Steady(broken.effective_rate)
    assert slow.rate == pytest.approx(60)
    sizes = [1] * 100_000
    ends = [arrivals(stream, sizes)[-1] for stream in (fast, broken, slow)]
    assert ends[0] == pytest.approx(1000)
    assert ends[1] == pytest.approx(ends[2], rel=0.05)


def test_a_discontinuous_stream_runs_at_its_full_rate_between_silences() -> None:
    stream = Discontinuous(100, idle=0.5, mean_gap=1.0)
    assert stream.active_period == pytest.approx(1.0)
    gaps = [later - earlier for earlier, later in pairwise(arrivals(stream, [1] * 10_000))]
    regular = [gap for gap in gaps if gap < 0.0101]
    silent = [gap for gap in gaps if gap >= 0.0101]
    assert all(gap == pytest.approx(0.01) for gap in regular)
    assert len(silent) == pytest.approx(99, abs=3)
    assert sum(gap - 0.01 for gap in silent) / len(silent) == pytest.approx(1.0, rel=0.25)


@given(
    st.one_of(
        st.builds(Steady, st.floats(0.1, 1000)),
        st.builds(Discontinuous, st.floats(0.1, 1000), st.floats(0.01, 0.99), st.floats(0.01, 100)),
    ),
    st.lists(st.integers(1, 9), max_size=30),
    st.integers(0, 9),
)
def test_transactions_arrive_in_order_and_never_faster_than_the_rate(
    stream: Stream, sizes: list[int], seed: int
) -> None:
    times = arrivals(stream, sizes, seed)
    assert len(times) == len(sizes)
    for (earlier, later), size in zip(pairwise([0.0, *times]), sizes, strict=True):
        assert later - earlier >= size / stream.rate * (1 - 1e-6)


@pytest.mark.parametrize("rate", list(UpdateRate))
def test_high_medium_and_low_are_relative_to_what_the_warehouse_can_process(rate: UpdateRate) -> None:
    for capacity in (0.5, 40.0, 10_000.0):
        assert UpdateRate.classify(rate.of(capacity), capacity) is rate
    assert UpdateRate.classify(45.0, 40.0) is UpdateRate.MEDIUM


@pytest.mark.parametrize(
    "make",
    [
        lambda: Steady(0),
        lambda: Discontinuous(0, 0.5, 1),
        lambda: Discontinuous(1, 0, 1),
        lambda: Discontinuous(1, 1, 1),
        lambda: Discontinuous(1, 0.5, 0),
    ],
)
def test_streams_that_never_arrive_are_refused(make: object) -> None:
    with pytest.raises(InvalidInput):
        make()  # type: ignore[operator]
