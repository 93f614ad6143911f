"""Retention: nothing goes that somebody needs, and everything else does."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.algebra.time import Csn, Interval
from headwater.algebra.zset import ZSet
from headwater.errors import InternalError, InvalidInput
from headwater.serve.retention import Keep, ReaderLease, Release, Retention, ViewState, decide
from headwater.serve.timeline import Timeline, advance, prune

VIEWS = ("v", "w")
BORN = {"v": Csn(0), "w": Csn(3)}
LAST = 12
NOW = 100


@st.composite
def published(draw: st.DrawFn) -> list[Release]:
    """One view is younger than the other; a view that did not change keeps its version; clocks step back."""
    csns = sorted(draw(st.sets(st.integers(0, LAST), max_size=6)))
    versions = dict.fromkeys(VIEWS, 0)
    found = []
    for csn in csns:
        for view in VIEWS:
            versions[view] += draw(st.integers(0, 2))
        found.append(
            Release(
                Csn(csn),
                draw(st.integers(60, NOW)),
                {view: versions[view] for view in VIEWS if BORN[view] <= csn},
                draw(st.frozensets(st.sampled_from(("june", "audit")), max_size=1)),
            )
        )
    return found


leases = st.lists(st.builds(ReaderLease, st.integers(0, LAST).map(Csn), st.integers(NOW - 5, NOW + 5)), max_size=3)
keeps = st.builds(
    Keep,
    count=st.integers(1, 4),
    age=st.integers(0, 50),
    tags=st.none() | st.frozensets(st.sampled_from(("june", "audit"))),
)
view_states = st.fixed_dictionaries(
    {
        view: st.builds(ViewState, st.just(created), st.integers(created, LAST).map(Csn))
        for view, created in BORN.items()
    }
)
worlds = st.tuples(published(), leases, keeps, view_states)
settled = st.tuples(
    published(), leases, keeps, st.just({view: ViewState(created, Csn(LAST)) for view, created in BORN.items()})
)
"""Worlds in which nobody waits for a view delta, so that all that is kept is kept for readers."""
World = tuple[list[Release], list[ReaderLease], Keep, dict[str, ViewState]]


def decided(world: World, now: int = NOW) -> Retention:
    releases, held, keep, views = world
    return decide(releases, held, keep, now, views)


def promised(world: World, now: int = NOW) -> set[Csn]:
    """Read off the settings one by one: the csns that must be readable."""
    releases, held, keep, _ = world
    moments = {lease.csn for lease in held if lease.expires_at > now}
    moments |= {release.csn for release in releases if release.tags and keep.tags is None}
    moments |= {release.csn for release in releases if keep.tags is not None and release.tags & keep.tags}
    moments |= {release.csn for release in releases[len(releases) - keep.count if keep.count < len(releases) else 0 :]}
    moments |= {release.csn for release in releases if release.published_at > now - keep.age}
    then = [release.csn for release in releases if release.published_at <= now - keep.age]
    return moments | set(then[-1:])


def readable(view: str, moment: Csn, releases: Iterable[Release], deltas: set[int]) -> bool:
    """Whether some release's version of the view and the view delta between the two are there."""
    return any(
        set(range(min(moment, release.csn) + 1, max(moment, release.csn) + 1)) <= deltas
        for release in releases
        if view in release.versions
    )


def kept_deltas(found: Retention, view: str) -> set[int]:
    return {csn for csn in range(1, LAST + 1) if found.views[view].keeps_delta(Csn(csn))}


@given(worlds)
@settings(max_examples=40)
def test_every_promised_moment_and_all_since_the_window_began_can_be_read(world: World) -> None:
    found = decided(world)
    releases = world[0]
    for moment in promised(world):
        assert found.keeps(moment)
    for view in VIEWS:
        if not any(view in release.versions for release in releases):
            continue
        for moment in filter(found.keeps, map(Csn, range(BORN[view], LAST + 1))):
            assert readable(view, moment, found.kept, kept_deltas(found, view))


@given(worlds)
@settings(max_examples=40)
def test_kept_and_spare_are_all_there_is(world: World) -> None:
    found = decided(world)
    assert sorted((*found.kept, *found.spare), key=lambda release: release.csn) == world[0]
    for view, own in found.views.items():
        assert own.versions | own.spare_versions == {
            release.versions[view] for release in world[0] if view in release.versions
        }
        assert not own.versions & own.spare_versions
        spare = {csn for interval in own.spare_delta() for csn in range(interval.start + 1, interval.end + 1)}
        assert spare == set(range(1, own.delta_from + 1)) - kept_deltas(found, view)


@given(settled)
@settings(max_examples=40)
def test_a_spare_release_is_needed_by_no_moment_and_a_kept_one_by_some(world: World) -> None:
    """Without any one of the kept releases, a moment that is kept could not be read, or its row would be missing."""
    found = decided(world)
    for release in found.kept:
        others = [each for each in found.kept if each is not release]
        assert (
            release.csn >= found.kept_from
            or release.csn in found.pinned
            or any(
                not readable(view, moment, others, kept_deltas(found, view))
                for view in VIEWS
                for moment in found.pinned
                if BORN[view] <= moment
            )
        )
    assert all(release.csn not in promised(world) for release in found.spare)


