"""Benchmarks: ratios measured side by side in one run, with the machine, the data and the targets beside them.

``headwater bench NAME --json FILE`` writes the figures and draws a picture beside the file.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headwater.errors import InvalidInput, UnknownName

BENCHES: dict[str, str] = {
    "choices": "how often the cost models choose the fastest way, against forced runs of every alternative",
    "daily": "a day's new and deleted orders below a six-way join and an aggregate, refreshed and recomputed",
    "fixed-cost": "a refresh of a three-table join view for 100 changed rows beside a bare MERGE of the same rows",
    "he": "asymmetric batching as in [He05]: cost functions, plans simulated and run, refresh times, streams",
    "lee": "the six-way join of [Lee01] by delta tree, by n terms and recomputed, for changes and tables of many sizes",
    "mauve": "staleness by chunk size as in [Mauve98], the chunk size advised, and readers beside maintenance",
    "service": "headwater run on a live stream: refreshes on demand within the response time, and what that costs",
    "sources": "what PostgreSQL sources are asked for, beside whole tables, and how much of their own rate they keep",
    "tpch": "a refresh of the 22 TPC-H queries as views beside recomputation, for changes of several sizes",
}
OPTIONS: dict[str, frozenset[str]] = {
    "choices": frozenset({"fractions", "parts", "repeats"}),
    "daily": frozenset({"fractions", "scales", "repeats", "strategy", "constraints", "together", "warm_up"}),
    "he": frozenset({"repeats"}),
    "lee": frozenset({"fractions", "scales", "repeats"}),
    "mauve": frozenset({"minutes", "parts", "readers"}),
    "service": frozenset({"minutes", "mix"}),
    "sources": frozenset({"parts"}),
    "tpch": frozenset({"queries", "fractions", "repeats", "changes", "warm_up"}),
}
PARTS: dict[str, tuple[str, ...]] = {
    "choices": ("strategies", "policies"),
    "mauve": ("sizes", "streams", "tables", "readers"),
    "sources": ("load", "asking"),
}


def run(
    name: str,
    *,
    sf: float | None = None,
    json_path: Path | None = None,
    progress: Callable[[str], None] = lambda _: None,
    **options: Any,
) -> dict[str, Any]:
    """Run a benchmark; its report, also written to ``json_path`` with the picture beside it.

    ``options`` are those that the benchmark has in ``OPTIONS``.
    """
    if name not in BENCHES:
        raise UnknownName(f"There is no benchmark {name!r}.", remedy=f"Choose among {', '.join(BENCHES)}.")
    if foreign := options.keys() - OPTIONS.get(name, frozenset()):
        raise InvalidInput(
            f"Benchmark {name!r} does not take {', '.join(sorted(foreign))}.", remedy="Leave that out for it."
        )
    known = PARTS.get(name, ())
    if unknown := set(options.get("parts", ())) - set(known):
        raise UnknownName(
            f"Benchmark {name!r} has no part {', '.join(sorted(unknown))}.", remedy=f"Choose among {', '.join(known)}."
        )
    module = importlib.import_module(f"headwater.bench.{name.replace('-', '_')}")
    report: dict[str, Any] = module.run(sf=sf, json_path=json_path, progress=progress, **options)
    return report
