"""A round of refreshes that ends in a release: all views at one csn, published together [Mauve98 §2.2].

The csn is the newest one when the round begins. Each view is brought there and what is then true of it (this version
holds it at this csn) is noted; that stays true when another driver brings the view further. A view that another driver
had brought further *before* is not taken back: the round is run again, to a later csn. A view that can't be
refreshed is left out, and the report says why: the others need not wait for it.

A crash anywhere before the one catalog transaction publishes nothing; the views that have moved are just fresher.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from headwater.algebra.time import Csn
from headwater.catalog.records import ReleasedView, ReleaseRecord
from headwater.catalog.store import Catalog
from headwater.context import PUBLISH
from headwater.durable import DurablePoint, Listener, nobody
from headwater.errors import OF_THE_LAKE, HeadwaterError, InternalError

_ROUNDS = 3


class Drivers(Protocol):
    """What a round asks of the drivers."""

    def capture(self) -> Csn:
        """Number the commits made so far; the newest csn."""
        ...

    def round(self, views: Sequence[str], to: Csn) -> AbstractContextManager[None]:
        """Until it ends, these views are refreshed to one csn, and may share what they need for it."""
        ...

    def refresh(self, view: str, to: Csn) -> None: ...


@dataclass(frozen=True, slots=True)
class Released:
    """``left_out``: the views that are not in the release, each with what kept it out."""

    release: ReleaseRecord
    left_out: Mapping[str, HeadwaterError]

    @property
    def csn(self) -> int:
        return self.release.csn


def release(
    catalog: Catalog, drivers: Drivers, *, wait: float = 0.0, ttl: float = 60.0, reached: Listener = nobody
) -> Released:
    with catalog.lease(PUBLISH, ttl=ttl, wait=wait) as lease:
        for remaining in reversed(range(_ROUNDS)):
            csn = drivers.capture()
            with drivers.round([view.name for view in catalog.views()], csn):
                standing, left_out, overtaken = _bring_together(catalog, drivers, csn, reached)
            if not overtaken or not remaining:
                published = catalog.publish_release(lease, csn, standing)
                reached(DurablePoint.RELEASE_PUBLISHED)
                return Released(published, left_out)
        raise InternalError("a round of refreshes neither ended nor went on")


def _bring_together(
    catalog: Catalog, drivers: Drivers, csn: Csn, reached: Listener
) -> tuple[list[ReleasedView], dict[str, HeadwaterError], bool]:
    standing: list[ReleasedView] = []
    left_out: dict[str, HeadwaterError] = {}
    overtaken = False
    for view in catalog.views():
        try:
            if catalog.view(view.name).csn <= csn:
                drivers.refresh(view.name, csn)
                reached(DurablePoint.RELEASE_REFRESHED)
            now = catalog.view(view.name)
        except OF_THE_LAKE:
            raise
        except HeadwaterError as error:
            left_out[view.name] = error
            continue
        if now.csn == csn:
            standing.append(ReleasedView.standing(now))
        else:
            overtaken = True
            left_out[view.name] = HeadwaterError(
                f"View {view.name!r} was brought to csn {now.csn} by another driver while csn {csn} was released.",
                remedy="Release again.",
            )
    return standing, left_out, overtaken
