"""Releases, their tags and readers, and what a collection leaves of them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import sqlalchemy as sa
from tests.catalog.worlds import LINES, ORDERS, RELEASED, VIEW, commit, everything, populate

from headwater.algebra.plan import LeafId
from headwater.algebra.time import Csn
from headwater.catalog import (
    Catalog,
    CollectionIntent,
    Holdings,
    Horizon,
    LeafRecord,
    Lease,
    RetentionSettings,
    schema,
)
from headwater.errors import (
    InternalError,
    InvalidInput,
    MomentBeforeHistory,
    MomentInFuture,
    NothingReleased,
    SnapshotExpired,
    UnknownName,
)

UPPER = replace(VIEW, name="upper", view_id="up", location="/lake/upper", created_csn=Csn(3), csn=Csn(4))
UPPER_LEAF = LeafRecord(LeafId(0), "t", "totals", Csn(4), Csn(4))


def move(catalog: Catalog, lease: Lease, csn: int, version: int) -> None:
    step = catalog.begin_step(lease, VIEW.view_id, "apply", {})
    catalog.finish_apply(lease, step.step_id, csn=Csn(csn), version=version)


def published(catalog: Catalog, lease: Lease, *csns: int) -> None:
    """Releases of one view whose version is ten times its csn."""
    for csn in csns:
        move(catalog, lease, csn, csn * 10)
        catalog.publish_release(lease, Csn(csn), [replace(RELEASED, version=csn * 10)])


def keeping(kept_from: int, *pinned: int, spare: tuple[int, ...] = ()) -> Callable[[Holdings], CollectionIntent]:
    horizon = Horizon(Csn(kept_from), frozenset(map(Csn, pinned)))
    return lambda _: CollectionIntent(horizon, tuple(map(Csn, spare)))


def collect(catalog: Catalog, lease: Lease, decide: Callable[[Holdings], CollectionIntent]) -> None:
    catalog.finish_collection(lease, catalog.begin_collection(lease, decide).collection_id)


def run_out(catalog: Catalog) -> None:
    with catalog._database.write() as connection:
        connection.execute(sa.update(schema.reader_leases).values(expires_at=1))


class TestPublishing:
    def test_what_was_published_is_found_again(self, catalog: Catalog) -> None:
        with catalog.lease("publish") as lease:
            populate(catalog, lease)
            assert catalog.newest_release() is None
            first = catalog.publish_release(lease, Csn(2), [RELEASED])
            assert (first.csn, first.views, first.tags) == (2, (RELEASED,), frozenset())
            catalog.insert_view(lease, UPPER, [UPPER_LEAF])
            published(catalog, lease, 4)
            assert [release.csn for release in catalog.releases()] == [2, 4]
            assert catalog.newest_release() == catalog.releases()[-1]
            assert catalog.releases()[0].published_at <= catalog.releases()[1].published_at

    def test_again_is_harmless_and_adds_what_was_missing(self, catalog: Catalog) -> None:
        with catalog.lease("publish") as lease:
            populate(catalog, lease)
            published(catalog, lease, 4)
            catalog.insert_view(lease, UPPER, [UPPER_LEAF])
            upper = replace(RELEASED, view_id="up", location="/lake/upper")
            again = catalog.publish_release(lease, Csn(4), [replace(RELEASED, version=39), upper])
            assert {view.view_id: view.version for view in again.views} == {VIEW.view_id: 40, "up": 0}
            assert len(catalog.releases()) == 1

    def test_csns_of_releases_only_grow(self, catalog: Catalog) -> None:
        with catalog.lease("publish") as lease:
            populate(catalog, lease)
            published(catalog, lease, 3)
            before = everything(catalog)
            with pytest.raises(InternalError, match="after csn 3"):
                catalog.publish_release(lease, Csn(2), [RELEASED])
            with pytest.raises(InternalError, match="not given yet"):
                catalog.publish_release(lease, Csn(5), [])
            assert everything(catalog) == before

    @pytest.mark.parametrize(
        "wrong",
        [replace(RELEASED, version=99), replace(RELEASED, location="/elsewhere"), replace(RELEASED, view_id="nobody")],
    )
    def test_a_fact_that_can_not_be_true_publishes_nothing(self, catalog: Catalog, wrong: object) -> None:
        with catalog.lease("publish") as lease:
            populate(catalog, lease)
            with pytest.raises((InternalError, UnknownName)):
                catalog.publish_release(lease, Csn(3), [wrong])  # type: ignore[list-item]
            assert catalog.releases() == []

    def test_a_version_that_a_collection_was_given_is_not_published(self, catalog: Catalog) -> None:
        """Noted by a slow round, and gone before the round ended."""
        with catalog.lease("publish") as lease:
            populate(catalog, lease)
            move(catalog, lease, 3, 30)
            plan = {"views": {VIEW.view_id: {"oldest_version": 30}}}
            collect(catalog, lease, lambda _: CollectionIntent(Horizon(Csn(0)), (), {}, plan))
            with pytest.raises(InternalError, match="left to garbage collection"):
                catalog.publish_release(lease, Csn(3), [replace(RELEASED, version=29)])
            catalog.publish_release(lease, Csn(3), [replace(RELEASED, version=30)])

    def test_a_dropped_view_is_in_no_release(self, catalog: Catalog) -> None:
        with catalog.lease("publish") as lease:
            populate(catalog, lease)
            published(catalog, lease, 3)
            catalog.begin_drop(lease, VIEW.view_id, {})
            assert [(release.csn, release.views) for release in catalog.releases()] == [(3, ())]
            assert catalog.open_reader(None, holder="me", ttl=60).anchors == {}


class TestTags:
    def test_a_tag_names_a_release_moves_and_goes(self, catalog: Catalog) -> None:
        with catalog.lease("publish") as lease:
            populate(catalog, lease)
            with pytest.raises(UnknownName, match="Nothing has been released"):
                catalog.tag_release("june")
            published(catalog, lease, 2, 3, 4)
            assert catalog.tag_release("june", Csn(3)) == 3
            assert catalog.tag_release("audit", Csn(3)) == 3
            assert catalog.releases()[1].tags == {"june", "audit"}
            assert catalog.tag_release("june") == 4
            assert (catalog.tagged("june"), catalog.tagged("audit")) == (4, 3)
            catalog.untag_release("audit")
            with pytest.raises(UnknownName, match="Known: june"):
                catalog.tagged("audit")
            with pytest.raises(UnknownName, match="Known: june"):
                catalog.untag_release("audit")
            with pytest.raises(UnknownName, match="Releases kept: 2, 3, 4"):
                catalog.tag_release("x", Csn(1))
            with pytest.raises(InvalidInput):
                catalog.tag_release("  ")


class TestReaders:
    def test_a_reader_gets_the_newest_release_and_where_each_view_is_read_from(self, catalog: Catalog) -> None:
        with pytest.raises(NothingReleased):
            catalog.open_reader(None, holder="me", ttl=60)
        with catalog.lease("publish") as lease:
            populate(catalog, lease)
            catalog.insert_view(lease, UPPER, [UPPER_LEAF])
            published(catalog, lease, 2)
            move(catalog, lease, 4, 40)
            upper = replace(RELEASED, view_id="up", location="/lake/upper")
            catalog.publish_release(lease, Csn(4), [replace(RELEASED, version=40), upper])
        newest = catalog.open_reader(None, holder="me", ttl=60)
        assert (newest.lease.csn, newest.lease.holder) == (4, "me")
        assert newest.lease.expires_at - newest.lease.opened_at == 60_000_000
        assert {view.name for view in newest.views} == {"totals", "upper"}
        assert newest.anchors == {VIEW.view_id: (4, replace(RELEASED, version=40)), "up": (4, upper)}
        exact = catalog.open_reader(Csn(2), holder="me", ttl=60)
        assert exact.anchors == {VIEW.view_id: (2, replace(RELEASED, version=20)), "up": (4, upper)}
        between = catalog.open_reader(Csn(3), holder="me", ttl=60)
        assert between.anchors == newest.anchors
        assert [lease.csn for lease in catalog.readers()] == [4, 2, 3]
        with pytest.raises(MomentInFuture, match="newest release is of csn 4"):
            catalog.open_reader(Csn(5), holder="me", ttl=60)
        with pytest.raises(InvalidInput):
            catalog.open_reader(None, holder="me", ttl=0)

    def test_a_lease_lives_by_its_heartbeat(self, catalog: Catalog) -> None:
        with catalog.lease("publish") as lease:
            populate(catalog, lease)
            published(catalog, lease, 2)
            opened = catalog.open_reader(None, holder="me", ttl=1).lease
            renewed = catalog.renew_reader(opened.snapshot_id, ttl=90)
            assert renewed.heartbeat_at > opened.heartbeat_at == opened.opened_at == renewed.opened_at
            assert renewed.expires_at == renewed.heartbeat_at + 90_000_000
            assert catalog.reader(opened.snapshot_id) == renewed
            catalog.close_reader(opened.snapshot_id)
            catalog.close_reader(opened.snapshot_id)
            for ask in (catalog.reader, lambda snapshot: catalog.renew_reader(snapshot, ttl=1)):
                with pytest.raises(SnapshotExpired, match="ran out"):
                    ask(opened.snapshot_id)
            assert catalog.readers() == []

    def test_a_lease_that_ran_out_is_good_until_a_collection_comes_by(self, catalog: Catalog) -> None:
        with catalog.lease("publish") as lease:
            populate(catalog, lease)
            published(catalog, lease, 2, 4)
            late = catalog.open_reader(Csn(2), holder="late", ttl=60).lease.snapshot_id
            run_out(catalog)
            catalog.renew_reader(late, ttl=60)
            seen: list[Holdings] = []

            def look(holdings: Holdings) -> CollectionIntent:
                seen.append(holdings)
                return CollectionIntent(Horizon(Csn(0)), ())

            collect(catalog, lease, look)
            assert [(each.csn, each.expires_at > seen[0].now) for each in seen[0].leases] == [(2, True)]
            run_out(catalog)
            collect(catalog, lease, look)
            assert [(each.csn, each.expires_at > seen[1].now) for each in seen[1].leases] == [(2, False)]
            with pytest.raises(SnapshotExpired):
                catalog.renew_reader(late, ttl=60)

    def test_only_a_moment_that_is_kept_is_leased(self, catalog: Catalog) -> None:
        with catalog.lease("publish") as lease:
            populate(catalog, lease)
            published(catalog, lease, 2, 4)
            for csn in range(5):
                catalog.open_reader(Csn(csn), holder="me", ttl=60)
            collect(catalog, lease, keeping(4, 1))
            for csn in (1, 2, 4):  # pinned, released, in the window
                catalog.open_reader(Csn(csn), holder="me", ttl=60)
            for csn in (0, 3):
                with pytest.raises(MomentBeforeHistory, match="every csn from 4 on is"):
                    catalog.open_reader(Csn(csn), holder="me", ttl=60)
            assert catalog.horizon() == Horizon(Csn(4), frozenset({Csn(1)}))

    def test_a_reader_and_a_collection_never_miss_each_other(
        self, catalog: Catalog, opened: Callable[[], Catalog]
    ) -> None:
        """Either the collection sees the lease, or the reader is told: whoever comes first, many times over."""
        other = opened()
        with catalog.lease("publish") as lease, ThreadPoolExecutor(1) as pool:
            populate(catalog, lease)
            published(catalog, lease, 2, 4)
            for round_ in range(12):
                with catalog._database.write() as connection:
                    connection.execute(sa.delete(schema.retention))
                    connection.execute(sa.delete(schema.reader_leases))
                leased: list[Csn] = []
                start = threading.Barrier(2)

                def read(start: threading.Barrier = start) -> bool:
                    start.wait(30)
                    try:
                        other.open_reader(Csn(3), holder="reader", ttl=60)
                    except MomentBeforeHistory:
                        return False
                    return True

                def decide(holdings: Holdings, leased: list[Csn] = leased) -> CollectionIntent:
                    leased += [reader.csn for reader in holdings.leases]
                    return CollectionIntent(Horizon(Csn(4), frozenset(leased)), ())

                reading = pool.submit(read)
                start.wait(30)
                if round_ % 2:
                    threading.Event().wait(0.002)
                collect(catalog, lease, decide)
                assert reading.result(30) == (leased == [3])


class TestCollections:
    def test_settings_are_kept_for_the_lake(self, catalog: Catalog, opened: Callable[[], Catalog]) -> None:
        assert catalog.retention() == RetentionSettings()
        wanted = RetentionSettings(3, 60_000_000, frozenset({"june"}))
        catalog.set_retention(wanted)
        assert opened().retention() == wanted
        with catalog.lease("collect") as lease:
            populate(catalog, lease)
            published(catalog, lease, 2)
            collect(catalog, lease, keeping(2))
            assert catalog.retention() == wanted
            catalog.set_retention(RetentionSettings(tags=frozenset()))
            assert catalog.retention() == RetentionSettings(tags=frozenset())
            assert catalog.horizon().kept_from == 2

    def test_a_decision_is_made_from_all_that_is_held(self, catalog: Catalog) -> None:
        with catalog.lease("collect") as lease:
            populate(catalog, lease)
            published(catalog, lease, 2, 4)
            catalog.tag_release("june", Csn(2))
            catalog.open_reader(Csn(3), holder="me", ttl=60)
            catalog.set_retention(RetentionSettings(count=7))
            seen: list[Holdings] = []

            def look(holdings: Holdings) -> CollectionIntent:
                seen.append(holdings)
                return CollectionIntent(Horizon(Csn(1)), (), {}, {"x": 1})

            begun = catalog.begin_collection(lease, look)
            (holdings,) = seen
            assert list(holdings.releases) == catalog.releases()
            assert [(release.csn, release.tags) for release in holdings.releases] == [(2, {"june"}), (4, set())]
            assert [reader.csn for reader in holdings.leases] == [3]
            assert (holdings.settings.count, holdings.horizon) == (7, Horizon(Csn(0)))
            assert [(held.record.name, held.consumed) for held in holdings.views] == [("totals", 4)]
            assert (begun.state, begun.plan, begun.started_at) == ("intended", {"x": 1}, holdings.now)

    def test_it_is_recorded_before_it_is_done_and_done_once(self, catalog: Catalog) -> None:
        with catalog.lease("collect") as lease:
            populate(catalog, lease)
            published(catalog, lease, 2, 3, 4)
            catalog.tag_release("june", Csn(2))
            assert catalog.open_collection() is None
            horizon = Horizon(Csn(4), frozenset({Csn(1)}))
            begun = catalog.begin_collection(
                lease,
                lambda _: CollectionIntent(horizon, (Csn(2), Csn(3)), {VIEW.view_id: Csn(3)}, {"views": {}}),
            )
            assert catalog.open_collection() == begun
            assert [release.csn for release in catalog.releases()] == [4]
            assert catalog.view("totals").kept_from == 3
            assert catalog.horizon() == horizon
            with pytest.raises(UnknownName):
                catalog.tagged("june")
            with pytest.raises(InternalError, match="cut short"):
                catalog.begin_collection(lease, keeping(0))
            with pytest.raises(InternalError, match="no collection 99"):
                catalog.finish_collection(lease, 99)
            catalog.finish_collection(lease, begun.collection_id, {"views": ["totals"]})
            assert catalog.open_collection() is None
            with pytest.raises(InternalError):
                catalog.finish_collection(lease, begun.collection_id)

    def test_a_view_never_gets_a_past_back(self, catalog: Catalog) -> None:
        with catalog.lease("collect") as lease:
            populate(catalog, lease)
            before = catalog.view("totals").kept_from
            collect(
                catalog, lease, lambda _: CollectionIntent(Horizon(Csn(0)), (), {VIEW.view_id: Csn(before - 1)}, {})
            )
            assert catalog.view("totals").kept_from == before

    def test_a_view_that_was_being_made_on_what_went_is_refused(self, catalog: Catalog) -> None:
        with catalog.lease("collect") as lease:
            populate(catalog, lease)
            move(catalog, lease, 4, 40)
            collect(catalog, lease, lambda _: CollectionIntent(Horizon(Csn(0)), (), {VIEW.view_id: Csn(4)}, {}))
            before = everything(catalog)
            late = [replace(UPPER_LEAF, time=Csn(3), t_comp=Csn(3))]
            with pytest.raises(MomentBeforeHistory, match="'totals' can't be had at csn 3, only from 4 on"):
                catalog.insert_view(lease, UPPER, late)
            assert everything(catalog) == before
            catalog.insert_view(lease, replace(UPPER, definition={"recomputed": "X"}), late)

    def test_a_decision_that_fails_leaves_everything(self, catalog: Catalog) -> None:
        def fail(_: Holdings) -> CollectionIntent:
            raise ZeroDivisionError

        with catalog.lease("collect") as lease:
            populate(catalog, lease)
            published(catalog, lease, 2)
            run_out(catalog)
            before = everything(catalog)
            with pytest.raises(ZeroDivisionError):
                catalog.begin_collection(lease, fail)
            assert everything(catalog) == before

    def test_what_others_will_still_ask_of_a_view_delta_is_not_consumed(self, catalog: Catalog) -> None:
        def consumed() -> dict[str, Csn]:
            found: dict[str, Csn] = {}

            def look(holdings: Holdings) -> CollectionIntent:
                found.update({held.record.name: held.consumed for held in holdings.views})
                return CollectionIntent(Horizon(Csn(0)), ())

            collect(catalog, lease, look)
            return found

        with catalog.lease("collect") as lease:
            populate(catalog, lease)
            catalog.number_units(lease, [[commit("orders", 7, 9)]])
            move(catalog, lease, 5, 50)
            assert consumed() == {"totals": 5}
            # A view on it stands with its slowest leaf at 3, whichever leaf that is.
            slow = [UPPER_LEAF, LeafRecord(LeafId(1), "o", "orders", Csn(4), Csn(3))]
            catalog.insert_view(lease, UPPER, slow)
            assert consumed() == {"totals": 3, "upper": 4}
            # One that is computed from scratch needs no past.
            scratch = replace(UPPER, name="scratch", view_id="s", definition={"recomputed": "X"}, location="/s")
            catalog.insert_view(lease, scratch, [replace(UPPER_LEAF, time=Csn(1), t_comp=Csn(1))])
            assert consumed()["totals"] == 3
            # A step back that was cut short will be taken up again.
            catalog.begin_step(lease, VIEW.view_id, "apply", {"from": 5, "to": 2})
            assert consumed()["totals"] == 2


def test_times_of_units_of_work(catalog: Catalog) -> None:
    with catalog.lease("v") as lease:
        catalog.add_base_table(lease, ORDERS)
        catalog.add_base_table(lease, LINES)
        assert catalog.pending_since(Csn(0)) is None
        catalog.number_units(lease, [[commit("orders", 4, 2_000)], [commit("lineitem", 1, 1_000)]])
    assert catalog.committed_at(Csn(0)) is None
    assert [catalog.committed_at(Csn(csn)) for csn in (1, 2)] == [2_000, 2_000]
    assert [catalog.pending_since(Csn(csn)) for csn in (0, 1, 2)] == [2_000, 2_000, None]
