"""View staleness, measured and predicted [Mauve98 §3 and §4], on numbers."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import InternalError
from headwater.genesis import UpdateRate, mauve, transactions
from headwater.serve.replay import Replay, ViewSeconds, concurrent, interleaved
from headwater.serve.staleness import (
    Process,
    Staleness,
    UpdateTimes,
    average,
    best_phases,
    lag,
    of_chunk,
    phases_of,
    predicted,
)

PAPER = Process.INTERLEAVED
seconds = st.floats(0.01, 1000)


def steady(updates: int, seconds_for_all: float) -> list[float]:
    """Evenly spaced, the last at the end."""
    return [(number + 1) * seconds_for_all / updates for number in range(updates)]


def at_once(updates: int) -> list[float]:
    """A log that is all there: the warehouse is never without work."""
    return [0.0] * updates


def constant(view_seconds: float) -> ViewSeconds:
    return lambda _: view_seconds


class TestDefinition:
    def test_equation_4_vs_is_s1_and_s2(self) -> None:
        times = UpdateTimes(earliest=10, taken_in=12, installed=17)
        assert (times.s1, times.s2, times.vs) == (2, 5, 7)

    @pytest.mark.parametrize("times", [(2, 1, 3), (1, 3, 2)])
    def test_times_out_of_order_are_refused(self, times: tuple[float, float, float]) -> None:
        with pytest.raises(InternalError):
            UpdateTimes(*times)

    def test_the_average_is_over_updates_and_not_over_units_of_work(self) -> None:
        found = average([(UpdateTimes(0, 1, 2), 3), (UpdateTimes(0, 5, 6), 1), (UpdateTimes(0, 50, 60), 0)])
        assert (found.updates, found.s1, found.s2, found.vs, found.worst) == (4, 2, 1, 3, 6)

    def test_of_nothing_there_is_none(self) -> None:
        assert average([]) == Staleness()
        assert Staleness().vs == 0

    def test_of_a_chunk_from_commits_begin_and_install(self) -> None:
        found = of_chunk([(10.0, 1), (14.0, 3)], begun=20.0, installed=25.0)
        assert (found.s1, found.s2, found.worst) == ((10 + 3 * 6) / 4, 5, 15)

    def test_a_commit_by_a_clock_that_is_ahead_came_as_the_chunk_began(self) -> None:
        assert of_chunk([(21.0, 1)], begun=20.0, installed=25.0) == of_chunk([(20.0, 1)], begun=20.0, installed=25.0)

    @given(st.lists(st.lists(st.tuples(seconds, st.integers(1, 5)), min_size=1, max_size=4), min_size=1, max_size=4))
    def test_chunks_add_up(self, chunks: list[list[tuple[float, int]]]) -> None:
        together = sum((of_chunk(chunk, 1000.0, 1001.0) for chunk in chunks), Staleness())
        flat = of_chunk([commit for chunk in chunks for commit in chunk], 1000.0, 1001.0)
        assert together.updates == flat.updates
        assert (together.s1, together.s2, together.worst) == pytest.approx((flat.s1, flat.s2, flat.worst))

    def test_lag_is_the_age_of_the_oldest_update_not_shown(self) -> None:
        assert lag(100.0, 93.0) == 7
        assert lag(100.0, None) == 0
        assert lag(100.0, 101.0) == 0  # another machine's clock


class TestFormula:
    @given(seconds, seconds)
    def test_equation_5_one_view_update(self, u: float, v: float) -> None:
        found = predicted(1, u, v, PAPER)
        assert found.s1 == 0
        assert found.vs == pytest.approx(u / 2 + v)

    @given(seconds, seconds)
    def test_equation_6_two_view_updates(self, u: float, v: float) -> None:
        assert predicted(2, u, v, PAPER).vs == pytest.approx((u + 6 * v) / 4)

    @given(st.integers(1, 500), seconds, seconds)
    def test_equations_7_and_8(self, n: int, u: float, v: float) -> None:
        found = predicted(n, u, v, PAPER)
        assert found.vs == pytest.approx((u + n * (n + 1) * v) / (2 * n))
        assert found.s1 == pytest.approx((n - 1) * v / 2)
        assert found.s2 == pytest.approx(u / (2 * n) + v)

    @given(st.integers(1, 12), st.integers(1, 12), seconds, seconds)
    def test_figure_4_the_formula_is_exact_but_for_half_an_update(self, n: int, size: int, u: float, v: float) -> None:
        replay = interleaved(at_once(n * size), u / (n * size), size, constant(v))
        expected = predicted(n, u, v, PAPER)
        assert replay.phases == n
        assert replay.staleness.s1 == pytest.approx(expected.s1, abs=1e-6 * (u + n * v))
        assert replay.staleness.s2 == pytest.approx(expected.s2 - u / (n * size) / 2)

    @given(st.integers(1, 12), st.integers(1, 12), seconds, seconds)
    def test_writers_that_nobody_stops_exact_but_for_half_an_update(
        self, n: int, size: int, u: float, v: float
    ) -> None:
        replay = concurrent(steady(n * size, u), size, constant(v))
        expected = predicted(n, u, v, Process.CONCURRENT)
        assert replay.staleness.s1 == pytest.approx(expected.s1 - u / (n * size) / 2, abs=1e-6 * (u + n * v))
        assert replay.staleness.s2 == pytest.approx(expected.s2)

    @given(st.integers(1, 200), seconds, seconds)
    def test_writers_that_nobody_stops_are_never_staler_than_those_that_wait(self, n: int, u: float, v: float) -> None:
        assert predicted(n, u, v, Process.CONCURRENT).vs <= predicted(n, u, v, PAPER).vs * (1 + 1e-9)

    def test_what_has_no_staleness_is_refused(self) -> None:
        for bad in ((0, 1.0, 1.0), (1, -1.0, 1.0), (1, 1.0, -1.0)):
            with pytest.raises(InternalError):
                predicted(*bad, PAPER)
        with pytest.raises(InternalError):
            best_phases(1.0, 0.0)
        with pytest.raises(InternalError):
            phases_of(0, 1)


class TestFigure2And3:
    """Six updates of one second each, a view update of one second, after six, three and two of them."""

    def run(self, chunk: int) -> Replay:
        return interleaved(at_once(6), 1.0, chunk, constant(1.0))

    def test_case_a_the_first_update_waits_longest_and_none_is_pushed_back(self) -> None:
        replay = self.run(6)
        assert [times.s1 for times in replay.times] == [0] * 6
        assert [times.s2 for times in replay.times] == [6, 5, 4, 3, 2, 1]  # min is V, max U + V less one update

    def test_case_b_r1_reaches_the_view_sooner_and_later_tuples_are_pushed_back(self) -> None:
        once, twice = self.run(6), self.run(3)
        assert twice.times[0].vs < once.times[0].vs
        assert [times.s1 for times in twice.times] == [0, 0, 0, 1, 1, 1]
        assert twice.times[-1].vs > once.times[-1].vs

    def test_case_c_the_same_with_three_phases(self) -> None:
        assert [times.s1 for times in self.run(2).times] == [0, 0, 1, 1, 2, 2]
        assert self.run(2).phases == 3


class TestSection33:
    def test_figure_5_a_chunk_of_10000_of_50000_is_a_frequency_of_5(self) -> None:
        assert phases_of(50_000, 10_000) == 5

    @given(st.floats(0.01, 1e5), st.floats(0.01, 100))
    def test_figure_5_one_minimum_and_the_curve_rises_on_both_sides(self, u: float, v: float) -> None:
        best = best_phases(u, v)
        curve = [predicted(n, u, v, PAPER).vs for n in range(1, 2 * best + 3)]
        assert min(curve) == pytest.approx(curve[best - 1], rel=1e-9)
        slack = 1e-9 * curve[best - 1]
        assert all(left >= right - slack for left, right in pairwise(curve[:best]))
        assert all(left <= right + slack for left, right in pairwise(curve[best - 1 :]))

    @given(st.floats(0.01, 1e5), st.floats(0.01, 100))
    def test_figure_5_s1_rises_and_s2_falls_with_the_frequency(self, u: float, v: float) -> None:
        for n in range(1, 30):
            now, then = predicted(n, u, v, PAPER), predicted(n + 1, u, v, PAPER)
            assert then.s1 > now.s1
            assert then.s2 < now.s2

    @given(st.floats(0.1, 1e5), st.floats(0.01, 10))
    def test_figure_5_the_minimum_is_around_the_point_where_s1_and_s2_meet(self, u: float, v: float) -> None:
        meeting = (3 + math.sqrt(9 + 4 * u / v)) / 2
        assert (meeting - 1) * v / 2 == pytest.approx(u / (2 * meeting) + v)
        assert 1 <= meeting - best_phases(u, v) <= 2.6

    def test_figure_6_the_longer_the_update_time_the_more_is_won(self) -> None:
        won = [u / 2 + 10 - predicted(best_phases(u, 10.0), u, 10.0, PAPER).vs for u in (500.0, 1000.0, 1500.0)]
        assert 0 < won[0] < won[1] < won[2]
        shares = [gain / (u / 2 + 10) for gain, u in zip(won, (500.0, 1000.0, 1500.0), strict=True)]
        assert shares == sorted(shares)

    def test_figure_7_scaling_u_and_v_scales_the_curve_and_keeps_the_best_frequency(self) -> None:
        u, v = 500.0, 10.0
        for scale in (2, 3):
            assert best_phases(scale * u, scale * v) == best_phases(u, v)
            for n in range(1, 20):
                assert predicted(n, scale * u, scale * v, PAPER).vs == pytest.approx(
                    scale * predicted(n, u, v, PAPER).vs
                )

    def test_beyond_a_threshold_staleness_soars(self) -> None:
        u, v = 1000.0, 10.0
        assert predicted(1000, u, v, PAPER).vs > 9 * predicted(1, u, v, PAPER).vs


class TestSection41:
    @pytest.mark.parametrize(
        ("figure", "updates", "chunk", "times"),
        [(8, 30_000, 15_000, 2), (9, 40_000, 15_000, 3), (10, 70_000, 15_000, 5), (11, 100_000, 25_000, 4)],
    )
    def test_figures_8_to_11_best_chunks_as_frequencies(
        self, figure: int, updates: int, chunk: int, times: int
    ) -> None:
        assert phases_of(updates, chunk) == times

    @pytest.mark.parametrize(("times", "low", "high"), [(2, 2, 6), (3, 6, 12), (5, 20, 30), (4, 12, 20)])
    def test_figures_8_to_11_what_the_best_frequency_tells_of_u_and_v(self, times: int, low: int, high: int) -> None:
        """n is best for n (n - 1) < U/V <= n (n + 1)."""
        assert best_phases(low * 1.001, 1.0) == times
        assert best_phases(high * 1.0, 1.0) == times
        assert best_phases(high * 1.001, 1.0) == times + 1

    def test_figure_11_one_v_for_all_misses_what_the_v_of_each_point_meets(self) -> None:
        """View updates of 3000 for one phase and 570 for more, as printed; U such that four phases are best."""
        u, size = 10_000.0, 100
        v = {1: 3000.0} | dict.fromkeys(range(2, 11), 570.0)
        mean = sum(v.values()) / len(v)
        for n in (1, 2, 4, 5, 10):
            measured = interleaved(at_once(size), u / size, size // n, constant(v[n])).staleness.vs
            assert predicted(n, u, v[n], PAPER).vs == pytest.approx(measured, rel=0.03)  # "theoretic-2"
            assert abs(predicted(n, u, mean, PAPER).vs - measured) > abs(predicted(n, u, v[n], PAPER).vs - measured)
        assert min(v, key=lambda n: predicted(n, u, v[n], PAPER).vs) == 4


class TestSection42:
    """A warehouse that processes 500 updates a second; view updates cost 0.2 s and 0.2 ms for each update."""

    CAPACITY = 500.0
    CHUNKS = (2000, 1000, 500, 250, 125)

    def view_seconds(self, updates: int) -> float:
        return 0.2 + 0.0002 * updates

    def curve(self, rate: UpdateRate, idle: float, updates: int = 2000) -> list[Replay]:
        workload = mauve.workload(
            updates, rate=rate.of(self.CAPACITY), megabytes=1, idle=idle, transaction_size=5, seed=3
        )
        arrivals = [each.at for each in transactions(workload) for _ in range(each.operations)]
        return [interleaved(arrivals, 1 / self.CAPACITY, chunk, self.view_seconds) for chunk in self.CHUNKS]

    def test_figure_13_at_high_rates_gaps_make_no_big_difference(self) -> None:
        curves = [[each.staleness.vs for each in self.curve(UpdateRate.HIGH, idle)] for idle in (0, 0.25, 0.5)]
        for curve in curves[1:]:
            assert curve == pytest.approx(curves[0], rel=0.15)
        assert min(curves[0]) < curves[0][0]  # more than one view update still helps

    def test_figure_14_at_medium_rates_gaps_make_frequent_view_updates_worth_more(self) -> None:
        won = []
        for idle in mauve.IDLE_FRACTIONS:
            curve = [each.staleness.vs for each in self.curve(UpdateRate.MEDIUM, idle)]
            won.append(1 - min(curve) / curve[0])
        assert won == sorted(won)
        assert won[-1] > won[0] + 0.1

    def test_figure_15_smaller_chunks_use_up_the_lag(self) -> None:
        replays = self.curve(UpdateRate.MEDIUM, 0.75)
        lags = [replay.lag_seconds for replay in replays]
        assert all(earlier > later for earlier, later in pairwise(lags))
        assert lags[-1] > 0
        views = [replay.view_seconds for replay in replays]
        assert views == sorted(views)
        assert len({replay.base_seconds for replay in replays}) == 1

    def test_the_lower_the_rate_the_more_is_won(self) -> None:
        won = []
        for rate in (UpdateRate.HIGH, UpdateRate.MEDIUM, UpdateRate.LOW):
            curve = [each.staleness.vs for each in self.curve(rate, 0.25)]
            won.append(1 - min(curve) / curve[0])
        assert won == sorted(won)


class TestReplay:
    @given(st.lists(st.floats(0, 20), min_size=1, max_size=20).map(sorted), st.integers(1, 8), seconds)
    def test_time_is_spent_on_base_tables_views_or_nothing(self, arrivals: list[float], chunk: int, v: float) -> None:
        replay = interleaved(arrivals, 0.5, chunk, constant(v))
        end = replay.times[-1].installed
        assert replay.base_seconds + replay.view_seconds + replay.lag_seconds == pytest.approx(end)
        assert replay.phases == phases_of(len(arrivals), chunk)
        assert len(replay.times) == len(arrivals)

    @given(st.lists(st.floats(0, 20), min_size=1, max_size=20).map(sorted), st.integers(1, 8), seconds)
    def test_chunks_beside_writers_follow_one_another(self, arrivals: list[float], chunk: int, v: float) -> None:
        replay = concurrent(arrivals, chunk, constant(v))
        assert [times.earliest for times in replay.times] == arrivals
        for earlier, later in pairwise(replay.times[::chunk]):
            assert later.taken_in >= earlier.installed
        assert replay.view_seconds + replay.lag_seconds == pytest.approx(replay.times[-1].installed)

    def test_refusals(self) -> None:
        with pytest.raises(InternalError, match="never full"):
            interleaved([0.0], 1.0, 0, constant(1.0))
        with pytest.raises(InternalError, match="in order"):
            concurrent([1.0, 0.0], 1, constant(1.0))
