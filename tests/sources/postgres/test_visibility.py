"""Execution time, interfering and missing updates, against a server in miniature."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.algebra.time import Csn
from headwater.errors import InternalError
from headwater.sources.postgres.positions import Lsn, Xid
from headwater.sources.postgres.visibility import Covered, LoggedUnit, TransactionSnapshot, difference, execution_time


@pytest.mark.parametrize("text", ["10:20:10,14,15", "795:795:", "10:11:10", "8589934592:8589934600:8589934593"])
def test_snapshots_are_read_and_printed(text: str) -> None:
    assert str(TransactionSnapshot.parse(text)) == text


@pytest.mark.parametrize("text", ["", "10:20", "10:20:x", "20:10:", "10:20:9", "10:20:20", "10:20:11,", "-1:2:"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a snapshot"):
        TransactionSnapshot.parse(text)


def test_visibility_by_number() -> None:
    snapshot = TransactionSnapshot.parse("10:20:10,14")
    assert [xid for xid in range(8, 22) if snapshot.sees(Xid(xid))] == [8, 9, 11, 12, 13, 15, 16, 17, 18, 19]
    assert snapshot.finished_before(Xid(10))
    assert not snapshot.finished_before(Xid(11))


def test_a_log_must_reach_the_end_of_what_was_seen() -> None:
    assert Covered(Lsn(10)).by(Lsn(10))
    assert not Covered(Lsn(10)).by(Lsn(9))


@dataclass
class Miniature:
    """A server of transactions that begin, log their commit, and later become visible; each adds some rows."""

    random: random.Random
    next_xid: int = 100
    running: set[int] = field(default_factory=set)
    logged: list[tuple[int, Counter[str]]] = field(default_factory=list)
    """(xid, effect) in commit order."""
    invisible: set[int] = field(default_factory=set)
    """Logged and still running as others see it."""

    def step(self) -> None:
        match self.random.choice(["begin", "begin", "log", "log", "show", "abort"]):
            case "begin":
                self.running.add(self.next_xid)
                self.next_xid += 1
            case "log" if self.running - self.invisible:
                xid = self.random.choice(sorted(self.running - self.invisible))
                rows = Counter({self.random.choice("abc"): self.random.choice([-2, -1, 1, 2]) for _ in range(2)})
                self.logged.append((xid, rows))
                self.invisible.add(xid)
            case "show" if self.invisible:
                xid = self.random.choice(sorted(self.invisible))
                self.invisible.discard(xid)
                self.running.discard(xid)
            case "abort" if self.running - self.invisible:
                self.running.discard(self.random.choice(sorted(self.running - self.invisible)))
            case _:
                return

    def snapshot(self) -> tuple[TransactionSnapshot, Counter[str]]:
        """As PostgreSQL takes one: xmax is after the newest that finished, not after the newest that began."""
        finished = [xid for xid in range(100, self.next_xid) if xid not in self.running]
        xmax = finished[-1] + 1 if finished else 100
        listed = frozenset(Xid(xid) for xid in self.running if xid < xmax)
        shown = _sum(rows for xid, rows in self.logged if xid not in self.running)
        return TransactionSnapshot(Xid(min(listed, default=xmax)), Xid(xmax), listed), shown


def _sum(parts: object) -> Counter[str]:
    total: Counter[str] = Counter()
    for part in parts:  # type: ignore[attr-defined]
        total.update(part)
    return Counter({row: count for row, count in total.items() if count})


def _minus(left: Counter[str], right: Counter[str]) -> Counter[str]:
    return _sum([left, Counter({row: -count for row, count in right.items()})])


@settings(max_examples=60)
@given(st.integers(0, 2**32), st.integers(0, 60), st.integers(0, 40))
def test_the_state_at_any_frontier_is_what_was_read_less_interfering_plus_missing(
    seed: int, before: int, after: int
) -> None:
    server = Miniature(random.Random(seed))
    for _ in range(before):
        server.step()
    snapshot, shown = server.snapshot()
    for _ in range(after):
        server.step()
    # Csns of other sources lie between those of this one.
    csns = sorted(server.random.sample(range(1, 4 * len(server.logged) + 2), len(server.logged)))
    effects = {Csn(csn): rows for csn, (_, rows) in zip(csns, server.logged, strict=True)}
    log = [LoggedUnit(Csn(csn), Xid(xid)) for csn, (xid, _) in zip(csns, server.logged, strict=True)]
    newest = Csn(4 * len(log) + 3)

    def state(at: int) -> Counter[str]:
        return _sum(rows for csn, rows in effects.items() if csn <= at)

    for frontier in range(newest + 1):
        found = difference(log, snapshot, Csn(frontier))
        undone = _minus(shown, _sum(effects[unit.csn] for unit in found.interfering))
        assert _sum([undone, *(effects[unit.csn] for unit in found.missing)]) == state(frontier)

    time = execution_time(log, snapshot, newest)
    assert not difference(log, snapshot, time).missing
    visible = {unit.csn for unit in log if snapshot.sees(unit.xid)}
    brute_force = max(t for t in range(newest + 1) if all(csn in visible for csn in effects if csn <= t))
    assert time == brute_force
    if visible == {csn for csn in effects if csn <= time}:
        assert difference(log, snapshot, time).is_empty


def test_the_visible_set_need_not_be_a_prefix() -> None:
    log = [LoggedUnit(Csn(1), Xid(100)), LoggedUnit(Csn(2), Xid(102)), LoggedUnit(Csn(5), Xid(101))]
    snapshot = TransactionSnapshot.parse("102:103:102")
    assert execution_time(log, snapshot, Csn(9)) == 1
    at_one = difference(log, snapshot, Csn(1))
    assert (at_one.interfering, at_one.missing) == ((log[2],), ())
    at_three = difference(log, snapshot, Csn(3))
    assert (at_three.interfering, at_three.missing) == ((log[2],), (log[1],))
    at_five = difference(log, snapshot, Csn(5))
    assert (at_five.interfering, at_five.missing) == ((), (log[1],))


def test_a_log_out_of_order_is_a_broken_promise() -> None:
    snapshot = TransactionSnapshot.parse("1:1:")
    two = [LoggedUnit(Csn(2), Xid(100)), LoggedUnit(Csn(1), Xid(101))]
    for log, newest in ((two, Csn(9)), (two[:1], Csn(1))):
        with pytest.raises(InternalError):
            execution_time(log, snapshot, newest)
