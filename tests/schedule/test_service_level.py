"""The options by which a view promises something."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import InvalidInput
from headwater.schedule.calibration import batch_sizes
from headwater.schedule.service_level import ServiceLevel, seconds_of


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("10s", 10), ("1m", 60), ("1m 30s", 90), ("500 ms", 0.5), ("2h", 7200), ("1d", 86400), ("7", 7), (" 1.5S ", 1.5)],
)
def test_lengths_of_time(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "ten", "10 parsecs", "1m and 2s", "-3s", "1..5s"])
def test_what_is_no_length_of_time(text: str) -> None:
    with pytest.raises(InvalidInput, match="length of time"):
        seconds_of(text)


def test_options_as_a_value() -> None:
    assert ServiceLevel.of({}) == ServiceLevel()
    assert not ServiceLevel().is_kept
    given_ = {"response_time": "10s", "max_staleness": "1m", "policy": "Naive", "priority": "5", "refresh": "auto"}
    level = ServiceLevel.of(given_)
    assert level == ServiceLevel(10, 60, "naive", 5)
    assert level.is_kept
    assert level.chosen_policy().name == "naive"
    assert ServiceLevel.of({"response_time": "none"}).response_time is None


@pytest.mark.parametrize(
    "options",
    [{"response_time": "0s"}, {"policy": "oracle"}, {"priority": "high"}, {"priority": "2000"}, {"max_staleness": "x"}],
)
def test_what_can_not_be_promised(options: dict[str, str]) -> None:
    with pytest.raises(InvalidInput):
        ServiceLevel.of(options)


@given(st.integers(1, 100_000), st.integers(1, 12))
def test_batches_of_a_calibration_double_and_make_up_the_backlog(pending: int, steps: int) -> None:
    sizes = batch_sizes(pending, steps)
    assert sum(sizes) == pending
    assert 1 <= len(sizes) <= steps
    assert min(sizes) >= 1
    assert sizes == sorted(sizes)
    if pending > 2**steps * 10:
        assert all(1.5 < larger / smaller < 2.5 for smaller, larger in pairwise(sizes))


def test_a_policy_that_went_under_another_name_is_still_known() -> None:
    assert ServiceLevel.of({"policy": "foresight"}).policy == "ahead"
