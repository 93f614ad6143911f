"""The check at CREATE that our plan answers as Spark does: over made-up rows it passes what is right and finds what is
not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headwater.engine.second_reading import require_same_answer
from headwater.engine.spark import SparkEngine
from headwater.errors import UnsupportedSql
from headwater.sql.lower import lower
from tests.spark.constructs import TABLES, UPSTREAM, VIEWS
from tests.spark.test_readings import KEPT
from tests.spark.test_readings import TABLES as READ

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Spark may answer these, and all with ORDER BY and LIMIT, in several ways.
ORDERED = {"latest", "collected", "moments", "top", "top_offset", "top_of_union"}

READ_ONE_WAY = [
    name
    for name, text in (VIEWS | KEPT).items()
    if name not in ORDERED and not ("ORDER BY" in text and "LIMIT" in text)
]

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
}


def columns_of(ddl: str) -> list[tuple[str, str]]:
    return [(part.split()[0], part.split()[1].lower()) for part in ddl.replace(", ", "|").split("|")]


def compare(engine: SparkEngine, text: str, other: str, tables: dict[str, list[tuple[str, str]]]) -> None:
    lowered = lower(other, {name: tuple(n for n, _ in found) for name, found in tables.items()}, functions=None)
    names = [f"column_{place}" for place in range(len(lowered.names))]
    require_same_answer(engine, text, lowered.plan, lowered.nodes, names, tables)


@pytest.fixture(scope="module")
def engine(spark: SparkSession) -> SparkEngine:
    return SparkEngine(lambda: spark)


@pytest.mark.parametrize("case", READ_ONE_WAY)
def test_what_is_read_right_passes(engine: SparkEngine, case: str) -> None:
    text = VIEWS.get(case) or KEPT[case]
    tables = {name: columns_of(ddl) for name, (ddl, _) in (TABLES if case in VIEWS else READ).items()}
    tables |= {name: [("k", "int"), ("n", "bigint")] for name in UPSTREAM}
    compare(engine, text, text, tables)


@pytest.mark.parametrize("case", MISREAD)
def test_what_is_read_wrong_is_found(engine: SparkEngine, case: str) -> None:
    text, other = MISREAD[case]
    tables = {name: columns_of(ddl) for name, (ddl, _) in READ.items()}
    tables["t"].append(("d", "date"))
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
