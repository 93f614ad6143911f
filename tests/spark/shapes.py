"""Shapes of queries that a view must keep, over the tables of ``test_sql_front_end``, and the changes made to them."""
# ruff: noqa: E501

from __future__ import annotations

from tests.spark.expressions import GROUPS, R_MORE

EXPRESSION_VIEWS = {
    name: "SELECT " + ", ".join(f"{text}\n AS e{i}" for i, text in enumerate(group)) + " FROM r"
    for name, group in GROUPS.items()
}

SHAPES = {
    "star": "SELECT * EXCEPT (mp) FROM r",
    "qualified_star": "SELECT s.*, r.k AS rk FROM r JOIN s ON r.k = s.k",
    "star_except": "SELECT * EXCEPT (k, d), 1 AS one FROM s",
    "two_stars": "SELECT x.*, y.* EXCEPT (k) FROM (SELECT k, v FROM r) x JOIN (SELECT k, w FROM s) y ON x.k = y.k",
    "using": "SELECT k, w, v FROM r JOIN s USING (k)",
    "using_star": "SELECT * FROM s JOIN (SELECT k, v FROM t) t USING (k)",
    "using_qualified": "SELECT r.k AS a, t.k AS b, k FROM r JOIN t USING (k)",
    # Columns merged later stand first in Spark's star, and the types are alike: a wrong order would give wrong rows.
    "using_twice_star": "SELECT * FROM (SELECT k, v FROM r) a JOIN (SELECT k, w FROM s) b USING (k) JOIN (SELECT v, k AS z FROM t) c USING (v)",
    "using_two_star": "SELECT * FROM (SELECT k, v FROM r) a JOIN (SELECT v, k, w FROM t) b USING (v, k)",
    # The common columns stand in the left side's order.
    "natural_star": "SELECT * FROM (SELECT k, v FROM r) a NATURAL JOIN (SELECT v, k, w FROM t) b",
    "natural_chain": "SELECT * FROM (SELECT k, v FROM r) a NATURAL JOIN (SELECT k, w FROM s) b NATURAL JOIN t",
    "comma": "SELECT r.k, s.w, t.v FROM r, s, t WHERE r.k = s.k AND t.w = s.w",
    "cross": "SELECT r.k, t.v FROM r CROSS JOIN t",
    "join_without_condition": "SELECT s.k, t.v FROM s JOIN t",
    "parenthesised_join": "SELECT r.k, s.w, t.v FROM r JOIN (s JOIN t ON s.w = t.w) ON r.k = s.k",
    "self_join": "SELECT a.k, b.v, c.v AS w FROM r a JOIN r b ON a.k = b.k JOIN r c ON b.v = c.v",
    "non_equi": "SELECT a.k, b.w FROM r a JOIN s b ON a.k < b.k OR a.v = b.w",
    "condition_only_on_one_side": "SELECT r.k, s.w FROM r JOIN s ON s.k = 1 AND r.v = 2",
    "subquery_chain": "SELECT q.z + 1 AS z FROM (SELECT p.y * 2 AS z FROM (SELECT k + v AS y, k FROM r WHERE v > 1) p WHERE p.k > 0) q WHERE q.z > 3",
    "renamed_columns": "SELECT x.p, y.q FROM (SELECT k, v FROM r) AS x(p, o) JOIN s AS y(p, q, u, dd) ON x.p = y.p",
    "cte": "WITH c AS (SELECT k, v FROM r WHERE v > 1), d(kk, vv) AS (SELECT * FROM c) SELECT c.k, d.vv FROM c JOIN d ON c.k = d.kk",
    "nested_cte": "WITH c AS (WITH d AS (SELECT k FROM s) SELECT k FROM d) SELECT r.v FROM r JOIN c USING (k)",
    "cte_in_subquery": "SELECT x.k FROM (WITH c AS (SELECT k FROM r) SELECT k FROM c UNION ALL SELECT k FROM c) x",
    # The name of a CTE hides the table, but not inside its own text.
    "cte_hides_table": "WITH r AS (SELECT k, 5 AS v FROM r WHERE k = 1) SELECT r.k, r.v, s.w FROM r JOIN s USING (k)",
    # A CTE that nobody uses: its tables are in the text all the same.
    "unused_cte": "WITH unused AS (SELECT w FROM s) SELECT k FROM r",
    "cte_case": "WITH MyCte AS (SELECT k FROM r) SELECT MYCTE.K FROM mycte",
    "lateral_alias": "SELECT k + 1 AS k1, k1 * 2 AS k2, k2 - k1 AS k3 FROM r",
    # A column of the table goes before an alias of the same select list.
    "alias_like_a_column": "SELECT k + 1 AS v, v + 1 AS w, w AS x FROM r",
    "swapped_names": "SELECT k AS v, v AS k FROM r",
    "alias_in_struct": "SELECT named_struct('p', k) AS z, z.p + 1 AS q FROM r",
    "constants_only": "SELECT 1 AS one, 'x' AS x FROM r",
    "constant_join": "SELECT 'x' AS x FROM r JOIN s",
    "odd_names": "SELECT `a b`, o.`x.y` AS `x y`, `ünï` AS `naïve = {name}`, `select` + 1 AS `from` FROM odd AS o",
    "unnamed_outputs": "SELECT k + 1, upper(s), s.s || '!' FROM s",
    # `o`.`x.y` and `o.x`.`y` are two columns.
    "dotted_alias": "SELECT o.`x.y` AS one, `o.x`.y AS two FROM odd AS o JOIN dots AS `o.x` ON `o.x`.y >= o.`x.y`",
    "alias_like_ours": "SELECT union1.k, i1.w FROM (SELECT k FROM r UNION ALL SELECT k FROM t) AS union1 JOIN s AS i1 ON i1.k = union1.k",
    "same_alias_inside_and_out": "SELECT a.k, b.k AS k2 FROM (SELECT a.k FROM r a WHERE a.v > 1) a JOIN (SELECT a.k FROM s a) b ON a.k = b.k",
    "hint": "SELECT /*+ BROADCAST(s) */ r.k, s.w FROM r JOIN s ON r.k = s.k",
    "select_all": "SELECT ALL k FROM r WHERE TRUE",
    "comments": "SELECT k -- the key; 'quoted\n, v /* the /* nested? */ */ FROM r -- the end",
    "having_no_rows": "SELECT k FROM r WHERE FALSE",
    # The inner condition comes first: '1.5' must never reach the cast.
    "guarded_cast": "SELECT CAST(x.s AS INT) AS c FROM (SELECT s FROM n WHERE s NOT LIKE '%.%') x WHERE CAST(x.s AS INT) > 0",
    # The names of the struct's fields are part of the value.
    "struct_of_derived": "SELECT to_json(struct(x.z, x.k)) AS j FROM (SELECT k + 1 AS z, k FROM r) x",
    # The inner condition guards the outer expression.
    "guarded_division": "SELECT x.q, s.w FROM (SELECT k, 10 / (k - 1) AS q FROM r WHERE k <> 1) x JOIN s ON s.k = x.k AND x.q > 0",
    "guarded_join": "SELECT x.v, s.w FROM (SELECT k, v FROM r WHERE k <> 1) x JOIN s ON 2 / (x.k - 1) = s.k",
    "union": "SELECT k, v FROM r UNION ALL SELECT k, v FROM t UNION ALL SELECT v, k FROM t",
    "union_below_join": "SELECT u.k, s.w FROM (SELECT k FROM r UNION ALL SELECT v FROM t) u JOIN s ON u.k = s.k",
    "union_of_joins": "SELECT r.k, s.w FROM r JOIN s USING (k) UNION ALL SELECT a.k, b.w FROM t a JOIN t b ON a.v = b.v",
    "union_joined_with_itself": "WITH u AS (SELECT k, v FROM r UNION ALL SELECT k, v FROM t) SELECT a.k, b.v FROM u a JOIN u b ON a.k = b.k",
    "union_int_bigint": "SELECT i AS c FROM n UNION ALL SELECT g FROM n",
    "union_int_decimal": "SELECT i AS c FROM n UNION ALL SELECT m FROM n",
    "union_date_timestamp": "SELECT d AS c FROM n UNION ALL SELECT ts FROM n",
    "union_int_float": "SELECT i AS c, s FROM n UNION ALL SELECT f, s FROM n",
    "union_null": "SELECT NULL AS c FROM n UNION ALL SELECT i FROM n",
    "union_decimals": "SELECT m * m AS c FROM n UNION ALL SELECT CAST(i AS DECIMAL(20, 0)) FROM n UNION ALL SELECT 1.5 FROM n",
    # Types are settled pair by pair: '1.5' meets a double here, never an int.
    "union_nested_right": "SELECT i AS c FROM n UNION ALL (SELECT s FROM n UNION ALL SELECT CAST(f AS DOUBLE) FROM n)",
    "union_nested_left": "(SELECT s AS c FROM n UNION ALL SELECT CAST(f AS DOUBLE) FROM n) UNION ALL SELECT i FROM n",
    "union_types_below_join": "SELECT u.c, a.i FROM (SELECT i AS c FROM n UNION ALL SELECT m FROM n) u JOIN n a ON u.c >= a.i",
    "coerced_condition": "SELECT a.i, b.g FROM n a JOIN n b ON a.i < b.g AND a.m < b.g",
    "coerced_using": "SELECT * FROM (SELECT i AS k FROM n) a JOIN (SELECT g AS k, m FROM n) b USING (k)",
    "from_first": "FROM r SELECT k, v",
    "table_alias_columns": "SELECT z.c1 FROM odd AS z(c1, c2, c3, c4) WHERE z.c2 = 2",
    "struct_named_like_alias": "SELECT st.a AS one FROM r",
    "nested_parentheses": "((SELECT k FROM r) UNION ALL (SELECT k FROM s))",
    "shadowed_struct": "SELECT st.k AS a, x.st.a AS b FROM s AS st JOIN r AS x ON st.k = x.k",
}

