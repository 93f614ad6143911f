"""From text to plan: titled fixtures, and what must be refused before Spark is asked."""

from __future__ import annotations

import pytest

from headwater.algebra.nodes import Aggregate, Match, all_expressions
from headwater.algebra.plan import Join, Plan, Project, scans
from headwater.errors import SqlAnalysisError, UnsupportedSql
from headwater.explain import _tree
from headwater.sql.constructs import REFUSED
from headwater.sql.dialect import to_text
from headwater.sql.lower import lower
from tests.spark.constructs import TABLES as KEPT_TABLES
from tests.spark.constructs import VIEWS as KEPT_VIEWS

TABLES = {"r": ("k", "v"), "s": ("k", "w"), "p": ("k", "st"), "Mixed": ("Id", "Name")}


def plan(text: str) -> Plan:
    return lower(text, TABLES, functions=None).plan


def tree(text: str) -> list[str]:
    return list(_tree(plan(text), {}))


FIXTURES: dict[str, tuple[str, list[str]]] = {
    "a filter": (
        "SELECT v FROM r WHERE k > 1 AND v < 3",
        ["Project `r.v`", "  Filter `r.v` < 3", "    Filter `r.k` > 1", "      Scan r as r (k, v)"],
    ),
    "subqueries are inlined, the inner condition first": (
        "SELECT x.z FROM (SELECT k + 1 AS z FROM r WHERE k <> 0) x WHERE 10 / x.z > 1",
        [
            "Project (`r.k` + 1)",
            "  Filter 10 / (`r.k` + 1) > 1",
            "    Filter `r.k` <> 0",
            "      Scan r as r (k)",
        ],
    ),
    "a join keeps only the columns in use": (
        "SELECT r.v FROM r JOIN s ON r.k = s.k",
        ["Project `r.v`", "  Join on `r.k` = `s.k`", "    Scan r as r (k, v)", "    Scan s as s (k)"],
    ),
    "a comma is a join, and joins of joins are one": (
        "SELECT a.v FROM r a, (SELECT b.k FROM r b JOIN s ON b.k = s.k) x WHERE a.k = x.k",
        [
            "Project `a.v`",
            "  Join on `b.k` = `s.k` AND `a.k` = `b.k`",
            "    Scan r as a (k, v)",
            "    Scan r as b (k)",
            "    Scan s as s (k)",
        ],
    ),
    "USING gives the left side's column": (
        "SELECT k, w FROM r JOIN s USING (k)",
        ["Project `r.k`, `s.w`", "  Join on `r.k` = `s.k`", "    Scan r as r (k)", "    Scan s as s (k, w)"],
    ),
    "a CTE used twice is two sets of leaves": (
        "WITH c AS (SELECT k FROM r) SELECT a.k FROM c a JOIN c b ON a.k < b.k",
        ["Project `r.k`", "  Join on `r.k` < `r#2.k`", "    Scan r as r (k)", "    Scan r as r#2 (k)"],
    ),
    "a union below a join": (
        "SELECT u.k, w FROM (SELECT k FROM r UNION ALL SELECT v FROM r b) u JOIN s ON u.k = s.k",
        [
            "Project `union1.0`, `s.w`",
            "  Join on `union1.0` = `s.k`",
            "    Union all",
            "      Project `r.k`",
            "        Scan r as r (k)",
            "      Project `b.v`",
            "        Scan r as b (v)",
            "    Scan s as s (k, w)",
        ],
    ),
    "names compare without case, and tables keep theirs": (
        "SELECT ID, m.NAME FROM mixed M",
        ["Project `M.Id`, `M.Name`", "  Scan Mixed as M (Id, Name)"],
    ),
    "a struct names its fields after the user's columns": (
        "SELECT to_json(struct(k, r.v AS x)) AS j FROM r",
        ["Project TO_JSON(STRUCT(`r.k` AS `k`, `r.v` AS x))", "  Scan r as r (k, v)"],
    ),
    "a lambda's own name hides the column": (
        "SELECT transform(array(1), k -> k + v) AS t FROM r",
        ["Project TRANSFORM(ARRAY(1), k -> k + `r.v`)", "  Scan r as r (v)"],
    ),
    "a unit is not a column": (
        "SELECT dateadd(DAY, 1, v) AS d FROM r",
        ["Project DATEADD(DAY, 1, `r.v`)", "  Scan r as r (v)"],
    ),
    "no column at all": ("SELECT 1 AS one FROM r", ["Project 1", "  Scan r as r ()"]),
}


