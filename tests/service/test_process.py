"""``headwater run`` as a process: killed in the middle of a step, started again, stopped by SIGTERM."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import headwater
from tests.service.client import request
from tests.spark.constructs import TABLES
from tests.spark.oracle import World

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAIRS = "SELECT r.k, r.v, s.w FROM r JOIN s ON r.k = s.k"


@contextmanager
def service(lake: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "headwater.cli.main", "run", "--lake", str(lake), "--port", "0", "--tick", "200ms"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ))
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def until(process: subprocess.Popen[str], **wanted: Any) -> dict[str, Any]:
    """The first event that is as wanted."""
    assert process.stdout is not None
    for line in process.stdout:
        event: dict[str, Any] = json.loads(line)
        if wanted.items() <= event.items():
            return event
    raise AssertionError(f"the service ended before {wanted}")


def test_killed_in_a_step_it_goes_on_and_stops_when_asked(spark: SparkSession, tmp_path: Path) -> None:
    world = World(spark, headwater.connect(tmp_path / "lake", spark=spark), tmp_path)
    for name in ("r", "s"):
        world.make(name, *TABLES[name])
    world.look()
    world.create("pairs", PAIRS, "OPTIONS (response_time = '2m', max_staleness = '3m')")
    for number in range(3):
        world.run(f"INSERT INTO {{r}} VALUES (1, {number}, 'n', 1.0)")
        world.run(f"INSERT INTO {{s}} VALUES (1, {number}, 'n')")
    with service(tmp_path / "lake") as process:
        # Nothing is measured, so it begins at once with what is pending.
        until(process, event="decision", view="pairs", action="process")
        process.send_signal(signal.SIGKILL)
        assert process.wait(30) == -signal.SIGKILL
    assert world.view_csn("pairs") == 0
    with service(tmp_path / "lake") as process:
        port = until(process, event="started")["port"]
        until(process, event="done", view="pairs")
        world.run("DELETE FROM {r} WHERE v = 1")
        status, told = request(port, "POST", "/views/pairs/refresh")
        assert (status, json.loads(told)["met"]) == (200, True)
        process.send_signal(signal.SIGTERM)
        assert until(process, event="stopped")["signal"] == "SIGTERM"
        assert process.wait(60) == 0
    assert world.view_csn("pairs") == world.newest_csn() == 7
    assert world.check_law("pairs") == 8
    promise = world.lake.status().views[0].promise
    assert promise is not None
    assert promise.state == "kept"
    world.lake.close()
