"""Declared constraints in the catalog: what may be declared, and how long each is known to hold."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.catalog.worlds import LINES, ORDERS, commit

from headwater.algebra.constraints import Constraint, ForeignKey, Unique
from headwater.algebra.time import Csn, Interval
from headwater.catalog import BaseTable, Catalog, Lease
from headwater.errors import InvalidInput, NameTaken, UnknownName

ITEMS: BaseTable = replace(LINES, columns=(("l_orderkey", "bigint"), ("l_line", "int"), ("l_note", "string")))
KEY: Constraint = Unique("orders", ("o_orderkey",), primary=True)
REFERENCE: Constraint = ForeignKey("lineitem", ("l_orderkey",), "orders", ("o_orderkey",))


def span(start: int, end: int) -> Interval:
    return Interval(Csn(start), Csn(end))


def declare(catalog: Catalog, lease: Lease) -> None:
    catalog.add_base_table(lease, ORDERS)
    catalog.add_base_table(lease, ITEMS)
    catalog.add_constraint(lease, "order_key", KEY)
    catalog.add_constraint(lease, "item_order", REFERENCE)


def test_constraints_are_stored_as_they_were_declared(catalog: Catalog) -> None:
    with catalog.lease("tables") as lease:
        declare(catalog, lease)
        catalog.add_constraint(lease, "item", Unique("lineitem", ("l_orderkey", "l_line")))
    assert [(each.name, each.constraint) for each in catalog.constraints()] == [
        ("item", Unique("lineitem", ("l_orderkey", "l_line"))),
        ("item_order", REFERENCE),
        ("order_key", KEY),
    ]
    assert all(each.held is None and each.broken is None for each in catalog.constraints())
    with pytest.raises(UnknownName, match="Did you mean 'order_key'"):
        catalog.constraint("order_keys")


@pytest.mark.parametrize(
    ("constraint", "why"),
    [
        (Unique("order", ("o_orderkey",)), "not a tracked table"),
        (Unique("orders", ("o_key",)), "no column 'o_key'"),
        (Unique("orders", ("o_total",), primary=True), "a primary key already"),
        (ForeignKey("lineitem", ("l_note",), "orders", ("o_orderkey",)), "l_note is string and .* is bigint"),
        (ForeignKey("orders", ("o_orderkey",), "lineitem", ("l_orderkey",)), "not a declared key"),
    ],
)
def test_what_can_not_be_declared_leaves_nothing(catalog: Catalog, constraint: Constraint, why: str) -> None:
    with catalog.lease("tables") as lease:
        declare(catalog, lease)
        before = catalog.constraints()
        with pytest.raises(InvalidInput, match=why):
            catalog.add_constraint(lease, "other", constraint)
        with pytest.raises(NameTaken):
            catalog.add_constraint(lease, "order_key", Unique("orders", ("o_total",)))
        assert catalog.constraints() == before


def test_knowledge_grows_by_verification_and_ends_where_the_data_breaks_it(catalog: Catalog) -> None:
    with catalog.lease("tables") as lease:
        declare(catalog, lease)
        assert catalog.hold_constraint(lease, "item_order", span(3, 3)).held == span(3, 3)
        assert catalog.hold_constraint(lease, "item_order", span(3, 8)).held == span(3, 8)
        broken = catalog.break_constraint(lease, "item_order", Csn(7), {"key": [12]})
        assert (broken.held, broken.broken) == (span(3, 6), {"key": [12], "csn": 7})
        earlier = catalog.break_constraint(lease, "item_order", Csn(9), {"key": [13]})
        assert (earlier.held, earlier.broken) == (span(3, 6), {"key": [13], "csn": 7})
        with pytest.raises(InvalidInput, match="found broken at csn 7"):
            catalog.hold_constraint(lease, "item_order", span(6, 9))
        mended = catalog.hold_constraint(lease, "item_order", span(9, 9))
        assert (mended.held, mended.broken) == (span(9, 9), None)
        assert catalog.constraint("item_order") == mended


def test_the_key_that_a_foreign_key_refers_to_stays_while_it_does(catalog: Catalog) -> None:
    with catalog.lease("tables") as lease:
        declare(catalog, lease)
        with pytest.raises(InvalidInput, match="the key that item_order refers to"):
            catalog.remove_constraint(lease, "order_key")
        catalog.add_constraint(lease, "order_again", Unique("orders", ("o_orderkey",)))
        catalog.remove_constraint(lease, "order_key")
        catalog.remove_constraint(lease, "item_order")
        catalog.remove_constraint(lease, "order_again")
    assert catalog.constraints() == []


def test_a_table_takes_its_constraints_along_unless_another_refers_to_it(catalog: Catalog) -> None:
    with catalog.lease("tables") as lease:
        declare(catalog, lease)
        with pytest.raises(InvalidInput, match="referred to by item_order"):
            catalog.remove_base_table(lease, "orders")
        catalog.remove_base_table(lease, "lineitem")
        assert [each.name for each in catalog.constraints()] == ["order_key"]
        catalog.remove_base_table(lease, "orders")
    assert catalog.constraints() == []


def test_a_table_that_refers_to_itself_can_go(catalog: Catalog) -> None:
    with catalog.lease("tables") as lease:
        catalog.add_base_table(lease, replace(ORDERS, columns=(("id", "int"), ("manager", "int"))))
        catalog.add_constraint(lease, "ids", Unique("orders", ("id",)))
        catalog.add_constraint(lease, "managers", ForeignKey("orders", ("manager",), "orders", ("id",)))
        catalog.remove_base_table(lease, "orders")
    assert catalog.constraints() == []


def test_of_a_table_followed_anew_nothing_is_known(catalog: Catalog) -> None:
    with catalog.lease("tables") as lease:
        declare(catalog, lease)
        catalog.add_constraint(lease, "item", Unique("lineitem", ("l_orderkey", "l_line")))
        for name in ("order_key", "item_order", "item"):
            catalog.hold_constraint(lease, name, span(0, 0))
        catalog.number_units(lease, [[commit("orders", 4, 2_000)]], captured={"orders": (4, 2_000)})
        catalog.restart_base_table(lease, replace(ORDERS, since_version=9))
    assert {each.name: each.held for each in catalog.constraints()} == {
        "item": span(0, 0),
        "item_order": None,
        "order_key": None,
    }
