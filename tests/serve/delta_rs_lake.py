"""A lake of real Delta tables, written by delta-rs instead of Spark: small, quick, and read by processes of their own.

Its clock runs 3,600 times as fast as ours, so that an hour, the least that VACUUM retains, is a second. Table ``r`` is
written anew at random; view ``rows`` holds its rows and view ``counts`` how many each key has.
"""

from __future__ import annotations

import json
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import deltalake
import pyarrow

from headwater.algebra.plan import LeafId
from headwater.algebra.time import Csn
from headwater.catalog import BaseTable, Commit, LeafRecord, LeafTime, ViewRecord, open_catalog
from headwater.catalog.database import Clock
from headwater.lake import connect
from headwater.serve.garbage import Collected, collect
from headwater.serve.releases import Released, release

SPEED = 3600
GRACE = 2_000_000 * SPEED  # more than any statement here takes, as a collection asks for
VIEWS = {"rows": (("k", "bigint"), ("v", "bigint")), "counts": (("k", "bigint"), ("n", "bigint"))}
AGREE = "SELECT (SELECT count(*) FROM r), (SELECT count(*) FROM rows), (SELECT coalesce(sum(n), 0) FROM counts)"


def fast_clock(start: float) -> Clock:
    return lambda: fast(time.time(), start)


def fast(moment: float, start: float) -> int:
    return round((start + (moment - start) * SPEED) * 1e6)


