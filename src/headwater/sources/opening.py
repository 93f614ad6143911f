"""Feeds by their records in the catalog: opened when first read, kept open, opened anew when their tables change.

The drivers of databases are optional, so each kind is imported when a source of that kind is opened.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from headwater.catalog.records import JsonObject, MirrorRecord, SourceRecord
from headwater.errors import InvalidInput
from headwater.sources.feed import Feed

Opener = Callable[[SourceRecord, Sequence[MirrorRecord]], Feed]


class Feeds:
    """``opener`` makes a feed; a test gives its own."""

    def __init__(self, opener: Opener | None = None) -> None:
        self._opener = opener or open_feed
        self._open: dict[str, tuple[str, Feed]] = {}

    def feed(self, source: SourceRecord, mirrors: Sequence[MirrorRecord]) -> Feed:
        """The source's feed over these tables."""
        key = _key(source.settings, mirrors)
        known = self._open.get(source.source_id)
        if known is not None and known[0] == key:
            return known[1]
        self.forget(source.source_id)
        self._open[source.source_id] = (key, self._opener(source, mirrors))
        return self._open[source.source_id][1]

    def forget(self, source_id: str) -> None:
        known = self._open.pop(source_id, None)
        if known is not None:
            known[1].close()

    def close(self) -> None:
        for source_id in list(self._open):
            self.forget(source_id)


def _key(settings: JsonObject, mirrors: Sequence[MirrorRecord]) -> str:
    return json.dumps([settings, [[each.name, each.described, each.copied] for each in mirrors]], sort_keys=True)


def open_feed(source: SourceRecord, mirrors: Sequence[MirrorRecord]) -> Feed:
    if source.kind == "postgresql":
        require_psycopg()
        from headwater.sources.postgres.opening import open_postgres

        return open_postgres(source, mirrors)
    from headwater.sources.messages import open_messages

    return open_messages(source, mirrors)


def require_psycopg() -> None:
    try:
        import psycopg  # noqa: F401
    except ImportError as error:
        raise InvalidInput(
            "A PostgreSQL source needs the driver psycopg, which is not installed.",
            remedy="pip install 'headwater[postgres]'",
            code="DRIVER_MISSING",
        ) from error
