"""What a mirrored table keeps: its log from the earliest moment on that somebody may ask for, and its own versions."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest

from headwater.algebra.plan import LeafId
from headwater.algebra.time import Csn, Interval
from headwater.catalog import BaseTable, Commit, LeafRecord, QueryListEntry, RetentionSettings
from headwater.catalog.records import MirrorMode, MirrorRecord, MirrorState, SourceRecord
from headwater.catalog.rounds import RoundOutcome
from headwater.errors import MomentBeforeHistory
from headwater.pinning import pinned_table
from headwater.sql.pinned import PinnedMirror
from tests.serve.fake_lake import SECOND, DeltaTable, FakeLake, Gone
from tests.serve.test_garbage import NOTHING, failing_at, opened, swept


def mirror(lake: FakeLake, mode: MirrorMode = "mirror") -> None:
    """A mirrored table m; its log is told of by ``mirrored``."""
    for location in ("/m", "/m_log"):
        lake.tables[location] = DeltaTable()
        lake.tables[location].commit({}, lake.clock())
    table = BaseTable("m", "/m", "u2", (("a", "int"),), "versioned", Csn(0), 0, 0, lake.clock())
    with lake.catalog.lease("t") as lease:
        lake.catalog.add_source(lease, SourceRecord("shop", "postgresql", "postgresql://localhost/shop", {}, None, 5))
        lake.catalog.add_mirror(lease, table, MirrorRecord("m", "m-id", "shop", mode, "/m_log", {}), 0)


def mirrored(lake: FakeLake, units: int) -> None:
    """A round of capture: some units of work of m, and the state that they lead to."""
    first = lake.catalog.newest_csn() + 1
    csns = [Csn(csn) for csn in range(first, first + units)]
    log = lake.tables["/m_log"]
    log.commit({**log.versions[-1], **{(csn, csn): 1 for csn in csns}}, lake.clock())
    table = lake.tables["/m"]
    table.commit({(None, csn): 1 for csn in range(1, csns[-1] + 1)}, lake.clock())
    with lake.catalog.lease("capture") as lease:
        begun = lake.catalog.begin_round(lease, {"first": first})
        commits = [[Commit("m", csn, lake.clock(), "WRITE", 1, "shop", str(csn))] for csn in csns]
        states = [MirrorState("m-id", csns[-1], len(table.versions) - 1)]
        lake.catalog.finish_round(lease, begun.round_id, RoundOutcome(commits, states=states))


def logged(lake: FakeLake) -> list[int]:
    return sorted(csn or 0 for csn, _ in lake.tables["/m_log"].versions[-1])


def test_changes_of_a_mirrored_table_go_a_grace_after_it_was_said(lake: FakeLake) -> None:
    """Who had looked at the catalog before it was said may still read them."""
    lake.catalog.set_retention(NOTHING)
    mirror(lake)
    for _ in range(3):
        mirrored(lake, 3)
        lake.release()
    swept(lake, grace=3600 * SECOND)
    assert lake.catalog.log_from("m") == 9
    assert logged(lake) == list(range(1, 10))
    for passed, left in ((1800, list(range(1, 10))), (1801, [])):
        lake.clock.passes(passed)
        swept(lake, grace=3600 * SECOND)
        assert logged(lake) == left
    ran = len(lake.ran)
    swept(lake, grace=3600 * SECOND)
    assert not any("/m_log" in text for text in lake.ran[ran:])
    mirrored(lake, 2)  # life goes on
    assert pinned_table(lake.catalog, "m", Csn(11)) == PinnedMirror("/m", 4, ("a",), Csn(11), Csn(11), "/m_log")
    assert isinstance(found := pinned_table(lake.catalog, "m", Csn(10)), PinnedMirror)
    assert (found.stored_at, found.at) == (9, 10)


def test_a_moment_that_needs_changes_which_go_is_refused_as_soon_as_it_is_said(lake: FakeLake) -> None:
    lake.catalog.set_retention(NOTHING)
    mirror(lake)
    for _ in range(3):
        mirrored(lake, 3)
        lake.release()
    assert isinstance(pinned_table(lake.catalog, "m", Csn(5)), PinnedMirror)
    swept(lake)
    for csn in range(1, 9):
        with pytest.raises(MomentBeforeHistory, match="kept from csn 9 on"):
            pinned_table(lake.catalog, "m", Csn(csn))
    assert isinstance(pinned_table(lake.catalog, "m", Csn(9)), PinnedMirror)


def test_versions_of_the_copy_that_nobody_may_ask_for_go_and_their_moments_are_forgotten(lake: FakeLake) -> None:
    lake.catalog.set_retention(NOTHING)
    mirror(lake)
    for _ in range(3):
        mirrored(lake, 3)
        lake.release()
        lake.clock.passes(7200)
    table = lake.tables["/m"]
    swept(lake)
    assert sorted(row for _, row in table.read(1)) == [1, 2, 3]  # it has only been said
    lake.clock.passes(7200)
    swept(lake)
    assert sorted(row for _, row in table.read(3)) == list(range(1, 10))
    for version in (1, 2):
        with pytest.raises(Gone):
            table.read(version)
    mirrored(lake, 1)
    lake.release()
    swept(lake)
    assert lake.catalog.mirror_state("m", Csn(9)).version == 3
    with pytest.raises(MomentBeforeHistory, match="mirrored since a later csn"):
        lake.catalog.mirror_state("m", Csn(8))


@pytest.mark.parametrize(
    ("kept", "log_from"),
    [("tag", 3), ("lease", 3), ("count", 6), ("view", 3), ("list", 0), ("step", 6), ("mode", 0), ("none", 9)],
)
def test_what_keeps_the_log_of_a_mirrored_table(lake: FakeLake, kept: str, log_from: int) -> None:
    lake.catalog.set_retention(NOTHING)
    mirror(lake, "query" if kept == "mode" else "mirror")
    for _ in range(3):
        mirrored(lake, 3)
        lake.release()
    if kept == "tag":
        lake.catalog.set_retention(RetentionSettings())
        lake.catalog.tag_release("june", Csn(3))
    if kept == "count":
        lake.catalog.set_retention(RetentionSettings(count=2))
    if kept in ("view", "list", "step"):
        record = replace(lake.catalog.view("v"), name="u", view_id="u-id", location="/u", delta_location="/u_delta")
        entries = [QueryListEntry(LeafId(0), Interval(Csn(2), Csn(8)), Csn(9))] if kept == "list" else []
        with lake.catalog.lease("t") as lease:
            leaf = LeafRecord(LeafId(0), "m", "m", Csn(9), Csn(9 if kept == "step" else 5))
            lake.catalog.insert_view(lease, record, [leaf], query_lists=entries)
            if kept == "step":
                lake.catalog.begin_step(lease, "u-id", "apply", {"recompute": 7})
        lake.tables["/u"], lake.tables["/u_delta"] = lake.tables["/v"], lake.tables["/v_delta"]
    snapshot = opened(lake, 4) if kept == "lease" else None
    for _ in range(3):
        swept(lake)
    assert lake.catalog.log_from("m") == log_from
    assert logged(lake) == list(range(log_from + 1, 10))
    if snapshot is not None:
        snapshot.close()


def test_a_log_is_left_for_the_next_time_while_capture_writes_it(lake: FakeLake) -> None:
    lake.catalog.set_retention(NOTHING)
    mirror(lake)
    mirrored(lake, 3)
    lake.release()
    swept(lake)
    with lake.catalog.lease("capture"):
        assert swept(lake).busy == ("m",)
    assert logged(lake) == [1, 2, 3]
    mirrored(lake, 1)
    lake.release()
    swept(lake)
    swept(lake)
    assert logged(lake) == []


def test_a_view_made_of_a_moment_whose_changes_went_meanwhile_is_refused(lake: FakeLake) -> None:
    lake.catalog.set_retention(NOTHING)
    mirror(lake)
    mirrored(lake, 3)
    record = replace(lake.catalog.view("v"), name="u", view_id="u-id")
    mirrored(lake, 3)
    lake.release()
    swept(lake)
    with lake.catalog.lease("t") as lease, pytest.raises(MomentBeforeHistory, match="kept from csn 6 on"):
        lake.catalog.insert_view(lease, record, [LeafRecord(LeafId(0), "m", "m", Csn(3), Csn(3))])


@pytest.mark.parametrize("number", range(6))
def test_a_log_whose_pruning_was_cut_short_is_pruned_by_the_next_collection(lake: FakeLake, number: int) -> None:
    lake.catalog.set_retention(NOTHING)
    mirror(lake)
    mirrored(lake, 3)
    lake.release()
    swept(lake)
    run, lake.run = lake.run, failing_at(lake, number)  # type: ignore[method-assign]
    with suppress(ConnectionError):
        swept(lake)
    lake.run = run  # type: ignore[method-assign]
    swept(lake)
    assert logged(lake) == []


def test_a_table_that_is_no_more_takes_its_log_along(lake: FakeLake) -> None:
    lake.catalog.set_retention(NOTHING)
    mirror(lake)
    mirrored(lake, 3)
    lake.release()
    swept(lake)
    run, lake.run = lake.run, failing_at(lake, 0)  # type: ignore[method-assign]
    with suppress(ConnectionError):
        swept(lake)
    lake.run = run  # type: ignore[method-assign]
    with lake.catalog.lease("t") as lease:
        lake.catalog.remove_base_table(lease, "m")
    ran = len(lake.ran)
    swept(lake)
    assert not any("/m_log" in text for text in lake.ran[ran:])
