"""Benchmarks: ratios measured side by side in one run, with the machine, the data and the targets beside them.

``headwater bench NAME --json FILE`` writes the figures and draws a picture beside the file.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headwater.errors import UnknownName

BENCHES: dict[str, str] = {
    "fixed-cost": "a refresh of a three-table join view for 100 changed rows beside a bare MERGE of the same rows",
}


def run(
    name: str,
    *,
    sf: float | None = None,
    json_path: Path | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Run a benchmark; its report, also written to ``json_path`` with the picture beside it."""
    if name not in BENCHES:
        raise UnknownName(f"There is no benchmark {name!r}.", remedy=f"Choose among {', '.join(BENCHES)}.")
    module = importlib.import_module(f"headwater.bench.{name.replace('-', '_')}")
    report: dict[str, Any] = module.run(sf=sf, json_path=json_path, progress=progress)
    return report
