"""A PostgreSQL feed from what the catalog knows of it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from headwater.catalog.records import MirrorRecord, SourceRecord
from headwater.sources.postgres.connection import Address, connect
from headwater.sources.postgres.feed import Followed, PostgresFeed
from headwater.sources.postgres.stored import table_of_json
from headwater.sources.postgres.visibility import TransactionSnapshot


def open_postgres(source: SourceRecord, mirrors: Sequence[MirrorRecord]) -> PostgresFeed:
    address = Address.parse(source.address)
    return PostgresFeed(
        partial(connect, address),
        source.settings["slot"],
        source.settings["publication"],
        [followed(mirror) for mirror in mirrors],
        database=str(address),
        offset=source.settings.get("offset", 0),
    )


def followed(mirror: MirrorRecord) -> Followed:
    copied = None if mirror.copied is None else TransactionSnapshot.parse(mirror.copied)
    return Followed(mirror.name, table_of_json(mirror.described), mirror.described["token"], copied)
