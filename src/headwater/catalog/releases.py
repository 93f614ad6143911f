"""Releases: which version of each view's table holds it at one csn [Mauve98 §2.2], and the names that people give them.

A release is published as a whole in one transaction, so no reader ever finds half of it. Csns of releases only
grow: what a moment is read from, the oldest release at or after it, is then settled for good once there is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import sqlalchemy as sa

from headwater.algebra.time import Csn
from headwater.catalog import names, schema
from headwater.catalog.base_tables import newest_csn
from headwater.catalog.fencing import FencedTables, Held
from headwater.catalog.records import ReleasedView, ReleaseRecord
from headwater.errors import InternalError, InvalidInput, UnknownName

_releases = schema.releases
_views = schema.release_views
_tags = schema.release_tags


class Releases(FencedTables):
    def publish_release(self, lease: Held, csn: Csn, views: Sequence[ReleasedView]) -> ReleaseRecord:
        """The views at ``csn``, as the facts given; all of them or none.

        Publishing the newest release again adds the views that it did not have: what it says of the others is as true
        as what would be said now. So a publisher that does not know whether it came through just does it again.
        """
        with self._under(lease) as connection:
            newest = newest_release_csn(connection)
            if newest is not None and csn < newest:
                raise InternalError(f"Csn {csn} can't be released after csn {newest}.")
            if csn > newest_csn(connection):
                raise InternalError(f"Csn {csn} can't be released: it is not given yet.")
            if newest is None or csn > newest:
                at = self._database.lease_time(connection)
                connection.execute(sa.insert(_releases).values(csn=csn, published_at=at))
            there = set(connection.execute(sa.select(_views.c.view_id).where(_views.c.csn == csn)).scalars())
            for view in views:
                fact = _still_true(connection, csn, view)
                if fact.view_id not in there:
                    connection.execute(sa.insert(_views).values(csn=csn, **asdict(fact)))
            return _release(connection, csn)

    def releases(self) -> list[ReleaseRecord]:
        """All that are kept, by csn."""
        with self._database.read() as connection:
            return read_releases(connection)

    def newest_release(self) -> ReleaseRecord | None:
        with self._database.read() as connection:
            newest = newest_release_csn(connection)
            return None if newest is None else _release(connection, newest)

    def released_deltas(self, view_id: str) -> frozenset[str]:
        """Where the view deltas are by which a release of the view leads to the moments before it."""
        wanted = sa.select(_views.c.delta_location).where(
            _views.c.view_id == view_id, _views.c.kept_from < _views.c.csn
        )
        with self._database.read() as connection:
            return frozenset(connection.execute(wanted).scalars())

    def tag_release(self, tag: str, csn: Csn | None = None) -> Csn:
        """Name a release that is kept (None: the newest); a name that is in use moves. Anyone may, under no lease."""
        if not tag.strip():
            raise InvalidInput("A tag needs a name.", remedy="Give one such as 'june-close'.")
        with self._database.write() as connection:
            wanted = newest_release_csn(connection) if csn is None else csn
            known = set(connection.execute(sa.select(_releases.c.csn)).scalars())
            if wanted is None or wanted not in known:
                raise UnknownName(
                    f"There is no release of csn {wanted}." if wanted is not None else "Nothing has been released yet.",
                    remedy=f"Releases kept: {', '.join(map(str, sorted(known))) or 'none'}.",
                    csn=wanted,
                )
            connection.execute(sa.delete(_tags).where(_tags.c.tag == tag))
            at = self._database.lease_time(connection)
            connection.execute(sa.insert(_tags).values(tag=tag, csn=wanted, tagged_at=at))
            return wanted

    def untag_release(self, tag: str) -> None:
        with self._database.write() as connection:
            tagged_csn(connection, tag)
            connection.execute(sa.delete(_tags).where(_tags.c.tag == tag))

    def tagged(self, tag: str) -> Csn:
        """The csn of the release with that name."""
        with self._database.read() as connection:
            return tagged_csn(connection, tag)


def newest_release_csn(connection: sa.Connection) -> Csn | None:
    newest = connection.execute(sa.select(sa.func.max(_releases.c.csn))).scalar_one()
    return None if newest is None else Csn(newest)


def tagged_csn(connection: sa.Connection, tag: str) -> Csn:
    found = connection.execute(sa.select(_tags.c.csn).where(_tags.c.tag == tag)).scalar()
    if found is None:
        raise names.unknown("tag", tag, connection.execute(sa.select(_tags.c.tag)).scalars())
    return Csn(found)


def read_releases(connection: sa.Connection) -> list[ReleaseRecord]:
    views: dict[int, list[ReleasedView]] = {}
    for row in connection.execute(sa.select(_views).order_by(_views.c.view_id)):
        views.setdefault(row.csn, []).append(released_view(row))
    tags: dict[int, set[str]] = {}
    for row in connection.execute(sa.select(_tags.c.csn, _tags.c.tag)):
        tags.setdefault(row.csn, set()).add(row.tag)
    return [
        ReleaseRecord(Csn(row.csn), row.published_at, tuple(views.get(row.csn, ())), frozenset(tags.get(row.csn, ())))
        for row in connection.execute(sa.select(_releases).order_by(_releases.c.csn))
    ]


def delete_releases(connection: sa.Connection, csns: Sequence[Csn]) -> None:
    for table in (_tags, _views, _releases):
        connection.execute(sa.delete(table).where(table.c.csn.in_(csns)))


def released_view(row: sa.Row[Any]) -> ReleasedView:
    return ReleasedView(row.view_id, row.location, row.version, row.delta_location, Csn(row.kept_from))


def _release(connection: sa.Connection, csn: Csn) -> ReleaseRecord:
    return next(release for release in read_releases(connection) if release.csn == csn)


def _still_true(connection: sa.Connection, csn: Csn, view: ReleasedView) -> ReleasedView:
    """What can be checked of a fact: that it is of a view that is there, and of a version not yet taken away.

    If the view was recomputed since, its view delta of before may be gone: no way leads back from this release then.
    """
    name = names.require_view(connection, view.view_id)
    table = schema.views
    row = connection.execute(sa.select(table).where(table.c.view_id == view.view_id)).one()
    if csn < row.created_csn or view.version > row.version or view.location != row.location:
        raise InternalError(f"View {name!r} can't have been at csn {csn} in version {view.version}.")
    last = sa.select(schema.collections.c.plan).order_by(schema.collections.c.collection_id.desc()).limit(1)
    plan = connection.execute(last).scalar() or {}
    oldest = plan.get("views", {}).get(view.view_id, {}).get("oldest_version", 0)
    if view.version < oldest:
        raise InternalError(f"Version {view.version} of view {name!r} was left to garbage collection: take a new one.")
    if view.delta_location == row.delta_location:
        return view
    return replace(view, delta_location=row.delta_location, kept_from=csn)
