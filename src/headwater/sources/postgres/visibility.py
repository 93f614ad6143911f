"""Which transactions a query saw, and so at what time it ran.

A live table shows only its present. A query in a REPEATABLE READ transaction sees one snapshot, and
``pg_current_snapshot()``, asked in that same transaction, tells which: ``xmin:xmax:xip,xip,...``. Transactions
numbered before xmin had all finished, from xmax on none had, and between the two the listed ones were running.
So a transaction that is **known to have committed**, because the log has it, is in the answer exactly when

    xid < xmin,  or  xid < xmax and xid is not listed.

*Why not a place in the log.* A transaction writes its commit to the log first and becomes visible afterwards; in
between others may overtake it. The visible set is then no prefix of the commit order, and no LSN describes it.

*Against the log.* The log has this source's units of work as (csn, xid) in the order of their commits. With V the
visible ones:

- the **execution time** is the largest csn at or before which every unit is in V;
- units of V beyond it are **interfering**: the answer holds them, the state at that time does not;
- against a frontier τ, units of V after τ are interfering and units at or before τ that are not in V are **missing**.

The state read is  S = R(0) + Σ_{u ∈ V} u,  and  R(τ) = R(0) + Σ_{csn(u) <= τ} u.  The units in one sum and not in the
other are just these two sets, hence

    R(τ) = S − Σ interfering + Σ missing,

the two cases of [SzeLing00 §5, Lemma 1], for transactions instead of version numbers: there the state that was read
always is a prefix, so only one of the two sets has members. At the execution time nothing is missing, by its
definition.

*What must be known.* V is computed over the log that has been captured. It is all of V once capture has passed the
place at which the log ended when the snapshot was taken (``Covered``): whatever was visible had written its commit
before.

*Beyond the snapshot.* The rule needs a commit in the log: a transaction that was rolled back is "visible" by the
numbers too, and does no harm, because it is in no log. Subtransactions are logged under their parent's number, and are
visible when it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from headwater.algebra.time import Csn
from headwater.errors import InternalError
from headwater.sources.postgres.positions import Lsn, Xid

_SNAPSHOT = re.compile(r"(\d+):(\d+):((?:\d+(?:,\d+)*)?)")


@dataclass(frozen=True, slots=True)
class TransactionSnapshot:
    xmin: Xid
    xmax: Xid
    running: frozenset[Xid]

    def __post_init__(self) -> None:
        if self.xmin > self.xmax or any(not self.xmin <= xid < self.xmax for xid in self.running):
            raise ValueError(f"{self} is not a snapshot")

    @classmethod
    def parse(cls, text: str) -> TransactionSnapshot:
        """From ``pg_current_snapshot()::text``."""
        found = _SNAPSHOT.fullmatch(text)
        if found is None:
            raise ValueError(f"{text!r} is not a snapshot")
        running = (Xid(int(xid)) for xid in found[3].split(",") if xid)
        return cls(Xid(int(found[1])), Xid(int(found[2])), frozenset(running))

    def __str__(self) -> str:
        return f"{self.xmin}:{self.xmax}:{','.join(map(str, sorted(self.running)))}"

    def sees(self, xid: Xid) -> bool:
        """Whether the effect of a committed transaction is in what this snapshot shows."""
        return xid < self.xmin or (xid < self.xmax and xid not in self.running)

    def finished_before(self, fence: Xid) -> bool:
        """Whether every transaction with a smaller number was finished."""
        return self.xmin >= fence


@dataclass(frozen=True, slots=True)
class LoggedUnit:
    csn: Csn
    xid: Xid


@dataclass(frozen=True, slots=True)
class Difference:
    """How a state that was read differs from the state at ``frontier``: undo the one, redo the other."""

    frontier: Csn
    interfering: tuple[LoggedUnit, ...]
    missing: tuple[LoggedUnit, ...]

    @property
    def is_empty(self) -> bool:
        return not self.interfering and not self.missing


@dataclass(frozen=True, slots=True)
class Covered:
    """How far a query needs the log: up to where it ended after the query's snapshot was taken."""

    log_end: Lsn

    def by(self, captured: Lsn) -> bool:
        return captured >= self.log_end


def execution_time(log: Sequence[LoggedUnit], snapshot: TransactionSnapshot, newest: Csn) -> Csn:
    """The largest csn up to ``newest`` at or before which every unit of this source is visible.

    ``log`` is what is captured of the source, by csn. Csns of other sources in between say nothing about this one, so
    the time may lie on one of them. What came before ``log`` begins must be visible: cut it off only behind a
    frontier.
    """
    _in_order(log, newest)
    first_invisible = next((unit for unit in log if not snapshot.sees(unit.xid)), None)
    return newest if first_invisible is None else Csn(first_invisible.csn - 1)


def difference(log: Iterable[LoggedUnit], snapshot: TransactionSnapshot, frontier: Csn) -> Difference:
    """What to undo and what to redo to get from the state that ``snapshot`` shows to the state at ``frontier``."""
    interfering, missing = [], []
    for unit in log:
        visible = snapshot.sees(unit.xid)
        if visible and unit.csn > frontier:
            interfering.append(unit)
        elif not visible and unit.csn <= frontier:
            missing.append(unit)
    return Difference(frontier, tuple(interfering), tuple(missing))


def _in_order(log: Sequence[LoggedUnit], newest: Csn) -> None:
    for before, after in pairwise(log):
        if after.csn <= before.csn:
            raise InternalError(f"the log has csn {after.csn} after csn {before.csn}")
    if log and log[-1].csn > newest:
        raise InternalError(f"the log goes to csn {log[-1].csn}, beyond the newest csn {newest}")
