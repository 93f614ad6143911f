"""The update stream of a workload: timed transactions, one after another, drawn as they are asked for.

A transaction names each key at most once: a key that is updated twice appears with its last values, one that is
updated and then deleted as deleted, and one that is inserted is not touched again before the next transaction. So
inserted, updated and deleted rows can be written in any order, and [Mauve98 §2.3]'s assumption that insertions and
deletions are disjoint holds in each transaction (not over several: "trivial" updates of a chunk do occur).
``operations`` counts the updates drawn.

A deletion or update that meets an empty table becomes an insertion, so that every workload has as many updates as it
says.

A seed is stretched into one source of randomness for each purpose: the rows of a table at the beginning, the updates,
the gaps. Changing how updates arrive does not change what they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from random import Random

from headwater.algebra.zset import Row
from headwater.genesis.arrivals import arrival_times
from headwater.genesis.distributions import quantile, skew_exponent
from headwater.genesis.workload import TableShape, Workload


@dataclass(frozen=True, slots=True)
class TableChange:
    """``updated`` are new rows for keys that are there; ``deleted`` are keys."""

    table: str
    inserted: tuple[Row, ...] = ()
    updated: tuple[Row, ...] = ()
    deleted: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Transaction:
    """``at`` is in seconds from the beginning; tables without a change are left out."""

    number: int
    at: float
    operations: int
    changes: tuple[TableChange, ...]


def initial_rows(workload: Workload, table: str) -> Iterator[Row]:
    """The rows with which a table begins, keys 1, 2, 3, ..."""
    shape = workload.table(table)
    row = _row_maker(shape, _uniform(workload, f"rows of {table}"))
    return (row(key) for key in range(1, shape.rows + 1))


def transactions(workload: Workload) -> Iterator[Transaction]:
    whole, rest = divmod(workload.updates, workload.transaction_size)
    sizes = [workload.transaction_size] * whole + [rest] * bool(rest)
    times = arrival_times(workload.stream, sizes, _uniform(workload, "gaps"))
    uniform = _uniform(workload, "updates")
    pools = [_Pool(shape, _row_maker(shape, uniform)) for shape in workload.tables]
    shares = list(accumulate(shape.share for shape in workload.tables))
    total = workload.mix.insert + workload.mix.delete + workload.mix.update
    deletes, updates = workload.mix.delete / total, workload.mix.update / total
    exponent = skew_exponent(workload.hot)
    for number, (size, at) in enumerate(zip(sizes, times, strict=True), start=1):
        for _ in range(size):
            pool = pools[0]
            if len(pools) > 1:
                share = uniform() * shares[-1]
                pool = next(each for each, upto in zip(pools, shares, strict=True) if share < upto)
            kind = uniform()
            if kind >= deletes + updates or not pool.live:
                pool.insert()
            elif kind < deletes:
                pool.delete(uniform() ** exponent)
            else:
                pool.update(uniform() ** exponent)
        yield Transaction(number, at, size, tuple(change for pool in pools if (change := pool.commit())))


@dataclass(slots=True)
class _Pool:
    """The live keys of a table, the hot ones in front; the place of a deleted key goes to the last."""

    shape: TableShape
    row: Callable[[int], Row]
    live: list[int] = field(init=False)
    newest: int = field(init=False)
    inserted: list[Row] = field(default_factory=list)
    updated: dict[int, Row] = field(default_factory=dict)
    deleted: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.live = list(range(1, self.shape.rows + 1))
        self.newest = self.shape.rows

    def insert(self) -> None:
        self.newest += 1
        self.inserted.append(self.row(self.newest))

    def delete(self, where: float) -> None:
        place = self._place(where)
        key = self.live[place]
        self.live[place] = self.live[-1]
        self.live.pop()
        self.updated.pop(key, None)
        self.deleted.append(key)

    def update(self, where: float) -> None:
        key = self.live[self._place(where)]
        self.updated[key] = self.row(key)

    def commit(self) -> TableChange | None:
        """What the transaction did; from now on its insertions are rows like all others."""
        if not (self.inserted or self.updated or self.deleted):
            return None
        change = TableChange(self.shape.name, tuple(self.inserted), tuple(self.updated.values()), tuple(self.deleted))
        self.live.extend(range(self.newest - len(self.inserted) + 1, self.newest + 1))
        self.inserted, self.updated, self.deleted = [], {}, []
        return change

    def _place(self, where: float) -> int:
        size = len(self.live)
        return min(size - 1, int(where * size))


def _row_maker(shape: TableShape, uniform: Callable[[], float]) -> Callable[[int], Row]:
    quantiles = [quantile(column.values) for column in shape.columns]
    width = shape.padding
    if width:
        return lambda key: (key, *[draw(uniform()) for draw in quantiles], str(key).rjust(width, "x"))
    return lambda key: (key, *[draw(uniform()) for draw in quantiles])


def _uniform(workload: Workload, purpose: str) -> Callable[[], float]:
    return Random(f"{workload.seed}: {purpose}").random
