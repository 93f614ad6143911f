"""Capture: what becomes a csn and in which order, and what happens when a table can't be read any further."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

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
    two.check("v", at=start + 2)


def test_a_tag_makes_one_unit_of_work_of_several_tables(two: World) -> None:
    start = two.lake.capture()
    tag = two.lake.unit_of_work("transfer-1", 2)
    with two.setting(METADATA, tag):
        two.run("INSERT INTO {a} VALUES (7, 7)")
    two.run("INSERT INTO {b} VALUES (8, 80)")
    # The unit is incomplete: it waits, and what came after it in its own table would; the other table goes on.
    waiting = two.lake.capture()
    assert [(table) for _, table, _ in units(two, start)] == ["b"]
    with two.setting(METADATA, tag):
        two.run("INSERT INTO {b} VALUES (7, 70)")
    assert two.lake.capture() == waiting + 1
    together = units(two, waiting)
    assert {csn for csn, _, _ in together} == {waiting + 1}
    assert sorted(table for _, table, _ in together) == ["a", "b"]
    two.refresh("v", to=waiting)
    report = two.refresh("v", to=waiting + 1)
    assert (report.mode, report.rows) == ("incremental", 1)


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
    two.run("INSERT OVERWRITE {a} VALUES (1, 100), (1, 100), (2, NULL)")
    two.refresh("v")
    frame = two.spark.sql("SELECT 1 AS k, 200 AS v")
    frame.write.format("delta").mode("overwrite").option("replaceWhere", "k = 1").save(two.path("a"))
    two.look()
    two.refresh("v")
    two.run(f"RESTORE TABLE {{a}} TO VERSION AS OF {version}")
    report = two.refresh("v")
    assert report.mode == "incremental"
    assert report.csn == start + 3
    two.check("v", at=start + 1)


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
    world.check("v", at=1, columns=old)
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


@pytest.fixture(scope="module")
def troubled(make_world: Callable[..., World]) -> World:
    """A healthy table and a view on it; each test adds a table of its own, and trouble."""
    world = make_world("troubled")
    world.make("fine", "k INT, w INT", "(1, 10), (2, 20)")
    world.create("fine_view", "SELECT k, w FROM fine")
    return world


class Trouble:
    """A table ``name`` with a view on it, made for what is to happen to them."""

    def __init__(self, world: World, name: str, columns: str = "k INT, v INT", *, mapped: bool = True) -> None:
        self.world, self.name, self.view = world, name, f"view_of_{name}"
        rows = "(1, 1), (2, 2)" if columns.count(",") == 1 else "(1, 1, 1), (2, 2, 2)"
        world.make(name, columns, rows, mapped=mapped)
        world.create(self.view, f"SELECT k, v FROM {name} WHERE k > 0")
        self.path = world.path(name)

    def run(self, statement: str) -> None:
        self.world.run(statement.replace("{a}", f"{{{self.name}}}"))

    def is_told(self, kind: type[SourceProblem], *, version: int | None) -> SourceProblem:
        """Refresh says what is wrong, every time; the view stays as it was; the other view goes on."""
        errors = []
        with pytest.raises(HeadwaterError) as caught:
            self.world.lake.refresh(self.view)
        errors.append(caught.value)
        self.world.run("INSERT INTO {fine} VALUES (2, 21)")
        assert self.world.refresh("fine_view").mode == "incremental"
        with pytest.raises(HeadwaterError) as caught:
            self.world.lake.refresh(self.view)
        errors.append(caught.value)
        for error in errors:
            assert isinstance(error, kind), repr(error)
            assert error.table == self.name
            assert error.remedy
            assert self.name in error.message
            if version is not None:
                assert error.version == version, str(error)
        assert sorted(map(tuple, self.world.lake.read(self.view).collect())) == [(1, 1), (2, 2)]
        return errors[0]

    def resync(self) -> None:
        """The way out: begin anew, one full refresh that says why, then incremental again."""
        world, view = self.world, self.view
        world.lake.resync(self.name)
        world.forget_versions(self.name)
        world.noticed(self.name)
        world.look()
        report = world.refresh(view)
        assert report.mode == "full"
        assert report.reason
        assert report.reason.upper() == report.reason
        status = next(each for each in world.lake.status().views if each.name == view)
        assert (status.last_mode, status.last_reason, status.problem) == ("full", report.reason, None)
        start = report.csn
        self.run("INSERT INTO {a} VALUES (2, 22), (2, 22)")
        self.run("DELETE FROM {a} WHERE k = 1")
        again = world.refresh(view)
        assert again.mode == "incremental"
        world.check(view, at=start + 1)
        with pytest.raises(HeadwaterError) as caught:
            world.lake.read(view, at=start - 1)
        assert caught.value.code == "MOMENT_BEFORE_HISTORY"
        self.leave()

    def leave(self) -> None:
        self.world.lake.sql(f"DROP MATERIALIZED VIEW {self.view}")
        self.world.lake.untrack(self.name)
        del self.world.tables[self.name]


def test_feed_switched_off_for_a_while(troubled: World) -> None:
    trouble = Trouble(troubled, "feed_off")
    trouble.run("ALTER TABLE {a} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'false')")
    off = newest_version(trouble.path)
    trouble.run("UPDATE {a} SET v = 9 WHERE k = 2")
    trouble.run("ALTER TABLE {a} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    error = trouble.is_told(ChangeFeedDisabled, version=None)
    assert error.version in (off, off + 1)
    with pytest.raises(ChangeFeedDisabled):
        troubled.lake.capture()
    problems = {table.name: table.problem for table in troubled.lake.status().tables}
    assert problems["feed_off"] is not None
    assert problems["fine"] is None
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


def test_history_vacuumed(troubled: World) -> None:
    trouble = Trouble(troubled, "vacuumed")
    trouble.run("UPDATE {a} SET v = v + 1 WHERE k = 1")
    trouble.run("DELETE FROM {a} WHERE k = 1")
    troubled.lake.capture()
    with troubled.setting("spark.databricks.delta.retentionDurationCheck.enabled", "false"):
        trouble.run("VACUUM {a} RETAIN 0 HOURS")
    trouble.run("INSERT INTO {a} VALUES (1, 50)")
    trouble.is_told(HistoryLost, version=None)
    trouble.resync()


def test_old_snapshot_vacuumed(make_world: Callable[..., World]) -> None:
    """The changes are there, but the state of the other table that they must meet is not."""
    world = make_world("old_snapshot")
    world.make("a", "k INT, v INT", "(1, 1), (2, 2)")
    world.make("b", "k INT, w INT", "(1, 10)")
    world.create("v", "SELECT a.k, a.v, b.w FROM a JOIN b ON a.k = b.k")
    world.run("INSERT OVERWRITE {a} VALUES (1, 5)")
    world.run("INSERT INTO {b} VALUES (1, 11)")
    world.lake.capture()
    with world.setting("spark.databricks.delta.retentionDurationCheck.enabled", "false"):
        world.run("VACUUM {a} RETAIN 0 HOURS")
    with pytest.raises(HistoryLost) as caught:
        world.lake.refresh("v")
    assert caught.value.table == "a"
    assert "resync" in (caught.value.remedy or "")
    world.lake.resync("a")
    world.noticed("a")
    assert world.refresh("v").mode == "full"
    world.run("DELETE FROM {b} WHERE w = 10")
    assert world.refresh("v").mode == "incremental"


@pytest.mark.soak
def test_log_cleaned_away(troubled: World) -> None:
    """Capture was away for so long that the log no longer has the commits that it needs."""
    trouble = Trouble(troubled, "cleaned")
    known = newest_version(trouble.path)
    trouble.run("ALTER TABLE {a} SET TBLPROPERTIES ('delta.checkpointInterval' = '1')")
    for i in range(3):
        trouble.run(f"INSERT INTO {{a}} VALUES (1, {i})")
    log = Path(trouble.path) / "_delta_log"
    for version in range(known + 3):
        for kind in ("json", "crc"):
            for each in (log / f"{version:020}.{kind}", log / f".{version:020}.{kind}.crc"):
                each.unlink(missing_ok=True)
    error = trouble.is_told(HistoryLost, version=known + 1)
    assert "resync" in (error.remedy or "")
    trouble.resync()


def test_used_column_dropped(troubled: World) -> None:
    trouble = Trouble(troubled, "dropped_column")
    trouble.run("ALTER TABLE {a} DROP COLUMN v")
    trouble.run("INSERT INTO {a} VALUES (2)")
    error = trouble.is_told(SchemaChanged, version=newest_version(trouble.path))
    assert " v" in error.message
    # The way out that the remedy names.
    troubled.lake.sql(f"DROP MATERIALIZED VIEW {trouble.view}")
    troubled.create(trouble.view, "SELECT k FROM dropped_column")
    trouble.run("INSERT INTO {a} VALUES (1)")
    assert troubled.refresh(trouble.view).mode == "incremental"
    trouble.leave()


@pytest.mark.soak
def test_used_column_dropped_without_a_change_of_rows(troubled: World) -> None:
    """DROP COLUMN alone changes no row of the view's past, and must not be taken for "up to date" for ever."""
    trouble = Trouble(troubled, "dropped_only")
    trouble.run("ALTER TABLE {a} DROP COLUMN v")
    report = troubled.lake.refresh(trouble.view)
    assert report.mode == "none"
    trouble.leave()


