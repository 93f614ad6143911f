"""Garbage collection on Spark: files, rows and logs that nobody needs go, and everything else can still be read.

VACUUM and the trimming of logs go by hours and days, so a copy of the lake is made in which all is that much older.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import headwater
from headwater.context import Sizes
from headwater.serve import sweeping
from tests.spark.oracle import World, assert_rows_equal

PAIRS = "SELECT r.k, r.v, s.w FROM r JOIN s ON r.k = s.k"
DAY = 86_400


@pytest.fixture(scope="module")
def world(make_world: Callable[..., World]) -> World:
    world = make_world("collecting")
    world.make("r", "k int, v int", "(1, 1), (1, 1), (2, 5)")
    world.make("s", "k int, w string", "(1, 'a'), (2, 'b')")
    world.look()
    world.create("pairs", PAIRS)
    return world


def change_and_release(world: World, number: int) -> int:
    world.run(f"INSERT INTO {{r}} VALUES (1, {number}), ({number}, 1)")
    world.run(f"DELETE FROM {{r}} WHERE v = {number - 2}")
    return world.lake.release().csn


def aged(world: World, days: Callable[[int], int]) -> headwater.Lake:
    """A copy of the lake whose commits are older: by ``days`` for each version of its tables."""
    old, new = world.folder / "lake", world.folder / f"aged-{time.monotonic_ns()}"
    shutil.copytree(old, new)
    for log in new.glob("*/*/_delta_log"):
        for each in log.glob("*.crc"):
            each.unlink()
        for each in log.glob(".*.crc"):
            each.unlink()
        added: dict[str, int] = {}
        for path in sorted(log.glob("*.json")):
            seconds = days(int(path.stem)) * DAY
            lines = []
            for line in path.read_text().splitlines():
                action = json.loads(line)
                if "add" in action:
                    added[action["add"]["path"]] = seconds
                for kind, key in (
                    ("add", "modificationTime"),
                    ("remove", "deletionTimestamp"),
                    ("commitInfo", "timestamp"),
                ):
                    if kind in action and key in action[kind]:
                        action[kind][key] -= seconds * 1000
                lines.append(json.dumps(action))
            path.write_text("\n".join(lines) + "\n")
            moment = path.stat().st_mtime - seconds
            os.utime(path, (moment, moment))
        for name, seconds in added.items():
            file = log.parent / name
            if file.exists():
                moment = file.stat().st_mtime - seconds
                os.utime(file, (moment, moment))
    with sqlite3.connect(new / "catalog.db") as catalog:
        for table in ("hw_views", "hw_release_views"):
            for column in ("location", "delta_location"):
                catalog.execute(f"UPDATE {table} SET {column} = replace({column}, ?, ?)", (str(old), str(new)))
    catalog.close()
    return headwater.connect(new, spark=world.spark)


def files(lake: headwater.Lake, view: str) -> set[str]:
    location = Path(lake._context.catalog.view(view).location)
    return {path.name for path in location.glob("*.parquet")}


def test_files_rows_and_logs_that_nobody_needs_go(world: World) -> None:
    csns = [change_and_release(world, number) for number in (3, 5, 6, 7, 8)]
    world.lake.tag("close", csns[1])
    tagged = world.lake.releases()[1].versions
    # What was before the tagged release is 60 days old, all since 20 days; the default of Delta forgets both.
    with aged(world, lambda version: 60 if version < tagged["pairs"] else 20) as lake:
        world.lake.untag("close")  # in the copy it stays
        before = files(lake, "pairs")
        lake.set_retention(count=2)
        with lake.snapshot(at=csns[2] + 1) as between:
            report = lake.collect()
            assert (report.views, report.busy) == (("pairs",), ())
            assert report.releases == (csns[0], csns[2])
            assert_rows_equal(between.table("pairs"), world.expected(PAIRS, between.csn))
        assert files(lake, "pairs") < before
        # Trimmed as far as Delta can, which is to a checkpoint before the oldest version that is needed.
        assert list(Path(lake._context.catalog.view("pairs").location).glob("_delta_log/*.checkpoint.parquet"))
        for csn in (csns[1], csns[3], csns[3] + 1, csns[4]):
            with lake.snapshot(at=csn) as snapshot:
                assert_rows_equal(snapshot.table("pairs"), world.expected(PAIRS, csn), label=f"pairs at {csn}")
        with pytest.raises(headwater.HeadwaterError) as gone:
            lake.snapshot(at=csns[0])
        assert gone.value.code == "MOMENT_BEFORE_HISTORY"
        delta = lake._context.catalog.view("pairs").delta_location
        oldest = world.spark.sql(f"SELECT min(__hw_csn) FROM delta.`{delta}`").collect()[0][0]
        assert oldest > csns[2]
        # And life goes on: back within what is kept, and another collection with less to keep.
        lake.refresh("pairs", to=csns[3])
        assert_rows_equal(lake.read("pairs"), world.expected(PAIRS, csns[3]))
        lake.untag("close")
        lake.collect()
        with lake.snapshot() as snapshot:
            assert_rows_equal(snapshot.table("pairs"), world.expected(PAIRS, csns[4]))


def test_a_recomputation_leaves_the_view_delta_that_a_release_needs(world: World) -> None:
    change_and_release(world, 11)
    newest = change_and_release(world, 13)
    view = world.lake._context.catalog.view("pairs")
    with world.lake.snapshot(at=newest - 1) as between:
        expected = world.expected(PAIRS, newest - 1)
        assert_rows_equal(between.table("pairs"), expected)
        world.lake.propagate("pairs")
        world.lake.resync("s")
        world.noticed("s")
        assert world.lake.refresh("pairs").mode == "full"
        assert world.lake._context.catalog.view("pairs").delta_location != view.delta_location
        assert_rows_equal(between.table("pairs"), expected)
    world.lake.release()
    world.lake.collect()
    assert not Path(view.delta_location).exists()


def test_a_read_between_two_moments_names_the_version_of_the_view_delta(world: World) -> None:
    """It once read whatever the view delta held when the frame ran."""
    world.run("INSERT INTO {r} VALUES (2, 77)")
    world.lake.refresh("pairs")
    csn = world.view_csn("pairs")
    frame = world.lake.read("pairs", at=csn - 1)
    expected = world.expected(PAIRS, csn - 1).collect()
    location = world.lake._context.catalog.view("pairs").delta_location
    world.spark.sql(f"DELETE FROM delta.`{location}`")
    assert sorted(map(str, frame.collect())) == sorted(map(str, expected))


def test_small_files_are_joined_and_every_moment_kept_is_read_as_before(
    make_world: Callable[..., World], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world("compacting")
    world.lake._context.sizes = Sizes(small_view=0)
    world.make("r", "k int, v int", "(1, 1), (2, 2)")
    world.create("v", "SELECT k, v FROM r", "CLUSTER BY (k)")
    for number in range(3):
        world.run(f"INSERT INTO {{r}} VALUES ({number}, 7), (NULL, {number})")
        world.lake.release()
    view = world.lake._context.catalog.view("v")
    csn = world.view_csn("v")
    monkeypatch.setattr(sweeping, "FEW_FILES", 0)

    def count(location: str) -> int:
        return int(world.spark.sql(f"DESCRIBE DETAIL delta.`{location}`").collect()[0]["numFiles"])

    before = count(view.location), count(view.delta_location)
    with world.lake.snapshot(at=csn) as open_before:
        world.lake.collect()
        assert (count(view.location), count(view.delta_location)) < before
        assert_rows_equal(open_before.table("v"), world.expected("SELECT k, v FROM r", csn))
    world.run("DELETE FROM {r} WHERE v = 7")
    assert world.refresh("v").mode == "incremental"
    world.check_law("v")
