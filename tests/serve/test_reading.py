"""A read without a lease: its versions are settled once, and whatever comes between is noticed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from headwater.algebra.time import Csn
from headwater.catalog import RetentionSettings
from headwater.context import Context
from headwater.errors import BeyondHighWaterMark, MomentBeforeHistory
from headwater.serve.garbage import collect
from headwater.serve.reading import pin_view
from headwater.sql.dialect import to_text
from headwater.sql.pinned import PinnedTimeline, PinnedView, pinned_relation
from tests.serve.fake_lake import FakeLake, HandClock


@dataclass
class Engine:
    """Tells the newest version; before it does, something else happens once."""

    lake: FakeLake
    meanwhile: list[Callable[[], Any]]

    def newest_version(self, location: str) -> int:
        if self.meanwhile:
            self.meanwhile.pop()()
        return self.lake.newest_version(location)


@dataclass
class Reading:
    lake: FakeLake
    meanwhile: list[Callable[[], Any]]

    def __call__(self, at: int | None, view: str = "v") -> Any:
        context = cast(
            Context, type("C", (), {"catalog": self.lake.catalog, "engine": Engine(self.lake, self.meanwhile)})
        )
        return pin_view(context, view, None if at is None else Csn(at))


@pytest.fixture
def read(tmp_path: Path) -> Iterator[Reading]:
    lake = FakeLake(tmp_path, HandClock())
    lake.create("v")
    lake.catalog.set_retention(RetentionSettings(tags=frozenset()))
    lake.step(2)
    lake.step(2)
    yield Reading(lake, [])
    lake.catalog.close()


def rows(read: Reading, pinned: Any) -> list[int]:
    return read.lake.rows_of(to_text(pinned_relation(pinned)))


def test_as_it_stands_needs_no_view_delta(read: Reading) -> None:
    found = read(None)
    assert isinstance(found, PinnedView)
    assert (found.at, found.delta_version) == (4, None)
    assert rows(read, found) == [1, 2, 3, 4]


def test_the_version_of_the_view_delta_is_settled(read: Reading) -> None:
    """It once was whatever the view delta held when the query ran."""
    found = read(3)
    assert rows(read, found) == [1, 2, 3]
    read.lake.step(1)
    collect(read.lake.catalog, read.lake, clock=read.lake.clock)
    assert rows(read, found) == [1, 2, 3]


def test_a_collection_that_comes_between_is_told(read: Reading) -> None:
    read.meanwhile.append(lambda: collect(read.lake.catalog, read.lake, clock=read.lake.clock))
    with pytest.raises(MomentBeforeHistory):
        read(3)


def test_a_refresh_that_comes_between_changes_nothing(read: Reading) -> None:
    read.meanwhile.append(lambda: read.lake.step(2))
    assert rows(read, read(3)) == [1, 2, 3]


def test_a_recomputation_that_comes_between_is_noticed(read: Reading) -> None:
    def recompute() -> None:
        read.lake.write()
        read.lake.capture()
        read.lake.recompute("v", "/v_delta-2")

    read.meanwhile.append(recompute)
    with pytest.raises(MomentBeforeHistory):
        read(3)
    assert rows(read, read(5)) == [1, 2, 3, 4, 5]


def test_beyond_the_mark_there_is_nothing(read: Reading) -> None:
    read.lake.write()
    read.lake.capture()
    with pytest.raises(BeyondHighWaterMark):
        read(5)


def test_a_timeline_is_read_by_its_predicate_up_to_where_it_stands(read: Reading) -> None:
    read.lake.create("w", layout="timeline")
    read.lake.step(1)
    found = read(4, "w")
    assert isinstance(found, PinnedTimeline)
    assert found.at == 4
