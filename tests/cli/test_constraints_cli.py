"""Declaring constraints needs no Spark: the commands on a lake whose tables are in its catalog alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import headwater
from headwater.algebra.time import Csn, Interval
from headwater.catalog.records import BaseTable
from tests.cli.conftest import Run


def table(name: str, *columns: str, mode: str = "versioned") -> BaseTable:
    typed = tuple((each, "bigint") for each in columns)
    return BaseTable(name, f"/lake/{name}", f"id-{name}", typed, mode, Csn(0), 0, 0, 0)  # type: ignore[arg-type]


@pytest.fixture
def lake(run: Run, lake_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    run("init", "--lake", lake_dir)
    monkeypatch.setenv("HEADWATER_LAKE", str(lake_dir))
    with headwater.connect(lake_dir) as opened, opened._context.catalog.lease("test") as lease:
        for each in (
            table("orders", "id", "customer"),
            table("items", "Order_Id", "line"),
            table("now", "id", mode="live"),
        ):
            opened._context.catalog.add_base_table(lease, each)
    return lake_dir


def test_a_life_of_a_constraint(run: Run, lake: Path) -> None:
    made = run("declare", "ORDERS", "--primary-key", "ID", "--json").json()["declared"]
    assert [(each["name"], each["table"], each["columns"]) for each in made] == [("orders_pkey", "orders", ["id"])]
    assert (
        "verify items" in run("declare", "items", "--foreign-key", "order_id=orders.id", "--name", "has_order").stdout
    )
    run("declare", "items", "--unique", "order_id, line")
    listed = run("constraints", "--json").json()["constraints"]
    assert [each["name"] for each in listed] == ["has_order", "items_Order_Id_line_key", "orders_pkey"]
    assert listed[0]["columns"] == ["Order_Id"]
    assert (listed[0]["referred_table"], listed[0]["referred_columns"]) == ("orders", ["id"])
    assert all(each["held_from"] is None and each["broken"] is None for each in listed)

    with headwater.connect(lake) as opened, opened._context.catalog.lease("test") as lease:
        opened._context.catalog.hold_constraint(lease, "orders_pkey", Interval(Csn(0), Csn(3)))
        problem = {"keys": [{"key": '{"Order_Id":9}', "rows": 2}]}
        opened._context.catalog.break_constraint(lease, "has_order", Csn(2), problem)
    text = run("constraints").stdout
    assert "csn 0 to 3" in text
    assert 'at csn 2 by {"Order_Id":9}' in text
    assert "items_Order" not in run("constraints", "orders").stdout

    assert run("undeclare", "orders_pkey", "--json", code=1).json()["needed_by"] == ["has_order"]
    run("undeclare", "has_order")
    assert run("undeclare", "orders_pkey", "--json").json() == {"name": "orders_pkey", "declared": False}
    assert run("undeclare", "orders_pkey", "--json", code=1).json()["code"] == "UNKNOWN_NAME"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["orders"], "Nothing is declared"),
        (["order", "--primary-key", "id"], "orders"),
        (["orders", "--primary-key", "id,price"], "no column 'price'"),
        (["orders", "--primary-key", "id,ID"], "each once"),
        (["orders", "--primary-key", "id", "--unique", "customer", "--name", "both"], "several constraints"),
        (["orders", "--primary-key", "id", "--name", "not a name"], "not a name"),
        (["items", "--foreign-key", "order_id"], "no foreign key"),
        (["items", "--foreign-key", "order_id=orders.id,line=items.line"], "columns of one table"),
        (["items", "--foreign-key", "order_id=orders.id"], "not a declared key"),
        (["now", "--primary-key", "id"], "tracked as live"),
    ],
)
def test_what_can_not_be_declared_says_why(run: Run, lake: Path, arguments: list[str], said: str) -> None:
    refused = run("declare", *arguments, "--json", code=1).json()
    assert said in f"{refused['message']} {refused['remedy']}"
    assert run("constraints", "--json").json() == {"constraints": []}


def test_what_a_check_found_is_not_recorded_if_the_table_was_followed_anew_meanwhile(run: Run, lake: Path) -> None:
    run("declare", "orders", "--primary-key", "id")
    with headwater.connect(lake) as opened, opened._context.catalog.lease("test") as lease:
        catalog = opened._context.catalog
        (before,) = catalog.seen_constraints()
        again = replace(table("orders", "id", "customer"), since_version=7, captured_version=7)
        catalog.restart_base_table(lease, again)
        assert catalog.hold_constraint(lease, "orders_pkey", Interval(Csn(0), Csn(0)), before).held is None
        (now,) = catalog.seen_constraints()
        assert catalog.hold_constraint(lease, "orders_pkey", Interval(Csn(0), Csn(0)), now).held is not None
