"""Lengths of time as people write them: ``90``, ``90 s``, ``10 min``, ``1.5 h``, ``7 days``."""

from __future__ import annotations

import re

from headwater.errors import InvalidInput

_UNITS = {"s": 1, "sec": 1, "second": 1, "min": 60, "minute": 60, "h": 3600, "hour": 3600, "d": 86_400, "day": 86_400}
_WRITTEN = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)", re.IGNORECASE)


def seconds_of(text: str) -> float:
    """Without a unit, seconds."""
    found = _WRITTEN.fullmatch(text.strip())
    unit = found[2].lower() or "s" if found is not None else ""
    factor = _UNITS.get(unit) or _UNITS.get(unit.removesuffix("s"))
    if found is None or factor is None:
        raise InvalidInput(f"{text!r} is not a length of time.", remedy="Write it as 90 s, 10 min, 12 h or 7 days.")
    return float(found[1]) * factor
