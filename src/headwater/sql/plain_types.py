"""Types whose values are equal exactly if they are the same, so that a row taken away cancels one given."""

from __future__ import annotations

import re

_PLAIN = re.compile(r"tinyint|smallint|int|bigint|decimal\(.*\)|string|boolean|date|timestamp|timestamp_ntz|binary")


def is_plain_type(kind: str) -> bool:
    return _PLAIN.fullmatch(kind) is not None
