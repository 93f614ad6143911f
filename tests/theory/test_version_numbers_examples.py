"""Examples 1 to 12 of [SzeLing00], with their tables and results.

"Naive" is incremental computation without compensation, as the paper's examples of what goes wrong have it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from random import Random

import pytest
from sqlglot import exp

from headwater.algebra.plan import Join, LeafId, Plan, Project, Scan
from headwater.algebra.zset import Row
from headwater.propagate.version_numbers import computation as computation_module
from headwater.propagate.version_numbers.access import access_path
from headwater.propagate.version_numbers.compensation import (
    Bag,
    Piece,
    Unknown,
    interfering_updates,
    missing_updates,
    redo_missing,
    undo_interfering,
)
from headwater.propagate.version_numbers.computation import Computation
from headwater.propagate.version_numbers.definition import BaseRelation, JoinView
from headwater.propagate.version_numbers.instructions import (
    Apply,
    Ask,
    AskAgain,
    AskAgainForUpdates,
    AwaitsUpdates,
    Event,
    Instruction,
    Patience,
    Tick,
)
from headwater.propagate.version_numbers.numbers import InitialVersion, QueriedVersion, SourceName
from headwater.propagate.version_numbers.questions import SourceAnswer, SubQuery, ViewAnswer, ViewQuery
from headwater.propagate.version_numbers.self_maintenance import EVERYTHING, NOTHING
from headwater.propagate.version_numbers.site import ViewSite
from headwater.propagate.version_numbers.updates import Change, Deletion, Insertion, Modification, Transaction
from headwater.propagate.version_numbers.view_change import AddRows, DeleteWhere, SetWhere
from tests.theory.autonomous import Network, Warehouse
from tests.theory.worlds import column

R1, R2, R3 = LeafId(0), LeafId(1), LeafId(2)
ONE, TWO = SourceName("1"), SourceName("2")


def relation(leaf: int, columns: str) -> Scan:
    return Scan(
        LeafId(leaf), f"R{leaf + 1}", f"r{leaf + 1}", tuple(columns), tuple(f"r{leaf + 1}.{c}" for c in columns)
    )


def natural(leaves: Sequence[Scan], shown: str) -> Plan:
    """The natural join, projected; an attribute of several relations is shown from the first."""
    conditions = [
        exp.EQ(this=column(f"{one.alias}.{name}"), expression=column(f"{other.alias}.{name}"))
        for position, one in enumerate(leaves)
        for other in leaves[position + 1 :]
        for name in one.columns
        if name in other.columns
    ]
    owner = {name: leaf.alias for leaf in reversed(leaves) for name in leaf.columns}
    return Project(Join(tuple(leaves), tuple(conditions)), tuple((n, column(f"{owner[n]}.{n}")) for n in shown))


class Story:
    """A warehouse whose messages are delivered by hand."""

    def __init__(self, plan: Plan, relations: Sequence[BaseRelation], tables: Mapping[str, Sequence[Row]]) -> None:
        network = Network(Random(0), longest=0, loses=0, doubles=0)
        patience = Patience(answer=100, notification=5, silence=1000)
        self.warehouse = Warehouse.over(plan, relations, tables, network, patience=patience)
        self.check = True

    @property
    def site(self) -> ViewSite:
        return self.warehouse.site

    @property
    def view(self) -> dict[Row, int]:
        return self.warehouse.stored

    def commit(self, source: SourceName, changes: Mapping[str, Sequence[Change]]) -> Transaction:
        return self.warehouse.sources[source].commit(changes)

    def hear(self, event: Event, now: float = 0) -> tuple[Instruction, ...]:
        """The site is told; changes are applied at once, everything else is up to the test."""
        instructions = self.site.handle(event, now)
        for instruction in instructions:
            if isinstance(instruction, Apply):
                if self.check:
                    self.warehouse.apply(instruction)
                else:
                    self.apply_unchecked(instruction)
        return instructions

    def apply_unchecked(self, change: Apply) -> None:
        for step in change.steps:
            assert isinstance(step, AddRows)
            for row, count in step.rows:
                self.view[row] = self.view.get(row, 0) + count

    def answer(self, question: SubQuery | ViewQuery) -> SourceAnswer | ViewAnswer:
        """What the source, or the view, says now."""
        if isinstance(question, SubQuery):
            return self.warehouse.sources[question.source].answer(question, self.warehouse.view)
        keys = set(question.keys)
        rows = tuple(row for row in self.view if tuple(row[p] for p in question.positions) in keys)
        return ViewAnswer(question.question, rows, self.warehouse.stored_versions)

    def run(self, event: Event) -> list[Instruction]:
        """The site is told, and everything that it asks is answered at once."""
        told: list[Instruction] = []
        pending: list[Event] = [event]
        while pending:
            for instruction in self.hear(pending.pop(0)):
                told.append(instruction)
                if isinstance(instruction, Ask):
                    pending.append(self.answer(instruction.question))
        return told


def asks(instructions: Sequence[Instruction]) -> list[SubQuery | ViewQuery]:
    return [each.question for each in instructions if isinstance(each, Ask)]


# ---------------------------------------------------------------------- examples 1 to 4


def two_relations() -> Story:
    """R1(A, B) holds (a1, b1), R2(B, C) nothing; V = π_C R1 ⋈ R2."""
    plan = natural((relation(0, "AB"), relation(1, "BC")), "C")
    relations = (BaseRelation("R1", ONE, ("A",)), BaseRelation("R2", TWO, ("B",)))
    return Story(plan, relations, {"R1": [("a1", "b1")], "R2": []})


INSERT_R1 = {"R1": [Insertion(("a2", "b1"))]}
INSERT_R2 = {"R2": [Insertion(("b1", "c1"))]}


@pytest.fixture
def naive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(computation_module, "compensate", lambda piece, *_: piece)
    monkeypatch.setattr(ViewSite, "_lacking", lambda *_: {})


def test_example_1_updates_that_do_not_interfere() -> None:
    story = two_relations()
    assert story.view == {}
    first = story.run(story.commit(ONE, INSERT_R1))
    assert [(q.source, [w.probes for w in q.wanted]) for q in asks(first)] == [(TWO, [(("b1",),)])]
    assert story.view == {}
    second = story.run(story.commit(TWO, INSERT_R2))
    assert [(q.source, [w.probes for w in q.wanted]) for q in asks(second)] == [(ONE, [(("b1",),)])]
    assert story.view == {("c1",): 2}


def interleaved(story: Story, *, notified_first: bool, lost: bool = False) -> Iterator[tuple[Instruction, ...]]:
    """The second update commits before the first one's query reaches R2, and is told before or after its answer."""
    first = story.commit(ONE, INSERT_R1)
    (question,) = asks(story.hear(first))
    second = story.commit(TWO, INSERT_R2)
    answer = story.answer(question)
    events: list[Event] = [second, answer] if notified_first else [answer, second]
    for event in events:
        if not (lost and event is second):
            yield story.hear(event)


