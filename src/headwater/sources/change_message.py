"""Change messages: one row changed, as Debezium's JSON envelope or as a plain row with a version tells it.

Both are read into one type. What can't be read raises ``MalformedMessage`` and says which member is wrong and what was
expected; nothing is guessed, and no value of a row stands in the error. Numbers with a point are read as decimals, not
as floats: a message is not the place to lose a digit.

*Debezium.* ``op`` is c(reate), u(pdate), d(elete), r(ead) or t(runcate); ``before`` and ``after`` are images of the
row; ``source`` tells the table, the ``lsn``, the transaction and the time. The lsn orders changes but is not dense,
and rows copied in bulk can share one; ``transaction.total_order``, which the connector gives on request, tells them
apart. An update or delete without its ``before`` (a table without full replica identity) can't be undone or applied
exactly and is refused. The envelope may stand alone or under ``payload``. Tombstones, heartbeats and transaction
markers tell of no row: they are read as None.

*Plain rows.* ``{"table": "shop.orders", "version": 7, "op": "c", "row": {...}}``, with ``before`` and ``after`` in
place of ``row`` for an update. Versions count 1, 2, 3, ... in each table; a version of several rows numbers them by
``part``, 1 to ``parts``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Any, TypeAlias

from headwater.errors import MalformedMessage

Image: TypeAlias = Mapping[str, Any]


class Operation(Enum):
    INSERT = "c"
    UPDATE = "u"
    DELETE = "d"
    READ = "r"  # what an initial snapshot found, not a change
    TRUNCATE = "t"


_IMAGES = {  # (before, after)
    Operation.INSERT: (False, True),
    Operation.UPDATE: (True, True),
    Operation.DELETE: (True, False),
    Operation.READ: (False, True),
    Operation.TRUNCATE: (False, False),
}


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """Where a message stands among those of its table: by version, and by part inside one."""

    version: int
    part: int = 0

    @classmethod
    def end_of(cls, version: int) -> Position:
        """After every part of a version."""
        return cls(version, sys.maxsize)

    def __str__(self) -> str:
        return f"{self.version}.{self.part}" if 0 < self.part < sys.maxsize else str(self.version)


@dataclass(frozen=True, slots=True)
class ChangeMessage:
    source: str
    table: str
    position: Position
    operation: Operation
    before: Image | None = None
    after: Image | None = None
    parts: int | None = None  # how many messages the version has; None when the message does not tell
    transaction: str | None = None
    committed_at: int | None = None  # µs since 1970, UTC


def read_debezium(text: str | bytes, source: str) -> ChangeMessage | None:
    """The change that an envelope of Debezium's PostgreSQL connector tells; None when it tells of no row."""
    envelope = _parsed(text, source)
    if isinstance(envelope, dict) and "payload" in envelope:
        envelope = envelope["payload"]
    if envelope is None:
        return None
    reader = _Reader(_object(envelope, "the message", source), source)
    if "op" not in reader.members and ("status" in reader.members or set(reader.members) <= {"ts_ms"}):
        return None
    origin = _Reader(_object(reader.members.get("source"), "source", source), source, "source.")
    schema, name = origin.text("schema", optional=True), origin.text("table")
    reader = _Reader(reader.members, f"{schema}.{name}" if schema else str(name))
    operation = reader.operation("op")
    block = reader.members.get("transaction")
    order = 0
    if block is not None:
        order = _Reader(_object(block, "transaction", reader.table), reader.table, "transaction.").number("total_order")
    origin = _Reader(origin.members, reader.table, "source.")
    committed = origin.number("ts_us", optional=True)
    if committed is None and (millis := origin.number("ts_ms", optional=True)) is not None:
        committed = millis * 1000
    transaction = origin.members.get("txId")
    return ChangeMessage(
        source=source,
        table=reader.table,
        position=Position(origin.number("lsn"), order),
        operation=operation,
        before=reader.image("before", operation, 0),
        after=reader.image("after", operation, 1),
        transaction=None if transaction is None else str(transaction),
        committed_at=committed,
    )


