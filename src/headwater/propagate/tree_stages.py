"""From a delta tree to what an engine runs: relations staged one after another, and the queries of the answer.

Every inner node of the tree becomes one **stage**, a relation of changes with counts and csns that is computed once,
by its own queries, and read by later ones as if it were the base delta of a table of that name. The root is not staged:
its queries are the answer. So the only new thing that an engine needs is to keep an answer under a name; queries are
the ones it runs already, with the latest csn rule, and how many rows a stage really has is known before anything
above it runs.

A query of a node joins, for one term of [Lee01 §3.1, Definition 1], the changes of one part (a base delta, or the
part's stage) with the leaves of all others, from the changes outward along the join conditions. A condition is
tested in the first stage that has all its leaves, and a stage keeps just the attributes that somebody still needs.

``NewSide`` names how a part stands that has already changed (left of the changed one):

- ``LEAVES``: each leaf as R @ a + ΔR(a, b]. Right at every csn of the interval.
- ``PARTS``: in a node of two parts, the first as its join at a, plus its change, which is staged anyway: ``Δ ⋈ P @ a``
  and ``Δ ⋈ Δ(⋈P)`` instead of one join over leaves of two pieces each. By the law, and as the csns of a change are what
  the law is about, P @ a + Δ(⋈P) is the join of the patched leaves, csn by csn. With three parts or more a second query
  would read the other parts twice; there it is the same as ``LEAVES``.
- ``ENDS``: each leaf as the snapshot at b. Cheaper, and right at b alone: its csns are lost (``delta_tree``). For those
  who promise that nobody will ask for a moment inside the interval.

Products of a plan with unions are staged one by one; equal stages are made once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import reduce

from sqlglot import exp

from headwater.algebra.plan import Attribute, Filter, Generate, Join, LeafId, Plan, Project, Scan, scans
from headwater.algebra.product import Product, attributes_of
from headwater.algebra.query import BaseDelta, CsnRule, Patched, Query, Snapshot, Term
from headwater.algebra.time import Interval
from headwater.algebra.zset import ZSet
from headwater.engine.reference import ReferenceEngine
from headwater.errors import InternalError
from headwater.propagate.delta_tree import DeltaTerm, DeltaTree, LeafDelta, NodeDelta, leaves_in_order, leaves_of, terms


class NewSide(Enum):
    LEAVES = "leaves"
    PARTS = "parts"
    ENDS = "ends"


@dataclass(frozen=True, slots=True)
class Stage:
    """Changes under a name: the sum of the queries' answers, which later queries read as ``BaseDelta(interval)``."""

    name: str
    leaves: frozenset[LeafId]  # of the view: the stage is the change of their join
    queries: tuple[Query, ...]

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        return self.queries[0].plan.attributes


@dataclass(frozen=True, slots=True)
class StagedDelta:
    """Stages in the order in which they are computed, each from tables and earlier ones, and the queries whose answers,
    cut to the interval by csn, are the view delta."""

    interval: Interval
    stages: tuple[Stage, ...]
    answer: tuple[Query, ...]

    def queries(self) -> tuple[Query, ...]:
        return (*(query for stage in self.stages for query in stage.queries), *self.answer)


def staged_delta(
    blocks: Iterable[tuple[Product, DeltaTree]],
    interval: Interval,
    changed: frozenset[LeafId],
    new_side: NewSide = NewSide.LEAVES,
) -> StagedDelta:
    """What computes the change of a sum of products over the interval, each by its tree; only ``changed`` leaves have
    changes in it."""
    stages: list[Stage] = []
    answer: list[Query] = []
    for product, tree in blocks:
        if leaves_of(tree) != frozenset(product.leaves):
            raise InternalError(f"a product of the leaves {product.leaves} was given a tree over {leaves_of(tree)}")
        answer.extend(_Staging(product, interval, changed, new_side, stages).answer(tree))
    return StagedDelta(interval, tuple(stages), tuple(answer))


