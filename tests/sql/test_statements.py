"""The head of a statement: what it says, and where it goes wrong."""

from __future__ import annotations

import pytest

from headwater.errors import SqlSyntaxError
from headwater.sql.statements import (
    CreateView,
    DropView,
    ExplainView,
    RefreshView,
    SelectQuery,
    ShowViews,
    parse_statement,
)


def test_create_with_everything() -> None:
    found = parse_statement(
        "create materialized view if not exists v\n"
        "  CLUSTER BY (a, `b c`)\n"
        "  OPTIONS ('width.x' = '1 csn', width.Y='5 rows', method = 'rolling', n = 3)\n"
        "AS\n  SELECT a AS `as` FROM t -- AS\n;\n"
    )
    assert isinstance(found, CreateView)
    assert found.name == "v"
    assert found.if_not_exists
    assert found.cluster_by == ("a", "b c")
    assert dict(found.options) == {"width.x": "1 csn", "width.y": "5 rows", "method": "rolling", "n": "3"}
    assert found.query.startswith("SELECT a AS `as` FROM t")
    assert found.positioned_query.splitlines()[4].startswith("  SELECT")
    assert len(found.positioned_query.splitlines()) == 5
    assert not found.positioned_query.replace(found.query, "").strip()


def test_the_query_stays_word_for_word() -> None:
    query = "SELECT 'it''s; -- no', \"x\" /* c */, r'\\n'\n\tFROM t"
    found = parse_statement(f"CREATE MATERIALIZED VIEW v AS {query}")
    assert isinstance(found, CreateView)
    assert found.query == query


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("REFRESH MATERIALIZED VIEW v", RefreshView("v")),
        ("refresh materialized view `v` to csn 12;", RefreshView("v", csn=12)),
        ("REFRESH MATERIALIZED VIEW v TO TIMESTAMP '2026-01-01'", RefreshView("v", timestamp="2026-01-01")),
        ("DROP MATERIALIZED VIEW IF EXISTS v", DropView("v", if_exists=True)),
        ("DROP MATERIALIZED VIEW v;;", DropView("v")),
        ("SHOW MATERIALIZED VIEWS", ShowViews()),
        ("-- what is it?\nEXPLAIN MATERIALIZED VIEW v", ExplainView("v")),
        ("SELECT 1;", SelectQuery("SELECT 1")),
        ("WITH x AS (SELECT 1) SELECT * FROM x", SelectQuery("WITH x AS (SELECT 1) SELECT * FROM x")),
        ("(SELECT 1)", SelectQuery("(SELECT 1)")),
    ],
)
def test_statement(text: str, value: object) -> None:
    assert parse_statement(text) == value


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("CREATE TABLE t (a INT)", 1, 8),
        ("CREATE MATERIALIZED\nTABLE v AS SELECT 1", 1, 8),
        ("CREATE MATERIALIZED VIEW v\nWITH (x = 1) AS SELECT 1", 2, 1),
        ("CREATE MATERIALIZED VIEW v OPTIONS (a = b) AS SELECT 1", 1, 41),
        ("CREATE MATERIALIZED VIEW v OPTIONS (a = '1'\n  b = '2') AS SELECT 1", 2, 3),
        ("CREATE MATERIALIZED VIEW 'v' AS SELECT 1", 1, 26),
        ("CREATE MATERIALIZED VIEW s.v AS SELECT 1", 1, None),
        ("REFRESH MATERIALIZED VIEW v TO CSN 1.5", 1, 36),
        ("REFRESH MATERIALIZED VIEW v TO CSN", None, None),
        ("REFRESH MATERIALIZED VIEW v TO TIMESTAMP 12", 1, 42),
        ("DROP MATERIALIZED VIEW v, w", 1, 25),
        ("VACUUM t", 1, 1),
        ("CREATE MATERIALIZED VIEW v AS", None, None),
        (";", None, None),
        ("-- nothing", None, None),
    ],
)
def test_mistake(text: str, line: int | None, column: int | None) -> None:
    with pytest.raises(SqlSyntaxError) as caught:
        parse_statement(text)
    assert caught.value.code == "SQL_SYNTAX"
    if line is not None:
        assert caught.value.line == line
    if column is not None:
        assert caught.value.column == column


@pytest.mark.parametrize("text", ["SELECT 'open", "SELECT `open", "SELECT /* open"])
def test_open_quotes_and_comments(text: str) -> None:
    with pytest.raises(SqlSyntaxError):
        parse_statement(f"CREATE MATERIALIZED VIEW v AS {text}")
