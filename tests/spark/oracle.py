"""What a view should hold, from Spark alone.

The oracle knows three things: the view's SQL text, the Delta versions that a csn means (the largest version that
``lake.units_of_work()`` numbers at or before it, or the version at which the table was tracked), and Spark. It binds
temp views named like the tables to those versions and asks Spark for the text. None of the product's code is used.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.context import Sizes
from tests.support.bags import SHOWN, assert_same_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headwater import Lake

FEED = "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"


def newest_version(path: str | Path) -> int:
    """From the names in the log: the tests' tables are local."""
    log = Path(path) / "_delta_log"
    return max(int(each.name.split(".")[0]) for each in log.iterdir() if re.fullmatch(r"\d{20}\.json", each.name))


def assert_rows_equal(actual: DataFrame, expected: DataFrame, *, label: str = "") -> None:
    """``assert_bag_equal`` on collected rows: for results of a few rows it costs half, and -0.0 or 'A' against 'a' in a
    collation can't hide in a GROUP BY."""
    assert_same_schema(actual, expected)
    counts = Counter(map(plain, actual.collect()))
    counts.subtract(Counter(map(plain, expected.collect())))
    lines = [f"  {'surplus' if n > 0 else 'missing'} {abs(n)} x {row}" for row, n in counts.items() if n]
    if lines:
        more = [f"  and {len(lines) - 2 * SHOWN} more"] if len(lines) > 2 * SHOWN else []
        raise AssertionError("\n".join([f"{label}: the bags differ", *lines[: 2 * SHOWN], *more]))


def plain(value: Any) -> Any:
    """Hashable, with NULL equal to NULL and NaN to NaN."""
    match value:
        case float():
            return repr(value)
        case tuple():
            return tuple(plain(each) for each in value)
        case list():
            return ("list", *(plain(each) for each in value))
        case dict():
            return frozenset((plain(key), plain(each)) for key, each in value.items())
        case bytearray():
            return bytes(value)
        case _:
            return value


@dataclass
class Tracked:
    path: str
    since_csn: int
    since_version: int


# Where small ends and large begins decides how a change is computed and written; the answer is the same.
WAYS = (
    Sizes(),
    Sizes(large_table=1),
    Sizes(large_table=1, small_view=0),
    Sizes(large_table=1, small_view=0, scattered=1),
    Sizes(broadcast=1, large_table=2, small_view=3),
)


