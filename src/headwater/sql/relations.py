"""What stands at a leaf: Delta's snapshots and change feeds as SQL relations with count and csn.

Every relation has the scan's attributes, ``count`` (signed multiplicity) and ``csn`` (NULL where a row is older than
all changes). A leaf that takes no part in a query is an empty relation of the same types, so that Spark sees the
whole union and coerces its types exactly as it does for the user's own text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Protocol, TypeAlias

from sqlglot import exp

from headwater.algebra.plan import Scan
from headwater.algebra.query import BaseDelta, Patched, Present, Snapshot, Term
from headwater.algebra.time import Csn, Interval
from headwater.sql.dialect import VerbatimSpark, column, named, quoted, subquery, to_text
from headwater.sql.signed_zero import as_they_are, told_apart

COUNT = "__hw_count"
CSN = "__hw_csn"


@dataclass(frozen=True, slots=True)
class Changes:
    """The numbered commits of a table in an interval: Delta version and csn, in order; never empty."""

    versions: Sequence[tuple[int, Csn]]


@dataclass(frozen=True, slots=True)
class LoggedChanges:
    """Changes that stand in a table of their own, signed and each with its csn: a mirror's log."""

    location: str


class TableMoments(Protocol):
    """Where a table is, what it held at a csn, and what changed."""

    def location(self, table: str) -> str: ...
    def version(self, table: str, csn: Csn) -> int: ...
    def state(self, table: str, csn: Csn) -> exp.Expr:
        """What stands in FROM for the table's rows at a csn."""
        ...

    def changes(self, table: str, interval: Interval) -> Changes | LoggedChanges: ...
    def types(self, table: str) -> Mapping[str, str]: ...


def count_of(scan: Scan) -> exp.Column:
    return column(f"{scan.alias}.{COUNT}")


def csn_of(scan: Scan) -> exp.Column:
    return column(f"{scan.alias}.{CSN}")


def snapshot_table(location: str, version: int) -> exp.Table:
    """``delta.`location` VERSION AS OF version``."""
    moment = exp.Version(this="VERSION", kind="AS OF", expression=exp.Literal.number(version))
    return exp.Table(this=quoted(location), db=exp.to_identifier("delta"), version=moment)


def current_table(location: str) -> exp.Table:
    return exp.Table(this=quoted(location), db=exp.to_identifier("delta"))


def change_feed(location: str, first: int, last: int) -> exp.Table:
    arguments = [exp.Literal.string(location), exp.Literal.number(first), exp.Literal.number(last)]
    return exp.Table(this=exp.Anonymous(this="table_changes_by_path", expressions=arguments))


Staged: TypeAlias = Mapping[tuple[str, Interval], str]
"""Temporary views that hold the changes of a table in an interval, as ``changes_of`` gives them."""


class Derived(Protocol):
    """Names in a plan that are no base tables: other views, and nodes of the view itself."""

    def __contains__(self, name: str) -> bool: ...
    def state(self, name: str, at: Csn) -> exp.Query: ...
    def changes(self, name: str, interval: Interval) -> exp.Query: ...
    def nothing(self, name: str) -> exp.Query: ...


@dataclass(frozen=True, slots=True)
class Only:
    """Rows of a leaf that can take part: those whose columns have values that stand in a staged relation."""

    staged: str
    pairs: tuple[tuple[str, exp.Expr], ...]


@dataclass(frozen=True, slots=True)
class Sources:
    """Where the relations of a query come from.

    ``changed`` holds changes of single leaves, by alias: of a leaf's own columns, and perhaps without rows that its
    block's conditions leave out. ``only`` limits what is read of other views and of nodes, by alias, and ``within``
    what is read of tables: conditions that hold for every row that takes part. ``small`` are tables that go to every
    task.
    """

    moments: TableMoments
    derived: Derived | None = None
    staged: Staged = field(default_factory=dict)
    changed: Staged = field(default_factory=dict)
    only: Mapping[str, Only] = field(default_factory=dict)
    within: Mapping[str, exp.Expr] = field(default_factory=dict)
    small: frozenset[str] = frozenset()


