"""From messages to transactions: whole rows or a refusal, in bounded memory."""

from __future__ import annotations

import io
from contextlib import closing
from itertools import chain, repeat

import pytest

from headwater.errors import LogUnreadable, ReplicaIdentityNarrow, SchemaChanged, TableReplaced, ValueRefused
from headwater.sources.postgres.changes import Change, Deleted, Inserted, Truncated, Updated, signed_rows, split
from headwater.sources.postgres.pgoutput import UNCHANGED
from headwater.sources.postgres.positions import Lsn, Xid
from headwater.sources.postgres.spool import Batch, Transaction, collected, spool_beyond
from tests.sources.postgres import messages as build
from tests.sources.postgres.messages import COLUMNS, source_table

T = source_table(100, "t")
U = source_table(101, "u")
AT = 1_760_000_000_000_000
TELL = build.relation(100, "public", "t", COLUMNS)


def transaction(number: int, *messages: bytes) -> list[bytes]:
    """Commits at 10n, ends at 10n + 5."""
    head, tail = build.begin(10 * number, AT + number, 700 + number), build.commit(10 * number, 10 * number + 5, AT)
    return [head, *messages, tail]


def read(*messages: bytes, after: int = 0, spool: io.BytesIO | None = None) -> tuple[tuple[Transaction, ...], Lsn]:
    pieces = split(messages, Xid(2**32 + 1000), "db")
    return collected(pieces, spool or io.BytesIO(), (T, U), Lsn(after), "db")


def changes_of(*messages: bytes) -> list[Change]:
    (found,), _ = read(*transaction(1, *messages))
    return list(found.changes())


def test_a_transaction_is_one_unit_of_work_with_its_commit() -> None:
    tell_u = build.relation(101, "public", "u", COLUMNS)
    (found,), reached = read(
        *transaction(1, TELL, build.insert(100, ("1", "a")), tell_u, build.insert(101, ("2", None)))
    )
    assert (found.head.xid, found.head.commit_lsn, found.head.committed_at) == (2**32 + 701, 10, AT + 1)
    assert found.end == reached == 15
    assert list(found.changes()) == [Inserted(T, (1, "a")), Inserted(U, (2, None))]
    assert list(found.changes()) == list(found.changes())


def test_updates_with_and_without_a_new_key_and_deletes() -> None:
    found = changes_of(
        TELL,
        build.update(100, ("1", "b"), old=("1", "a")),
        build.update(100, ("2", "b"), old=("1", "b")),
        build.delete(100, old=("2", "b")),
    )
    assert found == [Updated(T, (1, "a"), (1, "b")), Updated(T, (1, "b"), (2, "b")), Deleted(T, (2, "b"))]
    assert [signed_rows(change) for change in found if not isinstance(change, Truncated)] == [
        (((1, "a"), -1), ((1, "b"), 1)),
        (((1, "b"), -1), ((2, "b"), 1)),
        (((2, "b"), -1),),
    ]


def test_truncate_names_the_tables_that_were_asked_for() -> None:
    tell_u, tell_other = build.relation(101, "public", "u", COLUMNS), build.relation(999, "public", "other", COLUMNS)
    assert changes_of(TELL, tell_u, tell_other, build.truncate(100, 999, 101)) == [Truncated((T, U))]
    assert changes_of(tell_other, build.truncate(999)) == []


def test_an_unchanged_long_value_is_the_old_one() -> None:
    assert changes_of(TELL, build.update(100, ("2", UNCHANGED), old=("1", "long"))) == [
        Updated(T, (1, "long"), (2, "long"))
    ]
    assert changes_of(TELL, build.update(100, ("2", UNCHANGED), old=("1", None))) == [Updated(T, (1, None), (2, None))]


@pytest.mark.parametrize(
    "narrow",
    [
        build.update(100, ("1", UNCHANGED)),
        build.update(100, ("1", "b")),
        build.update(100, ("2", "b"), key=("1", None)),
        build.delete(100, key=("1", None)),
    ],
)
def test_a_change_without_its_whole_old_row_is_refused_with_the_statement_that_mends_it(narrow: bytes) -> None:
    with pytest.raises(ReplicaIdentityNarrow, match=r'ALTER TABLE "public"\."t" REPLICA IDENTITY FULL') as caught:
        changes_of(TELL, narrow)
    assert caught.value.table == "public.t"


