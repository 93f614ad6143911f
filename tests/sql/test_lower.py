"""From SELECT to plan: names resolve as in Spark, every branch comes to its normal form."""

from __future__ import annotations

import pytest

from headwater.algebra.plan import Filter, Join, Plan, Project, Scan, Union, scans
from headwater.errors import SqlAnalysisError, UnsupportedSql
from headwater.sql.constructs import REFUSED
from headwater.sql.dialect import to_text
from headwater.sql.lower import lower

TABLES = {"r": ("k", "v"), "s": ("k", "w"), "p": ("id", "st"), "big": ("a", "b", "c", "d")}
FUNCTIONS = frozenset({"upper", "rand", "array", "transform", "map", "to_json"})


def lowered(text: str):
    return lower(text, TABLES, views=frozenset({"existing_view"}), functions=FUNCTIONS)


def shape(plan: Plan) -> str:
    match plan:
        case Scan():
            return f"{plan.table} as {plan.alias}({','.join(plan.columns)})"
        case Filter(child=child, condition=condition):
            return f"σ[{to_text(condition)}]({shape(child)})"
        case Project(child=child, outputs=outputs):
            return f"π[{', '.join(to_text(value) for _, value in outputs)}]({shape(child)})"
        case Join(children=children, conditions=conditions):
            return f"⋈[{' AND '.join(to_text(c) for c in conditions)}]({'; '.join(shape(c) for c in children)})"
        case Union(children=children):
            return " + ".join(f"({shape(child)})" for child in children)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT * FROM r", "π[`r.k`, `r.v`](r as r(k,v))"),
        ("SELECT V FROM R x", "π[`x.v`](r as x(v))"),
        (
            "SELECT r.k FROM r JOIN s ON r.k = s.k WHERE v > 1 AND w < 2",
            "π[`r.k`](⋈[`r.k` = `s.k` AND `r.v` > 1 AND `s.w` < 2](r as r(k,v); s as s(k,w)))",
        ),
        (
            "SELECT a.v, b.v FROM r a, r b WHERE a.k <> b.k",
            "π[`a.v`, `b.v`](⋈[`a.k` <> `b.k`](r as a(k,v); r as b(k,v)))",
        ),
        (
            "SELECT x.y FROM (SELECT k + 1 AS y, v FROM r WHERE v IS NOT NULL) x WHERE x.y * 2 = 4",
            "π[(`r.k` + 1)](σ[(`r.k` + 1) * 2 = 4](σ[`r.v` IS NOT NULL](r as r(k,v))))",
        ),
        (
            "WITH c AS (SELECT k AS j FROM r) SELECT a.j FROM c a JOIN c b ON a.j = b.j",
            "π[`r.k`](⋈[`r.k` = `r#2.k`](r as r(k); r as r#2(k)))",
        ),
        (
            "SELECT k FROM r UNION ALL SELECT k FROM s UNION ALL SELECT id FROM p",
            "π[`union1.0`]((π[`r.k`](r as r(k))) + (π[`s.k`](s as s(k))) + (π[`p.id`](p as p(id))))",
        ),
        ("SELECT p.st.a.b, st.c FROM p", "π[`p.st`.`a`.`b`, `p.st`.`c`](p as p(st))"),
        ("SELECT k + 1 AS n, n * 2 AS m FROM r", "π[`r.k` + 1, (`r.k` + 1) * 2](r as r(k))"),
        ("SELECT v AS k, k AS x FROM r", "π[`r.v`, `r.k`](r as r(k,v))"),
        ("SELECT * EXCEPT (b, d) FROM big", "π[`big.a`, `big.c`](big as big(a,c))"),
        (
            "SELECT * FROM r JOIN s USING (k)",
            "π[`r.k`, `r.v`, `s.w`](⋈[`r.k` = `s.k`](r as r(k,v); s as s(k,w)))",
        ),
        (
            "SELECT * FROM r NATURAL JOIN s",
            "π[`r.k`, `r.v`, `s.w`](⋈[`r.k` = `s.k`](r as r(k,v); s as s(k,w)))",
        ),
        ("SELECT t.y FROM r AS t(x, y)", "π[`t.v`](r as t(v))"),
        (
            "SELECT transform(array(k), x -> x + v) AS t FROM r",
            "π[TRANSFORM(ARRAY(`r.k`), x -> x + `r.v`)](r as r(k,v))",
        ),
    ],
)
def test_plan(text, expected):
    assert shape(lowered(text).plan) == expected


