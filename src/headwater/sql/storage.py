"""The statements that make, fill, change and read view tables.

A view table holds ``__hw_count`` (how often the row stands in the view, always positive) and then the public columns,
one stored row for each distinct row. A view-delta table holds ``__hw_csn``, ``__hw_count`` (signed) and the public
columns. The bookkeeping stands first so that Delta keeps minima and maxima of it and skips files by it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from sqlglot import exp

from headwater.algebra.key_ranges import KeyRanges
from headwater.algebra.time import Csn, Interval
from headwater.sql.dialect import bigint, call, column, named, quoted, subquery, to_text
from headwater.sql.key_condition import key_condition
from headwater.sql.relations import COUNT, change_feed, consecutive, current_table, inside, snapshot_table

CHANGED = "__hw_changed"


def over_relations(text: str, relations: Mapping[str, exp.Query]) -> str:
    """The user's own text, word for word, with its table names bound to relations.

    The text is wrapped, not edited: its names resolve to common table expressions around it.
    """
    if not relations:
        return text
    ctes = ", ".join(f"{to_text(quoted(name))} AS ({to_text(query)})" for name, query in relations.items())
    return f"WITH {ctes} SELECT * FROM (\n{text}\n)"


def counted_sql(text: str, names: Sequence[str]) -> str:
    """The bag that a query gives, as distinct rows with their counts."""
    rows = exp.select(exp.alias_(exp.Count(this=exp.Star()), COUNT, quoted=True), *(column(n) for n in names))
    grouped = rows.from_(exp.Table(this=quoted("__hw_bag"))).group_by(*(column(n) for n in names))
    return f"WITH `__hw_bag` AS (\n{text}\n) {to_text(grouped)}"


def net_delta(
    location: str, interval: Interval, names: Sequence[str], *, sign: int, version: int | None = None
) -> exp.Select:
    """The net effect of a view delta (the newest version or a given one) over an interval, with the given sign."""
    total = exp.Sum(this=column(COUNT))
    count = total if sign > 0 else exp.Neg(this=total)
    return (
        exp.select(exp.alias_(count, COUNT, quoted=True), *(column(n) for n in names))
        .from_(current_table(location) if version is None else snapshot_table(location, version))
        .where(inside(interval))
        .group_by(*(column(n) for n in names))
        .having(exp.NEQ(this=total.copy(), expression=exp.Literal.number(0)))
    )


def logged_sql(log: str, interval: Interval) -> str:
    """How many changed rows a log has in an interval."""
    return to_text(exp.select(exp.Count(this=exp.Star())).from_(current_table(log)).where(inside(interval)))


def merge_sql(
    view: str,
    delta: str,
    interval: Interval,
    names: Sequence[str],
    *,
    sign: int,
    touched: tuple[str, KeyRanges] | None = None,
    hashed: Sequence[str] = (),
) -> str:
    """Add a net change to a view: one commit that inserts, recounts and deletes.

    ``touched`` is a column and the ranges that its values in the change lie in: files of other values are not read.
    ``hashed`` are columns that tell rows apart by their hashes; without them rows are joined by all their columns.
    """
    target, source = "t", "s"
    equal = {name: exp.NullSafeEQ(this=column(name, target), expression=column(name, source)) for name in names}
    same = exp.and_(*_same_by_hash(equal, hashed, target, source) if len(hashed) > 1 else equal.values())
    if touched is not None:
        key, ranges = touched
        same = exp.and_(same, key_condition(column(key, target), ranges, nulls_meet=True))
    total = exp.Add(this=column(COUNT, target), expression=column(COUNT, source))
    gone = exp.EQ(this=total, expression=exp.Literal.number(0))
    insert = exp.Insert(
        this=exp.Tuple(expressions=[column(COUNT), *(column(n) for n in names)]),
        expression=exp.Tuple(expressions=[column(COUNT, source), *(column(n, source) for n in names)]),
    )
    update = exp.Update(expressions=[exp.EQ(this=column(COUNT), expression=total.copy())])
    merge = exp.Merge(
        this=exp.alias_(current_table(view), target, table=True),
        using=exp.Subquery(
            this=net_delta(delta, interval, names, sign=sign), alias=exp.TableAlias(this=quoted(source))
        ),
        on=same,
        whens=exp.Whens(
            expressions=[
                exp.When(matched=True, condition=gone, then=exp.Var(this="DELETE")),
                exp.When(matched=True, then=update),
                exp.When(matched=False, then=insert),
            ]
        ),
    )
    return to_text(merge)


def _same_by_hash(equal: Mapping[str, exp.Expr], hashed: Sequence[str], target: str, source: str) -> list[exp.Expr]:
    """What two rows that are the same have in common, as Spark finds out fastest: instead of the hashed columns one key
    of eight bytes, and themselves for few pairs.

    An AND of the equalities would make a key of each of them for every row. The least of some truths is their AND.
    Columns that are not hashed stay keys: many rows may differ in nothing else.
    """
    hashes = [row_hash(hashed, table) for table in (target, source)]
    one_key = exp.EQ(this=hashes[0], expression=hashes[1])
    others = [each for name, each in equal.items() if name not in hashed]
    return [one_key, call("least", *(equal[name] for name in hashed)), *others]


def row_hash(names: Sequence[str], table: str | None = None) -> exp.Expr:
    """The same for rows with equal values of the columns, where equal values of their types have equal hashes."""
    return call("xxhash64", *(column(name, table) for name in names))


def bag(counted: exp.Query, names: Sequence[str]) -> exp.Query:
    """Distinct rows with counts, as the rows of the bag.

    Rows that stand once, nearly always all of them, take the plain branch; Delta's statistics on the count let the
    other branch skip every file without duplicates.
    """
    columns = [column(name) for name in names]
    once = exp.select(*columns).from_(subquery(counted.copy(), "q")).where(_compare(exp.EQ, 1))
    repeated = exp.select(*(c.copy() for c in columns)).from_(
        exp.Subquery(
            this=exp.select(
                *(c.copy() for c in columns),
                exp.alias_(
                    exp.Anonymous(
                        this="explode",
                        expressions=[
                            exp.Anonymous(
                                this="array_repeat",
                                expressions=[exp.Literal.number(0), exp.cast(column(COUNT), "INT")],
                            )
                        ],
                    ),
                    "__hw_copy",
                    quoted=True,
                ),
            )
            .from_(subquery(counted.copy(), "q"))
            .where(_compare(exp.GT, 1)),
            alias=exp.TableAlias(this=quoted("r")),
        )
    )
    return exp.union(once, repeated, distinct=False)


def _compare(kind: type[exp.Binary], value: int) -> exp.Expr:
    return kind(this=column(COUNT), expression=exp.Literal.number(value))


def stored(view: str, version: int, names: Sequence[str]) -> exp.Select:
    """The view as it was stored by one of its commits: distinct rows with counts."""
    return exp.select(column(COUNT), *(column(n) for n in names)).from_(snapshot_table(view, version))


def counted_at(
    base: exp.Query, stored_at: Csn, delta: str, at: Csn, names: Sequence[str], *, delta_version: int | None = None
) -> exp.Query:
    """The view at a csn, as distinct rows with counts: what is stored plus, or less, the view delta between the two."""
    if at == stored_at:
        return base
    interval, sign = (Interval(stored_at, at), 1) if at > stored_at else (Interval(at, stored_at), -1)
    change = net_delta(delta, interval, names, sign=sign, version=delta_version)
    both = exp.union(base, change, distinct=False)
    return counted_rows(both, names)


def counted_rows(rows: exp.Query, names: Sequence[str]) -> exp.Select:
    """Rows with signed counts, added up."""
    total = exp.Sum(this=column(COUNT))
    return (
        exp.select(exp.alias_(total, COUNT, quoted=True), *(column(n) for n in names))
        .from_(subquery(rows, "q"))
        .group_by(*(column(n) for n in names))
        .having(exp.NEQ(this=total.copy(), expression=exp.Literal.number(0)))
    )


def rewritten_sql(view: str, version: int, delta: str, interval: Interval, names: Sequence[str], *, sign: int) -> str:
    """A whole view with a net change added; rows that are gone have the count 0, changed ones are marked."""
    columns = [column(COUNT), *(column(n) for n in names)]
    before = exp.select(*columns, named(bigint(0), CHANGED)).from_(subquery(stored(view, version, names), "v"))
    change = net_delta(delta, interval, names, sign=sign)
    changes = exp.select(*(c.copy() for c in columns), named(bigint(1), CHANGED)).from_(subquery(change, "d"))
    rows = exp.select(
        named(exp.Sum(this=column(COUNT)), COUNT),
        *(column(n) for n in names),
        named(exp.Sum(this=column(CHANGED)), CHANGED),
    ).from_(subquery(exp.union(before, changes, distinct=False), "q"))
    return to_text(rows.group_by(*(column(n) for n in names)))


def table_at(location: str, version: int, columns: Sequence[str] | None = None) -> exp.Select:
    """A base table at a version: all of its columns, or some."""
    chosen: list[exp.Expr] = [exp.Star()] if columns is None else [column(c) for c in columns] or [exp.null()]
    return exp.select(*chosen).from_(snapshot_table(location, version))


def identified_table(location: str, version: int, table_id: str) -> exp.Select:
    """The same, as no other text says it: Spark answers from memory whatever reads the same as what is held."""
    known = exp.Not(this=exp.Is(this=exp.Literal.string(table_id), expression=exp.null()))
    return table_at(location, version).where(known)


def create_table_sql(
    location: str,
    columns: Sequence[tuple[str, str]],
    *,
    bookkeeping: Sequence[str],
    cluster_by: Sequence[str],
    properties: Mapping[str, str],
) -> str:
    definitions = [
        *(exp.ColumnDef(this=quoted(name), kind=exp.var("BIGINT NOT NULL")) for name in bookkeeping),
        *(exp.ColumnDef(this=quoted(name), kind=exp.var(kind)) for name, kind in columns),
    ]
    pairs = ", ".join(f"{_string(key)} = {_string(value)}" for key, value in properties.items())
    clustering = f" CLUSTER BY ({', '.join(to_text(quoted(name)) for name in cluster_by)})" if cluster_by else ""
    # Spark's CREATE TABLE has clauses (CLUSTER BY with USING) that sqlglot does not print in Spark's order.
    return (
        f"CREATE TABLE {to_text(current_table(location))} ({', '.join(to_text(d) for d in definitions)}) USING DELTA"
        f"{clustering}" + (f" TBLPROPERTIES ({pairs})" if pairs else "")
    )


def count_sql(location: str, version: int) -> str:
    return to_text(exp.select(exp.Count(this=exp.Star())).from_(snapshot_table(location, version)))


def extent_sql(location: str, columns: Sequence[str]) -> str:
    """How many rows a table has, and the smallest and largest value of some columns."""
    ends = [end(this=column(name)) for name in columns for end in (exp.Min, exp.Max)]
    return to_text(exp.select(exp.Count(this=exp.Star()), *ends).from_(current_table(location)))


def add_constraint_sql(location: str, name: str, condition: str) -> str:
    return f"ALTER TABLE {to_text(current_table(location))} ADD CONSTRAINT {to_text(quoted(name))} CHECK ({condition})"


def changed_rows_sql(location: str, versions: Sequence[int]) -> str:
    """Rows that each of some commits changed, by version: bounded by the number of commits."""
    version = column("_commit_version")
    counts: list[exp.Query] = [
        exp.select(version.copy(), exp.alias_(exp.Count(this=exp.Star()), "rows"))
        .from_(change_feed(location, run[0], run[-1]))
        .group_by(version.copy())
        for run in consecutive(versions)
    ]
    return to_text(reduce(lambda left, right: exp.union(left, right, distinct=False, copy=False), counts))


def _string(value: str) -> str:
    return to_text(exp.Literal.string(value))
