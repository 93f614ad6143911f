"""What the demo found, and whom it tells while it runs."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Protocol

from headwater.values import UnitOfWork


@dataclass(frozen=True, slots=True)
class Check:
    """One answer of Headwater beside Spark's own answer to the same SQL over the same versions of the tables.

    ``surplus`` and ``missing`` are rows that Headwater has too often or lacks: both 0, or the answer is wrong.
    """

    view: str
    action: str
    moment: str
    csn: int
    mode: str
    rows_changed: int | None
    rows: int
    incremental_seconds: float
    recompute_seconds: float
    surplus: int
    missing: int

    @property
    def equal(self) -> bool:
        return self.surplus == 0 and self.missing == 0

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "equal": self.equal}


@dataclass(frozen=True, slots=True)
class DemoReport:
    lake: str
    scale_factor: float
    rounds: int
    seconds: float
    checks: tuple[Check, ...]

    @property
    def all_equal(self) -> bool:
        return all(check.equal for check in self.checks)

    def as_dict(self) -> dict[str, Any]:
        return {
            "lake": self.lake,
            "scale_factor": self.scale_factor,
            "rounds": self.rounds,
            "seconds": self.seconds,
            "all_equal": self.all_equal,
            "checks": [check.as_dict() for check in self.checks],
        }


class Narrator(Protocol):
    """Whoever shows the demo to a person."""

    def busy(self, text: str) -> None:
        """Something has begun that takes a while."""

    def say(self, text: str) -> None:
        """Something is done."""

    def changed(self, units: list[UnitOfWork]) -> None:
        """These units of work were captured."""

    def checked(self, check: Check) -> None:
        """An answer was compared."""
