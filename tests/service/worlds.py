"""A catalog with two tables, some commits and three views, as the service finds it; no Spark."""

from __future__ import annotations

from typing import Any

from headwater.algebra.plan import LeafId
from headwater.algebra.time import Csn
from headwater.catalog import BaseTable, Catalog, Commit, LeafRecord, LeafTime, Lease, ViewRecord

COLUMNS = (("k", "int"), ("v", "int"))


def table(name: str) -> BaseTable:
    return BaseTable(name, f"/{name}", name, COLUMNS, "versioned", Csn(0), 0, 0, 0)


def view(name: str, sql: str, *tables: str, views: tuple[str, ...] = (), **changes: Any) -> ViewRecord:
    def uses(names: tuple[str, ...]) -> dict[str, Any]:
        return {each: {"columns": [list(c) for c in COLUMNS], "mentioned": ["k", "v"]} for each in names}

    values: dict[str, Any] = {
        "definition": {"settings": {}, "tables": uses(tables), "views": uses(views), "recomputed": None},
        "method": "frontier",
    }
    values |= changes
    return ViewRecord(
        name=name,
        view_id=name,
        sql=sql,
        columns=COLUMNS,
        options={},
        cluster_by=(),
        location=f"/{name}",
        delta_location=f"/{name}-delta",
        created_csn=Csn(0),
        csn=Csn(0),
        version=0,
        kept_from=Csn(0),
        created_at=0,
        **values,
    )


JOIN = view("joined", "SELECT r.k, s.v FROM r JOIN s ON r.k = s.k", "r", "s")
SUMS = view("sums", "SELECT r.k, max(s.v) AS v FROM r JOIN s ON r.k = s.k GROUP BY r.k", "r", "s")
ABOVE = view("above", "SELECT k, v FROM joined WHERE v > 1", views=("joined",))


def leaves(*tables: str) -> list[LeafRecord]:
    return [LeafRecord(LeafId(i), name, name, Csn(0), Csn(0)) for i, name in enumerate(tables)]


def populate(catalog: Catalog, lease: Lease) -> None:
    """r changes by 10, then s by 5, then both at once, then r by a commit that does not tell."""
    for name in ("r", "s"):
        catalog.add_base_table(lease, table(name))
    catalog.insert_view(lease, JOIN, leaves("r", "s"))
    catalog.insert_view(lease, SUMS, leaves("r", "s"))
    catalog.insert_view(lease, ABOVE, leaves("joined"))
    units = [
        [Commit("r", 1, 100, "WRITE", 10)],
        [Commit("s", 1, 200, "WRITE", 5)],
        [Commit("r", 2, 300, "WRITE", 30), Commit("s", 2, 300, "WRITE", 1)],
        [Commit("r", 3, 400, "MERGE", None)],
    ]
    catalog.number_units(lease, units)


def step(catalog: Catalog, lease: Lease, name: str, after: list[int], seconds: float, **more: Any) -> None:
    before = [int(leaf.time) for leaf in catalog.leaves(name)]
    begun = catalog.begin_step(lease, name, "propagate", {"before": before, "after": after})
    times = [LeafTime(LeafId(i), Csn(t), Csn(t)) for i, t in enumerate(after)]
    catalog.finish_propagate(lease, begun.step_id, times, outcome={"seconds": seconds, "cold": False, **more})
