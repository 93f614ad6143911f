"""Views whose own table is the state of their node.

A view that is a projection of an aggregate that adds up has one row for each group. If that row also carries the
group's key and totals (``headwater.algebra.sums``), a change is added to what the view's table says, and the rows of
the groups are never read again. A view that is a projection of the first rows of an order has these, and most changes
concern no others (``headwater.algebra.first_rows``). What the public columns don't hold stands in hidden columns beside
them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from headwater.algebra.nodes import Aggregate, Nodes, Top
from headwater.algebra.plan import Attribute, Plan, Project, Scan
from headwater.algebra.sums import totals_of
from headwater.sql.dialect import column, named, subquery
from headwater.sql.plain_types import is_plain_type

HIDDEN = "__hw_state"
MOST_ROWS = 100_000  # of a LIMIT: they are put in order in one place


@dataclass(frozen=True, slots=True)
class Carried:
    """``columns`` tells where each key and total, or each column, of ``node`` stands in the view's table."""

    node: str
    columns: tuple[tuple[Attribute, str], ...]

    @property
    def hidden(self) -> tuple[str, ...]:
        return tuple(name for _, name in self.columns if name.startswith(HIDDEN))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for _, name in self.columns))

    def state(self, rows: exp.Query) -> exp.Select:
        """Keys and totals, or columns, from rows of the view's table."""
        items = [named(column(name), attribute) for attribute, name in self.columns]
        return exp.select(*items, copy=False).from_(subquery(rows, "w"))


def carrying(plan: Plan, nodes: Nodes, names: Sequence[str]) -> tuple[Plan, Nodes, Carried] | None:
    """The plan with the hidden columns, where the view can carry its state; ``names`` are its public columns."""
    outputs = plan.outputs if isinstance(plan, Project) else tuple((a, column(a)) for a in plan.attributes)
    scan = plan.child if isinstance(plan, Project) else plan
    if not isinstance(scan, Scan):
        return None
    node = nodes.get(scan.table)
    match node:
        case Aggregate(sums=sums) if sums is not None:
            state = [*node.keys, *totals_of(sums)]
        case Top(offset=0, limit=limit) if limit <= MOST_ROWS:
            state = list(node.attributes)
        case _:
            return None
    given = {value.name: name for name, (_, value) in zip(names, outputs, strict=True) if isinstance(value, exp.Column)}
    columns = tuple((attribute, given.get(attribute, f"{HIDDEN}{place}")) for place, attribute in enumerate(state))
    carried = Carried(scan.table, columns)
    kept = replace(node, carried=True)
    hidden = tuple((name, column(attribute)) for attribute, name in columns if name in carried.hidden)
    wider = replace(scan, columns=kept.attributes, attributes=kept.attributes)
    return Project(wider, (*outputs, *hidden)), {**nodes, scan.table: kept}, carried


def can_be_told(node: Aggregate | Top, carried: Carried, kinds: Mapping[str, str]) -> bool:
    """Whether what the view's table has, by its columns' types, is the node's state to the bit.

    Totals are. First rows are compared with the rows of a change, so these must be the same if they are equal.
    """
    return isinstance(node, Aggregate) or all(is_plain_type(kinds[name]) for name in carried.names)
