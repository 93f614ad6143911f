"""The SQL that views accept gives Spark's own rows, also after changes; the rest is refused and leaves nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headwater.algebra.time import Csn
from headwater.definition import CatalogMoments
from headwater.drafting import check
from headwater.errors import HeadwaterError, SqlAnalysisError, UnsupportedSql
from headwater.propagate.frontier import Frontier, advance
from headwater.sql.constructs import AGGREGATE_FUNCTIONS, GENERATOR_FUNCTIONS, NONDETERMINISTIC_FUNCTIONS, REFUSED
from headwater.sql.render import view_delta_sql
from headwater.sql.statements import CreateView, parse_statement
from tests.spark.expressions import R_COLUMNS, R_ROWS
from tests.spark.oracle import World, assert_rows_equal, plain
from tests.spark.shapes import CHANGES, EXPRESSION_VIEWS, QUICK, SHAPES

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
    """r(k, v), s(k, v), p(st) and a recomputed view on r, as the examples of ``REFUSED`` have them."""
    world = make_world("refused")
    world.make("r", "k INT, v INT", "(1, 2), (2, 3)")
    world.make("s", "k INT, v INT", "(1, 2)")
    world.make("p", "k INT, st STRUCT<a: INT, b: STRING>", "(1, named_struct('a', 1, 'b', 'x'))")
    world.create("recomputed_view", "SELECT k FROM r", "OPTIONS (refresh = 'full')")
    world.spark.udf.register("my_function", lambda k: k, "int")
    return world


def refused(world: World, sql: str) -> HeadwaterError:
    before = left_behind(world)
    with pytest.raises(HeadwaterError) as caught:
        world.lake.sql(f"CREATE MATERIALIZED VIEW refused OPTIONS (refresh = 'incremental')\nAS {sql}")
    assert left_behind(world) == before
    return caught.value


# These are found in Spark's names and types, which have no place in the text.
WITHOUT_PLACE = {
    "ORDER_BOUND",
    "VIEW_ON_RECOMPUTED",
    "UNGROUPABLE_COLUMN",
    "UNSTORABLE_COLUMN",
    "DUPLICATE_COLUMN",
    "RESERVED_COLUMN",
}


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
    ("ORDER_BY", "SELECT k FROM r SORT BY k"),
    ("ORDER_BY", "SELECT k FROM r DISTRIBUTE BY k"),
    ("ORDER_BY", "SELECT k FROM (SELECT k FROM r ORDER BY k)"),
    ("ORDER_BY", "SELECT k FROM r UNION ALL SELECT k FROM s ORDER BY k"),
    ("LIMIT", "SELECT x.k FROM (SELECT k FROM r LIMIT 1) x"),
    ("LIMIT", "SELECT k FROM r UNION ALL SELECT k FROM s LIMIT 1"),
    ("LIMIT", "SELECT k FROM r OFFSET 1"),
    ("GENERATOR", "SELECT inline(array(struct(1, 2))) FROM r"),
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
    ("UNSTORABLE_COLUMN", "SELECT struct(k, v AS K) AS i FROM r"),
    ("UNSTORABLE_COLUMN", "SELECT array(struct(struct(k AS a, v AS A) AS s)) AS i FROM r"),
    ("DUPLICATE_COLUMN", "SELECT k, v AS K FROM r"),
    ("DUPLICATE_COLUMN", "SELECT * FROM r JOIN s ON r.k = s.k"),
    # Spark would have put our own columns in the place of *.
    ("STAR_REPLACE", "SELECT to_json(struct(*)) AS j FROM r"),
    ("STAR_REPLACE", "SELECT coalesce(r.*) AS j FROM r"),
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
        "SELECT upper('x') AS u,\n"
        "       1 AS one,\n"
        "       rand(r.v) AS total\n"
        "FROM r"
    )
    with pytest.raises(UnsupportedSql) as caught:
        small.lake.sql(text)
    assert (caught.value.code, caught.value.line) == ("NONDETERMINISTIC", 7)
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


def shapes() -> list[Any]:
    quick = set(EXPRESSION_VIEWS) | QUICK
    names = [*EXPRESSION_VIEWS, *SHAPES]
    return [name if name in quick else pytest.param(name, marks=pytest.mark.soak) for name in names]


@dataclass
class Drafts:
    """Views that passed every check of CREATE at the world's beginning; the tables have changed since."""

    world: World
    drafts: dict[str, Any]
    problems: dict[str, Exception]


