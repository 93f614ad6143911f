"""The tables of a workload in memory: what a warehouse that applies its transactions must hold.

``apply`` also tells what changed as signed counts by row, the form in which a unit of work reaches the reference
engine. A transaction that does not fit (a key inserted twice, an update of a row that is not there) is refused whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headwater.algebra.zset import Row, ZSet
from headwater.errors import InternalError
from headwater.genesis.stream import TableChange, Transaction, initial_rows
from headwater.genesis.workload import Workload


@dataclass(slots=True)
class Tables:
    """Rows by key, by table."""

    rows: dict[str, dict[int, Row]]

    @classmethod
    def beginning(cls, workload: Workload) -> Tables:
        return cls(
            {shape.name: {row[0]: row for row in initial_rows(workload, shape.name)} for shape in workload.tables}
        )

    def state(self, table: str) -> ZSet:
        return ZSet.from_rows(self.rows[table].values()).net_effect()

    def apply(self, transaction: Transaction) -> Mapping[str, list[tuple[Row, int]]]:
        """Bring the tables to just after the transaction; the change of each table as (row, count)."""
        for change in transaction.changes:
            self._require_fitting(transaction, change)
        return {change.table: self._apply(change) for change in transaction.changes}

    def _apply(self, change: TableChange) -> list[tuple[Row, int]]:
        held = self.rows[change.table]
        changed = [(held.pop(key), -1) for key in change.deleted]
        for row in change.updated:
            changed += [(held[row[0]], -1), (row, 1)]
            held[row[0]] = row
        for row in change.inserted:
            changed.append((row, 1))
            held[row[0]] = row
        return changed

    def _require_fitting(self, transaction: Transaction, change: TableChange) -> None:
        held = self.rows.get(change.table)
        if held is None:
            raise InternalError(f"transaction {transaction.number} changes {change.table}, which is not there")
        new = [row[0] for row in change.inserted]
        old = [*(row[0] for row in change.updated), *change.deleted]
        if len({*new, *old}) < len(new) + len(old):
            raise InternalError(f"transaction {transaction.number} names a key of {change.table} twice")
        if any(key in held for key in new) or not all(key in held for key in old):
            raise InternalError(f"transaction {transaction.number} does not fit the rows of {change.table}")
