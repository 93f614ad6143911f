"""The reference engine: histories, the four terms, the two csn rules, unions."""

from __future__ import annotations

import pytest
from sqlglot import exp

from headwater.algebra.plan import Filter, Join, Plan, Project, Union
from headwater.algebra.query import BaseDelta, CsnRule, Patched, Present, Query, Snapshot, Term
from headwater.algebra.time import Csn, Interval
from headwater.algebra.zset import ZSet
from headwater.engine.reference import History, ReferenceEngine, earliest_csn, latest_csn
from headwater.propagate.frontier import ChangeLog
from headwater.propagate.width import SizedChangeLog
from tests.theory.worlds import column, natural_join, scan


def interval(start: int, end: int) -> Interval:
    return Interval(Csn(start), Csn(end))


def history() -> History:
    made = History.beginning_with({"a": [(1, "old"), (1, "old")]})
    made.commit({"a": [((1, "old"), -1), ((2, "new"), 1)]})
    made.commit({"b": [((2, "b"), 1)]})
    made.commit({"a": [((3, "x"), 1), ((3, "x"), -1)]})
    return made


class TestHistory:
    def test_states(self) -> None:
        assert history().state("a", Csn(0)).counts() == {(1, "old"): 2}
        assert history().state("a", Csn(3)).counts() == {(1, "old"): 1, (2, "new"): 1}
        assert history().state("unknown", Csn(3)) == ZSet()

    def test_base_deltas_keep_changes_that_cancel_out(self) -> None:
        assert history().base_delta("a", interval(1, 3)) == ZSet.of([((3, "x"), 1, Csn(3)), ((3, "x"), -1, Csn(3))])
        assert history().base_delta("a", interval(0, 1)).counts() == {(1, "old"): -1, (2, "new"): 1}

    def test_it_is_a_change_log(self) -> None:
        log: SizedChangeLog = history()
        plain: ChangeLog = log
        assert plain.has_changes("a", interval(2, 3))
        assert not plain.has_changes("a", interval(1, 2))
        assert not plain.has_changes("a", interval(0, 0))
        assert log.rows_by_csn("a", interval(0, 3)) == [(1, 2), (3, 2)]

    def test_now(self) -> None:
        assert history().now == 3


class TestTerms:
    def rows(self, term: Term) -> ZSet:
        plan: Plan = scan(0, "a")
        return ReferenceEngine(history()).run(Query(plan, (term,), CsnRule.LATEST)).rows

    def test_snapshot(self) -> None:
        assert self.rows(Snapshot(Csn(0))) == ZSet.of([((1, "old"), 2, None)])

    def test_base_delta(self) -> None:
        assert self.rows(BaseDelta(interval(0, 1))) == ZSet.of([((1, "old"), -1, Csn(1)), ((2, "new"), 1, Csn(1))])

    def test_patched_is_the_later_snapshot_in_net_effect_and_keeps_its_csns(self) -> None:
        patched = self.rows(Patched(interval(0, 3)))
        assert patched.net_effect() == self.rows(Snapshot(Csn(3)))
        assert {csn for _, _, csn in patched} == {None, 1, 3}

    def test_present_is_the_state_at_the_execution_time(self) -> None:
        answer = ReferenceEngine(history()).run(Query(scan(0, "a"), (Present(),), CsnRule.EARLIEST))
        assert answer.rows == self.rows(Snapshot(Csn(3)))
        assert answer.execution_time == 3

    def test_sign(self) -> None:
        answer = ReferenceEngine(history()).run(Query(scan(0, "a"), (Snapshot(Csn(0)),), CsnRule.LATEST, sign=-1))
        assert answer.rows == ZSet.of([((1, "old"), -2, None)])


