"""What integrity cuts: the law holds at every csn without it, and a broken constraint is found before it is used."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from sqlglot import exp

from headwater.algebra.constraints import Constraint, ForeignKey, Holding, Knowledge, Unique, broken_at
from headwater.algebra.plan import Join, LeafId, Plan, scans
from headwater.algebra.product import products
from headwater.algebra.query import BaseDelta, CsnRule, Patched, Query, Snapshot
from headwater.algebra.time import Csn, Interval
from headwater.algebra.violations import first_violation
from headwater.engine.reference import History, ReferenceEngine
from headwater.propagate.delta_tree import n_term
from headwater.propagate.fates import ALL, Fate, Piece, PiecedDelta, by_fate, change_by_fates, evaluate
from headwater.propagate.frontier import Frontier, advance
from headwater.propagate.integrity import Reference, cut, cut_staged, cut_step, parents_first, references
from headwater.propagate.strategy import ByTree, NTerm, change_over
from headwater.propagate.tree_stages import NewSide
from headwater.propagate.tree_stages import evaluate as evaluate_staged
from tests.theory.keyed import COLUMNS, CONSTRAINTS, Signed, all_known, joined, keyed_world, leaf
from tests.theory.test_frontier import random_targets
from tests.theory.trees import random_tree, tree
from tests.theory.worlds import HISTORIES, Law, World, column

CHUNKS = 10
WORLDS = HISTORIES // 80  # in each chunk
ORDER_KEY, LINE_ORDER = Unique("o", ("k",), primary=True), ForeignKey("l", ("p",), "o", ("k",))


def span(start: int, end: int) -> Interval:
    return Interval(Csn(start), Csn(end))


def seeds(chunk: int) -> range:
    return range(chunk * WORLDS, (chunk + 1) * WORLDS)


# ------------------------------------------------------------------ the law with constraints that hold


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_the_law_holds_at_every_csn_with_what_is_left_of_a_frontier(chunk: int) -> None:
    run = cut_away = 0
    for seed in seeds(chunk):
        world = keyed_world(seed)
        log, knowledge = Signed(world.history), all_known(world.history)
        law, frontier = Law(world, Csn(0)), Frontier.at(world.plan, Csn(0))
        steps = 0
        while frontier.high_water_mark < world.last:
            steps += 1
            targets = random_targets(world, frontier) if steps < 8 else tuple(world.last for _ in frontier.times)
            step = advance(world.plan, frontier, targets, log)
            left = cut_step(step, knowledge, log)
            run += len(step.queries)
            cut_away += len(step.queries) - len(left.queries)
            for query in left.queries:
                law.run(query)
            frontier = left.after
            law.check(frontier.high_water_mark)
    assert cut_away >= run // 20


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_the_law_holds_at_every_csn_with_what_is_left_of_a_tree(chunk: int) -> None:
    for seed in seeds(chunk)[::2]:
        world = keyed_world(seed)
        log, knowledge = Signed(world.history), all_known(world.history)
        start = Csn(world.random.randint(0, world.last))
        interval = Interval(start, Csn(world.random.randint(start, world.last)))
        law = Law(world, start)
        blocks = products(world.plan)
        for trees in (
            tuple(random_tree(world.random, block.leaves) for block in blocks),
            tuple(n_term(parents_first(block, knowledge.foreign_keys)) for block in blocks),
            tuple(n_term(parents_first(block, knowledge.foreign_keys)[::-1]) for block in blocks),
        ):
            for new_side in (NewSide.LEAVES, NewSide.PARTS):
                delta = change_over(world.plan, interval, log, ByTree(trees), new_side=new_side)
                law.view_delta = evaluate_staged(cut_staged(delta, knowledge, log), world.engine)
                law.check(interval.end)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_the_law_holds_at_every_csn_with_changes_taken_apart_by_fate(chunk: int) -> None:
    saved = 0
    for seed in seeds(chunk):
        world = keyed_world(seed)
        log, knowledge = Signed(world.history), all_known(world.history)
        start = Csn(world.random.choice((0, world.random.randint(0, world.last))))
        interval = Interval(start, world.last)
        delta = change_by_fates(world.plan, interval, log, knowledge)
        law = Law(world, start)
        law.view_delta = evaluate(delta, world.engine, COLUMNS)
        law.check(interval.end)
        # What is cut is empty, so what is left is the whole change, row by row and csn by csn.
        plain = evaluate_staged(change_over(world.plan, interval, log, NTerm()), world.engine)
        assert law.view_delta.consolidate() == plain.consolidate()
        saved += any(not {Fate.BORN, Fate.GONE} & piece.fates for piece in delta.pieces)
    assert saved >= WORLDS // 4


def test_cut_queries_are_empty_at_every_csn() -> None:
    """Not only is the sum right without them: each of them has no net effect at any csn."""
    found = 0
    for seed in range(150):
        world = keyed_world(seed)
        log, knowledge = Signed(world.history), all_known(world.history)
        for start in range(world.last):
            frontier = Frontier.at(world.plan, Csn(start))
            for query in advance(world.plan, frontier, tuple(Csn(start + 1) for _ in frontier.times), log).queries:
                left = cut(query, knowledge, log)
                before = world.engine.run(query).rows.consolidate()
                after = world.engine.run(left).rows.consolidate() if left is not None else ()
                assert tuple(before) == tuple(after)
                found += left is None
    assert found >= 100


# ------------------------------------------------------------------ constraints that do not hold


def verified(history: History, interval: Interval, constraints: Iterable[Constraint]) -> Knowledge:
    """What a check of the interval's changes leaves to know, given that all hold at its start."""
    holdings = []
    for constraint in constraints:
        broken = first_violation(constraint, history, COLUMNS, interval)
        known = interval if broken is None else broken_at(interval, broken)
        if known is not None:
            holdings.append(Holding(constraint, known))
    return Knowledge(tuple(holdings))


