"""A small lake to break: three tables, and views that join them by both methods.

It is kept by one driver process of its own (``World.keeper``), which writes to the tables, checks the views against the
oracle, and is never harmed.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.support.actions import FEED
from tests.support.driver import Driver, Setup, driver

PAIR = "SELECT o.id, c.name, o.amount FROM orders o, customers c WHERE o.customer = c.id"
PLACES = "SELECT c.id, c.name, r.place FROM customers c JOIN regions r ON c.region <=> r.id"

VIEWS = {
    "steps": f"CREATE MATERIALIZED VIEW steps AS {PAIR}",
    "rolling": f"CREATE MATERIALIZED VIEW rolling OPTIONS (method = 'rolling') AS {PAIR}",
    "places": f"CREATE MATERIALIZED VIEW places AS {PLACES}",
}


@dataclass
class World:
    """``tables`` is where the Delta tables are, outside of the lake."""

    setup: Setup
    tables: Path
    keeper: Driver
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def driver(self, **how: Any) -> Any:
        """A driver process of this lake; ``how`` as in ``Setup``."""
        return driver(replace(self.setup, **how))

    def table(self, name: str) -> str:
        return f"delta.`{self.tables / name}`"

    def change(self, kinds: int = 2) -> None:
        """One commit each (none of them is without effect); any two in a row change both orders and customers.

        Over many calls: duplicates, NULL keys, changed keys, cancelling changes, rows that come back.
        """
        self.keeper.call("run", *(self.statement(number) for number in itertools.islice(self._numbers, kinds)))

    def statement(self, number: int) -> str:
        orders, customers = self.table("orders"), self.table("customers")
        match number % 6:
            case 1:
                rows = f"({number}, {number % 4}, 10), ({number}, {number % 4}, 10), ({number}, NULL, 7)"
                return f"INSERT INTO {orders} VALUES {rows}"
            case 2:
                return (
                    f"UPDATE {customers} SET name = 'n{number % 5}', region = {number % 3} WHERE id = {1 + number % 3}"
                )
            case 3:
                changed = f"SELECT {number - 2} AS id, {1 + number % 3} AS customer"
                return (
                    f"MERGE INTO {orders} t USING ({changed}) s ON t.id = s.id "
                    "WHEN MATCHED THEN UPDATE SET customer = s.customer, amount = amount + 1 "
                    f"WHEN NOT MATCHED THEN INSERT (id, customer, amount) VALUES (s.id, s.customer, {number})"
                )
            case 4:
                return f"INSERT INTO {customers} VALUES ({number % 4}, 'm', NULL), ({1 + number % 3}, 'm', 1)"
            case 5:
                return f"DELETE FROM {orders} WHERE id = {number - 4}"
            case _:
                return f"DELETE FROM {customers} WHERE name = 'm'"

    def newest(self) -> int:
        return int(self.keeper.call("capture"))

    def check(self, view: str, since: int | None = None, *, read_all: bool = False) -> dict[str, Any]:
        standing: dict[str, Any] = self.keeper.call("check", view, since, read_all=read_all)
        return standing

    def standing(self, view: str) -> dict[str, Any]:
        found: dict[str, Any] = self.keeper.call("view", view)
        return found


@contextmanager
def world(
    url: str, folder: Path, *, views: tuple[str, ...] = tuple(VIEWS), catalog: str | None = None
) -> Iterator[World]:
    setup = Setup(url, folder / "lake", catalog)
    with ExitStack() as stack:
        made = World(setup, folder / "tables", stack.enter_context(driver(setup)))
        tables = {
            "orders": "(id INT, customer INT, amount INT)",
            "customers": "(id INT, name STRING, region INT)",
            "regions": "(id INT, place STRING)",
        }
        made.keeper.call(
            "run",
            *(f"CREATE TABLE {made.table(name)} {columns} USING delta {FEED}" for name, columns in tables.items()),
            f"INSERT INTO {made.table('orders')} VALUES (1, 1, 5), (2, 1, 5), (2, 1, 5), (3, 2, 9), (4, NULL, 1)",
            f"INSERT INTO {made.table('customers')} VALUES (1, 'a', 1), (2, 'b', NULL), (3, 'c', 0), (NULL, 'x', 1)",
            f"INSERT INTO {made.table('regions')} VALUES (0, 'here'), (1, 'there'), (NULL, 'nowhere')",
        )
        for name in tables:
            made.keeper.call("track", name, str(made.tables / name))
        for name in views:
            made.keeper.call("statement", VIEWS[name])
        yield made
