"""Runs one function in a process of its own with a session on a cluster or a Connect server.

A process can hold one kind of Spark session only (pyspark decides once whether its functions are classic or Connect
ones), and the test run's own is local. So: ``python -m tests.support.runner KIND URL package.module:function FOLDER``,
which calls ``function(session, Path(FOLDER))``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
_SETTINGS = "HEADWATER_TEST_SETTINGS"


def run_in_process(
    kind: str, url: str, target: str, folder: Path, *, settings: Mapping[str, str] | None = None, timeout: float = 600
) -> str:
    """What the function printed; fails with its output if it raised."""
    command = [sys.executable, "-m", "tests.support.runner", kind, url, target, str(folder)]
    environment = os.environ | {_SETTINGS: json.dumps(dict(settings or {}))}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=timeout, check=False
    )
    if done.returncode != 0:
        raise AssertionError(f"{target} on {url} failed:\n{done.stdout[-4000:]}\n{done.stderr[-8000:]}")
    return done.stdout


def open_session(kind: str, url: str, folder: Path, settings: Mapping[str, str]) -> Any:
    match kind:
        case "connect":
            from pyspark.sql import SparkSession

            return SparkSession.builder.remote(url).create()
        case "cluster":
            from headwater.engine.session import local_session

            warehouse = {"spark.sql.warehouse.dir": str(folder / "warehouse")}
            return local_session("headwater-tests", master=url, extra=warehouse | dict(settings))
        case _:
            raise ValueError(kind)


def main(kind: str, url: str, target: str, folder: str) -> None:
    module, _, function = target.partition(":")
    session = open_session(kind, url, Path(folder), json.loads(os.environ.get(_SETTINGS, "{}")))
    try:
        getattr(import_module(module), function)(session, Path(folder))
    finally:
        session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
