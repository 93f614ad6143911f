"""Constraints checked before each step rests on them, over histories that keep, break and mend them."""

from __future__ import annotations

from headwater.algebra.constraints import Constraint, ForeignKey, Unique
from headwater.algebra.time import Csn, Interval
from headwater.algebra.violations import first_violation, violations_at
from headwater.engine.reference import History
from headwater.propagate.fates import change_by_fates, evaluate
from headwater.propagate.integrity import cut_staged
from headwater.propagate.strategy import NTerm, change_over
from headwater.propagate.tree_stages import evaluate as evaluate_staged
from headwater.propagate.trust import Check, Standing, checks, knowledge, learned
from tests.theory.keyed import COLUMNS, CONSTRAINTS, Signed, joined, keyed_world
from tests.theory.worlds import HISTORIES, Law

KEY, REFERENCE = Unique("o", ("k",), primary=True), ForeignKey("l", ("p",), "o", ("k",))


def span(start: int, end: int) -> Interval:
    return Interval(Csn(start), Csn(end))


def carried_out(check: Check, history: History) -> Csn | None:
    """The first csn at which a check finds its constraint broken."""
    start = check.changes.start
    if check.state and any(violations_at(check.constraint, history, COLUMNS, start)):
        return start
    return first_violation(check.constraint, history, COLUMNS, check.changes)


def holds(constraint: Constraint, history: History, at: int) -> bool:
    return not any(violations_at(constraint, history, COLUMNS, Csn(at)))


def test_steps_that_check_before_they_trust_keep_the_law_over_any_history() -> None:
    broken = 0
    for seed in range(HISTORIES // 10):
        world = keyed_world(seed, honest=seed % 4 == 0, csns=8)
        random, log = world.random, Signed(world.history)
        standings = {each: Standing(each, span(0, 0)) for each in CONSTRAINTS}
        law, start = Law(world, Csn(0)), Csn(0)
        while start < world.last:
            interval = Interval(start, Csn(random.randint(start + 1, min(start + 3, world.last))))
            for check in checks(world.plan, interval, standings.values(), log, states=random.random() < 0.5):
                after = learned(standings[check.constraint], check, carried_out(check, world.history))
                standings[check.constraint] = after
                broken += after.broken is not None
            known = knowledge(standings.values())
            for each in known.holdings:
                assert all(
                    holds(each.constraint, world.history, at) for at in range(each.span.start, each.span.end + 1)
                )
            if random.random() < 0.5:
                law.add(evaluate(change_by_fates(world.plan, interval, log, known), world.engine, COLUMNS))
            else:
                delta = cut_staged(change_over(world.plan, interval, log, NTerm()), known, log)
                law.add(evaluate_staged(delta, world.engine))
            start = interval.end
            law.check(start)
    assert broken >= 10


def test_a_constraint_that_was_broken_and_mended_is_used_again_after_a_look_at_the_state() -> None:
    history = History.beginning_with({"o": [(1, None, 0), (2, None, 0)], "l": [(1, 0), (2, 0)]})
    history.commit({"o": [((1, None, 0), -1)]})  # its line item stays behind
    history.commit({"l": [((1, 0), -1)]})
    history.commit({"o": [((3, None, 0), 1)], "l": [((3, 0), 1)]})
    plan, log = joined("o", "l"), Signed(history)
    standings = {each: Standing(each, span(0, 0)) for each in (KEY, REFERENCE)}
    told = []
    for start in range(3):
        interval = span(start, start + 1)
        for check in checks(plan, interval, standings.values(), log, states=True):
            standings[check.constraint] = learned(standings[check.constraint], check, carried_out(check, history))
        delta = cut_staged(change_over(plan, interval, log, NTerm()), knowledge(standings.values()), log)
        told.append((standings[REFERENCE].held, standings[REFERENCE].broken, len(delta.answer)))
    assert told == [(span(0, 0), 1, 1), (span(0, 0), 1, 1), (span(2, 3), None, 1)]
    assert [str(query) for query in delta.answer] == ["l1Δ(2, 3] ⋈ o0@2+Δ(2, 3]"]


class Everywhere:
    def has_changes(self, table: str, interval: Interval) -> bool:
        return not interval.is_empty


class Nowhere:
    def has_changes(self, table: str, interval: Interval) -> bool:
        return False


def asked(*standings: Standing, states: bool = True, plan: tuple[str, ...] = ("o", "l")) -> list[Check]:
    return list(checks(joined(*plan), span(4, 6), standings, Everywhere(), states=states))


def test_changes_since_the_last_check_are_enough() -> None:
    assert asked(Standing(KEY, span(0, 4))) == [Check(KEY, False, span(4, 6))]
    assert asked(Standing(KEY, span(0, 2))) == [Check(KEY, False, span(2, 6))]
    assert asked(Standing(KEY, span(0, 6))) == []


def test_a_whole_state_is_looked_at_only_where_that_is_wanted() -> None:
    for standing in (Standing(KEY), Standing(KEY, span(0, 2), Csn(3)), Standing(KEY, span(5, 5))):
        assert asked(standing) == [Check(KEY, True, span(4, 6))]
        assert asked(standing, states=False) == []
    assert asked(Standing(KEY, span(0, 4), Csn(5))) == []  # it is known to be broken inside


def test_what_can_be_had_from_changes_comes_first() -> None:
    found = asked(Standing(KEY), Standing(REFERENCE, span(0, 4)))
    assert [(check.constraint, check.state) for check in found] == [(REFERENCE, False), (KEY, True)]


def test_only_what_says_something_about_the_view_is_checked() -> None:
    standings = [Standing(each, span(0, 4)) for each in CONSTRAINTS]
    assert {check.constraint for check in asked(*standings)} == {KEY, REFERENCE}
    assert {check.constraint for check in asked(*standings, plan=("l", "n"))} == {Unique("n", ("k",), primary=True)}
    assert checks(joined("o", "l"), span(4, 6), standings, Nowhere(), states=True) == ()


def test_what_is_learned_from_a_check() -> None:
    by_changes, by_state = Check(KEY, False, span(2, 6)), Check(KEY, True, span(4, 6))
    known, gone = Standing(KEY, span(0, 2)), Standing(KEY, span(0, 1), Csn(2))
    assert learned(known, by_changes, None) == Standing(KEY, span(0, 6))
    assert learned(known, by_changes, Csn(5)) == Standing(KEY, span(0, 4), Csn(5))
    assert learned(known, by_changes, Csn(3)) == Standing(KEY, span(0, 2), Csn(3))
    assert learned(gone, by_state, None) == Standing(KEY, span(4, 6))
    assert learned(gone, by_state, Csn(6)) == Standing(KEY, span(4, 5), Csn(6))
    assert learned(gone, by_state, Csn(4)) == Standing(KEY, span(0, 1), Csn(4))
    assert learned(Standing(KEY), by_state, Csn(4)) == Standing(KEY, None, Csn(4))
