"""One total order from many histories."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headwater.capture.ordering import SeenCommit, order, tag_of, unit_of_work_metadata

PATIENCE = 1000


def commit(table, version, timestamp, tag=None, size=None):
    return SeenCommit(table, version, timestamp, "WRITE", 1, tag, size)


def numbered(histories, horizon=10**9):
    return [[(c.table, c.version) for c in unit] for unit in order(histories, horizon, patience=PATIENCE)]


def test_by_time_over_tables():
    histories = {"a": [commit("a", 1, 10), commit("a", 2, 30)], "b": [commit("b", 1, 20)]}
    assert numbered(histories) == [[("a", 1)], [("b", 1)], [("a", 2)]]


def test_nothing_beyond_the_horizon():
    histories = {"a": [commit("a", 1, 10), commit("a", 2, 30)], "b": [commit("b", 1, 20)]}
    assert numbered(histories, horizon=20) == [[("a", 1)], [("b", 1)]]


def test_ties_go_by_table_then_version():
    histories = {"b": [commit("b", 1, 10)], "a": [commit("a", 7, 10), commit("a", 8, 10)]}
    assert numbered(histories) == [[("a", 7)], [("a", 8)], [("b", 1)]]


def test_commits_of_one_tag_are_one_unit_of_work():
    histories = {
        "a": [commit("a", 1, 10, "x", 2), commit("a", 2, 15)],
        "b": [commit("b", 1, 12), commit("b", 2, 20, "x", 2)],
    }
    assert numbered(histories) == [[("b", 1)], [("a", 1), ("b", 2)], [("a", 2)]]


def test_an_incomplete_unit_waits_and_holds_back_only_its_own_tables():
    histories = {
        "a": [commit("a", 1, 10, "x", 2), commit("a", 2, 15)],
        "b": [commit("b", 1, 12)],
    }
    assert numbered(histories, horizon=100) == [[("b", 1)]]


def test_an_incomplete_unit_does_not_wait_for_ever():
    histories = {"a": [commit("a", 1, 10, "x", 2)]}
    assert numbered(histories, horizon=10 + PATIENCE) == [[("a", 1)]]


def test_tags_that_cross_are_taken_apart():
    histories = {
        "a": [commit("a", 1, 10, "x"), commit("a", 2, 11, "y")],
        "b": [commit("b", 1, 12, "y"), commit("b", 2, 13, "x")],
    }
    found = numbered(histories)
    assert sorted(c for unit in found for c in unit) == [("a", 1), ("a", 2), ("b", 1), ("b", 2)]


def test_a_tag_is_read_from_commit_metadata():
    assert tag_of(unit_of_work_metadata("load 7", 3)) == ("load 7", 3)
    assert tag_of(None) == (None, None)
    assert tag_of("not json headwater_unit_of_work") == (None, None)
    assert tag_of('{"headwater_unit_of_work": 5}') == (None, None)
    assert tag_of('{"other": "headwater_unit_of_work"}') == (None, None)


@st.composite
def histories(draw):
    found = {}
    for table in draw(st.sampled_from(["a", "ab", "abc"])):
        stamps = sorted(draw(st.lists(st.integers(0, 30), max_size=6)))
        tags = [draw(st.sampled_from([None, None, "x", "y", "z"])) for _ in stamps]
        sizes = [draw(st.sampled_from([None, 1, 2, 3])) for _ in stamps]
        found[table] = [
            commit(table, v, t, tag, size if tag else None)
            for v, (t, tag, size) in enumerate(zip(stamps, tags, sizes, strict=True))
        ]
    return found


@given(histories(), st.integers(0, 2000))
def test_every_order_keeps_each_tables_own_order_and_leaves_no_gap(found, horizon):
    units = order(found, horizon, patience=PATIENCE)
    for table, commits in found.items():
        own = [c for unit in units for c in unit if c.table == table]
        assert own == commits[: len(own)]
        assert all(c.timestamp <= horizon for c in own)


@given(histories())
def test_when_nothing_can_wait_everything_is_numbered(found):
    units = order(found, 30 + PATIENCE, patience=PATIENCE)
    assert sorted((c.table, c.version) for unit in units for c in unit) == sorted(
        (c.table, c.version) for commits in found.values() for c in commits
    )


@given(histories())
def test_without_tags_the_order_is_by_time(found):
    plain = {table: [commit(table, c.version, c.timestamp) for c in commits] for table, commits in found.items()}
    stamps = [unit[0].timestamp for unit in order(plain, 30, patience=PATIENCE)]
    assert stamps == sorted(stamps)
