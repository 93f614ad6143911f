"""Reading the feeds of all sources, and telling them how far what they gave is durable.

A source that can't be reached now is passed over, and its tables are named with the reason; the others go on. One
whose log is lost for good stops its tables until they are resynced: that is written to each of them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, closing

from headwater.capture.rounds import Round
from headwater.catalog.fencing import Held, Lease
from headwater.catalog.records import JsonObject, MirrorRecord, SourceRecord
from headwater.context import Context
from headwater.errors import DatabaseProblem, PublicationMissing, SlotLost, SourceProblem
from headwater.sources.feed import FeedBatch

logger = logging.getLogger(__name__)

# Waiting does not help against these: changes are gone.
LOST = (SlotLost, PublicationMissing)


def followed_mirrors(context: Context, source: SourceRecord) -> list[MirrorRecord]:
    """The tables of a source that are not left behind with a problem."""
    problems = {table.name for table in context.catalog.base_tables() if table.problem is not None}
    return [mirror for mirror in context.catalog.mirrors(source.source_id) if mirror.name not in problems]


def read_feeds(
    context: Context,
    stack: ExitStack,
    unreachable: dict[str, DatabaseProblem],
    newcomer: MirrorRecord | None = None,
) -> tuple[dict[str, FeedBatch], dict[str, JsonObject | None]]:
    """A batch of each source, and what is newly wrong with tables; ``unreachable`` is added to."""
    batches: dict[str, FeedBatch] = {}
    problems: dict[str, JsonObject | None] = {}
    for source in context.catalog.sources():
        mirrors = _read_with(followed_mirrors(context, source), source, newcomer)
        if source.position is None or not mirrors or any(mirror.name in unreachable for mirror in mirrors):
            continue
        context.progress(f"reading {source.source_id}")
        try:
            batch = context.feeds.feed(source, mirrors).read(source.position)
        except LOST as problem:
            if newcomer in mirrors:
                raise
            problems |= {mirror.name: problem.as_dict() for mirror in mirrors}
        except DatabaseProblem as problem:
            unreachable |= dict.fromkeys((mirror.name for mirror in mirrors), problem)
        else:
            batches[source.source_id] = stack.enter_context(closing(batch))
            problems |= {name: problem.as_dict() for name, problem in batch.problems.items()}
    return batches, problems


def forget_keys(context: Context, lease: Held, batches: Iterable[FeedBatch]) -> None:
    """Before any change is numbered that a lost key may not tell apart."""
    lost = {name for batch in batches for name in batch.lost_keys}
    for mirror in context.catalog.mirrors() if lost else ():
        if mirror.name in lost:
            context.progress(f"{mirror.name}: its primary key was dropped and is not relied on any more")
            context.catalog.forget_key(lease, mirror)


def _read_with(mirrors: list[MirrorRecord], source: SourceRecord, newcomer: MirrorRecord | None) -> list[MirrorRecord]:
    """The tables that a feed is read for: a newcomer too, if it is of the source."""
    return [*mirrors, newcomer] if newcomer is not None and newcomer.source_id == source.source_id else mirrors


def move_on(
    context: Context,
    lease: Lease,
    planned: Round,
    batches: Mapping[str, FeedBatch],
    newcomer: MirrorRecord | None = None,
) -> None:
    """Store how far each source was read, also where nothing of it was numbered, and let it forget what is durable."""
    for source_id, batch in batches.items():
        source = context.catalog.source(source_id)
        position = planned.positions.get(source_id)
        if position is not None and position != source.position:
            context.catalog.move_sources(lease, {source_id: position}, {})
        if (batch.waiting or None) != source.waiting:
            context.catalog.set_waiting(lease, source_id, batch.waiting or None)
        if position is not None:
            try:
                mirrors = _read_with(followed_mirrors(context, source), source, newcomer)
                context.feeds.feed(source, mirrors).confirm(position)
            except DatabaseProblem as problem:
                # The next reading does it; till then the source only keeps more than it must.
                logger.info("Could not tell %s how far its log is durable: %s", source_id, problem)


def blamed(context: Context, problem: SourceProblem) -> str:
    """The lake's name of the table that a problem of its source's is about."""
    for mirror in context.catalog.mirrors():
        if problem.table in (mirror.name, f"{mirror.described.get('schema')}.{mirror.described.get('table')}"):
            return mirror.name
    raise problem
