"""A query at one csn: which names it may read, and what they are bound to."""

from __future__ import annotations

import pytest
import sqlglot
from sqlglot import exp

from headwater.algebra.time import Csn
from headwater.errors import InternalError, SqlAnalysisError, SqlSyntaxError
from headwater.sql.dialect import to_text
from headwater.sql.pinned import PinnedTable, PinnedTimeline, PinnedView, names_read, pinned_relation
from headwater.sql.storage import over_relations

KNOWN = ["Orders", "totals"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("SELECT 1", []),
        ("SELECT * FROM orders o JOIN TOTALS t USING (k)", ["Orders", "totals"]),
        ("FROM totals SELECT a", ["totals"]),
        ("(SELECT a FROM totals) UNION ALL (SELECT a FROM totals)", ["totals"]),
        ("SELECT (SELECT max(a) FROM orders) FROM totals WHERE EXISTS (SELECT * FROM orders)", ["totals", "Orders"]),
        ("SELECT * FROM totals LATERAL VIEW explode(xs) q AS x", ["totals"]),
        (
            "SELECT * FROM totals, LATERAL (SELECT * FROM orders) q, range(3) r, VALUES (1) AS z(a)",
            ["totals", "Orders"],
        ),
        ("SELECT * FROM totals TABLESAMPLE (10 PERCENT)", ["totals"]),
        ("WITH x AS (SELECT * FROM totals), y AS (SELECT * FROM X) SELECT * FROM y", ["totals"]),
        ("WITH totals AS (SELECT 1 AS a) SELECT * FROM totals", []),
        ("WITH totals AS (SELECT * FROM totals) SELECT * FROM totals", ["totals"]),
        ("WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 3) SELECT * FROM n", []),
        ("SELECT * FROM totals WHERE EXISTS (WITH totals AS (SELECT 1) SELECT * FROM totals)", ["totals"]),
    ],
)
def test_names_that_a_query_reads(text: str, names: list[str]) -> None:
    assert sorted(names_read(text, KNOWN)) == sorted(names)


@pytest.mark.parametrize(
    ("text", "line", "column", "part"),
    [
        ("SELECT *\nFROM totals JOIN other x", 2, 18, "other is no view and no tracked table of this lake"),
        ("SELECT * FROM db.totals", 1, 15, "db.totals is not a name of this lake"),
        ("SELECT * FROM delta.`/lake/totals`", 1, 15, "is not a name of this lake"),
        ("SELECT * FROM totals VERSION AS OF 3", 1, 15, "totals asks for a moment of its own"),
        ("SELECT * FROM totals TIMESTAMP AS OF '2026-01-01'", 1, 15, "totals asks for a moment of its own"),
        ("SELECT * FROM table_changes('totals', 1)", 1, 15, "may read what is not of the snapshot's moment"),
        ("SELECT * FROM IDENTIFIER('totals')", 1, 15, "may read what is not of the snapshot's moment"),
        ("WITH x AS (WITH y AS (SELECT 1) SELECT * FROM y) SELECT * FROM y", 1, 64, "y is no view"),
        ("WITH x AS (SELECT * FROM y), y AS (SELECT 1) SELECT * FROM x", 1, 26, "y is no view"),
    ],
)
def test_a_query_that_could_read_another_moment_is_refused_at_its_place(
    text: str, line: int, column: int, part: str
) -> None:
    with pytest.raises(SqlAnalysisError) as caught:
        names_read(text, KNOWN)
    assert part in caught.value.message
    assert (caught.value.line, caught.value.column) == (line, column)
    assert caught.value.remedy


def test_an_unknown_name_is_told_the_known_ones() -> None:
    with pytest.raises(SqlAnalysisError, match=r"Known: Orders, totals\.$"):
        names_read("SELECT * FROM total", KNOWN)


@pytest.mark.parametrize("text", ["DELETE FROM totals", "SELECT 1; SELECT 2", "SELECT FROM WHERE"])
def test_what_is_no_query_is_refused(text: str) -> None:
    with pytest.raises(SqlSyntaxError):
        names_read(text, KNOWN)


def reads(relation: exp.Query) -> set[str]:
    """Each table with its version; one without would be read as it is when the query runs."""
    tables = sqlglot.parse_one(to_text(relation), read="spark").find_all(exp.Table)
    return {f"{t.name}@{t.args['version'].expression.name if t.args.get('version') else 'now'}" for t in tables}


def test_a_table_is_its_version() -> None:
    assert to_text(pinned_relation(PinnedTable("/r", 4))) == "SELECT * FROM delta.`/r` VERSION AS OF 4"


def test_a_view_at_a_release_is_one_version_of_its_table() -> None:
    relation = pinned_relation(PinnedView("/v", 4, ("a", "b"), Csn(7), Csn(7), "/d"))
    assert reads(relation) == {"/v@4"}
    assert relation.named_selects == ["a", "b"]


def test_a_view_between_releases_is_the_release_after_less_the_view_delta_both_pinned() -> None:
    relation = pinned_relation(PinnedView("/v", 4, ("a",), Csn(9), Csn(7), "/d", 12))
    assert reads(relation) == {"/v@4", "/d@12"}
    assert "-SUM(`__hw_count`)" in to_text(relation)
    assert "`__hw_csn` > 7 AND `__hw_csn` <= 9" in to_text(relation)
    with pytest.raises(InternalError, match="not pinned"):
        PinnedView("/v", 4, ("a",), Csn(9), Csn(7), "/d")


def test_a_timeline_is_one_version_and_one_predicate() -> None:
    relation = pinned_relation(PinnedTimeline("/v", 4, ("a",), Csn(7)))
    assert reads(relation) == {"/v@4"}
    assert "`__hw_t_min` <= 7 AND (`__hw_t_max` > 7 OR `__hw_t_max` IS NULL)" in to_text(relation)


def test_the_text_of_the_user_stays_word_for_word() -> None:
    text = "SELECT log(x), 'it''s' -- all\nFROM Totals /* here */"
    bound = over_relations(text, {name: pinned_relation(PinnedTable("/v", 4)) for name in names_read(text, KNOWN)})
    assert f"\n{text}\n" in bound
    assert bound.startswith("WITH `totals` AS (SELECT * FROM delta.`/v` VERSION AS OF 4)")
