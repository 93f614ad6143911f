"""The doors of the service: for programs of this machine alone."""

from __future__ import annotations

import io
import json
import os
import signal
import threading
from collections.abc import Iterator

import pytest

from headwater.errors import InvalidInput, UnknownName
from headwater.service.http import serving
from headwater.service.loop import Demand, Refreshed
from headwater.service.metrics import Metrics
from headwater.service.run import SystemClock, json_lines, taking_signals
from tests.service.client import request


class Bell:
    """Answers every demand at once."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def demand(self, view: str) -> Demand:
        self.asked.append(view)
        found = Demand(view, 0.0, predicted=2.0, seconds=1.5, within=10.0)
        if view == "nobody":
            found.error = UnknownName("There is none.", remedy="Ask for another.")
        else:
            found.refreshed = Refreshed(7, "incremental", "CHANGES_APPLIED", 3)
        found.finished.set()
        return found


@pytest.fixture
def bell() -> Bell:
    return Bell()


@pytest.fixture
def port(bell: Bell) -> Iterator[int]:
    with serving(bell, lambda: "headwater_busy_ratio 0.5\n", port=0, alive=lambda: True) as port:
        yield port


def test_metrics_and_health(port: int) -> None:
    assert request(port, "GET", "/metrics") == (200, "headwater_busy_ratio 0.5\n")
    assert request(port, "GET", "/healthz") == (200, '{"alive": true}\n')
    assert request(port, "GET", "/")[0] == 404


def test_a_reader_is_told_what_was_predicted_and_what_it_took(port: int, bell: Bell) -> None:
    status, text = request(port, "POST", "/views/my%20view/refresh")
    assert status == 200
    told = json.loads(text)
    assert (told["view"], told["predicted"], told["seconds"], told["met"], told["csn"]) == (
        "my view",
        2.0,
        1.5,
        True,
        7,
    )
    status, text = request(port, "POST", "/views/nobody/refresh")
    assert status == 409
    assert json.loads(text)["error"]["code"] == "UNKNOWN_NAME"
    assert json.loads(text)["met"] is False
    assert request(port, "POST", "/views/v/drop")[0] == 404
    assert bell.asked == ["my view", "nobody"]


def test_a_web_page_is_refused(port: int, bell: Bell) -> None:
    assert request(port, "POST", "/views/v/refresh", Origin="http://evil.example")[0] == 403
    assert request(port, "GET", "/metrics", Host="evil.example:80")[0] == 403
    assert bell.asked == []


def test_only_loopback_and_only_a_free_port(bell: Bell, port: int) -> None:
    with (
        pytest.raises(InvalidInput, match="loopback"),
        serving(
            bell,
            str,
            port=0,
            host="192.0.2.1",
            alive=lambda: True,
        ),
    ):
        pass
    with pytest.raises(InvalidInput, match="can't be had"), serving(bell, str, port=port, alive=lambda: True):
        pass


def test_labels_are_escaped() -> None:
    metrics = Metrics()
    metrics({"event": "decision", "view": 'a"b\\c\nd', "action": "process"})
    metrics({"event": "something else"})
    text = metrics.text((), busy=0.25, pressed=False)
    assert 'headwater_decisions_total{action="process",view="a\\"b\\\\c\\nd"} 1' in text
    assert "# TYPE headwater_decisions_total counter" in text
    assert "headwater_busy_ratio 0.25" in text


def test_the_log_is_one_json_document_a_line() -> None:
    out = io.StringIO()
    write = json_lines(out)
    write({"event": "decision", "view": "Übersicht"})
    write({"event": "done"})
    lines = out.getvalue().splitlines()
    assert [json.loads(line)["event"] for line in lines] == ["decision", "done"]
    assert json.loads(lines[0])["at"].endswith("+00:00")


def test_a_signal_asks_for_the_end_and_a_second_one_is_not_ours() -> None:
    signals: list[str] = []
    came: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: came.append(number))
    try:
        with taking_signals(signals):
            clock = SystemClock(lambda: bool(signals), lambda: False)
            threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGTERM)).start()
            began = clock.now()
            clock.wait(20)
            assert clock.now() - began < 10
            assert (signals, came) == (["SIGTERM"], [])
            os.kill(os.getpid(), signal.SIGTERM)
            assert came == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)