@dataclass
class World:
    """Delta tables in a folder, tracked by a lake, and the oracle over them."""

    spark: SparkSession
    lake: Lake
    folder: Path
    tables: dict[str, Tracked] = field(default_factory=dict)
    views: dict[str, str] = field(default_factory=dict)
    _versions: dict[tuple[str, int], DataFrame] = field(default_factory=dict)
    _seen: dict[str, int] = field(default_factory=dict)

    # ------------------------------------------------------------------ tables

    def path(self, name: str) -> str:
        return str(self.folder / "tables" / name)

    def ref(self, name: str) -> str:
        return f"delta.`{self.path(name)}`"

    def make(
        self, name: str, columns: str, rows: str = "", *, track: bool = True, mapped: bool = False, **options: Any
    ) -> None:
        """A Delta table with a change feed; ``rows`` as in VALUES; ``mapped`` allows odd names and DROP COLUMN."""
        settings = f"{FEED[:-1]}, 'delta.columnMapping.mode' = 'name')" if mapped else FEED
        self.spark.sql(f"CREATE TABLE {self.ref(name)} ({columns}) USING delta {settings}")
        if rows:
            self.spark.sql(f"INSERT INTO {self.ref(name)} VALUES {rows}")
        if track:
            self.track(name, **options)

    def track(self, name: str, **options: Any) -> None:
        self.lake.track(name, self.path(name), **options)
        self.noticed(name)

    def noticed(self, name: str) -> None:
        """The lake has just begun (again) to follow the table, and nobody has written since."""
        # What is numbered already belongs to the time before.
        self.tables[name] = Tracked(self.path(name), self.newest_csn(), newest_version(self.path(name)))

    def run(self, statement: str) -> DataFrame:
        """A statement over ``{name}`` for each table."""
        answer = self.spark.sql(statement.format(**{name: self.ref(name) for name in self.tables}))
        self.look()
        return answer

    def look(self) -> None:
        """Keep what the tables hold now under their versions: reading the present is several times cheaper than going
        back to it."""
        for name, tracked in self.tables.items():
            version = newest_version(tracked.path)
            if self._seen.get(name) != version:
                self._seen[name] = version
                self._versions[name, version] = self._rows(self.spark.read.format("delta").load(tracked.path))

    def rows(self, name: str) -> int:
        """Rows of a table now."""
        return self._versions[name, self._seen[name]].count()

    def _rows(self, frame: DataFrame) -> DataFrame:
        return frame.coalesce(1).localCheckpoint()  # a few rows, read many times

    @contextmanager
    def setting(self, key: str, value: str) -> Iterator[None]:
        """The session with another value of a setting, for a while."""
        before = self.spark.conf.get(key, None)
        self.spark.conf.set(key, value)
        try:
            yield
        finally:
            if before is None:
                self.spark.conf.unset(key)
            else:
                self.spark.conf.set(key, before)

    def newest_csn(self) -> int:
        units = self.lake.units_of_work()
        return max((unit.csn for unit in units), default=0)

    # ------------------------------------------------------------------ views

    def create(self, name: str, sql: str, options: str = "") -> None:
        self.lake.sql(f"CREATE MATERIALIZED VIEW {name} {options} AS {sql}")
        self.views[name] = sql

    # ------------------------------------------------------------------ the oracle

    def version_at(self, name: str, csn: int) -> int:
        tracked = self.tables[name]
        later = [
            unit.version
            for unit in self.lake.units_of_work()
            if unit.table == name and tracked.since_csn < unit.csn <= csn
        ]
        return max(later, default=tracked.since_version)

    def table_at(self, name: str, csn: int) -> DataFrame:
        version = self.version_at(name, csn)
        if (name, version) not in self._versions:
            frame = self.spark.read.format("delta").option("versionAsOf", version).load(self.tables[name].path)
            self._versions[name, version] = self._rows(frame)
        return self._versions[name, version]

    def forget_versions(self, name: str) -> None:
        """The table was made anew: its version numbers have other meanings now."""
        self._seen.pop(name, None)
        for key in [key for key in self._versions if key[0] == name]:
            del self._versions[key]

    @contextmanager
    def tables_at(self, sql: str, csn: int, columns: Mapping[str, Sequence[str]] | None = None) -> Iterator[None]:
        """Temp views named like the tables that a text names, each at the version that the csn means."""
        named = [name for name in self.tables if re.search(rf"\b{name}\b", sql, re.IGNORECASE)]
        for name in named:
            frame = self.table_at(name, csn)
            chosen = (columns or {}).get(name)
            (frame.select(*chosen) if chosen else frame).createOrReplaceTempView(name)
        try:
            yield
        finally:
            for name in named:
                self.spark.catalog.dropTempView(name)

    def expected(self, sql: str, csn: int, columns: Mapping[str, Sequence[str]] | None = None) -> DataFrame:
        with self.tables_at(sql, csn, columns):
            return self.spark.sql(sql)

    def check(self, view: str, *, at: int | None = None, label: str = "", columns: Any = None) -> None:
        """The view as it is read, now or at a csn, against Spark's answer; both ways."""
        csn = self.view_csn(view) if at is None else at
        actual = self.lake.read(view) if at is None else self.lake.read(view, at=at)
        assert_rows_equal(
            actual, self.expected(self.views[view], csn, columns), label=f"{label} view {view} at csn {csn}"
        )

    def view_csn(self, view: str) -> int:
        return next(each.csn for each in self.lake.status().views if each.name == view)

    def mark(self, view: str) -> int:
        return next(each.high_water_mark for each in self.lake.status().views if each.name == view)

    def kept_from(self, view: str) -> int:
        return next(each.kept_from for each in self.lake.status().views if each.name == view)

    def refresh(self, view: str, to: Any = None, *, label: str = "", columns: Any = None) -> Any:
        """Refresh and compare; the report."""
        report = self.lake.refresh(view) if to is None else self.lake.refresh(view, to=to)
        self.check(view, label=f"{label} {report.mode} refresh to {to}:", columns=columns)
        assert self.view_csn(view) == report.csn
        return report

    def check_law(self, view: str, *, label: str = "") -> int:
        """The law of DESIGN 2 at every csn from the beginning of the view's kept past to its mark; how many."""
        csns = range(self.kept_from(view), self.mark(view) + 1)
        check_view(self, view, self.views[view], csns, label=label)
        return len(csns)


def check_view(world: World, view: str, sql: str, csns: Iterable[int], *, label: str = "") -> None:
    """``lake.read(view, at=csn)`` against Spark's answer to ``sql`` at every one of the csns, both ways."""
    for csn in csns:
        actual, expected = world.lake.read(view, at=csn), world.expected(sql, csn)
        assert_rows_equal(actual, expected, label=f"{label} view {view} at csn {csn}")
