"""What a PostgreSQL database held after each of its transactions, by a slot of its own and PostgreSQL's own printing.

Nothing of Headwater takes part: ``test_decoding`` prints the log as text, and this replays the text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import psycopg

Row: TypeAlias = tuple[Any, ...]
Rows: TypeAlias = dict[str, "Counter[Row]"]

_CHANGE = re.compile(r"table public\.(\w+): (INSERT|UPDATE|DELETE): (.*)", re.DOTALL)
_VALUE = re.compile(r"(\w+)\[([^\]]+)\]:('(?:[^']|'')*'|\S+)")
_SLOT = "replay"


class Replay:
    """``columns`` are those of each table, in order; every table must have REPLICA IDENTITY FULL from the start."""

    def __init__(self, url: str, columns: Mapping[str, Sequence[str]]) -> None:
        self._url = url
        self._columns = columns
        self._first: Rows = {}
        self._transactions: dict[str, list[tuple[str, Row, int]]] = {}  # in the order of their commits

    def begin(self) -> None:
        """Nobody may be writing."""
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute("SELECT pg_create_logical_replication_slot(%s, 'test_decoding')", (_SLOT,))
            for name, columns in self._columns.items():
                connection.execute(f"ALTER TABLE {name} REPLICA IDENTITY FULL")
                rows = connection.execute(f"SELECT {', '.join(columns)} FROM {name}").fetchall()
                self._first[name] = Counter(tuple(row) for row in rows)

    def read(self) -> None:
        """Take in what the log tells by now. After a crash of the server it may tell some of it again."""
        with psycopg.connect(self._url, autocommit=True) as connection:
            found = connection.execute(
                "SELECT xid::text, data FROM pg_logical_slot_get_changes(%s, NULL, NULL)", (_SLOT,)
            ).fetchall()
        known = set(self._transactions)
        for xid, text in found:
            if xid not in known:
                self._transactions.setdefault(xid, []).extend(self._changes(text))

    def order(self) -> list[str]:
        return list(self._transactions)

    def after(self, transactions: set[str]) -> Rows:
        """The tables with just these transactions; they must be the first so many of the log."""
        held = {name: rows.copy() for name, rows in self._first.items()}
        touched = [xid for xid, changes in self._transactions.items() if changes]
        chosen = [xid for xid in touched if xid in transactions]
        assert chosen == touched[: len(chosen)], "a transaction was left out"
        for xid in chosen:
            for name, row, count in self._transactions[xid]:
                held[name][row] += count
                assert held[name][row] >= 0
        return {name: +rows for name, rows in held.items()}

    def _changes(self, text: str) -> list[tuple[str, Row, int]]:
        matched = _CHANGE.match(text)
        if matched is None:
            return []
        name, kind, values = matched.groups()
        if name not in self._columns:
            return []
        if kind == "UPDATE":
            before, _, after = values.removeprefix("old-key: ").partition(" new-tuple: ")
            return [(name, self._row(name, before), -1), (name, self._row(name, after), 1)]
        return [(name, self._row(name, values), 1 if kind == "INSERT" else -1)]

    def _row(self, name: str, values: str) -> Row:
        found = {column: _value(kind, text) for column, kind, text in _VALUE.findall(values)}
        return tuple(found.get(column) for column in self._columns[name])


def _value(kind: str, text: str) -> Any:
    if text == "null":
        return None
    return int(text) if kind == "integer" else text[1:-1].replace("''", "'")
