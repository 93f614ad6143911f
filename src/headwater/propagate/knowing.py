"""What the queries of a step may rest on: constraints that are checked on its changes before it runs.

``trust`` says what to look at, ``headwater.sql.verification`` how, ``integrity`` what then need not be computed. Here
the looking is done: all checks of a step are one statement, which also counts the insertions and deletions of every
csn of the tables that others refer to. What it finds is recorded in the catalog, under the lease of whoever asks, and
the step is planned with it.

A constraint found broken is told (``broken``), recorded with the keys that break it, and not used from that csn on: the
step's queries are run uncut. It is used again when somebody has verified it on a later state (``headwater.declaring``).
Whole states are never looked at on the way of a refresh.

Only foreign keys that a block of the view joins on, the keys that these refer to, and a key by which the view's own
rows tell a change (``completing``) are looked at. A view without any asks nothing and costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeAlias

from headwater.algebra.constraints import Constraint, ForeignKey, Holding, Knowledge, Unique
from headwater.algebra.nodes import blocks_of
from headwater.algebra.plan import Plan, scans
from headwater.algebra.product import products
from headwater.algebra.query import Query
from headwater.algebra.time import Csn, Interval
from headwater.catalog.constraints import Seen
from headwater.catalog.fencing import Held
from headwater.catalog.records import JsonObject, ViewRecord
from headwater.context import Context
from headwater.definition import CatalogMoments, Definition
from headwater.engine.failures import translated
from headwater.errors import HeadwaterError, UnknownName
from headwater.propagate.completing import telling_keys
from headwater.propagate.extents import table_extent
from headwater.propagate.fates import change_by_fates
from headwater.propagate.frontier import ChangeLog
from headwater.propagate.integrity import cut, cut_staged, references
from headwater.propagate.moments import moments_of
from headwater.propagate.same_columns import says_the_same
from headwater.propagate.tree_stages import StagedDelta
from headwater.propagate.trust import Check, Standing, checks, knowledge, learned
from headwater.sql.verification import (
    BROKEN,
    DeltaRelations,
    Finding,
    Relations,
    change_check,
    findings_sql,
    state_check,
)

KEYS_TOLD = 5  # of those that break a constraint
_STATE = "@state"  # no part of a constraint's name

Ask: TypeAlias = Callable[[str], Sequence[Finding]]
"""Runs a statement of ``findings_sql``."""


@dataclass(frozen=True, slots=True)
class CountedSigns:
    """The kinds of changes in an interval, from how many rows each csn inserted and deleted; elsewhere nothing known.

    ``counted`` has a table only if all its csns in ``within`` are there.
    """

    log: ChangeLog
    within: Interval
    counted: Mapping[str, Mapping[Csn, tuple[int, int]]] = field(default_factory=dict)

    def has_changes(self, table: str, interval: Interval) -> bool:
        return self.log.has_changes(table, interval)

    def only_inserts(self, table: str, interval: Interval) -> bool:
        return self._none(table, interval, 1)

    def only_deletes(self, table: str, interval: Interval) -> bool:
        return self._none(table, interval, 0)

    def _none(self, table: str, interval: Interval, which: int) -> bool:
        if not self.log.has_changes(table, interval):
            return True
        if table not in self.counted or interval.start < self.within.start or interval.end > self.within.end:
            return False
        return not any(counts[which] for csn, counts in self.counted[table].items() if csn in interval)


@dataclass(slots=True)
class Integrity:
    """What is known while a step runs; ``broken`` tells which constraints its changes were found to break.

    ``queries`` and ``left`` count what was given and what was left of it.
    """

    known: Knowledge = field(default_factory=Knowledge)
    log: CountedSigns | None = None
    broken: Mapping[str, JsonObject] = field(default_factory=dict)
    unchecked: JsonObject | None = None  # why the checks could not be made
    queries: int = 0
    left: int = 0
    pieces: list[str] = field(default_factory=list)  # into which changes were taken apart

    def cut(self, queries: Sequence[Query]) -> tuple[Query, ...]:
        """The queries without those, and without the parts, that must be empty; counted."""
        left = self.left_of(queries)
        self.queries += len(queries)
        self.left += len(left)
        return left

    def left_of(self, queries: Sequence[Query]) -> tuple[Query, ...]:
        if (log := self.log) is None or not self.known.foreign_keys:
            return tuple(queries)
        return tuple(kept for query in queries if (kept := cut(query, self.known, log)) is not None)

    def cut_staged(self, delta: StagedDelta) -> StagedDelta:
        left = self.left_of_staged(delta)
        self.queries += len(delta.queries())
        self.left += len(left.queries())
        return left

    def left_of_staged(self, delta: StagedDelta) -> StagedDelta:
        if self.log is None or not self.known.foreign_keys:
            return delta
        return cut_staged(delta, self.known, self.log)

    def splits(self, plan: Plan, interval: Interval, left: Sequence[Query]) -> bool:
        """Whether taking changes apart by the fates of their keys could spare some of what ``cut`` has ``left``:
        queries about all changes of a table that others refer to."""
        if self.log is None or not self.known.foreign_keys:
            return False
        changing = {scan.table for query in left for scan in scans(query.plan) if query.marked == {scan.leaf}}
        if changing.isdisjoint(each.referred_table for each in self.known.foreign_keys):
            return False
        found = [piece.name for piece in change_by_fates(plan, interval, self.log, self.known).pieces]
        self.pieces += found
        return bool(found)

    def as_json(self) -> JsonObject:
        told = {"queries": self.queries, "cut": self.queries - self.left, "broken": dict(self.broken)}
        told |= {"pieces": self.pieces} if self.pieces else {}
        return told if self.unchecked is None else {**told, "unchecked": self.unchecked}


def integrity_of_step(
    context: Context, lease: Held, view: ViewRecord, definition: Definition, interval: Interval
) -> Integrity:
    """Check what a step over the interval can use, and record what was found."""
    seen = context.catalog.seen_constraints()
    plans = blocks_of(definition.plan, definition.nodes)
    moments = moments_of(context, definition)
    worth = _Worth(context, definition, moments)
    declared = [each.record.constraint for each in seen]
    wanted = useful(plans, [each for each in declared if not isinstance(each, ForeignKey) or worth(each)])
    wanted |= telling_keys(context, view, definition, declared, interval)
    kept = keys_of_sources(context, definition)
    if not wanted:
        return Integrity(kept)
    try:
        own = [
            each
            for each in seen
            if each.record.constraint in wanted and _stands(context, lease, moments, each, interval)
        ]
        todo = needed(plans, interval, own, moments)
        usable = [each.record.constraint for each in own if each.record.held is not None]
        referred = {each.referred_table for each in usable if isinstance(each, ForeignKey)}
        signed = sorted(table for table in referred if moments.has_changes(table, interval))
        found = look(DeltaRelations(moments), todo, signed, interval, lambda text: ask(context, text))
    except HeadwaterError as error:  # what keeps the step from being run, if anything, it says itself
        context.progress(f"constraints could not be checked and are not used: {error.message}")
        return Integrity(kept, unchecked=error.as_dict())
    for name, problem in found.broken.items():
        context.progress(f"constraint {name} is broken at csn {problem['csn']}: not used from there on")
    record(context, lease, todo, found)
    after = {each.record.name: standing(each) for each in own}
    for each, check in todo.checks:
        name = each.record.name
        after[name] = learned(after[name], check, found.first_broken(name))
    known = Knowledge(knowledge(after.values()).holdings + kept.holdings)
    return Integrity(known, CountedSigns(moments, interval, found.signs), found.broken)


def _stands(context: Context, lease: Held, moments: CatalogMoments, seen: Seen, interval: Interval) -> bool:
    """Whether what is known of a constraint is about the columns that a step reads; if not, it is forgotten."""
    held = seen.record.held
    if held is None or held.end >= interval.end:
        return True
    if says_the_same(context, moments, seen.record.constraint, Interval(held.end, interval.end)):
        return True
    context.progress(f"constraint {seen.record.name} is about other columns by now: not used until it is verified anew")
    context.catalog.forget_constraint(lease, seen.record.name)
    return False


def keys_of_sources(context: Context, definition: Definition) -> Knowledge:
    """The primary keys that databases keep themselves; capture forgets one before it numbers what may break it."""
    found = []
    for table in definition.tables:
        mirror = context.catalog.mirror(table)
        if mirror is not None and mirror.described.get("key_oid") is not None:
            key = Unique(table, tuple(mirror.described["key"]), primary=True)
            since = context.catalog.base_table(table).since_csn
            found.append(Holding(key, Interval(since, context.catalog.newest_csn())))
    return Knowledge(tuple(found))


@dataclass(frozen=True, slots=True)
class _Worth:
    """Whether a foreign key may spare reading much: changes of the table that it refers to meet a large one.

    Where the keys of a change lie in a few ranges, few files of the large table are read anyhow: less than the check.
    """

    context: Context
    definition: Definition
    moments: CatalogMoments

    def __call__(self, foreign_key: ForeignKey) -> bool:
        limit = self.context.sizes.checked
        scan = next((each for each in self.definition.leaves if each.table == foreign_key.table), None)
        if scan is None or scan.table not in self.definition.tables or not limit:
            return scan is not None
        extent = table_extent(self.context, self.definition, self.moments, scan)
        return extent.rows >= limit and not any(name in extent.grids for name in foreign_key.columns)


def useful(plans: Sequence[Plan], declared: Sequence[Constraint]) -> frozenset[Constraint]:
    """The foreign keys that a product of the plans joins on, and the keys that they refer to."""
    foreign = [each for each in declared if isinstance(each, ForeignKey)]
    named = {scan.table for plan in plans for scan in scans(plan)}
    foreign = [each for each in foreign if each.tables <= named]
    if not foreign:
        return frozenset()
    joined = {each.foreign_key for plan in plans for product in products(plan) for each in references(product, foreign)}
    keys = {
        each
        for each in declared
        if not isinstance(each, ForeignKey) and any(reference.refers_to(each) for reference in joined)
    }
    return frozenset([*joined, *keys])


def standing(seen: Seen) -> Standing:
    broken = seen.record.broken
    return Standing(seen.record.constraint, seen.record.held, None if broken is None else Csn(broken["csn"]))


@dataclass(frozen=True, slots=True)
class Todo:
    """The checks to make, each with what was seen of its constraint."""

    checks: tuple[tuple[Seen, Check], ...] = ()


def needed(plans: Sequence[Plan], interval: Interval, seen: Sequence[Seen], log: ChangeLog) -> Todo:
    """The checks of changes alone that a step over the interval needs."""
    by_constraint = {each.record.constraint: each for each in seen}
    found: dict[Constraint, Check] = {}
    for plan in plans:
        for check in checks(plan, interval, [standing(each) for each in seen], log, states=False):
            found[check.constraint] = check
    return Todo(tuple((by_constraint[constraint], check) for constraint, check in found.items()))


@dataclass(frozen=True, slots=True)
class Looked:
    """What a look found: by constraint how it is broken, by table what each csn did."""

    broken: Mapping[str, JsonObject] = field(default_factory=dict)
    signs: Mapping[str, Mapping[Csn, tuple[int, int]]] = field(default_factory=dict)

    def first_broken(self, name: str) -> Csn | None:
        return Csn(self.broken[name]["csn"]) if name in self.broken else None


def look(relations: Relations, todo: Todo, signed: Sequence[str], over: Interval, asked: Ask) -> Looked:
    """Carry out checks by one statement; ``signed`` are tables whose insertions and deletions are counted too."""
    statements = {}
    for seen, check in todo.checks:
        constraint, name = check.constraint, seen.record.name
        if check.state:
            statements[f"{name}{_STATE}"] = (
                constraint,
                state_check(constraint, relations, check.changes.start, KEYS_TOLD),
            )
        query = None if check.changes.is_empty else change_check(constraint, relations, check.changes, KEYS_TOLD)
        if query is not None:
            statements[name] = constraint, query
    changes = {table: relations.changes(table, (), over) for table in signed}
    signs = {table: query for table, query in changes.items() if query is not None}
    if not statements and not signs:
        return Looked()
    broken: dict[str, list[Finding]] = {}
    counted: dict[str, dict[Csn, tuple[int, int]]] = {table: {} for table in signs}
    for finding in asked(findings_sql(statements, signs)):
        if finding.about == BROKEN:
            broken.setdefault(finding.name.removesuffix(_STATE), []).append(finding)
        else:
            counted[finding.name][Csn(finding.csn)] = finding.rows, finding.deleted or 0
    return Looked({name: _problem(found) for name, found in broken.items()}, counted)


def _problem(found: Sequence[Finding]) -> JsonObject:
    """The first csn at which a constraint is broken, and keys that break it there."""
    csn = min(each.csn for each in found)
    told = sorted((str(each.key), each.rows) for each in found if each.csn == csn)
    return {"csn": csn, "keys": [{"key": key, "rows": rows} for key, rows in told[:KEYS_TOLD]]}


def ask(context: Context, text: str) -> list[Finding]:
    with translated("checking constraints"):
        # As many rows as checks may tell keys, and one for each table and csn.
        rows = context.engine.compute(text).collect()
    return [
        Finding(row[0], row[1], int(row[2]), row[3], int(row[4]), None if row[5] is None else int(row[5]))
        for row in rows
    ]


def record(context: Context, lease: Held, todo: Todo, found: Looked) -> None:
    for seen, check in todo.checks:
        name = seen.record.name
        with suppress(UnknownName):  # undeclared meanwhile
            if name in found.broken:
                problem = dict(found.broken[name])
                context.catalog.break_constraint(lease, name, Csn(problem.pop("csn")), problem)
            else:
                context.catalog.hold_constraint(lease, name, check.changes, seen)
