"""A round of capture: Delta's commits and the transactions of other sources as units of work in one order.

A source is one more history in the merge of ``ordering``: its transactions are in its own order, one unit of work each,
however many tables they touch. Those after the horizon wait for the next round, and all that follows them in that
source's log with them; so its position goes up to the last transaction that is numbered, and behind everything that
was read only where nothing was left.

A transaction that touches no table of the lake (its tables are not followed, or their first copy held it already) gets
no csn; the position passes over it in its turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

from headwater.capture.ordering import SeenCommit, order
from headwater.sources.feed import FeedBatch, FeedTransaction, Position

TRANSACTION = "TRANSACTION"


@dataclass(frozen=True, slots=True)
class FromFeed:
    """A transaction of a source as a unit of work, for what it did to ``tables``."""

    source_id: str
    transaction: FeedTransaction
    tables: frozenset[str]


@dataclass(frozen=True, slots=True)
class Round:
    units: tuple[tuple[SeenCommit, ...] | FromFeed, ...]
    positions: Mapping[str, Position]
    """Where each source's log stands when the units are durable."""
    passed: Mapping[str, int]
    """How many of each batch's transactions lie before that."""

    @property
    def touched(self) -> frozenset[str]:
        """The mirrored tables that it changes."""
        units = (unit for unit in self.units if isinstance(unit, FromFeed))
        return frozenset(name for unit in units for name in unit.tables)


def plan_round(
    histories: Mapping[str, Sequence[SeenCommit]],
    batches: Mapping[str, FeedBatch],
    horizon: int,
    *,
    patience: int,
    newcomer: str | None = None,
) -> Round:
    """What to number now. Times are microseconds.

    ``newcomer`` is a table that is read and not followed yet: nothing is numbered for its sake.
    """
    apart = frozenset() if newcomer is None else frozenset({newcomer})
    queues = dict(histories)
    transactions: dict[tuple[str, int], FeedTransaction] = {}
    for source_id, batch in batches.items():
        counted = [each for each in batch.transactions if each.touched - apart]
        transactions |= {(source_id, each.version): each for each in counted}
        queues[source_id] = [_seen(source_id, each) for each in counted]
    units: list[tuple[SeenCommit, ...] | FromFeed] = []
    for unit in order(queues, horizon, patience=patience):
        found = transactions.get((unit[0].table, unit[0].version))
        units.append(unit if found is None else FromFeed(unit[0].table, found, found.touched - apart))
    numbered = {(unit.source_id, unit.transaction.version) for unit in units if isinstance(unit, FromFeed)}
    waiting = transactions.keys() - numbered
    positions, passed = {}, {}
    for source_id, batch in batches.items():
        before = list(takewhile(lambda each: (source_id, each.version) not in waiting, batch.transactions))  # noqa: B023
        passed[source_id] = len(before)
        if len(before) == len(batch.transactions):
            positions[source_id] = batch.position
        elif before:
            positions[source_id] = before[-1].after
    return Round(tuple(units), positions, passed)


def _seen(source_id: str, transaction: FeedTransaction) -> SeenCommit:
    return SeenCommit(source_id, transaction.version, transaction.committed_at, TRANSACTION, None)
