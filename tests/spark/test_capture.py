"""Capture: what becomes a csn and in which order, and what happens when a table can't be read any further."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headwater.errors import (
    ChangeFeedDisabled,
    HeadwaterError,
    HistoryLost,
    NotADeltaTable,
    SchemaChanged,
    SourceProblem,
    TableReplaced,
)
from tests.spark.oracle import FEED, World, newest_version

METADATA = "spark.databricks.delta.commitInfo.userMetadata"


def units(world: World, after: int = 0) -> list[tuple[int, str, int]]:
    return [(unit.csn, unit.table, unit.version) for unit in world.lake.units_of_work() if unit.csn > after]


@contextmanager
def setting(world: World, key: str, value: str) -> Iterator[None]:
    before = world.spark.conf.get(key, None)
    world.spark.conf.set(key, value)
    try:
        yield
    finally:
        if before is None:
            world.spark.conf.unset(key)
        else:
            world.spark.conf.set(key, before)


# ---------------------------------------------------------------------- csns


@pytest.fixture(scope="module")
def two(make_world: Callable[..., World]) -> World:
    world = make_world("capture")
    world.make("a", "k INT, v INT", "(1, 1), (2, 2)")
    world.make("b", "k INT, w INT", "(1, 10), (2, 20)")
    world.create("v", "SELECT a.k, a.v, b.w FROM a JOIN b ON a.k = b.k")
    return world


def test_csns_follow_the_time_of_commits_over_tables(two: World) -> None:
    start = two.newest_csn()
    for statement in (
        "INSERT INTO {b} VALUES (3, 30)",
        "INSERT INTO {a} VALUES (3, 3)",
        "UPDATE {b} SET w = 31 WHERE k = 3",
        "INSERT INTO {a} VALUES (3, 4)",
        "DELETE FROM {a} WHERE v = 3",
    ):
        two.run(statement)
    assert two.lake.capture() == start + 5
    found = two.lake.units_of_work()[start:]
    assert [unit.table for unit in found] == ["b", "a", "b", "a", "a"]
    assert [unit.csn for unit in found] == list(range(start + 1, start + 6))  # dense
    assert [unit.committed_at for unit in found] == sorted(unit.committed_at for unit in found)
    assert all(unit.source == "delta" for unit in found)
    assert two.lake.capture() == start + 5  # nothing new, nothing numbered twice
    two.refresh("v")
    two.check_law("v")


def test_a_tag_makes_one_unit_of_work_of_several_tables(two: World) -> None:
    start = two.lake.capture()
    tag = two.lake.unit_of_work("transfer-1", 2)
    with setting(two, METADATA, tag):
        two.run("INSERT INTO {a} VALUES (7, 7)")
    two.run("INSERT INTO {b} VALUES (8, 80)")
    # The unit is incomplete: it waits, and what came after it in its own table would; the other table goes on.
    waiting = two.lake.capture()
    assert [(table) for _, table, _ in units(two, start)] == ["b"]
    with setting(two, METADATA, tag):
        two.run("INSERT INTO {b} VALUES (7, 70)")
    assert two.lake.capture() == waiting + 1
    together = units(two, waiting)
    assert {csn for csn, _, _ in together} == {waiting + 1}
    assert sorted(table for _, table, _ in together) == ["a", "b"]
    two.refresh("v", to=waiting)
    report = two.refresh("v", to=waiting + 1)
    assert (report.mode, report.rows) == ("incremental", 1)
    two.check_law("v")


def test_commits_without_data_get_no_csn(two: World) -> None:
    start = two.lake.capture()
    before = newest_version(two.path("a"))
    two.run("OPTIMIZE {a}")
    two.run("ALTER TABLE {a} SET TBLPROPERTIES ('delta.logRetentionDuration' = 'interval 40 days')")
    two.run("VACUUM {a}")
    two.run("DELETE FROM {a} WHERE k = 12345")
    two.run("ALTER TABLE {a} ADD CONSTRAINT small CHECK (k < 1000000)")
    assert newest_version(two.path("a")) > before
    assert two.lake.capture() == start
    assert two.refresh("v").mode == "none"
    two.run("INSERT INTO {a} VALUES (1, 5)")
    assert two.lake.capture() == start + 1
    assert two.refresh("v").mode == "incremental"


def test_restore_overwrite_and_replace_where_are_changes(two: World) -> None:
    start = two.lake.capture()
    version = newest_version(two.path("a"))
    two.run("INSERT OVERWRITE {a} VALUES (1, 100), (1, 100), (NULL, 0)")
    two.refresh("v")
    frame = two.spark.sql("SELECT 1 AS k, 200 AS v")
    frame.write.format("delta").mode("overwrite").option("replaceWhere", "k = 1").save(two.path("a"))
    two.look()
    two.refresh("v")
    two.run(f"RESTORE TABLE {{a}} TO VERSION AS OF {version}")
    report = two.refresh("v")
    assert report.mode == "incremental"
    assert report.csn == start + 3
    two.check_law("v")


def test_a_column_added_later_does_not_disturb(make_world: Callable[..., World]) -> None:
    world = make_world("additions")
    world.make("a", "k INT, v INT", "(1, 1)")
    world.create("v", "SELECT * FROM a WHERE k > 0")
    old = {"a": ["k", "v"]}
    world.run("ALTER TABLE {a} ADD COLUMN extra STRING")
    world.run("INSERT INTO {a} VALUES (2, 2, 'x'), (2, 2, 'y')")
    report = world.refresh("v", columns=old)
    assert (report.mode, report.rows) == ("incremental", 1)  # one distinct row, twice
    assert world.lake.read("v").columns == ["k", "v"]
    # By a writer that brings the column with it, in one commit.
    frame = world.spark.sql("SELECT 3 AS k, 3 AS v, 'z' AS extra, true AS flag")
    frame.write.format("delta").mode("append").option("mergeSchema", "true").save(world.path("a"))
    world.look()
    assert world.refresh("v", columns=old).mode == "incremental"
    for csn in range(world.mark("v") + 1):
        world.check("v", at=csn, columns=old)
    world.create("w", "SELECT * FROM a WHERE k > 0")
    assert world.lake.read("w").columns == ["k", "v", "extra", "flag"]
    world.check("w")


# ---------------------------------------------------------------------- track


def test_track_refuses_what_it_cannot_follow(two: World) -> None:
    folder = two.folder / "others"
    folder.mkdir()
    (folder / "file.txt").write_text("no table")
    parquet = folder / "parquet"
    two.spark.range(3).write.parquet(str(parquet))
    silent = folder / "silent"
    two.spark.range(3).write.format("delta").save(str(silent))
    before = two.lake.status().tables
    for where in (folder / "missing", folder / "file.txt", parquet, folder, "no_such_catalog_table"):
        with pytest.raises(NotADeltaTable) as caught:
            two.lake.track("x", where)
        assert caught.value.table == "x"
        assert caught.value.remedy
    with pytest.raises(ChangeFeedDisabled) as disabled:
        two.lake.track("x", silent)
    assert "enable_change_feed" in (disabled.value.remedy or "")
    assert two.lake.status().tables == before
    assert newest_version(silent) == 0  # nothing was switched on without the user's word
    two.lake.track("x", silent, enable_change_feed=True)
    two.tables["x"] = two.tables["a"].__class__(str(silent), two.newest_csn(), newest_version(silent))
    try:
        assert newest_version(silent) == 1
        two.create("vx", "SELECT id FROM x")
        two.spark.sql(f"INSERT INTO delta.`{silent}` VALUES (77)")
        assert two.refresh("vx").rows == 1
        two.lake.sql("DROP MATERIALIZED VIEW vx")
    finally:
        two.lake.untrack("x")
        del two.tables["x"]


# ---------------------------------------------------------------------- what can't be read


class Trouble:
    """Two worlds in one: ``v`` on the table in trouble and ``fine`` on another."""

    def __init__(self, make_world: Callable[..., World], name: str, *, method: str = "frontier") -> None:
        self.world = make_world(name)
        self.world.make("a", "k INT, v INT", "(1, 1), (2, 2)", mapped=True)
        self.world.make("b", "k INT, w INT", "(1, 10), (2, 20)")
        self.world.create("v", "SELECT a.k, a.v, b.w FROM a JOIN b ON a.k = b.k", f"OPTIONS (method='{method}')")
        self.world.create("fine", "SELECT x.k, y.w FROM b x JOIN b y ON x.k <= y.k")
        self.world.run("INSERT INTO {a} VALUES (1, 7)")
        self.world.refresh("v")

    def is_told(self, kind: type[SourceProblem], *, version: int | None) -> SourceProblem:
        """Refresh says what is wrong, every time; the view stays as it was; the other view goes on."""
        before = sorted(map(tuple, self.world.lake.read("v").collect()))
        errors = []
        for _ in range(2):
            with pytest.raises(HeadwaterError) as caught:
                self.world.lake.refresh("v")
            errors.append(caught.value)
        self.world.run("INSERT INTO {b} VALUES (2, 21)")
        assert self.world.refresh("fine").mode == "incremental"
        with pytest.raises(HeadwaterError) as caught:
            self.world.lake.refresh("v")
        errors.append(caught.value)
        for error in errors:
            assert isinstance(error, kind), repr(error)
            assert error.table == "a"
            assert error.remedy
            if version is not None:
                assert error.version == version, str(error)
        assert sorted(map(tuple, self.world.lake.read("v").collect())) == before
        return errors[0]

    def resync(self) -> None:
        """The way out: begin anew, one full refresh that says why, then incremental again."""
        self.world.lake.resync("a")
        self.world.forget_versions("a")
        self.world.noticed("a")
        self.world.look()
        report = self.world.refresh("v")
        assert report.mode == "full"
        assert report.reason
        assert report.reason.upper() == report.reason
        status = next(view for view in self.world.lake.status().views if view.name == "v")
        assert (status.last_mode, status.last_reason, status.problem) == ("full", report.reason, None)
        self.world.run("INSERT INTO {a} VALUES (2, 22), (2, 22)")
        self.world.run("DELETE FROM {b} WHERE w = 10")
        assert self.world.refresh("v").mode == "incremental"
        self.world.check_law("v")
        with pytest.raises(HeadwaterError) as caught:
            self.world.lake.read("v", at=0)
        assert caught.value.code == "MOMENT_BEFORE_HISTORY"
        assert self.world.refresh("fine").mode in ("incremental", "none")


def test_feed_switched_off_for_a_while(make_world: Callable[..., World]) -> None:
    trouble = Trouble(make_world, "feed_off")
    world = trouble.world
    world.run("ALTER TABLE {a} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'false')")
    off = newest_version(world.path("a"))
    world.run("UPDATE {a} SET v = 9 WHERE k = 2")
    world.run("ALTER TABLE {a} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    error = trouble.is_told(ChangeFeedDisabled, version=None)
    assert error.version in (off, off + 1)
    with pytest.raises(ChangeFeedDisabled):
        world.lake.capture()
    problems = {table.name: table.problem for table in world.lake.status().tables}
    assert problems["a"] is not None
    assert problems["b"] is None
    trouble.resync()


def test_a_lone_table_in_trouble_is_never_called_up_to_date(make_world: Callable[..., World]) -> None:
    """With no other table to raise the newest csn, refresh must still not say that all is well."""
    world = make_world("lone")
    world.make("a", "k INT", "(1)")
    world.create("v", "SELECT k FROM a")
    world.run("ALTER TABLE {a} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'false')")
    world.run("INSERT INTO {a} VALUES (2)")
    for _ in range(2):
        with pytest.raises(ChangeFeedDisabled):
            world.lake.refresh("v")
    with pytest.raises(ChangeFeedDisabled):  # it is still off
        world.lake.resync("a")


def test_history_vacuumed(make_world: Callable[..., World]) -> None:
    trouble = Trouble(make_world, "vacuumed")
    world = trouble.world
    world.run("UPDATE {a} SET v = v + 1")
    world.run("UPDATE {b} SET w = w + 1")
    world.run("DELETE FROM {a} WHERE k = 1")
    world.lake.capture()
    with setting(world, "spark.databricks.delta.retentionDurationCheck.enabled", "false"):
        world.run("VACUUM {a} RETAIN 0 HOURS")
    world.run("INSERT INTO {a} VALUES (1, 50)")
    trouble.is_told(HistoryLost, version=None)
    trouble.resync()


def test_log_cleaned_away(make_world: Callable[..., World]) -> None:
    """Capture was away for so long that the log no longer has the commits that it needs."""
    trouble = Trouble(make_world, "log")
    world = trouble.world
    known = newest_version(world.path("a"))
    for i in range(3):
        world.run(f"INSERT INTO {{a}} VALUES (1, {i})")
    with setting(world, "spark.databricks.delta.properties.defaults.checkpointInterval", "1"):
        world.run("ALTER TABLE {a} SET TBLPROPERTIES ('delta.checkpointInterval' = '1')")
        world.run("INSERT INTO {a} VALUES (2, 9)")
    log = Path(world.path("a")) / "_delta_log"
    for version in range(known + 3):
        for kind in ("json", "crc"):
            for each in (log / f"{version:020}.{kind}", log / f".{version:020}.{kind}.crc"):
                each.unlink(missing_ok=True)
    error = trouble.is_told(HistoryLost, version=known + 1)
    assert "resync" in (error.remedy or "")
    trouble.resync()


def test_used_column_dropped(make_world: Callable[..., World]) -> None:
    trouble = Trouble(make_world, "dropped_column")
    world = trouble.world
    world.run("ALTER TABLE {a} DROP COLUMN v")
    world.run("INSERT INTO {a} VALUES (2)")
    version = newest_version(world.path("a"))
    error = trouble.is_told(SchemaChanged, version=version)
    assert "v" in error.message
    # A column of that name comes back: the view goes on from where it stood, or says what stands in the way.
    world.lake.sql("DROP MATERIALIZED VIEW v")
    world.create("again", "SELECT a.k, b.w FROM a JOIN b ON a.k = b.k")
    world.check("again")
    world.run("INSERT INTO {a} VALUES (1)")
    assert world.refresh("again").mode == "incremental"


def test_used_column_retyped(make_world: Callable[..., World]) -> None:
    trouble = Trouble(make_world, "retyped")
    world = trouble.world
    frame = world.spark.sql("SELECT 1 AS k, 'text' AS v")
    frame.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(world.path("a"))
    world.look()
    trouble.is_told(SourceProblem, version=newest_version(world.path("a")))


def test_unused_column_may_change(make_world: Callable[..., World]) -> None:
    world = make_world("unused")
    world.make("a", "k INT, v INT, unused INT", "(1, 1, 1)", mapped=True)
    world.create("v", "SELECT k, v FROM a")
    world.run("INSERT INTO {a} VALUES (2, 2, 2)")
    world.run("ALTER TABLE {a} DROP COLUMN unused")
    world.run("INSERT INTO {a} VALUES (3, 3)")
    assert world.refresh("v").mode == "incremental"
    world.run("UPDATE {a} SET v = 4")
    assert world.refresh("v").mode == "incremental"
    world.check_law("v")


def test_table_replaced(make_world: Callable[..., World]) -> None:
    trouble = Trouble(make_world, "replaced")
    world = trouble.world
    world.run(f"CREATE OR REPLACE TABLE {{a}} USING delta {FEED} AS SELECT 2 AS k, 5 AS v")
    trouble.is_told(TableReplaced, version=newest_version(world.path("a")))
    trouble.resync()


@pytest.mark.parametrize("commits", [0, 6], ids=["younger", "older"])
def test_table_dropped_and_made_anew(commits: int, make_world: Callable[..., World]) -> None:
    """At the same path, with fewer commits than were captured, or with more."""
    trouble = Trouble(make_world, f"anew{commits}")
    world = trouble.world
    shutil.rmtree(world.path("a"))
    world.spark.sql(f"CREATE TABLE {world.ref('a')} (k INT, v INT) USING delta {FEED}")
    world.forget_versions("a")
    for i in range(commits):
        world.run(f"INSERT INTO {{a}} VALUES (1, {i})")
    world.look()
    trouble.is_told(TableReplaced, version=None)
    trouble.resync()


def test_table_gone(make_world: Callable[..., World]) -> None:
    trouble = Trouble(make_world, "gone")
    world = trouble.world
    shutil.rmtree(world.path("a"))
    tracked = world.tables.pop("a")
    errors: list[Any] = []
    for _ in range(2):
        with pytest.raises(SourceProblem) as caught:
            world.lake.refresh("v")
        errors.append(caught.value)
    assert {error.table for error in errors} == {"a"}
    assert all(error.remedy for error in errors)
    world.run("INSERT INTO {b} VALUES (2, 21)")
    assert world.refresh("fine").mode == "incremental"
    with pytest.raises(HeadwaterError):
        world.lake.resync("a")
    world.tables["a"] = tracked
