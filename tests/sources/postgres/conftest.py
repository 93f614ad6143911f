"""One real PostgreSQL server for these tests, a database of its own for each."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field

import psycopg
import pytest

from headwater.sources.postgres.changes import Change
from headwater.sources.postgres.connection import Address, Connection, Retry, connect
from headwater.sources.postgres.description import describe
from headwater.sources.postgres.positions import LOG_START, Lsn
from headwater.sources.postgres.publication import Membership, membership, prepare
from headwater.sources.postgres.slot import MESSAGES_A_BATCH, SlotReader, create_slot, drop_slot
from headwater.sources.postgres.spool import Transaction
from headwater.sources.postgres.tables import SourceTable, TableName
from tests.postgres_server import PostgresServer, running_postgres

_names = itertools.count(1)
PUBLICATION = 'Head"water'


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    # Segments of 16 MB that are switched often would otherwise make for many checkpoints.
    with running_postgres({"max_replication_slots": "40", "max_wal_senders": "4"}) as server:
        yield server


@dataclass
class Source:
    """A database with what a lake would have set up in it."""

    address: Address
    slot: str
    owner: psycopg.Connection
    """Of its own application: nothing of ours."""
    position: Lsn = LOG_START
    tables: list[SourceTable] = field(default_factory=list)
    opened: list[Connection] = field(default_factory=list)

    @property
    def name(self) -> str:
        return str(self.address)

    def run(self, *statements: str) -> None:
        """In one transaction."""
        with self.owner.transaction():
            for statement in statements:
                self.owner.execute(statement)

    def connect(self) -> Connection:
        self.opened.append(connect(self.address))
        return self.opened[-1]

    def describe(self, *names: str, types: dict[str, str] | None = None) -> list[SourceTable]:
        with closing(connect(self.address)) as connection:
            return [describe(connection, TableName(*name.split(".")), types=types) for name in names]

    def follow(self, *names: str, types: dict[str, str] | None = None) -> Membership:
        """Publication and slot over these tables."""
        tables = self.describe(*names, types=types)
        with closing(connect(self.address)) as connection:
            prepare(connection, PUBLICATION, tables)
            joined = membership(connection, PUBLICATION, tables, self.name)
            if not self.position:
                self.position = create_slot(connection, self.slot, self.name)
        self.tables = self.describe(*names, types=types)
        return joined

    def reader(self, joined: Membership, **options: object) -> SlotReader:
        settings = {"retry": Retry(attempts=1), **options}
        return SlotReader(self.connect, self.slot, joined, self.tables, database=self.name, **settings)  # type: ignore[arg-type]

    def drain(
        self, reader: SlotReader, most_messages: int = MESSAGES_A_BATCH
    ) -> list[tuple[Transaction, list[Change]]]:
        """Everything that is there, the position moved on as if it had been stored."""
        found = []
        while True:
            with closing(reader.read(self.position, most_messages)) as batch:
                found += [(transaction, list(transaction.changes())) for transaction in batch.transactions]
                self.position = batch.position
                if batch.complete:
                    return found


@pytest.fixture
def source(postgres: PostgresServer) -> Iterator[Source]:
    name = f"source_{next(_names)}"
    url = postgres.create_database(name)
    with psycopg.connect(url, autocommit=True) as owner:
        # The test server does not flush what it commits, and only what is flushed can be read.
        owner.execute("SET synchronous_commit = on")
        made = Source(Address.parse(url), name, owner)
        yield made
        for connection in made.opened:
            connection.close()
        drop_slot(connect(made.address), name, name)
