"""The loop of the service over simulated time: promises kept, the cheapest way; pressure told, priorities kept."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from headwater.errors import CatalogUnavailable, LeaseHeld, QueryFailed, StorageFull
from headwater.schedule.cost import Linear, PiecewiseLinear
from headwater.schedule.service_level import ServiceLevel
from headwater.service.loop import Demand, Loop, LoopSettings
from headwater.service.metrics import Metrics
from tests.service.fake_lake import FakeClock, FakeLake, FakeView

# One part that hardly grows, one that grows by the row: the asymmetry of [He05 Fig. 4].
ASYMMETRIC = (PiecewiseLinear(((0, 1.0), (20, 3.0), (1000, 3.5))), Linear(0.08, 0.5))


# Steps that are nearly all fixed cost.
FLAT = (Linear(0.01, 4.0), Linear(0.005, 4.5))


class World:
    def __init__(self, views: dict[str, FakeView], **settings: Any) -> None:
        self.clock = FakeClock()
        self.lake = FakeLake(self.clock, views)
        self.events: list[dict[str, Any]] = []
        self.asked: list[Demand] = []
        self.metrics = Metrics()
        self.loop = Loop(self.lake, self.clock, self._tell, LoopSettings(**settings))

    def _tell(self, event: dict[str, Any]) -> None:
        json.dumps(event)  # an event that is no JSON would be lost
        self.metrics(event)
        self.events.append(event)

    def run(self, seconds: float) -> None:
        until = self.clock.time + seconds
        self.loop.run(lambda: self.clock.time >= until)

    def ask(self, seconds: float, random: Random, gaps: tuple[float, float], demand: Callable[[float], Demand]) -> None:
        """Run for some seconds; ``demand`` is called for one at moments that lie this far apart."""
        until, next_one = self.clock.time + seconds, self.clock.time + 50
        while self.clock.time < until:
            if self.clock.time >= next_one:
                self.asked.append(demand(next_one))
                next_one = self.clock.time + random.uniform(*gaps)
            if not self.loop.round():
                self.clock.wait(1.0)

    @property
    def answered(self) -> list[Demand]:
        return [each for each in self.asked if each.finished.is_set()]

    def of(self, event: str) -> list[dict[str, Any]]:
        return [each for each in self.events if each["event"] == event]


def kept(policy: str, **changes: Any) -> FakeView:
    values: dict[str, Any] = {"costs": ASYMMETRIC, "rates": (0.7, 0.7)}
    return FakeView(ServiceLevel(response_time=12, policy=policy), **(values | changes))


@pytest.mark.parametrize("policy", ["naive", "online", "ahead"])
def test_a_refresh_at_any_moment_would_keep_the_bound(policy: str) -> None:
    world = World({"v": kept(policy)})
    worst = 0.0

    def look() -> None:
        nonlocal worst
        worst = max(worst, world.lake.true_refresh_cost("v"))

    world.lake.after_deed = look
    until = world.clock.time + 1500
    while world.clock.time < until:
        if not world.loop.round():
            world.clock.wait(1.0)
        look()
    assert worst <= 12
    assert len(world.of("decision")) > 5
    assert {each["reason"] for each in world.of("decision")} <= {
        "the backlog is full",
        "what is to be applied has grown",
        "more than was ever applied",
        "what parts share is not measured yet",
    }


def test_choosing_tables_costs_less_than_processing_everything() -> None:
    spent = {}
    for policy in ("naive", "online", "ahead"):
        world = World({"v": kept(policy)})
        world.run(2400)
        spent[policy] = world.lake.views["v"].processing
    assert spent["online"] < 0.95 * spent["naive"]
    assert spent["ahead"] < 0.75 * spent["naive"]


@pytest.mark.parametrize("policy", ["naive", "online", "ahead"])
def test_what_parts_share_is_learned_from_refreshes_and_then_relied_on(policy: str) -> None:
    spent = {}
    for shared in (0.0, 3.5):
        view = FakeView(ServiceLevel(response_time=18, policy=policy), FLAT, (10.0, 10.0), shared=shared, noise=0.02)
        world = World({"v": view})
        worst: list[float] = []
        for _ in range(12):
            world.loop.demand("v")
            world.run(120)
            worst.append(world.lake.true_refresh_cost("v"))
        assert max(worst) <= 18
        spent[shared] = world.lake.views["v"].processing
    assert spent[3.5] < 0.75 * spent[0.0]


def test_who_processes_parts_one_at_a_time_still_learns_what_they_share() -> None:
    """It had kept at single parts, each of which was full again at once, where together they were not full for long:
    five times what processing everything takes. A part that never changes must not stand in the way either."""
    spent, reasons = {}, set()
    for policy in ("naive", "ahead"):
        costs = (Linear(0.01, 2.2), Linear(0.01, 4.5), Linear(0.01, 4.5))
        level = ServiceLevel(response_time=14, policy=policy)
        view = FakeView(level, costs, (1.5, 1.5, 0.0), shared=1.8, noise=0.25)
        view.samples[2] = []
        world = World({"v": view})
        for _ in range(8):
            world.loop.demand("v")
            world.run(120)
            assert world.lake.true_refresh_cost("v") <= 14
        spent[policy] = view.processing
        reasons |= {each["reason"] for each in world.of("decision")}
        assert world.of("decision")[-1]["shared_surely"] > 1
    assert spent["ahead"] < 1.1 * spent["naive"]
    assert "what parts share is not measured yet" in reasons


def test_only_the_chosen_parts_are_processed_and_the_log_holds_the_alternatives() -> None:
    world = World({"v": kept("online")})
    world.run(1000)
    partly = [each for each in world.of("decision") if 0 in (each["rows"] or {}).values()]
    assert partly
    one = partly[-1]
    assert {"backlog", "f", "limit", "response_time", "alternatives", "predicted", "bound", "promise"} <= one.keys()
    assert len(one["alternatives"]) >= 1
    assert all({"empties", "cost", "score"} == each.keys() for each in one["alternatives"])
    assert one["rows"] == {
        label: rows if label in min(one["alternatives"], key=lambda each: each["score"])["empties"] else 0
        for label, rows in one["backlog"].items()
    }


@pytest.mark.parametrize("seed", range(2))
def test_demands_at_random_moments_are_met(seed: int) -> None:
    world = World({"v": kept("online", noise=0.1), "w": kept("online", rates=(0.2, 0.2))})
    random = Random(seed)
    world.ask(1500, random, (5, 60), lambda _: world.loop.demand(random.choice("vw")))
    assert len(world.answered) > 30
    assert sum(each.met is True for each in world.answered) / len(world.answered) >= 0.99
    for each in world.answered:
        assert each.predicted is not None
        assert each.seconds is not None
    assert 'headwater_demands_total{met="true",view="v"}' in figures(world)


@pytest.mark.parametrize("seed", [1, 2])
def test_who_asks_while_a_step_is_running_hardly_ever_waits_longer_than_promised(seed: int) -> None:
    """After the step one more brings what was committed meanwhile, and most of a small step is fixed cost.

    Steps stay below their bounds in 95 of 100 cases; without anything kept back for that step it was 96 of 100 here.
    """
    view = FakeView(ServiceLevel(response_time=14), FLAT, (5.0, 5.0), shared=3.5, noise=0.1)
    world = World({"v": view})

    def while_it_does_something_else(since: float) -> Demand:
        world.loop._demands.append(Demand("v", since))
        return world.loop._demands[-1]

    world.ask(3000, Random(seed), (20, 80), while_it_does_something_else)
    assert len(world.answered) > 50
    assert sum(each.met is True for each in world.answered) / len(world.answered) >= 0.98
    assert len([deed for deed in world.lake.deeds if deed[2] == "process"]) > 20


def test_a_view_that_was_never_measured_is_learned_by_processing_what_comes() -> None:
    world = World({"v": kept("online", measured=False)})
    world.run(20)
    reasons = [each["reason"] for each in world.of("decision")]
    assert reasons[0] == "not measured yet"
    assert "applying is not measured yet" in reasons
    world.run(4000)
    assert world.loop.seen[0].state == "kept"
    late = [each["reason"] for each in world.of("decision")][-30:]
    assert late.count("the backlog is full") >= 25  # batches double now and then, until there are no larger ones
    assert not {"not measured yet", "applying is not measured yet"} & set(late)


def test_staleness_asks_for_a_refresh() -> None:
    world = World({"v": FakeView(ServiceLevel(max_staleness=60), ASYMMETRIC, (0.5, 0.1))})
    world.run(600)
    refreshed = world.of("done")
    assert 8 <= len(refreshed) <= 15
    assert {each["action"] for each in refreshed} == {"refresh"}
    assert max(each["staleness"] + each["seconds"] for each in refreshed) <= 60


def test_a_recomputed_view_is_refreshed_as_a_whole() -> None:
    view = FakeView(ServiceLevel(response_time=8), (Linear(0.1, 2.0),), (1.0,), apart=False)
    world = World({"v": view})
    world.run(200)
    assert {deed for _, _, deed, _ in world.lake.deeds} == {"refresh"}


def test_pressure_is_told_and_degrades_by_priority() -> None:
    dear = (Linear(0.4, 1.0),)
    views = {
        "low": FakeView(ServiceLevel(response_time=12, priority=-1), dear, (1.2,)),
        "high": FakeView(ServiceLevel(response_time=12, priority=5), dear, (1.2,)),
        "middle": FakeView(ServiceLevel(response_time=12), dear, (1.2,)),
    }
    world = World(views)
    world.run(900)
    pressure = world.of("pressure")
    assert pressure[0]["pressed"]
    assert pressure[0]["served_in_order"] == ["high", "middle", "low"]
    assert world.loop.pressed
    assert world.lake.true_refresh_cost("high") < 20
    assert any("cut short" in each["reason"] for each in world.of("decision") if each["view"] != "high")
    backlogs = {name: sum(world.lake.pending(name)) for name in views}
    assert backlogs["high"] < backlogs["middle"] < backlogs["low"]
    states = {seen.name: seen.state for seen in world.loop.seen}
    assert states["low"] == "broken"
    assert 'headwater_promise{state="broken",view="low"} 1' in figures(world)
    assert "headwater_pressed 1" in figures(world)
    for view in views.values():
        view.rates = (0.0,)
    world.lake.began = world.clock.time  # nothing arrives any more; what was pending is forgotten
    for view in views.values():
        view.processed = [0]
        view.shown = [0]
    world.run(120)
    assert not world.loop.pressed
    assert world.of("pressure")[-1]["pressed"] is False


def test_a_promise_that_is_broken_says_so_and_says_when_it_is_kept_again() -> None:
    view = FakeView(ServiceLevel(response_time=5), (Linear(0.5, 0.5),), (0.5,))
    world = World({"v": view})
    world.run(60)
    world.lake.began -= 100  # a burst: 50 rows at once
    world.run(60)
    told = [(each["before"], each["promise"]) for each in world.of("promise")]
    assert ("kept", "broken") in told
    assert told[-1][1] == "kept"


def test_a_view_that_fails_is_left_for_a_while_and_the_others_go_on() -> None:
    world = World({"bad": kept("online"), "good": kept("online")})
    world.lake.views["bad"].fails = QueryFailed("no")
    asked = world.loop.demand("bad")
    world.run(600)
    errors = world.of("error")
    assert 4 <= len(errors) <= 12
    assert [each["again_in"] for each in errors][:3] == [2.0, 4.0, 8.0]
    assert asked.finished.is_set()
    assert asked.error is not None
    assert any(view == "good" for _, view, _, _ in world.lake.deeds)
    world.lake.views["bad"].fails = None
    world.run(700)
    assert any(view == "bad" for _, view, _, _ in world.lake.deeds)
    assert 'headwater_errors_total{code="QUERY_FAILED",of="view"}' in figures(world)


def test_a_lake_that_is_away_for_a_moment_is_waited_for_and_one_that_stays_away_ends_the_service() -> None:
    world = World({"v": kept("online")})
    world.lake.breaks = CatalogUnavailable("away")
    for _ in range(3):
        assert not world.loop.round()
    world.lake.breaks = None
    world.run(100)
    assert world.lake.captures > 0
    world.lake.breaks = CatalogUnavailable("away for good")
    with pytest.raises(CatalogUnavailable):
        world.run(100_000)


class WakefulClock(FakeClock):
    """As the real one: a reader who asks cuts a wait short."""

    asked: Callable[[], bool] = staticmethod(lambda: False)

    def wait(self, seconds: float) -> None:
        self.time += 0.0 if self.asked() else seconds


def test_a_reader_who_waits_does_not_hurry_a_lake_that_is_away() -> None:
    world = World({"v": kept("online")})
    clock = WakefulClock()
    world.lake.clock = clock
    world.loop = Loop(world.lake, clock, world._tell)
    clock.asked = lambda: world.loop.is_asked
    world.lake.breaks = CatalogUnavailable("away")
    asked = world.loop.demand("v")
    began = clock.time
    for _ in range(5):
        world.loop.round()
    assert clock.time - began >= 2 + 4 + 8 + 16 + 32
    world.lake.breaks = None
    world.loop.round()
    assert asked.refreshed is not None


def test_a_view_whose_tables_can_not_be_captured_breaks_its_promise_and_says_why() -> None:
    world = World({"v": kept("online")})
    world.run(30)
    world.lake.views["v"].stuck = "r: its change feed is off"
    world.run(30)
    told = world.of("promise")[-1]
    assert (told["promise"], told["stuck"]) == ("broken", "r: its change feed is off")
    assert 'headwater_promise{state="broken",view="v"} 1' in figures(world)


def test_a_view_that_is_broken_for_another_reason_than_time_puts_no_pressure_on_others() -> None:
    world = World({"low": kept("online", rates=(0.0, 0.0)), "v": kept("online")})
    world.lake.views["v"].stuck = "r: its change feed is off"
    world.run(5)
    world.loop._busy.append((world.clock.time - 1000, world.clock.time))
    world.loop.round()
    assert world.loop.seen[1].state == "broken"
    assert world.loop.busy > 0.9
    assert not world.loop.pressed
    assert world.of("pressure") == []


def test_a_demand_for_a_view_that_is_not_kept_is_refused_and_one_at_the_end_is_told() -> None:
    world = World({"v": kept("online")})
    asked = world.loop.demand("nobody")
    world.loop.round()
    assert asked.error is not None
    assert (asked.error.code, asked.met) == ("UNKNOWN_NAME", None)
    late = world.loop.demand("v")
    world.loop.run(lambda: True)
    assert late.finished.is_set()
    assert late.error is not None


def test_capture_takes_a_small_part_of_the_time() -> None:
    world = World({"v": kept("online")})
    world.run(500)
    assert 100 <= world.lake.captures <= 500


def test_garbage_is_collected_as_often_as_asked_when_nothing_is_more_urgent() -> None:
    world = World({"v": kept("online")}, release_every=60.0, collect_every=40.0)
    world.run(300)
    assert 5 <= world.lake.collections <= 7
    assert len(world.of("collected")) == world.lake.collections
    assert world.lake.releases >= 3


def test_releases_are_published_as_often_as_asked() -> None:
    world = World({"v": kept("online")}, release_every=30.0)
    world.run(300)
    assert 8 <= world.lake.releases <= 10
    assert len(world.of("released")) == world.lake.releases


def test_a_release_or_a_collection_that_fails_waits_for_its_next_time_and_stops_nothing() -> None:
    world = World({"v": kept("online")}, release_every=30.0, collect_every=40.0)
    world.lake.chores_fail = LeaseHeld("Somebody else publishes a release.")
    world.run(300)
    assert 8 <= world.lake.releases <= 10
    assert 5 <= world.lake.collections <= 8
    assert {event["of"] for event in world.of("error")} == {"release", "collect"}
    assert world.of("released") == world.of("collected") == []
    assert world.lake.deeds


def test_who_asks_is_answered_when_the_loop_ends_by_an_error() -> None:
    world = World({"v": kept("online")})
    world.lake.breaks = StorageFull("The disk is full.")
    asked = world.loop.demand("v")
    with pytest.raises(StorageFull):
        world.loop.run(lambda: False)
    assert asked.finished.is_set()
    assert asked.error is not None


def test_every_view_is_told_of_once_a_minute_whatever_happens() -> None:
    world = World({"v": FakeView(ServiceLevel(response_time=12), ASYMMETRIC, (0.0, 0.0))})
    world.run(300)
    assert 4 <= len(world.of("standing")) <= 5
    assert world.of("decision") == []


def test_views_come_and_go() -> None:
    world = World({"v": kept("online")})
    world.run(50)
    world.lake.views["w"] = kept("naive")
    del world.lake.views["v"]
    world.run(300)
    assert {view for at, view, _, _ in world.lake.deeds if at > world.lake.began + 60} == {"w"}


def figures(world: World) -> str:
    return world.metrics.text(world.loop.seen, busy=world.loop.busy, pressed=world.loop.pressed)
