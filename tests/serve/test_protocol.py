"""Readers, maintenance and garbage collection in any order [Mauve98 §2.2, §2.4, §5]."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from headwater.algebra.time import Csn, Interval
from headwater.algebra.zset import Row, ZSet
from headwater.errors import InternalError, LeaseLost, MomentBeforeHistory, MomentInFuture
from headwater.serve.protocol import (
    AbandonChunk,
    BeginChunk,
    Chunk,
    CloseReader,
    CollectGarbage,
    Event,
    Expire,
    InstallChunk,
    OpenReader,
    Serving,
    WriteTable,
    garbage,
    handle,
    read,
)
from headwater.serve.timeline import prune

TABLES = ("v", "w")
ROWS: tuple[Row, ...] = ((1,), (2,), (None,))


class ServingMachine(RuleBasedStateMachine):
    """What happened is kept beside the machine: the view delta of each table, from which V(t) is recomputed."""

    def __init__(self) -> None:
        super().__init__()
        self.initial = ZSet.of([((1,), 2, None), ((2,), 1, None)])
        self.deltas = dict.fromkeys(TABLES, ZSet())
        self.newest = Csn(0)
        self.opened = 0
        self.local: dict[str, Csn] = {}
        self.closed: set[str] = set()
        self.state = Serving.beginning(dict.fromkeys(TABLES, self.initial), Csn(0), versions=2)

    def view(self, table: str, at: Csn) -> ZSet:
        return (self.initial + self.deltas[table].select(Interval(Csn(0), at))).net_effect()

    def happens(self, event: Event) -> None:
        self.state = handle(self.state, event)

    @rule(changes=st.lists(st.tuples(st.sampled_from(TABLES), st.sampled_from(ROWS), st.integers(-2, 2)), max_size=4))
    def commit(self, changes: list[tuple[str, Row, int]]) -> None:
        """A unit of work changes the views; nobody has propagated it yet."""
        self.newest = Csn(self.newest + 1)
        for table, row, step in changes:
            held = self.view(table, self.newest).counts().get(row, 0)
            self.deltas[table] += ZSet.of([(row, max(step, -held), self.newest)])

    @rule(data=st.data())
    def open_reader(self, data: st.DataObject) -> None:
        self.opened += 1
        name = f"reader {self.opened}"
        at = data.draw(st.none() | st.integers(0, self.state.global_timestamp).map(Csn))
        readable = at is None or all(table.readable(at) for table in self.state.tables.values())
        if not readable:
            with pytest.raises(MomentBeforeHistory):
                self.happens(OpenReader(name, at))
            return
        self.happens(OpenReader(name, at))
        self.local[name] = self.state.global_timestamp if at is None else at

    @precondition(lambda self: self.local)
    @rule(data=st.data(), expire=st.booleans())
    def reader_goes(self, data: st.DataObject, expire: bool) -> None:
        name = data.draw(st.sampled_from(sorted(self.local)))
        self.happens(Expire(name) if expire else CloseReader(name))
        del self.local[name]
        self.closed.add(name)

    @precondition(lambda self: self.state.chunk is None and self.newest > self.state.global_timestamp)
    @rule(data=st.data())
    def begin_chunk(self, data: st.DataObject) -> None:
        self.happens(BeginChunk(Csn(data.draw(st.integers(self.state.global_timestamp + 1, self.newest)))))

    @precondition(lambda self: self.state.chunk is not None and len(self.state.chunk.written) < len(TABLES))
    @rule(data=st.data())
    def write_table(self, data: st.DataObject) -> None:
        assert self.state.chunk is not None
        table = data.draw(st.sampled_from(sorted(set(TABLES) - self.state.chunk.written)))
        self.happens(WriteTable(table, self.deltas[table]))

    @precondition(lambda self: self.state.chunk is not None and len(self.state.chunk.written) == len(TABLES))
    @rule()
    def install_chunk(self) -> None:
        self.happens(InstallChunk())

    @precondition(lambda self: self.state.chunk is not None)
    @rule()
    def crash_in_a_chunk(self) -> None:
        before = self.state.global_timestamp
        self.happens(AbandonChunk())
        assert {table.csn for table in self.state.tables.values()} == {before}

    @rule()
    def collect_garbage(self) -> None:
        taken = list(garbage(self.state))
        before = {(name, run) for name, table in self.state.tables.items() for run in table.runs}
        self.happens(CollectGarbage())
        after = {(name, run) for name, table in self.state.tables.items() for run in table.runs}
        assert before - after == set(taken)
        assert not list(garbage(self.state))
        kept = {*self.state.readers.values(), *range(self.state.kept_from, self.newest + 1)}
        assert all(any(run.visible(Csn(moment)) for moment in kept) for _, run in after)

    @invariant()
    def it_is_valid(self) -> None:
        self.state.validate()

    @invariant()
    def every_reader_sees_the_one_moment_at_which_it_opened(self) -> None:
        assert self.state.readers == self.local
        for name, moment in self.local.items():
            for table in TABLES:
                assert read(self.state, name, table) == self.view(table, moment)

    @invariant()
    def a_reader_that_is_gone_gets_an_error_and_no_rows(self) -> None:
        for name in self.closed:
            with pytest.raises(LeaseLost):
                read(self.state, name, "v")

    @invariant()
    def every_release_can_be_read(self) -> None:
        for release in self.state.releases:
            for table in TABLES:
                assert self.state.tables[table].at(release) == self.view(table, release)


TestServing = ServingMachine.TestCase
TestServing.settings = settings(max_examples=40, stateful_step_count=30)


def after(state: Serving, *events: Event) -> Serving:
    for event in events:
        state = handle(state, event)
        state.validate()
    return state


def begun(versions: int = 1) -> Serving:
    return Serving.beginning({"v": ZSet.from_rows([(1,)]), "w": ZSet.from_rows([(1,)])}, Csn(0), versions=versions)


def chunk(to: int) -> tuple[Event, ...]:
    """Both tables lose their row and get another."""
    view_delta = ZSet.of([((to,), -1, Csn(to)), ((to + 1,), 1, Csn(to))])
    return BeginChunk(Csn(to)), WriteTable("v", view_delta), WriteTable("w", view_delta), InstallChunk()


def test_section_5_a_reader_overlaps_any_number_of_maintenance_transactions() -> None:
    """With two versions it would expire at the second."""
    state = after(begun(), OpenReader("a"))
    for to in range(1, 6):
        state = after(state, *chunk(to), CollectGarbage())
        assert read(state, "a", "v") == read(state, "a", "w") == ZSet.from_rows([(1,)])
    assert len(state.tables["v"].runs) == 2  # the reader's row and the newest
    state = after(state, CloseReader("a"), CollectGarbage())
    assert len(state.tables["v"].runs) == 1


def test_a_reader_between_two_tables_of_a_chunk_sees_both_as_before() -> None:
    first, write_v, write_w, install = chunk(1)
    state = after(begun(), first, write_v, OpenReader("a"))
    assert read(state, "a", "v") == read(state, "a", "w") == ZSet.from_rows([(1,)])
    state = after(state, write_w, install, OpenReader("b"))
    assert read(state, "a", "w") == ZSet.from_rows([(1,)])
    assert read(state, "b", "w") == ZSet.from_rows([(2,)])


def test_without_the_global_timestamp_a_reader_would_see_two_moments() -> None:
    """What the protocol is for: each table's newest state, read in the middle of a chunk."""
    first, write_v, *_ = chunk(1)
    tables = after(begun(), first, write_v).tables
    assert tables["v"].at(tables["v"].csn) != tables["w"].at(tables["w"].csn)


