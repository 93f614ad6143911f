"""Give way to others on this machine: readers should not wait for whoever keeps the views fresh.

Spark on this machine is a process that we started, with threads that come and go; a thread has the priority of the one
that began it, so lowering all that there are lowers those to come.
"""

from __future__ import annotations

import os
from pathlib import Path

IDLE = 20
_PROCESSES = Path("/proc")


def give_way(niceness: int, *, also_self: bool = False) -> int:
    """Lower the priority of the processes below this one, to a niceness of 0 to 19; how many threads there were.

    ``IDLE``, one more, lets them run when nobody else wants to. Even at 19 a thread that runs is not always put off as
    soon as another wakes up; an idle one is. Only Linux tells which processes and threads there are; elsewhere, and on
    a cluster, nothing happens.
    """
    lowered = 0
    for process in [*_below(os.getpid()), *([os.getpid()] if also_self else [])]:
        for thread in _numbers(_PROCESSES / str(process) / "task"):
            try:
                if niceness >= IDLE:
                    os.sched_setscheduler(thread, os.SCHED_IDLE, os.sched_param(0))
                else:
                    os.setpriority(os.PRIO_PROCESS, thread, niceness)
                lowered += 1
            except OSError:  # it has ended meanwhile
                continue
    return lowered


def _below(parent: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for process in _numbers(_PROCESSES):
        try:
            told = (_PROCESSES / str(process) / "stat").read_text()
        except OSError:
            continue
        children.setdefault(int(told.rpartition(")")[2].split()[1]), []).append(process)
    found, waiting = [], [parent]
    while waiting:
        own = children.get(waiting.pop(), [])
        found += own
        waiting += own
    return found


def _numbers(folder: Path) -> list[int]:
    try:
        return [int(each.name) for each in folder.iterdir() if each.name.isdigit()]
    except OSError:
        return []
