"""Giving way to others on the machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.engine import priority
from headwater.engine.priority import IDLE, give_way

# A process with a thread of its own, which starts another when told to.
CHILD = """
import os, sys, threading, time
def nap():
    time.sleep(60)
threading.Thread(target=nap, daemon=True).start()
print("ready", flush=True)
sys.stdin.readline()
threading.Thread(target=nap, daemon=True).start()
tasks = [int(task) for task in os.listdir("/proc/self/task")]
print(*sorted(os.getpriority(os.PRIO_PROCESS, task) for task in tasks), flush=True)
print(*(os.sched_getscheduler(task) == os.SCHED_IDLE for task in tasks), flush=True)
"""


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="only Linux tells which threads there are")
@pytest.mark.parametrize("idle", [False, True])
def test_processes_below_give_way_with_all_their_threads_and_this_one_does_not(idle: bool) -> None:
    own = os.getpriority(os.PRIO_PROCESS, 0)
    lower = own if idle else min(19, own + 5)
    child = subprocess.Popen([sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        assert child.stdout.readline() == "ready\n"
        assert give_way(IDLE if idle else lower) >= 2
        child.stdin.write("go\n")
        child.stdin.flush()
        assert child.stdout.readline().split() == [str(lower)] * 3
        assert child.stdout.readline().split() == [str(idle)] * 3
        assert os.getpriority(os.PRIO_PROCESS, 0) == own
        assert os.sched_getscheduler(0) == os.SCHED_OTHER
    finally:
        child.kill()
        child.communicate()


def test_where_nobody_tells_which_processes_there_are_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(priority, "_PROCESSES", Path("/nowhere"))
    assert give_way(19, also_self=True) == 0
