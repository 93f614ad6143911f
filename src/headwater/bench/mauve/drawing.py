"""The figures of [Mauve98 §4], drawn as the paper draws them: staleness over chunk size."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from headwater.pictures import INSTALLING, MEASURED, PREDICTED, WAITING, plotting

_COLOURS = ("#1b1f24", "#08519c", "#4292c6", "#fd8d3c")


def draw(figures: Mapping[str, Any], path: Path) -> None:
    panels: list[tuple[str, Any]] = []
    panels += [("sizes", each) for each in figures.get("update_sizes", ())]
    panels += [("streams", (rate, own)) for rate, own in figures.get("streams", {}).items()]
    if figures.get("streams", {}).get("medium"):
        panels.append(("lag", figures["streams"]["medium"][-1]))
    if figures.get("table_sizes"):
        panels.append(("tables", figures["table_sizes"]))
    if figures.get("readers"):
        panels.append(("readers", figures["readers"]))
    if not panels:
        return
    pyplot = plotting()
    columns = min(2, len(panels))
    lines = -(-len(panels) // columns)
    figure, grid = pyplot.subplots(lines, columns, figsize=(5.5 * columns, 3.4 * lines), squeeze=False)
    places = [axes for line in grid for axes in line]
    for axes, (kind, found) in zip(places, panels, strict=False):
        _PANELS[kind](axes, found)
    for axes in places[len(panels) :]:
        axes.set_visible(False)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def _line(axes: Any, runs: Sequence[Mapping[str, Any]], key: str, **style: Any) -> None:
    axes.plot([run["chunk_size"] for run in runs], [run[key] for run in runs], **style)


def _sizes(axes: Any, found: Mapping[str, Any]) -> None:
    _line(axes, found["runs"], "vs", color=MEASURED, marker="o", ms=4, label="measured VS")
    _line(axes, found["runs"], "s1", color=WAITING, ls=":", label="measured S1")
    _line(axes, found["runs"], "s2", color=INSTALLING, ls=":", label="measured S2")
    _line(axes, found["runs"], "theoretic", color=PREDICTED, ls="--", label="Eq. 7, one V")
    _line(axes, found["runs"], "theoretic_2", color=PREDICTED, label="Eq. 7, own V")
    advised = found["advised"]
    axes.scatter([advised["chunk_size"]], [advised["vs"]], marker="*", s=90, color=PREDICTED, zorder=3, label="advised")
    _finish(axes, f"{found['updates']:,} updates on tables of {found['rows']:,} rows")


def _streams(axes: Any, found: tuple[str, Sequence[Mapping[str, Any]]]) -> None:
    rate, own = found
    for colour, each in zip(_COLOURS, own, strict=False):
        _line(axes, each["runs"], "vs", color=colour, marker="o", ms=3, label=f"idle {each['idle']:.0%}")
    _finish(axes, f"streams with gaps, {rate} rate")


def _tables(axes: Any, found: Sequence[Mapping[str, Any]]) -> None:
    for colour, each in zip(_COLOURS, found, strict=False):
        _line(axes, each["runs"], "vs", color=colour, marker="o", ms=3, label=f"{each['rows']:,} rows")
    _finish(axes, "the same updates on tables of two sizes")


def _lag(axes: Any, found: Mapping[str, Any]) -> None:
    runs = found["runs"]
    places, bottom = range(len(runs)), [0.0] * len(runs)
    parts = {
        "base tables": ([run["base_seconds"] for run in runs], MEASURED),
        "views": ([run["view_seconds"] * run["phases"] for run in runs], INSTALLING),
        "lag": ([run["lag_seconds"] for run in runs], WAITING),
    }
    for label, (heights, colour) in parts.items():
        axes.bar(places, heights, 0.6, bottom=bottom, color=colour, label=label)
        bottom = [low + height for low, height in zip(bottom, heights, strict=True)]
    axes.set_xticks(list(places), [f"{run['chunk_size']:,}" for run in runs])
    _finish(axes, f"where the time went, idle {found['idle']:.0%}", log=False)


def _readers(axes: Any, found: Mapping[str, Any]) -> None:
    kinds = ("alone", "beside")
    for place, kind in enumerate(kinds):
        own = found[kind]
        axes.bar(place - 0.2, own["median_seconds"] or 0, 0.4, color=INSTALLING, label="median" if not place else None)
        axes.bar(place + 0.2, own["p95_seconds"] or 0, 0.4, color=WAITING, label="95 %" if not place else None)
    axes.set_xticks([0, 1], ["alone", "beside maintenance"])
    axes.set_ylabel("seconds for a snapshot")
    title = f"{found['readers']} readers, {found['violations']} violations, {found['errors']} errors"
    axes.set_title(title, fontsize=10)
    axes.legend(fontsize=8)


def _finish(axes: Any, title: str, *, log: bool = True) -> None:
    if log:
        axes.set_xscale("log")
    axes.set_xlabel("updates in a chunk")
    axes.set_ylabel("seconds")
    axes.set_title(title, fontsize=10)
    axes.legend(fontsize=7)


_PANELS: Mapping[str, Callable[[Any, Any], None]] = {
    "sizes": _sizes,
    "streams": _streams,
    "tables": _tables,
    "lag": _lag,
    "readers": _readers,
}
