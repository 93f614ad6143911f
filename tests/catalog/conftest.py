"""The contract of the catalog is one suite, run over SQLite and over a real PostgreSQL server."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest
from tests.postgres_server import PostgresServer, running_postgres

from headwater.catalog import Catalog, open_catalog

_schemas = itertools.count(1)


@dataclass
class TickingClock:
    """A microsecond later at every look; moved by hand."""

    now: int = 1_700_000_000_000_000

    def __call__(self) -> int:
        self.now += 1
        return self.now


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    with running_postgres() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'catalog.db'}"
    server: PostgresServer = request.getfixturevalue("postgres")
    schema = f"t{next(_schemas)}"
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
    return f"{server.url()}?options={quote(f'-csearch_path={schema}')}"


@pytest.fixture
def clock() -> TickingClock:
    return TickingClock()


@pytest.fixture
def opened(url: str, clock: TickingClock) -> Iterator[Callable[[], Catalog]]:
    """Opens the test's catalog once more, as another process would."""
    made: list[Catalog] = []

    def again() -> Catalog:
        made.append(open_catalog(url, clock=clock, create=True))
        return made[-1]

    yield again
    for catalog in made:
        catalog.close()


@pytest.fixture
def catalog(opened: Callable[[], Catalog]) -> Catalog:
    return opened()
