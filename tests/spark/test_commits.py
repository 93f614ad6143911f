"""Tagged writes: once, whoever makes them."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headwater.engine.spark import CommitTag, SparkEngine, Written

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("kind", ["append", "merge"])
def test_a_statement_that_outlives_its_driver_does_not_fail_the_next(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    """The same step written by two at once: one commit, both go on, and both know of it."""
    place = str(tmp_path / "table")
    spark.range(5).write.format("delta").save(place)
    tag = CommitTag("headwater:test", 7, {"step": 7})
    together = threading.Barrier(2)
    merge = (
        f"MERGE INTO delta.`{place}` t USING (SELECT id FROM range(3, 9)) s ON t.id = s.id "
        "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *"
    )

    def write(_: int) -> Written | None:
        engine = SparkEngine(lambda: spark)
        frame = engine.compute("SELECT id FROM range(10, 12)")
        together.wait()
        return (
            engine.append(frame, place, tag, "appending") if kind == "append" else engine.merge(merge, tag, "merging")
        )

    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(write, range(2)))
    assert [each.version for each in found if each is not None] in ([1], [1, 1])
    assert [tag.is_on(commit) for commit in SparkEngine(lambda: spark).history(place)] == [True, False]
    expected = [*range(5), 10, 11] if kind == "append" else [0, 1, 2, *range(5, 9)]
    assert sorted(row.id for row in spark.read.format("delta").load(place).collect()) == expected
