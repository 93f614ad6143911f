"""Random worlds of tables with keys: customers, orders that refer to them, items that refer to orders.

Honest commits keep every constraint at each csn, also those that touch two tables: they are one unit of work. Others
break them.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

from tests.spark.oracle import World

METADATA = "spark.databricks.delta.commitInfo.userMetadata"
TABLES = {"c": "k INT, v INT", "o": "k INT, c INT, v INT", "l": "o INT, n INT, v INT"}
START = {
    "c": "(1, 0), (2, 1)",
    "o": "(1, 1, 0), (2, 2, 1), (3, NULL, 2)",
    "l": "(1, 1, 0), (1, 2, 1), (2, 1, 2), (NULL, 1, 3)",
}
VIEWS = (
    "SELECT o.k, o.v AS ov, l.n, l.v FROM o JOIN l ON l.o = o.k",
    "SELECT c.v AS cv, o.k, l.n, l.v FROM l JOIN o ON l.o = o.k JOIN c ON o.c = c.k WHERE l.n < 9",
    "SELECT c.k, count(*) AS n, sum(l.v) AS s FROM c JOIN o ON o.c = c.k JOIN l ON l.o = o.k GROUP BY c.k",
)


@dataclass
class Keyed:
    """What is in the tables, kept beside them so that honest commits can be made."""

    world: World
    rng: random.Random
    orders: dict[int, int | None] = field(default_factory=lambda: {1: 1, 2: 2, 3: None})
    customers: set[int] = field(default_factory=lambda: {1, 2})
    next_key: int = 10

    @classmethod
    def made(cls, world: World, seed: int) -> Keyed:
        for name, columns in TABLES.items():
            world.make(name, columns, START[name])
        world.look()
        world.lake._context.sizes = replace(world.lake._context.sizes, checked=0)
        world.lake.declare("c", primary_key="k")
        world.lake.declare("o", primary_key="k")
        world.lake.declare("o", foreign_key={"c": "c.k"})
        world.lake.declare("l", foreign_key={"o": "o.k"})
        return cls(world, random.Random(seed))

    def together(self, *statements: str) -> str:
        """Several commits that count as one."""
        tag = self.world.lake.unit_of_work(f"tag{self.rng.random()}", len(statements))
        self.world.spark.conf.set(METADATA, tag)
        try:
            for statement in statements:
                self.world.run(statement)
        finally:
            self.world.spark.conf.unset(METADATA)
        return "; ".join(statements)

    def alone(self, statement: str) -> str:
        self.world.run(statement)
        return statement

    def new_orders(self) -> str:
        keys = [self.next_key, self.next_key + 1]
        self.next_key += 2
        for key in keys:
            self.orders[key] = self.rng.choice(sorted(self.customers)) if self.customers else None
        rows = ", ".join(f"({key}, {self.orders[key] or 'NULL'}, {self.rng.randint(0, 3)})" for key in keys)
        lines = ", ".join(f"({key}, {n}, {self.rng.randint(0, 3)})" for key in keys for n in (1, 2))
        return self.together(f"INSERT INTO {{o}} VALUES {rows}", f"INSERT INTO {{l}} VALUES {lines}")

    def orders_go(self) -> str:
        if not self.orders:
            return self.new_orders()
        key = self.rng.choice(sorted(self.orders))
        del self.orders[key]
        return "; ".join(
            self.alone(f"DELETE FROM {{{table}}} WHERE {key_of} = {key}") for table, key_of in ("lo", "ok")
        )

    def orders_change(self) -> str:
        return self.alone(f"UPDATE {{o}} SET v = v + 1 WHERE k % 2 = {self.rng.randint(0, 1)}")

    def items_change(self) -> str:
        return self.alone(f"UPDATE {{l}} SET v = v + 1 WHERE n = {self.rng.randint(1, 2)}")

    def new_customer(self) -> str:
        key = self.next_key
        self.next_key += 1
        self.customers.add(key)
        return self.alone(f"INSERT INTO {{c}} VALUES ({key}, {self.rng.randint(0, 3)})")

    def honest(self) -> str:
        return self.rng.choice(
            [self.new_orders, self.new_orders, self.orders_go, self.orders_change, self.items_change, self.new_customer]
        )()

    def dishonest(self) -> str:
        """A key twice, items before their order, an order without its customer, an order whose items stay."""
        key = self.rng.choice([1, 2, 40, 41])
        return self.alone(
            self.rng.choice(
                [
                    f"INSERT INTO {{o}} VALUES ({key}, NULL, 7)",
                    f"INSERT INTO {{l}} VALUES ({key}, 5, 7)",
                    f"INSERT INTO {{o}} VALUES ({self.next_key + 50}, 99, 7)",
                    f"DELETE FROM {{o}} WHERE k = {key}",
                ]
            )
        )
