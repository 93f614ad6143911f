"""The statements that check constraints: on a table's state at a csn, and on the changes of an interval.

Each lists what breaks the constraint: the csn, the key and how many rows have it, earliest first and at most as many
as asked for, so the answer is bounded. No row means that it holds. Which rows of a state the check of an interval
needs, and why no others, is the argument of ``headwater.algebra.violations``, the specification of both.

Equality in EXISTS is SQL's own and so passes over NULL, as keys and foreign keys do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Protocol

from sqlglot import exp

from headwater.algebra.constraints import Constraint, ForeignKey, Unique
from headwater.algebra.time import Csn, Interval
from headwater.sql.dialect import call, column, is_not_null, named, quoted, subquery, to_text
from headwater.sql.relations import COUNT, CSN, TableMoments, changes_of

ROWS = "__hw_rows"
REFERRED_ROWS = "__hw_referred_rows"


class Relations(Protocol):
    """What a check reads of a table."""

    def state(self, table: str, columns: Sequence[str], at: Csn) -> exp.Query: ...

    def changes(self, table: str, columns: Sequence[str], interval: Interval) -> exp.Query | None:
        """The columns with signed COUNT and CSN; None where nothing changed."""
        ...


class Moments(TableMoments, Protocol):
    def has_changes(self, table: str, interval: Interval) -> bool: ...


@dataclass(frozen=True, slots=True)
class DeltaRelations:
    """Tables of Delta: time travel and change feeds."""

    moments: Moments

    def state(self, table: str, columns: Sequence[str], at: Csn) -> exp.Query:
        chosen: list[exp.Expr] = [column(name) for name in columns] or [exp.null()]
        return exp.select(*chosen).from_(self.moments.state(table, at))

    def changes(self, table: str, columns: Sequence[str], interval: Interval) -> exp.Query | None:
        if not self.moments.has_changes(table, interval):
            return None
        return changes_of(table, interval, columns, self.moments)


def violations_at_sql(constraint: Constraint, relations: Relations, at: Csn, limit: int) -> str:
    return to_text(state_check(constraint, relations, at, limit))


def state_check(constraint: Constraint, relations: Relations, at: Csn, limit: int) -> exp.Query:
    """Keys by which the state at a csn breaks the constraint: CSN, its columns, ROWS."""
    rows = exp.Table(this=quoted("own"))
    select = exp.select(
        named(exp.Literal.number(at), CSN),
        *(column(name, "own") for name in constraint.columns),
        named(exp.Count(this=exp.Star()), ROWS),
    ).from_(rows)
    ctes = {"own": relations.state(constraint.table, constraint.columns, at)}
    match constraint:
        case Unique(primary=primary):
            select = _grouped(select, constraint.columns)
            twice = exp.and_(
                _all_present(constraint.columns), exp.GT(this=exp.Count(this=exp.Star()), expression=_number(1))
            )
            select = select.having(exp.or_(twice, exp.not_(_all_present(constraint.columns))) if primary else twice)
        case ForeignKey(referred_table=other, referred_columns=referred):
            ctes["referred"] = relations.state(other, referred, at)
            pairs = list(zip(referred, constraint.columns, strict=True))
            select = select.where(_all_present(constraint.columns), exp.not_(_exists("referred", pairs)))
            select = _grouped(select, constraint.columns)
    return _with(select.limit(limit), ctes)


def violations_over_sql(
    constraint: Constraint,
    relations: Relations,
    interval: Interval,
    limit: int,
    *,
    referred_rows_deleted: bool = True,
    end_only: bool = False,
) -> str | None:
    found = change_check(
        constraint, relations, interval, limit, referred_rows_deleted=referred_rows_deleted, end_only=end_only
    )
    return None if found is None else to_text(found)


def change_check(
    constraint: Constraint,
    relations: Relations,
    interval: Interval,
    limit: int,
    *,
    referred_rows_deleted: bool = True,
    end_only: bool = False,
) -> exp.Query | None:
    """(csn, key) at which the changes of the interval break a constraint that held at its start; None if none can.

    ``referred_rows_deleted`` False: the log says that no row of the referred table was deleted in the interval; then
    nothing of the referring table is read but its changes. ``end_only``: only keys that are broken at the interval's
    end, each with the csn of its last change; for writers who commit line items before orders and mend it at once.
    """
    match constraint:
        case Unique():
            return _unique_over(constraint, relations, interval, limit, end_only)
        case ForeignKey():
            return _foreign_key_over(constraint, relations, interval, limit, referred_rows_deleted, end_only)


def _unique_over(
    constraint: Unique, relations: Relations, interval: Interval, limit: int, end_only: bool
) -> exp.Query | None:
    names = constraint.columns
    changes = relations.changes(constraint.table, names, interval)
    if changes is None:
        return None
    before = _events(
        "own", names, names, {ROWS: _number(1)}, _number(interval.start), _exists("grown", [(n, n) for n in names])
    )
    changed = _events("changes", names, names, {ROWS: column(COUNT, "changes")}, column(CSN, "changes"))
    ctes = {
        "changes": changes,
        "grown": _grown("changes", names),
        "own": relations.state(constraint.table, names, interval.start),
        "events": _union([before, changed]),
        **_totals(names, [ROWS], end_only),
    }
    broken: exp.Expr = exp.and_(_all_present(names), exp.GT(this=column(ROWS), expression=_number(1)))
    if constraint.primary:
        null = exp.and_(exp.not_(_all_present(names)), exp.GT(this=column(ROWS), expression=_number(0)))
        broken = exp.or_(broken, null)
    return _answer(ctes, names, [ROWS], broken, interval, limit)


def _foreign_key_over(
    constraint: ForeignKey,
    relations: Relations,
    interval: Interval,
    limit: int,
    referred_rows_deleted: bool,
    end_only: bool,
) -> exp.Query | None:
    names, referred = constraint.columns, constraint.referred_columns
    own = relations.changes(constraint.table, names, interval)
    others = relations.changes(constraint.referred_table, referred, interval)
    deleted = others is not None and referred_rows_deleted
    if own is None and not deleted:
        return None
    ctes: dict[str, exp.Query] = {}
    events: list[exp.Query] = []
    touched: list[exp.Query] = []
    same = [(name, name) for name in names]
    start = _number(interval.start)
    if own is not None:
        ctes["changes"] = own
        touched.append(_keys("changes", names, names, exp.GT))
        rows = {ROWS: column(COUNT, "changes"), REFERRED_ROWS: _number(0)}
        events.append(_events("changes", names, names, rows, column(CSN, "changes")))
    if others is not None:
        ctes["referred_changes"] = others
        rows = {ROWS: _number(0), REFERRED_ROWS: column(COUNT, "referred_changes")}
        events.append(_events("referred_changes", referred, names, rows, column(CSN, "referred_changes")))
    if deleted:
        ctes["deleted"] = _keys("referred_changes", referred, names, exp.LT)
        touched.append(exp.select(*(column(name) for name in names)).from_(exp.Table(this=quoted("deleted"))))
        ctes["own"] = relations.state(constraint.table, names, interval.start)
        rows = {ROWS: _number(1), REFERRED_ROWS: _number(0)}
        events.append(_events("own", names, names, rows, start, _exists("deleted", same)))
    ctes["touched"] = _union(touched)
    ctes["referred"] = relations.state(constraint.referred_table, referred, interval.start)
    rows = {ROWS: _number(0), REFERRED_ROWS: _number(1)}
    pairs = list(zip(names, referred, strict=True))
    events.append(_events("referred", referred, names, rows, start, _exists("touched", pairs, of="referred")))
    ctes["events"] = _union(events)
    ctes.update(_totals(names, [ROWS, REFERRED_ROWS], end_only))
    broken = exp.and_(
        _all_present(names),
        exp.GT(this=column(ROWS), expression=_number(0)),
        exp.LTE(this=column(REFERRED_ROWS), expression=_number(0)),
    )
    return _answer(ctes, names, [ROWS], broken, interval, limit)


@dataclass(frozen=True, slots=True)
class Finding:
    """A row of ``findings_sql``: a constraint broken at a csn by rows with a key, or what a table's csn did."""

    about: str
    name: str
    csn: int
    key: str | None
    rows: int
    deleted: int | None