def answer_everything(story: Story, instructions: Iterator[tuple[Instruction, ...]]) -> None:
    for question in [question for told in instructions for question in asks(told)]:
        story.hear(story.answer(question))


def test_example_2_an_interfering_update_makes_the_naive_view_wrong(naive: None) -> None:
    story = two_relations()
    story.check = False
    events = interleaved(story, notified_first=False)
    next(events)
    assert story.view == {("c1",): 1}
    answer_everything(story, events)
    assert story.view == {("c1",): 3}


@pytest.mark.parametrize("notified_first", [True, False])
def test_example_3_an_interfering_update_is_found_whatever_arrives_first(notified_first: bool) -> None:
    story = two_relations()
    answer_everything(story, interleaved(story, notified_first=notified_first))
    assert story.view == {("c1",): 2}
    assert story.warehouse.states == [{}, {}, {("c1",): 2}]


def test_example_3_an_answer_that_shows_an_update_not_heard_of_waits_for_it() -> None:
    story = two_relations()
    events = interleaved(story, notified_first=False)
    next(events)
    (awaited,) = story.site.waits_for()
    assert awaited == AwaitsUpdates(TWO, "R2", (2,), 0)
    assert str(awaited) == "updates [2] of R2, since 0: an answer has seen them"


def test_example_4_a_lost_notification_makes_the_naive_view_wrong(naive: None) -> None:
    story = two_relations()
    story.check = False
    answer_everything(story, interleaved(story, notified_first=False, lost=True))
    assert story.view == {("c1",): 1}


