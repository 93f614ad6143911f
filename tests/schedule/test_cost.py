"""Cost functions: monotone, subadditive, and the same again after JSON [He05 §2, §3.3]."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.errors import InvalidInput
from headwater.schedule.cost import (
    Blocks,
    CostFunction,
    Linear,
    PiecewiseLinear,
    Scaled,
    Sum,
    cost_from_dict,
    largest_batch,
)
from tests.schedule.instances import concave_costs, linear_costs, positive_quarters, quarters, subadditive_costs

FAR = 30


def is_monotone_and_subadditive(function: CostFunction, far: int = FAR) -> bool:
    values = [function(rows) for rows in range(2 * far + 1)]
    return (
        values[0] == 0
        and all(low <= high + 1e-9 for low, high in pairwise(values))
        and all(values[x + y] <= values[x] + values[y] + 1e-9 for x in range(far + 1) for y in range(x + 1))
    )


@settings(max_examples=60)
@given(st.one_of(subadditive_costs(), st.builds(Scaled, concave_costs(), quarters)))
def test_every_form_is_monotone_and_subadditive(function: CostFunction) -> None:
    assert is_monotone_and_subadditive(function)


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(1, 5), quarters), min_size=1, max_size=4), quarters)
def test_a_piecewise_linear_function_is_refused_exactly_when_it_is_not_subadditive(
    pieces: list[tuple[int, float]], fixed: float
) -> None:
    """The corners decide: no other pair of sizes can break what all of them keep, and each of them counts."""
    points = [(0, fixed)]
    for width, rise in pieces:
        points.append((points[-1][0] + width, points[-1][1] + rise))

    def at(rows: int) -> float:
        if rows == 0:
            return 0.0
        for (start, low), (end, high) in pairwise(points):
            if rows <= end or end == points[-1][0]:
                return low + (high - low) * (rows - start) / (end - start)
        raise AssertionError

    right = all(at(x + y) <= at(x) + at(y) + 1e-9 for x in range(1, 45) for y in range(1, x + 1))
    if right:
        assert [PiecewiseLinear(tuple(points))(rows) for rows in range(45)] == pytest.approx(
            [at(rows) for rows in range(45)]
        )
    else:
        with pytest.raises(InvalidInput, match="subadditive"):
            PiecewiseLinear(tuple(points))


@given(
    st.one_of(
        linear_costs,
        concave_costs(),
        st.builds(Blocks, st.integers(1, 4), positive_quarters),
        st.builds(lambda a, b: Sum((a, b)), linear_costs, st.builds(Scaled, concave_costs(), quarters)),
    )
)
def test_a_function_is_the_same_after_json(function: CostFunction) -> None:
    assert cost_from_dict(json.loads(json.dumps(function.to_dict()))) == function


def test_blocks_are_subadditive_and_not_concave() -> None:
    """[He05 §2]: the cost of scanning x rows in blocks of B is ⌈x/B⌉."""
    blocks = Blocks(4, 1.0)
    assert [blocks(rows) for rows in (0, 1, 4, 5, 8, 9)] == [0, 1, 1, 2, 2, 3]
    assert not blocks.is_concave


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Linear(-1.0), "per_row"),
        (lambda: Linear(1.0, float("nan")), "fixed"),
        (lambda: PiecewiseLinear(()), "begins at 0"),
        (lambda: PiecewiseLinear(((0, 1.0), (5, 2.0), (5, 3.0))), "ascending"),
        (lambda: PiecewiseLinear(((0, 2.0), (5, 1.0))), "can't cost less"),
        (lambda: PiecewiseLinear(((0, 0.0), (5, 1.0), (6, 9.0))), "subadditive"),
        (lambda: Blocks(0, 1.0), "holds nothing"),
        (lambda: cost_from_dict({"form": "cubic"}), "not a cost function"),
    ],
)
def test_what_is_no_cost_function_is_refused(make: object, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        make()  # type: ignore[operator]


@given(subadditive_costs(), quarters, st.integers(0, 20))
def test_the_largest_batch_within_a_limit(function: CostFunction, limit: float, at_most: int) -> None:
    assert largest_batch(function, limit, at_most) == max(
        rows for rows in range(at_most + 1) if function(rows) <= limit
    )
