"""Headwater from end to end on a standalone cluster and through Spark Connect: the same scenario, word for word."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cluster import ConnectServer, StandaloneCluster


@pytest.mark.cluster
def test_end_to_end_on_a_standalone_cluster(standalone_cluster: StandaloneCluster, tmp_path: Path) -> None:
    standalone_cluster.run("tests.support.scenario:end_to_end", tmp_path)


@pytest.mark.connect
def test_end_to_end_through_spark_connect(connect_server: ConnectServer, tmp_path: Path) -> None:
    connect_server.run("tests.support.scenario:end_to_end", tmp_path)
