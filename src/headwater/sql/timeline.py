"""The statements of the layout ``timeline`` [Mauve98 §2.1, §2.2]: rows with the time for which they stood in the view.

A timeline table holds ``__hw_count``, ``__hw_t_min`` and ``__hw_t_max`` (NULL while the row stands), then the view's
columns: one stored row for each *run*, a span over which the count of a distinct row does not change.
``headwater.serve.timeline`` is the specification of each statement here, and has the argument.

*Installing (a, b].* The view delta, added up by row and csn, gives each touched row its changes in order. Two
kinds of rows come of them, and one MERGE takes both, in one commit:

- the first change of a row *ends* the run that was open at a, if there is one: it gets that csn as its t_max;
- every change *begins* the run that stands from it to the row's next change, with the count of the open run and all
  changes so far added up; where that is zero, there is none.

The open runs are read at the version that the driver knows to stand at a. Counts below zero are not filtered: the
table's CHECK constraint refuses them, and a wrong view delta can't be committed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from headwater.algebra.time import Csn, Interval
from headwater.sql.dialect import bigint, column, named, subquery, to_text
from headwater.sql.relations import COUNT, CSN, current_table, inside, snapshot_table
from headwater.sql.storage import bag, counted_sql, create_table_sql

T_MIN = "__hw_t_min"
T_MAX = "__hw_t_max"
_ENDS = "__hw_ends"
_STEP = "__hw_step"
_FIRST = "__hw_first"
_NEXT = "__hw_next"


def create_timeline_sql(
    location: str,
    columns: Sequence[tuple[str, str]],
    *,
    cluster_by: Sequence[str],
    properties: Mapping[str, str],
) -> str:
    return create_table_sql(
        location,
        [(T_MAX, "BIGINT"), *columns],
        bookkeeping=[COUNT, T_MIN],
        cluster_by=cluster_by,
        properties=properties,
    )


def beginning_sql(text: str, names: Sequence[str], csn: Csn) -> str:
    """The timeline of a view just materialized, from a query that gives the view's rows at ``csn``."""
    columns = ", ".join(to_text(column(name)) for name in names)
    moments = f"{to_text(named(bigint(csn), T_MIN))}, {to_text(named(_null(), T_MAX))}"
    counted = counted_sql(text, names)
    return f"SELECT {to_text(column(COUNT))}, {moments}, {columns} FROM (\n{counted}\n) AS `q`"


def visible_at(local_timestamp: Csn) -> exp.Expr:
    """(1) and (2) of [Mauve98 §2.2]: the one predicate by which a moment is read."""
    moment = exp.Literal.number(local_timestamp)
    return exp.and_(
        exp.LTE(this=column(T_MIN), expression=moment),
        exp.or_(
            exp.GT(this=column(T_MAX), expression=moment.copy()), exp.Is(this=column(T_MAX), expression=exp.null())
        ),
    )


def counted_in_timeline(location: str, version: int, at: Csn, names: Sequence[str]) -> exp.Select:
    """The view at a csn that the timeline keeps, as distinct rows with counts."""
    rows = exp.select(column(COUNT), *(column(name) for name in names)).from_(snapshot_table(location, version))
    return rows.where(visible_at(at))


def timeline_at(location: str, version: int, at: Csn, names: Sequence[str]) -> exp.Query:
    """The view's bag at a csn."""
    return bag(counted_in_timeline(location, version, at, names), names)


def install_sql(timeline: str, version: int, delta: str, interval: Interval, names: Sequence[str]) -> str:
    """Add the view delta over an interval to a timeline that stands, in ``version``, at the interval's start."""
    target, source = "t", "s"
    matches = exp.and_(
        column(_ENDS, source),
        exp.Is(this=column(T_MAX, target), expression=exp.null()),
        _same_row(names, target, source),
    )
    stored = [COUNT, T_MIN, T_MAX, *names]
    end = exp.Update(expressions=[exp.EQ(this=column(T_MAX), expression=column(T_MIN, source))])
    begin = exp.Insert(
        this=exp.Tuple(expressions=[column(name) for name in stored]),
        expression=exp.Tuple(expressions=[column(name, source) for name in stored]),
    )
    merge = exp.Merge(
        this=exp.alias_(current_table(timeline), target, table=True),
        using=subquery(runs_of(timeline, version, delta, interval, names), source),
        on=matches,
        whens=exp.Whens(
            expressions=[
                exp.When(matched=True, then=end),
                exp.When(matched=False, condition=exp.not_(column(_ENDS, source)), then=begin),
            ]
        ),
    )
    return to_text(merge)


