"""Rows shipped by each way of asking, and the server's rate turn by turn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headwater.pictures import plotting

_WAYS = {
    "own": ("from the view's own rows", "#74c476"),
    "by_keys": ("by keys", "#4292c6"),
    "whole": ("whole tables", "#fd8d3c"),
}
_STATES = {"alone": "#fd8d3c", "logged": "#74c476", "followed": "#4292c6"}


def draw(asking: list[dict[str, Any]], load: dict[str, Any] | None, path: Path) -> None:
    """A panel for each part that was measured."""
    pyplot = plotting()
    panels = [(_asking, asking)] * bool(asking) + [(_load, load)] * (load is not None)
    figure, grid = pyplot.subplots(1, len(panels), figsize=(4.5 * len(panels), 3.2), squeeze=False)
    for axes, (panel, found) in zip(grid[0], panels, strict=True):
        panel(axes, found)
    figure.tight_layout()
    figure.savefig(path)
    pyplot.close(figure)


def _asking(axes: Any, asking: Any) -> None:
    places = range(len(asking))
    for shift, (way, (label, color)) in zip((-0.27, 0.0, 0.27), _WAYS.items(), strict=True):
        bars = axes.bar(
            [p + shift for p in places], [each[way]["rows"] for each in asking], 0.25, color=color, label=label
        )
        axes.bar_label(bars, fmt="{:,.0f}", fontsize=6)
    axes.set_yscale("symlog", linthresh=1)
    axes.set_ylim(bottom=0)
    axes.set_xticks(list(places), [f"{each['changed']} changed" for each in asking])
    axes.set_title("rows shipped for one refresh", fontsize=10)
    axes.legend(fontsize=7)


def _load(axes: Any, load: Any) -> None:
    rounds = load["rounds"]
    for state, color in _STATES.items():
        axes.plot([each[state]["tps"] for each in rounds], "o-", color=color, label=state)
    axes.set_xticks(range(len(rounds)), [str(number + 1) for number in range(len(rounds))])
    axes.set_title(f"transactions a second, by round ({load['kept']:.2f} kept)", fontsize=10)
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=8)
