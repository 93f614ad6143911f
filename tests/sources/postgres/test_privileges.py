"""The role of docs/postgres.md is enough, and its page is made from the code."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from headwater.errors import DatabaseNotReady
from headwater.sources.postgres.connection import FromFile, connect
from headwater.sources.postgres.description import describe
from headwater.sources.postgres.initial_copy import copying, take_fence
from headwater.sources.postgres.page import markdown
from headwater.sources.postgres.privileges import owner_statements, role_statements
from headwater.sources.postgres.publication import membership, prepare
from headwater.sources.postgres.slot import create_slot
from headwater.sources.postgres.tables import TableName
from tests.sources.postgres.conftest import PUBLICATION, Source

ROOT = Path(__file__).parents[3]


def test_the_page_is_made_from_the_code() -> None:
    assert (ROOT / "docs" / "postgres.md").read_text() == markdown()


def test_a_role_that_owns_nothing_can_do_everything(source: Source, tmp_path: Path) -> None:
    secret = "only-in-a-file"  # noqa: S105  that is the point
    role, names = f"{source.slot} reader", [TableName("public", "orders"), TableName("Other", "items")]
    source.run('CREATE SCHEMA "Other"', "CREATE TABLE public.orders (id int)", 'CREATE TABLE "Other".items (id int)')
    source.run(*role_statements(role, source.address.database, names), *owner_statements(PUBLICATION, names))
    source.run(f"ALTER ROLE \"{role}\" PASSWORD '{secret}'", "INSERT INTO public.orders VALUES (1)")
    (tmp_path / "secret").write_text(secret)
    owner = source.address
    source.address = replace(owner, user=role, password=FromFile(str(tmp_path / "secret")))
    try:
        with closing(source.connect()) as connection:
            assert secret not in f"{connection} {connection.info.dsn}"
            source.tables = [describe(connection, name) for name in names]
            assert prepare(connection, PUBLICATION, source.tables) == ()
            joined = membership(connection, PUBLICATION, source.tables, source.name)
            source.position = create_slot(connection, source.slot, source.name)
            with copying(connection, take_fence(connection, source.name), database=source.name) as copy:
                assert Counter(copy.rows(source.tables[0])) == Counter([(1,)])
            source.run('INSERT INTO "Other".items VALUES (2)')
            reader = source.reader(joined)
            assert reader.problems() == ()
            assert [len(changes) for _, changes in source.drain(reader)] == [1]
            reader.confirm(source.position)
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute("INSERT INTO public.orders VALUES (3)")
    finally:
        source.address = owner


def test_a_role_without_replication_is_told_what_it_lacks(source: Source) -> None:
    role = f"{source.slot}_plain"
    source.run(f"CREATE ROLE {role} LOGIN")
    with (
        closing(connect(replace(source.address, user=role))) as connection,
        pytest.raises(DatabaseNotReady, match=r"privilege.*docs/postgres\.md"),
    ):
        create_slot(connection, source.slot, source.name)


def test_a_server_that_does_not_speak_tls_is_refused_when_it_must(source: Source) -> None:
    with pytest.raises(DatabaseNotReady, match="SSL"):
        connect(replace(source.address, tls=replace(source.address.tls, mode="require")))