def reads_of_changes(delta: StagedDelta) -> Mapping[str, int]:
    """How many queries read the changes of each table and each stage: what is read more than once is worth keeping."""
    return Counter(
        scan.table
        for query in delta.queries()
        for scan in scans(query.plan)
        if isinstance(query.terms[scan.leaf], BaseDelta | Patched)
    )


def without(delta: StagedDelta, empty: Stage) -> StagedDelta:
    """The rest once a stage has turned out to have no rows: queries that join it are gone, and so are stages that have
    no other."""
    gone = {empty.name}
    kept: list[Stage] = []
    for stage in delta.stages:
        queries = tuple(query for query in stage.queries if not _reads(query, gone))
        if stage.name in gone or not queries:
            gone.add(stage.name)
        else:
            kept.append(replace(stage, queries=queries))
    return StagedDelta(delta.interval, tuple(kept), tuple(query for query in delta.answer if not _reads(query, gone)))


def evaluate(delta: StagedDelta, engine: ReferenceEngine) -> ZSet:
    """The view delta on the reference engine."""
    for stage in delta.stages:
        engine = engine.with_changes(stage.name, _sum(stage.queries, engine))
    return _sum(delta.answer, engine).select(delta.interval)


def _sum(queries: Iterable[Query], engine: ReferenceEngine) -> ZSet:
    return reduce(ZSet.add, (engine.run(query).rows for query in queries), ZSet())


def _reads(query: Query, names: set[str]) -> bool:
    return any(scan.table in names for scan in scans(query.plan))


@dataclass(frozen=True, slots=True)
class _Input:
    """What stands in a query: a leaf of the view, or a stage, with the leaves of the view that it covers."""

    scan: Scan
    term: Term
    leaves: frozenset[LeafId]
    tested: bool  # whether the conditions over its leaves hold already


