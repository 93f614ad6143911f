"""What each way is thought to cost, and that predictions learn."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headwater.algebra.nodes import Aggregate
from headwater.algebra.plan import Project
from headwater.choice import FULL, INCREMENTAL, TOUCHED_KEYS, Sample, Workload, choose
from headwater.sql.carrying import carrying
from headwater.sql.lower import lower
from headwater.sql.summing import sums_of

TABLES = {"big": ("k", "g", "v"), "small": ("k", "w")}
ROWS = {"big": 10_000_000, "small": 1_000}


def workload(text: str, changed: dict[str, int], *, versions: int = 1, summed: bool = True) -> Workload:
    lowered = lower(text, TABLES, functions=None)
    plan, nodes = lowered.plan, dict(lowered.nodes)
    for name, node in nodes.items():
        if summed and isinstance(node, Aggregate):
            types = {output: ["bigint", "bigint"] for output, _ in node.values}
            nodes[name] = replace(node, sums=sums_of(node.values, types))
    carried = carrying(plan, nodes, lowered.names)
    if carried is not None:
        plan, kept, _ = carried
        return Workload(plan, kept, ROWS.__getitem__, changed, versions)
    return Workload(plan, nodes, ROWS.__getitem__, changed, versions)


JOIN = "SELECT big.v, small.w FROM big JOIN small ON big.k = small.k"
SUMS = "SELECT g, sum(v) AS s FROM big GROUP BY g"
LARGEST = "SELECT g, max(v) AS s FROM big GROUP BY g"
GLOBAL = "SELECT max(v) AS s FROM big"
SLOW = [Sample(FULL, None, 30.0)]
QUICK = [Sample(FULL, None, 1.5)]
TRIED = [Sample(INCREMENTAL, 2.5, 2.5, 10)]


def test_nothing_is_chosen_before_anything_is_known() -> None:
    assert choose(workload(JOIN, {"big": 1}), []) is None


def test_a_change_of_the_large_table_meets_the_small_one_alone() -> None:
    few = workload(JOIN, {"big": 10}).of_the_change()
    many = workload(JOIN, {"small": 10}).of_the_change()
    assert few.rows < 1_000 < many.rows


def test_totals_that_the_view_carries_cost_no_look_at_the_rows() -> None:
    assert workload(SUMS, {"big": 10}).of_the_change().rows < 100
    assert workload(LARGEST, {"big": 10}, summed=False).of_the_change().rows > ROWS["big"] / 10


def test_what_has_no_key_is_computed_anew_at_every_csn() -> None:
    once = workload(GLOBAL, {"big": 1}, versions=1, summed=False).of_the_change().rows
    often = workload(GLOBAL, {"big": 1}, versions=8, summed=False).of_the_change().rows
    assert often > 4 * once > 4 * ROWS["big"]


@pytest.mark.parametrize(
    ("text", "summed", "samples", "way"),
    [
        (SUMS, True, SLOW, INCREMENTAL),
        (LARGEST, False, SLOW, TOUCHED_KEYS),
        (GLOBAL, False, [*TRIED, *SLOW], FULL),
        (SUMS, True, [*TRIED, *QUICK], FULL),
    ],
    ids=["sums of a slow view", "largest by key", "largest of all", "a view that is quick from scratch"],
)
def test_the_cheapest_way_is_chosen_and_the_others_are_told(
    text: str, summed: bool, samples: list[Sample], way: str
) -> None:
    choice = choose(workload(text, {"big": 10}, summed=summed), samples)
    assert choice is not None
    assert choice.way == way
    assert len(choice.seconds) == 2
    assert choice.seconds[FULL] == samples[-1].seconds
    assert choice.seconds[way] == min(choice.seconds.values())


def test_a_prediction_that_was_off_corrects_the_next() -> None:
    change = workload(SUMS, {"big": 10})
    first = choose(change, SLOW)
    assert first is not None
    slow = [Sample(INCREMENTAL, first.predicted[INCREMENTAL], 3 * first.predicted[INCREMENTAL])] * 3
    second = choose(change, [*slow, *SLOW])
    assert second is not None
    assert second.seconds[INCREMENTAL] == pytest.approx(3 * first.seconds[INCREMENTAL])
    assert second.predicted == first.predicted


def test_a_way_that_was_never_tried_is_tried_unless_it_is_hopeless() -> None:
    change = workload(SUMS, {"big": 10})
    untried = choose(change, QUICK)
    assert untried is not None
    assert untried.way == INCREMENTAL
    assert untried.seconds[INCREMENTAL] > untried.seconds[FULL]
    hopeless = choose(change, [Sample(FULL, None, 0.1)])
    assert hopeless is not None
    assert hopeless.way == FULL


def test_a_change_is_judged_by_what_changes_of_its_size_took() -> None:
    small, large = workload(SUMS, {"big": 10}), workload(SUMS, {"big": 1_000_000})
    samples = [
        Sample(INCREMENTAL, 3.0, 1.5, 12),
        Sample(INCREMENTAL, 3.0, 30.0, 900_000),
        Sample(FULL, None, 10.0),
    ]
    quick, slow = choose(small, samples), choose(large, samples)
    assert quick is not None
    assert slow is not None
    assert quick.seconds[INCREMENTAL] / quick.predicted[INCREMENTAL] == pytest.approx(0.5, rel=0.1)
    assert slow.seconds[INCREMENTAL] / slow.predicted[INCREMENTAL] == pytest.approx(10, rel=0.1)
    assert (quick.way, slow.way) == (INCREMENTAL, FULL)


def test_a_projection_above_keeps_its_order() -> None:
    lowered = lower("SELECT count(*) AS n, g FROM big GROUP BY g", TABLES, functions=None)
    nodes = {
        name: replace(node, sums=sums_of(node.values, {node.values[0][0]: ["bigint", "bigint"]}))
        for name, node in lowered.nodes.items()
        if isinstance(node, Aggregate)
    }
    found = carrying(lowered.plan, nodes, lowered.names)
    assert found is not None
    plan, _, carried = found
    assert isinstance(plan, Project)
    assert len(plan.outputs) == 2 + len(carried.hidden)
    assert dict(carried.columns)["group#1.k0"] == "g"


def test_what_the_first_refresh_of_a_process_took_does_not_rule_out_the_next() -> None:
    change = workload(SUMS, {"big": 10})
    first = choose(change, QUICK, cold=True)
    assert first is not None
    assert first.as_json()["cold"] is True
    cold = Sample(INCREMENTAL, first.predicted[INCREMENTAL], 4.5, 10, cold=True)  # three times as long as from scratch
    warm = Sample(INCREMENTAL, first.predicted[INCREMENTAL], 1.4, 10)
    slow = replace(warm, seconds=1.8)
    ways = {
        (case, is_cold): choose(change, [*samples, *QUICK], cold=is_cold)
        for case, samples in {"cold": [cold], "warm": [warm, cold], "slow": [slow, cold]}.items()
        for is_cold in (False, True)
    }
    chosen = {case: choice.way for case, choice in ways.items() if choice is not None}
    # A process that lives for one refresh goes by what such refreshes took, one that lives on by the others.
    assert chosen == {
        ("cold", False): INCREMENTAL,
        ("cold", True): FULL,
        ("warm", False): INCREMENTAL,
        ("warm", True): FULL,
        ("slow", False): FULL,
        ("slow", True): FULL,
    }


def test_a_cold_refresh_that_was_hopeless_is_not_tried_again() -> None:
    change = workload(SUMS, {"big": 10})
    cold = Sample(INCREMENTAL, 2.5, 30.0, 10, cold=True)
    choice = choose(change, [cold, *QUICK])
    assert choice is not None
    assert choice.way == FULL


def test_what_other_views_took_corrects_the_guess_for_one_that_was_never_tried() -> None:
    change = workload(SUMS, {"big": 10})
    known = choose(change, QUICK)
    assert known is not None
    predicted = known.predicted[INCREMENTAL]
    others = [Sample(INCREMENTAL, 4.0, 2.0, 10)] * 4
    told = choose(change, QUICK, others=others)
    assert told is not None
    assert told.seconds[INCREMENTAL] == pytest.approx(predicted / 2)
    # Three times as long as recomputing, and not only four times, is too much for a try that others speak against.
    full = [Sample(FULL, None, predicted / 3.5)]
    slow = [Sample(INCREMENTAL, 2.0, 2.0, 10)] * 4
    untold, spoken = choose(change, full), choose(change, full, others=slow)
    assert untold is not None
    assert spoken is not None
    assert (untold.way, spoken.way) == (INCREMENTAL, FULL)


def test_cold_refreshes_of_other_views_tell_nothing_and_own_ones_come_first() -> None:
    change = workload(SUMS, {"big": 10})
    cold = [Sample(INCREMENTAL, 1.0, 9.0, 10, cold=True)]
    plain, told = choose(change, SLOW), choose(change, SLOW, others=cold)
    assert plain == told
    own = [Sample(INCREMENTAL, 2.0, 1.0, 10), *SLOW]
    assert choose(change, own, others=[Sample(INCREMENTAL, 1.0, 5.0, 10)]) == choose(change, own)
