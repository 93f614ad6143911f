"""Random texts are read as Spark reads them; ``make fuzz`` goes on with others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.fuzz.readings import Readings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEEDS = range(40)


def test_random_texts_are_read_as_spark_reads_them(spark: SparkSession) -> None:
    readings = Readings(spark)
    for seed in SEEDS:
        readings.run(seed)
    assert not readings.failures, "\n".join(readings.failures)
    assert readings.texts - sum(readings.refused.values()) > len(SEEDS) / 2, readings.refused