BROKEN, SIGNS = "broken", "signs"


def findings_sql(checks: Mapping[str, tuple[Constraint, exp.Query]], signs: Mapping[str, exp.Query]) -> str:
    """Checks by the names of their constraints, and the signs of tables' changes, as one statement of ``Finding``s.

    ``signs`` gives changes of a table with COUNT and CSN; they are counted by csn, insertions and deletions.
    """
    parts = [_told(name, constraint.columns, query) for name, (constraint, query) in checks.items()]
    parts += [_signs(table, changes) for table, changes in signs.items()]
    return to_text(_union(parts))


def _told(name: str, columns: Sequence[str], check: exp.Query) -> exp.Query:
    key = call(
        "to_json",
        call("struct", *(column(each, "f") for each in columns)),
        call("map", exp.Literal.string("ignoreNullFields"), exp.Literal.string("false")),
    )
    rows = exp.cast(column(ROWS, "f"), "BIGINT")
    return _finding(BROKEN, name, column(CSN, "f"), key, rows, exp.null()).from_(subquery(check, "f"))


def _signs(table: str, changes: exp.Query) -> exp.Query:
    inserted, deleted = (
        call("count_if", sign(this=column(COUNT, "f"), expression=_number(0))) for sign in (exp.GT, exp.LT)
    )
    found = _finding(SIGNS, table, column(CSN, "f"), exp.null(), inserted, deleted)
    return found.from_(subquery(changes, "f")).group_by(column(CSN, "f"))


