"""Aggregates that add up: COUNT, SUM and AVG over exact numbers.

Their value follows from a few sums over the rows of a group, and a sum over a changed group is the sum before plus the
sum over the change. So a group is read once, however many csns changed it, and not once for each.

Only sums that are exact may be kept so: whole numbers and decimals. A sum of doubles is added up anew from its rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from sqlglot import exp

from headwater.algebra.plan import Attribute


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
