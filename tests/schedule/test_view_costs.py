"""Cost functions of a view, its floor, and what is to come of a promise."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.schedule.outlook import HORIZON, LEAST_SAMPLES, outlook
from headwater.schedule.picture import Panel, cost_picture
from headwater.schedule.view_costs import Measured, ViewCosts, fitted


def line(fixed: float, per_row: float, sizes: range = range(1, 200, 10), at: float = 0.0) -> list[Measured]:
    return [Measured(rows, fixed + per_row * rows, at + rows) for rows in sizes]


def costs(
    *parts: list[Measured], together: list[Measured] | None = None, apply: float = 2, capture: float = 1
) -> ViewCosts:
    return ViewCosts(
        tuple(fitted(each) for each in parts),
        fitted(together or []),
        fitted([Measured(1, apply, 0)] * 5),
        fitted([Measured(1, capture, 0)] * 5),
    )


def test_a_refresh_is_capture_propagation_and_apply() -> None:
    found = costs(line(1, 0.1), line(3, 0.01))
    assert found.expected((10, 0), 10) == pytest.approx(1 + 2.0 + 2)
    assert found.expected((10, 100), 110) == pytest.approx(1 + 2.0 + 4.0 + 2)
    assert found.expected((0, 0), 0) == pytest.approx(1)
    floor = found.floor()
    assert floor is not None
    assert (floor.part, floor.seconds) == (1, pytest.approx(1 + 3.01 + 2))
    assert "capture 1.0 s + propagate 3.0 s + apply 2.0 s" in str(floor)


def test_what_was_never_measured_is_taken_for_as_dear_as_it_may_be() -> None:
    found = costs([], line(3, 0.01))
    assert found.expected((100, 0), 0) == pytest.approx(1 + 4.0)
    assert costs([], line(3, 0.01), together=line(5, 0)).expected((100, 0), 0) == pytest.approx(1 + 5)
    nothing = costs([], [])
    assert nothing.expected((1, 0), 0) is None
    assert nothing.bound((1, 0), 0) is None
    assert nothing.floor() is None
    assert nothing.expected((0, 0), 0) == pytest.approx(1)
    assert nothing.as_dict(("a", "b"))["parts"] == {"a": None, "b": None}


def test_of_a_view_whose_parts_are_not_known_nothing_is() -> None:
    unseen = ViewCosts(())
    assert not unseen.is_known
    assert (unseen.upper(), unseen.promise(1.0), unseen.expected((), 0), unseen.bound((), 0)) == (None,) * 4
    assert (unseen.floor(), unseen.again()) == (None, 0.0)


def test_one_more_refresh_is_of_a_part_that_has_come_up() -> None:
    found = costs(line(1, 0.1), line(3, 0.01), [], together=line(9, 0))
    assert found.again(0.5) == pytest.approx(3.01 + found.overhead(1, 0.5))
    assert costs([], []).again() == 0


def test_cold_steps_are_kept_apart() -> None:
    samples = [Measured(10, 1.0, 0)] * 4 + [Measured(10, 30.0, 0, cold=True)]
    warm, cold = fitted(samples), fitted(samples, cold=True)
    assert warm is not None
    assert cold is not None
    assert (warm(10), cold(10)) == (pytest.approx(1), pytest.approx(30))
    only_cold = fitted(samples[-1:])
    assert only_cold is not None
    assert only_cold(10) == pytest.approx(30)


def test_new_samples_weigh_more() -> None:
    found = fitted([Measured(10, 2.0, 0)] * 60 + [Measured(10, 1.0, 0)] * 60)
    assert found is not None
    assert found(10) > 1.6


@given(
    st.lists(st.tuples(st.integers(1, 500), st.floats(0.1, 60)), min_size=1, max_size=20),
    st.integers(0, 500),
    st.integers(0, 500),
)
def test_more_rows_never_cost_less_and_the_bound_is_no_less_sure(
    samples: list[tuple[int, float]], rows: int, more: int
) -> None:
    found = costs([Measured(size, seconds, 0) for size, seconds in samples])
    small, large = found.bound((rows,), rows), found.bound((rows + more,), rows + more)
    assert small is not None
    assert large is not None
    assert small <= large + 1e-9


# ---------------------------------------------------------------------- outlook


def growing(per_day: float, noise: float, days: float = 10) -> list[Measured]:
    random = Random(7)
    count = 60
    return [
        Measured(
            10,
            (4 + 4 * per_day * days * step / count) * (1 + noise * random.uniform(-1, 1)),
            days * 86400 * step / count,
        )
        for step in range(count, 0, -1)
    ]


def test_a_floor_that_grows_is_seen_to_pass_the_promise_before_it_does() -> None:
    samples = growing(0.1, 0.02)
    found = outlook(13, costs(samples), [samples])
    assert found is not None
    assert found.state == "at risk"
    assert found.floor == pytest.approx(1 + 8 + 2, rel=0.05)
    assert found.growth_per_day == pytest.approx(0.4, rel=0.1)
    assert found.broken_in == pytest.approx((13 - 11) / 0.4 * 86400, rel=0.3)
    assert found.broken_in is not None
    assert found.broken_in < HORIZON
    assert "will be broken in about" in str(found)
    later = outlook(60, costs(samples), [samples])
    assert later is not None
    assert later.state == "sound"


def test_noise_is_no_growth() -> None:
    samples = growing(0.0, 0.2)
    found = outlook(15, costs(samples), [samples])
    assert found is not None
    assert found.broken_in is None
    assert found.state == "sound"
    few = samples[: LEAST_SAMPLES - 1]
    assert outlook(15, costs(few), [few]) is not None


def test_a_promise_below_the_floor_is_impossible_and_one_within_its_spread_hangs_on_luck() -> None:
    samples = [Measured(1, seconds, 0) for seconds in (4.0, 4.0, 4.0, 4.0, 8.0) * 8]
    below, within = outlook(5, costs(samples), [samples]), outlook(8.5, costs(samples), [samples])
    assert below is not None
    assert within is not None
    assert (below.state, within.state) == ("impossible", "at risk")
    assert "hangs on luck" in str(within)
    assert outlook(5, costs([]), [[]]) is None


def test_the_picture_holds_every_sample_and_both_lines() -> None:
    samples = [*line(1, 0.1), Measured(5, 9.0, 0, cold=True)]
    text = cost_picture("What steps of <v> take", [Panel("a", fitted(samples), samples), Panel("b", None, [])])
    assert text.count("<circle") == len(samples)
    assert text.count("<polyline") == 2
    assert "&lt;v&gt;" in text
    assert "b: not measured yet" in text
