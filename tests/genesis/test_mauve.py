"""The workloads of [Mauve98 §4], held to what the paper says of them."""

from __future__ import annotations

from collections import Counter

import pytest

from headwater.genesis import UpdateRate, initial_rows, mauve, transactions
from headwater.genesis.arrivals import Discontinuous, Steady


def test_figures_8_to_11_update_sizes_are_4_6_10_and_15_percent_of_both_tables() -> None:
    workloads = mauve.update_sizes(capacity=1000)
    assert [workload.updates for workload in workloads] == [30_000, 40_000, 70_000, 100_000]
    both = [sum(table.rows for table in workload.tables) for workload in workloads]
    assert [round(100 * workload.updates / rows) for workload, rows in zip(workloads, both, strict=True)] == [
        4,
        6,
        10,
        15,
    ]


@pytest.mark.parametrize("rows", [666_660, 689_660])
def test_no_other_table_size_rounds_to_all_four_percentages(rows: int) -> None:
    assert [round(100 * updates / rows) for updates in mauve.UPDATE_SIZES] != [4, 6, 10, 15]


def test_section_4_the_view_is_about_as_large_as_each_base_table() -> None:
    workload = mauve.workload(100, rate=1.0, megabytes=3)
    left, right = (Counter(row[1] for row in initial_rows(workload, table)) for table in mauve.TABLES)
    joined = sum(count * right[value] for value, count in left.items())
    assert joined == pytest.approx(workload.tables[0].rows, rel=0.02)


def test_updates_are_insertions_and_deletions() -> None:
    workload = mauve.workload(1000, rate=1.0, megabytes=1)
    changes = [change for transaction in transactions(workload) for change in transaction.changes]
    assert not any(change.updated for change in changes)
    assert sum(len(change.inserted) for change in changes) == pytest.approx(500, abs=60)
    assert {change.table for change in changes} == set(mauve.TABLES)


@pytest.mark.parametrize("rate", [UpdateRate.HIGH, UpdateRate.MEDIUM])
def test_figures_13_and_14_four_streams_of_the_same_updates(rate: UpdateRate) -> None:
    workloads = mauve.discontinuous_streams(rate, capacity=500, scale=0.05)
    assert [type(workload.stream) for workload in workloads] == [Steady] + [Discontinuous] * 3
    assert [workload.stream.effective_rate / workload.stream.rate for workload in workloads] == pytest.approx(
        [1, 0.75, 0.5, 0.25]
    )
    assert all(UpdateRate.classify(workload.stream.rate, 500) is rate for workload in workloads)
    streams = [[each.changes for each in transactions(workload)] for workload in workloads]
    assert all(stream == streams[0] for stream in streams)


def test_figure_16_the_same_number_of_updates_on_tables_of_30_and_100_megabytes() -> None:
    small, large = mauve.table_sizes(capacity=1000)
    assert small.updates == large.updates == 40_000
    assert large.tables[0].rows / small.tables[0].rows == pytest.approx(100 / 30)
