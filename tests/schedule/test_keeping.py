"""What is done for one view, and the numbers behind it."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.schedule.fit import Sample, fit
from headwater.schedule.keeping import HEADROOM, MOST_INTERFERENCE, Memory, Seen, decide, done
from headwater.schedule.outlook import Outlook
from headwater.schedule.service_level import ServiceLevel
from headwater.schedule.view_costs import CONFIDENCE, JointCosts, ViewCosts

SIZES = (1, 10, 100, 1000)


def line(fixed: float, per_row: float) -> Any:
    return fit([Sample(rows, fixed + per_row * rows) for rows in SIZES for _ in range(8)])


COSTS = ViewCosts((line(2, 0.001), line(0.5, 0.05)), apply=line(1, 0.0005), capture=line(0.5, 0))
SEEN = Seen("v", ServiceLevel(response_time=10), ("a", "b"), (100, 20), 120, 3.0, COSTS)


def look(seen: Seen, **options: Any) -> Any:
    return decide(seen, Memory.begin(seen, 0.0), 5.0, tick=1.0, **options)[0]


def test_the_cost_limit_is_what_capture_and_apply_leave_of_the_response_time() -> None:
    verdict = look(SEEN)
    assert verdict.deed == "wait"
    # A row of part a takes two seconds: what is committed while a refresh is running costs one more, of that at least.
    again = 2.0 + 0.5 + 1.0
    assert verdict.limit == pytest.approx(10 - again - 0.5 - 1.06, abs=0.01)
    cheap = replace(COSTS, parts=(line(0.02, 0.001), line(0.01, 0.05)), apply=line(0.1, 0), capture=line(0.1, 0))
    assert look(replace(SEEN, costs=cheap)).limit == pytest.approx(10 * (1 - HEADROOM) - 0.2, abs=0.01)
    assert look(replace(SEEN, below=1.0, below_bound=2.0)).limit == pytest.approx(verdict.limit - 2.0)
    assert look(SEEN, interference=1.5).limit == pytest.approx(verdict.limit - 1.5)
    assert look(SEEN, interference=100).limit == pytest.approx(max(0.0, verdict.limit - MOST_INTERFERENCE * 10))


def test_a_full_backlog_is_processed_in_part() -> None:
    full = replace(SEEN, backlog=(100, 100), unapplied=200, level=ServiceLevel(response_time=12))
    learning = look(full)
    assert (learning.reason, learning.counts) == ("what parts share is not measured yet", (100, 100))
    # Not where others can't wait for so long.
    assert look(full, longest=3.0).reason.startswith("the backlog is full")
    verdict = look(replace(full, costs=replace(full.costs, joint=JointCosts(0.0, (1.0, 1.0, 1.0)))))
    assert (verdict.deed, verdict.reason) == ("process", "the backlog is full")
    assert verdict.counts in ((100, 0), (0, 100))
    told = verdict.as_dict()
    assert told["f"] == {"a": 2.1, "b": 5.5}
    assert {tuple(each["empties"]) for each in told["alternatives"]} == {("a",), ("b",)}


def test_a_reader_comes_before_everything_even_when_nothing_is_pending() -> None:
    assert look(SEEN, demanded=True).deed == "refresh"
    assert look(replace(SEEN, backlog=(0, 0), unapplied=0), demanded=True).deed == "refresh"
    assert look(replace(SEEN, backlog=(0, 0), unapplied=0)).deed == "wait"


def test_what_is_to_be_applied_may_not_take_half_of_what_is_left() -> None:
    verdict = look(replace(SEEN, backlog=(0, 0), unapplied=9000))
    assert (verdict.deed, verdict.reason) == ("refresh", "what is to be applied has grown")


def test_a_view_that_can_not_be_propagated_is_refreshed() -> None:
    assert look(replace(SEEN, problem="TABLE_RESYNCED")).deed == "refresh"


def test_the_state_of_a_promise() -> None:
    assert replace(SEEN, level=ServiceLevel()).state == "none"
    assert replace(SEEN, costs=ViewCosts((None, None))).state == "unknown"
    assert SEEN.state == "kept"
    assert replace(SEEN, backlog=(100, 500)).state == "broken"
    assert replace(SEEN, outlook=Outlook(10, 3, 3, 1, broken_in=3600)).state == "at risk"
    assert replace(SEEN, stuck="r: its change feed is off").state == "broken"
    assert SEEN.state == "kept"
    assert replace(SEEN, problem="TABLE_RESYNCED").state == "at risk"  # what a recomputation takes was not measured
    assert replace(SEEN, problem="TABLE_RESYNCED", stuck="it may not be recomputed").state == "broken"
    assert replace(SEEN, level=ServiceLevel(max_staleness=5)).state == "kept"
    assert replace(SEEN, level=ServiceLevel(max_staleness=2)).state == "broken"
    noisy = fit([Sample(10, seconds) for seconds in (3.0, 3.0, 3.0, 9.0) * 10])
    assert replace(SEEN, costs=replace(COSTS, parts=(noisy, COSTS.parts[1]))).state == "at risk"


def test_a_view_of_which_nothing_can_be_seen_is_left_alone_unless_somebody_asks() -> None:
    unseen = Seen("v", SEEN.level, (), (), 0, 0.0, ViewCosts(()), stuck="its definition can't be read")
    assert (look(unseen).deed, look(unseen, demanded=True).deed) == ("wait", "refresh")
    assert unseen.next_action == 0.0
    assert look(unseen).as_dict()["stuck"] == unseen.stuck


def test_what_others_are_doing_is_added_to_the_age_of_the_oldest_change() -> None:
    """A refresh begins so early that the step of another view, which can't be interrupted, fits in before it."""
    seen = replace(SEEN, level=ServiceLevel(max_staleness=60), staleness=40.0)
    assert look(seen).deed == "wait"
    assert look(seen, interference=15.0).deed == "refresh"
    assert look(replace(seen, staleness=10.0), interference=1000.0).deed == "wait"  # half of the bound at most


