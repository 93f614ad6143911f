"""The three views of the demo."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DemoView:
    name: str
    tables: tuple[str, ...]
    text: str


VIEWS = (
    # Three tables and a filter.
    DemoView(
        "shipments",
        ("customer", "orders", "lineitem"),
        """
SELECT c_custkey, c_name, o_orderkey, o_orderdate, l_linenumber, l_shipdate,
       l_extendedprice * (1 - l_discount) AS revenue
FROM customer
JOIN orders ON o_custkey = c_custkey
JOIN lineitem ON l_orderkey = o_orderkey
WHERE c_mktsegment = 'BUILDING' AND o_orderdate < DATE '1997-03-15' AND l_shipdate > DATE '1995-03-15'
""".strip(),
    ),
    # A self-join and UNION ALL; the answer has equal rows more than once.
    DemoView(
        "attention",
        ("orders", "lineitem"),
        """
SELECT o_custkey AS custkey, o_orderkey AS orderkey, 'late line of an urgent order' AS why
FROM orders JOIN lineitem ON l_orderkey = o_orderkey
WHERE o_orderpriority = '1-URGENT' AND l_receiptdate > l_commitdate
UNION ALL
SELECT a.o_custkey, b.o_orderkey, 'second order within 30 days'
FROM orders a JOIN orders b
  ON a.o_custkey = b.o_custkey AND b.o_orderdate > a.o_orderdate AND b.o_orderdate <= date_add(a.o_orderdate, 30)
""".strip(),
    ),
    # Five tables, one of the conditions not an equality.
    DemoView(
        "thin_margin",
        ("lineitem", "orders", "customer", "supplier", "partsupp"),
        """
SELECT o_orderkey, l_linenumber, c_name, s_name, l_extendedprice * (1 - l_discount) AS revenue,
       ps_supplycost * l_quantity AS cost
FROM lineitem
JOIN orders ON o_orderkey = l_orderkey
JOIN customer ON c_custkey = o_custkey
JOIN supplier ON s_suppkey = l_suppkey
JOIN partsupp
  ON ps_partkey = l_partkey AND ps_suppkey = l_suppkey
 AND ps_supplycost * l_quantity > l_extendedprice * (1 - l_discount) * 0.6
""".strip(),
    ),
)
