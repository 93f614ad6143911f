from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.cluster import ConnectServer
from tests.support.world import World, world


@pytest.fixture(scope="module")
def lake(connect_server: ConnectServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(connect_server.url, tmp_path_factory.mktemp("drivers")) as made:
        yield made