# Each of these was wrong once, or stands for a way to be wrong; `make test` has them, `make soak` has all.
QUICK = frozenset(
    """using_twice_star natural_star renamed_columns cte_hides_table unused_cte alias_like_a_column constant_join odd_names
    dotted_alias alias_like_ours guarded_cast guarded_join struct_of_derived union_joined_with_itself union_int_float
    union_nested_right union_types_below_join self_join parenthesised_join""".split()  # noqa: SIM905
)

CHANGES = {
    "r": [
        f"INSERT INTO {{r}} VALUES {R_MORE}",
        "UPDATE {r} SET v = v + 1 WHERE k = 1",
        "DELETE FROM {r} WHERE k = 2",
    ],
    "s": ["INSERT INTO {s} VALUES (1, 11, 'more', TIMESTAMP'2024-05-05 05:05:05'), (3, 30, NULL, NULL)"],
    "t": ["UPDATE {t} SET k = 1 WHERE v = 7", "INSERT INTO {t} VALUES (5, 3, 30), (2, 1, 10)"],
    "n": ["INSERT INTO {n} VALUES (3, 3, 3.00BD, DATE'2024-03-03', TIMESTAMP'2024-03-03 00:00:00', 2.5F, '2.5')"],
    "dots": ["INSERT INTO {dots} VALUES (3)"],
    "odd": ["DELETE FROM {odd} WHERE `a b` = 7", "INSERT INTO {odd} VALUES (2, 9, 'ö', 4)"],
}
