"""What a benchmark leaves: a JSON file with figures, machine and targets."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Target:
    name: str
    target: str
    measured: float
    met: bool


def at_most(name: str, limit: float, measured: float) -> Target:
    return Target(name, f"at most {limit}", round(measured, 3), measured <= limit)


def at_least(name: str, limit: float, measured: float) -> Target:
    return Target(name, f"at least {limit}", round(measured, 3), measured >= limit)


def write(path: Path | None, report: dict[str, Any], targets: list[Target]) -> dict[str, Any]:
    whole = {**report, "targets": [asdict(target) for target in targets]}
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(whole, indent=2, default=str) + "\n")
    return whole