def test_n_versions_can_be_opened_and_no_more() -> None:
    state = after(begun(versions=3), *chunk(1), *chunk(2), *chunk(3), *chunk(4), CollectGarbage())
    assert state.releases == (2, 3, 4)
    state = after(state, OpenReader("a", Csn(2)))
    assert read(state, "a", "v") == ZSet.from_rows([(3,)])
    with pytest.raises(MomentBeforeHistory):
        handle(state, OpenReader("b", Csn(1)))


def test_a_second_reader_may_join_an_old_moment_that_the_first_keeps() -> None:
    state = after(begun(), OpenReader("a"), *chunk(1), *chunk(2), CollectGarbage(), OpenReader("b", Csn(0)))
    state = after(state, CloseReader("a"), CollectGarbage())
    assert read(state, "b", "w") == ZSet.from_rows([(1,)])


@pytest.mark.parametrize(
    "events",
    [
        (InstallChunk(),),
        (AbandonChunk(),),
        (WriteTable("v", ZSet()),),
        (BeginChunk(Csn(0)),),
        (BeginChunk(Csn(1)), BeginChunk(Csn(2))),
        (BeginChunk(Csn(1)), InstallChunk()),
        (BeginChunk(Csn(1)), WriteTable("v", ZSet()), InstallChunk()),
        (BeginChunk(Csn(1)), WriteTable("v", ZSet()), WriteTable("v", ZSet())),
        (OpenReader("a"), OpenReader("a")),
    ],
)
def test_events_out_of_order_are_refused(events: tuple[Event, ...]) -> None:
    *before, last = events
    state = after(begun(), *before)
    with pytest.raises(InternalError):
        handle(state, last)


def test_a_moment_that_is_not_yet_there_is_refused() -> None:
    with pytest.raises(MomentInFuture):
        handle(begun(), OpenReader("a", Csn(1)))


STATE = after(begun(versions=2), OpenReader("a"), *chunk(1), *chunk(2))


@pytest.mark.parametrize(
    "broken",
    [
        lambda: replace(STATE, versions=0),
        lambda: replace(STATE, global_timestamp=Csn(1)),
        lambda: replace(STATE, chunk=Chunk(Csn(2))),
        lambda: replace(STATE, chunk=Chunk(Csn(3), frozenset({"v"}))),
        lambda: replace(STATE, readers={"a": Csn(3)}),
        lambda: replace(STATE, tables={**STATE.tables, "v": prune(STATE.tables["v"], Csn(1))}),
        lambda: replace(
            STATE, tables={**STATE.tables, "v": prune(STATE.tables["v"], Csn(1), [Csn(0)])}, releases=(Csn(2),)
        ),
    ],
)
def test_validate_catches(broken: Callable[[], Serving]) -> None:
    STATE.validate()
    with pytest.raises(InternalError):
        broken().validate()


def test_the_check_catches_a_garbage_collector_that_forgets_readers() -> None:
    careless = {name: prune(table, STATE.kept_from) for name, table in STATE.tables.items()}
    with pytest.raises(InternalError, match="lost a moment"):
        replace(STATE, tables=careless, releases=STATE.releases[-2:]).validate()