class _Staging:
    """The stages of one product, added to those of the products before it."""

    def __init__(
        self,
        product: Product,
        interval: Interval,
        changed: frozenset[LeafId],
        new_side: NewSide,
        stages: list[Stage],
    ) -> None:
        self.product = product
        self.interval = interval
        self.changed = changed & frozenset(product.leaves)
        self.new_side = new_side
        self.stages = stages
        self.scans = {scan.leaf: scan for scan in product.scans}
        early = [condition for condition in product.conditions if not product.is_late(condition)]
        self.conditions = [(condition, product.leaves_of(condition)) for condition in early]
        above = [value for _, value in product.outputs] + [each.expression for each in product.generators]
        above += [condition for condition in product.conditions if product.is_late(condition)]
        self.read_above = {name for value in above for name in attributes_of(value)}

    def answer(self, tree: DeltaTree) -> list[Query]:
        if not self.changed:
            return []
        match tree:
            case LeafDelta(leaf=leaf):
                return [self._answering([self._leaf(leaf, BaseDelta(self.interval))])]
            case NodeDelta():
                return [self._answering(inputs) for inputs in self._node(tree)]

    def _node(self, node: NodeDelta) -> list[list[_Input]]:
        """The joins whose sum is the node's change; stages for the nodes below are made on the way."""
        changes = {part: self._changes(part) for part in node.parts if leaves_of(part) & self.changed}
        return [join for term in terms(node, self.changed) for join in self._joins(term, changes)]

    def _changes(self, part: DeltaTree) -> _Input:
        match part:
            case LeafDelta(leaf=leaf):
                return self._leaf(leaf, BaseDelta(self.interval))
            case NodeDelta():
                stage = self._stage(part)
                scan = Scan(LeafId(0), stage.name, stage.name, stage.attributes, stage.attributes)
                return _Input(scan, BaseDelta(self.interval), stage.leaves, tested=True)

    def _joins(self, term: DeltaTerm, changes: Mapping[DeltaTree, _Input]) -> list[list[_Input]]:
        start = changes[term.changed]
        old = [self._old(leaf) for part in term.old for leaf in leaves_in_order(part)]
        match term.new:
            case (NodeDelta() as part,) if not old and part in changes and self.new_side is NewSide.PARTS:
                return [[start, *(self._old(leaf) for leaf in leaves_in_order(part))], [start, changes[part]]]
            case parts:
                return [[start, *(self._new(leaf) for part in parts for leaf in leaves_in_order(part)), *old]]

    def _leaf(self, leaf: LeafId, term: Term) -> _Input:
        return _Input(self.scans[leaf], term, frozenset([leaf]), tested=False)

    def _old(self, leaf: LeafId) -> _Input:
        return self._leaf(leaf, Snapshot(self.interval.start))

    def _new(self, leaf: LeafId) -> _Input:
        if leaf not in self.changed:
            return self._old(leaf)
        return self._leaf(
            leaf, Snapshot(self.interval.end) if self.new_side is NewSide.ENDS else Patched(self.interval)
        )

    def _stage(self, node: NodeDelta) -> Stage:
        leaves = leaves_of(node)
        queries = tuple(self._staging(inputs, leaves) for inputs in self._node(node))
        for stage in self.stages:
            if stage.queries == queries:
                return stage
        joined = " ⋈ ".join(self.scans[leaf].alias for leaf in leaves_in_order(node))
        stage = Stage(f"Δ{len(self.stages) + 1}({joined})", leaves, queries)
        self.stages.append(stage)
        return stage

    def _staging(self, inputs: Sequence[_Input], leaves: frozenset[LeafId]) -> Query:
        needed = self.read_above | {
            name for condition, read in self.conditions if not read <= leaves for name in attributes_of(condition)
        }
        plan, listed = self._joined(inputs, leaves)
        kept = sorted(name for name in plan.attributes if name in needed)
        outputs = tuple((name, exp.column(name, quoted=True)) for name in kept)
        return Query(Project(plan, outputs), tuple(each.term for each in listed), CsnRule.LATEST)

    def _answering(self, inputs: Sequence[_Input]) -> Query:
        plan, listed = self._joined(inputs, frozenset(self.product.leaves))
        for generator in self.product.generators:
            plan = Generate(plan, generator.expression, generator.outer, generator.outputs)
        for condition in self.product.conditions:
            if self.product.is_late(condition):
                plan = Filter(plan, condition)
        return Query(Project(plan, self.product.outputs), tuple(each.term for each in listed), CsnRule.LATEST)

    def _joined(self, inputs: Sequence[_Input], leaves: frozenset[LeafId]) -> tuple[Plan, list[_Input]]:
        """The join of the inputs, numbered anew, under the conditions that can be tested now and were not before."""
        whole = leaves == frozenset(self.product.leaves)
        conditions = [
            condition
            for condition, read in self.conditions
            # A condition that reads no leaf is tested once, at the end.
            if (read <= leaves and not any(each.tested and read <= each.leaves for each in inputs) if read else whole)
        ]
        listed = self._along_conditions(inputs)
        children = [replace(each.scan, leaf=LeafId(number)) for number, each in enumerate(listed)]
        if len(children) > 1:
            return Join(tuple(children), tuple(conditions)), listed
        plan: Plan = children[0]
        for condition in conditions:
            plan = Filter(plan, condition)
        return plan, listed

    def _along_conditions(self, inputs: Sequence[_Input]) -> list[_Input]:
        """The changes first, then each time an input that a condition ties to those before it, if there is one."""
        listed, pending = [inputs[0]], list(inputs[1:])
        while pending:
            have = frozenset().union(*(each.leaves for each in listed))
            tied = (
                each
                for each in pending
                if any(read <= have | each.leaves and read & have and read & each.leaves for _, read in self.conditions)
            )
            following = next(tied, pending[0])
            pending.remove(following)
            listed.append(following)
        return listed
