"""Rows shipped by each way of asking, and the server's rate turn by turn."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def draw(asking: list[dict[str, Any]], load: dict[str, Any] | None, path: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(8, 3.2))
    ways = {
        "own": ("from the view's own rows", "#74c476"),
        "by_keys": ("by keys", "#4292c6"),
        "whole": ("whole tables", "#fd8d3c"),
    }
    places = range(len(asking))
    for shift, (way, (label, color)) in zip((-0.27, 0.0, 0.27), ways.items(), strict=True):
        bars = left.bar(
            [p + shift for p in places], [each[way]["rows"] for each in asking], 0.25, color=color, label=label
        )
        left.bar_label(bars, fmt="{:,.0f}", fontsize=6)
    left.set_yscale("symlog", linthresh=1)
    left.set_ylim(bottom=0)
    left.set_xticks(list(places), [f"{each['changed']} changed" for each in asking])
    left.set_title("rows shipped for one refresh", fontsize=10)
    left.legend(fontsize=7)
    if load is not None:
        rounds, colors = load["rounds"], {"alone": "#fd8d3c", "logged": "#74c476", "followed": "#4292c6"}
        for state, color in colors.items():
            right.plot([each[state]["tps"] for each in rounds], "o-", color=color, label=state)
        right.set_xticks(range(len(rounds)), [str(number + 1) for number in range(len(rounds))])
        right.set_title(f"transactions a second, by round ({load['kept']:.2f} kept)", fontsize=10)
        right.set_ylim(bottom=0)
        right.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path)
    pyplot.close(figure)
