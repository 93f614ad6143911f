"""The judge: Spark's own answer to a view's SQL over the same versions of the tables.

It shares nothing with the code that keeps the views. The answer is written to a fresh Delta table, which is what
one would do without Headwater, and that is the time it is compared by.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from headwater.demo.views import DemoView
from headwater.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_COUNT = "__count"


@dataclass(frozen=True, slots=True)
class Recomputed:
    answer: DataFrame
    seconds: float


def recompute(lake: Lake, view: DemoView, csn: int, place: Path) -> Recomputed:
    """Run the view's SQL over the tables as they were at a csn, into a fresh Delta table."""
    if place.exists():
        shutil.rmtree(place)
    for table in view.tables:
        lake.read(table, at=csn).createOrReplaceTempView(table)
    try:
        started = time.monotonic()
        lake.spark.sql(view.text).write.format("delta").save(str(place))
        seconds = time.monotonic() - started
    finally:
        for table in view.tables:
            lake.spark.catalog.dropTempView(table)
    return Recomputed(lake.spark.read.format("delta").load(str(place)), seconds)


def compare(actual: DataFrame, expected: DataFrame) -> tuple[int, int, int]:
    """Rows of ``actual``, and how many of them are too many and how many are missing, as bags.

    Every row of ``actual`` counts +1 and of ``expected`` -1; where equal rows do not sum to zero, the bags differ.
    Grouping takes NULL as equal to NULL, as bags want it.
    """
    shapes = [[(f.name, f.dataType.simpleString()) for f in frame.schema.fields] for frame in (actual, expected)]
    if shapes[0] != shapes[1]:
        return actual.count(), actual.count(), expected.count()
    names = actual.columns
    mine, theirs = sf.lit(1).alias(_COUNT), sf.lit(-1).alias(_COUNT)
    signed = actual.select("*", mine, sf.lit(1).alias("__rows")).unionAll(
        expected.select("*", theirs, sf.lit(0).alias("__rows"))
    )
    by_row = signed.groupBy(*names).agg(sf.sum(_COUNT).alias(_COUNT), sf.sum("__rows").alias("__rows"))
    total = by_row.agg(
        sf.coalesce(sf.sum("__rows"), sf.lit(0)),
        sf.coalesce(sf.sum(sf.greatest(sf.col(_COUNT), sf.lit(0))), sf.lit(0)),
        sf.coalesce(sf.sum(sf.greatest(-sf.col(_COUNT), sf.lit(0))), sf.lit(0)),
    ).collect()[0]  # one row
    return int(total[0]), int(total[1]), int(total[2])