def by_each_way(world: World, interval: Interval, knowledge: Knowledge) -> Iterable[Law]:
    log = Signed(world.history)
    trees = ByTree(tuple(n_term(parents_first(block, knowledge.foreign_keys)) for block in products(world.plan)))
    backwards = ByTree(
        tuple(n_term(parents_first(block, knowledge.foreign_keys)[::-1]) for block in products(world.plan))
    )
    for strategy in (NTerm(), trees, backwards):
        law = Law(world, interval.start)
        delta = cut_staged(change_over(world.plan, interval, log, strategy), knowledge, log)
        law.view_delta = evaluate_staged(delta, world.engine)
        yield law
    law = Law(world, interval.start)
    law.view_delta = evaluate(change_by_fates(world.plan, interval, log, knowledge), world.engine, COLUMNS)
    yield law


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_a_broken_constraint_is_found_before_a_wrong_view_is_made(chunk: int) -> None:
    for seed in seeds(chunk):
        world = keyed_world(seed, honest=False, csns=4)
        interval = Interval(Csn(0), world.last)
        for law in by_each_way(world, interval, verified(world.history, interval, CONSTRAINTS)):
            law.check(interval.end)


def test_trusted_blindly_broken_constraints_make_wrong_views() -> None:
    wrong = 0
    for seed in range(80):
        world = keyed_world(seed, honest=False, csns=4)
        world.plan = joined("l", "o") if seed % 2 else BOTH
        interval = Interval(Csn(0), world.last)
        laws = by_each_way(world, interval, all_known(world.history))
        wrong += any(any(law.violations(interval.end)) for law in laws)
    assert wrong >= 5


# ------------------------------------------------------------------ exactly when


def orders_and_lines(*units: dict[str, list[tuple[tuple[int | None, ...], int]]]) -> History:
    history = History.beginning_with({"o": [(1, None, 0), (2, None, 0)], "l": [(1, 0), (1, 1), (2, 0)]})
    for unit in units:
        history.commit(unit)
    return history


NEW_ORDER = {"o": [((3, None, 0), 1)], "l": [((3, 0), 1), ((3, 1), 1)]}
DELETED_ORDER = {"l": [((1, 0), -1), ((1, 1), -1)], "o": [((1, None, 0), -1)]}
BOTH = joined("o", "l")
KNOWN = Knowledge.of([ORDER_KEY, LINE_ORDER], span(0, 9))


def left_of(history: History, plan: Plan, knowledge: Knowledge = KNOWN) -> list[str]:
    log = Signed(history)
    step = advance(plan, Frontier.at(plan, Csn(0)), tuple(history.now for _ in scans(plan)), log)
    return [str(query) for query in cut_step(step, knowledge, log).queries]


def test_a_new_order_has_no_old_line_items() -> None:
    history = orders_and_lines(NEW_ORDER)
    assert left_of(history, BOTH) == ["o0@0+Δ(0, 1] ⋈ l1Δ(0, 1]"]
    assert left_of(history, BOTH, Knowledge()) == ["o0Δ(0, 1] ⋈ l1@0", "o0@0+Δ(0, 1] ⋈ l1Δ(0, 1]"]


