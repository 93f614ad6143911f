"""Propagation queries: a view's plan with every leaf replaced by a term [Salem00 §2].

A query is a value. Both engines (the reference evaluator and Spark) run the same queries, explain prints them,
tests compare them. What stands at a leaf is one of four terms:

- ``Snapshot(t)``: the table as it was at csn t; its rows carry no csn (they are older than all changes).
- ``BaseDelta((a, b])``: the changes of the table in the interval, each with its sign and its csn.
- ``Patched(a, b)``: ``R @ a + ΔR(a, b]``. In net effect this is the snapshot at b, but its changes keep their csns.
- ``Present()``: the table as it stands when the query runs (a table whose past can't be read).

*Unions.* A query's **marked** leaves are those that hold a BaseDelta. A linear plan is a sum of products, and a query
stands for the products that contain every marked leaf. So at a union whose subtree holds marked leaves, only
the child that contains all of them takes part (leaves are disjoint, so there is at most one); if no child
does, the query is empty by its form alone and need not be run: ``is_empty``.

*Csn of a result row.* Two rules, and they are never mixed inside one method: with snapshots at their own moments a
joined row appears or disappears at the **latest** csn of its parts; with tables read at one execution time and
compensation, the **earliest** is right [Salem00 §3.3]. Rows without a csn do not take part in either.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from headwater.algebra.plan import Filter, Generate, Join, LeafId, Plan, Project, Scan, Union, leaves, scans
from headwater.algebra.time import Csn, Interval


@dataclass(frozen=True, slots=True)
class Snapshot:
    at: Csn

    def __str__(self) -> str:
        return f"@{self.at}"


@dataclass(frozen=True, slots=True)
class BaseDelta:
    interval: Interval

    def __str__(self) -> str:
        return f"Δ{self.interval}"


@dataclass(frozen=True, slots=True)
class Patched:
    """``R @ interval.start + ΔR(interval]``."""

    interval: Interval

    def __str__(self) -> str:
        return f"@{self.interval.start}+Δ{self.interval}"


@dataclass(frozen=True, slots=True)
class Present:
    def __str__(self) -> str:
        return "@now"


Term: TypeAlias = Snapshot | BaseDelta | Patched | Present


class CsnRule(Enum):
    LATEST = "latest"
    EARLIEST = "earliest"


@dataclass(frozen=True, slots=True)
class Query:
    """``sign`` · plan[terms]; ``terms[i]`` stands at leaf i."""

    plan: Plan
    terms: tuple[Term, ...]
    rule: CsnRule
    sign: int = 1

    def __post_init__(self) -> None:
        if len(self.terms) != len(leaves(self.plan)):
            raise ValueError(f"{len(self.terms)} terms for {len(leaves(self.plan))} leaves")
        if self.sign not in (1, -1):
            raise ValueError(f"sign {self.sign} is neither 1 nor -1")

    def __str__(self) -> str:
        named = (f"{scan.alias}{self.terms[scan.leaf]}" for scan in scans(self.plan))
        return ("" if self.sign > 0 else "-") + " ⋈ ".join(named)

    @property
    def marked(self) -> frozenset[LeafId]:
        return frozenset(LeafId(i) for i, term in enumerate(self.terms) if isinstance(term, BaseDelta))

    def live_plan(self) -> Plan | None:
        """The plan without the union branches that can't contribute; None when nothing can."""
        return _restrict(self.plan, self.marked)

    @property
    def is_empty(self) -> bool:
        return self.live_plan() is None


def _restrict(plan: Plan, marked: frozenset[LeafId]) -> Plan | None:
    match plan:
        case Scan():
            return plan
        case Filter(child=child, condition=condition):
            kept = _restrict(child, marked)
            return None if kept is None else Filter(kept, condition)
        case Project(child=child, outputs=outputs):
            kept = _restrict(child, marked)
            return None if kept is None else Project(kept, outputs)
        case Generate(child=child, generator=generator, outer=outer, outputs=outputs):
            kept = _restrict(child, marked)
            return None if kept is None else Generate(kept, generator, outer, outputs)
        case Join(children=children, conditions=conditions):
            parts = [_restrict(child, marked) for child in children]
            present = [part for part in parts if part is not None]
            return Join(tuple(present), conditions) if len(present) == len(parts) else None
        case Union(children=children, attributes=attributes):
            here = marked & leaves(plan)
            chosen = children if not here else [child for child in children if here <= leaves(child)]
            restricted = [_restrict(child, marked) for child in chosen]
            present = [part for part in restricted if part is not None]
            return Union(tuple(present), attributes) if present else None
