"""A catalog with two tables and the views of ``worlds``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.catalog import Catalog, Lease, open_catalog
from tests.service.worlds import populate


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with open_catalog(f"sqlite:///{tmp_path}/catalog.db", clock=lambda: 1_000_000, create=True) as opened:
        yield opened


@pytest.fixture
def lease(catalog: Catalog) -> Iterator[Lease]:
    with catalog.lease("all") as lease:
        populate(catalog, lease)
        yield lease
