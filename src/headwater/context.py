"""What every driver works with: the catalog that remembers, the engine that executes, the source that is read.

Also the lake's names for leases and places, so that they are spelled in one place.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from headwater.catalog.store import Catalog
from headwater.choice import BROADCAST_ROWS
from headwater.durable import Listener, nobody
from headwater.engine.spark import SparkEngine
from headwater.engine.statistics import Statistics
from headwater.sources.delta import DeltaSource
from headwater.sources.opening import Feeds

if TYPE_CHECKING:
    from headwater.capture.mirror_store import MirrorStore
    from headwater.propagate.sharing import Sharing

Clock: TypeAlias = Callable[[], int]
Progress: TypeAlias = Callable[[str], None]


def silent(_: str) -> None:
    """Progress that nobody watches."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Where small ends and large begins, in rows."""

    broadcast: int = BROADCAST_ROWS  # a change up to this is sent to every task; no table that it meets is shuffled
    large_table: int = 500_000  # a table from this on is met by one change at a time, as small as it can be
    checked: int = 500_000  # a foreign key is checked before a step if that may spare reading so many rows
    csns: int = 200  # of a step: the rows of a touched key are had at each csn, from all changes up to there
    pairs: int = 200_000  # of a step: changes of one key in several tables are paired, each with each
    small_view: int = 100_000  # a view up to this is written anew, which costs less than to find its changed rows
    scattered: int = 10_000  # so is a larger one, where a change of so many rows or more lies all over it


@dataclass(slots=True)
class Questions:
    """What sources were asked for since the lake was opened: sub-queries, keys sent, rows shipped."""

    queries: int = 0
    keys: int = 0
    rows: int = 0


@dataclass(slots=True)
class Context:
    catalog: Catalog
    engine: SparkEngine
    source: DeltaSource
    location: str
    clock: Clock
    clock_skew: float = 0.0
    lease_ttl: float = 60.0
    lease_wait: float = 60.0
    reached: Listener = nobody
    progress: Progress = field(default=silent)
    sizes: Sizes = field(default=Sizes())
    questions: Questions = field(default_factory=Questions)
    feeds: Feeds = field(default_factory=Feeds)
    mirror_store: MirrorStore | None = None  # another place for mirrored tables than Delta, for tests
    sharing: Sharing | None = None  # what the views of a round share
    statistics: Statistics = field(init=False)
    ran: set[str] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        self.statistics = Statistics(self.engine)

    def timed(self, kind: str, began: float) -> dict[str, float | bool]:
        """What a step that began then (``time.monotonic``) took, for its outcome; the first of a kind is cold.

        Spark compiles, loads and caches at the first statement of each kind, so it says little about the next.
        """
        cold = kind not in self.ran
        self.ran.add(kind)
        return {"seconds": round(time.monotonic() - began, 4), "cold": cold}

    def place(self, kind: str, name: str, view_id: str) -> str:
        """Where a view's table lives; the id keeps a dropped and re-made view of one name apart."""
        return f"{self.location.rstrip('/')}/{kind}/{name}-{view_id[:8]}"


CAPTURE = "capture"
PUBLISH = "publish"
COLLECT = "collect"


def propagate_lease(view_id: str) -> str:
    return f"propagate:{view_id}"


def apply_lease(view_id: str) -> str:
    return f"apply:{view_id}"


def name_lease(name: str) -> str:
    return f"name:{name.lower()}"
