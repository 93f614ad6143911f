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
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from headwater.algebra.grid import WHOLE_NUMBERS, Grid
from headwater.engine.failures import translated
from headwater.engine.files import bytes_in, old_directories_in, remove_directory
from headwater.sql.dialect import column, to_text
from headwater.sql.key_condition import cell_of
from headwater.sql.relations import COUNT

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

Key = TypeVar("Key", bound=Hashable)

Spread: TypeAlias = tuple[str, Grid]
"""A column of an answer, and the grid of which it is asked what cells its values lie in."""

Cells: TypeAlias = frozenset[int] | None
"""The cells; None where the column is of no whole numbers."""

_DAY = 86_400.0
# Types that no file can hold; answers with such columns are kept in memory.
_NO_FILE = re.compile(r"(?:^|[<:,])(?:void|interval)(?=[>,]|$)")


@dataclass(frozen=True, slots=True)
class StagedRows:
    """Changes that were computed and are kept; ``retracts``: some take rows away.

    ``cells`` answers, in their order, where the values of some columns lie; ``place``: their files, if any.
    """

    name: str
    rows: int
    retracts: bool
    cells: tuple[Cells, ...] = ()
    place: str | None = None

    def bytes(self) -> int | None:
        return None if self.place is None else bytes_in(self.place)


class Staging:
    """``session`` gives the session that computes; ``place`` is where the files go (None: all is kept in memory)."""

    def __init__(self, session: Callable[[], SparkSession], place: str | None) -> None:
        self._session = session
        self._place = place

    @contextmanager
    def changes(self, text: str, spreads: Sequence[Spread] = ()) -> Iterator[StagedRows]:
        """Run a query for changes now and keep its answer."""
        with self._kept(text, spreads, changes=True) as kept:
            yield kept

    @contextmanager
    def rows(self, text: str) -> Iterator[str]:
        """Run a query now and keep its answer."""
        with self._kept(text, (), changes=False) as kept:
            yield kept.name

    @contextmanager
    def leaf_changes(
        self, texts: Mapping[Key, str], spreads: Mapping[Key, Sequence[Spread]] | None = None, *, few: bool = False
    ) -> Iterator[dict[Key, StagedRows]]:
        """Run several queries over tables alone, by one job; their answers by the same keys.

        ``few``: each has so few rows that they are best kept in one part.
        """
        from pyspark.sql.functions import array, col, count, count_if, lit

        if not texts:
            yield {}
            return
        asked = [list((spreads or {}).get(key, ())) for key in texts]
        with ExitStack() as stack:
            frames = [self._session().sql(text) for text in texts.values()]
            # Every part costs a task, and a file, wherever the rows go from here.
            frames = [frame.coalesce(1) for frame in frames] if few else frames
            kept = [stack.enter_context(self._in_memory(frame)) for frame in frames]
            counts = [
                frame.agg(
                    lit(place).alias("place"),
                    count(lit(1)),
                    count_if(col(COUNT) < 0),
                    array(*_cells(frame, asked[place])).cast("array<array<bigint>>"),
                )
                for place, (_, frame) in enumerate(kept)
            ]
            with translated("computing changes"):
                found = reduce(lambda one, other: one.unionAll(other), counts).collect()  # one row for each
            keys = list(texts)
            yield {
                keys[place]: StagedRows(kept[place][0], rows, negative > 0, _found(kept[place][1], asked[place], cells))
                for place, rows, negative, cells in found
            }

    @contextmanager
    def _kept(self, text: str, spreads: Sequence[Spread], *, changes: bool) -> Iterator[StagedRows]:
        """An answer under a name, with its rows, whether some have a negative count, and where its values lie."""
        from pyspark.sql import Observation
        from pyspark.sql.functions import array, col, count, count_if, lit

        frame = self._session().sql(text)
        wanted = [count(lit(1)).alias("rows")]
        wanted += [count_if(col(COUNT) < 0).alias("negative")] if changes else []
        cells = _cells(frame, spreads)
        wanted += [array(*cells).alias("cells")] if cells else []

        def staged(name: str, counted: Mapping[str, Any], place: str | None) -> StagedRows:
            answer = _found(frame, spreads, counted.get("cells") or ())
            return StagedRows(name, int(counted["rows"]), int(counted.get("negative", 0)) > 0, answer, place)

        if self._place is None or _NO_FILE.search(",".join(each.dataType.simpleString() for each in frame.schema)):
            with self._in_memory(frame) as (name, kept), translated("computing changes"):
                found = kept.agg(*wanted).collect()[0].asDict()  # one row
                yield staged(name, found, None)
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
            yield staged(name, seen.get, place)
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


def _whole(frame: DataFrame, spreads: Sequence[Spread]) -> list[bool]:
    kinds = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
    return [kinds[name] in WHOLE_NUMBERS for name, _ in spreads]


def _cells(frame: DataFrame, spreads: Sequence[Spread]) -> list[Column]:
    """The cells that columns of whole numbers lie in."""
    from pyspark.sql.functions import collect_set, expr

    chosen = zip(spreads, _whole(frame, spreads), strict=True)
    return [collect_set(expr(to_text(cell_of(column(name), grid)))) for (name, grid), whole in chosen if whole]


def _found(frame: DataFrame, spreads: Sequence[Spread], cells: Sequence[Sequence[int]]) -> tuple[Cells, ...]:
    left = iter(cells)
    return tuple(frozenset(next(left)) if whole else None for whole in _whole(frame, spreads))
