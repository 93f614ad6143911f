"""Workloads and their transactions: a function of the workload, and consistent with the tables they change."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.algebra.time import Csn
from headwater.engine.reference import History
from headwater.errors import InternalError, InvalidInput
from headwater.genesis import (
    Column,
    Discontinuous,
    Mix,
    Normal,
    SelfSimilar,
    Steady,
    TableChange,
    Tables,
    TableShape,
    Transaction,
    Uniform,
    Workload,
    Zipf,
    initial_rows,
    transactions,
)

shares = st.sampled_from((0.0, 1.0, 3.0))


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    columns = (
        Column("a", Uniform(1, 5)),
        Column("b", Zipf(0, 9, 0.7)),
        Column("c", Normal(-5, 5, 0, 2)),
        Column("d", SelfSimilar(1, 100)),
    )
    tables = tuple(
        TableShape(
            name,
            draw(st.integers(0, 20)),
            columns[: draw(st.integers(0, 4))],
            padding=draw(st.sampled_from((0, 12))),
            share=1.0 if name == "r" else draw(shares),
        )
        for name in draw(st.sampled_from(("r", "rs")))
    )
    mix = draw(st.tuples(shares, shares, shares).filter(any))
    return Workload(
        tables,
        updates=draw(st.integers(0, 120)),
        mix=Mix(*mix),
        stream=draw(st.sampled_from((Steady(10.0), Discontinuous(10.0, 0.5, 1.0)))),
        transaction_size=draw(st.integers(1, 30)),
        hot=draw(st.sampled_from((0.5, 0.2, 0.05))),
        seed=draw(st.integers(0, 5)),
    )


@given(workloads())
@settings(max_examples=80)
def test_transactions_fit_the_tables_and_name_each_key_once(workload: Workload) -> None:
    tables = Tables.beginning(workload)
    history = History.beginning_with({shape.name: initial_rows(workload, shape.name) for shape in workload.tables})
    operations = 0
    last = 0.0
    for number, transaction in enumerate(transactions(workload), start=1):
        assert transaction.number == number
        assert transaction.at >= last
        last = transaction.at
        operations += transaction.operations
        touched = sum(len(each.inserted) + len(each.updated) + len(each.deleted) for each in transaction.changes)
        assert 1 <= touched <= transaction.operations <= workload.transaction_size
        history.commit(tables.apply(transaction))  # refuses what does not fit
        for shape in workload.tables:
            assert tables.state(shape.name) == history.state(shape.name, history.now)
    assert operations == workload.updates


@given(workloads())
def test_a_workload_is_a_value_and_everything_follows_from_it(workload: Workload) -> None:
    copy = Workload.of_json(json.loads(json.dumps(workload.as_json())))
    assert copy == workload
    assert list(transactions(copy)) == list(transactions(workload))
    for shape in workload.tables:
        assert list(initial_rows(copy, shape.name)) == list(initial_rows(workload, shape.name))


def one_table(**changes: object) -> Workload:
    workload = Workload(
        tables=(TableShape("r", 1000, (Column("a", Uniform(1, 1000)),)),),
        updates=6000,
        mix=Mix(1, 1, 1),
        stream=Steady(100.0),
        transaction_size=10,
    )
    return replace(workload, **changes)  # type: ignore[arg-type]


def test_the_stream_of_a_seed_never_changes() -> None:
    """Measurements name their workload and seed; a new release must not make them mean something else."""
    workload = Workload(
        tables=(
            TableShape("r", 50, (Column("a", Zipf(1, 30, 0.9)), Column("b", Normal(0, 99, 50, 20))), padding=8),
            TableShape("s", 20, (Column("a", SelfSimilar(1, 30)),), share=0.5),
        ),
        updates=500,
        mix=Mix(2, 1, 1),
        stream=Steady(64.0),
        transaction_size=7,
        hot=0.3,
        seed=20,
    )
    text = repr([*initial_rows(workload, "r"), *transactions(workload)])
    assert (
        hashlib.sha256(text.encode()).hexdigest() == "f9cf800231dfee222908d832812b52802ff7836b6c80302a0871984f1779f7a2"
    )


def test_how_updates_arrive_does_not_change_what_they_are() -> None:
    steady, broken = (
        [each.changes for each in transactions(one_table(stream=stream))]
        for stream in (Steady(5.0), Discontinuous(50.0, 0.3, 2.0))
    )
    assert steady == broken


def test_seeds_differ() -> None:
    assert list(transactions(one_table(seed=1))) != list(transactions(one_table(seed=2)))
    assert list(initial_rows(one_table(seed=1), "r")) != list(initial_rows(one_table(seed=2), "r"))


def test_kinds_come_in_the_ratio_of_the_mix() -> None:
    found: Counter[str] = Counter()
    for transaction in transactions(one_table(mix=Mix(insert=3, delete=1, update=2))):
        (change,) = transaction.changes
        found += Counter(insert=len(change.inserted), delete=len(change.deleted), update=len(change.updated))
    assert [found[kind] / 6000 for kind in ("insert", "delete", "update")] == pytest.approx(
        [0.5, 1 / 6, 1 / 3], abs=0.02
    )


def test_tables_get_their_share() -> None:
    shapes = tuple(TableShape(name, 100, (), share=share) for name, share in (("r", 3), ("s", 1), ("t", 0)))
    found: Counter[str] = Counter()
    for transaction in transactions(one_table(tables=shapes, mix=Mix(1, 0, 0))):
        for change in transaction.changes:
            found[change.table] += len(change.inserted)
    assert set(found) == {"r", "s"}
    assert found["r"] / 6000 == pytest.approx(0.75, abs=0.02)


def test_hot_takes_four_of_five_updates_from_a_fifth_of_the_table() -> None:
    workload = one_table(mix=Mix(0, 0, 1), hot=0.2, transaction_size=1)
    keys = [row[0] for transaction in transactions(workload) for row in transaction.changes[0].updated]
    assert sum(key <= 200 for key in keys) / len(keys) == pytest.approx(0.8, abs=0.02)


def test_an_empty_table_is_inserted_into_whatever_the_mix_says() -> None:
    shape = TableShape("r", 0, ())
    first, second, *_ = transactions(one_table(tables=(shape,), mix=Mix(0, 1, 0), transaction_size=1))
    assert first.changes == (TableChange("r", inserted=((1,),)),)
    assert second.changes == (TableChange("r", deleted=(1,)),)


def test_rows_are_padded_to_a_width() -> None:
    workload = one_table(tables=(TableShape("r", 12, (Column("a", Uniform(3, 3)),), padding=5),))
    assert workload.tables[0].column_names == ("key", "a", "padding")
    assert list(initial_rows(workload, "r"))[-1] == (12, 3, "xxx12")


def test_a_million_updates_are_drawn_one_transaction_at_a_time() -> None:
    workload = one_table(updates=10**6, transaction_size=50)
    stream = transactions(workload)
    assert next(stream).at == pytest.approx(0.5)
    assert sum(next(stream).operations for _ in range(100)) == 5000


class TestTablesRefuse:
    def tables(self) -> Tables:
        return Tables({"r": {1: (1, "x"), 2: (2, "y")}})

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (TableChange("s", deleted=(1,)), "not there"),
            (TableChange("r", inserted=((1, "z"),)), "does not fit"),
            (TableChange("r", deleted=(3,)), "does not fit"),
            (TableChange("r", updated=((3, "z"),)), "does not fit"),
            (TableChange("r", updated=((1, "z"),), deleted=(1,)), "twice"),
        ],
    )
    def test_what_does_not_fit_and_leave_everything_as_it_was(self, change: TableChange, message: str) -> None:
        tables = self.tables()
        good = TableChange("r", deleted=(2,))
        with pytest.raises(InternalError, match=message):
            tables.apply(Transaction(1, 0.0, 2, (good, change)))
        assert tables == self.tables()


class TestRefusals:
    @pytest.mark.parametrize(
        "changes",
        [
            {"tables": ()},
            {"updates": -1},
            {"transaction_size": 0},
            {"hot": 0.7},
            {"tables": (TableShape("r", 1, ()), TableShape("r", 1, ()))},
            {"tables": (TableShape("r", 1, (), share=0),)},
        ],
    )
    def test_workloads_that_can_not_be(self, changes: dict[str, object]) -> None:
        with pytest.raises(InvalidInput):
            one_table(**changes)

    def test_parts_that_can_not_be(self) -> None:
        with pytest.raises(InvalidInput):
            Mix(0, 0, 0)
        with pytest.raises(InvalidInput):
            Mix(1, -1, 1)
        with pytest.raises(InvalidInput):
            TableShape("r", -1, ())
        with pytest.raises(InvalidInput, match="key"):
            TableShape("r", 1, (Column("key", Uniform(1, 1)),))

    @pytest.mark.parametrize(
        "broken",
        [{}, {"mix": None}, {"stream": {"kind": "wild"}}, {"surprise": 1}, {"tables": [{"name": "r"}]}],
    )
    def test_what_is_not_the_json_of_a_workload(self, broken: dict[str, object]) -> None:
        with pytest.raises(InvalidInput):
            Workload.of_json(one_table().as_json() | broken if broken else {})

    def test_an_unknown_table_is_told_with_those_there_are(self) -> None:
        with pytest.raises(InvalidInput, match=r"'t'.* r\."):
            initial_rows(one_table(), "t")


def test_a_csn_of_the_reference_engine_for_each_transaction() -> None:
    workload = one_table(updates=100)
    tables, history = Tables.beginning(workload), History()
    for transaction in transactions(workload):
        assert history.commit(tables.apply(transaction)) == Csn(transaction.number)
