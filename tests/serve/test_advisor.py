"""The advisor: the chunk size of least predicted staleness, from a few measured view updates."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import InvalidInput
from headwater.serve.advisor import ViewUpdateSample, ViewUpdateTime, advise, predict_chunk
from headwater.serve.replay import interleaved
from headwater.serve.staleness import Process, best_phases, predicted

samples = st.lists(st.builds(ViewUpdateSample, st.integers(1, 500), st.floats(0.01, 100)), min_size=1, max_size=5)


class TestViewUpdateTime:
    def test_between_measured_sizes_it_is_a_straight_line(self) -> None:
        time = ViewUpdateTime.through([ViewUpdateSample(100, 3.0), ViewUpdateSample(300, 7.0)])
        assert [time(size) for size in (100, 150, 200, 300)] == [3, 4, 5, 7]

    def test_outside_it_promises_nothing_that_was_not_seen(self) -> None:
        time = ViewUpdateTime.through([ViewUpdateSample(100, 3.0), ViewUpdateSample(300, 7.0)])
        assert time(1) == 3
        assert time(600) == 14

    def test_several_samples_of_one_size_are_averaged(self) -> None:
        assert ViewUpdateTime.through([ViewUpdateSample(5, 1.0), ViewUpdateSample(5, 2.0)])(5) == 1.5

    @given(samples)
    def test_it_goes_through_what_was_measured(self, found: list[ViewUpdateSample]) -> None:
        time = ViewUpdateTime.through(found)
        for sample in found:
            own = [each.seconds for each in found if each.updates == sample.updates]
            assert time(sample.updates) == pytest.approx(sum(own) / len(own))

    @given(st.floats(0, 10), st.floats(0, 0.1), st.sets(st.integers(1, 1000), min_size=2, max_size=5))
    def test_a_fixed_cost_with_a_cost_for_each_row_is_met_between_the_samples(
        self, fixed: float, each: float, sizes: set[int]
    ) -> None:
        time = ViewUpdateTime.through([ViewUpdateSample(size, fixed + each * size) for size in sizes])
        for size in range(min(sizes), max(sizes) + 1, 37):
            assert time(size) == pytest.approx(fixed + each * size)
        assert time(max(sizes) * 3) >= fixed + each * max(sizes) * 3 - 1e-9
        assert time(min(sizes) / 2) >= fixed + each * min(sizes) / 2


class TestAdvice:
    @given(st.integers(1, 900), st.floats(0.1, 1000), samples, st.sampled_from(Process))
    def test_no_frequency_is_predicted_better(
        self, updates: int, base: float, found: list[ViewUpdateSample], process: Process
    ) -> None:
        advice = advise(updates, base, found, process)
        time = ViewUpdateTime.through(found)
        curve = [predicted(n, base, time(updates / n), process).vs for n in range(1, updates + 1)]
        # Up to 200 phases every n is looked at, then steps of a hundredth.
        assert min(curve) <= advice.chosen.prediction.vs <= 1.01 * min(curve) + 1e-9
        assert advice.once.chunk == updates
        assert advice.chosen in advice.candidates
        assert advice.chosen.prediction.vs == min(each.prediction.vs for each in advice.candidates)

    @given(st.floats(1, 1e4), st.floats(0.1, 50))
    def test_two_sizes_of_one_cost_are_the_papers_constant_v(self, base: float, view: float) -> None:
        advice = advise(10**6, base, [ViewUpdateSample(1, view), ViewUpdateSample(10**6, view)])
        assert predicted(best_phases(base, view), base, view, Process.INTERLEAVED).vs == pytest.approx(
            advice.chosen.prediction.vs, rel=1e-4
        )

    def test_a_million_updates_are_soon_advised_on(self) -> None:
        advice = advise(10**6, 3600.0, [ViewUpdateSample(10_000, 4.0), ViewUpdateSample(10**6, 100.0)])
        assert 1 < advice.chosen.prediction.phases < 1000
        assert advice.chosen.prediction.vs < advice.once.prediction.vs
        chunks = [each.chunk for each in advice.candidates]
        assert chunks == sorted(chunks, reverse=True)

    @pytest.mark.parametrize("seed", range(8))
    def test_from_four_noisy_samples_it_comes_within_15_percent_of_the_measured_best(self, seed: int) -> None:
        """The target of the benchmark, on a warehouse that exists on paper only."""
        random = Random(seed)
        updates, update_seconds = 600, 0.03
        fixed, each = random.uniform(0.2, 1.5), random.uniform(0.0006, 0.006)

        def view_seconds(size: int) -> float:
            return (fixed + each * size) * random.uniform(0.95, 1.05)

        measured = [ViewUpdateSample(updates // n, view_seconds(updates // n)) for n in (1, 3, 10, 30)]
        advice = advise(updates, updates * update_seconds, measured)

        def staleness(chunk: int) -> float:
            replay = interleaved([0.0] * updates, update_seconds, chunk, lambda size: fixed + each * size)
            return replay.staleness.vs

        best = min(staleness(-(-updates // n)) for n in range(1, 60))
        assert staleness(advice.chosen.chunk) <= 1.15 * best
        assert 1 < advice.chosen.prediction.phases < updates  # the minimum lies inside

    def test_a_chunk_size_that_somebody_has_in_mind(self) -> None:
        time = ViewUpdateTime.through([ViewUpdateSample(10, 1.0)])
        found = predict_chunk(45, 10, 20.0, time)
        assert found.prediction == predicted(5, 20.0, 1.0, Process.INTERLEAVED)

    def test_refusals(self) -> None:
        with pytest.raises(InvalidInput, match="measured yet"):
            advise(10, 1.0, [])
        with pytest.raises(InvalidInput, match="0 updates"):
            advise(0, 1.0, [ViewUpdateSample(1, 1.0)])
        with pytest.raises(InvalidInput, match="Leave it out"):
            ViewUpdateSample(0, 1.0)
