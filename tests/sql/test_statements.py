"""The heads of Headwater's statements."""

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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("REFRESH MATERIALIZED VIEW v", RefreshView("v")),
        ("refresh materialized view v to csn 12;", RefreshView("v", csn=12)),
        (
            "REFRESH MATERIALIZED VIEW v TO TIMESTAMP '2026-01-31 17:00:00'",
            RefreshView("v", None, "2026-01-31 17:00:00"),
        ),
        ("DROP MATERIALIZED VIEW IF EXISTS `v`", DropView("v", if_exists=True)),
        ("SHOW MATERIALIZED VIEWS", ShowViews()),
        ("EXPLAIN MATERIALIZED VIEW v", ExplainView("v")),
        ("SELECT 1", SelectQuery("SELECT 1")),
        ("WITH a AS (SELECT 1) SELECT * FROM a ;", SelectQuery("WITH a AS (SELECT 1) SELECT * FROM a")),
    ],
)
def test_a_statement_is_read(text, expected):
    assert parse_statement(text) == expected


def test_the_query_of_a_view_stays_the_users_own_text():
    query = "select  a , -- why\n 'it''s' AS b\nFROM t"
    statement = parse_statement(
        f"create materialized view if not exists v cluster by (a, b)\n options (width.t = '5 csn') as {query};"
    )
    assert isinstance(statement, CreateView)
    assert statement.query == query
    assert statement.name == "v"
    assert statement.if_not_exists
    assert statement.cluster_by == ("a", "b")
    assert statement.options == {"width.t": "5 csn"}


def test_positions_in_the_query_count_in_the_whole_statement():
    statement = parse_statement("CREATE MATERIALIZED VIEW v\nAS SELECT a FROM t")
    assert isinstance(statement, CreateView)
    assert statement.positioned_query.splitlines()[1].index("SELECT") == 3


@pytest.mark.parametrize(
    ("text", "line", "column", "wanted"),
    [
        ("CREATE VIEW v AS SELECT 1", 1, 8, "MATERIALIZED VIEW"),
        ("CREATE MATERIALIZED VIEW a.b AS SELECT 1", 1, 27, "plain name"),
        ("CREATE MATERIALIZED VIEW v\nOPTION (a='b') AS SELECT 1", 2, 1, "OPTIONS"),
        ("CREATE MATERIALIZED VIEW v OPTIONS (a=b) AS SELECT 1", 1, 39, "value in quotes"),
        ("CREATE MATERIALIZED VIEW v OPTIONS (a='1', a='2') AS SELECT 1", 1, 44, "once"),
        ("REFRESH MATERIALIZED VIEW v TO CSN -1", 1, 36, "csn"),
        ("REFRESH MATERIALIZED VIEW v TO TIMESTAMP 5", 1, 42, "timestamp"),
        ("REFRESH MATERIALIZED VIEW v now", 1, 29, "end of the statement"),
        ("DROP TABLE t", 1, 6, "MATERIALIZED VIEW"),
        ("INSERT INTO t VALUES (1)", 1, 1, "query"),
    ],
)
def test_a_wrong_head_is_refused_with_its_place(text, line, column, wanted):
    with pytest.raises(SqlSyntaxError) as caught:
        parse_statement(text)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert wanted in str(caught.value)


@pytest.mark.parametrize("text", ["", "  ;", "CREATE MATERIALIZED VIEW v AS", "REFRESH MATERIALIZED VIEW"])
def test_an_unfinished_statement_is_refused(text):
    with pytest.raises(SqlSyntaxError):
        parse_statement(text)
