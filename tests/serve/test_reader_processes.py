"""Eight reader processes on DuckDB beside a writer, releases and garbage collection that take real files away."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("duckdb")
pytest.importorskip("deltalake")

from tests.serve.delta_rs_lake import DeltaRsLake

READERS = 8
SNAPSHOTS = 4


def files(lake: DeltaRsLake) -> set[Path]:
    return {path for name in ("rows", "counts") for path in (lake.folder / name).glob("*.parquet")}


def test_readers_never_see_two_moments_and_never_fail(tmp_path: Path) -> None:
    start = time.time()
    lake = DeltaRsLake(tmp_path, start)
    lake.release()
    command = [sys.executable, "-m", "tests.serve.delta_rs_lake", str(tmp_path), str(start), str(SNAPSHOTS)]
    readers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(READERS)]
    collections, taken = 0, 0
    try:
        while any(reader.poll() is None for reader in readers):
            for _ in range(2):
                lake.write()
            lake.release()
            before = files(lake)
            lake.collect()
            taken += len(before - files(lake))
            collections += 1
    finally:
        answers = [reader.communicate(timeout=60)[0] for reader in readers]
        lake.catalog.close()
    found = [json.loads(answer) for answer in answers]
    assert [each["violations"] for each in found] == [[]] * READERS
    assert [each["errors"] for each in found] == [[]] * READERS
    assert len({csn for each in found for csn in each["csns"]}) > 1
    assert collections > 1
    assert taken > 0
