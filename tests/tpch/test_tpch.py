"""The 22 queries of TPC-H as views, through rounds of TPC-H's refresh functions.

All views are made before the first round, and the rounds are written once for all of them. Each view is then brought to
the end of each round, and read at two moments within the round: between the commits of new orders and of their line
items, and between the deletion of old lines and of their orders. Every answer is compared with Spark's own. Several
views are at it at once, as in a service; each test tells of one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import reduce
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
from headwater.errors import InvalidInput
from tests.spark.oracle import assert_rows_equal
from tests.support.bags import assert_same_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCALE_FACTOR = 0.01
FRACTION = 0.05
THREADS = 3
QUERIES = [query(number, SCALE_FACTOR) for number in NUMBERS]

# The first test of each history waits until its lake is made.
pytestmark = pytest.mark.timeout(3600)


@dataclass
class History:
    """A lake through which all rounds have gone, and what became of each view on the way."""

    lake: headwater.Lake
    places: dict[str, Path]
    oracle: Oracle
    ends: list[int]
    kept: dict[str, Future[int]]

    def create(self, view: TpchQuery) -> None:
        self.lake.sql(f"CREATE MATERIALIZED VIEW {view.name} OPTIONS (refresh = 'incremental') AS\n{view.text}")

    def keep(self, view: TpchQuery, created: Future[None]) -> int:
        """Bring the view through all rounds; how often it was compared."""
        created.result()
        checks = 0
        for start, end in pairwise(self.ends):
            # The last time as one would: to whatever is newest.
            report = self.lake.refresh(view.name, to=None if end == self.ends[-1] else end)
            assert (report.mode, report.from_csn, report.csn) == ("incremental", start, end)
            checks += self.check(view, now=end, moments=(start + 1, end - 1))
        return checks

    def check(self, view: TpchQuery, *, now: int, moments: Sequence[int]) -> int:
        """Now and at other csns, all in one statement for each side: a statement costs more than its rows."""
        actual = {now: self.lake.read(view.name), **{csn: self.lake.read(view.name, at=csn) for csn in moments}}
        expected = {csn: self.oracle.answer(view, csn) for csn in actual}
        for csn, frame in actual.items():
            assert_same_schema(frame, expected[csn])
        assert_rows_equal(told_apart(actual), told_apart(expected), label=f"{view.name} (csn first)")
        return len(actual)


def told_apart(frames: Mapping[int, DataFrame]) -> DataFrame:
    """The rows of all, each behind the number of its frame."""
    numbered = [frame.selectExpr(f"{number} AS number", "*") for number, frame in frames.items()]
    return reduce(lambda one, other: one.unionAll(other), numbered)


@pytest.fixture(scope="module")
def history(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[History]:
    folder = tmp_path_factory.mktemp("tpch")
    places = load(spark, folder / "tables", SCALE_FACTOR)
    wanted = {
        item.callspec.params["view"].name  # type: ignore[attr-defined]
        for item in request.session.items
        if item.path == request.path and "view" in getattr(getattr(item, "callspec", None), "params", {})
    }
    views = [view for view in QUERIES if view.name in wanted]
    with headwater.connect(folder / "lake", spark=spark) as lake, ThreadPoolExecutor(THREADS) as threads:
        rounds, lake._context.sizes = request.param
        for name, place in places.items():
            lake.track(name, place)
        made = History(lake, places, Oracle(lake, places, hold=lambda frame: frame.cache()), [0], {})
        created = {view.name: threads.submit(made.create, view) for view in views}
        wait(created.values())
        for number in range(rounds):
            Round(spark, places, FRACTION, seed=number).write()
            made.ends.append(lake.capture())
        for view in views:
            made.kept[view.name] = threads.submit(made.keep, view, created[view.name])
        yield made
    spark.catalog.clearCache()


# Tables as large as these are nothing to Spark: they are also taken for large ones, and views for small and for large.
LARGE = Sizes(large_table=2_000, small_view=20)
each_history = pytest.mark.parametrize(
    "history",
    [
        pytest.param((2, Sizes()), id="2 rounds"),
        pytest.param((2, LARGE), id="2 rounds of large tables", marks=pytest.mark.heavy),
        pytest.param((10, LARGE), id="10 rounds", marks=pytest.mark.soak),
    ],
    indirect=True,
    scope="module",
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
    assert history.kept[view.name].result() == 3 * (len(history.ends) - 1)


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
