"""Values for catalog tests, and the whole state of a catalog as one value."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from headwater.algebra.plan import LeafId
from headwater.algebra.time import Csn, Interval
from headwater.catalog import (
    BaseTable,
    Catalog,
    Commit,
    LeafRecord,
    LeafTime,
    Lease,
    QueryListEntry,
    RefreshRecord,
    ReleasedView,
    ViewRecord,
    schema,
)

ORDERS = BaseTable(
    name="orders",
    location="/lake/orders",
    table_uuid="1f0c",
    columns=(("o_orderkey", "bigint"), ("o_total", "decimal(12,2)")),
    mode="versioned",
    since_csn=Csn(0),
    since_version=3,
    captured_version=3,
    captured_at=1_000,
)
LINES = replace(ORDERS, name="lineitem", location="/lake/lineitem", table_uuid="2a", since_version=0)
VIEW = ViewRecord(
    name="totals",
    view_id="b1946ac9",
    sql="SELECT * FROM orders o JOIN lineitem l ON o.o_orderkey = l.l_orderkey",
    definition={"plan": ["join", None, 1, "τ"]},
    columns=(("o_orderkey", "bigint"),),
    options={"max_staleness": "5m"},
    cluster_by=("o_orderkey",),
    location="/lake/totals",
    delta_location="/lake/totals_delta",
    created_csn=Csn(2),
    csn=Csn(2),
    version=0,
    kept_from=Csn(2),
    method="rolling",
    created_at=1_700_000_000_000_000,
)
LEAVES = (
    LeafRecord(LeafId(0), "o", "orders", Csn(2), Csn(2)),
    LeafRecord(LeafId(1), "l", "lineitem", Csn(2), Csn(2), "rows", 1000),
)
ENTRIES = (
    QueryListEntry(LeafId(0), Interval(Csn(1), Csn(3)), Csn(4)),
    QueryListEntry(LeafId(1), Interval(Csn(0), Csn(1)), Csn(5)),
    QueryListEntry(LeafId(0), Interval(Csn(3), Csn(4)), Csn(4)),
)
REFRESH = RefreshRecord(VIEW.view_id, VIEW.name, Csn(2), Csn(4), "incremental", None, 17, 0.25, 1_700_000_000_000_009)
RELEASED = ReleasedView.standing(VIEW)
TIMES = (LeafTime(LeafId(0), Csn(4), Csn(3)), LeafTime(LeafId(1), Csn(3), Csn(3)))


def commit(table: str, version: int, at: int, rows: int | None = None) -> Commit:
    return Commit(table, version, at, "WRITE", rows)


def populate(catalog: Catalog, lease: Lease) -> None:
    """Two tables, four units of work, one view over both."""
    catalog.add_base_table(lease, ORDERS)
    catalog.add_base_table(lease, LINES)
    catalog.number_units(
        lease,
        [
            [commit("orders", 4, 2_000)],
            [commit("orders", 5, 3_000), commit("lineitem", 1, 3_001, 9)],
            [commit("lineitem", 2, 4_000)],
            [commit("orders", 6, 5_000)],
        ],
        captured={"orders": (6, 5_000), "lineitem": (2, 4_000)},
    )
    catalog.insert_view(lease, VIEW, LEAVES, query_lists=ENTRIES)


def everything(catalog: Catalog, *, leases: bool = False) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table, as text that compares."""
    tables = [table for table in schema.metadata.sorted_tables if leases or table is not schema.driver_leases]
    with catalog._database.read() as connection:
        return {
            table.name: sorted((tuple(row) for row in connection.execute(sa.select(table))), key=repr)
            for table in tables
        }
