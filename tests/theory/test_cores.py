"""The core of a block: one join under several texts, and the block as a projection of it."""

from __future__ import annotations

import pytest

from headwater.algebra.plan import LeafId, Plan, scans
from headwater.engine.reference import evaluate_plan, latest_csn
from headwater.propagate.cores import CoreUse, core_of
from headwater.sql.lower import lower
from tests.theory.worlds import random_world

TABLES = {"orders": ("ok", "ck", "day", "total"), "lines": ("ok", "n", "price"), "customers": ("ck", "name")}


def block(text: str) -> Plan:
    return lower(text, TABLES, functions=None).plan


def use(text: str) -> CoreUse:
    found = core_of(block(text))
    assert found is not None
    return found


@pytest.mark.parametrize("chunk", range(4))
def test_a_block_over_its_core_is_the_block(chunk: int) -> None:
    seen = 0
    for seed in range(chunk * 75, (chunk + 1) * 75):
        world = random_world(seed, passed=True)
        found = core_of(world.plan)
        if found is None:
            continue
        seen += 1
        inputs = {leaf.leaf: world.history.state(leaf.table, world.last) for leaf in scans(world.plan)}
        whole = evaluate_plan(found.whole(found.columns, found.reads), inputs, latest_csn)
        over = evaluate_plan(found.over("core"), {LeafId(0): whole}, latest_csn)
        assert over.counts() == evaluate_plan(world.plan, inputs, latest_csn).counts(), seed
    assert seen > 20


def test_other_names_and_another_order_have_the_same_core() -> None:
    one = use("SELECT o.day, l.price FROM orders o JOIN lines l ON o.ok = l.ok WHERE o.total > 5")
    other = use("SELECT x.n FROM lines x JOIN orders y ON x.ok = y.ok AND y.total > 5")
    assert one.core == other.core
    assert one.reads == {"orders#1.day", "lines#1.price"}
    assert other.reads == {"lines#1.n"}


@pytest.mark.parametrize(
    "text",
    [
        "SELECT o.day FROM orders o JOIN lines l ON o.ok = l.ok WHERE o.total > 6",
        "SELECT o.day FROM orders o JOIN lines l ON o.ok = l.ok",
        "SELECT o.day FROM orders o JOIN lines l ON o.ok = l.n WHERE o.total > 5",
        "SELECT o.day FROM orders o JOIN lines l ON o.ok = l.ok JOIN customers c ON c.ck = o.ck WHERE o.total > 5",
        "SELECT a.day FROM orders a JOIN orders o ON a.ok = o.ok WHERE o.total > 5",
    ],
)
def test_another_join_is_another_core(text: str) -> None:
    assert use(text).core != use("SELECT o.day FROM orders o JOIN lines l ON o.ok = l.ok WHERE o.total > 5").core


def test_an_equality_of_an_equality_is_another_one_than_its_turn() -> None:
    one = use("SELECT o.day FROM orders o JOIN lines l ON (o.ok = l.ok) = o.day")
    other = use("SELECT o.day FROM orders o JOIN lines l ON (l.ok = o.day) = o.ok")
    assert one.core != other.core


def test_leaves_of_one_table_are_told_apart() -> None:
    one = use("SELECT a.day, b.total FROM orders a JOIN orders b ON a.ck = b.ok")
    turned = use("SELECT a.day, b.total FROM orders a JOIN orders b ON a.ok = b.ck")
    assert one.core != turned.core
    assert one.reads == {"orders#1.day", "orders#2.total"}


def test_a_core_is_as_wide_as_all_who_read_it() -> None:
    one = use("SELECT o.day FROM orders o JOIN lines l ON o.ok = l.ok")
    other = use("SELECT o.total, l.price FROM orders o JOIN lines l ON o.ok = l.ok")
    columns = {leaf: one.columns[leaf] | other.columns[leaf] for leaf in one.columns}
    whole = one.whole(columns, one.reads | other.reads)
    assert whole.attributes == ("lines#1.price", "orders#1.day", "orders#1.total")
    assert {scan.alias: set(scan.columns) for scan in scans(whole)} == {
        "o": {"ok", "day", "total"},
        "l": {"ok", "price"},
    }


def test_a_union_and_a_single_table_have_no_core() -> None:
    assert core_of(block("SELECT day FROM orders WHERE total > 5")) is None
    assert core_of(block("SELECT day FROM orders UNION ALL SELECT price FROM lines")) is None
