"""One Spark session for the whole run: starting one takes longer than most tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.support.cluster import ConnectServer, StandaloneCluster

# The jars live in the project's own cache, also for a bare `pytest`.
os.environ.setdefault("HEADWATER_CACHE", str(Path(__file__).resolve().parent.parent / ".cache"))

# `make test` must give the same answer twice; `make fuzz` looks for new examples.
settings.register_profile(
    "ci", derandomize=True, database=None, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("fuzz", deadline=None, max_examples=2000, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

# By `make test-all`: each of these needs minutes of Spark.
HEAVY = (
    "crash/",
    "drivers/",
    "service/test_process.py",
    "spark/test_bad_input.py",
    "spark/test_capture.py",
    "spark/test_collecting.py",
    "spark/test_constructs.py",
    "spark/test_failing_rows.py",
    "spark/test_mirrors.py",
    "spark/test_moments.py",
    "spark/test_own_rows.py",
    "spark/test_query_mode.py",
    "spark/test_readings.py",
    "spark/test_readers.py",
    "spark/test_sql_front_end.py",
    "spark/test_stepping.py",
    "spark/test_timeline.py",
    "test_cluster.py",
)


# `make test` runs these and all others side by side, in processes of their own: each has one Spark session.
ON_SPARK = ("cli/", "crash/", "drivers/", "fuzz/", "spark/", "test_cluster.py", "test_session.py", "tpch/")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What uses Spark, and what needs minutes of it, is marked by where it lies."""
    here = Path(__file__).parent
    for item in items:
        place = item.path.relative_to(here).as_posix()
        if place.startswith(HEAVY):
            item.add_marker(pytest.mark.heavy)
        if place.startswith(ON_SPARK) or "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.on_spark)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    from headwater.engine.session import TINY_DATA, local_session

    session = local_session(
        "headwater-tests",
        master="local[2]",
        memory="3g",
        # Never for benchmarks.
        extra=TINY_DATA
        | {
            "spark.sql.shuffle.partitions": "2",
            "spark.driver.extraJavaOptions": "-XX:+UseSerialGC",
            "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        },
    )
    yield session
    session.stop()


@pytest.fixture
def lake_dir(tmp_path: Path) -> Path:
    """Where a test's lake goes; it does not exist yet."""
    return tmp_path / "lake"


@pytest.fixture(scope="session")
def standalone_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    from tests.support.cluster import standalone_cluster

    with standalone_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def connect_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    from tests.support.cluster import connect_server

    with connect_server(tmp_path_factory.mktemp("connect")) as server:
        yield server
