"""The paper's data, view and modifications [He05 §5].

The view is the smallest supplycost of a region, over four tables; a modification updates the supplycost of PartSupp
rows or the nationkey of Supplier rows, drawn at random. Spark commits are not single rows, so one modification here is
a commit of some rows, the same number for both tables.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from headwater.demo.tpch import generate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLES = ("region", "nation", "supplier", "partsupp")
JOINED = """FROM partsupp ps, supplier s, nation n, region r
WHERE s.s_suppkey = ps.ps_suppkey AND s.s_nationkey = n.n_nationkey AND n.n_regionkey = r.r_regionkey
  AND r.r_name = 'MIDDLE EAST'"""
LOWEST = f"SELECT min(ps.ps_supplycost) AS lowest {JOINED}"
"""The paper's view. All its leaves advance together, since MIN is no linear block."""
OFFERS = f"SELECT ps.ps_partkey, ps.ps_suppkey, ps.ps_supplycost {JOINED}"
"""The join below it: here each leaf has a frontier of its own, which is what asymmetric batching needs."""
PARTSUPP, SUPPLIER = 0, 1
_SUPPLIERS_OF_A_PART = 4


def load(spark: SparkSession, folder: Path, scale_factor: float) -> dict[str, Path]:
    parquet = folder / "parquet"
    generate(parquet, scale_factor, TABLES)
    places = {}
    for table in TABLES:
        places[table] = folder / table
        rows = spark.read.parquet(str(parquet / f"{table}.parquet"))
        writer = rows.write.format("delta").option("delta.enableChangeDataFeed", "true")
        # An update of some rows must not write a whole table anew: the stream would be slower than what it measures.
        writer.option("delta.enableDeletionVectors", "true").save(str(places[table]))
    return places


@dataclass
class Stream:
    """Commits of ``rows`` rows each; the same for the same seed."""

    spark: SparkSession
    places: dict[str, Path]
    rows: int
    seed: int = 2005
    random: Random = field(init=False)
    parts: int = field(init=False)
    suppliers: int = field(init=False)

    def __post_init__(self) -> None:
        self.random = Random(self.seed)  # noqa: S311 rows to update, not secrets
        self.parts = self._largest("partsupp", "ps_partkey")
        self.suppliers = self._largest("supplier", "s_suppkey")

    def partsupp(self) -> None:
        keys = self._keys(self.parts, max(1, self.rows // _SUPPLIERS_OF_A_PART))
        cost = f"CAST(1 + pmod(xxhash64({self._number()}, ps_partkey, ps_suppkey), 99900) / 100 AS DECIMAL(15, 2))"
        self._update("partsupp", f"ps_supplycost = {cost}", f"ps_partkey IN ({keys})")

    def supplier(self) -> None:
        keys = self._keys(self.suppliers, self.rows)
        nation = f"pmod(xxhash64({self._number()}, s_suppkey), 25)"
        self._update("supplier", f"s_nationkey = {nation}", f"s_suppkey IN ({keys})")

    @property
    def both(self) -> tuple[Callable[[], None], Callable[[], None]]:
        """By the numbers of the leaves."""
        return self.partsupp, self.supplier

    def _update(self, table: str, change: str, where: str) -> None:
        self.spark.sql(f"UPDATE delta.`{self.places[table]}` SET {change} WHERE {where}")

    def _keys(self, most: int, count: int) -> str:
        return ", ".join(map(str, self.random.sample(range(1, most + 1), min(count, most))))

    def _number(self) -> int:
        return self.random.randrange(1 << 30)

    def _largest(self, table: str, key: str) -> int:
        return int(self.spark.sql(f"SELECT max({key}) FROM delta.`{self.places[table]}`").collect()[0][0])  # one row
