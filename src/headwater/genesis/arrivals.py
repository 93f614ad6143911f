"""When updates arrive: the temporal behaviour of an update stream [Mauve98 §4.2, Fig. 12].

*Update rate*: updates in a second while the stream is active. Whether a rate is high, medium or low is not a property
of the stream but of the stream beside a warehouse: high is more than it can process, medium is just about what it
can, low is less. ``UpdateRate`` makes a rate from a capacity, and tells the class of one.

*Continuity*: a steady stream has the same rate throughout. A discontinuous one falls silent; the silent periods have
negative-exponential lengths [Mauve98 footnote 4] and take the fraction ``idle`` of the time on average. The periods
between them have one fixed length, which the paper leaves open, so that ``idle`` and ``mean_gap`` say everything. Its
*effective* rate is that of the steady stream that brings the same updates in the same time (Figure 12, streams b and
c).

Updates arrive in transactions: a transaction is there when the last of its updates is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any, TypeAlias

from headwater.errors import InvalidInput
from headwater.genesis.distributions import exponential_gap


class UpdateRate(Enum):
    """The classes of [Mauve98 §4.2], with the multiple of the warehouse's capacity that stands for each."""

    HIGH = 4.0
    MEDIUM = 1.0
    LOW = 0.25

    def of(self, capacity: float) -> float:
        """Updates in a second, for a warehouse that can process ``capacity`` of them."""
        return self.value * capacity

    @classmethod
    def classify(cls, rate: float, capacity: float) -> UpdateRate:
        """The class of a rate; "just about" is within a quarter of the capacity."""
        if abs(rate - capacity) <= capacity / 4:
            return cls.MEDIUM
        return cls.HIGH if rate > capacity else cls.LOW


@dataclass(frozen=True, slots=True)
class Steady:
    rate: float

    def __post_init__(self) -> None:
        _require_rate(self.rate)

    @property
    def effective_rate(self) -> float:
        return self.rate


@dataclass(frozen=True, slots=True)
class Discontinuous:
    """``rate`` while active; silent for the fraction ``idle`` of the time, ``mean_gap`` seconds at a time."""

    rate: float
    idle: float
    mean_gap: float

    def __post_init__(self) -> None:
        _require_rate(self.rate)
        if not 0 < self.idle < 1:
            raise InvalidInput(
                f"A discontinuous stream can't be idle for {self.idle} of the time.", remedy="Give a number in (0, 1)."
            )
        if self.mean_gap <= 0:
            raise InvalidInput(f"A gap of {self.mean_gap} seconds is none.", remedy="Give a positive mean_gap.")

    @property
    def effective_rate(self) -> float:
        return self.rate * (1 - self.idle)

    @property
    def active_period(self) -> float:
        """Seconds of activity between two gaps."""
        return self.mean_gap * (1 - self.idle) / self.idle


Stream: TypeAlias = Steady | Discontinuous


def arrival_times(stream: Stream, sizes: Iterable[int], uniform: Callable[[], float]) -> Iterator[float]:
    """Seconds from the beginning at which each transaction, of so many updates, is there."""
    arrived = 0
    silence = 0.0
    match stream:
        case Steady(rate=rate):
            for size in sizes:
                arrived += size
                yield arrived / rate
        case Discontinuous(rate=rate, mean_gap=mean_gap):
            period = stream.active_period
            gaps = 1
            for size in sizes:
                arrived += size
                active = arrived / rate
                while active > gaps * period:
                    silence += exponential_gap(mean_gap, uniform())
                    gaps += 1
                yield active + silence


def stream_as_json(stream: Stream) -> dict[str, Any]:
    return {"kind": "steady" if isinstance(stream, Steady) else "discontinuous"} | asdict(stream)


def stream_of_json(found: Mapping[str, Any]) -> Stream:
    fields = {name: value for name, value in found.items() if name != "kind"}
    match found.get("kind"):
        case "steady":
            return Steady(**fields)
        case "discontinuous":
            return Discontinuous(**fields)
        case other:
            raise InvalidInput(f"There is no kind of stream {other!r}.", remedy="Choose steady or discontinuous.")


def _require_rate(rate: float) -> None:
    if rate <= 0:
        raise InvalidInput(f"A stream of {rate} updates a second never arrives.", remedy="Give a positive rate.")