def runs_of(timeline: str, version: int, delta: str, interval: Interval, names: Sequence[str]) -> exp.Query:
    """What a view delta does to the runs: rows that end one (``__hw_ends``) and rows that begin one."""
    ordered = subquery(_in_order(delta, interval, names), "c")
    ends = exp.select(
        named(exp.true(), _ENDS),
        named(_null(), COUNT),
        column(CSN).as_(T_MIN, quoted=True),
        named(_null(), T_MAX),
        *(column(name) for name in names),
    ).from_(ordered)
    ends = ends.where(exp.EQ(this=column(_FIRST), expression=exp.Literal.number(1)))
    return exp.union(ends, _begun(timeline, version, ordered.copy(), names), distinct=False)


def _in_order(delta: str, interval: Interval, names: Sequence[str]) -> exp.Select:
    """The changes of each row: how much in all up to its csn, whether it is the first, and when the next comes."""
    total = exp.Sum(this=column(COUNT))
    changes = (
        exp.select(named(total, _STEP), column(CSN), *(column(name) for name in names))
        .from_(current_table(delta))
        .where(inside(interval))
        .group_by(column(CSN), *(column(name) for name in names))
        .having(exp.NEQ(this=total.copy(), expression=exp.Literal.number(0)))
    )
    return exp.select(
        named(_over(exp.Sum(this=column(_STEP)), names), _STEP),
        named(_over(exp.Anonymous(this="row_number"), names), _FIRST),
        named(_over(exp.Anonymous(this="lead", expressions=[column(CSN)]), names), _NEXT),
        column(CSN),
        *(column(name) for name in names),
    ).from_(subquery(changes, "d"))


def _over(function: exp.Expr, names: Sequence[str]) -> exp.Window:
    order = exp.Order(expressions=[exp.Ordered(this=column(CSN))])
    return exp.Window(this=function, partition_by=[column(name) for name in names], order=order)


def _begun(timeline: str, version: int, ordered: exp.Subquery, names: Sequence[str]) -> exp.Select:
    # Not counted_in_timeline: the open runs are a smaller set, and Delta skips the files that hold none.
    still = exp.select(column(COUNT), *(column(name) for name in names)).from_(snapshot_table(timeline, version))
    still = still.where(exp.Is(this=column(T_MAX), expression=exp.null()))
    before = exp.Coalesce(this=column(COUNT, "o"), expressions=[exp.Literal.number(0)])
    count = exp.Add(this=before, expression=column(_STEP, "c"))
    begun = exp.select(
        named(exp.false(), _ENDS),
        named(count, COUNT),
        column(CSN, "c").as_(T_MIN, quoted=True),
        column(_NEXT, "c").as_(T_MAX, quoted=True),
        *(column(name, "c") for name in names),
    ).from_(ordered)
    begun = begun.join(subquery(still, "o"), on=_same_row(names, "o", "c"), join_type="left")
    return begun.where(exp.NEQ(this=count.copy(), expression=exp.Literal.number(0)))


def rewind_sql(timeline: str, to: Csn) -> str:
    """Bring a timeline back to a csn: runs that began later go, runs that ended later are open again."""
    target, source = "t", "s"
    later = exp.GT(this=column(T_MIN, target), expression=exp.Literal.number(to))
    ended = exp.GT(this=column(T_MAX, target), expression=exp.Literal.number(to))
    reopen = exp.Update(expressions=[exp.EQ(this=column(T_MAX), expression=_null())])
    merge = exp.Merge(
        this=exp.alias_(current_table(timeline), target, table=True),
        using=subquery(exp.select(named(exp.Literal.number(1), "one")), source),
        on=exp.or_(later, ended),
        whens=exp.Whens(
            expressions=[
                exp.When(matched=True, condition=later.copy(), then=exp.Var(this="DELETE")),
                exp.When(matched=True, then=reopen),
            ]
        ),
    )
    return to_text(merge)


def _same_row(names: Sequence[str], left: str, right: str) -> exp.Expr:
    return exp.and_(*(exp.NullSafeEQ(this=column(name, left), expression=column(name, right)) for name in names))


def _null() -> exp.Expr:
    return exp.Cast(this=exp.null(), to=exp.DataType.build("BIGINT"))
