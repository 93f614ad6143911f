"""The helper itself: a test run that is killed must not leave a server behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

SCRIPT = """
import time
from tests.postgres_server import running_postgres
with running_postgres() as server:
    print(server.directory, flush=True)
    time.sleep(600)
"""


def test_the_server_of_a_killed_process_goes_with_it() -> None:
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    with subprocess.Popen([sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, text=True, env=environment) as owner:
        assert owner.stdout is not None
        directory = Path(owner.stdout.readline().strip())
        assert (directory / "data" / "postmaster.pid").exists()
        server = int((directory / "data" / "postmaster.pid").read_text().split()[0])
        owner.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 60
    while directory.exists() or Path(f"/proc/{server}/root").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
