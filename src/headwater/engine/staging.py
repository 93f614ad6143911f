"""Answers that are kept for a while under a name, for the statements that follow.

An answer is written to files and read back. What follows then knows its size, and knows nothing of how it was computed:
a plan that holds the plans of all that it stands on, each as often as it is used, grows beyond all bounds. Changes of
single leaves are the exception. They stand on tables alone and are kept in memory, all of them by one job.

The files are in the lake, where every task can read them; they go when the name goes. What a killed process left is
removed when it is a day old: no step takes that long.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, TypeVar

from headwater.engine.failures import translated
from headwater.engine.files import bytes_in, old_directories_in, remove_directory
from headwater.sql.relations import COUNT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Key = TypeVar("Key", bound=Hashable)

_DAY = 86_400.0
# Types that no file can hold; answers with such columns are kept in memory.
_NO_FILE = re.compile(r"(?:^|[<:,])(?:void|interval)(?=[>,]|$)")


@dataclass(frozen=True, slots=True)
class StagedRows:
    """Changes that were computed and are kept; ``retracts``: some take rows away; ``place``: their files, if any."""

    name: str
    rows: int
    retracts: bool
    place: str | None = None

    def bytes(self) -> int | None:
        return None if self.place is None else bytes_in(self.place)


class Staging:
    """``session`` gives the session that computes; ``place`` is where the files go (None: all is kept in memory)."""

    def __init__(self, session: Callable[[], SparkSession], place: str | None) -> None:
        self._session = session
        self._place = place

    @contextmanager
    def changes(self, text: str) -> Iterator[StagedRows]:
        """Run a query for changes now and keep its answer."""
        with self._kept(text, changes=True) as (name, rows, negative):
            yield StagedRows(name, rows, negative > 0, None if self._place is None else f"{self._place}/{name}")

    @contextmanager
    def rows(self, text: str) -> Iterator[str]:
        """Run a query now and keep its answer."""
        with self._kept(text, changes=False) as (name, _, _):
            yield name

    @contextmanager
    def leaf_changes(self, texts: Mapping[Key, str]) -> Iterator[dict[Key, StagedRows]]:
        """Run several queries over tables alone, by one job; their answers by the same keys."""
        from pyspark.sql.functions import col, count, count_if, lit

        if not texts:
            yield {}
            return
        with ExitStack() as stack:
            kept = [stack.enter_context(self._in_memory(self._session().sql(text))) for text in texts.values()]
            counts = [
                frame.agg(lit(place).alias("place"), count(lit(1)), count_if(col(COUNT) < 0))
                for place, (_, frame) in enumerate(kept)
            ]
            with translated("computing changes"):
                found = reduce(lambda one, other: one.unionAll(other), counts).collect()  # one row for each
            keys = list(texts)
            yield {keys[row[0]]: StagedRows(kept[row[0]][0], row[1], row[2] > 0) for row in found}

    @contextmanager
    def _kept(self, text: str, *, changes: bool) -> Iterator[tuple[str, int, int]]:
        """A name, its rows, and how many of them have a negative count."""
        from pyspark.sql import Observation
        from pyspark.sql.functions import col, count, count_if, lit

        frame = self._session().sql(text)
        wanted = [count(lit(1)).alias("rows")] + ([count_if(col(COUNT) < 0).alias("negative")] if changes else [])
        if self._place is None or _NO_FILE.search(",".join(each.dataType.simpleString() for each in frame.schema)):
            with self._in_memory(frame) as (name, kept), translated("computing changes"):
                found = kept.agg(*wanted).collect()[0].asDict()  # one row
                yield name, found["rows"], found.get("negative", 0)
            return
        name, seen = f"__hw_staged_{uuid.uuid4().hex}", Observation()
        place = f"{self._place}/{name}"
        # Files take no names such as `c.name`, so columns are known by their places there.
        places = frame.observe(seen, *wanted).toDF(*(f"c{place}" for place in range(len(frame.columns))))
        try:
            with translated("computing changes"):
                places.write.parquet(place)
                read = self._session().read.schema(places.schema).parquet(place).toDF(*frame.columns)
                read.createOrReplaceTempView(name)
            counted = seen.get
            yield name, int(counted["rows"]), int(counted.get("negative", 0))
        finally:
            self._session().catalog.dropTempView(name)
            remove_directory(place)

    @contextmanager
    def _in_memory(self, frame: DataFrame) -> Iterator[tuple[str, DataFrame]]:
        name = f"__hw_staged_{uuid.uuid4().hex}"
        kept = frame.persist()
        try:
            kept.createOrReplaceTempView(name)
            yield name, kept
        finally:
            self._session().catalog.dropTempView(name)
            kept.unpersist()

    def sweep(self, now: float) -> None:
        """Remove what processes that were killed have left."""
        if self._place is not None:
            for name in old_directories_in(self._place, now - _DAY):
                remove_directory(f"{self._place}/{name}")
