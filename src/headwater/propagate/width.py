"""How far one step advances each leaf: the width of its propagation interval.

[Salem00 §3.4]: "rolling propagation provides n independent tunable parameters, rather than one". A leaf's width
bounds the size of one forward query. Csns that did not change the leaf's table cost nothing, so they never count:
an interval is stretched over them up to the next csn that would exceed the width. An interval holds at least one
csn with changes, since a csn can't be split.

Which leaf advances is chosen as in [Salem00 §3.4, Fig. 10]: the one that is furthest behind, so that the high-water
mark rises as early as the widths allow. When no leaf has a bound, all advance together in one step.

*Changes of one key in several tables are all paired,* as each pair stands for a moment of its own. Where a step covers
many changes of few keys, their product is bounded too (``paired_end``): two steps of half the length pair far less.

*Repeated, it reaches the target:* while a leaf is behind, the chosen one moves by at least one csn, none moves
back, and none moves beyond the target.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from headwater.algebra.plan import Plan, scans
from headwater.algebra.time import Csn, Interval
from headwater.errors import InternalError
from headwater.propagate.frontier import ChangeLog, Frontier

HARDLY_MORE = 3.0  # times that a row's changes are paired with each other in one step, whatever the tables' sizes


@dataclass(frozen=True, slots=True)
class Unlimited:
    pass


@dataclass(frozen=True, slots=True)
class ByCsn:
    """At most ``csns`` csns that changed the table."""

    csns: int

    def __post_init__(self) -> None:
        if self.csns < 1:
            raise InternalError(f"a width of {self.csns} csns would never advance")


@dataclass(frozen=True, slots=True)
class ByRows:
    """At most ``rows`` changed rows, but always at least one csn with changes."""

    rows: int

    def __post_init__(self) -> None:
        if self.rows < 1:
            raise InternalError(f"a width of {self.rows} rows would never advance")


Width: TypeAlias = Unlimited | ByCsn | ByRows


class SizedChangeLog(ChangeLog, Protocol):
    """A change log that also knows how much each csn changed."""

    def rows_by_csn(self, table: str, interval: Interval) -> Sequence[tuple[Csn, int]]:
        """(csn, changed rows) for each csn of the interval that changed the table, ascending by csn."""
        ...


def next_targets(
    plan: Plan, frontier: Frontier, target: Csn, widths: Sequence[Width], log: SizedChangeLog
) -> tuple[Csn, ...]:
    """The targets of the next step on the way to ``target``; the frontier's own times once every leaf is there."""
    found = list(scans(plan))
    if not len(found) == len(frontier.times) == len(widths):
        raise InternalError(
            f"a plan of {len(found)} leaves was given a frontier of {len(frontier.times)} and {len(widths)} widths"
        )
    if all(isinstance(width, Unlimited) for width in widths):
        return tuple(max(time, target) for time in frontier.times)
    times = list(frontier.times)
    behind = min(found, key=lambda scan: (times[scan.leaf], scan.leaf))
    if times[behind.leaf] < target:
        times[behind.leaf] = interval_end(behind.table, Interval(times[behind.leaf], target), widths[behind.leaf], log)
    return tuple(times)


def interval_end(table: str, available: Interval, width: Width, log: SizedChangeLog) -> Csn:
    """The end of the longest interval from ``available.start`` that keeps to the width."""
    match width:
        case Unlimited():
            return available.end
        case ByCsn(csns=limit):
            sizes = [(csn, 1) for csn, _ in log.rows_by_csn(table, available)]
        case ByRows(rows=limit):
            sizes = list(log.rows_by_csn(table, available))
    total = 0
    for position, (csn, size) in enumerate(sizes):
        total += size
        if position > 0 and total > limit:
            return Csn(csn - 1)
    return available.end


@dataclass(frozen=True, slots=True)
class Changing:
    """A leaf's table: its rows, and how many changed at each csn of an interval."""

    rows: int
    changed: Sequence[tuple[Csn, int]]


def paired_end(leaves: Sequence[Changing], target: Csn, most: int) -> Csn:
    """The end of the longest step that pairs about ``most`` changes with each other, or hardly more than rows.

    With c of a table's n rows changed, a row is met in 1 + c/n states on average, by those of every other table. Of the
    product of these, 1 are rows that did not change, and c/n of each table changes that meet such rows: these have to
    be computed however the steps are cut. One csn at least.
    """
    changed = [0] * len(leaves)
    by_csn: dict[Csn, list[tuple[int, int]]] = {}
    for place, leaf in enumerate(leaves):
        for csn, rows in leaf.changed:
            by_csn.setdefault(csn, []).append((place, rows))
    for position, csn in enumerate(sorted(by_csn)):
        for place, rows in by_csn[csn]:
            changed[place] += rows
        times = [count / max(1, leaf.rows) for count, leaf in zip(changed, leaves, strict=True)]
        paired = math.prod(1 + each for each in times) - 1 - sum(times)
        if position > 0 and paired > HARDLY_MORE and paired * max(leaf.rows for leaf in leaves) > most:
            return Csn(csn - 1)
    return target
