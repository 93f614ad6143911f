"""The SQL that views accept gives Spark's own rows, also after changes; the rest is refused and leaves nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headwater.errors import HeadwaterError, SqlAnalysisError, UnsupportedSql
from headwater.sql.constructs import AGGREGATE_FUNCTIONS, GENERATOR_FUNCTIONS, NONDETERMINISTIC_FUNCTIONS, REFUSED
from tests.spark.expressions import GROUPS, R_COLUMNS, R_MORE, R_ROWS
from tests.spark.oracle import World, assert_rows_equal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def left_behind(world: World) -> tuple[list[str], list[str], list[str]]:
    """Folders of views and view deltas, and names in the catalog."""
    lake = Path(world.lake.location)
    folders = [
        sorted(str(each.relative_to(lake)) for each in (lake / kind).glob("*")) if (lake / kind).is_dir() else []
        for kind in ("views", "deltas")
    ]
    return folders[0], folders[1], sorted(view.name for view in world.lake.status().views)


# ---------------------------------------------------------------------- refused


@pytest.fixture(scope="module")
def small(make_world: Callable[..., World]) -> World:
    """r(k, v), s(k, v), p(st) and a view on r, as the examples of ``REFUSED`` have them."""
    world = make_world("refused")
    world.make("r", "k INT, v INT", "(1, 2), (2, 3)")
    world.make("s", "k INT, v INT", "(1, 2)")
    world.make("p", "k INT, st STRUCT<a: INT, b: STRING>", "(1, named_struct('a', 1, 'b', 'x'))")
    world.create("existing_view", "SELECT k FROM r")
    world.spark.udf.register("my_function", lambda k: k, "int")
    return world


def refused(world: World, sql: str) -> HeadwaterError:
    before = left_behind(world)
    with pytest.raises(HeadwaterError) as caught:
        world.lake.sql(f"CREATE MATERIALIZED VIEW refused\nAS {sql}")
    assert left_behind(world) == before
    return caught.value


# These are found in Spark's names and types, which have no place in the text.
WITHOUT_PLACE = {"UNGROUPABLE_COLUMN", "UNSTORABLE_COLUMN", "DUPLICATE_COLUMN", "RESERVED_COLUMN"}


@pytest.mark.parametrize("construct", [c for c in REFUSED if c.example], ids=lambda c: c.code)
def test_refused_construct(construct: Any, small: World) -> None:
    error = refused(small, construct.example)
    assert (type(error), error.code) == (UnsupportedSql, construct.code), str(error)
    assert error.remedy
    if construct.code not in WITHOUT_PLACE:
        assert error.line == 2, str(error)  # type: ignore[attr-defined]
        assert error.column > len("AS "), str(error)  # type: ignore[attr-defined]


# Each was not in the table's example, and each is a way for a wrong row to get in.
MORE_REFUSED = [
    ("AGGREGATE", "SELECT count(*) AS n FROM r"),
    ("AGGREGATE", "SELECT max(k) AS n FROM r HAVING max(k) > 1"),
    ("AGGREGATE", "SELECT k FROM r GROUP BY ALL"),
    ("AGGREGATE", "SELECT any(k > 1) AS b FROM r"),
    ("AGGREGATE", "SELECT x.n FROM (SELECT sum(v) AS n FROM r) x JOIN s ON s.k = x.n"),
    ("AGGREGATE", "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY k) AS p FROM r"),
    ("AGGREGATE", "SELECT count(*) FILTER (WHERE k > 1) AS n FROM r"),
    ("AGGREGATE", "SELECT first(k) IGNORE NULLS AS f FROM r"),
    ("DISTINCT", "SELECT k FROM (SELECT DISTINCT k FROM r)"),
    ("SET_OPERATION", "SELECT k FROM r INTERSECT SELECT k FROM s"),
    ("SET_OPERATION", "SELECT k FROM r EXCEPT ALL SELECT k FROM s"),
    ("SET_OPERATION", "SELECT k FROM r MINUS SELECT k FROM s"),
    ("SET_OPERATION", "SELECT k FROM r UNION ALL SELECT k FROM s UNION SELECT k FROM r"),
    ("SET_OPERATION", "SELECT x.k FROM (SELECT k FROM r UNION DISTINCT SELECT k FROM s) x"),
    ("OUTER_JOIN", "SELECT r.k FROM r FULL OUTER JOIN s USING (k)"),
    ("OUTER_JOIN", "SELECT r.k FROM r RIGHT JOIN s ON r.k = s.k"),
    ("OUTER_JOIN", "SELECT r.k FROM r NATURAL LEFT JOIN s"),
    ("SEMI_JOIN", "SELECT k FROM r SEMI JOIN s USING (k)"),
    ("ANTI_JOIN", "SELECT k FROM r ANTI JOIN s USING (k)"),
    ("SUBQUERY", "SELECT k FROM r WHERE EXISTS (SELECT 1 FROM s WHERE s.k = r.k)"),
    ("SUBQUERY", "SELECT k, (SELECT max(k) FROM s) AS m FROM r"),
    ("SUBQUERY", "SELECT k FROM r WHERE k NOT IN (SELECT k FROM s)"),
    ("WINDOW", "SELECT k, sum(v) OVER (PARTITION BY k) AS t FROM r"),
    ("WINDOW", "SELECT k FROM r QUALIFY row_number() OVER (PARTITION BY k ORDER BY v) = 1"),
    ("ORDER_BY", "SELECT k FROM r SORT BY k"),
    ("ORDER_BY", "SELECT k FROM r DISTRIBUTE BY k"),
    ("ORDER_BY", "SELECT k FROM (SELECT k FROM r ORDER BY k)"),
    ("ORDER_BY", "SELECT k FROM r UNION ALL SELECT k FROM s ORDER BY k"),
    ("LIMIT", "SELECT x.k FROM (SELECT k FROM r LIMIT 1) x"),
    ("LIMIT", "SELECT k FROM r UNION ALL SELECT k FROM s LIMIT 1"),
    ("LIMIT", "SELECT k FROM r OFFSET 1"),
    ("LATERAL", "SELECT r.k, x.w FROM r, LATERAL (SELECT s.v AS w FROM s WHERE s.k = r.k) x"),
    ("GENERATOR", "SELECT k, posexplode(array(1, 2)) AS (i, x) FROM r"),
    ("GENERATOR", "SELECT inline(array(struct(1, 2))) FROM r"),
    ("GENERATOR", "SELECT stack(2, 1, 2) AS x FROM r"),
    ("PIVOT", "SELECT * FROM r UNPIVOT (val FOR name IN (k, v))"),
    ("TABLE_FUNCTION", "SELECT id FROM range(3) AS n"),
    ("TABLE_FUNCTION", "SELECT r.k FROM r, explode(array(1, 2)) AS e(x)"),
    ("INLINE_TABLE", "VALUES (1), (2)"),
    ("NO_TABLE", "SELECT k FROM r UNION ALL SELECT 1"),
    ("TIME_TRAVEL", "SELECT k FROM r TIMESTAMP AS OF '2024-01-01'"),
    ("NONDETERMINISTIC", "SELECT k, current_timestamp() AS t FROM r"),
    ("NONDETERMINISTIC", "SELECT k, current_timestamp AS t FROM r"),
    ("NONDETERMINISTIC", "SELECT k, current_date AS t FROM r"),
    ("NONDETERMINISTIC", "SELECT k, now() AS t FROM r"),
    ("NONDETERMINISTIC", "SELECT k, unix_timestamp() AS t FROM r"),
    ("NONDETERMINISTIC", "SELECT k FROM r WHERE rand() < 0.5"),
    ("NONDETERMINISTIC", "SELECT r.k FROM r JOIN s ON r.k = s.k AND uuid() > 'a'"),
    ("NONDETERMINISTIC", "SELECT k, shuffle(array(1, 2, 3)) AS t FROM r"),
    ("NONDETERMINISTIC", "SELECT k, current_user() AS t FROM r"),
    ("NONDETERMINISTIC", "SELECT k, monotonically_increasing_id() AS t FROM r"),
    # Special words in literals that read the clock when the text is analysed.
    ("NONDETERMINISTIC", "SELECT k, DATE'today' AS t FROM r"),
    ("NONDETERMINISTIC", "SELECT k FROM r WHERE TIMESTAMP' Now ' > TIMESTAMP'2020-01-01'"),
    # A random initialisation vector on every call.
    ("NONDETERMINISTIC", "SELECT k, aes_encrypt(CAST(k AS STRING), '0000111122223333') AS t FROM r"),
    ("PARAMETER", "SELECT k FROM r WHERE k = ?"),
    ("STRUCT_STAR", "SELECT st.* FROM p"),
    ("UNGROUPABLE_COLUMN", "SELECT struct(map('a', k)) AS m FROM r"),
    ("UNGROUPABLE_COLUMN", "SELECT parse_json('1') AS m FROM r"),
    ("UNSTORABLE_COLUMN", "SELECT INTERVAL 1 DAY AS i FROM r"),
    ("UNSTORABLE_COLUMN", "SELECT array() AS i FROM r"),
    ("UNSTORABLE_COLUMN", "SELECT struct(NULL AS n) AS i FROM r"),
    ("UNSTORABLE_COLUMN", "SELECT array(INTERVAL 1 DAY) AS i FROM r"),
    ("DUPLICATE_COLUMN", "SELECT k, v AS K FROM r"),
    ("DUPLICATE_COLUMN", "SELECT * FROM r JOIN s ON r.k = s.k"),
    # Spark would have put our own columns in the place of *.
    ("STAR_REPLACE", "SELECT to_json(struct(*)) AS j FROM r"),
    ("STAR_REPLACE", "SELECT coalesce(r.*) AS j FROM r"),
    ("VIEW_ON_VIEW", "SELECT r.k FROM r JOIN EXISTING_VIEW e ON e.k = r.k"),
]


@pytest.mark.parametrize(("code", "sql"), MORE_REFUSED, ids=[sql for _, sql in MORE_REFUSED])
def test_refused(code: str, sql: str, small: World) -> None:
    error = refused(small, sql)
    assert (type(error), error.code) == (UnsupportedSql, code), str(error)
    assert error.remedy


def test_the_place_of_a_refused_construct_is_where_it_stands(small: World) -> None:
    before = left_behind(small)
    text = (
        "CREATE MATERIALIZED VIEW refused\n"
        "  OPTIONS (width = '5 csn')\n"
        "AS\n"
        "-- a comment\n"
        "SELECT r.k,\n"
        "       upper('x') AS u,\n"
        "       sum(r.v) AS total\n"
        "FROM r"
    )
    with pytest.raises(UnsupportedSql) as caught:
        small.lake.sql(text)
    assert (caught.value.code, caught.value.line) == ("AGGREGATE", 7)
    assert caught.value.column in (8, 12)  # the call or its argument
    assert left_behind(small) == before


def test_session_variables_are_refused(small: World) -> None:
    small.spark.sql("DECLARE OR REPLACE VARIABLE bound INT DEFAULT 1")
    try:
        error = refused(small, "SELECT k FROM r WHERE k = bound")
        assert isinstance(error, UnsupportedSql)
        assert error.code == "PARAMETER"
    finally:
        small.spark.sql("DROP TEMPORARY VARIABLE bound")


def test_a_table_of_the_session_is_not_a_tracked_one(small: World) -> None:
    small.spark.range(3).createOrReplaceTempView("bystander")
    try:
        error = refused(small, "SELECT r.k FROM r JOIN bystander b ON b.id = r.k")
        assert isinstance(error, SqlAnalysisError)
        assert "bystander" in error.message
        assert error.line == 2
        assert "r" in (error.remedy or "")
    finally:
        small.spark.catalog.dropTempView("bystander")


def test_every_function_group_of_spark_is_known(spark: SparkSession) -> None:
    """Spark's own register says which built-in functions aggregate, generate rows or number them."""
    registry = spark._jvm.org.apache.spark.sql.catalyst.analysis.FunctionRegistry.builtin()
    names = [row[0] for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect()]
    groups: dict[str, set[str]] = {}
    for name in names:
        identifier = spark._jvm.org.apache.spark.sql.catalyst.FunctionIdentifier(name)
        found = registry.lookupFunction(identifier)
        if found.isDefined():
            groups.setdefault(found.get().getGroup(), set()).add(name)
    assert len(groups["agg_funcs"]) > 60
    refused = AGGREGATE_FUNCTIONS | GENERATOR_FUNCTIONS | NONDETERMINISTIC_FUNCTIONS
    assert sorted(groups["agg_funcs"] - AGGREGATE_FUNCTIONS) == []
    assert sorted(groups["generator_funcs"] - refused) == []


