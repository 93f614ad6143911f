"""A view for every construct that is kept incrementally; docs/sql.md names them as the tests of its rows."""

from __future__ import annotations

TABLES = {
    "r": (
        "k INT, v INT, s STRING, d DECIMAL(10,2)",
        "(1, 9, 'a', 1), (1, 9, 'a', 1), (1, 20, 'b', NULL), (2, 5, NULL, 3), (NULL, 7, 'a', 4.2), (3, NULL, 'c', 5)",
    ),
    "s": (
        "k INT, w INT, x STRING",
        "(1, 1, 'x'), (1, 2, 'y'), (2, 3, NULL), (4, 4, 'z'), (NULL, 5, 'n'), (2, 3, NULL)",
    ),
    "t": ("k INT, u INT", "(1, 100), (2, 200), (2, 201), (5, NULL)"),
}

# Each is one unit of work; `refresh` marks where views are refreshed.
HISTORY = (
    "INSERT INTO {r} VALUES (1, 30, 'b', 2.00), (5, 1, 'q', 9.99)",
    "DELETE FROM {s} WHERE k = 1 AND w = 1",
    "UPDATE {r} SET v = v + 100 WHERE k = 1 AND s = 'a'",
    "INSERT INTO {t} VALUES (NULL, 1), (1, 100)",
    "refresh",
    "DELETE FROM {r} WHERE k IS NULL",
    "INSERT INTO {s} VALUES (5, 9, 'x'), (NULL, NULL, NULL), (3, 3, 'y')",
    "INSERT INTO {r} VALUES (7, 7, 'seven', 7.00)",
    "DELETE FROM {r} WHERE k = 7",
    "UPDATE {s} SET k = 1 WHERE k = 2",
    "refresh",
    "DELETE FROM {s} WHERE true",
    "DELETE FROM {t} WHERE k = 2 AND u = 200",
    "INSERT INTO {r} VALUES (NULL, 7, 'a', 4.25), (2, NULL, 'z', 1.00)",
    "DELETE FROM {r} WHERE true",
    "INSERT INTO {r} VALUES (2, 2, 'two', 2.00), (2, 3, 'two', 2.00), (NULL, 1, 'n', 0.00)",
    "INSERT INTO {s} VALUES (2, 2, 'x'), (NULL, 1, 'y')",
)