def test_example_4_a_lost_notification_is_found_by_compensation_and_asked_for_again() -> None:
    story = two_relations()
    answer_everything(story, interleaved(story, notified_first=False, lost=True))
    assert story.view == {}
    assert story.hear(Tick(), 4) == ()
    assert story.hear(Tick(), 5) == (AskAgainForUpdates(TWO, "R2", (2,)),)
    (told_again,) = story.warehouse.sources[TWO].told
    answer_everything(story, iter([story.hear(told_again, 6)]))
    assert story.view == {("c1",): 2}


def test_example_4_a_notification_that_a_later_one_overtook_is_asked_for_again() -> None:
    story = two_relations()
    lost = story.commit(TWO, INSERT_R2)
    later = story.commit(TWO, {"R2": [Insertion(("b2", "c2"))]})
    assert story.hear(later, 1) == ()
    assert story.hear(Tick(), 6) == (AskAgain(TWO, versions=(lost.version,)),)
    story.run(lost)
    assert story.view == {("c1",): 1}
    assert story.site.waits_for() == ()


# ---------------------------------------------------------------------- example 5


@pytest.mark.parametrize("neighbour_of_r6", ["R2", "R3", "R4"])
def test_example_5_three_sub_queries_instead_of_five(neighbour_of_r6: str) -> None:
    """Figure 1: R1 joins R4 and R5, R4 joins R2 and R3. Which relation of source 1 joins R6 the text does not tell."""
    edges = [("R1", "R4"), ("R4", "R2"), ("R4", "R3"), ("R1", "R5"), (neighbour_of_r6, "R6")]
    names = [f"R{n}" for n in range(1, 7)]
    leaves = [
        Scan(LeafId(n), name, name, ("k", *map(str, range(5))), (f"{name}.k", *(f"{name}.{e}" for e in range(5))))
        for n, name in enumerate(names)
    ]
    conditions = [
        exp.EQ(this=column(f"{one}.{n}"), expression=column(f"{other}.{n}")) for n, (one, other) in enumerate(edges)
    ]
    plan = Join(tuple(leaves), tuple(conditions))
    homes = dict(zip(names, ["0", "1", "1", "1", "2", "2"], strict=True))
    relations = [BaseRelation(name, SourceName(homes[name])) for name in names]
    path = access_path(JoinView.of(plan, relations), LeafId(0))
    groups = [{names[visit.leaf] for visit in path.visits if visit.group == g} for g in range(len(path.sources))]
    assert groups == [{"R2", "R3", "R4"}, {"R5"}, {"R6"}]
    assert path.sources == ("1", "2", "2")
    assert all(visit.attributes for visit in path.visits), "no cartesian product"

    row = ("k", *"abcde")
    story = Story(plan, relations, {name: [row] for name in names if name != "R1"} | {"R1": []})
    first = asks(story.hear(story.commit(SourceName("0"), {"R1": [Insertion(row)]})))
    assert [(q.source, {w.table for w in q.wanted}) for q in first] == [("1", {"R2", "R3", "R4"}), ("2", {"R5"})]
    (third,) = asks(story.hear(story.answer(first[0])))  # independent of the second
    assert [w.table for w in third.wanted] == ["R6"]
    story.hear(story.answer(third))
    story.hear(story.answer(first[1]))
    assert story.view == {row * 6: 1}


# ---------------------------------------------------------------------- examples 6 to 12


def three_relations() -> Story:
    """R1(A, B, C) at source 1; R2(C, D, E) and R3(E, F, G) at source 2; V = π_BCF."""
    plan = natural((relation(0, "ABC"), relation(1, "CDE"), relation(2, "EFG")), "BCF")
    relations = (
        BaseRelation("R1", ONE, ("A",)),
        BaseRelation("R2", TWO, ("C",)),
        BaseRelation("R3", TWO, ("E",)),
    )
    tables = {
        "R1": [("a1", "b1", "c1")],
        "R2": [("c1", "d1", "e1"), ("c2", "d2", "e2")],
        "R3": [("e1", "f1", "g1"), ("e2", "f2", "g2")],
    }
    story = Story(plan, relations, tables)
    assert story.view == {("b1", "c1", "f1"): 1}
    return story


def after_example_6() -> tuple[Story, list[Instruction]]:
    story = three_relations()
    insertions = [Insertion(("a2", "b2", "c2")), Insertion(("a3", "b3", "c1"))]
    return story, story.run(story.commit(ONE, {"R1": insertions}))


