"""The statements of a timeline: their text, and what they do to rows.

They run on SQLite, which knows no MERGE and no Delta: a small MERGE here carries out the parsed statement, clause by
clause, and ``delta.`path``` becomes a table of that name.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest
import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from headwater.algebra.time import Csn, Interval
from headwater.algebra.zset import ZSet
from headwater.errors import InternalError
from headwater.serve.timeline import Run, Timeline, advance, prune, rewind
from headwater.sql.dialect import to_text
from headwater.sql.pruning import prune_timeline_sql, prune_view_delta_sql, vacuum_sql
from headwater.sql.timeline import (
    beginning_sql,
    counted_in_timeline,
    create_timeline_sql,
    install_sql,
    rewind_sql,
    timeline_at,
)

NAMES = ["a", "b"]
LAST = 6


def on_sqlite(node: exp.Expr) -> str:
    """Tables at places are tables of that name, whatever version is asked for: a chunk reads before it writes."""
    plain = node.copy()
    for table in plain.find_all(exp.Table):
        table.set("db", None)
        table.set("version", None)
    return plain.sql(dialect="sqlite")


def run_merge(db: sqlite3.Connection, text: str) -> None:
    merge = sqlglot.parse_one(text, read="spark")
    assert isinstance(merge, exp.Merge)
    target = f'"{merge.this.name}"'
    db.execute(f"CREATE TEMP TABLE source AS SELECT * FROM {on_sqlite(merge.args['using'])}")
    joined = f"{target} AS t JOIN source AS s ON {on_sqlite(merge.args['on'])}"
    matched = db.execute(f"SELECT t.rowid, s.rowid FROM {joined}").fetchall()
    assert len({row for row, _ in matched}) == len(matched), "two rows of the source match one of the target"
    db.execute("CREATE TEMP TABLE pairs (t INTEGER, s INTEGER)")
    db.executemany("INSERT INTO pairs VALUES (?, ?)", matched)
    paired = f"pairs JOIN {target} AS t ON t.rowid = pairs.t JOIN source AS s ON s.rowid = pairs.s"
    for when in merge.args["whens"].expressions:
        condition = on_sqlite(when.args["condition"]) if when.args.get("condition") else "TRUE"
        if not when.args["matched"]:
            columns = ", ".join(c.name for c in when.args["then"].this.expressions)
            values = ", ".join(on_sqlite(v) for v in when.args["then"].expression.expressions)
            others = "s.rowid NOT IN (SELECT s FROM pairs)"
            into = f"INSERT INTO {target} ({columns})"
            db.execute(f"{into} SELECT {values} FROM source AS s WHERE {others} AND {condition}")
            continue
        rows = [row for (row,) in db.execute(f"SELECT pairs.t FROM {paired} WHERE {condition}")]
        for row in rows:
            if isinstance(when.args["then"], exp.Update):
                (assignment,) = when.args["then"].expressions
                value = f"(SELECT {on_sqlite(assignment.expression)} FROM {paired} WHERE pairs.t = {row})"
                db.execute(f"UPDATE {target} SET {assignment.this.name} = {value} WHERE rowid = {row}")
            else:
                db.execute(f"DELETE FROM {target} WHERE rowid = {row}")
        db.executemany("UPDATE pairs SET t = NULL WHERE t = ?", [(row,) for row in rows])
    db.execute("DROP TABLE source")
    db.execute("DROP TABLE pairs")


def stored(db: sqlite3.Connection) -> set[Run]:
    rows = db.execute("SELECT __hw_count, __hw_t_min, __hw_t_max, a, b FROM v").fetchall()
    found = {
        Run((a, b), count, Csn(t_min), None if t_max is None else Csn(t_max)) for count, t_min, t_max, a, b in rows
    }
    assert len(found) == len(rows)
    return found


@pytest.fixture
def database() -> Iterator[sqlite3.Connection]:
    with closing(fresh()) as db:
        yield db


def fresh() -> sqlite3.Connection:
    db = sqlite3.connect(":memory:")
    db.execute("CREATE TABLE v (__hw_count BIGINT CHECK (__hw_count > 0), __hw_t_min, __hw_t_max, a, b)")
    db.execute("CREATE TABLE d (__hw_csn, __hw_count, a, b)")
    return db


Changes = list[tuple[tuple[int | None, int], int, Csn]]
ROWS = st.tuples(st.sampled_from([1, None]), st.integers(0, 1))


@st.composite
def histories(draw: st.DrawFn) -> Changes:
    """Changes that never take away what is not there; with NULLs, duplicates, and what cancels out at one csn."""
    present: dict[tuple[int | None, int], int] = {}
    found: Changes = []
    for csn in range(1, LAST + 1):
        for row, count in draw(st.lists(st.tuples(ROWS, st.integers(-2, 2)), max_size=3)):
            if count and present.get(row, 0) + count >= 0:
                present[row] = present.get(row, 0) + count
                found.append((row, count, Csn(csn)))
    return found


def write_delta(db: sqlite3.Connection, changes: Changes) -> None:
    db.executemany("INSERT INTO d VALUES (?, ?, ?, ?)", [(csn, count, *row) for row, count, csn in changes])


@given(histories(), st.sets(st.integers(1, LAST - 1)), st.integers(0, LAST), st.sets(st.integers(0, LAST)))
@settings(max_examples=25, deadline=None)
def test_in_chunks_of_any_size_the_table_is_the_timeline_of_the_specification(
    changes: Changes, cuts: set[int], kept_from: int, pinned: set[int]
) -> None:
    with closing(fresh()) as db:
        write_delta(db, changes)
        timeline = Timeline.beginning(ZSet(), Csn(0))
        for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), LAST], strict=True):
            run_merge(db, install_sql("v", 0, "d", Interval(Csn(start), Csn(end)), NAMES))
            timeline = advance(timeline, ZSet.of(changes), Csn(end))
            assert stored(db) == timeline.runs
        for moment in range(LAST + 1):
            shown = db.execute(on_sqlite(counted_in_timeline("v", 0, Csn(moment), NAMES))).fetchall()
            at = timeline.at(Csn(moment)).counts()
            assert {tuple(row): count for count, *row in shown} == at
            assert len(shown) == len(at)
        moments = [Csn(moment) for moment in pinned]
        text = prune_timeline_sql("v", Csn(kept_from), moments)
        db.execute(on_sqlite(sqlglot.parse_one(text, read="spark")))
        assert stored(db) == prune(timeline, Csn(kept_from), moments).runs


@given(histories(), st.integers(0, LAST))
@settings(max_examples=25, deadline=None)
def test_a_timeline_goes_back_in_one_statement(changes: Changes, to: int) -> None:
    with closing(fresh()) as db:
        write_delta(db, changes)
        run_merge(db, install_sql("v", 0, "d", Interval(Csn(0), Csn(LAST)), NAMES))
        run_merge(db, rewind_sql("v", Csn(to)))
        whole = advance(Timeline.beginning(ZSet(), Csn(0)), ZSet.of(changes), Csn(LAST))
        assert stored(db) == rewind(whole, Csn(to)).runs


def test_a_view_delta_that_takes_too_much_is_refused_and_not_filtered(database: sqlite3.Connection) -> None:
    write_delta(database, [((1, 1), 1, Csn(1)), ((1, 1), -2, Csn(2))])
    with pytest.raises(sqlite3.IntegrityError, match="CHECK"):
        run_merge(database, install_sql("v", 0, "d", Interval(Csn(0), Csn(2)), NAMES))


def test_pruning_a_view_delta_takes_just_the_spare_csns(database: sqlite3.Connection) -> None:
    write_delta(database, [((1, 1), 1, Csn(csn)) for csn in range(1, 9)])
    spare = [Interval(Csn(0), Csn(2)), Interval(Csn(5), Csn(6))]
    text = prune_view_delta_sql("d", spare)
    assert text == (
        "DELETE FROM delta.`d` WHERE (`__hw_csn` > 0 AND `__hw_csn` <= 2) OR (`__hw_csn` > 5 AND `__hw_csn` <= 6)"
    )
    database.execute(on_sqlite(sqlglot.parse_one(text, read="spark")))
    assert [csn for (csn,) in database.execute("SELECT __hw_csn FROM d")] == [3, 4, 5, 7, 8]
    with pytest.raises(InternalError):
        prune_view_delta_sql("d", [])


class TestText:
    def test_create(self) -> None:
        assert create_timeline_sql("/v", [("a b", "INT")], cluster_by=["a b"], properties={"x": "1"}) == (
            "CREATE TABLE delta.`/v` (`__hw_count` BIGINT NOT NULL, `__hw_t_min` BIGINT NOT NULL, `__hw_t_max` BIGINT, "
            "`a b` INT) USING DELTA CLUSTER BY (`a b`) TBLPROPERTIES ('x' = '1')"
        )

    def test_beginning(self) -> None:
        text = beginning_sql("SELECT a FROM r -- all of it", ["a"], Csn(7))
        assert text.splitlines() == [
            "SELECT `__hw_count`, CAST(7 AS BIGINT) AS `__hw_t_min`, CAST(NULL AS BIGINT) AS `__hw_t_max`, `a` FROM (",
            "WITH `__hw_bag` AS (",
            "SELECT a FROM r -- all of it",
            ") SELECT COUNT(*) AS `__hw_count`, `a` FROM `__hw_bag` GROUP BY `a`",
            ") AS `q`",
        ]

    def test_reading_is_one_predicate(self) -> None:
        """Equations 1 and 2 of [Mauve98 §2.2]."""
        counted = counted_in_timeline("/v", 4, Csn(7), ["a"])
        assert to_text(counted) == (
            "SELECT `__hw_count`, `a` FROM delta.`/v` VERSION AS OF 4 "
            "WHERE `__hw_t_min` <= 7 AND (`__hw_t_max` > 7 OR `__hw_t_max` IS NULL)"
        )
        assert to_text(timeline_at("/v", 4, Csn(7), ["a"])).count(to_text(counted)) == 2

    def test_installing_is_one_merge_that_reads_the_open_runs_at_the_version_it_began_from(self) -> None:
        merge = sqlglot.parse_one(install_sql("/v", 4, "/d", Interval(Csn(2), Csn(7)), ["a"]), read="spark")
        assert isinstance(merge, exp.Merge)
        reads = {(t.name, bool(t.args.get("version"))) for t in merge.args["using"].find_all(exp.Table)}
        assert reads == {("/v", True), ("/d", False)}
        assert [(w.args["matched"], type(w.args["then"]).__name__) for w in merge.args["whens"].expressions] == [
            (True, "Update"),
            (False, "Insert"),
        ]

    def test_rewinding(self) -> None:
        assert rewind_sql("/v", Csn(5)) == (
            "MERGE INTO delta.`/v` AS t USING (SELECT 1 AS `one`) AS `s` ON `t`.`__hw_t_min` > 5 OR "
            "`t`.`__hw_t_max` > 5 WHEN MATCHED AND `t`.`__hw_t_min` > 5 THEN DELETE "
            "WHEN MATCHED THEN UPDATE SET `__hw_t_max` = CAST(NULL AS BIGINT)"
        )

    def test_pruning_spares_pinned_moments(self) -> None:
        assert prune_timeline_sql("/v", Csn(9), [Csn(11), Csn(3)]) == (
            "DELETE FROM delta.`/v` WHERE `__hw_t_max` <= 9 AND "
            "NOT (`__hw_t_min` <= 3 AND (`__hw_t_max` > 3 OR `__hw_t_max` IS NULL))"
        )

    def test_vacuum(self) -> None:
        assert vacuum_sql("/v", 3) == "VACUUM delta.`/v` RETAIN 3 HOURS"
        with pytest.raises(InternalError):
            vacuum_sql("/v", -1)
