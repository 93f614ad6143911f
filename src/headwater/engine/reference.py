"""The reference engine, the executable specification: propagation queries run in memory over whole histories.

It is written to be read and believed, not to be fast. A table's history is the list of its changes, and everything
follows from it: the state at t is the net effect of the changes up to t [Salem00 §3.4, footnote 3], a base delta is
a selection of them, and a present table is the state at the newest csn, which is the execution time that the engine
reports. Joins multiply counts and combine csns by one of two rules, ``latest_csn`` for snapshots at their own
moments and ``earliest_csn`` for tables read at one execution time with compensation [Salem00 §2, §3.3]; a query
names its rule and no rule is a special case of the other.

Every other engine must give, for every query, an answer with the same consolidated rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from sqlglot import exp

from headwater.algebra.plan import Attribute, Filter, Generate, Join, LeafId, Plan, Project, Scan, Union, scans
from headwater.algebra.query import BaseDelta, CsnRule, Patched, Present, Query, Snapshot, Term
from headwater.algebra.scalar import compile_scalar
from headwater.algebra.time import BEGINNING, Csn, Interval
from headwater.algebra.zset import Entry, Row, ZSet

Combine: TypeAlias = Callable[[Csn | None, Csn | None], Csn | None]


def latest_csn(left: Csn | None, right: Csn | None) -> Csn | None:
    """The csn of a joined row whose parts are seen at their own moments: it changes when the last of them does."""
    if left is None or right is None:
        return right if left is None else left
    return max(left, right)


def earliest_csn(left: Csn | None, right: Csn | None) -> Csn | None:
    """The csn of a joined row whose parts are seen at one execution time and compensated for [Salem00 §3.3]."""
    if left is None or right is None:
        return right if left is None else left
    return min(left, right)


@dataclass(slots=True)
class History:
    """What happened to every table: (csn, row, count), ascending by csn; csn 0 holds what was there before."""

    changes: dict[str, list[tuple[Csn, Row, int]]] = field(default_factory=dict)
    now: Csn = BEGINNING  # the newest committed csn

    @classmethod
    def beginning_with(cls, tables: Mapping[str, Iterable[Row]]) -> History:
        return cls({table: [(BEGINNING, row, 1) for row in rows] for table, rows in tables.items()})

    def commit(self, unit_of_work: Mapping[str, Iterable[tuple[Row, int]]]) -> Csn:
        """Append one unit of work (possibly of no change at all) and return its csn."""
        self.now = Csn(self.now + 1)
        for table, changes in unit_of_work.items():
            self.changes.setdefault(table, []).extend((self.now, row, count) for row, count in changes)
        return self.now

    def state(self, table: str, at: Csn) -> ZSet:
        """R @ t: counts summed, no csns."""
        return ZSet.of((row, count, None) for csn, row, count in self.changes.get(table, ()) if csn <= at).net_effect()

    def base_delta(self, table: str, interval: Interval) -> ZSet:
        """ΔR(a, b]: the changes as they happened, cancelling ones included."""
        return ZSet.of((row, count, csn) for csn, row, count in self.changes.get(table, ()) if csn in interval)

    def has_changes(self, table: str, interval: Interval) -> bool:
        return any(csn in interval for csn, _, _ in self.changes.get(table, ()))

    def rows_by_csn(self, table: str, interval: Interval) -> Sequence[tuple[Csn, int]]:
        sizes: dict[Csn, int] = {}
        for csn, _, _ in self.changes.get(table, ()):
            if csn in interval:
                sizes[csn] = sizes.get(csn, 0) + 1
        return sorted(sizes.items())


@dataclass(frozen=True, slots=True)
class Answer:
    rows: ZSet
    execution_time: Csn  # the csn as of which present tables were read


@dataclass(frozen=True, slots=True)
class ReferenceEngine:
    history: History

    def run(self, query: Query) -> Answer:
        """The query's answer with its sign applied; present tables are read at the history's newest csn."""
        execution_time = self.history.now
        live = query.live_plan()
        if live is None:
            return Answer(ZSet(), execution_time)
        inputs = {scan.leaf: self._read(scan.table, query.terms[scan.leaf], execution_time) for scan in scans(live)}
        rows = evaluate_plan(live, inputs, _rule(query.rule))
        return Answer(rows if query.sign > 0 else -rows, execution_time)

    def view_at(self, plan: Plan, at: Csn) -> ZSet:
        """V(t), recomputed from the tables at t: what every other way of getting V(t) is compared with."""
        snapshots = tuple(Snapshot(at) for _ in scans(plan))
        return self.run(Query(plan, snapshots, CsnRule.LATEST)).rows.net_effect()

    def with_changes(self, name: str, rows: ZSet) -> ReferenceEngine:
        """The same engine with one more relation, of which only its changes are known: a staged answer."""
        if name in self.history.changes:
            raise ValueError(f"there is a relation {name!r} already")
        changes = []
        for row, count, csn in rows:
            if csn is None:
                raise ValueError(f"a row of the changes {name!r} has no csn")
            changes.append((csn, row, count))
        return ReferenceEngine(History({**self.history.changes, name: changes}, self.history.now))

    def _read(self, table: str, term: Term, execution_time: Csn) -> ZSet:
        match term:
            case Snapshot(at=at):
                return self.history.state(table, at)
            case BaseDelta(interval=interval):
                return self.history.base_delta(table, interval)
            case Patched(interval=interval):
                return self.history.state(table, interval.start) + self.history.base_delta(table, interval)
            case Present():
                return self.history.state(table, execution_time)


def evaluate_plan(plan: Plan, inputs: Mapping[LeafId, ZSet], combine: Combine) -> ZSet:
    """The plan over the given leaves; csns of joined rows are combined by the rule."""
    match plan:
        case Scan(leaf=leaf):
            return inputs[leaf]
        case Filter(child=child, condition=condition):
            keeps = compile_scalar(condition, child.attributes)
            return evaluate_plan(child, inputs, combine).where(lambda row: keeps(row) is True)
        case Project(child=child, outputs=outputs):
            values = [compile_scalar(expression, child.attributes) for _, expression in outputs]
            return evaluate_plan(child, inputs, combine).project(lambda row: tuple(value(row) for value in values))
        case Join(children=children, conditions=conditions):
            parts = [(child.attributes, evaluate_plan(child, inputs, combine)) for child in children]
            return _join(parts, conditions, combine)
        case Generate():
            raise ValueError(f"{plan.generator.sql('spark')} is a function of Spark; the reference engine has none")
        case Union(children=children):
            together = ZSet()
            for child in children:
                together += evaluate_plan(child, inputs, combine)
            return together


def _join(
    parts: Sequence[tuple[tuple[Attribute, ...], ZSet]], conditions: Sequence[exp.Expr], combine: Combine
) -> ZSet:
    """Nested loops from left to right; a condition is tested as soon as all its attributes are there."""
    attributes: tuple[Attribute, ...] = ()
    joined: list[Entry] = [((), 1, None)]
    pending = list(conditions)
    for names, part in parts:
        attributes += names
        ready = [condition for condition in pending if _attributes_of(condition) <= set(attributes)]
        pending = [condition for condition in pending if condition not in ready]
        tests = [compile_scalar(condition, attributes) for condition in ready]
        extended: list[Entry] = []
        for left, left_count, left_csn in joined:
            for right, right_count, right_csn in part:
                row = left + right
                if all(test(row) is True for test in tests):
                    extended.append((row, left_count * right_count, combine(left_csn, right_csn)))
        joined = extended
    if pending:
        raise ValueError(f"{pending[0].sql('spark')} reads attributes that the join does not have")
    return ZSet(tuple(joined))


def _attributes_of(condition: exp.Expr) -> set[Attribute]:
    return {column.name for column in condition.find_all(exp.Column)}


def _rule(rule: CsnRule) -> Combine:
    match rule:
        case CsnRule.LATEST:
            return latest_csn
        case CsnRule.EARLIEST:
            return earliest_csn
