"""The 22 queries of TPC-H as views, through rounds of TPC-H's refresh functions.

All views are made before the first round, and the rounds are written once for all of them. Each test then brings one
view to the end of each round, and reads it at two moments within the round: between the commits of new orders and of
their line items, and between the deletion of old lines and of their orders. Every answer is compared with Spark's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import headwater
from headwater.bench.tpch.oracle import Oracle, bound
from headwater.bench.tpch.queries import NUMBERS, TpchQuery, query
from headwater.bench.tpch.refresh import COMMITS, Round
from headwater.bench.tpch.tables import TABLES, load
from headwater.context import Sizes
from headwater.errors import HeadwaterError, InvalidInput
from tests.spark.oracle import assert_rows_equal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCALE_FACTOR = 0.01
FRACTION = 0.05
QUERIES = [query(number, SCALE_FACTOR) for number in NUMBERS]

# The first test of each history waits until its lake is made.
pytestmark = pytest.mark.timeout(3600)


@dataclass
class History:
    """A lake through which all rounds have gone; ``refused`` are the views that could not be made."""

    lake: headwater.Lake
    places: dict[str, Path]
    oracle: Oracle
    ends: list[int]
    refused: dict[str, HeadwaterError]

    def check(self, view: TpchQuery, csn: int, *, at: int | None = None) -> None:
        answer = self.lake.read(view.name, at=at)
        assert_rows_equal(answer, self.oracle.answer(view, csn), label=f"{view.name} at csn {csn}")


@pytest.fixture(scope="module")
def history(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[History]:
    folder = tmp_path_factory.mktemp("tpch")
    places = load(spark, folder / "tables", SCALE_FACTOR)
    with headwater.connect(folder / "lake", spark=spark) as lake:
        for name, place in places.items():
            lake.track(name, place)
        refused = {}
        for view in QUERIES:
            try:
                lake.sql(f"CREATE MATERIALIZED VIEW {view.name} OPTIONS (refresh = 'incremental') AS\n{view.text}")
            except HeadwaterError as error:
                refused[view.name] = error
        ends = [0]
        for number in range(request.param):
            Round(spark, places, FRACTION, seed=number).write()
            ends.append(lake.capture())
        yield History(lake, places, Oracle(lake, places, hold=lambda frame: frame.cache()), ends, refused)
    spark.catalog.clearCache()


each_history = pytest.mark.parametrize(
    "history", [2, pytest.param(10, marks=pytest.mark.soak)], indirect=True, scope="module", ids="{} rounds".format
)


@each_history
def test_a_round_is_eight_commits_to_six_tables(history: History) -> None:
    assert all(end - start == COMMITS for start, end in pairwise(history.ends))
    changed = {unit.table for unit in history.lake.units_of_work()}
    assert changed == set(TABLES) - {"region", "nation"}


@each_history
def test_after_the_rounds_the_rows_still_join(history: History, spark: SparkSession) -> None:
    table = {name: f"delta.`{place}`" for name, place in history.places.items()}
    for orphans in (
        f"{table['lineitem']} ANTI JOIN {table['orders']} ON l_orderkey = o_orderkey",
        f"{table['orders']} ANTI JOIN {table['lineitem']} ON l_orderkey = o_orderkey",
        f"{table['orders']} ANTI JOIN {table['customer']} ON c_custkey = o_custkey",
        f"{table['lineitem']} ANTI JOIN {table['partsupp']} ON l_partkey = ps_partkey AND l_suppkey = ps_suppkey",
        f"{table['supplier']} ANTI JOIN {table['nation']} ON n_nationkey = s_nationkey",
    ):
        assert spark.sql(f"SELECT * FROM {orphans}").isEmpty(), orphans
    for name, key in (("orders", "o_orderkey"), ("lineitem", "l_orderkey, l_linenumber")):
        twice = f"SELECT {key} FROM {table[name]} GROUP BY {key} HAVING count(*) > 1"
        assert spark.sql(twice).isEmpty(), name
    for name, place in history.places.items():
        rows = spark.read.format("delta").load(str(place))
        assert rows.where(" OR ".join(f"{column} IS NULL" for column in rows.columns)).isEmpty(), name


@each_history
@pytest.mark.parametrize("view", QUERIES, ids=lambda view: view.name)
def test_a_query_of_tpch_is_kept(history: History, view: TpchQuery) -> None:
    if view.name in history.refused:
        raise history.refused[view.name]
    for start, end in pairwise(history.ends):
        # Tables as large as these are nothing to Spark: take them for large ones, and views for small and for large.
        history.lake._context.sizes = Sizes(large_table=2_000, small_view=100_000 if start == 0 else 0)
        # The last time as one would: to whatever is newest.
        report = history.lake.refresh(view.name, to=None if end == history.ends[-1] else end)
        assert (report.mode, report.from_csn, report.csn) == ("incremental", start, end)
        history.check(view, end)
        for csn in (start + 1, end - 1):
            history.check(view, csn, at=csn)


def test_every_column_of_a_query_has_a_name_of_its_own(spark: SparkSession, tmp_path: Path) -> None:
    places = load(spark, tmp_path, 0.001)
    with bound(spark, {name: spark.read.format("delta").load(str(place)) for name, place in places.items()}):
        for view in QUERIES:
            columns = spark.sql(view.text).columns
            assert len({column.lower() for column in columns}) == len(columns), view.name
            assert all(column.isidentifier() for column in columns), view.name


def test_a_query_or_a_size_that_there_is_not_is_refused(spark: SparkSession) -> None:
    with pytest.raises(InvalidInput):
        query(23, 1)
    with pytest.raises(InvalidInput):
        Round(spark, {}, 0, seed=1)
