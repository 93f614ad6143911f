"""Views whose own table is the state of their aggregate.

A view that is a projection of an aggregate that adds up has one row for each group. If that row also carries the
group's key and totals (``headwater.algebra.sums``), a change is added to what the view's table says, and the rows of
the groups are never read again. What the public columns don't hold stands in hidden columns beside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from headwater.algebra.nodes import Aggregate, Nodes
from headwater.algebra.plan import Attribute, Plan, Project, Scan
from headwater.algebra.sums import totals_of
from headwater.sql.dialect import column, named, subquery

HIDDEN = "__hw_state"


@dataclass(frozen=True, slots=True)
class Carried:
    """``columns`` tells where each key and total of ``node`` stands in the view's table."""

    node: str
    columns: tuple[tuple[Attribute, str], ...]

    @property
    def hidden(self) -> tuple[str, ...]:
        return tuple(name for _, name in self.columns if name.startswith(HIDDEN))

    def totals(self, rows: exp.Query) -> exp.Select:
        """Keys and totals, from rows of the view's table."""
        items = [named(column(name), attribute) for attribute, name in self.columns]
        return exp.select(*items, copy=False).from_(subquery(rows, "w"))


def carrying(plan: Plan, nodes: Nodes, names: Sequence[str]) -> tuple[Plan, Nodes, Carried] | None:
    """The plan with the hidden columns, where the view can carry its state; ``names`` are its public columns."""
    outputs = plan.outputs if isinstance(plan, Project) else tuple((a, column(a)) for a in plan.attributes)
    scan = plan.child if isinstance(plan, Project) else plan
    node = nodes.get(scan.table) if isinstance(scan, Scan) else None
    if not isinstance(scan, Scan) or not isinstance(node, Aggregate) or node.sums is None:
        return None
    given = {value.name: name for name, (_, value) in zip(names, outputs, strict=True) if isinstance(value, exp.Column)}
    state = [*node.keys, *totals_of(node.sums)]
    columns = tuple((attribute, given.get(attribute, f"{HIDDEN}{place}")) for place, attribute in enumerate(state))
    carried = Carried(scan.table, columns)
    kept = replace(node, carried=True)
    hidden = tuple((name, column(attribute)) for attribute, name in columns if name in carried.hidden)
    wider = replace(scan, columns=kept.attributes, attributes=kept.attributes)
    return Project(wider, (*outputs, *hidden)), {**nodes, scan.table: kept}, carried