@pytest.mark.parametrize("title", FIXTURES)
def test_plan(title: str) -> None:
    text, expected = FIXTURES[title]
    assert tree(text) == expected


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("SELECT * FROM r", ["k", "v"]),
        ("SELECT * FROM r JOIN s USING (k)", ["k", "v", "w"]),
        ("SELECT s.*, r.v FROM r JOIN s USING (k)", ["k", "w", "v"]),
        ("SELECT * EXCEPT (v) FROM r", ["k"]),
        # The latest merged columns come first; NATURAL takes the left side's order.
        ("SELECT * FROM r JOIN s USING (k) JOIN (SELECT v, k AS z FROM r) t USING (v)", ["v", "k", "w", "z"]),
        ("SELECT * FROM r NATURAL JOIN (SELECT v, k FROM r) t", ["k", "v"]),
        ("SELECT k + 1 AS v, v + 1 AS w, w FROM r", ["v", "w", "w"]),
        ("SELECT x.b FROM r AS x(a, b)", ["b"]),
    ],
)
def test_output_names(text: str, names: list[str]) -> None:
    assert list(lower(text, TABLES, functions=None).names) == names


def test_mentioned_columns_are_what_the_text_needs() -> None:
    def mentioned(text: str) -> dict[str, tuple[str, ...]]:
        return dict(lower(text, TABLES, functions=None).mentioned)

    assert mentioned("SELECT v FROM r WHERE k = 1") == {"r": ("k", "v")}
    assert mentioned("SELECT x.k FROM (SELECT * FROM r) x") == {"r": ("k", "v")}
    # A list of column aliases and a CTE that nobody uses are part of the text too.
    assert mentioned("SELECT x.a FROM s AS x(a, b)") == {"s": ("k", "w")}
    assert mentioned("WITH unused AS (SELECT w FROM s) SELECT k FROM s") == {"s": ("k", "w")}
    assert mentioned("WITH unused AS (SELECT w FROM s) SELECT k FROM r") == {"r": ("k",), "s": ("w",)}


def test_aliases_of_leaves_are_unique() -> None:
    found = plan(
        "SELECT a.k FROM (SELECT a.k FROM r a) a JOIN (SELECT a.k FROM s a) b ON a.k = b.k JOIN r `a#2` ON true"
    )
    assert [scan.alias for scan in scans(found)] == ["a", "a#2", "a#2#2"]


def test_a_dot_in_an_alias_does_not_make_two_columns_one() -> None:
    tables = {"odd": ("x.y",), "dots": ("y",)}
    found = lower("SELECT o.`x.y` AS one, `o.x`.y AS two FROM odd o JOIN dots `o.x`", tables, functions=None)
    attributes = [name for scan in scans(found.plan) for name in scan.attributes]
    assert len(set(attributes)) == 2


# What Spark's analysis finds, or needs a list of functions for.
ELSEWHERE = {
    "VIEW_ON_RECOMPUTED",
    "ORDER_BOUND",
    "USER_FUNCTION",
    "UNGROUPABLE_COLUMN",
    "UNSTORABLE_COLUMN",
    "DUPLICATE_COLUMN",
    "RESERVED_COLUMN",
}


@pytest.mark.parametrize(
    "construct", [c for c in REFUSED if c.example and c.code not in ELSEWHERE], ids=lambda c: c.code
)
def test_refused_with_its_code_and_place(construct: object) -> None:
    text = f"\n\n  {construct.example}"  # type: ignore[attr-defined]
    with pytest.raises(UnsupportedSql) as caught:
        plan(text)
    assert caught.value.code == construct.code  # type: ignore[attr-defined]
    assert caught.value.line == 3
    assert caught.value.column is not None
    assert caught.value.column >= 3
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("STAR_REPLACE", "SELECT to_json(struct(*)) AS j FROM r"),
        ("STAR_REPLACE", "SELECT struct(r.*) AS j FROM r"),
        ("NONDETERMINISTIC", "SELECT DATE'today' AS d FROM r"),
        ("NONDETERMINISTIC", "SELECT TIMESTAMP ' Tomorrow ' AS d FROM r"),
        ("NONDETERMINISTIC", "SELECT aes_encrypt('a', 'b') AS d FROM r"),
        ("INLINE_TABLE", "VALUES (1)"),
        ("SUBQUERY", "SELECT v > (SELECT max(w) FROM s) AS big, count(*) AS n FROM r GROUP BY big"),
        ("SUBQUERY", "SELECT k, e FROM r LATERAL VIEW explode(array((SELECT max(w) FROM s))) x AS e"),
        ("CORRELATION", "SELECT q.e FROM r, LATERAL (SELECT explode(array(r.v, s.w)) AS e FROM s WHERE s.k = r.k) q"),
        (
            "OTHER",
            "SELECT n, rank() OVER w AS m FROM (SELECT rank() OVER w AS n FROM r) q WINDOW w AS (ORDER BY n)",
        ),
    ],
)
def test_once_accepted_and_wrong(code: str, text: str) -> None:
    with pytest.raises(UnsupportedSql) as caught:
        plan(text)
    assert caught.value.code == code


def test_an_epoch_is_no_clock() -> None:
    assert tree("SELECT DATE'epoch' AS d FROM r")[0] == "Project DATE 'epoch'"


def test_an_unknown_table_is_named_with_its_place() -> None:
    with pytest.raises(SqlAnalysisError) as caught:
        plan("SELECT r.k\nFROM r\nJOIN nosuch n ON n.k = r.k")
    assert (caught.value.line, caught.value.column) == (3, 6)
    assert "nosuch" in caught.value.message
    assert "Mixed, p, r, s" in (caught.value.remedy or "")


