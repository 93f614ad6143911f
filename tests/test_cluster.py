"""The same statements on a standalone cluster and through Spark Connect."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cluster import ConnectServer, StandaloneCluster


@pytest.mark.cluster
def test_delta_on_a_standalone_cluster(standalone_cluster: StandaloneCluster, tmp_path: Path) -> None:
    standalone_cluster.run("tests.support.smoke:delta_round_trip", tmp_path)


@pytest.mark.connect
def test_delta_through_spark_connect(connect_server: ConnectServer, tmp_path: Path) -> None:
    connect_server.run("tests.support.smoke:delta_round_trip", tmp_path)