@pytest.fixture(scope="module")
def drafts(wide: World, request: pytest.FixtureRequest) -> Drafts:
    asked = {item.callspec.params["shape"] for item in request.session.items if "drafts" in item.fixturenames}
    found = Drafts(wide, {}, {})
    for name, sql in (EXPRESSION_VIEWS | SHAPES).items():
        if name in asked:
            statement = parse_statement(f"CREATE MATERIALIZED VIEW v_{name} AS {sql}")
            assert isinstance(statement, CreateView)
            try:
                found.drafts[name] = check(wide.lake._context, statement)
            except HeadwaterError as error:
                found.problems[name] = error
    # One after the other: each side of a join and each branch of a union changes alone at some csn.
    for statements in CHANGES.values():
        for statement_text in statements:
            wide.run(statement_text)
    wide.lake.capture()
    return found


@pytest.mark.parametrize("shape", shapes())
def test_accepted(shape: str, drafts: Drafts) -> None:
    """The law at every csn, from the queries that propagation runs, without a view table to store them in."""
    if shape in drafts.problems:
        raise drafts.problems[shape]
    world, draft, sql = drafts.world, drafts.drafts[shape], (EXPRESSION_VIEWS | SHAPES)[shape]
    names = [name for name, _ in draft.columns]
    newest = world.newest_csn()
    catalog = world.lake._context.catalog
    moments = CatalogMoments(catalog, draft.definition)
    before = Frontier(tuple(leaf.time for leaf in draft.leaves))
    step = advance(draft.definition.plan, before, tuple(Csn(newest) for _ in draft.leaves), moments)
    start = world.expected(sql, draft.csn)
    assert [(f.name, f.dataType.simpleString()) for f in start.schema.fields] == list(draft.columns)
    assert_rows_equal(world.spark.sql(draft.definition.at(catalog, draft.csn)), start, label="recomputed")
    bag = Counter(map(plain, start.collect()))
    changes: dict[int, Counter[Any]] = {}
    if step.queries:
        for row in world.spark.sql(view_delta_sql(step.queries, names, moments.sources(Csn(0)))).collect():
            *values, count, csn = row
            changes.setdefault(csn, Counter())[plain(tuple(values))] += count
    used = set(draft.definition.tables)
    for csn in range(draft.csn + 1, newest + 1):
        bag.update(changes.get(csn, {}))
        here = {unit.table for unit in world.lake.units_of_work() if unit.csn == csn}
        if used & here:
            expected = Counter(map(plain, world.expected(sql, csn).collect()))
            assert {row: n for row, n in bag.items() if n} == dict(expected), f"{shape} at csn {csn}"
        else:
            assert csn not in changes


END_TO_END = ["nested", "odd_names", "union_types_below_join", "constants_only"]


@pytest.mark.parametrize("shape", END_TO_END)
def test_kept(shape: str, drafts: Drafts) -> None:
    """The same through the public calls: created, changed, refreshed there and back, read at every csn."""
    world, sql = drafts.world, (EXPRESSION_VIEWS | SHAPES)[shape]
    view = f"kept_{shape}"
    world.create(view, sql)
    world.check(view, label="as created")
    world.run("INSERT INTO {r} VALUES (1, 5, 'x', NULL, NULL, -0.0D, 1BD, array(3), NULL, NULL, true, 'o', NULL)")
    world.run("DELETE FROM {odd} WHERE `select` = 4")
    world.run("INSERT INTO {odd} VALUES (2, 9, 'ö', 4), (2, 9, 'ö', 4)")
    world.run("UPDATE {n} SET i = i + 1, m = NULL WHERE s = '7'")
    assert world.refresh(view).mode == "incremental"
    world.run("DELETE FROM {r} WHERE s = 'x'")
    world.run("UPDATE {n} SET i = i - 1, m = 3.5BD WHERE s = '7'")
    world.run("DELETE FROM {odd} WHERE `select` = 4")
    assert world.refresh(view).mode == "incremental"
    world.refresh(view, world.kept_from(view))
    world.check_law(view)
    world.lake.sql(f"DROP MATERIALIZED VIEW {view}")
