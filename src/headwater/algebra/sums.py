"""Aggregates that add up: COUNT, SUM and AVG over exact numbers.

Their value follows from a few sums over the rows of a group, and a sum over a changed group is the sum before plus the
sum over the change. So a group is read once, however many csns changed it, and not once for each.

Only sums that are exact may be kept so: whole numbers and decimals. A sum of doubles is added up anew from its rows.

The totals of a group are how many rows it has and, for each aggregate, how many values that are not NULL are in it (a
sum over none is NULL) and what these add up to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from sqlglot import exp

from headwater.algebra.plan import Attribute

ROWS: Attribute = "__hw_rows"


class SumKind(Enum):
    COUNT = "count"
    SUM = "sum"
    AVG = "avg"


@dataclass(frozen=True, slots=True)
class Sum:
    """An aggregate as sums over ``argument`` where it is not NULL (None: over all rows).

    ``result`` is the type of the aggregate, ``total`` the type in which the argument is added up.
    """

    output: Attribute
    kind: SumKind
    argument: exp.Expr | None
    result: str
    total: str

    @property
    def known(self) -> Attribute:
        """The total of values that are not NULL."""
        return f"{self.output}.n"

    @property
    def amount(self) -> Attribute:
        """The total of the values."""
        return f"{self.output}.t"

    @property
    def totals(self) -> tuple[Attribute, ...]:
        if self.argument is None:
            return ()
        return (self.known,) if self.kind is SumKind.COUNT else (self.known, self.amount)


def totals_of(sums: Iterable[Sum]) -> Iterator[Attribute]:
    """The totals that a group of these aggregates has."""
    yield ROWS
    for each in sums:
        yield from each.totals