def test_a_column_that_only_a_star_brought_in_is_mentioned_but_not_read():
    found = lowered("SELECT x.a FROM (SELECT * FROM big) x")
    assert found.mentioned == {"big": ("a", "b", "c", "d")}
    assert [scan.columns for scan in scans(found.plan)] == [("a",)]


def test_star_after_using_comes_in_sparks_order():
    tables = {"t": ("v", "k"), "u": ("w", "k"), "x": ("z", "w")}
    found = lower("SELECT * FROM t JOIN u USING (k) JOIN x USING (w)", tables, views=frozenset(), functions=None)
    assert found.names == ("w", "k", "v", "z")


def test_leaves_are_numbered_from_left_to_right():
    plan = lowered("SELECT x.k FROM (SELECT k FROM r UNION ALL SELECT k FROM s) x JOIN p ON x.k = p.id").plan
    assert [(scan.leaf, scan.alias) for scan in scans(plan)] == [(0, "r"), (1, "s"), (2, "p")]


@pytest.mark.parametrize("construct", [c for c in REFUSED if c.example], ids=lambda c: c.code)
def test_what_lowering_refuses_it_refuses_by_code(construct):
    judged_by_type = {"UNGROUPABLE_COLUMN", "UNSTORABLE_COLUMN", "DUPLICATE_COLUMN", "RESERVED_COLUMN"}
    if construct.code in judged_by_type:
        assert lowered(construct.example).plan is not None
        return
    with pytest.raises(UnsupportedSql) as caught:
        lowered(construct.example)
    assert caught.value.code == construct.code
    assert caught.value.remedy == construct.remedy
    assert caught.value.line == 1
    assert caught.value.column is not None


def test_a_table_that_is_not_tracked_is_named_with_its_place():
    with pytest.raises(SqlAnalysisError, match=r"nowhere is not tracked.*line 2, column 6.*Tracked: big, p, r, s"):
        lowered("SELECT k\nFROM nowhere")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("SELECT sum(k) FROM r", "AGGREGATE"),
        ("SELECT k FROM r WHERE EXISTS (SELECT 1 FROM s)", "SUBQUERY"),
        ("SELECT (SELECT max(k) FROM s) FROM r", "SUBQUERY"),
        ("SELECT r.k FROM r FULL OUTER JOIN s ON r.k = s.k", "OUTER_JOIN"),
        ("SELECT k FROM r EXCEPT ALL SELECT k FROM s", "SET_OPERATION"),
        ("SELECT k FROM r WHERE v > current_date", "NONDETERMINISTIC"),
        ("SELECT k FROM r WHERE v > current_timestamp()", "NONDETERMINISTIC"),
        ("SELECT unix_timestamp() AS t FROM r", "NONDETERMINISTIC"),
        ("SELECT x.k FROM (SELECT k FROM r LIMIT 3) x", "LIMIT"),
        ("(SELECT k FROM r) UNION ALL (SELECT k FROM s ORDER BY k)", "ORDER_BY"),
        ("SELECT k FROM r UNION ALL SELECT k FROM s LIMIT 1", "LIMIT"),
        ("SELECT k FROM r, LATERAL (SELECT w FROM s WHERE s.k = r.k)", "LATERAL"),
    ],
)
def test_refused_wherever_it_stands(text, code):
    with pytest.raises(UnsupportedSql) as caught:
        lowered(text)
    assert caught.value.code == code