def _finding(about: str, name: str, csn: exp.Expr, key: exp.Expr, rows: exp.Expr, deleted: exp.Expr) -> exp.Select:
    return exp.select(
        named(exp.Literal.string(about), "about"),
        named(exp.Literal.string(name), "name"),
        named(exp.cast(csn, "BIGINT"), "csn"),
        named(exp.cast(key, "STRING"), "key"),
        named(exp.cast(rows, "BIGINT"), "rows"),
        named(exp.cast(deleted, "BIGINT"), "deleted"),
    )


def _number(value: int) -> exp.Expr:
    return exp.Literal.number(value)


def _all_present(names: Sequence[str]) -> exp.Expr:
    return exp.and_(*(is_not_null(column(name)) for name in names))


def _grouped(select: exp.Select, names: Sequence[str]) -> exp.Select:
    return select.group_by(*(column(name, "own") for name in names))


def _exists(relation: str, pairs: Sequence[tuple[str, str]], of: str = "own") -> exp.Expr:
    """Whether the relation has a row whose columns equal those of the row of ``of``, pair by pair."""
    same = exp.and_(*(exp.EQ(this=column(mine, relation), expression=column(outer, of)) for mine, outer in pairs))
    return exp.Exists(this=exp.select(_number(1)).from_(exp.Table(this=quoted(relation))).where(same))


def _grown(relation: str, names: Sequence[str]) -> exp.Query:
    """The keys that some csn gives more rows than it takes away; one that several do may be there several times."""
    keys = [column(name) for name in names]
    more = exp.GT(this=exp.Sum(this=column(COUNT)), expression=_number(0))
    grouped = exp.select(*keys).from_(exp.Table(this=quoted(relation))).group_by(*keys, column(CSN))
    return grouped.having(more)


def _keys(relation: str, names: Sequence[str], called: Sequence[str], sign: type[exp.Binary]) -> exp.Query:
    """The keys with an inserted (GT) or a deleted (LT) row."""
    columns = [named(column(name), other) for name, other in zip(names, called, strict=True)]
    changed = sign(this=column(COUNT), expression=_number(0))
    return exp.select(*columns).distinct().from_(exp.Table(this=quoted(relation))).where(changed)


def _events(
    relation: str,
    names: Sequence[str],
    called: Sequence[str],
    rows: Mapping[str, exp.Expr],
    csn: exp.Expr,
    condition: exp.Expr | None = None,
) -> exp.Query:
    """Rows that come (or go, by their sign) at a csn, under the names of the constraint's columns."""
    columns = [named(column(name, relation), other) for name, other in zip(names, called, strict=True)]
    counts = [named(value.copy(), name) for name, value in rows.items()]
    select = exp.select(*columns, *counts, named(csn.copy(), CSN)).from_(exp.Table(this=quoted(relation)))
    return select if condition is None else select.where(condition)


def _totals(names: Sequence[str], counts: Sequence[str], end_only: bool) -> dict[str, exp.Query]:
    """How many rows a key has after each csn at which it changed, or after the last of them only."""
    keys = [column(name) for name in names]
    sums = [named(exp.Sum(this=column(count)), count) for count in counts]
    if end_only:
        last = named(exp.Max(this=column(CSN)), CSN)
        return {"totals": exp.select(*keys, last, *sums).from_(exp.Table(this=quoted("events"))).group_by(*keys)}
    steps = exp.select(*keys, column(CSN), *sums).from_(exp.Table(this=quoted("events"))).group_by(*keys, column(CSN))
    totals = [
        named(
            exp.Window(
                this=exp.Sum(this=column(count)),
                partition_by=[key.copy() for key in keys],
                order=exp.Order(expressions=[exp.Ordered(this=column(CSN))]),
            ),
            count,
        )
        for count in counts
    ]
    running = exp.select(*(key.copy() for key in keys), column(CSN), *totals).from_(exp.Table(this=quoted("steps")))
    return {"steps": steps, "totals": running}


def _answer(
    ctes: Mapping[str, exp.Query],
    names: Sequence[str],
    counts: Sequence[str],
    broken: exp.Expr,
    interval: Interval,
    limit: int,
) -> exp.Query:
    select = exp.select(column(CSN), *(column(name) for name in names), *(column(count) for count in counts))
    inside = exp.GT(this=column(CSN), expression=_number(interval.start))
    select = select.from_(exp.Table(this=quoted("totals"))).where(inside, broken)
    return _with(select.order_by(exp.Ordered(this=column(CSN))).limit(limit), ctes)


def _union(queries: Sequence[exp.Query]) -> exp.Query:
    return reduce(lambda left, right: exp.union(left, right, distinct=False, copy=False), queries)


def _with(select: exp.Select, ctes: Mapping[str, exp.Query]) -> exp.Select:
    for name, query in ctes.items():
        select = select.with_(quoted(name), as_=query, copy=False)
    return select