class TestRules:
    def test_rows_without_a_csn_take_no_part(self) -> None:
        for rule in (latest_csn, earliest_csn):
            assert rule(None, None) is None
            assert rule(Csn(3), None) == rule(None, Csn(3)) == 3

    def test_they_differ(self) -> None:
        assert latest_csn(Csn(1), Csn(2)) == 2
        assert earliest_csn(Csn(1), Csn(2)) == 1

    @pytest.mark.parametrize(("rule", "csn"), [(CsnRule.LATEST, 2), (CsnRule.EARLIEST, 1)])
    def test_a_query_names_its_rule(self, rule: CsnRule, csn: int) -> None:
        everything = BaseDelta(interval(0, 3))
        answer = ReferenceEngine(history()).run(Query(natural_join("a", "b"), (everything, everything), rule))
        assert answer.rows == ZSet.of([((2, "new", 2, "b"), 1, Csn(csn))])


class TestOperators:
    def test_a_join_on_null_keys_meets_nothing_and_null_safe_equality_does(self) -> None:
        engine = ReferenceEngine(History.beginning_with({"a": [(None, 1)], "b": [(None, 2)]}))
        leaves = (scan(0, "a"), scan(1, "b"))
        keys = {"this": column("r1.k"), "expression": column("r2.k")}
        assert engine.view_at(Join(leaves, (exp.EQ(**keys),)), Csn(0)) == ZSet()
        assert engine.view_at(Join(leaves, (exp.NullSafeEQ(**keys),)), Csn(0)).counts() == {(None, 1, None, 2): 1}

    def test_a_filter_keeps_true_only(self) -> None:
        engine = ReferenceEngine(History.beginning_with({"a": [(None, 1), (1, 1), (2, 2)]}))
        plan = Filter(scan(0, "a"), exp.EQ(this=column("r1.k"), expression=exp.Literal.number(1)))
        assert engine.view_at(plan, Csn(0)).counts() == {(1, 1): 1}

    def test_a_projection_keeps_duplicates(self) -> None:
        engine = ReferenceEngine(History.beginning_with({"a": [(1, 1), (1, 2)]}))
        assert engine.view_at(Project(scan(0, "a"), (("k", column("r1.k")),)), Csn(0)).counts() == {(1,): 2}

    def test_a_join_without_conditions_is_the_product(self) -> None:
        engine = ReferenceEngine(History.beginning_with({"a": [(1, 1), (1, 1)], "b": [(2, 2), (3, 3)]}))
        crossed = engine.view_at(Join((scan(0, "a"), scan(1, "b")), ()), Csn(0))
        assert crossed.counts() == {(1, 1, 2, 2): 2, (1, 1, 3, 3): 2}

    def test_a_condition_on_what_is_not_there_is_refused(self) -> None:
        condition = exp.EQ(this=column("r1.k"), expression=column("r9.k"))
        with pytest.raises(ValueError, match="does not have"):
            ReferenceEngine(History()).view_at(Join((scan(0, "a"), scan(1, "b")), (condition,)), Csn(0))


class TestUnions:
    """(r1 ∪ r2) ⋈ r3: a query stands for the products that contain every marked leaf."""

    plan = Join(
        (Union((scan(0, "a"), scan(1, "b")), ("u.k", "u.v")), scan(2, "c")),
        (exp.EQ(this=column("u.k"), expression=column("r3.k")),),
    )

    def run(self, *terms: Term) -> dict[tuple[object, ...], int]:
        made = History.beginning_with({"a": [(1, "a")], "b": [(1, "b")], "c": [(1, "c")]})
        made.commit({table: [((1, table.upper()), 1)] for table in "abc"})
        return ReferenceEngine(made).run(Query(self.plan, terms, CsnRule.LATEST)).rows.counts()

    changes, old = BaseDelta(interval(0, 1)), Snapshot(Csn(0))

    def test_nothing_marked_below_the_union_takes_all_branches(self) -> None:
        assert self.run(self.old, self.old, self.changes) == {(1, "a", 1, "C"): 1, (1, "b", 1, "C"): 1}

    def test_a_marked_branch_excludes_the_others(self) -> None:
        assert self.run(self.changes, self.old, self.old) == {(1, "A", 1, "c"): 1}
        assert self.run(self.old, self.changes, self.changes) == {(1, "B", 1, "C"): 1}

    def test_changes_of_two_branches_never_meet(self) -> None:
        assert Query(self.plan, (self.changes, self.changes, self.old), CsnRule.LATEST).is_empty
        assert self.run(self.changes, self.changes, self.old) == {}