def test_what_a_refresh_takes_beside_propagation_is_waited_for_too() -> None:
    propagated = replace(SEEN, backlog=(0, 0))
    assert propagated.next_action > 1.5  # capture, and apply of 120 rows
    assert replace(propagated, unapplied=0).next_action == 0.0


def test_another_policy_or_other_parts_begin_with_an_empty_memory() -> None:
    _, memory = decide(SEEN, Memory.begin(SEEN, 0.0), 5.0, tick=1.0)
    other = replace(SEEN, level=ServiceLevel(response_time=10, policy="naive"))
    _, after = decide(other, memory, 6.0, tick=1.0)
    assert after.policy_name == "naive"
    alone = replace(SEEN, labels=("a",), backlog=(1,), costs=replace(COSTS, parts=COSTS.parts[:1]))
    assert decide(alone, memory, 6.0, tick=1.0)[1].left == (1,)


def test_what_arrived_during_a_long_step_is_spread_over_its_time() -> None:
    quiet = replace(SEEN, backlog=(0, 0), unapplied=0)
    _, memory = decide(quiet, Memory.begin(quiet, 0.0), 1.0, tick=1.0)
    _, slow = decide(replace(SEEN, backlog=(100, 0)), memory, 51.0, tick=1.0)
    _, fast = decide(replace(SEEN, backlog=(100, 0)), memory, 2.0, tick=1.0)
    assert slow.policy.per_step[0] == pytest.approx(2.0, abs=0.1)
    assert fast.policy.per_step[0] > 10
    assert slow.policy.steps == 51


def test_quiet_steps_count_too() -> None:
    """A policy that saw only the looks at which something was pending took every stream for a fast one."""
    quiet = replace(SEEN, backlog=(0, 0), unapplied=0)
    memory = Memory.begin(quiet, 0.0)
    for second in range(1, 11):
        _, memory = decide(quiet, memory, float(second), tick=1.0)
    assert memory.policy.steps == 10
    assert memory.policy.per_step == (0.0, 0.0)


def test_after_a_deed_only_what_arrived_since_counts_as_new() -> None:
    full = replace(SEEN, backlog=(100, 120), unapplied=220)
    verdict, memory = decide(full, Memory.begin(full, 0.0), 5.0, tick=1.0)
    after = done(memory, verdict, 9.0, 4.0)
    assert after.left == tuple(a - b for a, b in zip(full.backlog, verdict.counts, strict=True))
    assert after.spent == 4.0
    refreshed = done(memory, look(full, demanded=True), 9.0, 4.0)
    assert (refreshed.left, refreshed.refreshed_at, refreshed.spent) == ((0, 0), 9.0, 0.0)


@given(
    st.tuples(st.integers(0, 2000), st.integers(0, 2000)),
    st.floats(0.0, 20.0),
    st.floats(0.0, 60.0),
    st.booleans(),
    st.sampled_from(["naive", "online", "ahead"]),
)
def test_a_step_takes_only_what_is_there_and_what_others_can_bear(
    backlog: tuple[int, int], longest: float, interference: float, demanded: bool, policy: str
) -> None:
    seen = replace(SEEN, level=ServiceLevel(10, 60, policy), backlog=backlog, unapplied=sum(backlog))
    verdict = look(seen, longest=longest, interference=interference, demanded=demanded)
    assert all(0 <= taken <= rows for taken, rows in zip(verdict.counts, backlog, strict=True))
    functions = COSTS.upper(CONFIDENCE)
    assert functions is not None
    if verdict.deed == "process":
        cost = sum(f(rows) for f, rows in zip(functions, verdict.counts, strict=True))
        smallest = min(f(1) for f, rows in zip(functions, backlog, strict=True) if rows)
        assert cost <= max(longest, max(f(1) for f in functions)) + 1e-9
        assert cost >= smallest - 1e-9
    unhurried = look(seen, longest=inf, interference=interference, demanded=demanded)
    if unhurried.deed == "process":
        after = tuple(rows - taken for rows, taken in zip(backlog, unhurried.counts, strict=True))
        assert unhurried.limit is not None
        assert sum(f(rows) for f, rows in zip(functions, after, strict=True)) <= unhurried.limit + 1e-9
    assert look(seen, longest=longest, interference=interference, demanded=demanded) == verdict


def test_a_backlog_far_beyond_what_was_measured_is_processed_whatever_the_function_says() -> None:
    """Samples of one size tell no slope: a view was waited for that would have taken ten times its bound."""
    flat = fit([Sample(10, 2.0)] * 5)
    seen = replace(SEEN, costs=replace(COSTS, parts=(flat, flat)), backlog=(20, 21), unapplied=41)
    verdict = look(seen)
    assert (verdict.deed, verdict.reason, verdict.counts) == ("process", "more than was ever measured", (0, 21))
    assert look(replace(seen, backlog=(20, 20))).deed == "wait"


def test_far_more_than_was_ever_applied_at_once_is_applied() -> None:
    """The first reader of every live run waited longest: nothing as large had been applied before."""
    seen = replace(SEEN, costs=replace(COSTS, apply=fit([Sample(10, 0.5)] * 5)), backlog=(0, 0), unapplied=21)
    verdict = look(seen)
    assert (verdict.deed, verdict.reason) == ("refresh", "more than was ever applied")
    assert look(replace(seen, unapplied=20)).deed == "wait"