@given(settled)
@settings(max_examples=40)
def test_every_part_of_a_view_delta_that_is_kept_leads_to_a_moment_that_is_kept(world: World) -> None:
    found = decided(world)
    for view in VIEWS:
        for csn in kept_deltas(found, view):
            if csn > found.kept_from:
                continue
            shorter = kept_deltas(found, view) - {csn}
            assert any(
                not readable(view, moment, found.kept, shorter) for moment in found.pinned if BORN[view] <= moment
            )


@given(worlds)
@settings(max_examples=40)
def test_what_nobody_has_consumed_stays(world: World) -> None:
    found = decided(world)
    for view, state in world[3].items():
        assert all(found.views[view].keeps_delta(Csn(csn)) for csn in range(state.consumed + 1, LAST + 5))


@given(worlds, leases)
def test_another_lease_never_lets_anything_go(world: World, more: list[ReaderLease]) -> None:
    releases, held, keep, views = world
    before, after = decided(world), decided((releases, held + more, keep, views))
    assert {release.csn for release in before.kept} <= {release.csn for release in after.kept}
    assert before.pinned <= after.pinned
    for view in before.views:
        assert before.views[view].versions <= after.views[view].versions
        assert kept_deltas(before, view) <= kept_deltas(after, view)


@given(worlds, st.integers(0, 60))
def test_time_alone_never_makes_anything_stay_that_could_go(world: World, passed: int) -> None:
    before, after = decided(world), decided(world, NOW + passed)
    assert {release.csn for release in after.kept} <= {release.csn for release in before.kept}
    for moment in map(Csn, range(LAST + 1)):
        assert before.keeps(moment) or not after.keeps(moment)


@given(worlds)
@settings(max_examples=40)
def test_carried_out_and_decided_again_nothing_more_goes(world: World) -> None:
    found = decided(world)
    again = decided((list(found.kept), *world[1:]))
    assert again.kept == found.kept
    assert not again.spare
    assert (again.kept_from, again.pinned) == (found.kept_from, found.pinned)
    for view, own in again.views.items():
        assert kept_deltas(again, view) == kept_deltas(found, view)
        assert own.versions == found.views[view].versions


@given(worlds, keeps)
@settings(max_examples=40)
def test_under_settings_that_change_every_moment_kept_is_readable_from_what_was_left(world: World, other: Keep) -> None:
    releases, held, _, views = world
    first = decided(world)
    second = decide(first.kept, held, other, NOW, views, since=first.kept_from)
    for view in VIEWS:
        left = kept_deltas(first, view) & kept_deltas(second, view)
        if any(view in release.versions for release in releases):
            for moment in filter(second.keeps, map(Csn, range(BORN[view], LAST + 1))):
                assert readable(view, moment, second.kept, left)


@given(worlds)
@settings(max_examples=40)
def test_a_timeline_pruned_as_decided_shows_just_the_moments_kept(world: World) -> None:
    found = decided(world)
    view_delta = ZSet.of(((csn,), 1, Csn(csn)) for csn in range(1, LAST + 1))
    timeline = prune(advance(Timeline.beginning(ZSet(), Csn(0)), view_delta, Csn(LAST)), found.kept_from, found.pinned)
    assert [timeline.readable(Csn(moment)) for moment in range(LAST + 1)] == [
        found.keeps(Csn(moment)) for moment in range(LAST + 1)
    ]


def release(csn: int, published_at: int, *tags: str) -> Release:
    return Release(Csn(csn), published_at, {"v": csn * 10}, frozenset(tags))


RELEASES = [release(2, 10), release(5, 20, "june"), release(7, 30), release(9, 40)]
CONSUMED = {"v": ViewState(Csn(0), Csn(9))}


def csns(found: Retention) -> list[int]:
    return [each.csn for each in found.kept]


class TestSettings:
    def test_the_newest_release_always_stays(self) -> None:
        found = decide(RELEASES, [], Keep(tags=frozenset()), 10**9, CONSUMED)
        assert csns(found) == [9]
        assert found.views["v"].versions == {90}
        assert found.views["v"].spare_versions == {20, 50, 70}
        assert found.views["v"].spare_delta() == (Interval(Csn(0), Csn(9)),)

    def test_by_count(self) -> None:
        found = decide(RELEASES, [], Keep(count=3, tags=frozenset()), 50, CONSUMED)
        assert csns(found) == [5, 7, 9]
        assert found.views["v"].oldest_version == 50

    def test_by_age_the_release_that_was_the_newest_then_stays(self) -> None:
        """Fifteen ago, at 35, a reader would have got csn 7."""
        assert csns(decide(RELEASES, [], Keep(age=15, tags=frozenset()), 50, CONSUMED)) == [7, 9]
        assert csns(decide(RELEASES, [], Keep(age=1000, tags=frozenset()), 50, CONSUMED)) == [2, 5, 7, 9]

    def test_by_tag_any_or_named(self) -> None:
        assert csns(decide(RELEASES, [], Keep(), 50, CONSUMED)) == [5, 9]
        assert csns(decide(RELEASES, [], Keep(tags=frozenset({"june"})), 50, CONSUMED)) == [5, 9]
        assert csns(decide(RELEASES, [], Keep(tags=frozenset({"july"})), 50, CONSUMED)) == [9]

    def test_settings_that_keep_nothing_are_refused(self) -> None:
        with pytest.raises(InvalidInput):
            Keep(count=0)
        with pytest.raises(InvalidInput):
            Keep(age=-1)


