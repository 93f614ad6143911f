"""A view at a csn, in whichever layout its table holds it.

A table of the layout ``current`` holds the view at one csn, ``stored_at``; any other is that with the view delta
between the two. A timeline holds every csn that it keeps up to ``stored_at``; only what lies beyond needs the view
delta.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from headwater.algebra.time import Csn
from headwater.sql.storage import counted_at, stored
from headwater.sql.timeline import counted_in_timeline


def counted_view(
    location: str,
    version: int,
    stored_at: Csn,
    delta: str,
    at: Csn,
    names: Sequence[str],
    *,
    timeline: bool,
    delta_version: int | None = None,
) -> exp.Query:
    """The view's distinct rows with their counts."""
    if not timeline:
        base = stored(location, version, names)
    else:
        base = counted_in_timeline(location, version, min(at, stored_at), names)
        stored_at = min(at, stored_at)
    return counted_at(base, stored_at, delta, at, names, delta_version=delta_version)