def leaf_relation(scan: Scan, term: Term | None, sources: Sources) -> exp.Query:
    """The relation for a leaf; ``term`` None stands for a leaf that takes no part."""
    match term:
        case None:
            return _absent(scan, sources)
        case Snapshot(at=at):
            return _snapshot(scan, sources, at)
        case BaseDelta(interval=interval):
            return _changes(scan, sources, interval)
        case Patched(interval=interval):
            before = _snapshot(scan, sources, interval.start)
            return exp.union(before, _changes(scan, sources, interval), distinct=False, copy=False)
        case Present():
            raise ValueError("a table read live must be pinned to its execution time before SQL is built")


def _bigint(value: exp.Expr) -> exp.Expr:
    return exp.Cast(this=value, to=exp.DataType.build("BIGINT"))


def _columns(scan: Scan) -> list[exp.Expr]:
    pairs = zip(scan.columns, scan.attributes, strict=True)
    return [exp.alias_(column(name), attribute, quoted=True) for name, attribute in pairs]


def _bookkeeping(scan: Scan, count: exp.Expr, csn: exp.Expr) -> list[exp.Expr]:
    return [
        exp.alias_(_bigint(count), f"{scan.alias}.{COUNT}", quoted=True),
        exp.alias_(_bigint(csn), f"{scan.alias}.{CSN}", quoted=True),
    ]


def _snapshot(scan: Scan, sources: Sources, at: Csn) -> exp.Select:
    table: exp.Expr
    if sources.derived is not None and scan.table in sources.derived:
        table = subquery(_limited(sources.derived.state(scan.table, at), sources.only.get(scan.alias)), "__hw_source")
    else:
        table = sources.moments.state(scan.table, at)
    items = [*_columns(scan), *_bookkeeping(scan, exp.Literal.number(1), exp.null())]
    select = exp.select(*items, copy=False).from_(table)
    within = sources.within.get(scan.alias)
    return select if within is None else select.where(within.copy(), copy=False)


def _limited(rows: exp.Query, only: Only | None) -> exp.Query:
    """Spark takes a LEFT SEMI JOIN through grouping and joins down to the tables."""
    if only is None:
        return rows
    items = [named(value.copy(), f"__hw_only{place}") for place, (_, value) in enumerate(only.pairs)]
    values = exp.select(*items, copy=False).from_(exp.Table(this=quoted(only.staged)))
    same = [
        exp.EQ(this=column(name, "a"), expression=column(f"__hw_only{place}", "o"))
        for place, (name, _) in enumerate(only.pairs)
    ]
    select = exp.select(exp.Column(this=exp.Star(), table=quoted("a")), copy=False).from_(subquery(rows, "a"))
    return select.join(subquery(values, "o"), on=exp.and_(*same), join_type="LEFT SEMI", copy=False)


def _changes(scan: Scan, sources: Sources, interval: Interval) -> exp.Select:
    source: exp.Expr
    if (scan.alias, interval) in sources.changed:
        source = exp.Table(this=quoted(sources.changed[scan.alias, interval]))
    elif (scan.table, interval) in sources.staged:
        source = exp.Table(this=quoted(sources.staged[scan.table, interval]))
    elif sources.derived is not None and scan.table in sources.derived:
        source = subquery(sources.derived.changes(scan.table, interval), "__hw_source")
    else:
        source = subquery(changes_of(scan.table, interval, scan.columns, sources.moments), "__hw_source")
    return exp.select(*_columns(scan), *_bookkeeping(scan, column(COUNT), column(CSN)), copy=False).from_(source)


def leaf_changes(scan: Scan, interval: Interval, conditions: Sequence[exp.Expr], sources: Sources, net: bool) -> str:
    """The changes of a leaf by its columns, without those that its block's conditions leave out.

    ``net``: changes of one csn that cancel out are left out, as those of columns that the leaf does not have.
    """
    rows = subquery(_changes(scan, sources, interval), "l")
    floating = _floating(scan, sources) if net else frozenset()
    pairs = zip(scan.columns, as_they_are(scan.attributes, floating), strict=True)
    columns = [named(value.unalias(), name) for name, value in pairs]
    count, csn = count_of(scan), csn_of(scan)
    total = exp.Sum(this=count) if net else count
    select = exp.select(*columns, named(total, COUNT), named(csn, CSN), copy=False).from_(rows)
    for condition in conditions:
        select = select.where(condition.copy(), copy=False)
    if net:
        select = select.group_by(*told_apart(scan.attributes, floating), csn.copy())
        select = select.having(exp.NEQ(this=total.copy(), expression=exp.Literal.number(0)))
    return to_text(select)


