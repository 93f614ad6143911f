"""The view V = π σ (R_1 ⋈ ... ⋈ R_n) [SzeLing00 Eq. 1], with what its sources promise about their relations.

The join graph has the leaves as its nodes and the equalities between attributes of two leaves as its edges: by them
one relation is asked with values of another. All other conditions are tested when the rows of all leaves are
there.

A row of the view tells an attribute when the view shows that attribute or one that the equalities make equal to it.
So attributes form classes, and a class is *shown* when an output is a plain attribute of it. A **key** makes a row of
a relation unique; a **foreign key** says that, after each commit, every row refers to a row of another relation of
the same source. Both are promises of the source, used only to ask less [SzeLing00 §4.2, §4.3].

*Where we depart.* A modification is taken apart when it changes an attribute of *any* condition, or of the key: the
paper names only join attributes, but one that changes a selected attribute may take a row into the view or out of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from headwater.algebra.plan import Attribute, Filter, Join, LeafId, Plan, Project, Scan, scans
from headwater.algebra.scalar import compile_scalar
from headwater.algebra.zset import Row
from headwater.propagate.version_numbers.numbers import SourceName
from headwater.propagate.version_numbers.updates import Change, Deletion, Insertion, Modification, net_changes


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """Every row refers by ``columns`` to the row of ``table`` with the key ``referred``, unless one of them is NULL."""

    columns: tuple[str, ...]
    table: str
    referred: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BaseRelation:
    """Where a table lives and what its source enforces; no key means that rows may stand in it more than once."""

    table: str
    source: SourceName
    key: tuple[str, ...] = ()
    foreign_keys: tuple[ForeignKey, ...] = ()


@dataclass(frozen=True, slots=True)
class JoinView:
    leaves: tuple[Scan, ...]
    relations: tuple[BaseRelation, ...]  # relations[i] is what leaf i reads
    equalities: tuple[tuple[Attribute, Attribute], ...]  # between two leaves each: the edges of the join graph
    conditions: tuple[exp.Expr, ...]  # every other condition
    outputs: tuple[tuple[Attribute, exp.Expr], ...]
    owner: Mapping[Attribute, LeafId] = field(repr=False, compare=False)
    class_of: Mapping[Attribute, Attribute] = field(repr=False, compare=False)  # one attribute stands for its class
    shown: Mapping[Attribute, int] = field(repr=False, compare=False)  # class to the position of an output
    tested: frozenset[Attribute] = field(repr=False, compare=False)  # in an equality or another condition
    _selections: tuple[Callable[[Row], bool], ...] = field(repr=False, compare=False)

    @classmethod
    def of(cls, plan: Plan, relations: Iterable[BaseRelation]) -> JoinView:
        """The view of a plan of one projection over one join; ValueError for any other plan."""
        by_table = {relation.table: relation for relation in relations}
        leaves = tuple(scans(plan))
        outputs, found = _flattened(plan)
        owner = {attribute: scan.leaf for scan in leaves for attribute in scan.attributes}
        equalities: list[tuple[Attribute, Attribute]] = []
        conditions: list[exp.Expr] = []
        for condition in found:
            edge = _equality(condition, owner)
            if edge is None:
                conditions.append(condition)
            else:
                equalities.append(edge)
        class_of = _classes(owner, equalities)
        shown: dict[Attribute, int] = {}
        for position, (_, expression) in enumerate(outputs):
            if isinstance(expression, exp.Column):
                shown.setdefault(class_of[expression.name], position)
        tested = {attribute for edge in equalities for attribute in edge}
        tested.update(attribute for condition in conditions for attribute in attributes_of(condition))
        return cls(
            leaves=leaves,
            relations=tuple(by_table[scan.table] for scan in leaves),
            equalities=tuple(equalities),
            conditions=tuple(conditions),
            outputs=outputs,
            owner=owner,
            class_of=class_of,
            shown=shown,
            tested=frozenset(tested),
            _selections=tuple(_selection(scan, conditions) for scan in leaves),
        )

    def source(self, leaf: LeafId) -> SourceName:
        return self.relations[leaf].source

    def leaves_of(self, table: str) -> tuple[LeafId, ...]:
        return tuple(scan.leaf for scan in self.leaves if scan.table == table)

    def key(self, leaf: LeafId) -> tuple[Attribute, ...]:
        """The attributes of the leaf's key; empty when none is promised."""
        return self.named(leaf, self.relations[leaf].key)

    def named(self, leaf: LeafId, columns: Iterable[str]) -> tuple[Attribute, ...]:
        scan = self.leaves[leaf]
        return tuple(scan.attributes[scan.columns.index(column)] for column in columns)

    def values(self, leaf: LeafId, attributes: Iterable[Attribute], row: Row) -> Row:
        """The row's values of some attributes of its leaf."""
        names = self.leaves[leaf].attributes
        return tuple(row[names.index(attribute)] for attribute in attributes)

    def selects(self, leaf: LeafId, row: Row) -> bool:
        """Whether the conditions on this leaf alone keep the row."""
        return self._selections[leaf](row)

    def shows(self, attributes: Iterable[Attribute]) -> bool:
        return all(self.class_of[attribute] in self.shown for attribute in attributes)

    def positions(self, attributes: Iterable[Attribute]) -> tuple[int, ...]:
        """The outputs that tell these attributes, all of which must be shown."""
        return tuple(self.shown[self.class_of[attribute]] for attribute in attributes)

    def changed(self, leaf: LeafId, change: Modification) -> frozenset[Attribute]:
        names = self.leaves[leaf].attributes
        return frozenset(
            name for name, old, new in zip(names, change.old, change.new, strict=True) if not _same(old, new)
        )

    def as_seen(self, leaf: LeafId, changes: Iterable[Change]) -> tuple[Change, ...]:
        """The net changes as this leaf takes them: a modification that changes where a row joins is a deletion and an
        insertion [SzeLing00 §4.3]."""
        seen: list[Change] = []
        for change in net_changes(changes):
            if isinstance(change, Modification):
                changed = self.changed(leaf, change)
                if changed & self.tested or changed & set(self.key(leaf)):
                    seen += (Deletion(change.old), Insertion(change.new))
                elif changed:
                    seen.append(change)
            else:
                seen.append(change)
        return tuple(seen)


