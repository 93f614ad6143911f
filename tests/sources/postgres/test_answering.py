"""Rows of a table by keys, in one snapshot."""

from __future__ import annotations

from contextlib import closing
from datetime import date
from decimal import Decimal

import pytest

from headwater.sources.postgres import answering
from headwater.sources.postgres.answering import Answer, can_be_asked_by
from headwater.sources.postgres.connection import connect
from headwater.sources.postgres.tables import SourceTable
from tests.sources.postgres.conftest import Source


@pytest.fixture
def table(source: Source) -> SourceTable:
    source.run(
        'CREATE TABLE "O" (k int, "Na""me" text, n numeric(6,2), d date, u uuid, j jsonb)',
        """INSERT INTO "O" SELECT i, 'n''' || i % 3, i / 2.0, date '2024-01-01' + i % 4,
           ('00000000-0000-0000-0000-' || lpad((i % 5)::text, 12, '0'))::uuid, '{}' FROM generate_series(1, 20) AS i""",
        """INSERT INTO "O" VALUES (NULL, NULL, NULL, NULL, NULL, NULL), (1, 'n''1', 0.5, '2024-01-02', NULL, NULL)""",
    )
    return source.describe("public.O")[0]


def asked(source: Source, answer: Answer, columns: list[str], keys: list[tuple[object, ...]] | None) -> list[tuple]:
    with closing(connect(source.address)) as connection:
        return list(answer.rows(connection, source.name, columns, keys))


@pytest.mark.parametrize(
    ("columns", "keys", "expected"),
    [
        (["k"], [(1,), (7,), (99,), (None,)], [1, 1, 7]),
        (['Na"me'], [("n'1",), ("'; DROP TABLE x; --",)], [1, 1, 4, 7, 10, 13, 16, 19]),
        (["n"], [(Decimal("0.50"),), (Decimal(10),)], [1, 1, 20]),
        (["d", "k"], [(date(2024, 1, 2), 5), (None, 1)], [5]),
        (["u"], [("00000000-0000-0000-0000-000000000002",), ("no uuid",)], [2, 7, 12, 17]),
        (["k"], [], []),
    ],
)
def test_rows_by_keys(
    source: Source, table: SourceTable, columns: list[str], keys: list[tuple[object, ...]], expected: list[int]
) -> None:
    answer = Answer(table)
    assert sorted(row[0] for row in asked(source, answer, columns, keys)) == expected
    assert answer.shipped == len(expected)
    assert answer.snapshot is not None


def test_all_rows_and_many_keys_in_bounded_lists(
    source: Source, table: SourceTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(asked(source, Answer(table), [], None)) == 22
    monkeypatch.setattr(answering, "KEYS_A_QUERY", 3)
    answer = Answer(table)
    assert len(asked(source, answer, ["k"], [(k,) for k in range(1, 11)])) == 11
    assert answer.queries == 4


def test_all_lists_of_keys_see_one_snapshot(
    source: Source, table: SourceTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answering, "KEYS_A_QUERY", 1)
    answer = Answer(table)
    with closing(connect(source.address)) as connection:
        rows = answer.rows(connection, source.name, ["k"], [(k,) for k in (2, 3, 4)])
        found = [next(rows)]
        source.run('DELETE FROM "O"')
        found += rows
    assert sorted(row[0] for row in found) == [2, 3, 4]


def test_columns_whose_equality_differs_are_no_keys(table: SourceTable) -> None:
    assert [column.name for column in table.columns if can_be_asked_by(table, column.name)] == [
        "k",
        'Na"me',
        "n",
        "d",
        "u",
    ]
    assert not can_be_asked_by(table, "nowhere")
