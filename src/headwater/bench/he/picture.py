"""Figures 4 to 7 of [He05] in one picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headwater.schedule.cost import cost_from_dict

_COLOURS = {
    "partsupp": "#08519c",
    "supplier": "#fd8d3c",
    "naive": "#636363",
    "online": "#08519c",
    "ahead": "#6baed6",
    "adapt": "#31a354",
    "opt_lgm": "#fd8d3c",
}


def draw(report: dict[str, Any], path: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 2, figsize=(10, 7))
    _costs(axes[0][0], report["figure_4"]["leaves"])
    _plans(axes[0][1], report["figure_5"])
    _refresh_times(axes[1][0], report["figure_6"])
    _streams(axes[1][1], report["figure_7"])
    figure.suptitle(f"Asymmetric batching, TPC-H at scale factor {report['data']['scale_factor']:g}", fontsize=11)
    figure.tight_layout()
    figure.savefig(path)
    pyplot.close(figure)


def _costs(axes: Any, leaves: dict[str, Any]) -> None:
    for name, curve in leaves.items():
        rows = [sample[0] for sample in curve["samples"]]
        axes.scatter(rows, [sample[1] for sample in curve["samples"]], s=12, color=_COLOURS[name], alpha=0.6)
        if curve["fitted"] is not None and rows:
            function = cost_from_dict(curve["fitted"]["function"])
            sizes = [max(1, round(max(rows) * share / 60)) for share in range(61)]
            axes.plot(sizes, [function(size) for size in sizes], color=_COLOURS[name], label=name)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("updated rows")
    axes.set_ylabel("seconds")
    axes.set_title("Cost functions (Figure 4)", fontsize=10)
    axes.legend(fontsize=8)


def _plans(axes: Any, figure: dict[str, Any]) -> None:
    for position, run in enumerate(figure["plans"].values()):
        axes.bar(position - 0.2, run["simulated"], 0.38, color="#9ecae1", label="simulated" if not position else None)
        axes.bar(position + 0.2, run["actual"], 0.38, color="#08519c", label="actual" if not position else None)
    axes.set_xticks(range(len(figure["plans"])), list(figure["plans"]))
    axes.set_ylabel("seconds")
    axes.set_title("Simulated and actual cost of three plans (Figure 5)", fontsize=10)
    axes.legend(fontsize=8)


def _refresh_times(axes: Any, figure: dict[str, Any]) -> None:
    times = [run["refresh_time"] for run in figure["runs"]]
    for name in ("naive", "adapt", "online", "ahead", "opt_lgm"):
        axes.plot(times, [run[name] for run in figure["runs"]], marker="o", ms=3, color=_COLOURS[name], label=name)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("refresh time (steps)")
    axes.set_ylabel("total seconds")
    axes.set_title("Varying refresh time (Figure 6)", fontsize=10)
    axes.legend(fontsize=8)


def _streams(axes: Any, figure: dict[str, Any]) -> None:
    names = ("naive", "online", "ahead", "opt_lgm")
    for order, name in enumerate(names):
        heights = [run["seconds"][name] for run in figure["runs"]]
        places = [position + (order - 1.5) * 0.2 for position in range(len(heights))]
        axes.bar(places, heights, 0.19, color=_COLOURS[name], label=name)
    axes.set_xticks(range(len(figure["runs"])), [run["stream"] for run in figure["runs"]])
    axes.set_ylabel("total seconds")
    axes.set_title("Non-uniform arrivals (Figure 7)", fontsize=10)
    axes.legend(fontsize=8)
