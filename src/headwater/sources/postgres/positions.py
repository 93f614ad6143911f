"""Where a PostgreSQL server stands: places in its log, and transactions.

An ``Lsn`` is a byte of the write-ahead log; commits are ordered by it. An ``Xid`` is a transaction's number **with its
epoch**, 64 bits that are never used twice, as ``pg_current_snapshot()`` tells it. pgoutput tells the low 32 bits
only, which come round again; ``widen`` puts the epoch back.
"""

from __future__ import annotations

import re
from typing import NewType

Lsn = NewType("Lsn", int)
Xid = NewType("Xid", int)

LOG_START = Lsn(0)

_LSN = re.compile(r"([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})")
_EPOCH = 1 << 32


def parse_lsn(text: str) -> Lsn:
    found = _LSN.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not a place in a log")
    return Lsn(int(found[1], 16) << 32 | int(found[2], 16))


def format_lsn(lsn: Lsn) -> str:
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def widen(low: int, near: Xid) -> Xid:
    """The transaction number next to ``near`` that ends in these 32 bits.

    Right for every transaction that a server's log still holds when ``near`` is a number that it gave lately: it lets
    none that is in use fall 2**31 behind. ``near`` need not be greater: a snapshot's xmax may be behind a transaction
    that is in the log and not yet visible.
    """
    if not 0 <= low < _EPOCH:
        raise ValueError(f"{low} has more than 32 bits")
    ahead = (low - near) % _EPOCH
    found = near + ahead if ahead < _EPOCH // 2 else near + ahead - _EPOCH
    if found < 0:
        raise ValueError(f"no transaction near {near} ends in {low}")
    return Xid(found)
