"""Cost functions as a picture: the samples, the fitted line, and the line under which steps stay; SVG text.

One panel for each function, all in one column with one scale of seconds, since what one wants to see is which part is
dear and which gains by batching. The same values give the same text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, log10
from xml.sax.saxutils import escape

from headwater.schedule.fit import FittedCost
from headwater.schedule.view_costs import CONFIDENCE, Measured

_WIDTH, _HEIGHT = 640, 180
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 28, 34
_STEPS = 60
_STYLE = (
    "text{font:12px ui-monospace,Menlo,Consolas,monospace;fill:#1b1f24}.heading{font-size:14px;font-weight:bold}"
    ".axis{stroke:#57606a}.grid{stroke:#d0d7de}.f{fill:none;stroke:#0550ae;stroke-width:2}"
    ".upper{fill:none;stroke:#bc4c00;stroke-dasharray:5 4}.sample{fill:#57606a;fill-opacity:.6}"
    ".cold{fill:none;stroke:#57606a}"
)


@dataclass(frozen=True, slots=True)
class Panel:
    title: str
    function: FittedCost | None
    samples: Sequence[Measured]


def cost_picture(heading: str, panels: Sequence[Panel]) -> str:
    """Panels without a function say so."""
    highest = max((_highest(panel) for panel in panels), default=1.0) or 1.0
    height = 40 + len(panels) * _HEIGHT
    body = [f'<text class="heading" x="12" y="24">{escape(heading)}</text>']
    for number, panel in enumerate(panels):
        body += _panel(panel, 40 + number * _HEIGHT, highest)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}">'
        f"<style>{_STYLE}</style>" + "".join(body) + "</svg>\n"
    )


def _highest(panel: Panel) -> float:
    seen = [sample.seconds for sample in panel.samples]
    if panel.function is not None:
        seen.append(panel.function.upper(CONFIDENCE)(_most_rows(panel)))
    return max(seen, default=0.0)


def _most_rows(panel: Panel) -> int:
    return max([sample.rows for sample in panel.samples], default=1)


def _panel(panel: Panel, top: int, highest: float) -> list[str]:
    across = _most_rows(panel)
    left, right, low, high = _LEFT, _WIDTH - _RIGHT, top + _HEIGHT - _BOTTOM, top + _TOP

    def x(rows: float) -> str:
        return f"{left + (right - left) * rows / across:.1f}"

    def y(seconds: float) -> str:
        return f"{low - (low - high) * seconds / highest:.1f}"

    title = f"{panel.title}: not measured yet"
    if panel.function is not None:
        error = f"{panel.function.relative_error:.0%}"
        title = f"{panel.title}: {panel.function.samples} samples, relative error {error}"
    found = [f'<text x="{left}" y="{top + 18}">{escape(title)}</text>']
    for value in _ticks(highest):
        found.append(f'<line class="grid" x1="{left}" x2="{right}" y1="{y(value)}" y2="{y(value)}"/>')
        found.append(f'<text x="{left - 6}" y="{y(value)}" dy="4" text-anchor="end">{value:g} s</text>')
    found.append(f'<line class="axis" x1="{left}" x2="{right}" y1="{low}" y2="{low}"/>')
    found += [
        f'<text x="{x(value)}" y="{low + 16}" text-anchor="middle">{int(value):,}</text>'
        for value in _ticks(across)
        if value == int(value)
    ]
    found.append(f'<text x="{right}" y="{low + 30}" text-anchor="end">changed rows</text>')
    if panel.function is not None:
        sizes = sorted({max(1, round(across * step / _STEPS)) for step in range(1, _STEPS + 1)} | {1})
        for kind, function in (("upper", panel.function.upper(CONFIDENCE)), ("f", panel.function)):
            line = " ".join(f"{x(rows)},{y(function(rows))}" for rows in sizes)
            found.append(f'<polyline class="{kind}" points="{line}"/>')
    for sample in panel.samples:
        kind = "cold" if sample.cold else "sample"
        found.append(f'<circle class="{kind}" cx="{x(sample.rows)}" cy="{y(sample.seconds)}" r="3"/>')
    return found


def _ticks(highest: float) -> list[float]:
    """Some round numbers from 0 to the highest."""
    size = 10.0 ** floor(log10(highest))
    step = next(step for step in (size / 5, size / 2, size, 2 * size) if highest / step <= 6)
    return [round(step * number, 10) for number in range(int(highest / step) + 1)]
