"""A lake whose mirrored tables are in memory, so that capture can be tested against a real server without Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from headwater.algebra.time import Csn
from headwater.capture.attach import attach, reattach
from headwater.capture.driver import Captured, capture
from headwater.capture.mirror_store import LoggedRow, MirrorTarget
from headwater.catalog.database import system_clock
from headwater.catalog.store import open_catalog
from headwater.context import Context
from headwater.durable import Listener, nobody
from headwater.engine.spark import SparkEngine
from headwater.sources.delta import DeltaSource
from headwater.sources.feed import Row


def _no_spark() -> None:
    raise AssertionError("these tests start no Spark")


@dataclass
class MemoryStore:
    """Logs and versions of tables; a commit whose number was seen, or passed, is passed over as Delta does."""

    logs: dict[str, list[LoggedRow]] = field(default_factory=dict)
    versions: dict[str, list[Counter[Row]]] = field(default_factory=dict)
    newest: dict[str, tuple[int, int]] = field(default_factory=dict)
    given: dict[str, list[Row]] = field(default_factory=dict)
    """Rows of Delta tables of somebody else's, by location."""
    appends: int = 0
    largest: int = 0

    def create(self, target: MirrorTarget) -> None:
        self.logs[target.log_location] = []
        self.versions[target.location] = [Counter()]

    def remove(self, target: MirrorTarget) -> None:
        self.logs.pop(target.log_location, None)
        self.versions.pop(target.location, None)

    def _is_new(self, application: str, number: tuple[int, int]) -> bool:
        if self.newest.get(application, (-1, -1)) >= number:
            return False
        self.newest[application] = number
        return True

    def append(self, target: MirrorTarget, round_id: int, ordinal: int, rows: Sequence[LoggedRow]) -> int:
        if self._is_new(target.log_location, (round_id, ordinal)):
            self.appends += 1
            self.largest = max(self.largest, len(rows))
            self.logs[target.log_location] += rows
        return len(rows)

    def _held(self, target: MirrorTarget, at: Csn) -> Counter[Row]:
        assert target.state is not None
        held = Counter(self.versions[target.location][target.state.version])
        for csn, count, row in self.logs[target.log_location]:
            if target.state.csn < csn <= at:
                held[row] += count
        assert all(count >= 0 for count in held.values()), "a row was taken away that was not there"
        return +held

    def empty(self, target: MirrorTarget, round_id: int, ordinal: int, at: Csn) -> int:
        held = self._held(target, at)
        if self._is_new(target.log_location, (round_id, ordinal)):
            self.logs[target.log_location] += [(at, -count, row) for row, count in held.items()]
        return len(held)

    def settle(self, target: MirrorTarget, round_id: int, to: Csn) -> int:
        if self._is_new(target.location, (round_id, 0)):
            self.versions[target.location].append(self._held(target, to))
        return len(self.versions[target.location]) - 1

    def clean(self, target: MirrorTarget, round_id: int, newest: Csn) -> None:
        self._is_new(target.log_location, (round_id, 99_999))
        self._is_new(target.location, (round_id, 0))
        self.logs[target.log_location] = [each for each in self.logs[target.log_location] if each[0] <= newest]

    def forget_log(self, target: MirrorTarget) -> None:
        self.logs[target.log_location] = []

    def fill(self, target: MirrorTarget, rows: Iterable[Row]) -> int:
        self.versions[target.location].append(Counter(rows))
        return len(self.versions[target.location]) - 1

    def adopt(self, target: MirrorTarget, location: str) -> int:
        return self.fill(target, self.given[location])

    def compare(self, target: MirrorTarget, round_id: int, ordinal: int, at: Csn, copy: MirrorTarget) -> int:
        assert copy.state is not None
        difference = Counter(self.versions[copy.location][copy.state.version])
        difference.subtract(self._held(target, at))
        found = [(at, count, row) for row, count in difference.items() if count]
        if self._is_new(target.log_location, (round_id, ordinal)):
            self.logs[target.log_location] += found
        return len(found)


@dataclass
class World:
    folder: Path
    store: MemoryStore = field(default_factory=MemoryStore)
    reached: Listener = nobody
    clock: Callable[[], int] = system_clock
    context: Context = field(init=False)

    def __post_init__(self) -> None:
        self.context = self.opened()

    def opened(self) -> Context:
        """As another process would open it; the store stays, as the lake's files do."""
        engine = SparkEngine(_no_spark)  # type: ignore[arg-type]
        return Context(
            catalog=open_catalog(f"sqlite:///{self.folder}/catalog.db", clock=system_clock, create=True),
            engine=engine,
            source=DeltaSource(engine),
            location=str(self.folder),
            clock=lambda: self.clock(),
            lease_wait=5.0,
            reached=lambda point: self.reached(point),
            mirror_store=self.store,
        )

    def close(self) -> None:
        self.context.feeds.close()
        self.context.catalog.close()

    def restart(self) -> None:
        self.close()
        self.context = self.opened()

    def track(self, name: str, url: str, **options: object) -> None:
        attach(self.context, name, url, str(options.pop("mode", "mirror")), {"prepare": True, **options})

    def capture(self) -> Captured:
        return capture(self.context)

    def resync(self, name: str) -> None:
        reattach(self.context, name)

    def newest(self) -> int:
        return self.context.catalog.newest_csn()

    def rows(self, name: str, csn: int | None = None) -> Counter[Row]:
        """What the mirror holds at a csn, by its stored version and its log, as a reader finds it."""
        catalog = self.context.catalog
        at = catalog.newest_csn() if csn is None else Csn(csn)
        state, mirror = catalog.mirror_state(name, at), catalog.mirror(name)
        assert mirror is not None
        held = Counter(self.store.versions[catalog.base_table(name).location][state.version])
        for when, count, row in self.store.logs[mirror.log_location]:
            if state.csn < when <= at:
                held[row] += count
        assert all(count >= 0 for count in held.values())
        return +held


def contents(connection: psycopg.Connection, table: str) -> Counter[Row]:
    return Counter(connection.execute(f"SELECT * FROM {table}").fetchall())