def test_example_6_the_view_answers_for_what_it_shows() -> None:
    story, told = after_example_6()
    in_view, at_source = asks(told)
    assert isinstance(in_view, ViewQuery)
    assert in_view.keys == (("c2",), ("c1",))
    assert isinstance(at_source, SubQuery)
    assert at_source.source == TWO
    assert [(w.table, w.probes) for w in at_source.wanted] == [("R2", (("c2",),)), ("R3", ())]
    (applied,) = [each for each in told if isinstance(each, Apply)]
    assert applied.refreshed == (2, 1, 1)
    assert story.site.highest == [2, 1, 1]
    assert story.view == {("b1", "c1", "f1"): 1, ("b3", "c1", "f1"): 1, ("b2", "c2", "f2"): 1}


def test_example_7_a_modification_by_the_key_of_a_relation_that_determines_it() -> None:
    story, _ = after_example_6()
    told = story.run(story.commit(TWO, {"R3": [Modification(("e1", "f1", "g1"), ("e1", "f2", "g1"))]}))
    (question,) = asks(told)
    assert isinstance(question, SubQuery)
    assert [(w.table, w.probes) for w in question.wanted] == [("R2", (("e1",),))]
    (applied,) = [each for each in told if isinstance(each, Apply)]
    assert applied.steps == (SetWhere((1,), {("c1",): {2: "f2"}}),)  # UPDATE V SET F = f2 WHERE C = c1
    assert story.view == {("b1", "c1", "f2"): 1, ("b3", "c1", "f2"): 1, ("b2", "c2", "f2"): 1}


class Example8:
    """Three transactions in flight at once; the sources have committed all of them before the first query arrives."""

    def __init__(self) -> None:
        self.story = three_relations()
        self.transactions = [
            self.story.commit(TWO, {"R2": [Deletion(("c1", "d1", "e1"))]}),
            self.story.commit(ONE, {"R1": [Insertion(("a3", "b3", "c1")), Insertion(("a2", "b2", "c2"))]}),
            self.story.commit(TWO, {"R3": [Deletion(("e2", "f2", "g2"))]}),
        ]
        self.asked: list[list[SubQuery | ViewQuery]] = []
        # The first is made to query R1 and R3, "so that we can demonstrate the working of the compensation".
        for means, transaction in zip((NOTHING, EVERYTHING, EVERYTHING), self.transactions, strict=True):
            self.story.site.means = means
            self.asked.append(asks(self.story.hear(transaction)))

    def computation(self, number: int) -> Computation:
        (found,) = self.story.site.in_flight[number].computations
        return found

    def answers(self, number: int) -> list[SourceAnswer | ViewAnswer]:
        return [self.story.answer(question) for question in self.asked[number]]

    def known(self, number: int, leaf: LeafId) -> list[Bag]:
        return [dict(rows) for rows in self.computation(number).added.known[leaf].values()]


def test_example_8_initial_version_numbers() -> None:
    example = Example8()
    assert [example.computation(n).initial for n in range(3)] == [(1, 2, 1), (2, 2, 1), (2, 2, 2)]
    assert example.story.site.refreshed == (1, 1, 1)


def test_example_8_table_1_query_result_for_the_deletion_from_r2() -> None:
    example = Example8()
    from_1, from_2 = example.answers(0)
    assert isinstance(from_1, SourceAnswer)
    assert isinstance(from_2, SourceAnswer)
    assert from_1.rows[R1] == {("a1", "b1", "c1"): 1, ("a3", "b3", "c1"): 1}
    assert from_1.versions == {"R1": 2}
    assert from_2.rows[R3] == {("e1", "f1", "g1"): 1}
    assert from_2.versions == {"R3": 2}
    assert interfering_updates(InitialVersion(1), QueriedVersion(2)) == (2,)


E99 = Unknown("r2.E", R2, ("c1",))