def test_used_column_retyped(troubled: World) -> None:
    trouble = Trouble(troubled, "retyped", mapped=False)  # Delta itself refuses it on a table with column mapping
    frame = troubled.spark.sql("SELECT 1 AS k, 'text' AS v")
    frame.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(trouble.path)
    troubled.look()
    trouble.is_told(SourceProblem, version=newest_version(trouble.path))
    trouble.leave()


def test_unused_column_may_change(troubled: World) -> None:
    trouble = Trouble(troubled, "unused", "k INT, v INT, unused INT")
    trouble.run("INSERT INTO {a} VALUES (2, 2, 2)")
    trouble.run("ALTER TABLE {a} DROP COLUMN unused")
    trouble.run("INSERT INTO {a} VALUES (3, 3)")
    assert troubled.refresh(trouble.view).mode == "incremental"
    trouble.run("UPDATE {a} SET v = 4")
    assert troubled.refresh(trouble.view).mode == "incremental"
    trouble.leave()


def test_table_replaced(troubled: World) -> None:
    trouble = Trouble(troubled, "replaced")
    trouble.run(f"CREATE OR REPLACE TABLE {{a}} USING delta {FEED} AS SELECT 2 AS k, 5 AS v")
    trouble.is_told(TableReplaced, version=newest_version(trouble.path))
    trouble.resync()


