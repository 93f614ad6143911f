"""The workloads of [Mauve98 §4]: two tables and their join, update sizes, discontinuous streams, table sizes.

*Table sizes.* The paper gives them in megabytes and says that 30,000, 40,000, 70,000 and 100,000 updates are 4, 6, 10
and 15 % of two tables of 50 MB. All four round as printed just when both together hold between 666,667 and 689,655
rows; we take 340,000 rows for 50 MB, and other sizes in proportion.

*Join attribute.* Uniform over as many values as a table has rows: n rows on either side and n values give n * n / n
rows of the join, "a view with roughly the same size as each of the two base relations".

*Updates* are insertions and deletions, half and half (the paper counts a changed attribute as one of each).

*Gaps.* The text does not print the percentages behind the four curves of Figures 13 and 14, nor the mean length; we
take 0, 25, 50 and 75 % and twenty active periods in a stream.
"""

from __future__ import annotations

from headwater.genesis.arrivals import Discontinuous, Steady, Stream, UpdateRate
from headwater.genesis.distributions import Uniform
from headwater.genesis.workload import Column, Mix, TableShape, Workload

TABLES = ("r", "s")
JOIN_ATTRIBUTE = "a"
UPDATE_SIZES = (30_000, 40_000, 70_000, 100_000)
IDLE_FRACTIONS = (0.0, 0.25, 0.5, 0.75)
TABLE_MEGABYTES = (30, 100)
ACTIVE_PERIODS = 20
_ROWS_PER_MEGABYTE = 6_800
_BYTES_PER_ROW = 147


def rows_of(megabytes: float) -> int:
    """Rows of one table of that size."""
    return round(megabytes * _ROWS_PER_MEGABYTE)


def joined_tables(rows: int) -> tuple[TableShape, ...]:
    column = Column(JOIN_ATTRIBUTE, Uniform(1, max(1, rows)))
    return tuple(TableShape(name, rows, (column,), padding=_BYTES_PER_ROW) for name in TABLES)


def stream(rate: float, updates: int, idle: float) -> Stream:
    """``updates`` at ``rate``, in twenty bursts with gaps between them that take ``idle`` of the time."""
    if idle == 0:
        return Steady(rate)
    burst = updates / rate / ACTIVE_PERIODS
    return Discontinuous(rate, idle, mean_gap=burst * idle / (1 - idle))


def workload(
    updates: int, *, rate: float, megabytes: float = 50, idle: float = 0.0, transaction_size: int = 100, seed: int = 0
) -> Workload:
    return Workload(
        tables=joined_tables(rows_of(megabytes)),
        updates=updates,
        mix=Mix(insert=1, delete=1, update=0),
        stream=stream(rate, updates, idle),
        transaction_size=transaction_size,
        seed=seed,
    )


def update_sizes(capacity: float, *, scale: float = 1.0, seed: int = 0) -> tuple[Workload, ...]:
    """Figures 8 to 11. ``capacity``: updates a second that the warehouse can process; ``scale`` shrinks all sizes."""
    rate = UpdateRate.HIGH.of(capacity)
    return tuple(
        workload(round(updates * scale), rate=rate, megabytes=50 * scale, seed=seed) for updates in UPDATE_SIZES
    )


def discontinuous_streams(
    rate: UpdateRate, capacity: float, *, updates: int = 40_000, scale: float = 1.0, seed: int = 0
) -> tuple[Workload, ...]:
    """Figures 13 (high) and 14 (medium): the same updates with more and more silence between them."""
    return tuple(
        workload(round(updates * scale), rate=rate.of(capacity), megabytes=50 * scale, idle=idle, seed=seed)
        for idle in IDLE_FRACTIONS
    )


def table_sizes(capacity: float, *, scale: float = 1.0, seed: int = 0) -> tuple[Workload, ...]:
    """Figure 16: 40,000 updates on tables of 30 and 100 MB."""
    rate = UpdateRate.HIGH.of(capacity)
    return tuple(
        workload(round(40_000 * scale), rate=rate, megabytes=size * scale, seed=seed) for size in TABLE_MEGABYTES
    )
