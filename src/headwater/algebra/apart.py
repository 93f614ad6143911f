"""A query over a join, taken apart: first the join of some of its inputs, then the rest over that answer.

A product does not care how it is bracketed, and neither do the bookkeeping columns: counts multiply and the latest of
several csns is the latest of the latest. So

    plan[terms] = rest[ (first inputs)[terms] stands as a change of its own ]

holds for timed Z-sets, at every csn. It lets an engine compute a small join first, see how small it is, and choose how
to go on. Conditions go with the first part that has all their attributes; attributes that nothing later needs are left
behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from headwater.algebra.plan import Attribute, Filter, Generate, Join, LeafId, Plan, Project, Scan, Union, leaves, scans
from headwater.algebra.product import attributes_in, attributes_of
from headwater.algebra.query import BaseDelta, CsnRule, Query, Snapshot, Term
from headwater.algebra.time import Csn, Interval


@dataclass(frozen=True, slots=True)
class Joined:
    """A plan as the inputs of one join (any plans), what they are joined on, and what is made of the rows."""

    inputs: tuple[Plan, ...]
    conditions: tuple[exp.Expr, ...]
    outputs: tuple[tuple[Attribute, exp.Expr], ...]

    @classmethod
    def of(cls, plan: Plan) -> Joined:
        outputs = plan.outputs if isinstance(plan, Project) else _as_they_are(plan.attributes)
        plan = plan.child if isinstance(plan, Project) else plan
        conditions: list[exp.Expr] = []
        while isinstance(plan, Filter):
            conditions.insert(0, plan.condition)
            plan = plan.child
        if isinstance(plan, Join):
            return cls(plan.children, (*conditions, *plan.conditions), outputs)
        return cls((plan,), tuple(conditions), outputs)

    def plan(self) -> Plan:
        body = self.inputs[0]
        if len(self.inputs) > 1:
            body = Join(self.inputs, self.conditions)
        else:
            for condition in self.conditions:
                body = Filter(body, condition)
        return Project(body, self.outputs)

    def input_with(self, leaf: LeafId) -> int:
        return next(index for index, each in enumerate(self.inputs) if leaf in leaves(each))


def in_order(query: Query, order: Sequence[int]) -> Query:
    """The query with the inputs of its join in another order."""
    whole = Joined.of(query.plan)
    inputs = tuple(whole.inputs[index] for index in order)
    plan, terms = _numbered(Joined(inputs, whole.conditions, whole.outputs).plan(), query.terms, [])
    return replace(query, plan=plan, terms=terms)


def apart(query: Query, first: int, name: str, interval: Interval) -> tuple[Query, Query]:
    """The query over its first inputs (which hold all marked leaves), and the rest with its answer as ``name``.

    In the rest the answer is the first input, a scan of ``name`` with the changes of ``interval``.
    """
    whole = Joined.of(query.plan)
    chosen, others = whole.inputs[:first], whole.inputs[first:]
    if not query.marked <= frozenset(leaf for each in chosen for leaf in leaves(each)):
        raise ValueError(f"the first {first} inputs do not hold all changes of {query}")
    have = {attribute for each in chosen for attribute in each.attributes}
    inside = tuple(condition for condition in whole.conditions if attributes_of(condition) <= have)
    outside = tuple(condition for condition in whole.conditions if not attributes_of(condition) <= have)
    needed = attributes_in([*outside, *(value for _, value in whole.outputs)])
    kept = tuple(attribute for each in chosen for attribute in each.attributes if attribute in needed)
    answer = Scan(LeafId(0), name, name, kept, kept)
    inner = _numbered(Joined(chosen, inside, _as_they_are(kept)).plan(), query.terms, [])
    rest = _numbered(Joined((answer, *others), outside, whole.outputs).plan(), query.terms, [BaseDelta(interval)])
    return replace(query, plan=inner[0], terms=inner[1], sign=1), replace(query, plan=rest[0], terms=rest[1])


def of_keys(plan: Plan, keys: Sequence[Attribute], asked: Scan, term: BaseDelta, at: Csn) -> Query:
    """The rows of a plan at a csn whose ``keys`` are among those asked for, each key of which stands once."""
    whole = Joined.of(plan)
    values = dict(whole.outputs)
    same = [
        exp.NullSafeEQ(this=exp.paren(values[key].copy()), expression=exp.column(name, quoted=True))
        for key, name in zip(keys, asked.attributes, strict=True)
    ]
    joined = Joined((asked, *whole.inputs), (*same, *whole.conditions), whole.outputs)
    plan, terms = _numbered(joined.plan(), [Snapshot(at) for _ in scans(plan)], [term])
    return Query(plan, terms, CsnRule.LATEST)


def numbered_anew(plan: Plan) -> Plan:
    """A part of a plan as a plan of its own: its leaves counted from 0."""
    return _renumber(plan, {scan.alias: LeafId(number) for number, scan in enumerate(scans(plan))})


def with_scans(plan: Plan, changed: Mapping[str, Scan]) -> Plan:
    """The plan with some of its scans, by alias, replaced by others with the same attributes."""
    match plan:
        case Scan(alias=alias):
            return changed.get(alias, plan)
        case Filter(child=child) | Project(child=child) | Generate(child=child):
            return replace(plan, child=with_scans(child, changed))
        case Join(children=children) | Union(children=children):
            return replace(plan, children=tuple(with_scans(each, changed) for each in children))


def _as_they_are(attributes: Iterable[Attribute]) -> tuple[tuple[Attribute, exp.Expr], ...]:
    return tuple((name, exp.column(name, quoted=True)) for name in attributes)


def _numbered(plan: Plan, terms: Sequence[Term], before: Sequence[Term]) -> tuple[Plan, tuple[Term, ...]]:
    """The plan with its leaves numbered anew, and their terms; ``before`` are those of its first leaves."""
    found = list(scans(plan))
    old = [terms[scan.leaf] for scan in found[len(before) :]]
    numbers = {scan.alias: LeafId(number) for number, scan in enumerate(found)}
    return _renumber(plan, numbers), (*before, *old)


def _renumber(plan: Plan, numbers: dict[str, LeafId]) -> Plan:
    match plan:
        case Scan(alias=alias):
            return replace(plan, leaf=numbers[alias])
        case Filter(child=child) | Project(child=child) | Generate(child=child):
            return replace(plan, child=_renumber(child, numbers))
        case Join(children=children) | Union(children=children):
            return replace(plan, children=tuple(_renumber(each, numbers) for each in children))
