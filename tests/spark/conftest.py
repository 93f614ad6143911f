"""A world per test: an empty folder, a lake in it, and the oracle."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.oracle import World

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def make_world(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., World]]:
    import headwater

    made: list[World] = []

    def make(name: str = "world", **options: Any) -> World:
        folder: Path = tmp_path_factory.mktemp(name)
        made.append(World(spark, headwater.connect(folder / "lake", spark=spark, **options), folder))
        return made[-1]

    yield make
    for world in made:
        world.lake.close()