VIEWS = {
    "spj": "SELECT a.k, a.v + b.w AS x FROM r a JOIN s b ON a.k = b.k AND a.v <> b.w, t WHERE t.k = a.k",
    "union_all": "SELECT k, v FROM r UNION ALL SELECT k, w FROM s WHERE w > 1",
    "view_on_view": "SELECT b.k, b.n, s.w FROM base_counts b JOIN s ON b.k = s.k",
    # aggregates
    "count_sum": "SELECT k, count(*) AS n, count(v) AS nv, sum(v) AS sv, sum(d) AS sd FROM r GROUP BY k",
    "avg_exact": "SELECT k, avg(v) AS av, avg(d) AS ad FROM r GROUP BY k",
    "min_max": "SELECT k, min(v) AS lo, max(v) AS hi, max(s) AS ms FROM r GROUP BY k",
    "moments": "SELECT k, round(variance(v), 6) AS a, round(stddev_pop(v), 6) AS b FROM r GROUP BY k",
    "bool_bit": "SELECT k, bool_and(v > 5) AS a, bool_or(v > 5) AS o, bit_xor(v) AS x, any(v > 9) AS y FROM r "
    "GROUP BY k",
    "distinct_args": "SELECT k, count(DISTINCT v) AS n, sum(DISTINCT v) AS t, avg(DISTINCT v) AS a FROM r GROUP BY k",
    "filtered": "SELECT k, sum(v) FILTER (WHERE s = 'a') AS t, count(*) FILTER (WHERE v > 5) AS n FROM r GROUP BY k",
    "collected": "SELECT k, sort_array(collect_list(v)) AS l, sort_array(collect_set(s)) AS c FROM r GROUP BY k",
    "percentiles": "SELECT k, percentile(v, 0.5) AS p, median(v) AS m, "
    "percentile_cont(0.25) WITHIN GROUP (ORDER BY v) AS q FROM r GROUP BY k",
    "by_expression": "SELECT k % 2 AS odd, upper(s) AS u, count(*) AS n FROM r GROUP BY k % 2, upper(s)",
    "by_position": "SELECT coalesce(s, '-') AS name, sum(v) AS t FROM r GROUP BY 1",
    "by_alias": "SELECT coalesce(s, '-') AS name, sum(v) AS t FROM r GROUP BY name",
    "by_all": "SELECT k, s, count(*) AS n FROM r GROUP BY ALL",
    "rollup": "SELECT k, s, sum(v) AS t, grouping(k) AS g, grouping_id() AS id FROM r GROUP BY ROLLUP(k, s)",
    "cube": "SELECT k, s, count(*) AS n FROM r GROUP BY CUBE(k, s)",
    "grouping_sets": "SELECT k, s, sum(v) AS t FROM r GROUP BY GROUPING SETS ((k, s), (s), ())",
    "with_rollup": "SELECT k, sum(k) AS t FROM r GROUP BY k WITH ROLLUP",
    "pivot": "SELECT * FROM r PIVOT (sum(v) AS t, count(*) AS n FOR k IN (1 AS one, 2, NULL))",
    "pivot_of_query": "SELECT p.x, p.a, p.b FROM (SELECT s.x, r.s, r.v FROM r JOIN s ON r.k = s.k) q "
    "PIVOT (count(v) FOR s IN ('a', 'b')) AS p",
    "having": "SELECT k, sum(v) AS t FROM r GROUP BY k HAVING count(*) > 1 AND max(v) > 6",
    "global": "SELECT count(*) AS n, sum(v) AS t, min(s) AS m FROM r WHERE v > 6",
    "over_join": "SELECT r.k, sum(r.v * s.w) AS t FROM r JOIN s ON r.k = s.k GROUP BY r.k",
    "expression_of_aggregates": "SELECT k + 1 AS k1, sum(v) / count(*) + 1 AS x FROM r GROUP BY k",
    "aggregate_of_aggregate": "SELECT n, count(*) AS m FROM (SELECT k, count(*) AS n FROM r GROUP BY k) GROUP BY n",
    "below_join": "SELECT s.k, s.w, g.t FROM s JOIN (SELECT k, sum(v) AS t FROM r GROUP BY k) g ON s.k = g.k",
    # distinct and set operations
    "distinct": "SELECT DISTINCT k, s FROM r",
    "union": "SELECT k FROM r UNION SELECT k FROM s",
    "intersect": "SELECT k FROM r INTERSECT SELECT k FROM s",
    "intersect_all": "SELECT k FROM r INTERSECT ALL SELECT k FROM s",
    "except": "SELECT k FROM r EXCEPT SELECT k FROM s",
    "except_all": "SELECT k FROM r EXCEPT ALL SELECT k FROM s",
    # joins
    "left_join": "SELECT r.k, r.v, s.w, s.x FROM r LEFT JOIN s ON r.k = s.k",
    "right_join": "SELECT r.v, s.k, s.w FROM r RIGHT JOIN s ON r.k = s.k",
    "full_join": "SELECT r.k AS rk, r.v, s.k AS sk, s.w FROM r FULL OUTER JOIN s ON r.k = s.k",
    "full_using": "SELECT k, v, w FROM r FULL OUTER JOIN s USING (k)",
    "left_condition": "SELECT r.k, r.v, s.w FROM r LEFT JOIN s ON r.k = s.k AND s.w > 1 AND r.v > 5",
    "left_without_key": "SELECT t.k, t.u, s.w FROM t LEFT JOIN s ON t.k < s.w",
    "left_chain": "SELECT r.k, s.w, t.u FROM r LEFT JOIN s ON r.k = s.k LEFT JOIN t ON s.k = t.k",
    "left_derived": "SELECT r.k, q.y FROM r LEFT JOIN (SELECT k, coalesce(w, 0) + 1 AS y FROM s) q ON r.k = q.k",
    "left_aggregate": "SELECT r.k, q.n FROM r LEFT JOIN (SELECT k, count(*) AS n FROM s GROUP BY k) q ON r.k = q.k",
    "semi_join": "SELECT r.k, r.v FROM r LEFT SEMI JOIN s ON r.k = s.k AND s.w > 1",
    "anti_join": "SELECT r.k, r.v FROM r LEFT ANTI JOIN s ON r.k = s.k",
    # subqueries
    "in_query": "SELECT k, v FROM r WHERE k IN (SELECT k FROM s WHERE w > 1)",
    "not_in_query": "SELECT k, u FROM t WHERE k NOT IN (SELECT k FROM s)",
    "not_in_nonnull": "SELECT k, v FROM r WHERE v NOT IN (SELECT w FROM s WHERE w IS NOT NULL)",
    "not_in_correlated": "SELECT k, v FROM r WHERE v NOT IN (SELECT w FROM s WHERE s.k = r.k)",
    "pair_in": "SELECT k, v FROM r WHERE (k, v) IN (SELECT k, w FROM s)",
    "exists": "SELECT k, v FROM r WHERE EXISTS (SELECT 1 FROM s WHERE s.k = r.k AND s.w < r.v)",
    "not_exists": "SELECT k, v FROM r WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.k = r.k AND s.w <> r.v)",
    "exists_or": "SELECT k, v FROM r WHERE v = 7 OR EXISTS (SELECT 1 FROM s WHERE s.k = r.k)",
    "in_value": "SELECT k, v IN (SELECT w FROM s) AS found FROM r",
    "exists_value": "SELECT k, EXISTS (SELECT 1 FROM s) AS some FROM r",
    "scalar": "SELECT k, v, (SELECT max(w) FROM s) AS m FROM r WHERE v > (SELECT min(w) FROM s)",
    "scalar_correlated": "SELECT k, v FROM r WHERE v > (SELECT avg(w) FROM s WHERE s.k = r.k)",
    "scalar_selected": "SELECT k, v, (SELECT sum(w) FROM s WHERE s.k = r.k) AS t FROM r",
    "scalar_count": "SELECT k, (SELECT count(*) FROM s WHERE s.k = r.k) AS n FROM r",
    "scalar_having": "SELECT k, sum(v) AS t FROM r GROUP BY k HAVING sum(v) > (SELECT avg(w) FROM s)",
    "nested": "SELECT k FROM t WHERE k IN (SELECT k FROM r WHERE v > (SELECT min(w) FROM s WHERE s.k = r.k))",
    "lateral": "SELECT r.k, q.w FROM r, LATERAL (SELECT w FROM s WHERE s.k = r.k) q",
    "lateral_aggregate": "SELECT r.k, q.n, q.m FROM r, "
    "LATERAL (SELECT count(*) AS n, max(w) AS m FROM s WHERE s.k = r.k) q",
    "lateral_view": "SELECT k, e FROM r LATERAL VIEW explode(array(v, v + 1)) x AS e WHERE e > 6",
    "generator": "SELECT k, explode(array(v, 1)) AS e FROM r",
    # windows
    "ranked": "SELECT k, v, rank() OVER (PARTITION BY k ORDER BY v) AS p FROM r",
    "running": "SELECT k, v, sum(v) OVER (PARTITION BY k ORDER BY v) AS t, count(*) OVER (PARTITION BY k) AS n FROM r",
    "two_partitions": "SELECT k, s, count(*) OVER (PARTITION BY k) AS a, count(*) OVER (PARTITION BY s) AS b FROM r",
    "named_window": "SELECT k, max(v) OVER w AS m FROM r WINDOW w AS (PARTITION BY k)",
    "qualify": "SELECT k, v FROM r QUALIFY dense_rank() OVER (PARTITION BY k ORDER BY v DESC) = 1",
    "latest": "SELECT k, v FROM (SELECT k, v, row_number() OVER (PARTITION BY k ORDER BY v, s, d) AS n FROM r) "
    "WHERE n = 1",
    "window_of_aggregates": "SELECT k, sum(v) AS t, rank() OVER (ORDER BY sum(v) DESC) AS p FROM r GROUP BY k",
    "top": "SELECT k, v, s FROM r ORDER BY v DESC, k, s LIMIT 3",
    "top_offset": "SELECT k, count(*) AS n FROM r GROUP BY k ORDER BY n DESC, k LIMIT 2 OFFSET 1",
    "top_of_union": "SELECT k FROM r UNION ALL SELECT k FROM s ORDER BY k DESC LIMIT 4",
    # together
    "cte_twice": "WITH g AS (SELECT k, sum(v) AS t FROM r GROUP BY k) "
    "SELECT a.k, a.t FROM g a WHERE a.t = (SELECT max(t) FROM g)",
    "union_of_aggregates": "SELECT k, count(*) AS n FROM r GROUP BY k UNION ALL SELECT k, sum(w) FROM s GROUP BY k",
}

# The views that others of VIEWS read.
UPSTREAM = {"base_counts": "SELECT k, count(*) AS n FROM r GROUP BY k"}
