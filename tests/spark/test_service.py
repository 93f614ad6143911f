"""Measuring, promising and keeping, on Spark: the drivers of the service, and the service for some seconds."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Callable

import pytest

import headwater
from headwater.measured import backlog_of, gather
from headwater.service.loop import Loop, LoopSettings
from headwater.service.run import RunSettings, run
from headwater.service.spark_lake import SparkLake
from tests.service.client import request
from tests.spark.constructs import TABLES
from tests.spark.oracle import World

PAIRS = "SELECT r.k, r.v, s.w FROM r JOIN s ON r.k = s.k"
COUNTS = "SELECT k, count(*) AS n FROM r GROUP BY k"


@pytest.fixture(scope="module")
def world(make_world: Callable[..., World]) -> World:
    world = make_world("service")
    for name in ("r", "s"):
        world.make(name, *TABLES[name])
    world.look()
    world.create("pairs", PAIRS, "OPTIONS (response_time = '5m', policy = 'online', priority = 3)")
    world.create("counts", COUNTS, "OPTIONS (max_staleness = '1h')")
    return world


def change(world: World, times: int = 1) -> None:
    for number in range(times):
        world.run(f"INSERT INTO {{r}} VALUES (1, {number}, 'n', 1.0), (2, {number}, 'n', 1.0)")
        world.run(f"INSERT INTO {{s}} VALUES (1, {number}, 'n')")


def test_a_calibration_measures_every_leaf_and_leaves_the_view_right(world: World) -> None:
    status = {view.name: view.promise for view in world.lake.status().views}
    assert status["pairs"] is not None
    assert status["pairs"].state == "unknown"
    change(world, 2)
    found = world.lake.calibrate("pairs", steps=2)
    assert found.measure.parts.labels == ("r", "s")
    assert all(function is not None for function in found.measure.costs.parts)
    floor = found.measure.costs.floor()
    assert floor is not None
    assert 0 < floor.capture < floor.seconds < 300
    assert world.view_csn("pairs") == found.csn == world.newest_csn()
    world.check("pairs")
    json.dumps(found.as_dict())
    after = {view.name: view.promise for view in world.lake.status().views}["pairs"]
    assert after is not None
    assert after.state in ("kept", "at risk")
    with pytest.raises(headwater.HeadwaterError) as idle:
        world.lake.calibrate("pairs")
    assert idle.value.code == "NOTHING_PENDING"


def test_only_the_chosen_leaf_is_propagated(world: World) -> None:
    change(world, 2)
    world.lake.capture()
    context = world.lake._context
    view = context.catalog.view("pairs")
    before = backlog_of(context.catalog, view)
    assert before.pending == (4, 2)
    driver = SparkLake(context, lambda: 0, lambda: None)
    driver.process("pairs", (4, 0), before.csn)
    after = backlog_of(context.catalog, context.catalog.view("pairs"))
    assert after.pending == (0, 2)
    assert after.unapplied == before.unapplied
    driver.process("pairs", (0, 1), before.csn)
    assert backlog_of(context.catalog, view).pending == (0, 1)
    world.refresh("pairs")
    for csn in range(view.csn, before.csn):
        world.check("pairs", at=csn)


def test_a_promise_below_the_floor_is_refused(world: World) -> None:
    with pytest.raises(headwater.HeadwaterError) as altered:
        world.lake.sql("ALTER MATERIALIZED VIEW pairs SET OPTIONS (response_time = '10ms')")
    assert altered.value.code == "RESPONSE_TIME_TOO_SHORT"
    assert altered.value.fields["floor"] > 0.01
    assert "capture" in str(altered.value)
    assert "apply" in str(altered.value)
    with pytest.raises(headwater.HeadwaterError) as created:
        world.create("hasty", PAIRS, "OPTIONS (response_time = '10ms')")
    assert created.value.code == "RESPONSE_TIME_TOO_SHORT"
    assert "hasty" not in {view.name for view in world.lake.status().views}
    with pytest.raises(headwater.HeadwaterError, match="policy"):
        world.lake.sql("ALTER MATERIALIZED VIEW pairs SET OPTIONS (policy = 'luck')")


def test_a_refresh_within_a_time_tells_what_it_predicted(world: World) -> None:
    change(world)
    report = world.lake.refresh("pairs", within="5m")
    assert report.met
    assert report.predicted is not None
    assert 0 < report.predicted < 300
    assert report.as_dict()["met"] is True
    world.check("pairs")
    late = world.lake.refresh("pairs", within=0.001)
    assert late.met is False


def test_the_service_keeps_views_and_answers_readers(world: World) -> None:
    world.lake.sql("ALTER MATERIALIZED VIEW counts SET OPTIONS (max_staleness = '1s')")
    change(world)
    log, stop, answers = io.StringIO(), threading.Event(), []

    def ask(loop: Loop, port: int | None) -> None:
        def asking() -> None:
            try:
                answers.append(request(port, "POST", "/views/pairs/refresh"))
                answers.append(request(port, "POST", "/views/nobody/refresh"))
                answers.append(request(port, "GET", "/metrics"))
            finally:
                stop.set()

        threading.Thread(target=asking, daemon=True).start()

    settings = RunSettings(loop=LoopSettings(tick=0.2), port=0, seconds=60)
    run(world.lake, log, settings, stop=stop, started=ask)
    assert len(answers) == 3
    assert answers[0][0] == 200
    told = json.loads(answers[0][1])
    assert (told["view"], told["met"], told["csn"]) == ("pairs", True, world.newest_csn())
    assert told["predicted"] is not None
    assert answers[1][0] == 409
    assert 'headwater_demands_total{met="true",view="pairs"} 1' in answers[2][1]
    events = [json.loads(line) for line in log.getvalue().splitlines()]
    assert [events[0]["event"], events[-1]["event"]] == ["started", "stopped"]
    assert any(each["event"] == "decision" and each["view"] == "pairs" for each in events)
    world.check("pairs")
    gather(world.lake._context.catalog, world.lake._context.catalog.view("pairs"))