def test_with_line_items_first_their_state_is_not_read_for_new_orders() -> None:
    assert left_of(orders_and_lines(NEW_ORDER), joined("l", "o")) == ["l0Δ(0, 1] ⋈ o1@0", "l0Δ(0, 1] ⋈ o1Δ(0, 1]"]


def test_a_deleted_order_leaves_no_line_items_behind() -> None:
    history = orders_and_lines(DELETED_ORDER)
    assert left_of(history, joined("l", "o")) == ["l0Δ(0, 1] ⋈ o1@0"]
    assert len(left_of(history, BOTH)) == 2  # there old line items meet deleted orders


def test_a_deleted_order_without_a_change_of_line_items_had_none() -> None:
    history = History.beginning_with({"o": [(1, None, 0), (2, None, 0)], "l": [(1, 0)]})
    history.commit({"o": [((2, None, 0), -1)]})
    assert left_of(history, BOTH) == []


def test_an_updated_order_is_neither_new_nor_deleted() -> None:
    history = orders_and_lines({"o": [((1, None, 0), -1), ((1, None, 5), 1)]})
    assert left_of(history, BOTH) == ["o0Δ(0, 1] ⋈ l1@0"]


def test_a_key_that_comes_back_is_not_born() -> None:
    """Order 1 dies with its line items at csn 1 and is there again at 2: joined with the line items of 0 it counts."""
    history = orders_and_lines(DELETED_ORDER, {"o": [((1, None, 7), 1)]})
    plan, log = BOTH, Signed(history)
    ahead = advance(plan, Frontier((Csn(1), Csn(0))), (Csn(2), Csn(0)), log)
    assert [str(query) for query in ahead.queries] == ["o0Δ(1, 2] ⋈ l1@0"]
    assert cut_step(ahead, KNOWN, log) == ahead
    assert len(ReferenceEngine(history).run(ahead.queries[0]).rows) == 2


def test_births_need_the_foreign_key_at_the_start_alone() -> None:
    """Line items committed before their order: broken at csn 1, and yet nothing old refers to the new order."""
    history = orders_and_lines({"l": NEW_ORDER["l"]}, {"o": NEW_ORDER["o"]})
    assert first_violation(LINE_ORDER, history, COLUMNS, span(0, 2)) == 1
    knowledge = Knowledge((Holding(ORDER_KEY, span(0, 2)), Holding(LINE_ORDER, span(0, 0))))
    assert left_of(history, BOTH, knowledge) == ["o0@0+Δ(0, 2] ⋈ l1Δ(0, 2]"]
    world = World(0, None, BOTH, history, [])  # type: ignore[arg-type]
    for law in by_each_way(world, span(0, 2), knowledge):
        law.check(Csn(2))


def test_deaths_need_the_foreign_key_at_every_csn() -> None:
    """The order is deleted before its line items: right at the end without its query, and wrong in between."""
    history = orders_and_lines({"o": DELETED_ORDER["o"]}, {"l": DELETED_ORDER["l"]})
    plan = joined("l", "o")
    at_the_ends = Knowledge((Holding(ORDER_KEY, span(0, 2)), Holding(LINE_ORDER, span(0, 0)), _at(LINE_ORDER, 2)))
    assert len(left_of(history, plan, at_the_ends)) == 2
    world = World(0, None, plan, history, [])  # type: ignore[arg-type]
    law, log = Law(world, Csn(0)), Signed(history)
    delta = cut_staged(change_over(plan, span(0, 2), log, NTerm()), KNOWN, log)  # trusted where it is broken
    law.view_delta = evaluate_staged(delta, world.engine)
    wrong = list(law.violations(Csn(2)))
    assert len(wrong) == 1
    assert "from 0 to 1 " in wrong[0]


def test_deaths_are_asked_for_as_far_as_the_line_items_are_seen() -> None:
    """Line items are ahead, at csn 2, where order 1 is there again with a new one: it meets the deletion at csn 1."""
    history = orders_and_lines(DELETED_ORDER, {"o": [((1, None, 7), 1)], "l": [((1, 9), 1)]})
    plan, log = joined("l", "o"), Signed(history)
    step = advance(plan, Frontier((Csn(2), Csn(0))), (Csn(2), Csn(1)), log)
    assert [str(query) for query in step.queries] == ["l0@0+Δ(0, 2] ⋈ o1Δ(0, 1]"]
    assert cut_step(step, KNOWN, log) == step
    left = ReferenceEngine(history).run(step.queries[0]).rows.consolidate()
    assert left.counts() == {(1, 9, 1, None, 0): -1}


