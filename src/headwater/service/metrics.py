"""The service in figures, in the text format of Prometheus.

Counters are made from the very events that are logged, so log and metrics can't disagree; gauges from the last look.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from headwater.schedule.keeping import Seen

_Labels: TypeAlias = tuple[tuple[str, str], ...]
STATES = ("none", "unknown", "kept", "at risk", "broken")

_COUNTERS = {
    "headwater_decisions_total": "Decisions to do something, by view and action.",
    "headwater_action_seconds_total": "Seconds spent, by view and action.",
    "headwater_rows_total": "Changed rows processed or applied, by view and action.",
    "headwater_demands_total": "Readers who asked for a fresh view, by whether the response time was kept.",
    "headwater_demand_seconds_total": "Seconds that readers waited.",
    "headwater_errors_total": "Failures, by what failed and the error's code.",
    "headwater_releases_total": "Releases published.",
    "headwater_collections_total": "Garbage collections.",
}
_GAUGES = {
    "headwater_backlog_rows": "Changed rows that are not propagated, by view and part.",
    "headwater_unapplied_rows": "Changed rows that the view's table does not show.",
    "headwater_predicted_refresh_seconds": "What a refresh now is expected to take.",
    "headwater_refresh_bound_seconds": "What a refresh now stays under, with confidence.",
    "headwater_response_time_seconds": "What is promised.",
    "headwater_floor_seconds": "What a refresh after one changed row takes.",
    "headwater_promise_broken_in_seconds": "When the floor passes the promise at the present growth.",
    "headwater_promise": "1 for the state that the promise is in.",
    "headwater_staleness_seconds": "Age of the oldest change that the view does not show.",
    "headwater_max_staleness_seconds": "What is promised of that.",
    "headwater_busy_ratio": "Share of the last minute in which something was done.",
    "headwater_pressed": "1 when there is no idle time left and promises are broken.",
}


class Metrics:
    """Give it every event; ask for the text at any time, from any thread."""

    def __init__(self) -> None:
        self._values: dict[str, dict[_Labels, float]] = {name: defaultdict(float) for name in _COUNTERS}
        self._lock = threading.Lock()

    def __call__(self, event: Mapping[str, Any]) -> None:
        with self._lock:
            match event:
                case {"event": "decision", "view": view, "action": action}:
                    self._add("headwater_decisions_total", 1, view=view, action=action)
                case {"event": "done", "view": view, "action": action, "seconds": seconds, "rows": rows}:
                    self._add("headwater_action_seconds_total", seconds, view=view, action=action)
                    self._add("headwater_rows_total", rows, view=view, action=action)
                case {"event": "demand", "view": view, "met": met, "seconds": seconds}:
                    kept = "unpromised" if met is None else str(met).lower()
                    self._add("headwater_demands_total", 1, view=view, met=kept)
                    self._add("headwater_demand_seconds_total", seconds or 0.0, view=view)
                case {"event": "error", "of": of, "code": code}:
                    self._add("headwater_errors_total", 1, of=of, code=code)
                case {"event": "released"}:
                    self._add("headwater_releases_total", 1)
                case {"event": "collected"}:
                    self._add("headwater_collections_total", 1)

    def _add(self, name: str, value: float, **labels: str) -> None:
        self._values[name][tuple(sorted(labels.items()))] += value

    def text(self, seen: Sequence[Seen], *, busy: float, pressed: bool) -> str:
        lines: list[str] = []
        with self._lock:
            for name, told in _COUNTERS.items():
                lines += _block(name, "counter", told, self._values[name].items())
        gauges = _gauges(seen, busy, pressed)
        for name, told in _GAUGES.items():
            lines += _block(name, "gauge", told, gauges.get(name, {}).items())
        return "\n".join(lines) + "\n"


def _gauges(views: Sequence[Seen], busy: float, pressed: bool) -> dict[str, dict[_Labels, float]]:
    found: dict[str, dict[_Labels, float]] = defaultdict(dict)
    found["headwater_busy_ratio"][()] = busy
    found["headwater_pressed"][()] = float(pressed)
    for seen in views:
        own = (("view", seen.name),)
        floor = seen.costs.floor()
        values = {
            "headwater_unapplied_rows": float(seen.unapplied),
            "headwater_predicted_refresh_seconds": seen.predicted,
            "headwater_refresh_bound_seconds": seen.bound,
            "headwater_response_time_seconds": seen.level.response_time,
            "headwater_floor_seconds": None if floor is None else floor.seconds,
            "headwater_promise_broken_in_seconds": None if seen.outlook is None else seen.outlook.broken_in,
            "headwater_staleness_seconds": seen.staleness,
            "headwater_max_staleness_seconds": seen.level.max_staleness,
        }
        for name, value in values.items():
            if value is not None:
                found[name][own] = value
        for label, rows in zip(seen.labels, seen.backlog, strict=True):
            part = (("part", label), *own)
            found["headwater_backlog_rows"][part] = float(rows)
        for state in STATES:
            standing = (("state", state), *own)
            found["headwater_promise"][standing] = float(seen.state == state)
    return found


def _block(name: str, kind: str, told: str, values: Iterable[tuple[_Labels, float]]) -> list[str]:
    lines = [f"{name}{_labels(labels)} {value:.10g}" for labels, value in sorted(values)]
    return [f"# HELP {name} {told}", f"# TYPE {name} {kind}", *lines] if lines else []


def _labels(labels: _Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
