"""The check at CREATE that our plan answers as Spark does: over made-up rows it passes what is right and finds what is
not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from headwater.algebra.nodes import Aggregate, Nodes
from headwater.algebra.time import BEGINNING
from headwater.definition import Definition
from headwater.engine.analysis import kinds_of, require_same_reading
from headwater.engine.judging import judge
from headwater.engine.second_reading import require_same_answer
from headwater.engine.spark import SparkEngine
from headwater.errors import UnsupportedSql
from headwater.sql.lower import lower
from headwater.sql.made_up import MadeUp, Pools
from headwater.sql.render import named_state
from headwater.sql.transitions import NodeRelations
from tests.spark.constructs import TABLES, UPSTREAM, VIEWS
from tests.spark.test_readings import KEPT
from tests.spark.test_readings import TABLES as READ

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A text, and another that it was, or could be, mistaken for.
MISREAD = {
    "join_in_parentheses": (
        "SELECT r.s, t.k FROM r JOIN (s RIGHT JOIN t ON s.k = t.k) ON r.k = t.k",
        "SELECT r.s, t.k FROM r CROSS JOIN s RIGHT JOIN t ON s.k = t.k AND r.k = t.k",
    ),
    "which_column": (
        "SELECT r.v, t.u FROM r JOIN (t NATURAL JOIN s) ON r.v = t.u",
        "SELECT r.v, t.u FROM r JOIN t ON r.v = t.u JOIN s ON r.k = s.k",
    ),
    "full_using": (
        "SELECT k, w FROM (SELECT coalesce(k, 0) AS k FROM r) q FULL JOIN s USING (k)",
        "SELECT coalesce(coalesce(r.k, 0), s.k) AS k, w FROM r FULL JOIN s ON coalesce(r.k, 0) = s.k",
    ),
    "exists_over_an_aggregate": (
        "SELECT k, v FROM r WHERE EXISTS (SELECT max(w) FROM s WHERE s.k = r.k)",
        "SELECT k, v FROM r WHERE EXISTS (SELECT 1 FROM s WHERE s.k = r.k)",
    ),
    "types": (
        "SELECT k, v IN (SELECT x FROM s) AS f FROM r",
        "SELECT k, f FROM (SELECT r.k, q.x IS NOT NULL AS f FROM r LEFT JOIN (SELECT DISTINCT x FROM s) q ON v = x)",
    ),
    "not_in": (
        "SELECT k, v FROM r WHERE k NOT IN (SELECT k FROM s)",
        "SELECT k, v FROM r WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.k = r.k)",
    ),
    "constants": ("SELECT k FROM r WHERE v > 123456", "SELECT k FROM r WHERE v >= 123456"),
    "words": ("SELECT k FROM r WHERE s LIKE 'green%'", "SELECT k FROM r WHERE s LIKE '%green'"),
    "days": (
        "SELECT k FROM t WHERE d < DATE '1998-12-01' - INTERVAL 1 DAY",
        "SELECT k FROM t WHERE d <= DATE '1998-12-01' - INTERVAL 1 DAY",
    ),
    "in_as_a_value": (
        "SELECT k, v IN (SELECT w FROM s) AS f FROM r",
        "SELECT k, f FROM (SELECT r.k, EXISTS (SELECT 1 FROM s WHERE s.w <=> r.v) AS f FROM r)",
    ),
    "not_in_as_a_value": (
        "SELECT k, v NOT IN (SELECT w FROM s) AS f FROM r",
        "SELECT k, f FROM (SELECT r.k, NOT EXISTS (SELECT 1 FROM s WHERE s.w = r.v) AS f FROM r)",
    ),
    "union": ("SELECT k FROM r UNION SELECT k FROM s", "SELECT k FROM r UNION ALL SELECT k FROM s"),
    "divided_by_a_column": ("SELECT 100 / k AS q FROM r WHERE v > 1", "SELECT 100 / k AS q FROM r WHERE v >= 1"),
    "row_number": (
        "SELECT k, s, row_number() OVER (PARTITION BY k ORDER BY b) AS n FROM r",
        "SELECT k, s, row_number() OVER (PARTITION BY k ORDER BY b DESC) AS n FROM r",
    ),
    "first_rows": ("SELECT k, w + 1 AS w FROM s ORDER BY k, w LIMIT 99", "SELECT k, w FROM s ORDER BY k, w LIMIT 99"),
    "sums_of_doubles": (
        "SELECT k, sum(CAST(v AS DOUBLE)) AS t FROM r WHERE v NOT IN (SELECT w FROM s WHERE w IS NOT NULL) GROUP BY k",
        "SELECT k, sum(CAST(v AS DOUBLE)) AS t FROM r WHERE v IN (SELECT w FROM s WHERE w IS NOT NULL) GROUP BY k",
    ),
    "arrays": ("SELECT k, transform(a, e -> e + k) AS l FROM t", "SELECT k, transform(a, e -> e + e) AS l FROM t"),
    "structs_and_maps": ("SELECT k, st.x AS x, m['a'] AS y FROM t", "SELECT k, st.y AS x, m['a'] AS y FROM t"),
}


def columns_of(ddl: str) -> list[tuple[str, str]]:
    return [(part.split()[0], part.split()[1].lower()) for part in ddl.replace(", ", "|").split("|")]


def compare(
    engine: SparkEngine,
    text: str,
    other: str,
    tables: dict[str, list[tuple[str, str]]],
    broken: Callable[[Nodes], Nodes] = lambda nodes: nodes,
) -> None:
    """As CREATE does, had it read ``text`` as ``other``."""
    lowered = lower(other, {name: tuple(n for n, _ in found) for name, found in tables.items()}, functions=None)
    names = [f"column_{place}" for place in range(len(lowered.names))]
    columns = {name: tuple(found) for name, found in tables.items()}
    made_up = MadeUp(tables, text, Pools())
    sources = NodeRelations(lowered.nodes, made_up, made_up, BEGINNING).sources
    definition = Definition.of(other, lowered, columns, {}, {})
    judged = definition.judge(*judge(engine, lowered.plan, lowered.nodes, BEGINNING, sources, other))
    output = kinds_of(engine, named_state(lowered.plan, names, BEGINNING, sources))
    nodes = broken(judged.nodes)
    require_same_answer(engine, text, lowered.plan, nodes, [*output.items()], tables, ties=judged.breaks_ties)


@pytest.fixture(scope="module")
def engine(spark: SparkSession) -> SparkEngine:
    return SparkEngine(lambda: spark)


@pytest.mark.parametrize("case", [*VIEWS, *KEPT])
def test_what_is_read_right_passes(engine: SparkEngine, case: str) -> None:
    text = VIEWS.get(case) or KEPT[case]
    tables = {name: columns_of(ddl) for name, (ddl, _) in (TABLES if case in VIEWS else READ).items()}
    tables |= {name: [("k", "int"), ("n", "bigint")] for name in UPSTREAM}
    compare(engine, text, text, tables)


@pytest.mark.parametrize("case", MISREAD)
def test_what_is_read_wrong_is_found(engine: SparkEngine, case: str) -> None:
    text, other = MISREAD[case]
    tables = {name: columns_of(ddl) for name, (ddl, _) in READ.items()}
    tables["t"] += [("d", "date"), ("a", "array<int>"), ("st", "struct<x:int,y:int>"), ("m", "map<string,int>")]
    if case not in ("which_column", "types"):  # which are refused before
        compare(engine, text, text, tables)
    with pytest.raises(UnsupportedSql, match="another answer than Spark's over made-up rows") as refused:
        compare(engine, text, other, tables)
    assert refused.value.code == "MISREAD"


def test_a_text_that_fails_over_words_is_compared_over_numbers(engine: SparkEngine) -> None:
    tables = {"r": [("k", "int"), ("s", "string")]}
    compare(engine, "SELECT CAST(s AS INT) + 1 AS n FROM r", "SELECT CAST(s AS INT) + 1 AS n FROM r", tables)
    with pytest.raises(UnsupportedSql):
        compare(engine, "SELECT CAST(s AS INT) + 1 AS n FROM r", "SELECT CAST(s AS INT) + 2 AS n FROM r", tables)


def test_sums_that_are_put_together_wrongly_are_found(engine: SparkEngine) -> None:
    """What a change of an aggregate is computed by is not what its first rows are."""
    text, tables = "SELECT k, count(v) AS n FROM r GROUP BY k", {"r": [("k", "int"), ("v", "int")]}

    def broken(nodes: Nodes) -> Nodes:
        (name, node) = next((name, node) for name, node in nodes.items() if isinstance(node, Aggregate))
        assert node.sums is not None
        return {**nodes, name: replace(node, sums=tuple(replace(each, argument=None) for each in node.sums))}

    compare(engine, text, text, tables)
    with pytest.raises(UnsupportedSql, match="another answer than Spark's"):
        compare(engine, text, text, tables, broken)


def test_ties_that_matter_are_not_taken_for_a_misreading(engine: SparkEngine) -> None:
    """Spark and we may give two answers of which both are right."""
    tables = {"r": [("k", "int"), ("v", "boolean")]}
    for order in ("v", "v DESC"):
        text = f"SELECT k, row_number() OVER (ORDER BY {order}) AS n FROM r"
        compare(engine, text, text, tables)


@pytest.mark.parametrize("value", ["nullif(id + 1, 3)", "id * 2 BETWEEN 1 AND id + 3", "count_if(id = 2)"])
def test_names_that_spark_makes_up_are_no_misreading(engine: SparkEngine, value: str) -> None:
    """What such an expression uses twice has a name in the optimized plan, numbered anew in every plan."""
    text = f"SELECT {value} AS x FROM range(5)"
    require_same_reading(engine, text, text, text)
    with pytest.raises(UnsupportedSql):
        require_same_reading(engine, text, text, text.replace("id", "(id + 7)"))
