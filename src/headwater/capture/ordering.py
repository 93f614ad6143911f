"""One total order from many tables' histories.

Each table's commits come in its own order; the lake's order is a merge of these that respects (1) every table's own
order and (2) time: a write to A that had finished before a write to B began is never numbered after it.

*The horizon.* Capture takes a horizon h (now less the allowed clock skew) **before** it looks at any table and numbers
only commits with a timestamp <= h. If B's commit is numbered in this round, then B began before h. A write to A that
finished before that was visible before we looked, so it is numbered in this round or an earlier one; within the round
the order by timestamp puts it first. A commit stamped before h that becomes visible only after we looked can't have
finished before anything numbered now began, so numbering it in a later round breaks nothing.

*Units of work over several tables.* Commits may carry a tag. Those with one tag become one unit of work: one csn. A tag
may say how many commits it has; then the unit waits (and what follows it in these tables waits with it) until all are
there, at most until the commit is ``patience`` old. Tags that cross each other (A: x, y; B: y, x) can't both be one
unit; the later is then taken apart.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

TAG = "headwater_unit_of_work"
SIZE = "headwater_unit_size"


@dataclass(frozen=True, slots=True)
class SeenCommit:
    table: str
    version: int
    timestamp: int
    operation: str
    rows: int | None
    tag: str | None = None
    size: int | None = None


def tag_of(metadata: str | None) -> tuple[str | None, int | None]:
    """The unit of work that a commit's user metadata declares: (tag, number of commits if told)."""
    if not metadata or TAG not in metadata:
        return None, None
    try:
        found = json.loads(metadata)
    except ValueError:
        return None, None
    if not isinstance(found, dict) or not isinstance(found.get(TAG), str):
        return None, None
    size = found.get(SIZE)
    return found[TAG], size if isinstance(size, int) and size > 0 else None


def unit_of_work_metadata(tag: str, size: int) -> str:
    """The commit metadata that declares ``size`` commits one unit of work."""
    return json.dumps({TAG: tag, SIZE: size})


def order(
    histories: Mapping[str, Sequence[SeenCommit]], horizon: int, *, patience: int
) -> list[tuple[SeenCommit, ...]]:
    """The units of work to number now, in order. Times are microseconds."""
    # Up to the first commit beyond the horizon: one after it with an earlier stamp must not go before it.
    queues = {
        table: list(takewhile(lambda c: c.timestamp <= horizon, commits))
        for table, commits in sorted(histories.items())
    }
    members: dict[str, list[SeenCommit]] = {}
    for queue in queues.values():
        for commit in queue:
            if commit.tag is not None:
                members.setdefault(commit.tag, []).append(commit)
    apart: set[str] = set()
    ordered: list[tuple[SeenCommit, ...]] = []
    while True:
        heads = [queue[0] for queue in queues.values() if queue]
        if not heads:
            return ordered
        ready = [unit for unit in (_unit(head, members, apart, queues) for head in heads) if unit is not None]
        ready = [unit for unit in ready if unit[0].tag in apart or not _waits(unit, horizon, patience)]
        if not ready:
            blocked = [
                head for head in heads if head.tag is not None and _is_crossed(head, members, apart, horizon, patience)
            ]
            if not blocked:
                return ordered  # what is left waits for the rest of its unit
            apart.add(str(max(blocked, key=_when).tag))
            continue
        unit = min(ready, key=lambda unit: (max(c.timestamp for c in unit), unit[0].table, unit[0].version))
        for commit in unit:
            queues[commit.table].remove(commit)
        ordered.append(unit)


def _when(commit: SeenCommit) -> tuple[int, str, int]:
    return commit.timestamp, commit.table, commit.version


def _unit(
    head: SeenCommit,
    members: Mapping[str, list[SeenCommit]],
    apart: set[str],
    queues: Mapping[str, list[SeenCommit]],
) -> tuple[SeenCommit, ...] | None:
    """The unit that begins with this head, if all its commits can go now."""
    if head.tag is None or head.tag in apart:
        return (head,)
    unit = members[head.tag]
    # Several commits of one table may be in a unit, if nothing of that table stands between them.
    for table in {commit.table for commit in unit}:
        own = [commit for commit in unit if commit.table == table]
        if queues[table][: len(own)] != own:
            return None
    return tuple(unit)


def _waits(unit: tuple[SeenCommit, ...], horizon: int, patience: int) -> bool:
    size = max((commit.size or 0 for commit in unit), default=0)
    return len(unit) < size and max(commit.timestamp for commit in unit) > horizon - patience


def _is_crossed(
    head: SeenCommit, members: Mapping[str, list[SeenCommit]], apart: set[str], horizon: int, patience: int
) -> bool:
    return head.tag not in apart and not _waits(tuple(members[str(head.tag)]), horizon, patience)
