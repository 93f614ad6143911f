"""The update notifications that have arrived, in the order that their numbers give them, and which are lost.

A notification is found in two ways. By its data source version, in which order updates are sent for computation; it is
lost when a later one of the same source has arrived [SzeLing00 §5, after Theorem 1]. And by the base relation version
of each relation in it, for compensation, which may need an update that is not its turn yet; it is lost when an answer
shows that the relation has passed it. Either way "lost" only says that it is not here: it may still be on its
way, so it is waited for, and then asked for again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from headwater.errors import ContradictingMessages
from headwater.propagate.version_numbers.numbers import BaseRelationVersion, DataSourceVersion, SourceName
from headwater.propagate.version_numbers.updates import Transaction, Update


@dataclass(slots=True)
class UpdateLog:
    processed: dict[SourceName, DataSourceVersion]  # everything up to here was sent for computation
    newest: dict[SourceName, DataSourceVersion] = field(default_factory=dict)  # the highest version heard of
    waiting: dict[SourceName, dict[DataSourceVersion, Transaction]] = field(default_factory=dict)  # above processed
    updates: dict[str, dict[BaseRelationVersion, Update]] = field(default_factory=dict)

    def receive(self, transaction: Transaction) -> bool:
        """Keep a notification; False when it was here before."""
        held = self.waiting.setdefault(transaction.source, {})
        if transaction.version <= self.processed[transaction.source]:
            return False
        known = held.get(transaction.version)
        if known == transaction:
            return False
        others = (self.updates.get(update.table, {}).get(update.version) for update in transaction.updates)
        if known is not None or any(others):
            raise ContradictingMessages(
                f"The {transaction} tells of versions of which another notification has told differently.",
                table=transaction.updates[0].table if transaction.updates else str(transaction.source),
                version=transaction.version,
                remedy="Find out which of the two is true; the first is kept, the second was not taken.",
            )
        held[transaction.version] = transaction
        newest = self.newest.get(transaction.source, transaction.version)
        self.newest[transaction.source] = max(transaction.version, newest)
        for update in transaction.updates:
            self.updates.setdefault(update.table, {})[update.version] = update
        return True

    def next(self, source: SourceName) -> Transaction | None:
        """The source's transaction whose turn it is, if it is here."""
        return self.waiting.get(source, {}).get(DataSourceVersion(self.processed[source] + 1))

    def send(self, transaction: Transaction) -> None:
        """It was sent for computation; its updates stay for compensation."""
        del self.waiting[transaction.source][transaction.version]
        self.processed[transaction.source] = transaction.version

    def lost_transactions(self, source: SourceName) -> tuple[DataSourceVersion, ...]:
        """Those that a later one of the source has overtaken."""
        first, last = self.processed[source] + 1, self.newest.get(source, self.processed[source])
        held = self.waiting.get(source, {})
        return tuple(v for v in map(DataSourceVersion, range(first, last)) if v not in held)

    def lost_updates(self, table: str, versions: Iterable[BaseRelationVersion]) -> tuple[BaseRelationVersion, ...]:
        held = self.updates.get(table, {})
        return tuple(version for version in versions if version not in held)

    def forget(self, reflected: Mapping[str, int]) -> None:
        """Drop the updates of each table up to a version below which no answer will need them."""
        for table, version in reflected.items():
            held = self.updates.get(table, {})
            for old in [each for each in held if each <= version]:
                del held[old]