# ---------------------------------------------------------------------- accepted


@pytest.fixture(scope="module")
def wide(make_world: Callable[..., World]) -> World:
    """Tables of many types, with one world of views over them."""
    world = make_world("accepted")
    world.make("r", R_COLUMNS, R_ROWS, mapped=True)
    world.make(
        "s",
        "k INT, w BIGINT, s STRING, d TIMESTAMP",
        "(1, 10, 'one', NULL), (2, 20, 'two', NULL), (NULL, 5, 'n', NULL)",
    )
    world.make("t", "v INT, k INT, w BIGINT", "(2, 1, 10), (7, 2, 20), (2, 2, 10), (NULL, NULL, NULL)")
    world.make(
        "n",
        "i INT, g BIGINT, m DECIMAL(5,2), d DATE, ts TIMESTAMP, f FLOAT, s STRING",
        (
            "(1, 2, 3.50BD, DATE'2024-01-01', TIMESTAMP'2024-01-01 12:00:00', 1.5F, '7'), "
            "(16777217, 9007199254740993, 0.01BD, DATE'1999-12-31', NULL, 16777216F, '1.5')"
        ),
    )
    world.make("odd", "`a b` INT, `x.y` INT, `ünï` STRING, `select` INT", "(1, 2, 'ä', 3), (1, 2, 'ä', 3)", mapped=True)
    world.make("dots", "y INT", "(1), (5)")
    world.look()
    return world


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
}  # fmt: skip

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


@pytest.fixture(scope="module")
def changed(wide: World) -> Iterator[tuple[World, dict[str, HeadwaterError]]]:
    """Every view created, then every table changed, one after the other: each branch and each side changes alone at
    some csn. What could not be created fails its own test."""
    problems: dict[str, HeadwaterError] = {}
    for name, sql in (EXPRESSION_VIEWS | SHAPES).items():
        try:
            wide.create(f"v_{name}", sql)
        except HeadwaterError as error:
            problems[name] = error
    for statements in CHANGES.values():
        for statement in statements:
            wide.run(statement)
    wide.lake.capture()
    yield wide, problems


@pytest.mark.parametrize("name", [*EXPRESSION_VIEWS, *SHAPES])
def test_accepted(name: str, changed: tuple[World, dict[str, HeadwaterError]]) -> None:
    world, problems = changed
    if name in problems:
        raise problems[name]
    view = f"v_{name}"
    world.check(view, label="as created")
    report = world.refresh(view)
    assert report.mode in ("incremental", "none")
    assert report.csn == world.newest_csn()
    for csn in range(1, report.csn, 3):
        world.check(view, at=csn)
