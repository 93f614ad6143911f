"""What must be kept and what may go: releases, view versions, view deltas, timelines [Mauve98 §2.1, §5].

A pure decision over what the catalog knows; the garbage collector carries it out.

*Moments kept.* The window: every csn from ``kept_from`` on, the oldest of the releases kept by count or by age. By
age means that any time up to that long ago can still be read, so the release that was the newest then stays although
it is older. Older single moments are pinned: releases with a tag that the settings name, and the csns of leases that
have not run out. The newest release is always kept. What went once does not come back when the settings are widened:
the window never begins before ``since``, where an earlier collection let it begin, and older releases that the new
settings would keep are pinned one by one.

*What a moment needs.* View v at csn t, if it was there at t, is read from its version at an *anchor*, a release that
has v, and the view delta between the two: V(t) = V(r) - σ(t,r] ΔV, or V(r) + σ(r,t] ΔV for r < t. The anchor is the
oldest release at or after t that has v; if there is none, the newest one before t. A release is kept for the window,
for a tag or a lease of its own csn, or as an anchor: so every moment kept is readable, and every other release is
needed by nobody.

*Why the release after.* A view may be recomputed, and then no view delta leads across. Whether one leads from t to r
was known when r was published, and stands in its row (``kept_from``): a function of one row that never changes, as
releases are only added behind the newest. Forwards from the release before t it would depend on all that came later.

*View deltas* are also input: to apply, from the view's own csn on, and to views on this view, from where the slowest
of them stands. ``consumed`` is the earlier of these. All beyond it stays, however old.

*Monotone.* Another lease, a tag or a longer history never makes anything go that stayed before; time alone never
makes anything stay that could go. Carrying the decision out and deciding again changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from headwater.algebra.time import BEGINNING, Csn, Interval
from headwater.errors import InternalError, InvalidInput


@dataclass(frozen=True, slots=True)
class Release:
    """Views with their Delta versions at one csn; times are microseconds."""

    csn: Csn
    published_at: int
    versions: Mapping[str, int]
    tags: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ReaderLease:
    csn: Csn
    expires_at: int


@dataclass(frozen=True, slots=True)
class ViewState:
    """A view whose tables are there; apply and all views on it have taken its view delta up to ``consumed``."""

    created: Csn
    consumed: Csn


@dataclass(frozen=True, slots=True)
class Keep:
    """The newest ``count`` releases, the past ``age`` microseconds, releases with one of ``tags`` (None: any tag)."""

    count: int = 1
    age: int = 0
    tags: frozenset[str] | None = None

    def __post_init__(self) -> None:
        if self.count < 1 or self.age < 0:
            raise InvalidInput(
                f"A history of {self.count} releases and {self.age} microseconds can't be kept.",
                remedy="Keep at least one release, and no negative age.",
            )


@dataclass(frozen=True, slots=True)
class ViewRetention:
    """``versions`` must stay readable, ``spare_versions`` need not.

    Of the view delta must stay what is after ``delta_from`` or in ``delta_pieces``.
    """

    versions: frozenset[int]
    spare_versions: frozenset[int]
    delta_from: Csn
    delta_pieces: tuple[Interval, ...] = ()  # ascending, disjoint, at or before delta_from

    @property
    def oldest_version(self) -> int | None:
        """VACUUM keeps an unbroken run of versions: from this one on."""
        return min(self.versions, default=None)

    def keeps_delta(self, csn: Csn) -> bool:
        return csn > self.delta_from or any(csn in piece for piece in self.delta_pieces)

    def spare_delta(self, since: Csn = BEGINNING) -> tuple[Interval, ...]:
        """The parts of the view delta after ``since`` that may go."""
        spare = []
        start = since
        for piece in (*self.delta_pieces, Interval(self.delta_from, self.delta_from)):
            if start < piece.start:
                spare.append(Interval(start, piece.start))
            start = max(start, piece.end)
        return tuple(spare)


@dataclass(frozen=True, slots=True)
class Retention:
    kept: tuple[Release, ...]
    spare: tuple[Release, ...]
    kept_from: Csn  # every csn from here on is a moment kept
    pinned: frozenset[Csn]  # and these older ones
    views: Mapping[str, ViewRetention] = field(default_factory=dict)

    def keeps(self, moment: Csn) -> bool:
        return moment >= self.kept_from or moment in self.pinned


def decide(
    releases: Iterable[Release],
    leases: Iterable[ReaderLease],
    keep: Keep,
    now: int,
    views: Mapping[str, ViewState],
    since: Csn = BEGINNING,
) -> Retention:
    """What to keep at ``now``. Views that releases name and ``views`` does not are gone already.

    ``since`` is the ``kept_from`` of what was last carried out.
    """
    known = sorted(releases, key=lambda release: release.csn)
    if len({release.csn for release in known}) < len(known):
        raise InternalError("two releases have one csn")
    wanted_from = _window(known, keep, now)
    kept_from = max(since, wanted_from)
    single = {release.csn for release in known if release.csn >= wanted_from or _tagged(release, keep)}
    leased = {lease.csn for lease in leases if lease.expires_at > now}
    pinned = frozenset(csn for csn in single | leased if csn < kept_from)

    needed = {release.csn for release in known if release.csn >= kept_from or release.csn in pinned}
    pieces: dict[str, list[Interval]] = {name: [] for name in views}
    for name, view in views.items():
        for moment in pinned:
            anchor = anchor_of(known, name, moment) if view.created <= moment else None
            if anchor is not None:
                needed.add(anchor.csn)
                pieces[name].append(Interval(min(anchor.csn, moment), max(anchor.csn, moment)))

    kept = tuple(release for release in known if release.csn in needed)
    return Retention(
        kept,
        tuple(release for release in known if release.csn not in needed),
        kept_from,
        pinned,
        {
            name: _of_view(name, known, kept, min(kept_from, view.consumed), pieces[name])
            for name, view in views.items()
        },
    )


def _window(known: Sequence[Release], keep: Keep, now: int) -> Csn:
    if not known:
        return BEGINNING
    by_count = known[-keep.count :][0]
    # Not by position: clocks step back, and a csn must not go for that.
    younger = [release for release in known if release.published_at > now - keep.age]
    older = [release for release in known if release.published_at <= now - keep.age]
    return min(release.csn for release in (by_count, *younger, *older[-1:]))


def _tagged(release: Release, keep: Keep) -> bool:
    return bool(release.tags if keep.tags is None else release.tags & keep.tags)


def anchor_of(known: Sequence[Release], view: str, moment: Csn) -> Release | None:
    """The release, of those ``known`` by rising csn, from whose version the view is read at a moment."""
    having = [release for release in known if view in release.versions]
    return next((release for release in having if release.csn >= moment), having[-1] if having else None)


def _of_view(
    view: str, known: Sequence[Release], kept: Sequence[Release], delta_from: Csn, pieces: Iterable[Interval]
) -> ViewRetention:
    versions = frozenset(release.versions[view] for release in kept if view in release.versions)
    every = frozenset(release.versions[view] for release in known if view in release.versions)
    return ViewRetention(versions, every - versions, delta_from, _united(pieces, delta_from))


def _united(pieces: Iterable[Interval], limit: Csn) -> tuple[Interval, ...]:
    """The same csns up to the limit, in intervals that neither meet nor overlap."""
    united: list[Interval] = []
    for piece in sorted(pieces):
        end = min(piece.end, limit)
        if piece.start >= end:
            continue
        if united and piece.start <= united[-1].end:
            united[-1] = Interval(united[-1].start, max(united[-1].end, end))
        else:
            united.append(Interval(piece.start, end))
    return tuple(united)
