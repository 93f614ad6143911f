"""When the size of a table is asked for again."""

from __future__ import annotations

from typing import Any, cast

import pytest

from headwater.engine import statistics
from headwater.engine.spark import SparkEngine
from headwater.engine.statistics import Statistics


class _Counting:
    """An engine whose table has so many rows, and that counts how often it was asked."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.asked: list[str] = []

    def compute(self, text: str) -> _Counting:
        self.asked.append(text)
        return self

    def collect(self) -> list[list[Any]]:
        columns = self.asked[-1].count("MIN(")
        return [[self.rows, *[1, self.rows] * columns]]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(statistics.time, "monotonic", lambda: now[0])
    return now


def test_a_table_of_which_little_changed_is_not_asked_again(clock: list[float]) -> None:
    engine, changed = _Counting(1000), [40]
    known = Statistics(cast("SparkEngine", engine))
    assert known.extent("t", ["k"], lambda: changed[0]).rows == 1000
    for changes in (40, 100, 139):
        clock[0] += 10_000
        changed[0], engine.rows = changes, 1000 + changes
        assert known.extent("t", ["k"], lambda: changed[0]).rows == 1000
    assert len(engine.asked) == 1
    clock[0] += 10_000
    changed[0], engine.rows = 141, 1141
    assert known.extent("t", ["k"], lambda: changed[0]).rows == 1141
    assert len(engine.asked) == 2


@pytest.mark.parametrize(("before", "after"), [(None, None), (None, 5), (5, None), (5, 4)])
def test_where_changes_are_not_counted_it_is_asked_again_after_a_while(
    clock: list[float], before: int | None, after: int | None
) -> None:
    engine = _Counting(1000)
    known = Statistics(cast("SparkEngine", engine))
    known.extent("t", ["k"], lambda: before)
    clock[0] += 60
    known.extent("t", ["k"], lambda: after)
    assert len(engine.asked) == 1
    clock[0] += 10_000
    known.extent("t", ["k"], lambda: after)
    assert len(engine.asked) == 2


def test_another_column_and_a_forgotten_table_are_asked_for_at_once(clock: list[float]) -> None:
    engine = _Counting(1000)
    known = Statistics(cast("SparkEngine", engine))
    known.extent("t", ["k"], lambda: 0)
    assert set(known.extent("t", ["j"], lambda: 0).values) == {"j", "k"}
    known.extent("t", ["k"], lambda: 0)
    assert len(engine.asked) == 2
    known.forget("t")
    known.extent("t", ["k"], lambda: 0)
    assert len(engine.asked) == 3
