"""A lake in memory with one view."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.serve.fake_lake import FakeLake, HandClock


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[FakeLake]:
    made = FakeLake(tmp_path, HandClock())
    made.create("v")
    yield made
    made.catalog.close()
