"""A publisher, reader or collector that dies: nothing half published, nothing needed lost, nothing kept for ever."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headwater.algebra.time import Csn
from headwater.catalog import RetentionSettings
from headwater.durable import DurablePoint as Point
from headwater.errors import MomentBeforeHistory
from headwater.serve.garbage import collect
from headwater.serve.snapshots import Snapshot, open_snapshot
from tests.serve.fake_lake import FakeLake, HandClock


class Killed(BaseException):
    """The process ends here: nothing of ours may catch it."""


def dying_at(wanted: Point, nth: int = 1) -> Callable[[Point], None]:
    passed = [0]

    def reached(point: Point) -> None:
        passed[0] += point is wanted
        if point is wanted and passed[0] == nth:
            raise Killed

    return reached


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[FakeLake]:
    made = FakeLake(tmp_path, HandClock())
    made.create("v")
    made.create("w")
    made.catalog.set_retention(RetentionSettings(tags=frozenset()))
    made.step(2)
    yield made
    made.catalog.close()


def opened(lake: FakeLake, at: int | None = None) -> Snapshot[str]:
    return open_snapshot(lake.catalog, lake, lake, clock=lake.clock, at=at, beat=False)


def released(lake: FakeLake) -> list[tuple[int, int]]:
    """Each release and how many views it has."""
    return [(release.csn, len(release.views)) for release in lake.catalog.releases()]


@pytest.mark.parametrize(
    ("point", "nth"), [(Point.RELEASE_REFRESHED, 1), (Point.RELEASE_REFRESHED, 2), (Point.RELEASE_PUBLISHED, 1)]
)
def test_a_publisher_that_dies_has_published_all_or_nothing(lake: FakeLake, point: Point, nth: int) -> None:
    lake.write()
    with pytest.raises(Killed):
        lake.release(dying_at(point, nth))
    done = point is Point.RELEASE_PUBLISHED
    assert released(lake) == [(2, 2), *([(3, 2)] if done else [])]
    with opened(lake) as snapshot:
        assert snapshot.csn == (3 if done else 2)
        for view in "vw":
            assert lake.rows_of(snapshot.table(view)) == list(range(1, snapshot.csn + 1))
    assert lake.release().release.csn == 3
    assert released(lake) == [(2, 2), (3, 2)]


@pytest.mark.parametrize(
    ("point", "nth"),
    [(Point.COLLECT_INTENDED, 1), (Point.COLLECT_SWEPT, 1), (Point.COLLECT_SWEPT, 2), (Point.COLLECT_RECORDED, 1)],
)
def test_a_collector_that_dies_is_followed_by_one_that_finishes_its_work(
    lake: FakeLake, point: Point, nth: int
) -> None:
    lake.clock.passes(7200)
    lake.step(2)
    lake.clock.passes(7200)
    with opened(lake, 3) as reader:
        with pytest.raises(Killed):
            collect(lake.catalog, lake, clock=lake.clock, grace=0, reached=dying_at(point, nth))
        assert (lake.catalog.open_collection() is None) == (point is Point.COLLECT_RECORDED)
        assert released(lake) == [(4, 2)]
        with pytest.raises(MomentBeforeHistory):
            opened(lake, 1)
        with opened(lake) as another:
            lake.step(1)
            collect(lake.catalog, lake, clock=lake.clock, grace=0)
            assert lake.catalog.open_collection() is None
            for view in "vw":
                assert lake.rows_of(reader.table(view)) == [1, 2, 3]
                assert lake.rows_of(another.table(view)) == [1, 2, 3, 4]
    lake.clock.passes(7200)
    collect(lake.catalog, lake, clock=lake.clock, grace=0)
    assert released(lake) == [(5, 2)]
    assert all(lake.tables[f"/{view}_delta"].versions[-1] == {} for view in "vw")
    assert all(lake.tables[f"/{view}"].readable_from == lake.newest_version(f"/{view}") for view in "vw")


def test_what_a_dead_reader_held_goes_when_its_lease_has_run_out(lake: FakeLake) -> None:
    opened(lake, 1)  # and is never heard of again
    lake.step(2)
    collect(lake.catalog, lake, clock=lake.clock, grace=0)
    assert lake.catalog.horizon().pinned == {Csn(1)}
    assert released(lake) == [(2, 2), (4, 2)]
    lake.clock.passes(61)
    collect(lake.catalog, lake, clock=lake.clock, grace=0)
    assert (lake.catalog.readers(), lake.catalog.horizon().pinned, released(lake)) == ([], set(), [(4, 2)])


def test_every_point_of_serving_is_here() -> None:
    here = {Point.RELEASE_REFRESHED, Point.RELEASE_PUBLISHED}
    here |= {Point.COLLECT_INTENDED, Point.COLLECT_SWEPT, Point.COLLECT_RECORDED}
    assert here == {point for point in Point if point.name.startswith(("RELEASE_", "COLLECT_"))}
