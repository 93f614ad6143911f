"""[Mauve98 §4] on Spark: staleness against chunk size, and readers beside maintenance.

*Staleness.* Two tables and their join. The updates of a workload of ``headwater.genesis`` are committed one transaction
after another, as they arrive, and whenever a chunk is full the view is refreshed and the writer waits for it: the
paper's one process, measured and not replayed. For each update T_eb is when it would have been in its table had the
writer never waited, T_b when it was, T_v when the view had it. Figures 8 to 11 are four update sizes, 13 and 14 streams
with gaps at a high and a medium rate, 15 what the time went into, 16 two table sizes.

*Readers.* Processes of their own, on another engine (DuckDB), open a snapshot, read several views and tables in it and
compare what must agree. They do so alone, then while writers, releases and garbage collection go on without a pause,
and alone again.

``sf`` shrinks tables and updates of the paper alike. Everything is divided into the same number of transactions, so
that the fixed costs of Spark do not grow with ``sf``.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from headwater.bench.mauve import experiments, serving
from headwater.bench.mauve.drawing import draw
from headwater.bench.observed import SETTINGS
from headwater.bench.report import Target, at_most, write
from headwater.engine.session import describe_machine, local_session

DEFAULT_SCALE = 0.1
DEFAULT_MINUTES = 5.0
DEFAULT_READERS = 8
LATENCY_LIMIT = 1.3
ADVICE_LIMIT = 1.15


def run(
    *,
    sf: float | None,
    json_path: Path | None,
    progress: Callable[[str], None],
    minutes: float = DEFAULT_MINUTES,
    readers: int = DEFAULT_READERS,
    parts: tuple[str, ...] = ("sizes", "streams", "tables", "readers"),
) -> dict[str, Any]:
    scale = DEFAULT_SCALE if sf is None else sf
    spark = local_session("headwater-bench", master="local[2]", memory="3g", extra=SETTINGS)
    figures: dict[str, Any] = {}
    targets: list[Target] = []
    with experiments.laboratory(spark, progress) as laboratory:
        if "sizes" in parts:
            figures["update_sizes"] = laboratory.update_sizes(scale)
            targets += _of_sizes(figures["update_sizes"])
        if "streams" in parts:
            figures["streams"] = laboratory.streams(scale)
        if "tables" in parts:
            figures["table_sizes"] = laboratory.table_sizes(scale)
        if "readers" in parts:
            found = serving.measure(spark, scale, minutes=minutes, readers=readers, progress=progress)
            figures["readers"] = found
            targets += [
                at_most("readers: violations of what must agree", 0, found["violations"]),
                at_most("readers: errors", 0, found["errors"]),
                at_most("readers: median latency with maintenance / without", LATENCY_LIMIT, found["ratio"]),
            ]
    report = {
        "benchmark": "mauve",
        "command": f"headwater bench mauve --sf {scale} --parts {','.join(parts)}",
        "machine": describe_machine(spark),
        **figures,
    }
    if json_path is not None:
        json_path.parent.mkdir(parents=True, exist_ok=True)
        draw(figures, json_path.with_suffix(".svg"))
    return write(json_path, report, targets)


def _of_sizes(found: list[dict[str, Any]]) -> list[Target]:
    targets = []
    for each in found:
        name = f"{each['updates']} updates"
        runs = each["runs"]
        best = min(runs, key=lambda run: run["vs"])
        phases = sorted(run["phases"] for run in runs)
        inside = phases[0] < best["phases"] < phases[-1]
        wanted = f"between {phases[0]} and {phases[-1]} view updates"
        targets.append(Target(f"{name}: the least staleness lies inside", wanted, best["phases"], inside))
        # The mean of all runs with that chunk size; the best and the advised one ran once more than the others.
        again = {run["phases"]: run["vs"] for run in (each["advised"], each["best_again"])}
        means = {phases: (run["vs"] + again[phases]) / 2 for run in runs if (phases := run["phases"]) in again}
        chosen = means.get(each["advised"]["phases"], each["advised"]["vs"])
        ratio = chosen / min(chosen, *means.values())
        targets.append(at_most(f"{name}: staleness as advised / best measured", ADVICE_LIMIT, ratio))
    return targets
