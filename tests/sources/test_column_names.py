"""Renamed and dropped columns, from what Delta's history says of the commits."""

from __future__ import annotations

from headwater.engine.spark import StoredCommit
from headwater.sources.column_names import names_after


def commits(*found: tuple[str, dict[str, str]]) -> list[StoredCommit]:
    return [StoredCommit(number, 0, operation, None, {}, given) for number, (operation, given) in enumerate(found)]


def renamed(old: str, new: str) -> tuple[str, dict[str, str]]:
    return "RENAME COLUMN", {"oldColumnPath": old, "newColumnPath": new}


DROPPED = ("DROP COLUMNS", {"columns": '["v"]'})
ADDED = ("ADD COLUMNS", {"columns": '[{"column":{"name":"v","type":"integer","nullable":true,"metadata":{}}}]'})


def test_columns_that_swap_their_names_are_followed() -> None:
    swapped = commits(renamed("a", "tmp"), renamed("b", "a"), renamed("tmp", "b"))
    assert names_after(["a", "b", "k"], swapped) == {"a": "b", "b": "a", "k": "k"}
    assert names_after(["a", "b"], list(reversed(swapped))) == {"a": "b", "b": "a"}  # histories are newest first


def test_a_column_that_comes_back_under_its_name_is_the_same_or_another() -> None:
    assert names_after(["V"], commits(renamed("v", "w"), renamed("w", "v"))) == {"V": "v"}
    assert names_after(["v", "k"], commits(DROPPED, ADDED)) == {"v": None, "k": "k"}
    assert names_after(["v"], commits(renamed("v", "w"), ADDED)) == {"v": "w"}


def test_other_commits_leave_columns_as_they_are() -> None:
    assert names_after(["v"], commits(ADDED, ("OPTIMIZE", {}), ("CHANGE COLUMN", {"column": "{}"}))) == {"v": "v"}


def test_names_are_told_as_paths() -> None:
    """With quotes only where they must be."""
    assert names_after(["odd.name"], commits(renamed("`odd.name`", "o'\"x"))) == {"odd.name": "o'\"x"}
    assert names_after(["o'\"x"], commits(("DROP COLUMNS", {"columns": '["o\'\\"x"]'}))) == {"o'\"x": None}
    assert names_after(["s", "x"], commits(renamed("s.x", "s.z"))) == {"s": None, "x": "x"}


def test_columns_that_are_not_among_the_new_ones_are_gone() -> None:
    replaced = ("REPLACE COLUMNS", {"columns": '[{"column":{"name":"k","type":"integer"}}]'})
    assert names_after(["k", "v"], commits(replaced)) == {"k": "k", "v": None}