def test_every_construct_that_is_kept_is_lowered() -> None:
    tables = {
        name: tuple(part.split()[0] for part in columns.split(", ")) for name, (columns, _) in KEPT_TABLES.items()
    }
    for title, text in KEPT_VIEWS.items():
        lowered = lower(text, {**tables, "base_counts": ("k", "n")}, functions=None)
        assert lowered.plan, title


def test_conditions_that_join_are_below_a_subquery_wherever_they_stand() -> None:
    """With the subquery's condition first, its node once stood on a cross product."""
    text = "SELECT r.v FROM r, s WHERE r.k IN (SELECT k FROM s) AND r.k = s.k"
    lowered = lower(text, TABLES, functions=None)
    (match,) = lowered.nodes.values()
    assert isinstance(match.inputs[0], Project)
    assert isinstance(match.inputs[0].child, Join)
    assert len(match.inputs[0].child.conditions) == 1


def test_a_function_is_the_same_in_any_case() -> None:
    lowered = lower(
        "SELECT Upper(v) AS u, COUNT(*) AS n, count(*) AS m FROM r GROUP BY upper(v)", TABLES, functions=None
    )
    (node,) = lowered.nodes.values()
    assert isinstance(node, Aggregate)
    assert len(node.values) == 1


def test_parentheses_do_not_hide_a_key() -> None:
    """An equality in parentheses was once no key, and a tie to the query outside was refused."""
    for text in (
        "SELECT r.v, s.w FROM r LEFT JOIN s ON ((r.k = s.k))",
        "SELECT r.v, (SELECT count(*) FROM s WHERE ((s.k = r.k) AND (s.w > 1))) AS n FROM r",
    ):
        lowered = lower(text, TABLES, functions=None)
        (match,) = [node for node in lowered.nodes.values() if isinstance(node, Match)]
        assert len(match.keys) == 1


def test_distinct_in_a_correlated_subquery() -> None:
    """The keys by which it is tied were taken for columns of the subquery."""
    found = lower("SELECT k FROM r WHERE EXISTS (SELECT DISTINCT w FROM s WHERE s.k = r.k)", TABLES, functions=None)
    (match,) = [node for node in found.nodes.values() if isinstance(node, Match)]
    assert len(match.keys) == 1
    lower("SELECT k FROM r WHERE EXISTS (SELECT DISTINCT w FROM s WHERE s.k < r.k)", TABLES, functions=None)
    with pytest.raises(UnsupportedSql) as refusal:
        lower("SELECT x.w FROM r, LATERAL (SELECT DISTINCT w FROM s WHERE s.k < r.k) x", TABLES, functions=None)
    assert refusal.value.code == "CORRELATION"


def expressions(text: str) -> list[str]:
    lowered = lower(text, TABLES, functions=None)
    return [to_text(value) for value in all_expressions(lowered.plan, lowered.nodes)]


def test_a_window_keeps_the_definition_of_its_own_query() -> None:
    """The outer w was once put in the place of the inner one."""
    found = expressions(
        "SELECT n, rank() OVER w AS m FROM (SELECT k, v, rank() OVER w AS n FROM r WINDOW w AS (ORDER BY k)) q "
        "WINDOW w AS (ORDER BY v)"
    )
    assert "RANK() OVER (ORDER BY `r.k`)" in found
    assert "RANK() OVER (ORDER BY `r.v`)" in found


def test_not_in_inside_an_aggregate_knows_of_its_not() -> None:
    """What would be NULL makes NOT IN false: it needs to know whether there is a NULL on either side."""
    found = expressions("SELECT k, sum(CASE WHEN v NOT IN (SELECT w FROM s) THEN 1 ELSE 0 END) AS n FROM r GROUP BY k")
    (total,) = [each for each in found if each.startswith("SUM")]
    assert "`r.v` IS NULL" in total
    assert "COUNT(`s.w`)" in found


def test_the_key_that_stands_in_an_expression_is_found_by_sparks_precedence() -> None:
    """v | k & 3 is v | (k & 3), in which v | k does not stand."""
    assert "`group#1.k2` | `group#1.k1` & 3" in expressions("SELECT v | k & 3 AS b FROM r GROUP BY v | k, k, v")


def test_what_stands_for_a_column_is_held_together() -> None:
    lateral = "SELECT q.z FROM (SELECT k, v + 1 AS y FROM r) p, LATERAL (SELECT w * p.y AS z FROM s WHERE s.k = p.k) q"
    assert "(`s.w` * (`r.v` + 1))" in expressions(lateral)
    using = "SELECT x.k FROM (SELECT k, k > 1 OR v > 1 AS f FROM r) x JOIN (SELECT w = 1 AS f FROM s) y USING (f)"
    assert "(`r.k` > 1 OR `r.v` > 1) = (`s.w` = 1)" in expressions(using)
