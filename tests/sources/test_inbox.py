"""The inbox over random deliveries: in order, each once, never a guess; and each thing that it waits for."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.sources.change_message import ChangeMessage, Operation, Position, read_debezium, read_plain
from headwater.sources.inbox import (
    AskSource,
    Inbox,
    Instruction,
    Limits,
    Numbering,
    Outcome,
    RepairByQuery,
    StreamName,
)

ORDERS = StreamName("shop", "orders")
LIMITS = Limits(waiting=5, silence=20, askings=3)


def message(version: int, part: int = 1, parts: int | None = 1, row: object = None) -> ChangeMessage:
    after = {"id": (version, part) if row is None else row}
    return ChangeMessage("shop", "orders", Position(version, part), Operation.INSERT, after=after, parts=parts)


def opened(numbering: Numbering = Numbering.DENSE, after: int = 0) -> Inbox:
    inbox = Inbox(LIMITS)
    inbox.open(ORDERS, numbering, after, 0)
    return inbox


def positions(outcome: Outcome) -> list[Position]:
    return [each.position for each in outcome.handed_on]


# ---------------------------------------------------------------------- random deliveries


class Source:
    """A table whose change messages travel badly; asked again, it answers, perhaps badly too."""

    def __init__(self, random: Random, numbering: Numbering) -> None:
        self.random = random
        self.numbering = numbering
        self.loses = random.choice((0.0, 0.2, 0.6))
        self.mute = random.random() < 0.2  # never tells again what it told once
        self.told: list[ChangeMessage] = []
        self.under_way: list[tuple[int, Callable[[], Outcome]]] = []
        self.inbox = opened(numbering)
        self.handed_on: list[Position] = []
        self.covered = 0  # by repairs
        self.now = 0

    def commit(self) -> None:
        dense = self.numbering is Numbering.DENSE
        version = (self.told[-1].position.version if self.told else 0) + (1 if dense else self.random.randint(1, 9))
        parts = self.random.choice((1, 1, 2, 3))
        for part in range(1, parts + 1):
            self.told.append(message(version, part, parts if dense else None))
            self.send(self.told[-1])

    def send(self, told: ChangeMessage) -> None:
        for _ in range(self.random.choice((1, 1, 1, 2))):
            if self.random.random() >= self.loses:
                self.deliver(lambda: self.inbox.receive(told, self.now))

    def deliver(self, act: Callable[[], Outcome]) -> None:
        self.under_way.append((self.now + self.random.randint(0, 6), act))

    def pass_time(self) -> None:
        self.now += 1
        due = [act for at, act in self.under_way if at <= self.now]
        self.under_way = [(at, act) for at, act in self.under_way if at > self.now]
        self.random.shuffle(due)
        for act in due:
            self.take(act())
        for instruction in self.inbox.tick(self.now):
            self.carry_out(instruction)
        self.inbox.validate()

    def take(self, outcome: Outcome) -> None:
        for each in outcome.handed_on:
            self.handed_on.append(each.position)
            assert self.handed_on == self.expected()[: len(self.handed_on)], "out of order, twice, or with a gap"
        for instruction in outcome.instructions:
            self.carry_out(instruction)

    def expected(self) -> list[Position]:
        """What must be handed on, given what repairs have covered so far."""
        return [each.position for each in self.told if each.position in self.handed_on or self.is_open(each)]

    def is_open(self, each: ChangeMessage) -> bool:
        return each.position.version > self.covered

    def carry_out(self, instruction: Instruction) -> None:
        match instruction:
            case AskSource(after=after):
                if self.mute:
                    return
                again = [each for each in self.told if each.position > after]
                for each in again:
                    self.send(each)
                if self.random.random() >= self.loses:
                    newest = self.told[-1].position.version if self.told else 0
                    there = [each.position for each in again]
                    self.deliver(lambda: self.inbox.confirm(ORDERS, newest, there, self.now))
            case RepairByQuery(at_least=at_least):
                version = self.told[-1].position.version
                assert version >= at_least
                if self.random.random() >= self.loses:
                    self.deliver(lambda: self.repair(version))

    def repair(self, version: int) -> Outcome:
        self.covered = max(self.covered, version)
        return self.inbox.repaired(ORDERS, version, self.now)

    @property
    def is_done(self) -> bool:
        return self.handed_on == self.expected() and not self.inbox.waits_for()


@given(st.integers(0, 2**32), st.sampled_from(Numbering))
def test_messages_are_handed_on_in_order_and_once_or_a_repair_stands_for_them(seed: int, numbering: Numbering) -> None:
    random = Random(seed)
    source = Source(random, numbering)
    for _ in range(random.randint(1, 12)):
        source.commit()
        for _ in range(random.randint(0, 4)):
            source.pass_time()
    for _ in range(2000):
        if source.is_done:
            break
        source.pass_time()
        if source.mute and source.now % 50 == 0:
            source.commit()  # nobody tells a mute source's newest change but the next one
    assert source.is_done, source.inbox.waits_for()


# ---------------------------------------------------------------------- one situation each


def test_order_by_version_whatever_the_arrival() -> None:
    inbox = opened()
    assert inbox.receive(message(2), 1) == Outcome()
    assert inbox.receive(message(3), 1) == Outcome()
    assert positions(inbox.receive(message(1), 2)) == [Position(1, 1), Position(2, 1), Position(3, 1)]
    assert inbox.waits_for() == ()


def test_duplicates_are_dropped_before_and_after_they_are_handed_on() -> None:
    inbox = opened()
    inbox.receive(message(2), 1)
    assert inbox.receive(message(2), 1) == Outcome()
    assert len(inbox.receive(message(1), 1).handed_on) == 2
    assert inbox.receive(message(1), 1) == inbox.receive(message(2), 1) == Outcome()
    assert inbox.refused == []


def test_a_version_waits_for_all_its_parts() -> None:
    inbox = opened()
    assert inbox.receive(message(1, 2, 2), 1) == Outcome()
    (waiting,) = inbox.waits_for()
    assert waiting.what == "versions 1"
    assert positions(inbox.receive(message(1, 1, 2), 1)) == [Position(1, 1), Position(1, 2)]


def test_a_gap_is_waited_for_then_asked_for_then_repaired() -> None:
    inbox = opened()
    inbox.receive(message(1), 0)
    inbox.receive(message(4), 3)
    (waiting,) = inbox.waits_for()
    assert str(waiting) == (
        "orders of shop: waits for versions 2, 3 since 3, because later ones are here; 1 messages held"
    )
    assert inbox.tick(7) == ()
    asked = (AskSource(ORDERS, Position.end_of(1), (2, 3)),)
    assert [inbox.tick(now) for now in (8, 9, 13, 18)] == [asked, (), asked, asked]
    assert inbox.tick(23) == (RepairByQuery(ORDERS, 3, "the source was asked 3 times in vain"),)
    (waiting,) = inbox.waits_for()
    assert (waiting.what, waiting.why) == ("a repair by query", "the source was asked 3 times in vain")
    assert inbox.receive(message(2), 24) == Outcome(), "what comes now is held, not guessed about"
    assert positions(inbox.repaired(ORDERS, 3, 25)) == [Position(4, 1)]
    assert inbox.receive(message(3), 26) == Outcome()
    assert inbox.waits_for() == ()


def test_silence_is_asked_about() -> None:
    inbox = opened()
    inbox.receive(message(1), 0)
    assert inbox.tick(19) == ()
    assert inbox.tick(20) == (AskSource(ORDERS, Position.end_of(1)),)
    assert inbox.tick(21) == ()
    inbox.confirm(ORDERS, 2, [Position(2, 1)], 22)
    (waiting,) = inbox.waits_for()
    assert waiting.what == "versions 2"


def test_numbers_that_are_not_dense_wait_for_the_source_s_word() -> None:
    inbox = opened(Numbering.ORDERED)
    inbox.receive(message(100, 0, None), 1)
    inbox.receive(message(300, 0, None), 1)
    (waiting,) = inbox.waits_for()
    assert waiting.what == "the source's word on what it has"
    assert inbox.tick(6) == (AskSource(ORDERS, Position.end_of(0)),)
    outcome = inbox.confirm(ORDERS, 300, [Position(100), Position(200), Position(300)], 7)
    assert positions(outcome) == [Position(100)]
    (waiting,) = inbox.waits_for()
    assert (waiting.what, waiting.why) == ("versions 200", "the source has them")
    assert positions(inbox.receive(message(200, 0, None), 8)) == [Position(200), Position(300)]


def test_a_message_that_the_source_does_not_know_of_is_not_decided_about() -> None:
    inbox = opened(Numbering.ORDERED)
    inbox.receive(message(100, 0, None), 1)
    (repair,) = inbox.confirm(ORDERS, 150, [], 2).instructions
    assert repair == RepairByQuery(ORDERS, 100, "a message told of position 100, of which the source does not know")


def test_two_different_messages_at_one_position_are_not_decided_between() -> None:
    inbox = opened(Numbering.ORDERED)
    inbox.receive(message(5, 0, None, row="a"), 1)
    (repair,) = inbox.receive(message(5, 0, None, row="b"), 1).instructions
    assert isinstance(repair, RepairByQuery)
    (refused,) = inbox.refused
    assert refused.raw == message(5, 0, None, row="b")
    assert refused.error.code == "CONTRADICTING_MESSAGES"
    assert inbox.confirm(ORDERS, 9, [Position(5)], 2).handed_on == ()
    assert inbox.repaired(ORDERS, 9, 3) == Outcome()
    assert inbox.waits_for() == ()


def test_rows_read_by_a_snapshot_are_no_changes() -> None:
    inbox = opened(Numbering.ORDERED)
    read = ChangeMessage("shop", "orders", Position(5), Operation.READ, after={"id": 1})
    (repair,) = inbox.receive(read, 1).instructions
    assert repair == RepairByQuery(ORDERS, 5, "a snapshot was read, and no message tells how many rows it had")
    assert inbox.receive(read, 1) == Outcome()
    inbox.repaired(ORDERS, 5, 2)
    assert inbox.receive(read, 3) == Outcome(), "a late copy does not make the table doubtful again"
    assert inbox.waits_for() == ()


def test_a_repair_from_before_the_doubt_does_not_end_it() -> None:
    """As a lagging replica may give; the first of two contradicting messages would be taken for the true one."""
    inbox = opened()
    inbox.receive(message(2, row="a"), 1)
    inbox.receive(message(2, row="b"), 1)
    assert inbox.repaired(ORDERS, 1, 2) == Outcome()
    assert inbox.tick(6) == (RepairByQuery(ORDERS, 2, "messages at position 2.1 contradict each other"),)
    inbox.repaired(ORDERS, 2, 7)
    assert inbox.waits_for() == ()


def test_what_can_t_be_read_is_kept_as_it_came() -> None:
    inbox = opened()
    assert inbox.receive_text("{", "shop", read_plain, 1) == Outcome()
    ((raw, code),) = [(each.raw, each.error.code) for each in inbox.refused]
    assert (raw, code) == ("{", "MALFORMED_MESSAGE")
    row = json.dumps({"table": "orders", "version": 1, "row": {"id": 1}})
    assert positions(inbox.receive_text(row, "shop", read_plain, 2)) == [Position(1, 1)]
    assert inbox.receive_text("null", "shop", read_debezium, 3) == Outcome()


@pytest.mark.parametrize("table", ["customers", "Orders"])
def test_a_table_that_nobody_reads_is_passed_over(table: str) -> None:
    inbox = opened()
    assert inbox.receive(ChangeMessage("shop", table, Position(1), Operation.TRUNCATE), 1) == Outcome()
