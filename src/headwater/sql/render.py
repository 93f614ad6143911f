"""From propagation queries to Spark SQL.

Each block (a projection of a selection of a join) becomes one SELECT. Its inputs are joined in an order that
starts at a changed leaf and follows the join conditions, so that a small change meets every table through its keys
and no cross product arises that the view does not ask for. The result's count is the product of its parts' counts,
its csn their latest or earliest by the query's rule; NULL csns do not take part, since Spark's GREATEST and
LEAST pass over NULL.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce

from sqlglot import exp

from headwater.algebra.plan import Filter, Generate, Join, LeafId, Plan, Project, Scan, Union, leaves, scans
from headwater.algebra.product import attributes_of
from headwater.algebra.query import BaseDelta, CsnRule, Query, Snapshot, Term
from headwater.algebra.time import Csn
from headwater.sql.dialect import column, quoted, subquery, to_text
from headwater.sql.relations import COUNT, CSN, Sources, leaf_relation


@dataclass(frozen=True, slots=True)
class _Rendered:
    """A relation and the expressions of its bookkeeping."""

    relation: exp.Query
    plan: Plan
    alias: str
    count: exp.Expr
    csn: exp.Expr
    small: bool


def latest_csn(csns: Sequence[exp.Expr]) -> exp.Expr:
    """The max rule: a joined row changes when the last of its parts does."""
    return csns[0] if len(csns) == 1 else exp.Anonymous(this="greatest", expressions=list(csns))


def earliest_csn(csns: Sequence[exp.Expr]) -> exp.Expr:
    """The min rule of [Salem00 §3.3], for queries whose tables are read at one execution time."""
    return csns[0] if len(csns) == 1 else exp.Anonymous(this="least", expressions=list(csns))


def view_delta_sql(
    queries: Sequence[Query],
    names: Sequence[str],
    sources: Sources,
    *,
    broadcast: frozenset[str] = frozenset(),
    after: Csn | None = None,
    kept: Sequence[str] = (),
    pretty: bool = False,
) -> str:
    """One statement that computes all the queries: the view's columns, count and csn.

    ``broadcast`` names leaves whose changes are few: they go to every task. ``after``: only rows of later csns.
    ``kept`` are answers that are there already, under these names.
    """
    relation = delta_relation(queries, names, sources, broadcast=broadcast, kept=kept)
    if after is not None:
        columns = [column(name) for name in (*names, COUNT, CSN)]
        later = exp.GT(this=column(CSN), expression=exp.Literal.number(after))
        relation = exp.select(*columns).from_(subquery(relation, "__hw_all"), copy=False).where(later, copy=False)
    return to_text(relation, pretty=pretty)


def delta_relation(
    queries: Sequence[Query],
    names: Sequence[str],
    sources: Sources,
    *,
    broadcast: frozenset[str] = frozenset(),
    kept: Sequence[str] = (),
) -> exp.Query:
    parts: list[exp.Query] = [_Renderer(query, sources, broadcast).result(names) for query in queries]
    parts += [exp.select(*(column(c) for c in (*names, COUNT, CSN))).from_(exp.Table(this=quoted(k))) for k in kept]
    return reduce(lambda left, right: exp.union(left, right, distinct=False, copy=False), parts[1:], parts[0])


def state_relation(plan: Plan, at: Csn, sources: Sources) -> exp.Query:
    """The bag of a plan at a csn, by its attributes."""
    return named_state(plan, plan.attributes, at, sources)


def named_state(plan: Plan, names: Sequence[str], at: Csn, sources: Sources) -> exp.Query:
    """The bag of a plan at a csn, under the given names."""
    query = Query(plan, tuple(Snapshot(at) for _ in scans(plan)), CsnRule.LATEST)
    return _Renderer(query, sources, frozenset()).bag(names)


class _Renderer:
    def __init__(self, query: Query, sources: Sources, broadcast: frozenset[str]) -> None:
        self.query = query
        self.sources = sources
        self.broadcast = broadcast
        self.number = 0

    def bag(self, names: Sequence[str]) -> exp.Query:
        """Of snapshots alone every row stands for itself."""
        plan, outputs = _split(self.query.plan)
        select, _, _ = self._block(plan, present=True)
        pairs = zip(names, outputs, strict=True)
        items = [exp.alias_(value.copy(), name, quoted=True) for name, (_, value) in pairs]
        return select.select(*(items or [exp.null()]), copy=False)

    def result(self, names: Sequence[str]) -> exp.Query:
        plan, outputs = _split(self.query.plan)
        select, count, csn = self._block(plan, present=True)
        if self.query.sign < 0:
            count = exp.Neg(this=exp.paren(count))
        items = [exp.alias_(value, name, quoted=True) for name, (_, value) in zip(names, outputs, strict=True)]
        return select.select(
            *items, exp.alias_(count, COUNT, quoted=True), exp.alias_(csn, CSN, quoted=True), copy=False
        )

    def _term(self, leaf: LeafId, present: bool) -> Term | None:
        return self.query.terms[leaf] if present else None

    def _block(self, plan: Plan, present: bool) -> tuple[exp.Select, exp.Expr, exp.Expr]:
        """FROM and WHERE of a block, with the count and csn of its rows; the select list is the caller's."""
        conditions: list[exp.Expr] = []
        while isinstance(plan, Filter):
            # Innermost first, as in the user's text: an inner condition may guard an outer expression.
            conditions.insert(0, plan.condition)
            plan = plan.child
        inputs: tuple[Plan, ...] = (plan,)
        if isinstance(plan, Join):
            conditions.extend(plan.conditions)
            inputs = plan.children
        ordered = self._ordered([self._input(each, present) for each in inputs], conditions)
        select, rest = self._from(ordered, conditions)
        for condition in rest:
            select = select.where(condition.copy(), copy=False)
        hinted = [each.alias for each in ordered if each.small] if len(ordered) > 1 else []
        if hinted:
            names = [exp.to_table(f"`{name}`", dialect="spark") for name in hinted]
            select.set("hint", exp.Hint(expressions=[exp.Anonymous(this="BROADCAST", expressions=names)]))
        rule = latest_csn if self.query.rule is CsnRule.LATEST else earliest_csn
        count = reduce(lambda left, right: exp.Mul(this=left, expression=right), [each.count for each in ordered])
        return select, count, rule([each.csn for each in ordered])

    def _input(self, plan: Plan, present: bool) -> _Rendered:
        self.number += 1
        alias = f"__hw_{self.number}"  # no alias of the user's: its count and csn are columns beside theirs
        if isinstance(plan, Scan):
            term = self._term(plan.leaf, present)
            count, csn = column(f"{plan.alias}.{COUNT}"), column(f"{plan.alias}.{CSN}")
            small = plan.alias in self.broadcast if isinstance(term, BaseDelta) else self._is_small(plan, term)
            return _Rendered(leaf_relation(plan, term, self.sources), plan, alias, count, csn, small)
        count_name, csn_name = f"{alias}.{COUNT}", f"{alias}.{CSN}"
        relation = self._nested(plan, present, plan.attributes, count_name, csn_name)
        return _Rendered(relation, plan, alias, column(count_name), column(csn_name), False)

    def _is_small(self, scan: Scan, term: Term | None) -> bool:
        return isinstance(term, Snapshot) and scan.table in self.sources.small

    def _nested(
        self, plan: Plan, present: bool, attributes: Sequence[str], count_name: str, csn_name: str
    ) -> exp.Query:
        if isinstance(plan, Union):
            marked = self.query.marked & leaves(plan)
            parts = []
            for child in plan.children:
                # A branch without all the marked leaves contributes nothing but its types.
                taking_part = present and marked <= leaves(child)
                parts.append(self._nested(child, taking_part, attributes, count_name, csn_name))
            return reduce(lambda left, right: exp.union(left, right, distinct=False, copy=False), parts)
        if isinstance(plan, Generate):
            return self._generated(plan, present, attributes, count_name, csn_name)
        plan, outputs = _split(plan)
        select, count, csn = self._block(plan, present)
        items = [
            exp.alias_(value.copy(), name, quoted=True) for name, (_, value) in zip(attributes, outputs, strict=True)
        ]
        return select.select(
            *items, exp.alias_(count, count_name, quoted=True), exp.alias_(csn, csn_name, quoted=True), copy=False
        )

    def _generated(
        self, plan: Generate, present: bool, attributes: Sequence[str], count_name: str, csn_name: str
    ) -> exp.Query:
        """LATERAL VIEW on a relation of its own."""
        self.number += 1
        rows, made = f"__hw_{self.number}", f"__hw_{self.number}_made"
        inner = self._nested(plan.child, present, plan.child.attributes, COUNT, CSN)
        lateral = exp.Lateral(
            this=plan.generator.copy(),
            view=True,
            outer=plan.outer,
            alias=exp.TableAlias(this=quoted(made), columns=[quoted(name) for name in plan.outputs]),
        )
        items = [
            exp.alias_(column(own), name, quoted=True) for own, name in zip(plan.attributes, attributes, strict=True)
        ]
        select = exp.select(
            *items,
            exp.alias_(column(COUNT), count_name, quoted=True),
            exp.alias_(column(CSN), csn_name, quoted=True),
            copy=False,
        ).from_(exp.Subquery(this=inner, alias=exp.TableAlias(this=quoted(rows))), copy=False)
        select.set("laterals", [lateral])
        return select

    def _ordered(self, inputs: list[_Rendered], conditions: Iterable[exp.Expr]) -> list[_Rendered]:
        """Inputs from a changed one along the join conditions."""
        needs = [attributes_of(condition) for condition in conditions]
        marked = self.query.marked
        pending = sorted(inputs, key=lambda each: not (marked & leaves(each.plan)))
        ordered = [pending.pop(0)]
        while pending:
            have = {name for each in ordered for name in each.plan.attributes}
            connected = next(
                (each for each in pending if any(_connects(need, have, each.plan) for need in needs)), pending[0]
            )
            pending.remove(connected)
            ordered.append(connected)
        return ordered

    def _from(self, ordered: list[_Rendered], conditions: list[exp.Expr]) -> tuple[exp.Select, list[exp.Expr]]:
        """Join the inputs in order, each condition at the first join where all its attributes are there."""
        rest = list(conditions)
        select = exp.Select().from_(subquery(ordered[0].relation, ordered[0].alias), copy=False)
        have = set(ordered[0].plan.attributes)
        for each in ordered[1:]:
            have |= set(each.plan.attributes)
            own = set(each.plan.attributes)
            ready = [
                c for c in rest if attributes_of(c) <= have and attributes_of(c) & own and not attributes_of(c) <= own
            ]
            rest = [c for c in rest if c not in ready]
            on = exp.and_(*(c.copy() for c in ready)) if ready else None
            select = select.join(
                subquery(each.relation, each.alias), on=on, join_type="INNER" if ready else "CROSS", copy=False
            )
        return select, rest


def _split(plan: Plan) -> tuple[Plan, tuple[tuple[str, exp.Expr], ...]]:
    """A plan without its topmost projection, and what that projects."""
    if isinstance(plan, Project):
        return plan.child, plan.outputs
    return plan, tuple((name, column(name)) for name in plan.attributes)


def _connects(need: set[str], have: set[str], plan: Plan) -> bool:
    own = set(plan.attributes)
    return bool(need & have) and bool(need & own) and need <= have | own
