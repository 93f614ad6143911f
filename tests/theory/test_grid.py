"""Cells of a key's range: a key is always within the spans of its cell."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headwater.algebra.grid import CELLS, RANGES, WORTH, Grid, Span

numbers = st.integers(-50, 50) | st.integers(-(2**40), 2**40)


def within(key: int, spans: tuple[Span, ...]) -> bool:
    return any((low is None or low <= key) and (high is None or key <= high) for low, high in spans)


@given(numbers, numbers, st.sets(st.integers(0, 20) | st.integers(-(2**63), 2**63 - 1), max_size=40))
def test_every_key_is_within_the_spans_of_the_cells(one: int, other: int, keys: set[int]) -> None:
    low, high = sorted((one, other))
    grid = Grid.over(low, high)
    if grid is None:
        assert low == high
        return
    cells = {grid.cell(key) for key in keys}
    assert all(0 <= cell < grid.cells <= CELLS for cell in cells)
    spans = grid.spans(cells)
    if spans is not None:
        assert len(spans) <= RANGES
        assert all(within(key, spans) for key in keys)


def test_neighbouring_keys_leave_out_the_rest_of_the_table() -> None:
    grid = Grid.over(1, 6_000_000)
    assert grid is not None
    spans = grid.spans({grid.cell(key) for key in range(300_000, 301_000)})
    assert spans is not None
    assert within(300_500, spans)
    assert not within(290_000, spans)
    assert not within(310_000, spans)


def test_keys_all_over_the_table_are_not_worth_a_condition() -> None:
    grid = Grid.over(0, 99_999)
    assert grid is not None
    assert grid.spans({grid.cell(key) for key in range(0, 100_000, 50)}) is None
    assert grid.spans(set()) == ()
    assert WORTH < 1


def test_keys_that_leave_no_room_to_count_in_have_no_grid() -> None:
    assert Grid.over(-(2**63), 2**63 - 1) is None
    assert Grid.over(7, 7) is None