def _floating(scan: Scan, sources: Sources) -> frozenset[str]:
    """The attributes of a table that hold floating-point numbers; the rows of views hold no -0.0."""
    if sources.derived is not None and scan.table in sources.derived:
        return frozenset()
    types = sources.moments.types(scan.table)
    pairs = zip(scan.columns, scan.attributes, strict=True)
    return frozenset(attribute for name, attribute in pairs if re.search(r"\b(double|float)\b", types[name]))


def changes_of(table: str, interval: Interval, columns: Sequence[str], moments: TableMoments) -> exp.Query:
    """Columns of the changed rows of a table in an interval, each with its sign as count and its csn.

    One feed for each run of consecutive versions: a version between two of them may have changed the columns, and
    Delta reads no feed across that.
    """
    found = moments.changes(table, interval)
    if isinstance(found, LoggedChanges):
        return logged_rows(found.location, interval, columns)
    csns = dict(found.versions)
    feeds: list[exp.Query] = [
        _feed_of(moments.location(table), [(version, csns[version]) for version in run], columns)
        for run in consecutive(sorted(csns))
    ]
    return reduce(lambda left, right: exp.union(left, right, distinct=False, copy=False), feeds)


def logged_rows(location: str, interval: Interval, columns: Sequence[str]) -> exp.Select:
    """Rows of a log of changes, or of a view delta, over an interval: signed counts, each with its csn."""
    chosen = [*(column(name) for name in columns), column(COUNT), column(CSN)]
    return exp.select(*chosen, copy=False).from_(current_table(location)).where(inside(interval))


def inside(interval: Interval) -> exp.Expr:
    """The csn of a row lies in the interval."""
    return exp.and_(
        exp.GT(this=column(CSN), expression=exp.Literal.number(interval.start)),
        exp.LTE(this=column(CSN), expression=exp.Literal.number(interval.end)),
    )


def consecutive(versions: Sequence[int]) -> list[list[int]]:
    """Rising versions in runs without a gap."""
    runs: list[list[int]] = []
    for version in versions:
        if runs and runs[-1][-1] == version - 1:
            runs[-1].append(version)
        else:
            runs.append([version])
    return runs


def _feed_of(location: str, run: Sequence[tuple[int, Csn]], columns: Sequence[str]) -> exp.Select:
    first, last = run[0][0], run[-1][0]
    # Versions are consecutive, so position in an array finds the csn.
    position = exp.cast(
        exp.Add(
            this=exp.Sub(this=column("_commit_version"), expression=exp.Literal.number(first)),
            expression=exp.Literal.number(1),
        ),
        "INT",
        dialect=VerbatimSpark,
    )
    csns = exp.Array(expressions=[exp.Literal.number(csn) for _, csn in run])
    csn = exp.Anonymous(this="element_at", expressions=[csns, position])
    inserted = exp.In(
        this=column("_change_type"),
        expressions=[exp.Literal.string("insert"), exp.Literal.string("update_postimage")],
    )
    sign = exp.Case(ifs=[exp.If(this=inserted, true=exp.Literal.number(1))], default=exp.Literal.number(-1))
    return exp.select(
        *(column(name) for name in columns),
        exp.alias_(_bigint(sign), COUNT, quoted=True),
        exp.alias_(_bigint(csn), CSN, quoted=True),
        copy=False,
    ).from_(change_feed(location, first, last))


def _absent(scan: Scan, sources: Sources) -> exp.Select:
    zero = _bookkeeping(scan, exp.Literal.number(0), exp.null())
    if sources.derived is not None and scan.table in sources.derived:
        nothing = subquery(sources.derived.nothing(scan.table), "__hw_source")
        return exp.select(*_columns(scan), *zero, copy=False).from_(nothing)
    types = sources.moments.types(scan.table)
    nulls = [
        # Spark's own spelling of the type goes back to Spark as it is.
        exp.alias_(exp.Cast(this=exp.null(), to=exp.var(types[name])), attribute, quoted=True)
        for name, attribute in zip(scan.columns, scan.attributes, strict=True)
    ]
    return exp.select(*nulls, *zero, copy=False).where(exp.false())
