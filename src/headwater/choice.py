"""What a refresh would cost in each way, and which way to go.

The work of a way is the rows that must be gone through, in the linear metric of [Lee01 §3]: a join reads each of its
inputs once. From scratch that is every table. For a change, each changed input of a block meets all the others; a
node reads the rows of its touched keys, for which its tables are gone through once, or nothing at all where the view
carries its totals or its first rows; a node without keys is computed anew at every csn, but the first rows of an order
from a few rows of its state.

Seconds follow from the work: what the view took from scratch (measured whenever that happens) says what a row costs,
and every incremental refresh says by how much its prediction was off, which corrects the next one of about that size.
What was never tried is tried, unless it looks hopeless: files that are left out, and changes that come to nothing, show
only then, and a recomputation, which gives up the view's past, wants better grounds than a guess. The guess is better
where other views of the lake tell by how much predictions are off on this machine. The first refresh of a view in a
process is cold: Spark compiles all of its statements. Cold ones are judged by cold ones; for later ones they are a
guess from above.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from headwater.algebra.nodes import Aggregate, Node, Nodes, Top, adds_up, all_scans, scans_below
from headwater.algebra.plan import Plan, scans

INCREMENTAL, TOUCHED_KEYS, FULL = "incremental", "touched-keys", "full"
# Seconds that a statement or a commit takes whatever its size, measured on two cores; a correction learns the rest.
COMMIT_SECONDS = 1.0
STATEMENT_SECONDS = 0.5
# A scan that a few broadcast rows go through costs this part of a row that is shuffled, joined or grouped.
SCAN_SHARE = 0.4
# A change of more rows than this is no longer sent to every task of a scan.
BROADCAST_ROWS = 100_000
# A way must be this much cheaper than the incremental one before the past of the view is given up for it.
ADVANTAGE = 0.9
# The incremental way is tried first unless it is expected to take this many times as long; and this many where the
# expectation is corrected by other refreshes than such of this view.
HOPELESS, UNLIKELY = 4.0, 3.0
_RECENT = 6  # incremental refreshes that a correction looks at


@dataclass(frozen=True, slots=True)
class Sample:
    """An earlier refresh: what was predicted for its way, before correction, for how many rows, and what it took.

    ``cold``: it was the first one by changes of its view in its process.
    """

    mode: str
    predicted: float | None
    seconds: float
    changed: int = 0
    cold: bool = False


@dataclass(frozen=True, slots=True)
class Choice:
    """``seconds`` predicts every way that there is; ``predicted`` is the same without the correction.

    ``changed`` is how many rows of the tables changed; ``cold`` as in ``Sample``.
    """

    way: str
    seconds: Mapping[str, float]
    predicted: Mapping[str, float]
    changed: int
    cold: bool = False

    def as_json(self) -> dict[str, object]:
        return {
            "chosen": self.way,
            "seconds": {way: round(value, 3) for way, value in self.seconds.items()},
            "predicted": {way: round(value, 3) for way, value in self.predicted.items()},
            "changed": self.changed,
            "cold": self.cold,
        }


@dataclass(frozen=True, slots=True)
class Work:
    """Rows to go through, and statements to run for it."""

    rows: float
    statements: int

    def __add__(self, other: Work) -> Work:
        return Work(self.rows + other.rows, self.statements + other.statements)


NOTHING = Work(0, 0)


class Workload:
    """A view's plan with the sizes of its tables and of their changes."""

    def __init__(
        self, plan: Plan, nodes: Nodes, rows: Callable[[str], int], changed: Mapping[str, int], versions: int
    ) -> None:
        self._plan = plan
        self._nodes = nodes
        self._rows = rows
        self._changed = changed
        self._versions = versions

    @property
    def changed(self) -> int:
        return sum(self._changed.values())

    def from_scratch(self) -> float:
        return self._all_rows(self._plan)

    def of_the_change(self) -> Work:
        found = self._block(self._plan)
        for node in self._nodes.values():
            if self._touches(node):
                found += self._node(node)
        return found

    def adds_up(self) -> bool:
        """Whether no changed node needs the rows of its keys."""
        return adds_up(node for node in self._nodes.values() if self._touches(node))

    def _all_rows(self, plan: Plan) -> float:
        return float(sum(self._rows(scan.table) for scan in all_scans(plan, self._nodes)))

    def _changes(self, name: str) -> int:
        """Changed rows of a table; of a node, as many as all its tables have, which is a guess from above."""
        if name not in self._nodes:
            return self._changed.get(name, 0)
        below = {scan.table for scan in scans_below(name, self._nodes)}
        return sum(self._changed.get(table, 0) for table in below)

    def _touches(self, node: Node) -> bool:
        return any(self._changes(scan.table) for plan in node.inputs for scan in scans(plan))

    def _block(self, plan: Plan) -> Work:
        """Every changed input meets all the others."""
        found = list(scans(plan))
        rows = {scan.leaf: self._state_rows(scan.table) for scan in found}
        changed = [scan for scan in found if self._changes(scan.table)]
        work = 0.0
        for scan in changed:
            changes = self._changes(scan.table)
            share = SCAN_SHARE if changes <= BROADCAST_ROWS else 1.0
            work += share * (sum(rows.values()) - rows[scan.leaf]) + changes * len(found)
        return Work(work, len(changed))

    def _state_rows(self, name: str) -> float:
        if name not in self._nodes:
            return float(self._rows(name))
        return sum(self._all_rows(plan) for plan in self._nodes[name].inputs)

    def _node(self, node: Node) -> Work:
        found = NOTHING
        for plan in node.inputs:
            found += self._block(plan)
        state = sum(self._all_rows(plan) for plan in node.inputs)
        match node:
            case Aggregate(carried=True) | Top(carried=True):
                state = 0.0
            case Top():
                pass
            case Aggregate(sums=sums) if sums is not None or node.keys:
                state *= SCAN_SHARE
            case _ if node.key(0):
                state *= SCAN_SHARE
            case _:
                state *= 1 + self._versions
        return found + Work(state, 1)


