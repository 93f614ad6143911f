"""Views and cases as values: they print, they follow from their seed, and every smaller version is smaller."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from tests.fuzz.campaign import BASE
from tests.fuzz.case import Case
from tests.fuzz.expressions import Aggregate, Apply, Column, Exists, InQuery, Literal, Scalar, Window
from tests.fuzz.grammar import FEATURES, JOINS, Views
from tests.fuzz.histories import Delete, Histories, Insert, Merge
from tests.fuzz.queries import (
    Cte,
    Derived,
    Grouped,
    Item,
    Join,
    Key,
    LateralView,
    Numbered,
    Select,
    SetOperation,
    Table,
    TopK,
    View,
    With,
)

A, B = Table("p", "a"), Table("q", "b")
K, V = Column("a", "k"), Column("a", "v")
PLAIN = Select((Item(K, "o1"), Item(V, "o2")), A)
COUNTED = Grouped((Key(K, "o1"),), (Item(Aggregate("count(*)"), "o2"),), A)


def view(seed: int, features: frozenset[str] = frozenset(FEATURES)) -> View:
    return Views(random.Random(seed), BASE, {}, features).view("v")[0]


def case(seed: int) -> Case:
    histories = Histories(random.Random(seed))
    lower, columns = Views(random.Random(seed), BASE, {}).view("v1")
    upper, _ = Views(random.Random(-seed - 1), BASE, {"v1": columns}, frozenset({"view", "join"})).view("v2")
    return Case(histories.contents(), (lower, upper), histories.rounds(3))


@pytest.mark.parametrize(
    ("node", "text"),
    [
        (PLAIN, "SELECT a.k AS o1, a.v AS o2 FROM p a"),
        (replace(PLAIN, distinct=True), "SELECT DISTINCT a.k AS o1, a.v AS o2 FROM p a"),
        (COUNTED, "SELECT a.k AS o1, count(*) AS o2 FROM p a GROUP BY a.k"),
        (
            replace(COUNTED, mode="GROUPING SETS", sets=(("o1",), ())),
            "SELECT a.k AS o1, count(*) AS o2 FROM p a GROUP BY GROUPING SETS ((a.k), ())",
        ),
        (replace(COUNTED, keys=(Key(K, "h", shown=False),)), "SELECT count(*) AS o2 FROM p a GROUP BY a.k"),
        (
            replace(COUNTED, keys=(), having=Apply("({0} > {1})", (Aggregate("sum({0})", (V,), K), Literal("1")))),
            "SELECT count(*) AS o2 FROM p a HAVING (sum(a.v) FILTER (WHERE a.k) > 1)",
        ),
        (
            SetOperation("EXCEPT", True, PLAIN, SetOperation("UNION", False, PLAIN, PLAIN)),
            f"{PLAIN.text()} EXCEPT ALL ({PLAIN.text()} UNION {PLAIN.text()})",
        ),
        (TopK(PLAIN, 2, True), "SELECT a.k AS o1, a.v AS o2 FROM p a ORDER BY o1 DESC, o2 DESC LIMIT 2"),
        (
            Numbered(PLAIN, "n", "lag({0})", 1, "o3"),
            f"SELECT n.o1, n.o2, lag(n.o1) OVER (PARTITION BY n.o2 ORDER BY n.o1, n.o2) AS o3 FROM ({PLAIN.text()}) n",
        ),
        (
            With((Cte("w", COUNTED),), replace(PLAIN, source=Table("w", "a"))),
            "WITH w AS (SELECT a.k AS o1, count(*) AS o2 FROM p a GROUP BY a.k) SELECT a.k AS o1, a.v AS o2 FROM w a",
        ),
        (Join("LEFT JOIN", A, B, on=Literal("true")), "p a LEFT JOIN q b ON true"),
        (
            Join("JOIN", A, Join("JOIN", B, A, using=("k",)), using=("k",)),
            "p a JOIN (q b JOIN p a USING (k)) USING (k)",
        ),
        (LateralView(A, (K, V), "e", "x"), "p a LATERAL VIEW explode(array(a.k, a.v)) e AS x"),
        (Window("rank()", (), (K,), (V,)), "rank() OVER (PARTITION BY a.k ORDER BY a.v)"),
        (InQuery(K, PLAIN, True), "(a.k NOT IN (SELECT a.k AS o1, a.v AS o2 FROM p a))"),
        (Exists(PLAIN), "(EXISTS (SELECT a.k AS o1, a.v AS o2 FROM p a))"),
        (Scalar(COUNTED), "(SELECT a.k AS o1, count(*) AS o2 FROM p a GROUP BY a.k)"),
        (Derived(PLAIN, "d"), "(SELECT a.k AS o1, a.v AS o2 FROM p a) d"),
    ],
)
def test_text(node, text):
    assert node.text() == text


def test_commits_say_by_themselves_what_they_do():
    assert Insert("u", (("1", "NULL", "true"),)).text("t") == "INSERT INTO t VALUES (1, NULL, true)"
    assert Delete("u", ("v", "b"), ("1", "NULL")).text("t") == "DELETE FROM t WHERE v <=> 1 AND b <=> NULL"
    assert Delete("u").text("t") == "DELETE FROM t WHERE true"
    assert Merge("u", (("1", "NULL", "true"),)).text("t").startswith("MERGE INTO t t USING (SELECT CAST(1 AS INT) AS v")


def test_a_seed_gives_the_same_view_and_history():
    assert [view(seed) for seed in range(50)] == [view(seed) for seed in range(50)]
    assert case(3) == case(3)
    assert len({view(seed).text() for seed in range(50)}) > 45


def test_columns_have_names_of_their_own():
    for seed in range(200):
        columns = view(seed).columns()
        assert columns == tuple(f"o{number + 1}" for number in range(len(columns)))


def test_every_smaller_view_is_smaller_and_prints():
    for seed in range(200):
        whole = view(seed)
        for less in whole.smaller():
            assert less.size() < whole.size(), (whole.text(), less.text())
            assert less.text()
            assert less.columns()


def test_every_smaller_case_is_smaller():
    for seed in range(20):
        whole = case(seed)
        for less in (*whole.smaller_views(), *whole.smaller_histories()):
            assert less.size() < whole.size()
            assert less.views


def test_a_view_shrinks_to_almost_nothing_if_everything_fails():
    for seed in range(30):
        small = view(seed)
        while (less := next(small.smaller(), None)) is not None:
            small = less
        assert small.size() <= 10, small.text()


def test_all_constructs_turn_up():
    texts = " ".join(view(seed).text() for seed in range(600))
    for word in (
        *("LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN", "CROSS JOIN", "USING"),
        *("k IN (SELECT", "NOT IN (SELECT", "(EXISTS", "NOT EXISTS", "HAVING", "FILTER", "DISTINCT", "ROLLUP", "CUBE"),
        *(
            "GROUPING SETS",
            "UNION ALL",
            "INTERSECT ALL",
            "EXCEPT ALL",
            "UNION SELECT",
            "INTERSECT SELECT",
            "EXCEPT SELECT",
        ),
        *(
            "OVER (PARTITION BY",
            "row_number()",
            "lag(",
            "LIMIT",
            "LATERAL VIEW",
            "WITH w1",
            "collect_set",
            "CASE",
            "LIKE",
        ),
    ):
        assert word in texts, word


def test_only_what_is_asked_for():
    texts = " ".join(view(seed, JOINS).text() for seed in range(200))
    for word in ("GROUP BY", "LEFT", "FULL", "DISTINCT", "UNION", "OVER", "LIMIT", "EXISTS", " IN (SELECT", "LATERAL"):
        assert word not in texts


def test_a_view_on_a_view_is_asked_with_the_text_below():
    below, columns = Views(random.Random(1), BASE, {}).view("v1")
    above = View("v2", Select((Item(Column("t", columns[0][0]), "o1"),), Table("v1", "t")))
    other = View("v3", PLAIN)
    whole = Case((), (below, other, above), ())
    assert whole.text_of("v2") == f"WITH v1 AS ({below.text()}) SELECT * FROM ({above.text()})"
    assert whole.text_of("v3") == PLAIN.text()
    inlined = next(whole.only("v2").smaller_views())
    assert [each.name for each in inlined.views] == ["v2"]
    assert f"FROM ({below.text()}) t" in inlined.views[0].text()
