"""A response time and the policies, tried on the commits that a lake has recorded."""

from __future__ import annotations

import pytest

from headwater.catalog import Catalog, Commit, CostKind, CostRecord, Lease
from headwater.errors import InvalidInput, NothingPending, ResponseTimeTooShort
from headwater.measured import LAKE, arrivals_of, costs_below
from headwater.rehearsal import rehearse
from tests.service.worlds import ABOVE, JOIN, SUMS, leaves, view

SECOND = 1_000_000


def measured(catalog: Catalog) -> None:
    """A row of r costs next to nothing when it comes with others, one of s costs by the row."""
    fixed, each = (1.0, 0.1), (0.001, 0.05)
    samples = [
        CostRecord("joined", "propagate", part, rows, fixed[part] + each[part] * rows, False, 0)
        for part in (0, 1)
        for rows in (1, 10, 100)
    ]
    samples += [CostRecord("joined", "apply", 0, 10, 0.5, False, 0), CostRecord(LAKE, "capture", 0, 1, 0.2, False, 0)]
    catalog.add_cost_samples(samples)


def steps_of(view: str, kind: CostKind, seconds: float) -> list[CostRecord]:
    """Steps that took the same, whatever their rows."""
    return [CostRecord(view, kind, 0, rows, seconds, False, 0) for rows in (1, 10, 100) for _ in range(10)]


def busy(catalog: Catalog, lease: Lease, seconds: int) -> None:
    """A commit to each table every second."""
    for second in range(1, seconds + 1):
        at = second * SECOND
        catalog.number_units(
            lease, [[Commit("r", 3 + second, at, "WRITE", 3)], [Commit("s", 2 + second, at, "WRITE", 3)]]
        )


def test_commits_arrive_at_the_parts_that_read_their_tables(catalog: Catalog, lease: Lease) -> None:
    arrivals, step = arrivals_of(catalog, JOIN, 90e-6)
    assert step == 90e-6
    # The commit that does not tell is taken for one like the others of its table.
    assert arrivals.steps == ((10, 0), (0, 5), (30, 1), (20, 0))
    together, step = arrivals_of(catalog, SUMS)
    assert (together.steps, step) == (((66,),), 1.0)


def test_policies_keep_the_bound_at_different_costs(catalog: Catalog, lease: Lease) -> None:
    measured(catalog)
    busy(catalog, lease, 200)
    found = rehearse(catalog, "joined", 6.0, None)
    assert found.rows == {"r": 643, "s": 606}  # the commit that does not tell is taken for a small one
    assert 199 <= found.steps <= 201
    by_name = {each.policy: each for each in found.policies}
    assert set(by_name) == {"ahead", "online", "naive"}
    assert all(each.late == 0 and each.worst_refresh <= 6.0 for each in found.policies)
    assert by_name["ahead"].seconds < by_name["naive"].seconds
    assert found.as_dict()["policies"][0]["backlog"][-1] == 0  # refreshed at the end


def test_what_can_not_be_tried_says_why(catalog: Catalog, lease: Lease) -> None:
    with pytest.raises(InvalidInput, match="promises no response time"):
        rehearse(catalog, "joined", None, None)
    with pytest.raises(InvalidInput, match="above 0"):
        rehearse(catalog, "joined", 5.0, 0.0)
    with pytest.raises(NothingPending, match="never measured"):
        rehearse(catalog, "joined", 5.0, None)
    measured(catalog)
    with pytest.raises(ResponseTimeTooShort):
        rehearse(catalog, "joined", 0.5, None)


def test_only_of_a_recomputed_view_nothing_is_kept_back_for_one_more_refresh(catalog: Catalog, lease: Lease) -> None:
    """As the service leaves it: a view of one part that is propagated is no recomputed one."""
    recomputed = view("turned", SUMS.sql, "r", "s", definition={**SUMS.definition, "recomputed": "PIVOT"})
    catalog.insert_view(lease, recomputed, leaves("r", "s"))
    catalog.add_cost_samples([*steps_of("sums", "propagate", 2.0), *steps_of("sums", "apply", 0.5)])
    catalog.add_cost_samples([*steps_of("turned", "recompute", 2.0), *steps_of(LAKE, "capture", 0.2)])
    assert rehearse(catalog, "sums", 10.0, None).limit == pytest.approx(10 - (0.2 + 2.0 + 0.5) - (0.2 + 0.5))
    assert rehearse(catalog, "turned", 10.0, None).limit == pytest.approx(10 - 1.0 - 0.2)


def test_the_worst_refresh_has_in_it_what_the_views_below_take(catalog: Catalog, lease: Lease) -> None:
    measured(catalog)
    catalog.add_cost_samples([*steps_of("above", "propagate", 2.0), *steps_of("above", "apply", 0.5)])
    below = costs_below(catalog, ABOVE).expected
    assert below > 1.0
    for each in rehearse(catalog, "above", 20.0, None).policies:
        assert each.worst_refresh == pytest.approx(0.2 + 2.0 + 0.5 + below)


def test_a_step_that_cuts_the_record_too_fine_is_refused(catalog: Catalog, lease: Lease) -> None:
    measured(catalog)
    busy(catalog, lease, 20)
    with pytest.raises(InvalidInput, match="1,000,000 are the most"):
        rehearse(catalog, "joined", 6.0, 1e-6)