@pytest.mark.parametrize("commits", [0, pytest.param(6, marks=pytest.mark.soak)], ids=["younger", "older"])
def test_table_dropped_and_made_anew(commits: int, troubled: World) -> None:
    """At the same path, with fewer commits than were captured, or with more."""
    trouble = Trouble(troubled, f"anew{commits}")
    shutil.rmtree(trouble.path)
    troubled.spark.sql(f"CREATE TABLE {troubled.ref(trouble.name)} (k INT, v INT) USING delta {FEED}")
    troubled.forget_versions(trouble.name)
    for i in range(commits):
        trouble.run(f"INSERT INTO {{a}} VALUES (1, {i})")
    troubled.look()
    trouble.is_told(TableReplaced, version=None)
    trouble.resync()


@pytest.mark.soak
def test_table_gone(troubled: World) -> None:
    trouble = Trouble(troubled, "gone")
    shutil.rmtree(trouble.path)
    tracked = troubled.tables.pop("gone")
    trouble.is_told(SourceProblem, version=None)
    with pytest.raises(HeadwaterError):
        troubled.lake.resync("gone")
    troubled.tables["gone"] = tracked
    trouble.leave()


@pytest.mark.soak
def test_live_tables_need_no_past(make_world: Callable[..., World]) -> None:
    """Method rolling reads tables as they are: history that is vacuumed away once captured is not missed."""
    world = make_world("live")
    world.make("a", "k INT, v INT", "(1, 1), (2, 2)", mode="live")
    world.make("b", "k INT, w INT", "(1, 10)", mode="live")
    world.create("v", "SELECT a.k, a.v, b.w FROM a JOIN b ON a.k = b.k")
    assert world.lake.explain("v").method == "rolling"
    world.run("INSERT INTO {a} VALUES (1, 3)")
    world.run("INSERT INTO {b} VALUES (1, 11), (2, 20)")
    assert world.refresh("v").mode == "incremental"
    world.check_law("v")
