"""The picture of the benchmark: for each query, how many times faster than recomputation, for each size of change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

_COLOURS = ("#08519c", "#4292c6", "#9ecae1", "#fd8d3c", "#a63603")
_WRONG = "#cb181d"


def draw(figures: list[dict[str, Any]], scale_factor: float, path: Path) -> None:
    """Bars from 1 on a logarithmic scale: to the right the refresh was faster, to the left slower."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot
    from matplotlib.patches import Patch

    names = sorted({each["query"] for each in figures})
    fractions = sorted({each["fraction"] for each in figures})
    height = 0.8 / max(1, len(fractions))
    figure, axes = pyplot.subplots(figsize=(7.5, 1.6 + 0.42 * len(names)))
    for order, fraction in enumerate(fractions):
        own = [each for each in figures if each["fraction"] == fraction]
        axes.barh(
            [names.index(each["query"]) - 0.4 + height * (order + 0.5) for each in own],
            [each["ratio"] - 1 for each in own],
            height,
            left=1,
            color=[_COLOURS[order % len(_COLOURS)] if each["equal"] else _WRONG for each in own],
            hatch=["//" if "full" in each["modes"] else "" for each in own],
            edgecolor="white",
            linewidth=0.3,
        )
    handles = [
        Patch(color=_COLOURS[order % len(_COLOURS)], label=f"{fraction:.1%} changed")
        for order, fraction in enumerate(fractions)
    ]
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}x")
    axes.margins(y=0.02)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlabel("recomputation / refresh (right of 1: the refresh is faster; hatched: it recomputed; red: wrong)")
    axes.set_title(f"TPC-H views at scale factor {scale_factor:g}", fontsize=10)
    axes.legend(handles=handles, fontsize=8)
    figure.tight_layout()
    figure.savefig(path)
    pyplot.close(figure)
