"""Texts that were once read as something else than Spark reads them; each is kept right now, or refused by its code.

A view is made by the user's own text, so a misreading does not show before the first change: each test has some.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from headwater.errors import HeadwaterError, UnsupportedSql
from tests.spark.oracle import World, check_view

TABLES = {
    "r": ("k INT, v INT, s STRING, b BIGINT", "(1, 1, 'a', 1), (2, 2, 'b', 2), (NULL, 0, 'c', 3), (4, 9, 'd', 4)"),
    "s": ("k INT, w INT, x STRING", "(1, 1, '1'), (1, 5, '01'), (3, 3, NULL)"),
    "t": ("k INT, u INT", "(1, 1), (2, 2), (7, 7)"),
}
HISTORY = (
    "INSERT INTO {t} VALUES (9, 9), (3, 1), (4, 0)",
    "INSERT INTO {s} VALUES (4, 1, '2'), (4, 2, '02'), (NULL, 0, 'n'), (9, 9, '9')",
    "INSERT INTO {s} VALUES (8, NULL, NULL)",
    "INSERT INTO {r} VALUES (1, 1, 'z', 9007199254740993), (3, 2, 'y', 1), (9, 0, 'x', 1), (9, 5, 'x', -9)",
    "DELETE FROM {s} WHERE k = 1 AND w = 5",
    "DELETE FROM {r} WHERE k = 2",
    "DELETE FROM {s} WHERE w IS NULL",
    "UPDATE {t} SET u = u + 1 WHERE k < 4",
)
KEPT = {
    "right_join_in_parentheses": "SELECT r.s, t.k FROM r JOIN (s RIGHT JOIN t ON s.k = t.k) ON r.k = t.k",
    "full_join_in_parentheses": "SELECT r.s, s.w, t.u FROM r "
    "JOIN (s FULL JOIN t ON s.k = t.k) ON r.k = t.k OR r.k = s.k",
    "using_in_parentheses_first": "SELECT * FROM (s JOIN t USING (k)) JOIN r USING (k)",
    "full_using_of_computed": "SELECT k, w FROM (SELECT coalesce(k, 0) AS k FROM r) q FULL JOIN s USING (k)",
    "full_using_twice": "SELECT k, v, w, u FROM r FULL JOIN s USING (k) FULL JOIN t USING (k)",
    "right_using_of_computed": "SELECT k, w FROM (SELECT k + 1 AS k FROM r) q "
    "RIGHT JOIN s USING (k) RIGHT JOIN t USING (k)",
    "exists_over_an_aggregate": "SELECT k, v FROM r WHERE EXISTS (SELECT max(w) FROM s WHERE s.k = r.k)",
    "not_exists_over_an_aggregate": "SELECT k, v FROM r WHERE NOT EXISTS (SELECT max(w) FROM s WHERE s.k = r.k)",
    "in_an_aggregate": "SELECT k, v FROM r WHERE v IN (SELECT count(*) FROM s WHERE s.k = r.k)",
    "not_in_an_aggregate": "SELECT k, v FROM r WHERE v NOT IN (SELECT count(*) FROM s WHERE s.k = r.k)",
    "not_in_a_maximum": "SELECT k, v FROM r WHERE v NOT IN (SELECT max(w) FROM s WHERE s.k = r.k)",
    "exists_of_an_aggregate_as_a_value": "SELECT k, EXISTS (SELECT max(w) FROM s WHERE s.k = r.k) AS f FROM r",
    "in_below_exists": "SELECT k, v FROM r WHERE EXISTS (SELECT 1 FROM s WHERE s.k = r.k AND s.w IN (SELECT u FROM t))",
    "exists_below_not_exists": "SELECT k, v FROM r WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.k = r.k "
    "AND EXISTS (SELECT 1 FROM t WHERE t.u = s.w))",
    "scalar_below_exists": "SELECT k, v FROM r WHERE EXISTS (SELECT 1 FROM s WHERE s.k = r.k "
    "AND s.w > (SELECT min(u) FROM t WHERE t.k = s.k))",
    "subquery_in_an_aggregate": "SELECT k, sum(CASE WHEN v >= (SELECT min(w) FROM s) THEN 1 ELSE 0 END) AS n, "
    "count(*) FILTER (WHERE v IN (SELECT u FROM t)) AS m FROM r GROUP BY k",
    "in_as_a_value": "SELECT k, v IN (SELECT w FROM s) AS f FROM r",
    "not_in_as_a_value": "SELECT k, v NOT IN (SELECT w FROM s) AS f, "
    "coalesce(v IN (SELECT u FROM t), true) AS g FROM r",
    "in_below_not": "SELECT k, NOT (v IN (SELECT w FROM s) OR v = 5) AS f, "
    "NOT NOT (v IN (SELECT w FROM s)) AS g FROM r",
    "between_that_is_false_with_a_null": "SELECT k, v FROM r "
    "WHERE (v BETWEEN (SELECT max(w) FROM s WHERE s.k = r.k) AND 3) = false",
    "order_by_an_expression_of_an_alias": "SELECT k, b, -v AS v FROM r ORDER BY v + 0, k, b LIMIT 2",
    "order_by_a_column_hidden_by_an_alias": "SELECT k, b, -v AS v FROM r ORDER BY r.v, k, b LIMIT 2",
    "order_by_an_aggregate": "SELECT k, sum(v) AS n FROM r GROUP BY k ORDER BY sum(v) + count(*), k LIMIT 2",
    "offset_alone": "SELECT k, v, b FROM r ORDER BY k, v, b OFFSET 1",
    "counts_of_conditions": "SELECT k, count(NOT w > 1) AS a, count(w > 3 OR x = '01') AS b, count(w IN (1, 2)) AS c, "
    "count(x LIKE '0%') AS d, count(w, NOT x = '1') AS e FROM s GROUP BY k",
    "counts_of_conditions_not_carried": "SELECT k, count(NOT w > 1) AS a, count(w > 3 OR x = '01') AS b, "
    "count(w IS NULL) AS c, count(w BETWEEN 1 AND 2) AS d FROM s GROUP BY k HAVING count(*) > 0",
    "windows_of_one_name": "SELECT k, s, v, n, row_number() OVER w AS m "
    "FROM (SELECT k, s, v, b, row_number() OVER w AS n FROM r WINDOW w AS (PARTITION BY k ORDER BY v, s, b)) q "
    "WINDOW w AS (PARTITION BY s ORDER BY v DESC, n, k)",
    "not_in_below_a_sum_of_doubles": "SELECT k, sum(CASE WHEN v NOT IN (SELECT w FROM s) THEN CAST(b AS DOUBLE) "
    "ELSE 0D END) AS t FROM r GROUP BY k",
    "outer_expression_in_lateral": "SELECT p.k, q.z FROM (SELECT k, v + 1 AS y FROM r) p, "
    "LATERAL (SELECT s.w * p.y AS z FROM s WHERE s.k = p.k) q ORDER BY p.k, q.z LIMIT 100",
    "outer_expression_in_exists": "SELECT p.k, p.y FROM (SELECT k, v + 1 AS y FROM r) p WHERE 100 / p.k > 1 "
    "AND EXISTS (SELECT 1 FROM s WHERE s.w = p.y * 2)",
    "using_of_a_disjunction": "SELECT x.k, y.w FROM (SELECT k, v > 5 OR b > 2 AS f FROM r) x "
    "JOIN (SELECT w, w > 3 AS f FROM s) y USING (f) ORDER BY x.k, y.w LIMIT 100",
    "lambda_variable_in_another_case": "SELECT k, transform(array(v, 7), V -> v + b) AS t FROM r",
    "bits_beside_group_by": "SELECT v | k AS a, v | k & 3 AS c, sum(CAST(b AS DOUBLE)) AS t FROM r "
    "GROUP BY v | k, k, v",
    "operators_on_one_level": "SELECT k, v = b < (k > 1) AS f, '1' || v + 1 AS g, v > 1 IS NULL AS h, "
    "k = v IN (true) AS i, v ^ k | b & 3 << 1 AS j FROM r",
    "tied_by_numbers_of_two_types": "SELECT k, (SELECT sum(w) FROM s WHERE s.k = r.b) AS n FROM r",
}
REFUSED = {
    "natural_in_parentheses": ("OTHER", "SELECT r.v, t.u FROM r JOIN (t NATURAL JOIN s) ON r.v = t.u"),
    "using_in_parentheses": ("OTHER", "SELECT r.v, t.u FROM r LEFT JOIN (s FULL JOIN t USING (k)) ON r.v = t.u"),
    "in_of_another_type": ("CORRELATION", "SELECT k, v IN (SELECT x FROM s WHERE x IS NOT NULL) AS f FROM r"),
    "scalar_tied_by_another_type": ("CORRELATION", "SELECT k, (SELECT sum(w) FROM s WHERE s.x = r.v) AS n FROM r"),
    "compared_with_a_scalar_tied_by_another_type": (
        "CORRELATION",
        "SELECT k FROM r WHERE v < (SELECT sum(w) FROM s WHERE s.x = r.v)",
    ),
    "exists_tied_by_another_type": (
        "CORRELATION",
        "SELECT k FROM r WHERE v = 0 OR EXISTS (SELECT 1 FROM s WHERE s.x = r.v)",
    ),
    "distinct_tied_by_another_type": (
        "CORRELATION",
        "SELECT r.k, q.w FROM r, LATERAL (SELECT DISTINCT w FROM s WHERE s.x = r.v) q",
    ),
    "window_in_a_correlated_subquery": (
        "CORRELATION",
        "SELECT r.k, q.n FROM r, LATERAL (SELECT count(*) OVER () AS n FROM s WHERE s.k = r.k) q",
    ),
    "subquery_in_the_condition_of_an_outer_join": (
        "SUBQUERY",
        "SELECT r.k, s.w FROM r LEFT JOIN s ON r.k = s.k AND r.v IN (SELECT u FROM t)",
    ),
    "first_that_is_not_null": (
        "ORDER_BOUND",
        "SELECT k, v, first_value(v) IGNORE NULLS OVER (PARTITION BY k ORDER BY s) AS f FROM r",
    ),
    "first_that_is_not_null_by_argument": (
        "ORDER_BOUND",
        "SELECT k, v, first_value(v, true) OVER (PARTITION BY k ORDER BY s) AS f FROM r",
    ),
    "subquery_in_group_by": ("SUBQUERY", "SELECT v > (SELECT avg(w) FROM s) AS f, count(*) AS n FROM r GROUP BY f"),
    "subquery_in_a_generator": (
        "SUBQUERY",
        "SELECT k, e FROM r LATERAL VIEW explode(array((SELECT max(w) FROM s))) AS e",
    ),
    "running_sum_of_text": ("ORDER_BOUND", "SELECT k, sum(s) OVER (PARTITION BY k ORDER BY v) AS t FROM r"),
}


@dataclass
class Readings:
    world: World
    refused: dict[str, str]


@pytest.fixture(scope="module")
def readings(make_world: Callable[..., World]) -> Readings:
    world = make_world("readings")
    for name, (columns, rows) in TABLES.items():
        world.make(name, columns, rows)
    world.look()
    refused = {}
    for name, sql in KEPT.items():
        try:
            world.create(name, sql, "OPTIONS (refresh = 'incremental')")
        except HeadwaterError as error:
            refused[name] = f"{error.code}: {error}"
    for event in HISTORY:
        world.run(event)
    world.lake.capture()
    return Readings(world, refused)


@pytest.mark.parametrize("view", KEPT)
def test_a_text_is_read_as_spark_reads_it(readings: Readings, view: str) -> None:
    assert view not in readings.refused, readings.refused[view]
    assert readings.world.refresh(view, label=view).mode == "incremental"
    check_view(readings.world, view, KEPT[view], range(2, len(HISTORY), 3), label=view)


@pytest.mark.parametrize("view", REFUSED)
def test_a_text_that_no_plan_stands_for_is_refused(readings: Readings, view: str) -> None:
    code, sql = REFUSED[view]
    with pytest.raises(UnsupportedSql) as refused:
        readings.world.create(f"refused_{view}", sql, "OPTIONS (refresh = 'incremental')")
    assert refused.value.code == code