class DeltaRsLake:
    def __init__(self, folder: Path, start: float, seed: int = 0) -> None:
        self.folder, self.start, self.rng = folder, start, random.Random(seed)
        self.clock = fast_clock(start)
        self.catalog = open_catalog(f"sqlite:///{folder / 'catalog.db'}", clock=self.clock, create=True)
        self.states: list[Counter[tuple[int, int]]] = []  # of r, by version
        self.uncaptured: list[int] = []
        self.write()
        self.uncaptured.clear()
        with self.catalog.lease("t") as lease:
            columns = (("k", "bigint"), ("v", "bigint"))
            table = BaseTable("r", str(folder / "r"), "u", columns, "versioned", Csn(0), 0, 0, self.clock())
            self.catalog.add_base_table(lease, table)
        for name in VIEWS:
            self._create(name)

    # ------------------------------------------------------------------ writers and drivers

    def write(self) -> None:
        state = Counter((self.rng.randrange(5), self.rng.randrange(3)) for _ in range(self.rng.randrange(1, 30)))
        self._store("r", [row for row, count in state.items() for _ in range(count)], ["k", "v"])
        self.states.append(state)
        self.uncaptured.append(len(self.states) - 1)

    def capture(self) -> Csn:
        with self.catalog.lease("capture") as lease:
            units = [[Commit("r", version, self.clock(), "WRITE")] for version in self.uncaptured]
            self.catalog.number_units(lease, units)
        self.uncaptured.clear()
        return self.catalog.newest_csn()

    def round(self, views: Sequence[str], to: Csn) -> AbstractContextManager[None]:
        return nullcontext()

    def refresh(self, view: str, to: Csn) -> None:
        record = self.catalog.view(view)
        if to == record.csn:
            return
        with self.catalog.lease(f"apply:{record.view_id}", wait=60) as lease:
            before, after = self.content(view, record.csn), self.content(view, to)
            change = Counter(after)
            change.subtract(before)
            names = ["__hw_csn", "__hw_count", *(name for name, _ in VIEWS[view])]
            rows = [(int(to), count, *row) for row, count in change.items() if count]
            self._store(Path(record.delta_location).name, rows, names, mode="append")
            step = self.catalog.begin_step(lease, record.view_id, "propagate", {})
            self.catalog.finish_propagate(lease, step.step_id, [LeafTime(LeafId(0), to, to)])
            step = self.catalog.begin_step(lease, record.view_id, "apply", {"from": record.csn, "to": to})
            version = self._store_view(view, to)
            self.catalog.finish_apply(lease, step.step_id, csn=to, version=version)

    def release(self) -> Released:
        return release(self.catalog, self, wait=60)

    def collect(self) -> Collected:
        return collect(self.catalog, self, clock=self.clock, grace=GRACE, wait=60, patience=5)

    def content(self, view: str, csn: int) -> Counter[tuple[int, ...]]:
        state = self.states[csn]
        if view == "rows":
            return Counter(dict(state.items()))
        found: Counter[int] = Counter()
        for (key, _), count in state.items():
            found[key] += count
        return Counter(dict.fromkeys(found.items(), 1))

    def _create(self, name: str) -> None:
        csn = self.catalog.newest_csn()
        version = self._store_view(name, csn)
        names = ["__hw_csn", "__hw_count", *(column for column, _ in VIEWS[name])]
        self._store(f"{name}_delta", [], names)
        view = ViewRecord(
            name=name,
            view_id=f"{name}-id",
            sql="",
            definition={"tables": {}, "settings": {}},
            columns=VIEWS[name],
            options={},
            cluster_by=(),
            location=str(self.folder / name),
            delta_location=str(self.folder / f"{name}_delta"),
            created_csn=csn,
            csn=csn,
            version=version,
            kept_from=csn,
            method="frontier",
            created_at=self.clock(),
        )
        with self.catalog.lease("t") as lease:
            self.catalog.insert_view(lease, view, [LeafRecord(LeafId(0), "r", "r", csn, csn)])

    def _store_view(self, name: str, csn: int) -> int:
        rows = [(count, *row) for row, count in self.content(name, csn).items()]
        return self._store(name, rows, ["__hw_count", *(column for column, _ in VIEWS[name])])

    def _store(self, name: str, rows: list[tuple[int, ...]], names: list[str], mode: str = "overwrite") -> int:
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(names)
        types = pyarrow.schema([(column, pyarrow.int64()) for column in names])
        table = pyarrow.table([pyarrow.array(values, pyarrow.int64()) for values in columns], schema=types)
        deltalake.write_deltalake(str(self.folder / name), table, mode=mode)  # type: ignore[call-overload]
        return self.newest_version(str(self.folder / name))

    # ------------------------------------------------------------------ the sweeper

    def newest_version(self, location: str) -> int:
        return int(deltalake.DeltaTable(location).version())

    def run(self, text: str, doing: str) -> None:
        where = re.search(r"delta\.`(.*?)`", text)
        assert where is not None
        if text.startswith("DELETE"):
            deltalake.DeltaTable(where[1]).delete(text.split(" WHERE ")[1].replace("`", '"'))
        elif text.startswith("VACUUM"):
            hours = re.search(r"RETAIN (\d+) HOURS", text)
            assert hours is not None
            self._vacuum(Path(where[1]), time.time() - int(hours[1]))

    def _vacuum(self, table: Path, before: float) -> None:
        removed: dict[str, float] = {}
        for log in sorted((table / "_delta_log").glob("*.json")):
            for line in log.read_text().splitlines():
                action = json.loads(line)
                if "remove" in action:
                    removed[action["remove"]["path"]] = action["remove"]["deletionTimestamp"] / 1000
        for name, at in removed.items():
            if at < before:
                (table / name).unlink(missing_ok=True)

    def committed_at(self, location: str, version: int) -> int | None:
        commits = {each["version"]: each["timestamp"] / 1000 for each in deltalake.DeltaTable(location).history()}
        return fast(commits[version], self.start) if version in commits else None

    def standing_at(self, location: str, moment: int) -> int | None:
        return None

    def log_since(self, location: str) -> int:
        return self.clock()

    def last_trimmed(self, location: str) -> int | None:
        return None

    def keeps_all(self, location: str) -> bool:
        return True

    def compact(self, location: str) -> None:
        if self.newest_version(location) % 5 == 0:
            deltalake.DeltaTable(location).optimize.compact()

    def remove_past_deltas(self, view: ViewRecord, kept: Collection[str]) -> None:
        pass


def read_in_process(location: str, start: float, times: int) -> dict[str, Any]:
    """A reader: snapshots one after another, each read twice with a while between."""
    import traceback

    from headwater.bench.mauve.reader import connection

    database = connection()
    violations, errors, csns = [], [], set()
    with connect(location, create=False, clock=fast_clock(start)) as lake:
        for _ in range(times):
            try:
                with lake.snapshot(ttl=30 * SPEED) as snapshot:
                    seen = []
                    for pause in (0.3, 0.0):
                        for name, version in snapshot.versions(["r", *VIEWS]).items():
                            database.execute(f'CREATE OR REPLACE TEMP VIEW "{name}" AS {version.duckdb_sql()}')
                        seen.append(database.execute(AGREE).fetchall()[0])
                        time.sleep(pause)
                    csns.add(snapshot.csn)
                    if len({int(each) for answer in seen for each in answer}) != 1:
                        violations.append(f"csn {snapshot.csn}: {seen}")
            except Exception:  # noqa: BLE001 (whatever it is, a reader should not have met it)
                errors.append(traceback.format_exc())
    return {"violations": violations, "errors": errors, "csns": sorted(csns)}


if __name__ == "__main__":
    json.dump(read_in_process(sys.argv[1], float(sys.argv[2]), int(sys.argv[3])), sys.stdout)
