"""The benchmark's arithmetic against the replay of the paper's process, and its picture."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.bench.mauve import _of_sizes
from headwater.bench.mauve.drawing import draw
from headwater.bench.mauve.experiments import Run, Timed
from headwater.serve.replay import interleaved


def run_of(arrivals: list[float], update: float, chunk: int, view: float) -> Run:
    """What the laboratory would note of a process with fixed costs."""
    run, members, free = Run(), [], 0.0
    for number, arrival in enumerate(arrivals, start=1):
        run.lag += max(0.0, arrival - free)
        begun = max(free, arrival)
        free = begun + update
        members.append(Timed(1, arrival, begun, free))
        if len(members) == chunk or number == len(arrivals):
            run.chunks.append((members, free, free + view))
            free, members = free + view, []
    return run


@given(
    gaps=st.lists(st.sampled_from([0.0, 0.25, 1.0, 8.0]), min_size=1, max_size=20),
    chunk=st.integers(1, 20),
    view=st.sampled_from([0.5, 2.0]),
)
def test_a_run_is_measured_as_the_replay_says(gaps: list[float], chunk: int, view: float) -> None:
    arrivals = [sum(gaps[: place + 1]) for place in range(len(gaps))]
    expected = interleaved(arrivals, 0.5, chunk, lambda _: view)
    found = run_of(arrivals, 0.5, chunk, view).figures()
    assert found["phases"] == expected.phases
    assert found["s1"] == pytest.approx(expected.staleness.s1, abs=1e-3)
    assert found["s2"] == pytest.approx(expected.staleness.s2, abs=1e-3)
    assert found["base_seconds"] == pytest.approx(expected.base_seconds, abs=1e-3)
    assert found["lag_seconds"] == pytest.approx(expected.lag_seconds, abs=1e-3)


def figures() -> dict[str, object]:
    runs = [run_of([0.0] * 24, 0.5, 24 // phases, 2.0).figures() | {"theoretic": 9.0} for phases in (1, 2, 4, 12)]
    return {
        "update_sizes": [{"updates": 24, "rows": 10, "runs": runs, "advised": runs[1], "best_again": runs[1]}],
        "streams": {"medium": [{"idle": 0.5, "runs": runs}]},
        "table_sizes": [{"rows": 10, "runs": runs}],
        "readers": {
            "readers": 2,
            "violations": 0,
            "errors": 0,
            "alone": {"median_seconds": 1.0, "p95_seconds": 2.0},
            "beside": {"median_seconds": 1.0, "p95_seconds": None},
        },
    }


def test_the_least_staleness_lies_inside_and_the_advice_is_compared_with_it() -> None:
    inside, advice = _of_sizes(figures()["update_sizes"])  # type: ignore[arg-type]
    assert (inside.measured, inside.met, advice.measured, advice.met) == (2, True, 1.0, True)


def test_the_advice_is_judged_by_all_runs_of_its_chunk_size() -> None:
    (each,) = figures()["update_sizes"]  # type: ignore[misc]
    runs = each["runs"]
    slow = runs[1] | {"vs": 2 * runs[1]["vs"]}
    (_, same) = _of_sizes([each | {"advised": slow, "best_again": slow}])
    assert same.measured == 1.0
    (_, other) = _of_sizes([each | {"advised": runs[0], "best_again": runs[1]}])
    assert other.measured == pytest.approx(runs[0]["vs"] / runs[1]["vs"], abs=0.01)
    (_, between) = _of_sizes([each | {"advised": runs[0] | {"phases": 3}, "best_again": runs[1]}])
    assert between.measured == other.measured


def test_every_figure_is_drawn(tmp_path: Path) -> None:
    draw(figures(), tmp_path / "mauve.svg")
    text = (tmp_path / "mauve.svg").read_text()
    assert text.count('id="axes_') == 5
    draw({}, tmp_path / "nothing.svg")
    assert not (tmp_path / "nothing.svg").exists()