def test_example_8_table_2_query_result_for_the_insertions_into_r1() -> None:
    example = Example8()
    (from_view,) = example.answers(1)
    assert isinstance(from_view, ViewAnswer)
    assert from_view.rows == (("b1", "c1", "f1"),)
    assert from_view.versions == (1, 1, 1)
    assert missing_updates(InitialVersion(2), QueriedVersion(1)) == (2,)
    (question,) = asks(example.story.hear(from_view))
    assert isinstance(question, SubQuery)
    assert [w.probes for w in question.wanted] == [(("c2",),), ()]
    from_2 = example.story.answer(question)
    assert isinstance(from_2, SourceAnswer)
    assert from_2.rows == {R2: {("c2", "d2", "e2"): 1}, R3: {}}
    assert from_2.versions == {"R2": 2, "R3": 2}


def test_example_8_table_3_query_result_for_the_deletion_from_r3() -> None:
    example = Example8()
    (answer,) = example.answers(2)
    assert isinstance(answer, SourceAnswer)
    assert answer.rows == {R2: {("c2", "d2", "e2"): 1}}, "R1 is not asked: the key of R2 is enough"
    assert answer.versions == {"R2": 2}, "and no compensation is needed"


def updates_of(leaf: LeafId, transactions: Sequence[Transaction]) -> dict[int, tuple[Change, ...]]:
    return {u.version: u.changes for t in transactions for u in t.updates if u.table == f"R{leaf + 1}"}


def test_example_9_table_4_a_missing_deletion_drops_what_the_view_showed() -> None:
    example = Example8()
    shown = Piece(frozenset({("c1",)}), {("c1", Unknown("r2.D", R2, ("c1",)), E99): 1}, QueriedVersion(1))
    log = updates_of(R2, example.transactions)
    redone = redo_missing(shown, InitialVersion(2), log.__getitem__, lambda row: row[0] == "c1")
    assert redone == Piece(shown.probes, {}, QueriedVersion(2))
    # and in the computation: (_e99, f1, -) is still known, but no row of R2 leads to it
    example.story.hear(example.answers(1)[0])
    assert example.computation(1).added.known[R2] == {("c1",): {}}
    assert list(example.computation(1).added.known[R3]) == [(E99,)]
    assert list(example.computation(1).added.unmet()) == []


def test_example_10_table_5_an_interfering_deletion_is_added_again() -> None:
    example = Example8()
    nothing = Piece(frozenset({("e2",)}), {}, QueriedVersion(2))
    log = updates_of(R3, example.transactions)
    undone = undo_interfering(nothing, InitialVersion(1), log.__getitem__, lambda row: row[0] == "e2")
    assert undone == Piece(nothing.probes, {("e2", "f2", "g2"): 1}, QueriedVersion(1))
    for question in asks(example.story.hear(example.answers(1)[0])):
        example.story.hear(example.story.answer(question))
    assert example.known(1, R2) == [{}, {("c2", "d2", "e2"): 1}]
    assert {("e2", "f2", "g2"): 1} in example.known(1, R3)
    assert example.computation(1).steps() == (AddRows(((("b2", "c2", "f2"), 1),)),)


def test_example_11_table_6_an_interfering_insertion_is_dropped() -> None:
    example = Example8()
    computation = example.computation(0)
    before = example.story.view.copy()
    for answer in example.answers(0):
        example.story.hear(answer)
    assert [dict(rows) for rows in computation.added.known[R1].values()] == [{("a1", "b1", "c1"): 1}]
    assert [dict(rows) for rows in computation.added.known[R3].values()] == [{("e1", "f1", "g1"): 1}]
    assert computation.steps() == (AddRows(((("b1", "c1", "f1"), -1),)),)
    assert before == {("b1", "c1", "f1"): 1}


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_example_12_the_view_passes_through_three_states_in_order(order: tuple[int, ...]) -> None:
    """Whichever computation completes first, the changes are applied in the order in which they were sent."""
    example = Example8()
    applied: list[Apply] = []
    answers = {number: example.answers(number) for number in order}
    for number in order:
        pending: list[Event] = list(answers[number])
        while pending:
            told = example.story.hear(pending.pop(0))
            applied += [each for each in told if isinstance(each, Apply)]
            pending += [example.story.answer(question) for question in asks(told)]
    assert [each.transaction for each in applied] == example.transactions
    assert applied[2].steps == (DeleteWhere((1,), frozenset({("c2",)})),)  # DELETE FROM V WHERE C = c2
    assert example.story.warehouse.states == [{("b1", "c1", "f1"): 1}, {}, {("b2", "c2", "f2"): 1}, {}]
    assert example.story.site.refreshed == (2, 2, 2)
