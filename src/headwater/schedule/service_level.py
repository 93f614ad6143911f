"""What is promised of a view: the options of CREATE and ALTER that the service reads, as a value.

``response_time`` is [He05]'s C: whenever somebody asks for the newest state, a refresh takes at most so long.
``max_staleness`` bounds how old the oldest change may get that the view does not show, also when nobody asks. Without
either, a view is left to whoever refreshes it. ``priority`` decides who comes first when the machine can't do it all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headwater.errors import InvalidInput
from headwater.schedule.ahead import Ahead
from headwater.schedule.online import Online
from headwater.schedule.policy import Naive, Policy

OPTIONS = ("response_time", "max_staleness", "policy", "priority")
POLICIES: Mapping[str, Policy[Any]] = {"ahead": Ahead(), "online": Online(), "naive": Naive()}
DEFAULT_POLICY = "ahead"
_RENAMED = {"foresight": "ahead"}  # what lakes may still hold

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)\s*", re.IGNORECASE)
_PRIORITIES = range(-1000, 1001)


@dataclass(frozen=True, slots=True)
class ServiceLevel:
    """Seconds throughout; None is no bound."""

    response_time: float | None = None  # C
    max_staleness: float | None = None
    policy: str = DEFAULT_POLICY
    priority: int = 0  # the larger, the sooner

    @classmethod
    def of(cls, options: Mapping[str, str]) -> ServiceLevel:
        policy = options.get("policy", DEFAULT_POLICY).lower()
        policy = _RENAMED.get(policy, policy)
        if policy not in POLICIES:
            raise InvalidInput(f"Unknown policy {policy!r}.", remedy=f"Use one of {', '.join(POLICIES)}.")
        return cls(
            response_time=_bound("response_time", options),
            max_staleness=_bound("max_staleness", options),
            policy=policy,
            priority=_priority(options.get("priority", "0")),
        )

    @property
    def is_kept(self) -> bool:
        """Whether anything is promised, so that the service has something to do."""
        return self.response_time is not None or self.max_staleness is not None

    def chosen_policy(self) -> Policy[Any]:
        return POLICIES[self.policy]


def seconds_of(text: str) -> float:
    """'10s', '1m 30s', '500 ms', '2h'; a bare number is seconds."""
    given = text.strip()
    if re.fullmatch(r"\d+(?:\.\d+)?", given):
        return float(given)
    parts = _PART.findall(given)
    if not parts or _PART.sub("", given):
        raise InvalidInput(f"{text!r} is not a length of time.", remedy="Write it as '10s', '1m 30s', '500ms' or '2h'.")
    return sum(float(number) * _UNITS[unit.lower()] for number, unit in parts)


def _bound(option: str, options: Mapping[str, str]) -> float | None:
    if option not in options or options[option].strip().lower() in ("", "none"):
        return None
    found = seconds_of(options[option])
    if not found > 0:
        raise InvalidInput(f"{option} = {options[option]!r} can't be kept.", remedy="Give a time above 0, or 'none'.")
    return found


def _priority(text: str) -> int:
    try:
        found = int(text)
    except ValueError:
        found = max(_PRIORITIES) + 1
    if found not in _PRIORITIES:
        raise InvalidInput(
            f"{text!r} is not a priority.", remedy=f"Give a whole number from {_PRIORITIES[0]} to {_PRIORITIES[-1]}."
        )
    return found
