"""A reader in a process of its own: ``python -m headwater.bench.mauve.reader LAKE SECONDS PACE``.

It opens snapshots of the newest release, one after another, and in each compares what must agree at any one moment; it
knows nothing of what else goes on. DuckDB reads the Delta versions that the snapshot tells, so no Spark is started. It
prints one JSON document: how long each snapshot took, what did not agree, what failed.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import duckdb

from headwater.lake import connect
from headwater.serve.snapshots import Snapshot

NAMES = ("r", "s", "v", "buckets", "pairs_of_r", "above")
# Each gives two numbers that are equal at every moment, and differ when two names are of two moments.
AGREEMENTS = {
    "two views over one table": "SELECT (SELECT sum(n) FROM buckets), (SELECT count(*) FROM pairs_of_r)",
    "a view and its table": "SELECT (SELECT sum(n) FROM buckets), (SELECT count(*) FROM r)",
    "a view and its recomputation": "SELECT (SELECT count(*) || '/' || coalesce(sum(r_key), 0) FROM v), "
    "(SELECT count(*) || '/' || coalesce(sum(r.key), 0) FROM r JOIN s ON r.a = s.a)",
    "a view on a view": "SELECT (SELECT coalesce(sum(n), 0) FROM above), (SELECT count(*) FROM v)",
}


def connection() -> duckdb.DuckDBPyConnection:
    """DuckDB with its extension for Delta tables, from a package if that is installed, else from DuckDB's own site."""
    found = duckdb.connect()
    found.execute("SET threads = 1")
    package = importlib.util.find_spec("duckdb_extension_delta")
    places = [] if package is None else package.submodule_search_locations or []
    file = next((file for place in places for file in Path(place).rglob("delta.duckdb_extension")), None)
    if file is None:
        found.execute("INSTALL delta")
    found.execute("LOAD delta" if file is None else f"LOAD '{file}'")
    return found


def read(database: duckdb.DuckDBPyConnection, snapshot: Snapshot[Any]) -> list[str]:
    """The agreements that do not hold in a snapshot."""
    for name, version in snapshot.versions(NAMES).items():
        database.execute(f'CREATE OR REPLACE TEMP VIEW "{name}" AS {version.duckdb_sql()}')
    broken = []
    for what, text in AGREEMENTS.items():
        one, other = database.execute(text).fetchall()[0]
        if str(one) != str(other):
            broken.append(f"csn {snapshot.csn}: {what}: {one} and {other}")
    return broken


def main(location: str, seconds: float, pace: float) -> dict[str, Any]:
    """For so many seconds, a snapshot every ``pace`` seconds or as often as it can."""
    latencies: list[float] = []
    violations: list[str] = []
    errors: list[str] = []
    csns: set[int] = set()
    database = connection()
    end = time.monotonic() + seconds
    with connect(location, create=False) as lake:
        while (began := time.monotonic()) < end:
            try:
                with lake.snapshot(ttl=30) as snapshot:
                    violations += read(database, snapshot)
                    csns.add(snapshot.csn)
                latencies.append(time.monotonic() - began)
            except Exception:  # noqa: BLE001 (whatever it is, a reader should not have met it)
                errors.append(traceback.format_exc())
            time.sleep(max(0.0, pace - (time.monotonic() - began)))
    return {"latencies": latencies, "violations": violations, "errors": errors, "csns": sorted(csns)}


if __name__ == "__main__":
    json.dump(main(sys.argv[1], float(sys.argv[2]), float(sys.argv[3])), sys.stdout)
