"""Pictures of figures over time or size, as SVG; they need matplotlib, which only the extra ``demo`` brings."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from headwater.errors import InvalidInput
from headwater.values import StalenessReport

WAITING, INSTALLING, PREDICTED, MEASURED = "#9ecae1", "#08519c", "#fd8d3c", "#1b1f24"


def plotting() -> Any:
    """matplotlib.pyplot, drawing to files only."""
    try:
        import matplotlib
    except ImportError as error:
        raise InvalidInput(
            "A picture needs matplotlib, which is not installed.", remedy="Install it: pip install 'headwater[demo]'."
        ) from error
    matplotlib.use("svg")
    from matplotlib import pyplot

    return pyplot


def draw_staleness(reports: Sequence[StalenessReport], path: Path) -> None:
    """For each view the way of updates into it, refresh by refresh, and staleness by chunk size."""
    shown = [report for report in reports if report.refreshes]
    if not shown:
        raise InvalidInput(
            "No refresh has brought an update into a view yet, so there is nothing to draw.",
            remedy="Change a table and refresh, then draw.",
        )
    pyplot = plotting()
    figure, grid = pyplot.subplots(len(shown), 2, figsize=(11, 3.4 * len(shown)), squeeze=False)
    for (left, right), report in zip(grid, shown, strict=True):
        _refreshes(left, report)
        _by_chunk_size(right, report)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def _refreshes(axes: Any, report: StalenessReport) -> None:
    """Each refresh as the times of its average update: committed, taken in, installed."""
    for place, refresh in enumerate(report.refreshes):
        installed = refresh.installed_at
        taken_in = installed - timedelta(seconds=refresh.s2)
        committed = installed - timedelta(seconds=refresh.vs)
        label = place == 0
        axes.plot([committed, taken_in], [place] * 2, color=WAITING, lw=4, label="S1: waiting" if label else None)
        axes.plot([taken_in, installed], [place] * 2, color=INSTALLING, lw=4, label="S2: refreshing" if label else None)
    axes.set_title(f"{report.view}: the average update of each refresh", fontsize=10)
    axes.set_ylabel("refresh")
    axes.tick_params(axis="x", labelrotation=30, labelsize=8)
    axes.legend(fontsize=8)


def _by_chunk_size(axes: Any, report: StalenessReport) -> None:
    sizes = [each.chunk_size for each in report.predicted]
    axes.plot(sizes, [each.vs for each in report.predicted], color=PREDICTED, marker=".", label="predicted VS")
    axes.plot(sizes, [each.s1 for each in report.predicted], color=WAITING, ls="--", label="predicted S1")
    axes.plot(sizes, [each.s2 for each in report.predicted], color=INSTALLING, ls="--", label="predicted S2")
    points = [(each.updates, each.vs) for each in report.refreshes]
    axes.scatter([x for x, _ in points], [y for _, y in points], color=MEASURED, s=14, zorder=3, label="measured")
    if report.advised is not None:
        axes.axvline(report.advised.chunk_size, color=PREDICTED, lw=0.8)
        axes.set_title(f"staleness by chunk size; advised {report.advised.chunk_size}", fontsize=10)
    axes.set_xscale("log")
    axes.set_xlabel("updates in a chunk")
    axes.set_ylabel("seconds")
    axes.legend(fontsize=8)