class TestLeases:
    KEEP = Keep(tags=frozenset())

    def test_a_lease_holds_its_release_until_it_runs_out(self) -> None:
        lease = ReaderLease(Csn(2), expires_at=60)
        assert csns(decide(RELEASES, [lease], self.KEEP, 59, CONSUMED)) == [2, 9]
        assert csns(decide(RELEASES, [lease], self.KEEP, 60, CONSUMED)) == [9]

    def test_between_releases_it_holds_the_release_after_and_the_changes_up_to_it(self) -> None:
        found = decide(RELEASES, [ReaderLease(Csn(6), 60)], self.KEEP, 50, CONSUMED)
        assert csns(found) == [7, 9]
        assert found.views["v"].delta_pieces == (Interval(Csn(6), Csn(7)),)
        assert found.views["v"].spare_delta(since=Csn(1)) == (Interval(Csn(1), Csn(6)), Interval(Csn(7), Csn(9)))

    def test_a_view_that_later_releases_left_out_is_read_forwards_from_the_last_that_has_it(self) -> None:
        releases = [RELEASES[0], replace(RELEASES[1], versions={"v": 50, "w": 1}), *RELEASES[2:]]
        found = decide(releases, [ReaderLease(Csn(6), 60)], self.KEEP, 50, CONSUMED | {"w": ViewState(Csn(2), Csn(9))})
        assert csns(found) == [5, 7, 9]
        assert found.views["w"].delta_pieces == (Interval(Csn(5), Csn(6)),)

    def test_beyond_the_newest_release_it_needs_no_more_than_the_window_has(self) -> None:
        found = decide(RELEASES, [ReaderLease(Csn(11), 60)], self.KEEP, 50, CONSUMED)
        assert csns(found) == [9]
        assert found.keeps(Csn(11))


def test_what_a_slow_view_on_the_view_has_not_taken_stays() -> None:
    found = decide(RELEASES, [], Keep(tags=frozenset()), 50, {"v": ViewState(Csn(0), Csn(3))})
    assert found.views["v"].delta_from == 3
    assert found.views["v"].spare_delta() == (Interval(Csn(0), Csn(3)),)


def test_a_view_that_came_after_a_tag_holds_nothing_for_it() -> None:
    """A release with w was once kept as the anchor of a moment at which there was no w."""
    releases = [release(0, 60, "june"), replace(release(1, 60), versions={"v": 10, "w": 1}), release(2, 60)]
    found = decide(releases, [], Keep(), 100, CONSUMED | {"w": ViewState(Csn(1), Csn(2))})
    assert csns(found) == [0, 2]
    assert found.views["w"].delta_pieces == ()


def test_a_view_whose_tables_are_gone_holds_nothing() -> None:
    assert "v" not in decide(RELEASES, [], Keep(), 50, {}).views


def test_wider_settings_do_not_bring_back_what_went() -> None:
    """Once the window began at the release of csn 5, which a tag had kept, and promised csns that were long gone."""
    wide = Keep(count=3)
    first = decide(RELEASES, [], Keep(), 50, CONSUMED)
    assert (csns(first), first.kept_from) == ([5, 9], 9)
    again = decide(first.kept, [], wide, 50, CONSUMED, since=first.kept_from)
    assert (again.kept_from, again.pinned, csns(again)) == (9, {5}, [5, 9])
    assert not again.keeps(Csn(7))
    later = decide([*again.kept, release(11, 60)], [], Keep(count=3, tags=frozenset()), 60, CONSUMED, since=Csn(9))
    assert (later.kept_from, later.pinned, csns(later)) == (9, {5}, [5, 9, 11])


def test_before_the_first_release_everything_stays() -> None:
    found = decide([], [ReaderLease(Csn(3), 60)], Keep(), 50, {"v": ViewState(Csn(0), Csn(3))})
    assert found.kept_from == 0
    assert found.views["v"].spare_delta() == ()
    assert found.views["v"].oldest_version is None


def test_two_releases_of_one_csn_are_refused() -> None:
    with pytest.raises(InternalError, match="one csn"):
        decide([RELEASES[0], RELEASES[0]], [], Keep(), 0, {})
