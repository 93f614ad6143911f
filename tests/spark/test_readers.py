"""Readers in processes of their own beside writers, releases and garbage collection: they agree, and nobody fails."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("duckdb")

from headwater.bench.mauve import serving

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def check(found: dict[str, Any]) -> None:
    assert found["first_problems"] == []
    assert (found["violations"], found["errors"]) == (0, 0)
    assert found["beside"]["snapshots"] > 0
    assert found["beside"]["releases_seen"] > 1
    assert min(found["maintenance"].values()) > 0


def test_readers_for_a_short_while(spark: SparkSession) -> None:
    check(serving.measure(spark, 0.001, minutes=0.5, readers=4, progress=lambda _: None))


@pytest.mark.soak
def test_eight_readers_for_five_minutes(spark: SparkSession) -> None:
    check(serving.measure(spark, 0.01, minutes=5, readers=8, progress=print))
