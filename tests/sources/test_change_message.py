"""Change messages: Debezium's envelope and plain rows into one type; what can't be read is refused by name."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import MalformedMessage
from headwater.sources.change_message import ChangeMessage, Operation, Position, read_debezium, read_plain

ORIGIN = {"connector": "postgresql", "schema": "shop", "table": "orders", "lsn": 33_842_568, "txId": 771}


def envelope(**members: Any) -> dict[str, Any]:
    origin = {**ORIGIN, "ts_ms": 1_700_000_000_123, "ts_us": 1_700_000_000_123_456}
    return {"op": "c", "before": None, "after": {"id": 1}, "source": origin, "ts_ms": 1_700_000_000_500, **members}


def debezium(**members: Any) -> ChangeMessage | None:
    return read_debezium(json.dumps(envelope(**members)), "pg1")


def test_an_insertion() -> None:
    assert debezium() == ChangeMessage(
        source="pg1",
        table="shop.orders",
        position=Position(33_842_568),
        operation=Operation.INSERT,
        after={"id": 1},
        transaction="771",
        committed_at=1_700_000_000_123_456,
    )


@pytest.mark.parametrize(
    ("op", "before", "after"),
    [
        ("c", None, {"id": 1}),
        ("u", {"id": 1, "v": 1}, {"id": 1, "v": 2}),
        ("d", {"id": 1}, None),
        ("r", None, {"id": 1}),
        ("t", None, None),
    ],
)
def test_every_operation(op: str, before: Any, after: Any) -> None:
    message = debezium(op=op, before=before, after=after)
    assert message is not None
    assert (message.operation.value, message.before, message.after) == (op, before, after)


def test_the_envelope_under_payload_with_its_schema() -> None:
    assert read_debezium(json.dumps({"schema": {"type": "struct"}, "payload": envelope()}), "pg1") == debezium()


def test_the_order_inside_a_transaction_tells_rows_of_one_lsn_apart() -> None:
    message = debezium(transaction={"id": "771:33842568", "total_order": 3, "data_collection_order": 1})
    assert message is not None
    assert message.position == Position(33_842_568, 3)
    assert str(message.position) == "33842568.3"


def test_milliseconds_where_the_connector_has_nothing_finer() -> None:
    message = debezium(source={**ORIGIN, "ts_ms": 1_700_000_000_123})
    assert message is not None
    assert message.committed_at == 1_700_000_000_123_000


def test_no_digit_is_lost() -> None:
    message = read_debezium(
        json.dumps(envelope()).replace('{"id": 1}', '{"id": 0.1000000000000000055511151231}'), "pg1"
    )
    assert message is not None
    assert message.after == {"id": Decimal("0.1000000000000000055511151231")}


@pytest.mark.parametrize(
    "text",
    ["null", '{"schema": null, "payload": null}', '{"ts_ms": 1}', '{"status": "BEGIN", "id": "771:1", "ts_ms": 1}'],
    ids=["tombstone", "tombstone with schema", "heartbeat", "transaction marker"],
)
def test_what_tells_of_no_row(text: str) -> None:
    assert read_debezium(text, "pg1") is None


@pytest.mark.parametrize(
    ("members", "told"),
    [
        ({"op": "x"}, "has str as op; expected is one of c, u, d, r, t"),
        ({"op": None}, "has NoneType as op"),
        ({"source": None}, "has NoneType as source; expected is an object"),
        ({"source": {**ORIGIN, "lsn": None}}, "has NoneType as source.lsn; expected is a whole number"),
        ({"source": {**ORIGIN, "lsn": True}}, "has bool as source.lsn"),
        ({"source": {**ORIGIN, "lsn": -1}}, "as source.lsn"),
        ({"source": {**ORIGIN, "table": ""}}, "as source.table; expected is a text"),
        ({"after": None}, "has NoneType as after; expected is an object with the row's columns for op c"),
        ({"after": [1]}, "has list as after"),
        ({"before": {"id": 1}}, "has dict as before; expected is null for op c"),
        ({"op": "d", "before": {"id": 1}}, "has dict as after; expected is null for op d"),
        ({"transaction": {"id": "771"}}, "has nothing as transaction.total_order"),
    ],
)
def test_a_wrong_member_is_named(members: dict[str, Any], told: str) -> None:
    with pytest.raises(MalformedMessage) as caught:
        debezium(**members)
    assert told in str(caught.value)
    assert caught.value.code == "MALFORMED_MESSAGE"


@pytest.mark.parametrize("op", ["u", "d"])
def test_a_row_without_its_image_from_before_is_refused_with_the_statement_that_mends_it(op: str) -> None:
    with pytest.raises(MalformedMessage, match=r"ALTER TABLE shop\.orders REPLICA IDENTITY FULL"):
        debezium(op=op, before=None, after={"id": 1} if op == "u" else None)


@pytest.mark.parametrize(
    "text", ["", "{", "[1]", "7", '{"op": NaN}', '{"op": "c", "op": "d"}', b"\xff\xfe\x00", "[" * 10**5]
)
def test_what_is_no_message_at_all(text: str | bytes) -> None:
    with pytest.raises(MalformedMessage):
        read_debezium(text, "pg1")
    with pytest.raises(MalformedMessage):
        read_plain(text, "files")


def test_no_value_of_a_row_stands_in_an_error() -> None:
    with pytest.raises(MalformedMessage) as caught:
        debezium(after="a secret")
    assert "secret" not in str(caught.value)


def plain(**members: Any) -> ChangeMessage:
    return read_plain(json.dumps({"table": "shop.orders", "version": 7, **members}), "files")


def test_a_plain_row_is_an_insertion() -> None:
    assert plain(row={"id": 1}) == ChangeMessage(
        "files", "shop.orders", Position(7, 1), Operation.INSERT, after={"id": 1}, parts=1
    )


def test_a_plain_row_of_every_operation() -> None:
    assert plain(op="d", row={"id": 1}).before == {"id": 1}
    update = plain(op="u", before={"id": 1}, after={"id": 2})
    assert (update.before, update.after) == ({"id": 1}, {"id": 2})
    assert plain(op="t").operation is Operation.TRUNCATE
    assert plain(row={"id": 1}, part=2, parts=3).position == Position(7, 2)


@pytest.mark.parametrize(
    "members",
    [
        {"row": {"id": 1}, "version": 0},
        {"row": {"id": 1}, "version": "7"},
        {"row": {"id": 1}, "table": 5},
        {"row": {"id": 1}, "part": 4, "parts": 3},
        {"row": {"id": 1}, "part": 0},
        {"row": {"id": 1}, "after": {"id": 1}},
        {"row": {"id": 1}, "op": "u"},
        {"op": "u", "after": {"id": 1}},
        {},
    ],
)
def test_a_wrong_plain_row_is_refused(members: dict[str, Any]) -> None:
    with pytest.raises(MalformedMessage):
        plain(**members)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
MEMBERS = ("op", "before", "after", "source", "transaction", "payload", "row", "table", "version", "part", "parts")


@given(st.dictionaries(st.sampled_from(MEMBERS), ANYTHING), st.booleans())
def test_whatever_comes_is_read_or_refused(members: dict[str, Any], mostly_right: bool) -> None:
    text = json.dumps({**envelope(), **members} if mostly_right else members)
    for read in (read_debezium, read_plain):
        refused = message = None
        try:
            message = read(text, "pg1")
        except MalformedMessage as error:
            refused = error
        assert message is None or isinstance(message, ChangeMessage)
        assert refused is None or refused.remedy
