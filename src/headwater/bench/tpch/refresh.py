"""What happens to the tables between two refreshes: RF1 and RF2 of TPC-H, and changes of the other tables.

A round is eight Delta commits by a writer that knows nothing of Headwater: new orders and their line items (RF1), then
changed customers, suppliers, parts and part supplies, then deleted line items and their orders (RF2). Between the two
commits of RF1, and of RF2, orders stand without their lines: a view must be right there too.

What changes in the other tables is one of two kinds. ``Kind.VALUES``: balances, phone numbers, prices, costs and
stocks, which change day by day. ``Kind.ATTRIBUTES``: also what queries sort things by, such as a customer's segment, a
supplier's nation, a part's brand, so that every query sees some of it. When one supplier moves to another nation, all
line items that it ever sold count elsewhere, and no table is sorted by supplier.

Everything is Spark SQL over the tables as they stand, and a function of the seed. Values are drawn by a hash of key and
seed. Rows of the other tables are chosen by their keys alone, one of every ``step``: all over the table. Old orders are
neighbours, as in the specification's own refresh files: TPC-H numbers orders in runs of 8 out of every 32 keys, and a
round takes the runs of one stretch. New orders come after all that exist.

New orders are made after orders that exist: the line items keep part and supplier, so every pair is one of partsupp;
quantities, prices and dates are drawn anew, and status, flags and total follow from them. A new order's customer is any
customer, also one that had no orders. One new order in eight is large: so few of the generated ones are that Q18 would
find none in a small lake.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.errors import InvalidInput

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COMMITS = 8  # in a round
_RUN = 32
_STRIDE = 37  # stretches between those of two rounds
_TODAY = "DATE '1995-06-17'"  # TPC-H's current date
_NATIONS = (2, 3, 6, 7, 12, 20)  # Brazil, Canada, France, Germany, Japan, Saudi Arabia
_SEGMENTS = ("AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY")
_SIZES = ("SM", "MED", "LG", "JUMBO", "WRAP")
_BOXES = ("CASE", "BOX", "BAG", "JAR", "PKG", "PACK", "CAN", "DRUM")


class Kind(Enum):
    VALUES = "values"
    ATTRIBUTES = "attributes"


def require_fraction(fraction: float) -> None:
    if not 0 < fraction <= 0.5:
        raise InvalidInput(f"A change of {fraction} is out of range.", remedy="Give one above 0, up to 0.5.")


@dataclass(frozen=True, slots=True)
class Round:
    """One round of changes of about ``fraction`` of each table, at least one row (one run of orders)."""

    spark: SparkSession
    places: Mapping[str, Path]
    fraction: float
    seed: int
    kind: Kind = Kind.ATTRIBUTES

    def __post_init__(self) -> None:
        require_fraction(self.fraction)

    def write(self, busy: Callable[[str], None] = lambda _: None) -> None:
        for what, commit in self._commits():
            busy(what)
            commit()

    def _commits(self) -> Iterator[tuple[str, Callable[[], None]]]:
        new = self._new_orders()
        yield "INSERT new orders", lambda: self._append("orders", new.orders())
        yield "INSERT their line items", lambda: self._append("lineitem", new.lines())
        yield "UPDATE customers", self.customers
        yield "MERGE into suppliers", self.suppliers
        yield "UPDATE parts", self.parts
        yield "MERGE into partsupp", self.partsupp
        old = self._old_orders()
        yield "DELETE line items of old orders", lambda: self._delete("lineitem", old("l_orderkey"))
        yield "DELETE the orders", lambda: self._delete("orders", old("o_orderkey"))

    # ------------------------------------------------------------------ orders and line items

    def _new_orders(self) -> _NewOrders:
        step, last = self._step_of_runs()
        customers = self._largest("customer", "c_custkey")
        return _NewOrders(self, step, (last // _RUN + 1) * _RUN, customers)

    def _old_orders(self) -> Callable[[str], str]:
        """One stretch of runs; stretches of different rounds are different ones as long as there are any left."""
        step, last = self._step_of_runs()
        runs = last // _RUN + 1
        length = max(1, runs // step)
        first = (self.seed * _STRIDE) % max(1, runs // length) * length
        return lambda key: f"{key} >= {first * _RUN} AND {key} < {(first + length) * _RUN}"

    def _step_of_runs(self) -> tuple[int, int]:
        last = self._largest("orders", "o_orderkey")
        return self._step(last // _RUN), last

    # ------------------------------------------------------------------ the other tables

    def customers(self) -> None:
        chosen = self.chosen("c_custkey", self._step(self._largest("customer", "c_custkey")), "customer")
        changed = [f"c_acctbal = {self.money('acctbal', 'c_custkey')}"]
        if self.kind is Kind.ATTRIBUTES:
            changed.append(f"c_mktsegment = {self.one_of(_SEGMENTS, 'segment', 'c_custkey')}")
        self.spark.sql(f"UPDATE {self.table('customer')} SET {', '.join(changed)} WHERE {chosen}")

    def suppliers(self) -> None:
        """By attributes, half move to a nation that a query asks for, and one in four gets complaints, as in Q16."""
        chosen = self.chosen("s_suppkey", self._step(self._largest("supplier", "s_suppkey")), "supplier")
        kind = self.draw(4, "kind", "s_suppkey") if self.kind is Kind.ATTRIBUTES else "3"
        self.spark.sql(
            f"""
            MERGE INTO {self.table("supplier")} t
            USING (
              SELECT s_suppkey, {self.money("acctbal", "s_suppkey")} AS s_acctbal,
                if({kind} < 2, {self.one_of(_NATIONS, "nation", "s_suppkey")}, s_nationkey) AS s_nationkey,
                if({kind} = 2, 'told by a Customer in many Complaints', s_comment) AS s_comment,
                concat(substring(s_phone, 1, 3), {self.draw(1000, "phone", "s_suppkey")}) AS s_phone
              FROM {self.table("supplier")} WHERE {chosen}
            ) s
            ON t.s_suppkey = s.s_suppkey
            WHEN MATCHED THEN UPDATE SET
              s_acctbal = s.s_acctbal, s_nationkey = s.s_nationkey, s_comment = s.s_comment, s_phone = s.s_phone
            """
        )

    def parts(self) -> None:
        """By attributes, one in twenty becomes what Q17 and Q19 ask for, of which a small lake has next to none."""
        chosen = self.chosen("p_partkey", self._step(self._largest("part", "p_partkey")), "part")
        maker, brand = (f"1 + {self.draw(5, what, 'p_partkey')}" for what in ("maker", "brand"))
        size, box = self.one_of(_SIZES, "size", "p_partkey"), self.one_of(_BOXES, "box", "p_partkey")
        wanted = f"{self.draw(20, 'wanted', 'p_partkey')} = 0"
        number = self.draw(50, "p_size", "p_partkey")
        price = self.draw(100_000, "price", "p_partkey")
        changed = [f"p_retailprice = CAST(900 + {price} / 100 AS DECIMAL(15, 2))"]
        if self.kind is Kind.ATTRIBUTES:
            changed += [
                f"p_size = CAST(1 + {number} % if({wanted}, 10, 50) AS INT)",
                f"p_brand = if({wanted}, 'Brand#23', concat('Brand#', {maker}, {brand}))",
                f"p_container = if({wanted}, 'MED BOX', concat({size}, ' ', {box}))",
            ]
        self.spark.sql(f"UPDATE {self.table('part')} SET {', '.join(changed)} WHERE {chosen}")

    def partsupp(self) -> None:
        chosen = self.chosen("ps_partkey", self._step(self._largest("part", "p_partkey")), "partsupp")
        keys = ("ps_partkey", "ps_suppkey")
        self.spark.sql(
            f"""
            MERGE INTO {self.table("partsupp")} t
            USING (
              SELECT ps_partkey, ps_suppkey,
                CAST(1 + {self.draw(9999, "availqty", *keys)} AS INT) AS ps_availqty,
                CAST((100 + {self.draw(99901, "cost", *keys)}) / 100 AS DECIMAL(15, 2)) AS ps_supplycost
              FROM {self.table("partsupp")} WHERE {chosen}
            ) s
            ON t.ps_partkey = s.ps_partkey AND t.ps_suppkey = s.ps_suppkey
            WHEN MATCHED THEN UPDATE SET ps_availqty = s.ps_availqty, ps_supplycost = s.ps_supplycost
            """
        )

    # ------------------------------------------------------------------

    def table(self, name: str) -> str:
        return f"delta.`{self.places[name]}`"

    def draw(self, bound: int, what: str, *keys: str) -> str:
        """A number from 0 up to ``bound``, which it does not reach; different for each ``what``."""
        return f"pmod(xxhash64({self.seed}, '{what}', {', '.join(keys)}), {bound})"

    def money(self, what: str, key: str) -> str:
        """From -999.99 to 9999.99."""
        return f"CAST(({self.draw(1_099_999, what, key)} - 99999) / 100 AS DECIMAL(15, 2))"

    def one_of(self, values: Sequence[str | int], what: str, key: str) -> str:
        listed = ", ".join(map(repr, values))
        return f"element_at(array({listed}), CAST(1 + {self.draw(len(values), what, key)} AS INT))"

    def chosen(self, key: str, step: int, what: str) -> str:
        """Whether a row is among those that change: one key of every ``step``."""
        return f"{key} % {step} = {self.draw(step, what, '0')}"

    def _step(self, keys: int) -> int:
        """No longer than there are keys: something is always chosen."""
        return max(1, min(round(1 / self.fraction), keys))

    def _largest(self, table: str, key: str) -> int:
        return int(self.spark.sql(f"SELECT max({key}) FROM {self.table(table)}").collect()[0][0])  # one row

    def _append(self, table: str, rows: DataFrame) -> None:
        rows.write.format("delta").mode("append").save(str(self.places[table]))

    def _delete(self, table: str, where: str) -> None:
        self.spark.sql(f"DELETE FROM {self.table(table)} WHERE {where}")


@dataclass(frozen=True, slots=True)
class _NewOrders:
    """RF1: new orders after every ``step``-th run of those that exist, with keys from ``first`` on."""

    round: Round
    step: int
    first: int
    customers: int

    def lines(self) -> DataFrame:
        return self.round.spark.sql(self._lines())

    def orders(self) -> DataFrame:
        """Read before the new line items are there: both commits make the same lines of the same old ones."""
        draw = self.round.draw
        return self.round.spark.sql(
            f"""
            SELECT new_key AS o_orderkey,
              1 + {draw(self.customers, "customer", "new_key")} AS o_custkey,
              CASE WHEN shipped = lines THEN 'F' WHEN shipped = 0 THEN 'O' ELSE 'P' END AS o_orderstatus,
              total AS o_totalprice,
              {self._shifted("o_orderdate")} AS o_orderdate,
              o_orderpriority, o_clerk, o_shippriority, o_comment
            FROM (SELECT *, {self._key("o_orderkey")} AS new_key FROM {self.round.table("orders")}
                  WHERE {self._chosen("o_orderkey")})
            JOIN (SELECT l_orderkey AS new_key, count(*) AS lines, count_if(l_linestatus = 'F') AS shipped,
                    CAST(sum(l_extendedprice * (1 + l_tax) * (1 - l_discount)) AS DECIMAL(15, 2)) AS total
                  FROM ({self._lines()}) GROUP BY l_orderkey)
            USING (new_key)
            """
        )

    def _lines(self) -> str:
        draw, line = self.round.draw, ("new_key", "l_linenumber")
        return f"""
            SELECT new_key AS l_orderkey, l_partkey, l_suppkey, l_linenumber,
              CAST(quantity AS DECIMAL(15, 2)) AS l_quantity,
              CAST(l_extendedprice / l_quantity * quantity AS DECIMAL(15, 2)) AS l_extendedprice,
              CAST({draw(11, "discount", *line)} / 100 AS DECIMAL(15, 2)) AS l_discount,
              CAST({draw(9, "tax", *line)} / 100 AS DECIMAL(15, 2)) AS l_tax,
              CASE WHEN receiptdate > {_TODAY} THEN 'N' WHEN {draw(2, "returned", *line)} = 0 THEN 'R' ELSE 'A' END
                AS l_returnflag,
              if(shipdate > {_TODAY}, 'O', 'F') AS l_linestatus,
              shipdate AS l_shipdate, commitdate AS l_commitdate, receiptdate AS l_receiptdate,
              l_shipinstruct, l_shipmode, l_comment
            FROM (
              SELECT *,
                1 + if({draw(8, "large", "new_key")} = 0, 43 + {draw(7, "many", *line)}, {draw(50, "few", *line)})
                  AS quantity,
                {self._shifted("l_shipdate")} AS shipdate,
                {self._shifted("l_commitdate")} AS commitdate,
                {self._shifted("l_receiptdate")} AS receiptdate
              FROM (SELECT *, {self._key("l_orderkey")} AS new_key FROM {self.round.table("lineitem")}
                    WHERE {self._chosen("l_orderkey")})
            )
        """

    def _chosen(self, key: str) -> str:
        return self.round.chosen(f"({key} DIV {_RUN})", self.step, "new orders")

    def _key(self, key: str) -> str:
        """The chosen runs, numbered one after another from ``first`` on; the place within the run stays."""
        return f"({self.first} + ({key} DIV {_RUN} DIV {self.step}) * {_RUN} + {key} % {_RUN})"

    def _shifted(self, date: str) -> str:
        """By up to four months, the order and all its lines alike."""
        return f"date_add({date}, CAST({self.round.draw(241, 'days', 'new_key')} - 120 AS INT))"
