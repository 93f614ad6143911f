"""The decoder: every kind of message, and bytes that are none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.sources.postgres import pgoutput as pg
from headwater.sources.postgres.pgoutput import UNCHANGED, MalformedMessage, OldRow, decode
from headwater.sources.postgres.positions import Xid, format_lsn, parse_lsn, widen
from tests.sources.postgres import messages as build

AT = 1_760_000_000_123_456

EVERY_KIND = [
    (build.begin(7, AT, 5), pg.Begin(7, AT, 5)),
    (build.commit(7, 9, AT), pg.Commit(7, 9, AT)),
    (build.origin(7, "elsewhere"), pg.Origin(7, "elsewhere")),
    (build.type_name(90000, "shop", "mood"), pg.TypeName(90000, "shop", "mood")),
    (
        build.relation(100, "shop", "Größe", build.COLUMNS),
        pg.Relation(
            100,
            "shop",
            "Größe",
            "f",
            (pg.RelationColumn("id", 23, -1, True), pg.RelationColumn("body", 25, -1, True)),
        ),
    ),
    (build.insert(100, ("1", None)), pg.Insert(100, ("1", None))),
    (build.update(100, ("1", "b")), pg.Update(100, OldRow.NONE, (), ("1", "b"))),
    (
        build.update(100, ("2", UNCHANGED), key=("1", None)),
        pg.Update(100, OldRow.KEY, ("1", None), ("2", UNCHANGED)),
    ),
    (
        build.update(100, ("1", UNCHANGED), old=("1", "long")),
        pg.Update(100, OldRow.FULL, ("1", "long"), ("1", UNCHANGED)),
    ),
    (build.delete(100, key=("1", None)), pg.Delete(100, OldRow.KEY, ("1", None))),
    (build.delete(100, old=("1", "")), pg.Delete(100, OldRow.FULL, ("1", ""))),
    (build.truncate(100, 101, cascade=True), pg.Truncate((100, 101), True, False)),
    (build.truncate(100, restart_identity=True), pg.Truncate((100,), False, True)),
    (build.message(3, "app", b"\0\xff", transactional=False), pg.LogicalMessage(False, 3, "app", b"\0\xff")),
]


@pytest.mark.parametrize(("data", "expected"), EVERY_KIND, ids=lambda value: type(value).__name__)
def test_every_kind_of_message(data: bytes, expected: pg.Message) -> None:
    assert decode(data) == expected


@pytest.mark.parametrize(("data", "expected"), EVERY_KIND, ids=lambda value: type(value).__name__)
def test_a_message_that_is_cut_or_too_long_is_refused(data: bytes, expected: pg.Message) -> None:
    for end in range(len(data)):
        with pytest.raises(MalformedMessage):
            decode(data[:end])
    with pytest.raises(MalformedMessage, match="ends at byte"):
        decode(data + b"\0")


@pytest.mark.parametrize(
    "data",
    [
        b"S\0\0\0\0\0",  # a stream of protocol 2
        b"I\0\0\0\1X\0\0",
        b"D\0\0\0\1N\0\0",
        b"I\0\0\0\1N\0\1b\0\0\0\1x",  # a value in binary form
        b"I\0\0\0\1N\0\1z",
        b"I\0\0\0\1N\0\1t\0\0\0\1\xff",  # not UTF-8
    ],
)
def test_what_was_not_asked_for_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedMessage):
        decode(data)


values = st.one_of(st.none(), st.just(UNCHANGED), st.text(st.characters(exclude_categories=["Cs"]), max_size=12))
rows = st.lists(values, max_size=6).map(tuple)


@given(st.integers(0, 2**32 - 1), rows, rows)
def test_rows_of_any_values_come_back(oid: int, old: pg.SentRow, new: pg.SentRow) -> None:
    assert decode(build.update(oid, new, old=old)) == pg.Update(oid, OldRow.FULL, old, new)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_message_or_refused(data: bytes) -> None:
    try:
        found = decode(data)
    except MalformedMessage:
        return
    assert type(found).__name__[0] in "BCIUDTORLT"


@given(st.integers(0, 2**64 - 1))
def test_a_place_in_the_log_is_printed_and_read(lsn: int) -> None:
    assert parse_lsn(format_lsn(lsn)) == lsn  # type: ignore[arg-type]


def test_a_place_in_the_log_as_postgresql_prints_it() -> None:
    assert format_lsn(parse_lsn("16/B374D848")) == "16/B374D848"
    with pytest.raises(ValueError, match="not a place"):
        parse_lsn("16B374D848")


@given(st.integers(2**31, 2**63), st.integers(-(2**31) + 1, 2**31 - 1))
def test_a_transaction_number_gets_its_epoch_back(near: int, distance: int) -> None:
    xid = near + distance
    assert widen(xid & 0xFFFFFFFF, Xid(near)) == xid
