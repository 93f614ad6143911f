"""Lemmas 1 to 7 and Theorems 1 and 2 of [SzeLing00] as properties, and where we depart from the paper."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp

from headwater.algebra.plan import Filter, Join, LeafId, Plan, Project
from headwater.algebra.zset import Row
from headwater.errors import ContradictingMessages, InternalError
from headwater.propagate.version_numbers import compensation, computation, self_maintenance
from headwater.propagate.version_numbers.access import AccessPath, Visit
from headwater.propagate.version_numbers.compensation import (
    Piece,
    Unknown,
    compensate,
    interfering_updates,
    missing_updates,
    redo_missing,
    undo_interfering,
)
from headwater.propagate.version_numbers.definition import BaseRelation, ForeignKey, JoinView, attributes_of
from headwater.propagate.version_numbers.instructions import Apply, Ask, AskAgain, Tick
from headwater.propagate.version_numbers.numbers import (
    BaseRelationVersion,
    DataSourceVersion,
    InitialVersion,
    QueriedVersion,
    SourceName,
)
from headwater.propagate.version_numbers.questions import SourceAnswer, SubQuery, ViewQuery
from headwater.propagate.version_numbers.self_maintenance import NOTHING
from headwater.propagate.version_numbers.site import ViewSite
from headwater.propagate.version_numbers.updates import (
    Change,
    Deletion,
    Insertion,
    Modification,
    Transaction,
    Update,
    net_changes,
    signed,
)
from headwater.propagate.version_numbers.view_change import AddRows, DeleteWhere, SetWhere, apply_steps, view_delta
from tests.theory.autonomous import Network, Warehouse, changed
from tests.theory.source_worlds import random_schedule, random_warehouse
from tests.theory.worlds import CHUNKS, column, scan, seeds

S, T = SourceName("s"), SourceName("t")

# ---------------------------------------------------------------------- lemmas 1 to 7, theorem 1


def histories(*kinds: type[Change]) -> st.SearchStrategy[tuple[list[Counter[Row]], list[tuple[Change, ...]]]]:
    """The states of one relation, a bag without a key, and the updates between them."""
    row = st.tuples(st.integers(0, 2), st.integers(0, 2))

    @st.composite
    def history(draw: st.DrawFn) -> tuple[list[Counter[Row]], list[tuple[Change, ...]]]:
        states = [Counter(draw(st.lists(row, max_size=4)))]
        updates: list[tuple[Change, ...]] = []
        for _ in range(draw(st.integers(0, 5))):
            changes: list[Change] = []
            rows = states[-1]
            for _ in range(draw(st.integers(0, 3))):
                kind = draw(st.sampled_from(kinds))
                there = sorted(rows.elements())
                if kind is Insertion:
                    change: Change = Insertion(draw(row))
                elif not there:
                    continue
                elif kind is Deletion:
                    change = Deletion(draw(st.sampled_from(there)))
                else:
                    old = draw(st.sampled_from(there))
                    change = Modification(old, (old[0], draw(st.integers(0, 2))))  # no join attribute
                rows = changed(rows, [change])
                changes.append(change)
            states.append(rows)
            updates.append(tuple(changes))
        return states, updates

    return history()


PROBES = st.frozensets(st.tuples(st.integers(0, 2)), max_size=3)
VERSIONS = st.tuples(st.integers(0, 5), st.integers(0, 5))


def asked(rows: Counter[Row], probes: frozenset[Row]) -> dict[Row, int]:
    return {row: count for row, count in rows.items() if row[:1] in probes}


def check_lemma(
    history: tuple[list[Counter[Row]], list[tuple[Change, ...]]],
    probes: frozenset[Row],
    versions: tuple[int, int],
    mend: Callable[..., Piece] = compensate,
) -> None:
    states, updates = history
    initial, queried = (min(version, len(states) - 1) for version in versions)
    answer = Piece(probes, asked(states[queried], probes), QueriedVersion(queried))
    mended = mend(answer, InitialVersion(initial), lambda version: updates[version - 1], lambda row: row[:1] in probes)
    assert mended == Piece(probes, asked(states[initial], probes), QueriedVersion(initial))


@given(VERSIONS)
def test_lemma_1_which_updates_interfere_and_which_are_missing(versions: tuple[int, int]) -> None:
    initial, queried = InitialVersion(versions[0]), QueriedVersion(versions[1])
    interfering, missing = interfering_updates(initial, queried), missing_updates(initial, queried)
    assert interfering == tuple(range(queried, initial, -1))
    assert missing == tuple(range(queried + 1, initial + 1))
    assert not (interfering and missing)
    assert (not interfering and not missing) == (initial == queried)


@pytest.mark.parametrize(
    ("kind", "mend", "ahead"),
    [
        pytest.param(Deletion, redo_missing, False, id="lemma_2_missing_deletion"),
        pytest.param(Insertion, redo_missing, False, id="lemma_3_missing_insertion"),
        pytest.param(Modification, redo_missing, False, id="lemma_4_missing_modification"),
        pytest.param(Deletion, undo_interfering, True, id="lemma_5_interfering_deletion"),
        pytest.param(Insertion, undo_interfering, True, id="lemma_6_interfering_insertion"),
        pytest.param(Modification, undo_interfering, True, id="lemma_7_interfering_modification"),
    ],
)
def test_lemmas_2_to_7(kind: type[Change], mend: Callable[..., Piece], ahead: bool) -> None:
    @given(histories(kind), PROBES, VERSIONS)
    def lemma(
        history: tuple[list[Counter[Row]], list[tuple[Change, ...]]], probes: frozenset[Row], pair: tuple[int, int]
    ) -> None:
        low, high = min(pair), max(pair)
        check_lemma(history, probes, (low, high) if ahead else (high, low), mend)

    lemma()


@given(histories(Insertion, Deletion, Modification), PROBES, VERSIONS)
def test_theorem_1_an_answer_of_any_state_becomes_the_answer_of_the_initial_state(
    history: tuple[list[Counter[Row]], list[tuple[Change, ...]]], probes: frozenset[Row], versions: tuple[int, int]
) -> None:
    check_lemma(history, probes, versions)


@given(histories(Insertion, Deletion, Modification))
def test_net_changes_lead_to_the_same_state_and_touch_no_row_twice(
    history: tuple[list[Counter[Row]], list[tuple[Change, ...]]],
) -> None:
    states, updates = history
    for before, changes in zip(states, updates, strict=False):
        net = net_changes(changes)
        after = Counter(before)
        for row, count in signed(net):
            after[row] += count
        assert {row: count for row, count in after.items() if count} == dict(changed(before, changes))
        assert not {c.row for c in net if isinstance(c, Insertion)} & {c.row for c in net if isinstance(c, Deletion)}
        produced = {c.new for c in net if isinstance(c, Modification)}
        assert not produced & {c.row for c in net if isinstance(c, Deletion)}


def test_a_modified_row_modified_again_is_modified_once() -> None:
    twice = (Modification((1, 1), (1, 2)), Modification((1, 2), (1, 3)))
    assert net_changes(twice) == (Modification((1, 1), (1, 3)),)
    assert net_changes((*twice, Deletion((1, 3)))) == (Deletion((1, 1)),)
    assert net_changes((Insertion((1, 1)), Modification((1, 1), (1, 2)), Deletion((1, 2)))) == ()


def test_a_missing_modification_keeps_the_links_that_the_view_does_not_show() -> None:
    link = Unknown("r2.e", LeafId(1), ("c1",))
    shown = Piece(frozenset({("c1",)}), {("c1", "d1", link): 1}, QueriedVersion(1))
    update = (Modification(("c1", "d1", "e1"), ("c1", "d2", "e1")),)
    redone = redo_missing(shown, InitialVersion(2), lambda _: update, lambda row: row[0] == "c1")
    assert redone.rows == {("c1", "d2", link): 1}


def test_an_answer_that_contradicts_the_log_is_refused() -> None:
    nothing = Piece(frozenset({(1,)}), {}, QueriedVersion(2))
    with pytest.raises(InternalError, match="contradicts the updates"):
        compensate(nothing, InitialVersion(1), lambda _: (Insertion((1, 1)),), lambda _: True)


# ---------------------------------------------------------------------- theorem 2


def run_schedule(seed: int) -> Warehouse:
    """Complete consistency is asserted at every change of the view (``Warehouse.apply``)."""
    random = Random(seed)
    warehouse = random_warehouse(random)
    random_schedule(random, warehouse, random.randint(1, 8))
    assert len(warehouse.states) == 1 + sum(len(source.told) for source in warehouse.sources.values())
    return warehouse


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_theorem_2_the_view_passes_through_exactly_the_states_of_complete_consistency(chunk: int) -> None:
    """1,000 schedules of updates, queries, delays, losses, duplicates and reorderings over 2 to 4 sources."""
    seen: Counter[str] = Counter()
    for seed in seeds(chunk):
        try:
            warehouse = run_schedule(seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        seen["lost"] += warehouse.network.lost
        seen["overtaken"] += warehouse.network.overtakes
        seen["in flight at once"] += warehouse.most_in_flight > 1
        seen["the view was asked"] += len(warehouse.view_queries())
        seen["the view changed"] += sum(one != other for one, other in pairwise(warehouse.states))
    assert all(seen.values()), seen


@given(st.integers(min_value=10**6, max_value=2**63))
def test_theorem_2_on_new_schedules(seed: int) -> None:
    run_schedule(seed)


def paper_rule(view: JoinView, path: AccessPath, visit: Visit) -> bool:
    """[SzeLing00 §4.2] as printed: the key of R_j is in the view and R_j determines the rest."""
    below = path.below(visit.leaf)
    key = view.key(visit.leaf)
    if not key or not all(self_maintenance.enters_by_key(view, each.leaf, each.attributes) for each in below):
        return False
    inside = {visit.leaf, *(each.leaf for each in below)}
    needed = {name for _, expression in view.outputs for name in attributes_of(expression)}
    return view.shows((*visit.attributes, *key, *(name for name in needed if view.owner[name] in inside)))


MUTANTS: dict[str, tuple[object, str, object]] = {
    "interfering updates are not undone": (compensation, "undo_interfering", lambda piece, *_: piece),
    "missing updates are not redone": (compensation, "redo_missing", lambda piece, *_: piece),
    "the view answers for rows that can't be identified": (
        computation.Computation,
        "_identified",
        lambda *_: True,
    ),
    "the view answers as printed": (computation, "view_answers", paper_rule),
}


def violated(seed: int) -> bool:
    try:
        run_schedule(seed)
    except (AssertionError, InternalError):
        return True
    return False


@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_check_catches(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*MUTANTS[mutant])
    assert any(violated(seed) for seed in range(300))


def test_the_same_events_give_the_same_instructions() -> None:
    """So a site that died is rebuilt from the events that it has heard."""
    for seed in range(25):
        warehouse = run_schedule(seed)
        again = ViewSite.at(
            warehouse.view,
            {each.table: BaseRelationVersion(1) for each in warehouse.view.relations},
            dict.fromkeys(warehouse.sources, DataSourceVersion(1)),
            warehouse.site.patience,
            means=warehouse.site.means,
        )
        told = [instruction for event, now in warehouse.events for instruction in again.handle(event, now)]
        assert told == warehouse.instructions


def test_self_maintenance_asks_less_and_changes_nothing() -> None:
    sub_queries: Counter[str] = Counter()
    for seed in range(60):
        warehouse = run_schedule(seed)
        if warehouse.site.means == NOTHING:
            continue
        random = Random(seed)
        plain = random_warehouse(random)
        plain.site.means = NOTHING
        random_schedule(random, plain, random.randint(1, 8))
        if [s.told for s in plain.sources.values()] == [s.told for s in warehouse.sources.values()]:
            sub_queries["with"] += len(warehouse.sub_queries())
            sub_queries["without"] += len(plain.sub_queries())
            assert plain.stored == warehouse.stored
    assert sub_queries["without"] > 20
    assert sub_queries["with"] < 0.9 * sub_queries["without"], sub_queries


# ---------------------------------------------------------------------- one situation each


def joined(*links: tuple[str, str], shown: Sequence[str], leaves: int = 2, where: exp.Expr | None = None) -> Plan:
    """Relations t0, t1, ... of (k, f, v), joined by the given equalities."""
    scans = tuple(scan(number, f"t{number}", ("k", "f", "v")) for number in range(leaves))
    plan: Plan = Join(scans, tuple(exp.EQ(this=column(one), expression=column(other)) for one, other in links))
    if where is not None:
        plan = Filter(plan, where)
    return Project(plan, tuple((name, column(name)) for name in shown))


def quick(plan: Plan, relations: Sequence[BaseRelation], tables: dict[str, list[Row]], **options: object) -> Warehouse:
    return Warehouse.over(plan, relations, tables, Network(Random(0), longest=0, loses=0, doubles=0), **options)


def keyed(number: int, source: SourceName, *foreign: ForeignKey) -> BaseRelation:
    return BaseRelation(f"t{number}", source, ("k",), foreign)


def applied(warehouse: Warehouse) -> list[Apply]:
    return [each for each in warehouse.instructions if isinstance(each, Apply)]


class TestReferentialIntegrity:
    """t0.f refers to t1.k."""

    refers = ForeignKey(("f",), "t1", ("k",))

    def warehouse(self, tables: dict[str, list[Row]], **options: object) -> Warehouse:
        plan = joined(("r1.f", "r2.k"), shown=("r1.v", "r2.v"))
        return quick(plan, (keyed(0, S, self.refers), keyed(1, S)), tables, **options)

    def test_a_row_that_nothing_can_refer_to_yet_is_not_asked_about(self) -> None:
        warehouse = self.warehouse({"t0": [(1, 1, "a")], "t1": [(1, None, "b")]})
        warehouse.commit(S, {"t1": [Insertion((2, None, "c"))]})
        warehouse.commit(S, {"t1": [Deletion((2, None, "c"))]})
        warehouse.settle()
        assert warehouse.sub_queries() == []

    def test_both_inserted_in_one_transaction(self) -> None:
        """The referring relation is computed last, so that the referred row is irrelevant and the join is not."""
        warehouse = self.warehouse({"t0": [], "t1": []})
        warehouse.commit(S, {"t0": [Insertion((1, 1, "a"))], "t1": [Insertion((1, None, "b"))]})
        warehouse.settle()
        assert warehouse.stored == {("a", "b"): 1}
        assert [wanted.table for query in warehouse.sub_queries() for wanted in query.wanted] == ["t1"]

    def test_both_deleted_in_one_transaction(self) -> None:
        warehouse = self.warehouse({"t0": [(1, 1, "a")], "t1": [(1, None, "b")]})
        warehouse.commit(S, {"t1": [Deletion((1, None, "b"))], "t0": [Deletion((1, 1, "a"))]})
        warehouse.settle()
        assert warehouse.stored == {}

    def test_a_row_deleted_and_inserted_under_one_key_was_referred_to_all_the_time(self) -> None:
        warehouse = self.warehouse({"t0": [(1, 1, "a")], "t1": [(1, None, "b")]})
        warehouse.commit(S, {"t1": [Deletion((1, None, "b")), Insertion((1, None, "c"))]})
        warehouse.settle()
        assert warehouse.stored == {("a", "c"): 1}

    def test_pairs_inserted_and_deleted_in_one_transaction(self) -> None:
        """Referring rows are computed first, because of the deletions; so the inserted referred row is relevant."""
        warehouse = self.warehouse({"t0": [(1, 1, "a")], "t1": [(1, None, "b")]})
        t0: list[Change] = [Deletion((1, 1, "a")), Insertion((2, 2, "c"))]
        warehouse.commit(S, {"t0": t0, "t1": [Deletion((1, None, "b")), Insertion((2, None, "d"))]})
        warehouse.settle()
        assert warehouse.stored == {("c", "d"): 1}

    def test_the_check_catches_integrity_taken_to_hold_inside_a_transaction(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        everywhere = frozenset({LeafId(0), LeafId(1)})
        rule = self_maintenance.is_irrelevant
        monkeypatch.setattr(computation, "is_irrelevant", lambda *first: rule(*first[:4], everywhere, everywhere))
        with pytest.raises(AssertionError, match="the view is"):
            self.test_pairs_inserted_and_deleted_in_one_transaction()

    def test_the_check_catches_a_key_that_stays_taken_to_come_and_go(self, monkeypatch: pytest.MonkeyPatch) -> None:
        rule = self_maintenance.is_irrelevant
        nothing = Update("t1", BaseRelationVersion(2), ())
        monkeypatch.setattr(computation, "is_irrelevant", lambda *first: rule(*first[:3], nothing, *first[4:]))
        with pytest.raises(AssertionError, match="the view is"):
            self.test_a_row_deleted_and_inserted_under_one_key_was_referred_to_all_the_time()

    def test_a_promise_between_two_sources_is_none(self) -> None:
        plan = joined(("r1.f", "r2.k"), shown=("r1.v", "r2.v"))
        warehouse = quick(plan, (keyed(0, S, self.refers), keyed(1, T)), {"t0": [(1, 1, "a")], "t1": []})
        warehouse.commit(T, {"t1": [Insertion((1, None, "b"))]})
        warehouse.settle()
        assert warehouse.stored == {("a", "b"): 1}


class TestTheViewAsAnAnswer:
    def test_a_relation_entered_by_something_else_than_its_key_is_asked(self) -> None:
        """As printed, the view answers for t1 by f = 1 with the row that it shows, (1, 1); but (2, 1) has f = 1 too,
        and was not in the view only because t2 had no row for it. By now t2 has one."""
        plan = joined(("r1.f", "r2.f"), ("r2.k", "r3.k"), shown=("r1.k", "r1.f", "r2.k"), leaves=3)
        relations = (keyed(0, S), keyed(1, T), keyed(2, SourceName("u")))
        tables: dict[str, list[Row]] = {"t0": [(1, 1, 0)], "t1": [(1, 1, 0), (2, 1, 0)], "t2": [(1, 0, 0)]}
        warehouse = quick(plan, relations, tables)
        warehouse.commit(SourceName("u"), {"t2": [Insertion((2, 0, 0))]})
        warehouse.commit(S, {"t0": [Insertion((2, 1, 0))]})
        warehouse.settle()
        assert warehouse.stored == {(k, 1, j): 1 for k in (1, 2) for j in (1, 2)}

    def chain(self, **options: object) -> Warehouse:
        """t0.f = t1.k, t1.f = t2.k; the view shows the key of t1 and not that of t2."""
        plan = joined(("r1.f", "r2.k"), ("r2.f", "r3.k"), shown=("r1.v", "r2.k", "r3.v"), leaves=3)
        tables: dict[str, list[Row]] = {"t0": [(1, 1, "a")], "t1": [(1, 7, "b")], "t2": [(7, None, "c")]}
        return quick(plan, (keyed(0, S), keyed(1, T), keyed(2, T)), tables, **options)

    def test_it_answers_with_unknown_links(self) -> None:
        warehouse = self.chain()
        warehouse.commit(S, {"t0": [Insertion((2, 1, "d"))]})
        warehouse.settle()
        assert warehouse.stored == {("a", 1, "c"): 1, ("d", 1, "c"): 1}
        assert len(warehouse.view_queries()) == 1
        assert warehouse.sub_queries() == []

    def test_a_missing_update_of_a_relation_whose_key_it_does_not_show_sends_us_to_the_source(self) -> None:
        warehouse = self.chain()
        site = warehouse.site
        modification = warehouse.sources[T].commit({"t2": [Modification((7, None, "c"), (7, None, "e"))]})
        insertion = warehouse.sources[S].commit({"t0": [Insertion((2, 1, "d"))]})
        (by_key,) = site.handle(modification, 0)
        (of_view,) = site.handle(insertion, 0)
        assert isinstance(by_key, Ask)
        assert isinstance(of_view, Ask)
        assert isinstance(of_view.question, ViewQuery)
        warehouse.network.now = 1
        warehouse.read_view(of_view.question)
        warehouse.carry_out(by_key)
        warehouse.settle()
        assert warehouse.stored == {("a", 1, "e"): 1, ("d", 1, "e"): 1}
        assert [[w.table for w in query.wanted] for query in warehouse.sub_queries()] == [["t1", "t2"]]


class TestModifications:
    plan = joined(("r1.f", "r2.k"), shown=("r1.k", "r1.v", "r2.v"))
    tables: dict[str, list[Row]] = {"t0": [(1, 1, 5), (2, 1, 5)], "t1": [(1, 0, 6)]}  # noqa: RUF012

    def one(self, changes: dict[str, list[Change]], plan: Plan | None = None) -> tuple[Warehouse, Apply]:
        warehouse = quick(plan or self.plan, (keyed(0, S), keyed(1, T)), self.tables)
        warehouse.commit(S if "t0" in changes else T, changes)
        warehouse.settle()
        (change,) = applied(warehouse)
        return warehouse, change

    def test_by_the_key_in_the_view_nothing_is_asked(self) -> None:
        warehouse, change = self.one({"t0": [Modification((1, 1, 5), (1, 1, 9))]})
        assert change.steps == (SetWhere((0,), {(1,): {1: 9}}),)
        assert warehouse.sub_queries() == []

    def test_of_a_join_attribute_is_a_deletion_and_an_insertion(self) -> None:
        _, change = self.one({"t0": [Modification((1, 1, 5), (1, None, 5))]})
        assert change.steps == (DeleteWhere((0,), frozenset({(1,)})),)

    def test_of_a_selected_attribute_may_take_a_row_into_the_view(self) -> None:
        where = exp.GT(this=column("r1.v"), expression=exp.Literal.number(7))
        plan = joined(("r1.f", "r2.k"), shown=("r1.k", "r2.v"), where=where)
        _, change = self.one({"t0": [Modification((1, 1, 5), (1, 1, 9))]}, plan)
        assert change.steps == (AddRows((((1, 6), 1),)),)

    def test_of_what_the_view_does_not_show_changes_nothing(self) -> None:
        warehouse, change = self.one({"t1": [Modification((1, 0, 6), (1, 3, 6))]})
        assert change.steps == ()
        assert warehouse.sub_queries() == []

    def test_of_a_key_is_a_deletion_and_an_insertion(self) -> None:
        """Two rows that exchange their keys would otherwise be set twice."""
        exchange = [Modification((1, 1, 5), (2, 1, 5)), Modification((2, 1, 5), (1, 1, 5))]
        warehouse, _ = self.one({"t0": exchange})
        assert warehouse.stored == {(1, 5, 6): 1, (2, 5, 6): 1}


class TestMessages:
    def warehouse(self) -> Warehouse:
        plan = joined(("r1.f", "r2.k"), shown=("r1.v", "r2.v"))
        return quick(plan, (BaseRelation("t0", S), BaseRelation("t1", T)), {"t0": [], "t1": [(1, 0, "x")]})

    def test_the_newest_notification_lost_is_noticed_by_the_silence(self) -> None:
        warehouse = self.warehouse()
        warehouse.sources[S].commit({"t0": [Insertion((1, 1, "a"))]})  # and nobody is told
        warehouse.settle()
        assert warehouse.stored == {("a", "x"): 1}
        assert AskAgain(S, after=DataSourceVersion(1)) in warehouse.instructions

    def test_a_second_answer_to_one_question_is_dropped(self) -> None:
        warehouse = self.warehouse()
        transaction = warehouse.sources[S].commit({"t0": [Insertion((1, 1, "a"))]})
        (ask,) = warehouse.site.handle(transaction, 0)
        assert isinstance(ask, Ask)
        assert isinstance(ask.question, SubQuery)
        answer = warehouse.sources[T].answer(ask.question, warehouse.view)
        assert len(warehouse.site.handle(answer, 0)) == 1
        assert warehouse.site.handle(answer, 0) == ()

    def test_an_answer_from_before_the_view_s_own_state_is_passed_over_and_asked_for_again(self) -> None:
        """As a lagging replica of the source may give."""
        warehouse = self.warehouse()
        site = warehouse.site
        for value in ("y", "z"):
            warehouse.commit(T, {"t1": [Insertion((1, 0, value))]})
            warehouse.settle()
        now = warehouse.network.now
        (ask,) = site.handle(warehouse.sources[S].commit({"t0": [Insertion((1, 1, "a"))]}), now)
        assert isinstance(ask, Ask)
        old = SourceAnswer(ask.question.question, {LeafId(1): {(1, 0, "x"): 1}}, {"t1": BaseRelationVersion(1)})
        assert site.handle(old, now) == ()
        assert ask in site.handle(Tick(), now + site.patience.answer)

    def test_a_notification_that_contradicts_another_is_refused_and_changes_nothing(self) -> None:
        warehouse = self.warehouse()
        told = warehouse.sources[S].commit({"t0": [Insertion((1, 1, "a"))]})
        third = Transaction(S, DataSourceVersion(3), told.updates)
        warehouse.site.handle(told, 0)
        with pytest.raises(ContradictingMessages, match="another notification has told differently"):
            warehouse.site.handle(third, 0)
        warehouse.site.validate()
        assert warehouse.site.log.newest[S] == 2

    def test_no_quiet_moment_is_needed(self) -> None:
        """Both sources commit at every moment; the view follows a few moments behind and never stops."""
        warehouse = quick(
            joined(("r1.f", "r2.k"), shown=("r1.v", "r2.v")),
            (BaseRelation("t0", S), BaseRelation("t1", T)),
            {"t0": [], "t1": []},
        )
        warehouse.network.longest = 3
        for moment in range(60):
            warehouse.commit(S, {"t0": [Insertion((moment, moment % 3, moment))]})
            warehouse.commit(T, {"t1": [Insertion((moment % 3, 0, moment))]})
            warehouse.network.pass_time()
            if moment > 20:
                assert len(warehouse.states) > 2 * (moment - 20)
        warehouse.settle()
        assert warehouse.most_in_flight > 10
        assert len(warehouse.states) == 121

    def test_transactions_of_tables_that_the_view_does_not_read_are_counted_and_not_kept(self) -> None:
        warehouse = self.warehouse()
        elsewhere = Update("t9", BaseRelationVersion(2), (Insertion((1, 1, 1)),))
        (change,) = warehouse.site.handle(Transaction(S, DataSourceVersion(2), (elsewhere,)), 0)
        assert isinstance(change, Apply)
        assert change.steps == ()
        assert warehouse.site.log.updates == {}
        assert warehouse.site.log.processed[S] == 2

    def test_updates_are_forgotten_when_the_view_reflects_them(self) -> None:
        warehouse = self.warehouse()
        for number in range(20):
            warehouse.commit(S, {"t0": [Insertion((number, 1, number))]})
            warehouse.settle()
        assert warehouse.site.log.updates == {"t0": {}}


def test_a_view_with_a_union_is_refused() -> None:
    from headwater.algebra.plan import Union

    parts = tuple(scan(number, f"t{number}") for number in range(2))
    with pytest.raises(ValueError, match="one join, not a Union"):
        JoinView.of(Union(parts, ("k", "v")), (BaseRelation("t0", S), BaseRelation("t1", T)))


def test_steps_as_a_view_delta() -> None:
    view = {(1, "a"): 2, (2, "b"): 1}
    steps = (DeleteWhere((0,), frozenset({(2,)})), SetWhere((0,), {(1,): {1: "c"}}), AddRows((((1, "c"), 1),)))
    assert apply_steps(view, steps) == {(1, "c"): 3}
    assert view_delta(view, steps).counts() == {(1, "a"): -2, (1, "c"): 3, (2, "b"): -1}
    with pytest.raises(InternalError, match="less than no times"):
        apply_steps(view, (AddRows((((9, "z"), -1),)),))
