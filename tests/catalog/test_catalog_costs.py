"""What steps took, as the catalog keeps it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.catalog.worlds import TIMES, VIEW, populate

from headwater.catalog import Catalog, CostRecord, costs

SAMPLE = CostRecord(VIEW.view_id, "propagate", 0, rows=10, seconds=1.5, cold=False, measured_at=9)


def test_samples_come_back_newest_first_by_kind_and_part(catalog: Catalog) -> None:
    second = replace(SAMPLE, part=1, rows=20)
    third = replace(SAMPLE, rows=30, step_id=7, by_part=(10, 20))
    catalog.add_cost_samples([SAMPLE, second])
    catalog.add_cost_samples([third, replace(SAMPLE, kind="apply"), replace(SAMPLE, view_id="other")])
    assert catalog.cost_samples(VIEW.view_id, "propagate") == [third, second, SAMPLE]
    assert catalog.cost_samples(VIEW.view_id, "propagate", 0) == [third, SAMPLE]
    assert catalog.cost_samples(VIEW.view_id, "propagate", limit=1) == [third]
    catalog.add_cost_samples([])


def test_a_step_is_sampled_once(catalog: Catalog) -> None:
    catalog.add_cost_samples([replace(SAMPLE, step_id=7)])
    catalog.add_cost_samples([replace(SAMPLE, step_id=7, seconds=99), replace(SAMPLE, step_id=8)])
    assert [sample.seconds for sample in catalog.cost_samples(VIEW.view_id, "propagate")] == [1.5, 1.5]


def test_old_samples_make_room(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "KEPT", 3)
    for rows in range(1, 6):
        catalog.add_cost_samples([replace(SAMPLE, rows=rows), replace(SAMPLE, part=1, rows=100 + rows)])
    assert [sample.rows for sample in catalog.cost_samples(VIEW.view_id, "propagate", 0)] == [5, 4, 3]
    assert [sample.rows for sample in catalog.cost_samples(VIEW.view_id, "propagate", 1)] == [105, 104, 103]


def test_the_cheapest_is_of_the_whole_lake_and_not_cold(catalog: Catalog) -> None:
    assert catalog.cheapest_seconds("apply") is None
    catalog.add_cost_samples([replace(SAMPLE, kind="apply", seconds=0.2, cold=True)])
    assert catalog.cheapest_seconds("apply") is None
    catalog.add_cost_samples(
        [replace(SAMPLE, kind="apply", view_id=view, seconds=s) for view, s in (("a", 3), ("b", 2))]
    )
    assert catalog.cheapest_seconds("apply") == 2


def test_steps_that_are_not_sampled_yet(catalog: Catalog) -> None:
    with catalog.lease("v") as lease:
        populate(catalog, lease)
        first = catalog.begin_step(lease, VIEW.view_id, "propagate", {"before": [2, 2], "after": [4, 3]})
        assert catalog.unsampled_steps(VIEW.view_id) == []
        catalog.finish_propagate(lease, first.step_id, TIMES, outcome={"seconds": 1.0})
        assert [step.step_id for step in catalog.unsampled_steps(VIEW.view_id)] == [first.step_id]
        before = catalog.newest_cost_sample(VIEW.view_id, "propagate")
        catalog.add_cost_samples([replace(SAMPLE, step_id=first.step_id)])
        assert catalog.unsampled_steps(VIEW.view_id) == []
        assert before is None
        assert catalog.newest_cost_sample(VIEW.view_id, "propagate") is not None


def test_samples_outlive_their_view(catalog: Catalog) -> None:
    with catalog.lease("v") as lease:
        populate(catalog, lease)
        catalog.add_cost_samples([SAMPLE])
        catalog.begin_drop(lease, VIEW.view_id, {"locations": []})
    assert catalog.cost_samples(VIEW.view_id, "propagate") == [SAMPLE]
