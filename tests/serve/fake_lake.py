"""A lake in memory over a real catalog: Delta tables as lists of versions, drivers that move views by themselves.

The engine answers with the text that it was given; ``rows_of`` works such a text out, so that what a snapshot reads is
compared with the history of the view and not with the text that is expected.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import sqlglot
from sqlglot import exp

from headwater.algebra.plan import LeafId
from headwater.algebra.time import Csn
from headwater.catalog import BaseTable, Catalog, Commit, LeafRecord, LeafTime, ViewRecord, open_catalog
from headwater.durable import Listener, nobody
from headwater.errors import HeadwaterError
from headwater.serve.releases import Released, release

SECOND = 1_000_000
START = 1_700_000_000 * SECOND


@dataclass
class HandClock:
    now: int = START

    def __call__(self) -> int:
        self.now += 1
        return self.now

    def passes(self, seconds: float) -> None:
        self.now += round(seconds * SECOND)


class Gone(Exception):
    """A file that a version needs was taken by VACUUM."""


@dataclass
class DeltaTable:
    """Versions with the moment of their commit; each a bag of (csn or None, row): a count for each.

    ``put_aside`` is when the statement of a version put the files of the one before aside, which is before its commit.
    """

    versions: list[dict[tuple[int | None, int], int]] = field(default_factory=list)
    committed: list[int] = field(default_factory=list)
    put_aside: list[int] = field(default_factory=list)
    readable_from: int = 0
    log_from: int = 0
    keeps_all: bool = True
    altered_at: int | None = None
    trims: bool = True

    def commit(self, content: dict[tuple[int | None, int], int], at: int, put_aside: int | None = None) -> int:
        self.versions.append({key: count for key, count in content.items() if count})
        self.committed.append(at)
        self.put_aside.append(at if put_aside is None else put_aside)
        return len(self.versions) - 1

    def vacuum(self, before: int) -> None:
        """Versions that were over by then can't be read: what took their place needs none of their files."""
        for version in range(self.readable_from, len(self.versions) - 1):
            if self.put_aside[version + 1] <= before:
                self.readable_from = version + 1

    def alter(self, properties: str, at: int) -> None:
        self.keeps_all = "'delta.enableExpiredLogCleanup' = 'false'" in properties
        self.commit(self.versions[-1], at)
        self.altered_at = at
        days = re.search(r"'delta.logRetentionDuration' = 'interval (\d+) days'", properties)
        if days is not None and not self.keeps_all and self.trims:
            oldest = at - int(days[1]) * 86_400 * SECOND
            self.log_from = next(place for place, when in enumerate(self.committed) if when >= oldest)

    def read(self, version: int) -> dict[tuple[int | None, int], int]:
        if version < max(self.readable_from, self.log_from):
            raise Gone(f"version {version}")
        return self.versions[version]


