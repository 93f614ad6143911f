"""The order in which a change meets the other inputs of its join."""

from __future__ import annotations

from sqlglot import exp, parse_one

from headwater.propagate.join_order import InputSize, join_order

NAMES = ["customer", "orders", "lineitem", "supplier", "nation", "region"]
INPUTS = [
    ("c.key", "c.nation"),
    ("o.key", "o.customer"),
    ("l.order", "l.supplier"),
    ("s.key", "s.nation"),
    ("n.key", "n.region"),
    ("r.key",),
]
# TPC-H at scale factor 10.
SIZES = [
    InputSize(1_500_000, {"c.key": 1_500_000, "c.nation": 25}),
    InputSize(15_000_000, {"o.key": 60_000_000, "o.customer": 1_500_000}),
    InputSize(60_000_000, {"l.order": 60_000_000, "l.supplier": 100_000}),
    InputSize(100_000, {"s.key": 100_000, "s.nation": 25}),
    InputSize(25, {"n.key": 25, "n.region": 5}),
    InputSize(5, {"r.key": 5}),
]


def equal(one: str, other: str) -> exp.Expr:
    return parse_one(f"`{one}` = `{other}`", dialect="spark")


FIVE = [
    equal("c.key", "o.customer"),
    equal("l.order", "o.key"),
    equal("l.supplier", "s.key"),
    equal("c.nation", "s.nation"),
    equal("s.nation", "n.key"),
    equal("n.region", "r.key"),
]


def order(start: str) -> list[str]:
    return [NAMES[index] for index in join_order(INPUTS, FIVE, SIZES, NAMES.index(start))]


def test_customers_meet_their_orders_before_the_suppliers_of_their_nation() -> None:
    assert order("customer") == ["customer", "orders", "lineitem", "supplier", "nation", "region"]


def test_suppliers_meet_their_nation_first_and_their_lines_before_its_customers() -> None:
    assert order("supplier") == ["supplier", "nation", "region", "lineitem", "orders", "customer"]


def test_a_key_of_which_nothing_is_known_waits_for_one_that_is_known() -> None:
    inputs = [("a.x", "a.y"), ("b.x",), ("c.y",)]
    conditions = [equal("a.x", "b.x"), equal("a.y", "c.y")]
    sizes = [InputSize(10), InputSize(1_000_000), InputSize(1_000_000, {"c.y": 1_000_000})]
    assert join_order(inputs, conditions, sizes, 0) == [0, 2, 1]


def test_a_cross_product_comes_last() -> None:
    inputs = [("a.x",), ("b.y",), ("c.x",)]
    sizes = [InputSize(10), InputSize(1_000), InputSize(5_000, {"c.x": 50})]
    assert join_order(inputs, [equal("a.x", "c.x")], sizes, 0) == [0, 2, 1]
