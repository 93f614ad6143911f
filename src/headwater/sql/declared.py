"""Keys and foreign keys as Spark tells them of a table.

``DESCRIBE TABLE EXTENDED`` ends in a section ``# Constraints`` where a table format keeps them: a name and Spark's own
spelling, such as ``FOREIGN KEY (a, b) REFERENCES c.s.t (x, y) NOT ENFORCED NORELY``. CHECK constraints are passed over:
they say nothing about other rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_SECTION = "# Constraints"
_LIST = r"\(([^()]*)\)"
_KEY = re.compile(rf"(PRIMARY KEY|UNIQUE)\s*{_LIST}", re.IGNORECASE)
_FOREIGN_KEY = re.compile(rf"FOREIGN KEY\s*{_LIST}\s*REFERENCES\s+(.+?)\s*{_LIST}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class DeclaredKey:
    name: str
    columns: tuple[str, ...]
    primary: bool


@dataclass(frozen=True, slots=True)
class DeclaredReference:
    """``referred`` is the other table as Spark names it."""

    name: str
    columns: tuple[str, ...]
    referred: str
    referred_columns: tuple[str, ...]


def declared_constraints(described: Iterable[tuple[str, str]]) -> tuple[list[DeclaredKey], list[DeclaredReference]]:
    """From the first two columns of DESCRIBE TABLE EXTENDED."""
    keys: list[DeclaredKey] = []
    foreign: list[DeclaredReference] = []
    inside = False
    for first, second in described:
        if first.startswith("#") or not first:
            inside = first == _SECTION
        elif inside and (found := _FOREIGN_KEY.match(second)):
            foreign.append(DeclaredReference(first, _names(found[1]), found[2], _names(found[3])))
        elif inside and (found := _KEY.match(second)):
            keys.append(DeclaredKey(first, _names(found[2]), found[1].upper() == "PRIMARY KEY"))
    return keys, foreign


def _names(listed: str) -> tuple[str, ...]:
    return tuple(name.strip().strip("`") for name in listed.split(","))