class FakeLake:
    """One base table; view ``v`` counts, for each csn, the row of that csn, so V(t) is the rows 1 to t.

    View ``w`` is made later and holds the same rows.
    """

    def __init__(self, folder: Path, clock: HandClock) -> None:
        self.clock = clock
        self.catalog: Catalog = open_catalog(f"sqlite:///{folder / 'catalog.db'}", clock=clock, create=True)
        self.tables: dict[str, DeltaTable] = {"/r": DeltaTable()}
        self.uncaptured: list[int] = []
        self.ran: list[str] = []
        self.compacts = False
        self.takes = 0.0  # seconds, from when an apply puts files aside to its commit
        self.broken: dict[str, HeadwaterError] = {}
        with self.catalog.lease("t") as lease:
            table = BaseTable("r", "/r", "u", (("a", "int"),), "versioned", Csn(0), 0, 0, clock())
            self.catalog.add_base_table(lease, table)
        self.tables["/r"].commit({}, clock())

    # ------------------------------------------------------------------ writers and drivers

    def write(self) -> None:
        """A unit of work, which nobody has captured yet."""
        table = self.tables["/r"]
        row = len(table.versions)
        table.commit({**table.versions[-1], (None, row): 1}, self.clock())
        self.uncaptured.append(row)

    def capture(self) -> Csn:
        with self.catalog.lease("capture") as lease:
            commits = [[Commit("r", row, self.tables["/r"].committed[row], "WRITE")] for row in self.uncaptured]
            self.catalog.number_units(lease, commits)
        self.uncaptured.clear()
        return self.catalog.newest_csn()

    def create(self, name: str, layout: str = "current") -> None:
        csn = self.catalog.newest_csn()
        place, delta = f"/{name}", f"/{name}_delta"
        self.tables[place], self.tables[delta] = DeltaTable(), DeltaTable()
        content: dict[tuple[int | None, int], int] = {(None, row): 1 for row in range(1, csn + 1)}
        version = self.tables[place].commit(content, self.clock())
        self.tables[delta].commit({}, self.clock())
        view = ViewRecord(
            name=name,
            view_id=f"{name}-id",
            sql="SELECT a FROM r",
            definition={"tables": {}, "settings": {}},
            columns=(("a", "int"),),
            options={"layout": layout},
            cluster_by=(),
            location=place,
            delta_location=delta,
            created_csn=csn,
            csn=csn,
            version=version,
            kept_from=csn,
            method="frontier",
            created_at=self.clock(),
        )
        with self.catalog.lease("t") as lease:
            self.catalog.insert_view(lease, view, [LeafRecord(LeafId(0), "r", "r", csn, csn)])

    def round(self, views: Sequence[str], to: Csn) -> AbstractContextManager[None]:
        return nullcontext()

    def refresh(self, view: str, to: Csn) -> None:
        if view in self.broken:
            raise self.broken[view]
        record = self.catalog.view(view)
        table, delta = self.tables[record.location], self.tables[record.delta_location]
        with self.catalog.lease(f"apply:{record.view_id}") as lease:
            mark = min(leaf.time for leaf in self.catalog.leaves(record.view_id))
            if to > mark:
                change: dict[tuple[int | None, int], int] = {(csn, csn): 1 for csn in range(mark + 1, to + 1)}
                delta.commit({**delta.versions[-1], **change}, self.clock())
                step = self.catalog.begin_step(lease, record.view_id, "propagate", {})
                self.catalog.finish_propagate(lease, step.step_id, [LeafTime(LeafId(0), to, to)])
            step = self.catalog.begin_step(lease, record.view_id, "apply", {"from": record.csn, "to": to})
            put_aside = self.clock()
            self.clock.passes(self.takes)
            version = table.commit({(None, row): 1 for row in range(1, to + 1)}, self.clock(), put_aside)
            self.catalog.finish_apply(lease, step.step_id, csn=to, version=version)

    def recompute(self, view: str, delta: str | None = None) -> None:
        """``delta``: where the view delta begins anew."""
        record, csn = self.catalog.view(view), self.catalog.newest_csn()
        with self.catalog.lease(f"apply:{record.view_id}") as lease:
            step = self.catalog.begin_step(lease, record.view_id, "apply", {"recompute": csn})
            content: dict[tuple[int | None, int], int] = {(None, row): 1 for row in range(1, csn + 1)}
            version = self.tables[record.location].commit(content, self.clock())
            if delta is not None:
                self.tables[delta] = DeltaTable()
                self.tables[delta].commit({}, self.clock())
            place = delta or record.delta_location
            self.catalog.reset_view(lease, record.view_id, step.step_id, csn=csn, version=version, delta_location=place)
        self.remove_past_deltas(self.catalog.view(view), self.catalog.released_deltas(record.view_id))

    def release(self, reached: Listener = nobody) -> Released:
        return release(self.catalog, self, reached=reached)

    def step(self, times: int = 1) -> None:
        """Writes, and a release after them."""
        for _ in range(times):
            self.write()
        self.release()

    # ------------------------------------------------------------------ the engine

    def user_query(self, text: str) -> str:
        return text

    def newest_version(self, location: str) -> int:
        return len(self.tables[location].versions) - 1

    def committed_at(self, location: str, version: int) -> int | None:
        return self.tables[location].committed[version]

    def standing_at(self, location: str, moment: int) -> int | None:
        return max((at for at in self.tables[location].committed if at <= moment), default=None)

    def log_since(self, location: str) -> int:
        return self.tables[location].committed[self.tables[location].log_from]

    def last_trimmed(self, location: str) -> int | None:
        return self.tables[location].altered_at

    def keeps_all(self, location: str) -> bool:
        return self.tables[location].keeps_all

    def compact(self, location: str) -> None:
        table = self.tables[location]
        if self.compacts and len(table.versions) % 3 == 0:
            table.commit(table.versions[-1], self.clock())

    def remove_past_deltas(self, view: ViewRecord, kept: Collection[str]) -> None:
        for place in [place for place in self.tables if place.startswith(f"/{view.name}_delta")]:
            if place != view.delta_location and place not in kept:
                del self.tables[place]

    def run(self, text: str, doing: str) -> None:
        self.ran.append(text)
        alter = re.fullmatch(r"ALTER TABLE delta\.`(.*)` SET TBLPROPERTIES \((.*)\)", text)
        if alter is not None:
            self.tables[alter[1]].alter(alter[2], self.clock())
            return
        vacuum = re.fullmatch(r"VACUUM delta\.`(.*)` RETAIN (\d+) HOURS", text)
        if vacuum is not None:
            self.tables[vacuum[1]].vacuum(self.clock() - int(vacuum[2]) * 3_600 * SECOND)
            return
        statement = sqlglot.parse_one(text, read="spark")
        assert isinstance(statement, exp.Delete)
        table = self.tables[statement.this.name]
        kept = {key: count for key, count in table.versions[-1].items() if not _holds(statement, key[0])}
        table.commit(kept, self.clock())

    def rows_of(self, text: str) -> list[int]:
        """The rows that a text of ``Snapshot.table`` gives, from the versions that it names."""
        select = sqlglot.parse_one(text, read="spark")
        found: dict[int, int] = {}
        seen: set[str] = set()
        for table in select.find_all(exp.Table):
            inner = table.find_ancestor(exp.Select)
            assert inner is not None
            if table.name in seen:
                continue  # the two branches of a bag read the same
            seen.add(table.name)
            sign = -1 if "-SUM" in inner.expressions[0].sql("spark") else 1
            where = inner.args.get("where")
            for (csn, row), count in self.tables[table.name].read(int(table.args["version"].expression.name)).items():
                if where is None or csn is None or _holds(inner, csn):
                    found[row] = found.get(row, 0) + sign * count
        return sorted(row for row, count in found.items() for _ in range(count))


def _holds(statement: exp.Expr, csn: int | None) -> bool:
    """Whether a condition on the csn alone holds."""
    condition = statement.args["where"].this.sql("spark").replace("`__hw_csn`", str(csn))
    assert re.fullmatch(r"[\d\s()<>=ANDOR]*", condition), condition
    return bool(eval(condition.replace("AND", "and").replace("OR", "or")))  # noqa: S307