def read_plain(text: str | bytes, source: str) -> ChangeMessage:
    """The change that a plain row with a version tells."""
    members = _object(_parsed(text, source), "the message", source)
    reader = _Reader(members, str(_Reader(members, source).text("table")))
    operation = reader.operation("op") if "op" in members else Operation.INSERT
    if "row" in members:
        if operation is Operation.UPDATE or "before" in members or "after" in members:
            raise reader.wrong("row", "only without before and after, and not for an update")
        image = "before" if operation is Operation.DELETE else "after"
        reader = _Reader({**members, image: members["row"]}, reader.table)
    parts = 1 if "parts" not in members else reader.number("parts")
    part = 1 if "part" not in members else reader.number("part")
    if not 1 <= part <= parts:
        raise reader.wrong("part", f"a number from 1 to parts, which is {parts}")
    version = reader.number("version")
    if version < 1:
        raise reader.wrong("version", "a number from 1 on")
    return ChangeMessage(
        source=source,
        table=reader.table,
        position=Position(version, part),
        operation=operation,
        before=reader.image("before", operation, 0),
        after=reader.image("after", operation, 1),
        parts=parts,
        transaction=reader.text("transaction", optional=True),
        committed_at=reader.number("ts_us", optional=True),
    )


@dataclass(frozen=True, slots=True)
class _Reader:
    """Members of one object of a message, each read with what is expected of it."""

    members: Mapping[str, Any]
    table: str
    prefix: str = ""

    def wrong(self, name: str, expected: str) -> MalformedMessage:
        found = type(self.members[name]).__name__ if name in self.members else "nothing"
        return MalformedMessage(
            f"A change message of {self.table} has {found} as {self.prefix}{name}; expected is {expected}.",
            table=self.table,
            remedy="Mend the message and deliver it again, or repair the table by query.",
        )

    def number(self, name: str, *, optional: bool = False) -> Any:
        value = self.members.get(name)
        if value is None and optional:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise self.wrong(name, "a whole number, not negative")
        return value

    def text(self, name: str, *, optional: bool = False) -> str | None:
        value = self.members.get(name)
        if value is None and optional:
            return None
        if not isinstance(value, str) or not value:
            raise self.wrong(name, "a text")
        return value

    def operation(self, name: str) -> Operation:
        value = self.members.get(name)
        try:
            return Operation(value)
        except ValueError:
            raise self.wrong(name, "one of c, u, d, r, t") from None

    def image(self, name: str, operation: Operation, which: int) -> Image | None:
        value = self.members.get(name)
        if not _IMAGES[operation][which]:
            if value is not None:
                raise self.wrong(name, f"null for op {operation.value}")
            return None
        if value is None and name == "before":
            raise MalformedMessage(
                f"A change message of {self.table} with op {operation.value} does not tell the row as it was before.",
                table=self.table,
                remedy=f"Let the source log whole rows: ALTER TABLE {self.table} REPLICA IDENTITY FULL.",
            )
        if not isinstance(value, dict):
            raise self.wrong(name, f"an object with the row's columns for op {operation.value}")
        return value


def _parsed(text: str | bytes, table: str) -> Any:
    try:
        return json.loads(text, parse_float=Decimal, parse_constant=_no_number, object_pairs_hook=_no_member_twice)
    except (ValueError, RecursionError) as error:
        raise MalformedMessage(
            f"A change message of {table} is not JSON: {type(error).__name__}.",
            table=table,
            remedy="Deliver the message again, complete and in UTF-8.",
        ) from error


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def _no_member_twice(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a member stands twice")
    return members


def _object(value: Any, name: str, table: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise MalformedMessage(
            f"A change message of {table} has {type(value).__name__} as {name}; expected is an object.",
            table=table,
            remedy="Deliver Debezium's envelope, or plain rows with a version, one a message.",
        )
    return value
