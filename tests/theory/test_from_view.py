"""Changes completed from the view itself: what it answers, what it leaves to be asked, and the law with both."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlglot import exp

from headwater.algebra.constraints import Knowledge, Unique
from headwater.algebra.plan import Filter, LeafId, Plan, Project, Scan
from headwater.algebra.product import products
from headwater.algebra.query import BaseDelta, CsnRule, Patched, Query, Snapshot, Term
from headwater.algebra.time import Csn, Interval
from headwater.algebra.violations import violations_at
from headwater.algebra.zset import ZSet
from headwater.engine.reference import History, ReferenceEngine
from headwater.propagate.from_view import Completed, complete, from_view
from tests.theory.keyed import COLUMNS, CONSTRAINTS, KEYS, joined, keyed_world, leaf
from tests.theory.worlds import Law, World, column

ALWAYS = Interval(Csn(0), Csn(99))


def one_type(*_: object) -> bool:
    return True


def asked(world: World, number: LeafId, rest: ZSet, interval: Interval, done: set[LeafId]) -> ZSet:
    """The term of what the view did not answer, from the tables."""
    (product,) = products(world.plan)
    engine = world.engine.with_changes("rest", rest)
    terms: list[Term] = []
    found = []
    for scan in product.scans:
        if scan.leaf == number:
            terms.append(BaseDelta(interval))
            scan = replace(scan, table="rest")
        else:
            terms.append(Patched(interval) if scan.leaf in done else Snapshot(interval.start))
        found.append(scan)
    return engine.run(Query(replace(product, scans=tuple(found)).plan(), tuple(terms), CsnRule.LATEST)).rows


def known_at(world: World, start: Csn) -> Knowledge:
    """Keys that hold at one csn, whatever becomes of them."""
    held = [each for each in KEYS if not list(violations_at(each, world.history, COLUMNS, start))]
    return Knowledge.of(held, Interval(start, start))


@pytest.mark.parametrize("honest", [True, False])
@pytest.mark.parametrize("chunk", range(5))
def test_the_law_holds_at_every_csn_with_what_the_view_answers_and_the_rest_asked(chunk: int, honest: bool) -> None:
    answered = 0
    runs = 30 if honest else 90  # keys that are not kept seldom hold
    for seed in range(chunk * runs, chunk * runs + runs):
        world = keyed_world(seed, honest=honest)
        if len(products(world.plan)) != 1:
            continue
        (product,) = products(world.plan)
        start = Csn(world.random.choice((0, world.random.randint(0, world.last))))
        interval = Interval(start, world.last)
        law, view = Law(world, start), world.engine.view_at(world.plan, start)
        known = known_at(world, start)
        done: set[LeafId] = set()
        for scan in product.scans:
            changes = world.history.base_delta(scan.table, interval)
            how = from_view(product, scan.leaf, interval, known, one_type)
            found = Completed(ZSet(), changes) if how is None else complete(how, changes, view + law.view_delta)
            answered += len(found.view_delta) > 0
            law.add(found.view_delta)
            law.add(asked(world, scan.leaf, found.to_be_asked, interval, done))
            done.add(scan.leaf)
        law.check(interval.end)
    assert answered >= 1


def family() -> History:
    return History.beginning_with({"o": [(1, None, 0), (2, None, 0)], "l": [(1, 5), (1, 5), (2, 6)]})


ORDERS_AND_LINES = Project(
    joined("o", "l"), (("k", column("o0.k")), ("total", column("o0.v")), ("line", column("l1.v")))
)
KNOWN = Knowledge.of(CONSTRAINTS, ALWAYS)


def completed(plan: Plan, history: History, number: int, knowledge: Knowledge = KNOWN) -> Completed:
    (product,) = products(plan)
    interval = Interval(Csn(0), history.now)
    how = from_view(product, LeafId(number), interval, knowledge, one_type)
    assert how is not None
    engine = ReferenceEngine(history)
    return complete(how, history.base_delta(how.scan.table, interval), engine.view_at(plan, Csn(0)))


def test_example_7_an_update_by_the_key_of_a_relation_that_is_shown() -> None:
    """[SzeLing00 §4.3]: UPDATE V SET F = f2 WHERE C = c1, here as what goes and what comes."""
    history = family()
    history.commit({"o": [((1, None, 0), -1), ((1, None, 7), 1)]})
    found = completed(ORDERS_AND_LINES, history, 0)
    assert found.view_delta.consolidate() == ZSet.of([((1, 0, 5), -2, Csn(1)), ((1, 7, 5), 2, Csn(1))])
    assert found.to_be_asked == ZSet()


def test_example_12_a_deletion_by_key() -> None:
    history = family()
    history.commit({"o": [((2, None, 0), -1)]})
    found = completed(ORDERS_AND_LINES, history, 0)
    assert found.view_delta == ZSet.of([((2, 0, 6), -1, Csn(1))])
    assert found.to_be_asked == ZSet()


def test_a_key_that_was_not_there_has_to_be_asked_for_with_all_its_changes() -> None:
    history = family()
    history.commit({"o": [((3, None, 0), 1)]})
    history.commit({"o": [((3, None, 0), -1), ((3, None, 1), 1)]})
    found = completed(ORDERS_AND_LINES, history, 0)
    assert found.view_delta == ZSet()
    assert found.to_be_asked.counts() == {(3, None, 1): 1}
    assert len(found.to_be_asked) == 3


def test_an_update_of_what_a_condition_reads_has_to_be_asked_for() -> None:
    plan = Project(
        Filter(joined("o", "l"), exp.GTE(this=column("o0.v"), expression=exp.Literal.number(0))),
        ORDERS_AND_LINES.outputs,
    )
    history = family()
    history.commit({"o": [((1, None, 0), -1), ((1, None, 7), 1), ((2, None, 0), -1)]})
    found = completed(plan, history, 0)
    assert found.view_delta == ZSet.of([((2, 0, 6), -1, Csn(1))])
    assert set(found.to_be_asked.counts()) == {(1, None, 0), (1, None, 7)}


def test_the_view_shows_a_key_by_the_column_that_refers_to_it() -> None:
    plan = Project(joined("o", "l"), (("of", column("l1.p")), ("total", column("o0.v"))))
    history = family()
    history.commit({"o": [((1, None, 0), -1), ((1, None, 7), 1)]})
    assert completed(plan, history, 0).view_delta.counts() == {(1, 0): -2, (1, 7): 2}
    (product,) = products(plan)
    assert from_view(product, LeafId(0), Interval(Csn(0), Csn(1)), KNOWN, lambda *_: False) is None


@pytest.mark.parametrize(
    ("outputs", "why"),
    [
        ((("line", column("l1.v")),), "the key is not shown"),
        (
            (("k", column("o0.k")), ("sum", exp.Add(this=column("o0.v"), expression=column("l1.v")))),
            "an output is made from two leaves",
        ),
        ((("k", exp.Neg(this=column("o0.k"))),), "the key is shown through an expression"),
    ],
)
def test_what_the_view_can_not_answer(outputs: tuple[tuple[str, exp.Expression], ...], why: str) -> None:
    (product,) = products(Project(joined("o", "l"), outputs))
    assert from_view(product, LeafId(0), Interval(Csn(0), Csn(1)), KNOWN, one_type) is None, why


def test_a_leaf_whose_key_is_not_known_at_the_start_is_not_answered_for() -> None:
    (product,) = products(ORDERS_AND_LINES)
    assert from_view(product, LeafId(1), Interval(Csn(0), Csn(1)), KNOWN, one_type) is None
    known = Knowledge.of([Unique("o", ("k",))], Interval(Csn(0), Csn(1)))
    assert from_view(product, LeafId(0), Interval(Csn(1), Csn(2)), known, one_type) is not None
    assert from_view(product, LeafId(0), Interval(Csn(2), Csn(3)), known, one_type) is None


def test_rows_that_share_a_key_later_are_answered_for_by_the_one_that_had_it() -> None:
    history = family()
    history.commit({"o": [((1, None, 0), -1), ((1, None, 7), 1), ((1, None, 8), 1)]})
    found = completed(ORDERS_AND_LINES, history, 0, Knowledge.of([Unique("o", ("k",))], Interval(Csn(0), Csn(0))))
    assert found.view_delta.counts() == {(1, 0, 5): -2, (1, 7, 5): 2, (1, 8, 5): 2}
    assert found.to_be_asked == ZSet()


def test_an_update_that_the_view_does_not_show_is_no_change() -> None:
    history = family()
    history.commit({"o": [((1, None, 0), -1), ((1, None, 7), 1)]})
    plan = Project(joined("o", "l"), (("k", column("o0.k")), ("line", column("l1.v"))))
    assert completed(plan, history, 0).view_delta.consolidate() == ZSet()


def test_one_leaf_alone_is_answered_for_too() -> None:
    scan: Scan = leaf(0, "o")
    plan = Project(scan, (("k", column("o0.k")), ("v", column("o0.v"))))
    history = family()
    history.commit({"o": [((1, None, 0), -1), ((3, None, 7), 1)]})
    found = completed(plan, history, 0)
    assert found.view_delta == ZSet.of([((1, 0), -1, Csn(1))])
    assert found.to_be_asked == ZSet.of([((3, None, 7), 1, Csn(1))])