def test_the_deletion_of_one_of_two_orders_of_a_key_is_no_death() -> None:
    history = History.beginning_with({"o": [(1, None, 0), (1, None, 1)], "l": [(1, 0)]})
    history.commit({"o": [((1, None, 1), -1)]})
    plan = joined("l", "o")
    only_the_reference = Knowledge.of([LINE_ORDER], span(0, 1))
    assert left_of(history, plan, only_the_reference) == ["l0@0 ⋈ o1Δ(0, 1]"]
    too_late = Knowledge((Holding(LINE_ORDER, span(0, 1)), Holding(ORDER_KEY, span(1, 1))))
    assert left_of(history, plan, too_late) == ["l0@0 ⋈ o1Δ(0, 1]"]


def _at(constraint: Constraint, csn: int) -> Holding:
    return Holding(constraint, span(csn, csn))


def test_nothing_is_cut_without_a_key() -> None:
    history = orders_and_lines(NEW_ORDER)
    assert len(left_of(history, BOTH, Knowledge.of([LINE_ORDER], span(0, 9)))) == 2
    late = Knowledge((Holding(ORDER_KEY, span(0, 0)), Holding(LINE_ORDER, span(0, 9))))
    assert len(left_of(history, BOTH, late)) == 2


def test_an_order_inserted_twice_is_why() -> None:
    history = orders_and_lines({"o": [((1, None, 9), 1)]})
    assert first_violation(ORDER_KEY, history, COLUMNS, span(0, 1)) == 1
    (query,) = advance(BOTH, Frontier.at(BOTH, Csn(0)), (Csn(1), Csn(1)), history).queries
    assert len(ReferenceEngine(history).run(query).rows) == 2


def test_new_families_are_cut_along_the_whole_chain() -> None:
    history = History.beginning_with({"n": [(0, 0)], "c": [(0, 0, 0)], "o": [(0, 0, 0)], "l": [(0, 0)]})
    history.commit({"n": [((1, 0), 1)], "c": [((1, 1, 0), 1)], "o": [((1, 1, 0), 1)], "l": [((1, 0), 1)]})
    plan = joined("n", "c", "o", "l")
    assert left_of(history, plan, all_known(history)) == ["n0@0+Δ(0, 1] ⋈ c1@0+Δ(0, 1] ⋈ o2@0+Δ(0, 1] ⋈ l3Δ(0, 1]"]
    # From the line items outwards no state of a referring table is read but that of none.
    assert left_of(history, joined("l", "o", "c", "n"), all_known(history))[3] == (
        "l0Δ(0, 1] ⋈ o1Δ(0, 1] ⋈ c2Δ(0, 1] ⋈ n3Δ(0, 1]"
    )


def test_the_earliest_rule_is_left_alone() -> None:
    history = orders_and_lines(NEW_ORDER)
    query = Query(BOTH, (BaseDelta(span(0, 1)), Snapshot(Csn(0))), CsnRule.EARLIEST)
    assert cut(query, KNOWN, Signed(history)) is query


def test_a_stage_of_which_nothing_is_left_takes_those_with_it_that_join_it() -> None:
    history = History.beginning_with({"c": [(0, None, 0)], "o": [(0, 0, 0), (1, 0, 0)], "l": [(0, 0)]})
    history.commit({"o": [((1, 0, 0), -1)]})
    plan, log = joined("o", "l", "c"), Signed(history)
    delta = change_over(plan, span(0, 1), log, ByTree((tree(tree(0, 1), 2),)))
    assert len(delta.stages) == 1
    left = cut_staged(delta, all_known(history), log)
    assert (left.stages, left.answer) == ((), ())


def test_only_the_columns_of_the_foreign_key_as_they_are_make_a_reference() -> None:
    lines, orders = leaf(0, "l"), leaf(1, "o")

    def found(*conditions: exp.Expr) -> list[Reference]:
        (product,) = products(Join((lines, orders), conditions))
        return list(references(product, [LINE_ORDER]))

    same = exp.EQ(this=column("o1.k"), expression=column("l0.p"))
    other = exp.EQ(this=column("o1.v"), expression=column("l0.v"))
    assert (
        found(same)
        == found(exp.paren(exp.And(this=same, expression=other)))
        == [Reference(LeafId(0), LeafId(1), LINE_ORDER)]
    )
    computed = exp.EQ(this=column("o1.k"), expression=exp.Add(this=column("l0.p"), expression=exp.Literal.number(0)))
    assert found(other) == found(computed) == found(exp.Or(this=same, expression=other)) == []
    assert found(exp.NullSafeEQ(this=column("o1.k"), expression=column("l0.p"))) == []


