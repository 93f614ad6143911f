"""The messages of pgoutput, protocol version 1: bytes in, values out.

One message is one row of ``pg_logical_slot_peek_binary_changes``. A transaction is BEGIN, then what it did, then
COMMIT; a RELATION message comes before the first change of its table and again whenever the table's columns change.
BEGIN already carries the place and time of the commit, because the server sends a transaction only when it has
committed: version 2 would send large ones while they run, with aborts to undo, and is not asked for. The server keeps
what does not fit its ``logical_decoding_work_mem`` on its own disk.

Values come as the text that the types' output functions give, so what they look like depends on the session's settings
(see ``connection``). A tuple's value is that text, None for NULL, or ``UNCHANGED``: a long value that is stored out of
line (TOAST) and that the update did not touch is not sent.

Format: PostgreSQL documentation, "Logical Replication Message Formats".
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias

from headwater.sources.postgres.positions import Lsn

# Microseconds from 1970, where our timestamps begin, to 2000, where PostgreSQL's do.
_POSTGRES_EPOCH = 946_684_800_000_000


class _Toast(Enum):
    UNCHANGED = "unchanged"


UNCHANGED: Final = _Toast.UNCHANGED

SentValue: TypeAlias = str | _Toast | None
SentRow: TypeAlias = tuple[SentValue, ...]


class MalformedMessage(ValueError):
    """The bytes are no message of pgoutput, or of a kind that was not asked for."""


@dataclass(frozen=True, slots=True)
class Begin:
    commit_lsn: Lsn
    committed_at: int
    """Microseconds since 1970, UTC."""
    xid: int
    """The low 32 bits."""


@dataclass(frozen=True, slots=True)
class Commit:
    commit_lsn: Lsn
    end_lsn: Lsn
    committed_at: int


@dataclass(frozen=True, slots=True)
class Origin:
    commit_lsn: Lsn
    name: str


@dataclass(frozen=True, slots=True)
class RelationColumn:
    name: str
    type_oid: int
    type_modifier: int
    in_identity: bool


@dataclass(frozen=True, slots=True)
class Relation:
    oid: int
    schema: str
    name: str
    replica_identity: str
    """As in pg_class.relreplident: d, n, f or i."""
    columns: tuple[RelationColumn, ...]


@dataclass(frozen=True, slots=True)
class TypeName:
    oid: int
    schema: str
    name: str


class OldRow(Enum):
    """How much of a row before its change was sent."""

    NONE = "nothing"
    KEY = "the columns of the replica identity"
    FULL = "the whole row"


@dataclass(frozen=True, slots=True)
class Insert:
    relation: int
    new: SentRow


@dataclass(frozen=True, slots=True)
class Update:
    relation: int
    kind: OldRow
    old: SentRow
    new: SentRow


@dataclass(frozen=True, slots=True)
class Delete:
    relation: int
    kind: OldRow
    old: SentRow


@dataclass(frozen=True, slots=True)
class Truncate:
    relations: tuple[int, ...]
    cascade: bool
    restart_identity: bool


@dataclass(frozen=True, slots=True)
class LogicalMessage:
    transactional: bool
    lsn: Lsn
    prefix: str
    content: bytes


RowMessage: TypeAlias = Insert | Update | Delete | Truncate
Message: TypeAlias = Begin | Commit | Origin | Relation | TypeName | RowMessage | LogicalMessage

_BEGIN = struct.Struct(">QqI")
_COMMIT = struct.Struct(">BQQq")
_COLUMN = struct.Struct(">Ii")
_OID = struct.Struct(">I")
_COUNT = struct.Struct(">H")
_TRUNCATE = struct.Struct(">IB")
_MESSAGE = struct.Struct(">BQ")

_NULL, _UNCHANGED, _TEXT, _BINARY = b"nutb"
_OLD_KINDS = {ord("K"): OldRow.KEY, ord("O"): OldRow.FULL}
_NEW = ord("N")


def decode(data: bytes) -> Message:
    """The message that ``data`` is, all of it."""
    try:
        message, end = _decode(data)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise MalformedMessage(
            f"a message of kind {data[:1]!r} and {len(data)} bytes can't be read: {error}"
        ) from error
    if end != len(data):
        raise MalformedMessage(f"a message of kind {data[:1]!r} ends at byte {end} of {len(data)}")
    return message


def _decode(data: bytes) -> tuple[Message, int]:
    match data[:1]:
        case b"I":
            _expect(data, 5, _NEW)
            new, end = _row(data, 6)
            return Insert(_unsigned(data, 1), new), end
        case b"U":
            kind = _OLD_KINDS.get(data[5], OldRow.NONE)
            old, at = ((), 5) if kind is OldRow.NONE else _row(data, 6)
            _expect(data, at, _NEW)
            new, end = _row(data, at + 1)
            return Update(_unsigned(data, 1), kind, old, new), end
        case b"D":
            kind = _OLD_KINDS.get(data[5], OldRow.NONE)
            if kind is OldRow.NONE:
                raise MalformedMessage(f"a DELETE has no old row but {data[5:6]!r}")
            old, end = _row(data, 6)
            return Delete(_unsigned(data, 1), kind, old), end
        case b"B":
            commit, at, xid = _BEGIN.unpack_from(data, 1)
            return Begin(Lsn(commit), at + _POSTGRES_EPOCH, xid), 1 + _BEGIN.size
        case b"C":
            _flags, commit, stop, at = _COMMIT.unpack_from(data, 1)
            return Commit(Lsn(commit), Lsn(stop), at + _POSTGRES_EPOCH), 1 + _COMMIT.size
        case b"R":
            return _relation(data)
        case b"T":
            count, options = _TRUNCATE.unpack_from(data, 1)
            relations = struct.unpack_from(f">{count}I", data, 6)
            return Truncate(relations, bool(options & 1), bool(options & 2)), 6 + 4 * count
        case b"Y":
            schema, at = _string(data, 5)
            name, end = _string(data, at)
            return TypeName(_unsigned(data, 1), schema, name), end
        case b"O":
            (commit,) = struct.unpack_from(">Q", data, 1)
            name, end = _string(data, 9)
            return Origin(Lsn(commit), name), end
        case b"M":
            flags, lsn = _MESSAGE.unpack_from(data, 1)
            prefix, at = _string(data, 1 + _MESSAGE.size)
            size = _unsigned(data, at)
            return LogicalMessage(bool(flags & 1), Lsn(lsn), prefix, _bytes(data, at + 4, size)), at + 4 + size
        case other:
            raise MalformedMessage(f"pgoutput's protocol 1 has no message of kind {other!r}")


def _relation(data: bytes) -> tuple[Relation, int]:
    schema, at = _string(data, 5)
    name, at = _string(data, at)
    identity = chr(data[at])
    (count,) = _COUNT.unpack_from(data, at + 1)
    at += 3
    columns = []
    for _ in range(count):
        flags = data[at]
        column, at = _string(data, at + 1)
        oid, modifier = _COLUMN.unpack_from(data, at)
        at += _COLUMN.size
        columns.append(RelationColumn(column, oid, modifier, bool(flags & 1)))
    # pg_catalog is sent as the empty string.
    return Relation(_unsigned(data, 1), schema or "pg_catalog", name, identity, tuple(columns)), at


def _row(data: bytes, at: int) -> tuple[SentRow, int]:
    (count,) = _COUNT.unpack_from(data, at)
    at += 2
    values: list[SentValue] = []
    for _ in range(count):
        kind = data[at]
        at += 1
        if kind == _TEXT:
            (size,) = _OID.unpack_from(data, at)
            at += 4
            values.append(_bytes(data, at, size).decode())
            at += size
        elif kind == _NULL:
            values.append(None)
        elif kind == _UNCHANGED:
            values.append(UNCHANGED)
        elif kind == _BINARY:
            raise MalformedMessage("a value came in binary form, which was not asked for")
        else:
            raise MalformedMessage(f"a value is of unknown kind {chr(kind)!r}")
    return tuple(values), at


def _bytes(data: bytes, at: int, size: int) -> bytes:
    """Slicing would pass over an end that is missing."""
    if at + size > len(data):
        raise MalformedMessage(f"a value of {size} bytes at {at} goes beyond the message's {len(data)}")
    return data[at : at + size]


def _string(data: bytes, at: int) -> tuple[str, int]:
    end = data.find(b"\0", at)
    if end < 0:
        raise MalformedMessage(f"the name at byte {at} has no end")
    return data[at:end].decode(), end + 1


def _unsigned(data: bytes, at: int) -> int:
    return int(_OID.unpack_from(data, at)[0])


def _expect(data: bytes, at: int, mark: int) -> None:
    if data[at] != mark:
        raise MalformedMessage(f"byte {at} is {data[at : at + 1]!r} where a new row begins with {chr(mark)!r}")