def attributes_of(expression: exp.Expr) -> frozenset[Attribute]:
    return frozenset(column.name for column in expression.find_all(exp.Column))


def _same(old: object, new: object) -> bool:
    return type(old) is type(new) and old == new


def _flattened(plan: Plan) -> tuple[tuple[tuple[Attribute, exp.Expr], ...], list[exp.Expr]]:
    outputs: tuple[tuple[Attribute, exp.Expr], ...]
    if isinstance(plan, Project):
        outputs, plan = plan.outputs, plan.child
    else:
        outputs = tuple((name, exp.column(name, quoted=True)) for name in plan.attributes)
    return outputs, list(_conjuncts(plan))


def _conjuncts(plan: Plan) -> Iterable[exp.Expr]:
    match plan:
        case Scan():
            return
        case Filter(child=child, condition=condition):
            yield from _conjuncts(child)
            yield from _split(condition)
        case Join(children=children, conditions=conditions):
            for child in children:
                yield from _conjuncts(child)
            for condition in conditions:
                yield from _split(condition)
        case _:
            raise ValueError(f"version numbers keep a projection of one join, not a {type(plan).__name__} below it")


def _split(condition: exp.Expr) -> Iterable[exp.Expr]:
    match condition:
        case exp.And():
            yield from _split(condition.this)
            yield from _split(condition.expression)
        case exp.Paren():
            yield from _split(condition.this)
        case _:
            yield condition


def _equality(condition: exp.Expr, owner: Mapping[Attribute, LeafId]) -> tuple[Attribute, Attribute] | None:
    match condition:
        case exp.EQ(this=exp.Column() as left, expression=exp.Column() as right):
            return (left.name, right.name) if owner[left.name] != owner[right.name] else None
        case _:
            return None


def _classes(
    owner: Mapping[Attribute, LeafId], equalities: Iterable[tuple[Attribute, Attribute]]
) -> dict[Attribute, Attribute]:
    class_of = {attribute: attribute for attribute in owner}
    for left, right in equalities:
        kept, joined = class_of[left], class_of[right]
        for attribute, representative in class_of.items():
            if representative == joined:
                class_of[attribute] = kept
    return class_of


def _selection(scan: Scan, conditions: Iterable[exp.Expr]) -> Callable[[Row], bool]:
    own = set(scan.attributes)
    tests = [compile_scalar(condition, scan.attributes) for condition in conditions if attributes_of(condition) <= own]
    return lambda row: all(test(row) is True for test in tests)
