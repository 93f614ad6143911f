"""Rounds of capture: transactions of sources and commits of Delta in one order, positions that lose nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from headwater.capture.ordering import SeenCommit
from headwater.capture.rounds import FromFeed, plan_round
from headwater.sources.feed import FeedChange


@dataclass(frozen=True)
class Transaction:
    version: int
    committed_at: int
    touched: frozenset[str]

    @property
    def transaction(self) -> str:
        return f"x{self.version}"

    @property
    def after(self) -> dict[str, Any]:
        return {"at": self.version}

    def changes(self) -> Iterator[FeedChange]:
        yield from ()


@dataclass(frozen=True)
class Batch:
    transactions: tuple[Transaction, ...]
    complete: bool = True

    @property
    def position(self) -> dict[str, Any]:
        return {"at": 1000}

    @property
    def problems(self) -> dict[str, Any]:
        return {}

    @property
    def lost_keys(self) -> frozenset[str]:
        return frozenset()

    @property
    def waiting(self) -> list[dict[str, Any]]:
        return []

    def close(self) -> None: ...


def transaction(version: int, at: int, *tables: str) -> Transaction:
    return Transaction(version, at, frozenset(tables))


def commit(table: str, version: int, at: int) -> SeenCommit:
    return SeenCommit(table, version, at, "WRITE", 1)


def named(units: tuple[Any, ...]) -> list[str]:
    return [
        f"{unit.source_id}:{unit.transaction.version}"
        if isinstance(unit, FromFeed)
        else "+".join(f"{c.table}:{c.version}" for c in unit)
        for unit in units
    ]


def test_one_order_by_time_and_by_each_log() -> None:
    planned = plan_round(
        {"d": [commit("d", 1, 5), commit("d", 2, 30)]},
        {
            "pg": Batch((transaction(10, 20, "a", "b"), transaction(11, 4, "a"))),  # its clock stepped back
            "other": Batch((transaction(7, 21, "c"),)),
        },
        horizon=100,
        patience=0,
    )
    assert named(planned.units) == ["d:1", "pg:10", "pg:11", "other:7", "d:2"]
    assert planned.touched == {"a", "b", "c"}
    assert planned.positions == {"pg": {"at": 1000}, "other": {"at": 1000}}


def test_what_lies_beyond_the_horizon_holds_the_position_back() -> None:
    batch = Batch((transaction(1, 5, "a"), transaction(2, 6), transaction(3, 50, "a"), transaction(4, 7, "a")))
    planned = plan_round({}, {"pg": batch}, horizon=10, patience=0)
    assert named(planned.units) == ["pg:1"]
    assert planned.positions == {"pg": {"at": 2}}  # past one that touches nothing of ours
    assert planned.passed == {"pg": 2}
    planned = plan_round({}, {"pg": Batch((transaction(3, 50, "a"),))}, horizon=10, patience=0)
    assert (planned.units, planned.positions) == ((), {})


def test_a_newcomer_is_read_and_not_numbered() -> None:
    batch = Batch((transaction(1, 5, "new"), transaction(2, 6, "a", "new")))
    planned = plan_round({}, {"pg": batch}, horizon=10, patience=0, newcomer="new")
    assert named(planned.units) == ["pg:2"]
    assert planned.touched == {"a"}
    assert planned.passed == {"pg": 2}


@given(
    st.lists(st.tuples(st.integers(0, 30), st.sets(st.sampled_from("ab"))), max_size=12),
    st.lists(st.integers(0, 30), max_size=6),
    st.integers(0, 30),
)
def test_rounds_one_after_another_number_every_transaction_once_in_its_order(
    logged: list[tuple[int, set[str]]], delta: list[int], first: int
) -> None:
    """With rising horizons; each round reads again from the position that the last one left."""
    log = [transaction(place + 1, at, *tables) for place, (at, tables) in enumerate(logged)]
    commits = [commit("d", place + 1, at) for place, at in enumerate(delta)]
    position, numbered, taken = 0, [], 0
    for horizon in (first, first + 10, 100):
        batch = Batch(tuple(each for each in log if each.version > position))
        planned = plan_round({"d": commits[taken:]}, {"pg": batch}, horizon=horizon, patience=0)
        for unit in planned.units:
            if isinstance(unit, FromFeed):
                numbered.append(unit.transaction.version)
                assert unit.transaction.committed_at <= horizon
            else:
                taken += len(unit)
        left = [each for each in batch.transactions if each.touched and each.version not in numbered]
        at = planned.positions.get("pg", {"at": position})["at"]
        position = max((each.version for each in log), default=0) if at == 1000 else at
        assert all(each.version > position for each in left)
    assert numbered == [each.version for each in log if each.touched]
    assert taken == len(commits)