def test_columns_may_be_added_and_reordered_but_not_lost_or_retyped() -> None:
    more = build.relation(100, "public", "t", (("new", 23), ("body", 25), ("id", 23)))
    assert changes_of(TELL, build.insert(100, ("1", "a")), more, build.insert(100, ("7", "b", "2"))) == [
        Inserted(T, (1, "a")),
        Inserted(T, (2, "b")),
    ]
    for columns, what in (((("id", 23),), "dropped or renamed"), ((("id", 20), ("body", 25)), "another type")):
        with pytest.raises(SchemaChanged, match=what):
            changes_of(build.relation(100, "public", "t", columns), build.insert(100, ("1",) * len(columns)))


def test_a_table_made_anew_under_its_name_is_noticed() -> None:
    with pytest.raises(TableReplaced, match=r"public\.t was dropped and made anew"):
        changes_of(build.relation(555, "public", "t", COLUMNS), build.insert(555, ("1", "a")))


def test_a_table_that_can_not_be_read_can_be_left_out() -> None:
    tell_u = build.relation(101, "public", "u", COLUMNS)
    (found,), _ = read(*transaction(1, TELL, tell_u, build.insert(100, ("x", "a")), build.insert(101, ("1", "b"))))
    with pytest.raises(ValueRefused, match=r"column 'id' of public\.t"):
        list(found.changes())
    assert list(found.changes([U])) == [Inserted(U, (1, "b"))]


def test_the_refused_value_is_not_in_the_error() -> None:
    with pytest.raises(ValueRefused) as caught:
        changes_of(TELL, build.insert(100, ("4711-secret", "a")))
    assert "4711" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_columns_told_in_one_transaction_hold_for_the_next() -> None:
    found, reached = read(
        *transaction(1, TELL, build.insert(100, ("1", "a"))),
        *transaction(2, build.insert(100, ("2", "b"))),
    )
    assert [list(each.changes()) for each in found] == [[Inserted(T, (1, "a"))], [Inserted(T, (2, "b"))]]
    assert reached == 25


def test_transactions_that_are_durable_or_empty_are_passed_over() -> None:
    found, reached = read(
        *transaction(1, TELL, build.insert(100, ("1", "a"))),
        *transaction(2, build.insert(100, ("2", "b"))),
        *transaction(3, build.type_name(9, "s", "t"), build.origin(1, "o"), build.message(1, "p", b"x")),
        after=15,
    )
    assert [list(each.changes()) for each in found] == [[Inserted(T, (2, "b"))]]
    assert reached == 35


def test_transactions_of_a_batch_may_be_read_side_by_side() -> None:
    inserts = [build.insert(100, (str(n), "x" * n)) for n in range(50)]
    found, _ = read(*transaction(1, TELL, *inserts), *transaction(2, *inserts))
    pairs = list(zip(found[0].changes(), found[1].changes(), strict=True))
    assert all(first == second for first, second in pairs)
    assert len(pairs) == 50


def test_a_transaction_of_any_size_waits_on_disk() -> None:
    bound = 64 << 10
    spool = spool_beyond(bound)()
    message = build.insert(100, ("1", "x" * 1000))
    stream = chain([build.begin(10, AT, 1), TELL], repeat(message, 2000), [build.commit(10, 15, AT)])
    pieces = split(stream, Xid(2), "db")
    transactions, reached = collected(pieces, spool, (T,), Lsn(0), "db")
    with closing(Batch(transactions, reached, True, (), frozenset(), spool)):
        assert spool._rolled  # type: ignore[attr-defined]
        assert sum(1 for _ in transactions[0].changes()) == 2000
    assert spool.closed


@pytest.mark.parametrize(
    "stream",
    [
        [build.begin(10, AT, 1)],
        [build.begin(10, AT, 1), build.begin(20, AT, 2)],
        [build.commit(10, 15, AT)],
        [build.begin(10, AT, 1), build.commit(20, 25, AT)],
        [build.insert(100, ("1", "a"))],
        [b"?"],
        [b""],
    ],
)
def test_a_log_out_of_order_is_refused(stream: list[bytes]) -> None:
    with pytest.raises(LogUnreadable):
        read(*stream)


def test_rows_of_a_table_whose_columns_were_not_told_are_refused() -> None:
    with pytest.raises(LogUnreadable, match="without having told its columns"):
        changes_of(build.insert(100, ("1", "a")))
