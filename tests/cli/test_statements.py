"""Semicolons part statements only where SQL says so."""

from __future__ import annotations

import pytest

from headwater.cli.statements import split
from headwater.errors import SqlSyntaxError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" ;; ", []),
        ("SELECT 1", ["SELECT 1"]),
        ("SELECT 1;", ["SELECT 1"]),
        ("SELECT ';' AS a; SELECT \"x;y\"", ["SELECT ';' AS a", 'SELECT "x;y"']),
        ("SELECT 1 AS `a;b`; SELECT 2", ["SELECT 1 AS `a;b`", "SELECT 2"]),
        ("SELECT 'it\\'s;'; SELECT 2", ["SELECT 'it\\'s;'", "SELECT 2"]),
        ("SELECT 1 /* ; */; SELECT 2", ["SELECT 1 /* ; */", "SELECT 2"]),
        ("SELECT 1 -- ; not here\n; SELECT 2", ["SELECT 1 -- ; not here", "SELECT 2"]),
    ],
)
def test_split(text: str, expected: list[str]) -> None:
    assert [statement.strip() for statement in split(text)] == expected


def test_a_statement_keeps_its_place_in_the_text() -> None:
    second = split("SELECT 1;\nSELECT 2; SELECT\n  3")[2]
    assert second.splitlines() == ["", " " * 9 + " SELECT", "  3"]


def test_an_open_quote_is_refused() -> None:
    with pytest.raises(SqlSyntaxError):
        split("SELECT 'never ends; SELECT 2")
