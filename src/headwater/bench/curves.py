"""Seconds over something, one curve for each way: the pictures of benchmarks that compare strategies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_COLOURS = ("#fd8d3c", "#9ecae1", "#08519c", "#31a354", "#756bb1")
_MARKS = ("s", "o", "D", "^", "v")


@dataclass(frozen=True, slots=True)
class Curve:
    name: str
    places: Sequence[float]
    seconds: Sequence[float]


def draw_curves(curves: Sequence[Curve], path: Path, *, title: str, across: str) -> None:
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6.5, 4))
    for order, curve in enumerate(curves):
        colour, mark = _COLOURS[order % len(_COLOURS)], _MARKS[order % len(_MARKS)]
        axes.plot(curve.places, curve.seconds, color=colour, marker=mark, label=curve.name)
    axes.set_xticks(sorted({place for curve in curves for place in curve.places}))
    axes.set_ylim(bottom=0)
    axes.set_xlabel(across)
    axes.set_ylabel("seconds (median)")
    axes.set_title(title, fontsize=10)
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path)
    pyplot.close(figure)
