"""How large changes are expected to be, what earlier steps teach, and which strategy that makes the cheapest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import pytest

from headwater.algebra.plan import LeafId, Plan
from headwater.algebra.product import products
from headwater.algebra.time import Csn, Interval
from headwater.errors import InvalidInput
from headwater.propagate.choosing import (
    ADVANTAGE,
    REMEMBERED,
    Past,
    Priced,
    Wanted,
    cheapest,
    price,
    relations_in,
)
from headwater.propagate.join_order import InputSize
from headwater.propagate.rates import MEASURED, Load
from headwater.propagate.sizing import LeafFacts, cardinalities, corrections, ratio, sizes_of
from headwater.propagate.strategy import ByTree, NTerm, Recompute, Strategy, best_trees, change_over
from headwater.propagate.tree_stages import StagedDelta
from headwater.sql.lower import lower

TABLES = {"o": ("k", "c", "d"), "l": ("o", "n"), "c": ("k", "n"), "tiny": ("n",)}
ROWS = {"o": 1_500_000, "l": 6_000_000, "c": 150_000, "tiny": 25}
VALUES = {
    "o": {"k": 6_000_000, "c": 150_000, "d": 2_400},
    "l": {"o": 6_000_000},
    "c": {"k": 150_000, "n": 25},
    "tiny": {"n": 25},
}


def sized(text: str, **changed: int | None):  # type: ignore[no-untyped-def]
    plan = lower(text, TABLES, functions=None).plan
    (product,) = products(plan)
    facts, leaves = {}, set()
    for scan in product.scans:
        values = {
            a: VALUES[scan.table][c]
            for c, a in zip(scan.columns, scan.attributes, strict=True)
            if c in VALUES[scan.table]
        }
        facts[scan.leaf] = LeafFacts(InputSize(ROWS[scan.table], values), changed.get(scan.table, 0))
        if scan.table in changed:
            leaves.add(scan.leaf)
    return plan, product, facts, frozenset(leaves)


def test_a_join_along_a_foreign_key_is_as_large_as_the_table_that_refers() -> None:
    _, product, facts, changed = sized("SELECT l.n FROM o JOIN l ON l.o = o.k", o=1500)
    found = cardinalities(product, facts, changed)
    assert found.change_rows(frozenset(product.leaves)) == pytest.approx(6000)


def test_filters_of_single_leaves_make_their_changes_smaller() -> None:
    _, product, facts, changed = sized("SELECT d FROM o WHERE d = 7 AND k > 5 AND c IN (1, 2, 3)", o=1500)
    found = cardinalities(product, facts, changed)
    assert found.change_rows(frozenset(product.leaves)) == pytest.approx(1500 / 2400 / 3 * 3 / 150_000)


def test_a_change_of_unknown_size_is_one_row_in_a_hundred() -> None:
    _, product, facts, changed = sized("SELECT o.d FROM o JOIN c ON o.c = c.k", c=None)
    found = cardinalities(product, facts, changed)
    assert found.sizes[product.scans[1].leaf].change == 1500


def test_corrections_make_up_what_was_found_of_every_set() -> None:
    for seed in range(50):
        random = Random(seed)
        sets = {frozenset(random.sample([LeafId(n) for n in range(5)], random.randint(1, 5))) for _ in range(6)}
        found = {leaves: random.choice([0.1, 0.5, 1, 2, 30]) for leaves in sets}
        factors = corrections(found)
        for leaves, wanted in found.items():
            assert math.prod(f for other, f in factors.items() if other <= leaves) == pytest.approx(wanted)


def test_what_a_step_found_is_what_the_next_one_expects() -> None:
    _, product, facts, changed = sized("SELECT l.n FROM c JOIN o ON o.c = c.k JOIN l ON l.o = o.k", c=100, o=1000)
    plain = cardinalities(product, facts, changed)
    pair, whole = frozenset(product.leaves[:2]), frozenset(product.leaves)
    found = {pair: ratio(plain.change_rows(pair), 70), whole: ratio(plain.change_rows(whole), 9)}
    learned = cardinalities(product, facts, changed, found)
    assert learned.change_rows(pair) == pytest.approx(70)
    assert learned.change_rows(whole) == pytest.approx(9)


def test_products_of_a_union_have_one_size_for_each_leaf() -> None:
    plan = lower("SELECT d FROM o UNION ALL SELECT n FROM c WHERE n = 3", TABLES, functions=None).plan
    facts = {LeafId(0): LeafFacts(InputSize(10), 2), LeafId(1): LeafFacts(InputSize(1000), 0)}
    found = sizes_of(products(plan), facts, frozenset([LeafId(0)]))
    assert {leaf: (size.before, size.change) for leaf, size in found.sizes.items()} == {0: (10, 2), 1: (1000, 0)}


SIX = "SELECT l.n FROM c JOIN o ON o.c = c.k JOIN l ON l.o = o.k JOIN tiny ON tiny.n = c.n"


@dataclass(frozen=True)
class Changed:
    """A log that tells which tables have changes."""

    tables: frozenset[str]

    def has_changes(self, table: str, interval: Interval) -> bool:
        return table in self.tables


def ways(plan: Plan, strategies: Sequence[Strategy], *changed: str) -> dict[Strategy, StagedDelta]:
    log = Changed(frozenset(changed))
    return {each: change_over(plan, Interval(Csn(1), Csn(2)), log, each) for each in strategies}


def test_each_strategy_is_priced_by_its_work_its_statements_and_the_relations_in_them() -> None:
    plan, product, facts, changed = sized(SIX, c=3_000, o=30_000, l=120_000, tiny=1)
    sizes = cardinalities(product, facts, changed)
    tree = best_trees(plan, sizes)
    assert isinstance(tree, ByTree)
    run = ways(plan, (NTerm(), tree, Recompute()), "c", "o", "l", "tiny")
    by = {str(each.strategy): each for each in price(plan, run, sizes)}
    # Each of four terms reads four tables, and with them the changes of those before.
    assert relations_in(run[NTerm()]) == 4 + 5 + 6 + 7
    assert by["n-term"].load == Load(by["n-term"].work, 0, 1, 22)
    assert by["tree"].work <= by["n-term"].work
    assert by["tree"].load.statements == len(run[tree].stages) + 1
    joined = 6_000_000  # rows of the view: one for each of l's
    assert by["recompute"].load == Load(0, pytest.approx(by["recompute"].work + joined), 1, 8)
    assert all(each.predicted == MEASURED.seconds(each.load) for each in by.values())


def test_another_strategy_than_the_first_must_be_clearly_cheaper() -> None:
    def priced(strategy: Strategy, seconds: float) -> Priced:
        return Priced(strategy, 0, Load(0, 0, 0, 0), seconds, seconds)

    first, much, little = priced(NTerm(), 2.0), priced(Recompute(), 1.9 * ADVANTAGE), priced(Recompute(), 1.9)
    assert cheapest([first, little]) is first
    assert cheapest([first, much]) is much


def test_a_strategy_that_took_longer_than_predicted_is_expected_to_do_so_again() -> None:
    plan, product, facts, changed = sized(SIX, o=10)
    sizes = cardinalities(product, facts, changed)
    run = ways(plan, (NTerm(), Recompute()), "o")
    before = price(plan, run, sizes)
    one = Load(0, 0, 1 / MEASURED.statement, 0)  # of a second
    two = Load(0, 0, 2 / MEASURED.statement, 0)
    newest = [Past("n-term", one, 8.0), Past("n-term", two, 4.0), Past("n-term", one, 1.0)]
    past = [*newest, *[Past("n-term", one, 1.0)] * REMEMBERED]
    after = price(plan, run, sizes, past)
    of_all = (8 * 2) ** (1 / len(past))
    assert after[0].seconds == pytest.approx(before[0].seconds * (8 * 2 * 1 * of_all) ** (1 / 4))
    # What was never tried is taken to be off as all the block's steps were.
    assert after[1].seconds == pytest.approx(before[1].seconds * of_all)
    assert after[0].predicted == before[0].predicted


def test_one_slow_step_of_a_strategy_does_not_rule_it_out() -> None:
    plan, product, facts, changed = sized(SIX, o=10)
    sizes = cardinalities(product, facts, changed)
    run = ways(plan, (NTerm(), Recompute()), "o")
    one = Load(0, 0, 1 / MEASURED.statement, 0)
    past = [Past("n-term", one, 4.0), *[Past("recompute", one, 1.0)] * 3]
    after, before = price(plan, run, sizes, past), price(plan, run, sizes)
    assert after[0].seconds < 4 * before[0].seconds / 1.5


def test_the_names_of_strategies() -> None:
    assert Wanted.of({}) is Wanted.N_TERM
    assert Wanted.of({"strategy": "TREE"}) is Wanted.TREE
    with pytest.raises(InvalidInput, match="n-term, tree, recompute, auto"):
        Wanted.named("forest")
