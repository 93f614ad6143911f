"""Which columns are still the same ones, by the commits that renamed and dropped columns.

Where Delta maps columns by name, a column is renamed or dropped without a change of any row, and another one may have
its name and type afterwards: two columns that swap their names, one that is dropped and added again. Delta tells nobody
what it knows a column by, but its history tells each renaming.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable
from typing import Any

from headwater.engine.spark import StoredCommit

_PART = re.compile(r"`((?:[^`]|``)*)`|([^.`]+)")


def names_after(columns: Collection[str], commits: Iterable[StoredCommit]) -> dict[str, str | None]:
    """What each of the columns is called after the commits, in small letters; None if it is gone.

    A column in which a field was renamed or dropped is taken to be gone.
    """
    found: dict[str, str | None] = {name: name.lower() for name in columns}
    for commit in sorted(commits, key=lambda commit: commit.version):
        found = {name: None if now is None else _after(now, commit) for name, now in found.items()}
    return found


def _after(name: str, commit: StoredCommit) -> str | None:
    parameters = commit.parameters
    match commit.operation:
        case "RENAME COLUMN":
            old, new = _path(parameters["oldColumnPath"]), _path(parameters["newColumnPath"])
            if old[0] != name:
                return name
            return new[0] if len(old) == 1 else None
        case "DROP COLUMNS":
            return None if any(_path(path)[0] == name for path in json.loads(parameters["columns"])) else name
        case "REPLACE COLUMNS":
            return name if name in {_name(each) for each in json.loads(parameters["columns"])} else None
        case _:
            return name


def _path(path: str) -> list[str]:
    return [(quoted.replace("``", "`") or plain).lower() for quoted, plain in _PART.findall(path)]


def _name(added: Any) -> str:
    return _path(added["column"]["name"])[0]
