"""Messages of pgoutput, built by hand from its documentation: the other half of the decoder."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from headwater.sources.postgres.pgoutput import UNCHANGED, SentRow
from headwater.sources.postgres.tables import ReplicaIdentity, SourceTable, TableName, column_of
from headwater.sources.postgres.type_map import Scalar

# The year 2000 in microseconds since 1970.
EPOCH = 946_684_800_000_000


def begin(commit_lsn: int, committed_at: int, xid: int) -> bytes:
    return b"B" + struct.pack(">QqI", commit_lsn, committed_at - EPOCH, xid)


def commit(commit_lsn: int, end_lsn: int, committed_at: int) -> bytes:
    return b"C\0" + struct.pack(">QQq", commit_lsn, end_lsn, committed_at - EPOCH)


def relation(oid: int, schema: str, name: str, columns: Sequence[tuple[str, int]], identity: str = "f") -> bytes:
    parts = [
        b"R",
        struct.pack(">I", oid),
        _name(schema),
        _name(name),
        identity.encode(),
        struct.pack(">H", len(columns)),
    ]
    for column, type_oid in columns:
        parts += [b"\1", _name(column), struct.pack(">Ii", type_oid, -1)]
    return b"".join(parts)


def row(values: SentRow) -> bytes:
    parts = [struct.pack(">H", len(values))]
    for value in values:
        if value is None:
            parts.append(b"n")
        elif value is UNCHANGED:
            parts.append(b"u")
        else:
            text = str(value).encode()
            parts.append(b"t" + struct.pack(">I", len(text)) + text)
    return b"".join(parts)


def insert(oid: int, new: SentRow) -> bytes:
    return b"I" + struct.pack(">I", oid) + b"N" + row(new)


def update(oid: int, new: SentRow, *, old: SentRow | None = None, key: SentRow | None = None) -> bytes:
    before = b"O" + row(old) if old is not None else b"K" + row(key) if key is not None else b""
    return b"U" + struct.pack(">I", oid) + before + b"N" + row(new)


def delete(oid: int, *, old: SentRow | None = None, key: SentRow | None = None) -> bytes:
    before = b"O" + row(old) if old is not None else b"K" + row(key or ())
    return b"D" + struct.pack(">I", oid) + before


def truncate(*oids: int, cascade: bool = False, restart_identity: bool = False) -> bytes:
    return b"T" + struct.pack(f">IB{len(oids)}I", len(oids), cascade | restart_identity << 1, *oids)


def origin(commit_lsn: int, name: str) -> bytes:
    return b"O" + struct.pack(">Q", commit_lsn) + _name(name)


def type_name(oid: int, schema: str, name: str) -> bytes:
    return b"Y" + struct.pack(">I", oid) + _name(schema) + _name(name)


def message(lsn: int, prefix: str, content: bytes, *, transactional: bool = True) -> bytes:
    return b"M" + struct.pack(">BQ", transactional, lsn) + _name(prefix) + struct.pack(">I", len(content)) + content


def _name(text: str) -> bytes:
    return text.encode() + b"\0"


INT4, TEXT = 23, 25


def source_table(oid: int = 100, name: str = "t") -> SourceTable:
    """Two columns, (id int4, body text)."""
    full = TableName("public", name)
    columns = (column_of(full, "id", Scalar("int4"), INT4), column_of(full, "body", Scalar("text"), TEXT))
    return SourceTable(oid, full, columns, ("id",), ReplicaIdentity.FULL)


COLUMNS = (("id", INT4), ("body", TEXT))