def test_leaves_come_after_those_that_they_refer_to() -> None:
    keys = [each for each in CONSTRAINTS if isinstance(each, ForeignKey)]

    def order(*tables: str, on: list[tuple[int, int]] | None = None) -> list[str]:
        (product,) = products(joined(*tables, on=on))
        aliases = {scan.leaf: scan.alias for scan in product.scans}
        return [aliases[number] for number in parents_first(product, keys)]

    assert order("l", "o", "c", "n") == ["n3", "c2", "o1", "l0"]
    assert order("e", "e", on=[(0, 1)]) == ["e1", "e0"]
    assert order("e", "e", on=[(0, 1), (1, 0)]) == ["e0", "e1"]  # a circle


# ------------------------------------------------------------------ fates


def test_the_fates_of_keys() -> None:
    history = orders_and_lines(
        {"o": [((1, None, 0), -1), ((1, None, 1), 1), ((3, None, 0), 1), ((None, None, 0), 1)]},
        {"o": [((2, None, 0), -1), ((3, None, 0), -1), ((4, None, 0), 1), ((4, None, 0), -1)]},
        {"o": [((1, None, 1), -1), ((None, None, 0), -1)]},
    )
    found = by_fate(history.base_delta("o", span(0, 3)), lambda row: row[:1])
    assert {fate: sorted(rows, key=repr) for fate, rows in found.items()} == {
        Fate.BORN: sorted(
            [((3, None, 0), 1, 1), ((3, None, 0), -1, 2), ((None, None, 0), 1, 1), ((None, None, 0), -1, 3)], key=repr
        ),
        Fate.KEPT: sorted([((1, None, 0), -1, 1), ((1, None, 1), 1, 1)], key=repr),
        Fate.GONE: sorted([((2, None, 0), -1, 2), ((1, None, 1), -1, 3)], key=repr),
    }


def told(delta: PiecedDelta) -> list[list[str]]:
    return [[f"{scan.table}{query.terms[scan.leaf]}" for scan in scans(query.plan)] for query in delta.queries]


def test_new_and_deleted_orders_with_their_line_items_are_one_query() -> None:
    history = orders_and_lines(NEW_ORDER, DELETED_ORDER)
    engine = ReferenceEngine(history)
    delta = change_by_fates(BOTH, span(0, 2), Signed(history), KNOWN)
    assert told(delta) == [["o[kept by k]Δ(0, 2]", "l@0"], ["o[born+kept by k]@0+Δ(0, 2]", "lΔ(0, 2]"]]
    by_lines = replace(delta, queries=delta.queries[1:])
    assert not len(evaluate(replace(delta, queries=delta.queries[:1]), engine, COLUMNS))  # no order was updated
    assert len(evaluate(by_lines, engine, COLUMNS).consolidate()) == 4  # two line items come, two go
    assert told(change_by_fates(joined("l", "o"), span(0, 2), Signed(history), KNOWN)) == [
        ["lΔ(0, 2]", "o[born by k]@0+Δ(0, 2]"],
        ["l@0+Δ(0, 2]", "o[kept by k]Δ(0, 2]"],
    ]


def test_without_knowledge_the_pieces_are_whole_changes() -> None:
    history = orders_and_lines(NEW_ORDER, DELETED_ORDER)
    delta = change_by_fates(BOTH, span(0, 2), Signed(history), Knowledge())
    assert delta.pieces == ()
    assert told(delta) == [["oΔ(0, 2]", "l@0"], ["o@0+Δ(0, 2]", "lΔ(0, 2]"]]


def test_with_the_foreign_key_known_at_the_start_alone_deaths_stay_with_the_rest() -> None:
    history = orders_and_lines(NEW_ORDER, DELETED_ORDER)
    knowledge = Knowledge((Holding(ORDER_KEY, span(0, 2)), Holding(LINE_ORDER, span(0, 1))))
    delta = change_by_fates(BOTH, span(0, 2), Signed(history), knowledge)
    fates = {piece.fates for piece in delta.pieces}
    assert frozenset([Fate.KEPT, Fate.GONE]) in fates
    assert Piece("o", ("k",), ALL - {Fate.BORN}).name == "o[kept+gone by k]"
    assert isinstance(delta.queries[-1].terms[0], Patched)
