"""Which process holds a lease, and whether it is still alive.

A process id alone can't tell: ids are reused, two machines may have one name, and two containers of one machine
have ids of their own. A process is therefore known by the boot of its machine, its pid namespace, its pid and
the moment it started. It is called dead only when all that is comparable with our own and the kernel no longer
knows it; in any doubt it is called alive, and its lease must run out.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from pathlib import Path

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACE = Path("/proc/self/ns/pid")


@dataclass(frozen=True, slots=True)
class Process:
    """``identity`` is ``boot/namespace/start``, or empty where the system does not tell."""

    host: str
    pid: int
    identity: str

    @classmethod
    def current(cls) -> Process:
        pid = os.getpid()
        started = _start_time(pid)
        place = _place()
        return cls(socket.gethostname(), pid, f"{place}/{started}" if place and started else "")

    def is_certainly_dead(self) -> bool:
        place, _, started = self.identity.rpartition("/")
        if not place or place != _place():
            return False
        return _start_time(self.pid) != started


def _place() -> str:
    try:
        return f"{_BOOT.read_text().strip()}/{_NAMESPACE.readlink()}"
    except OSError:
        return ""


def _start_time(pid: int) -> str | None:
    """When the live process ``pid`` started, in ticks since boot; None when there is none (or only its zombie)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The name, in parentheses, may itself hold spaces and parentheses.
    fields = stat[stat.rindex(")") + 2 :].split()
    return None if fields[0] in ("Z", "X") else fields[19]