def choose(
    workload: Workload, samples: Sequence[Sample], *, cold: bool = False, others: Sequence[Sample] = ()
) -> Choice | None:
    """The cheapest way by what is known; None while it is not known what the view takes from scratch.

    ``samples`` are refreshes of the view, ``others`` of other views, newest first; ``cold``: whether going by the
    changes would be a cold one.
    """
    full = [sample.seconds for sample in samples if sample.mode == FULL][:3]
    if not full:
        return None
    from_scratch = sorted(full)[len(full) // 2]
    a_row = max(from_scratch - COMMIT_SECONDS, 0.1 * from_scratch) / max(1.0, workload.from_scratch())
    work = workload.of_the_change()
    predicted = 2 * COMMIT_SECONDS + STATEMENT_SECONDS * work.statements + a_row * work.rows
    way = INCREMENTAL if workload.adds_up() else TOUCHED_KEYS
    alike = _correction([sample for sample in samples if sample.cold == cold], workload.changed)
    guesses = [_correction(samples, workload.changed)]
    guesses += [_correction([each for each in others if not each.cold], workload.changed)] if not cold else []
    guess = min((each for each in guesses if each is not None), default=None)
    seconds = {way: predicted * (alike or guess or 1.0), FULL: from_scratch}
    limit = ADVANTAGE if alike is not None else 1 / (HOPELESS if guess is None else UNLIKELY)
    chosen = FULL if seconds[FULL] < limit * seconds[way] else way
    return Choice(chosen, seconds, {way: predicted, FULL: from_scratch}, workload.changed, cold)


def _correction(samples: Sequence[Sample], changed: int) -> float | None:
    """By how much the last predictions were off, as a factor; those for changes of about this size count most.

    None if there were none.
    """
    known = [
        (sample.seconds / sample.predicted, 1 / _apart(sample.changed, changed))
        for sample in samples
        if sample.mode == INCREMENTAL and sample.predicted is not None and sample.predicted > 0
    ][:_RECENT]
    if not known:
        return None
    logarithm = sum(math.log(max(off, 1e-3)) * weight for off, weight in known) / sum(weight for _, weight in known)
    return min(10.0, max(0.1, math.exp(logarithm)))


def _apart(one: int, other: int) -> float:
    """How many times as large the larger of two changes is."""
    return max(one + 1, other + 1) / min(one + 1, other + 1)
