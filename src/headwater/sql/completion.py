"""Changes completed from a view's own rows (``headwater.propagate.from_view``) as SQL.

``told_changes`` marks, key by key, whether the view answers for a leaf's changes: the key was there before, which its
first net change tells, and its rows look alike to the conditions. ``completed`` joins what is told with the view by its
key and makes the outputs of the leaf anew; ``to_be_asked`` is the rest, a change of the leaf like any other.

Changes are always taken net here: a row inserted and deleted within a csn would look as if its key had been there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from sqlglot import exp

from headwater.sql.dialect import call, column, is_not_null, named, quoted, subquery
from headwater.sql.fates import net_changes, over_key, with_bookkeeping
from headwater.sql.relations import COUNT, CSN

TOLD = "__hw_told"
_FIRST = "__hw_first"


def told_changes(changes: exp.Query, columns: Sequence[str], key: Sequence[str], tested: Sequence[str]) -> exp.Query:
    """Columns, COUNT, CSN of the changes of one interval, and TOLD."""
    dated = exp.select(*with_bookkeeping(columns), named(over_key(exp.Min(this=column(CSN)), key), _FIRST)).from_(
        subquery(net_changes(changes, columns), "n")
    )
    at_first = exp.Case(ifs=[exp.If(this=exp.EQ(this=column(CSN), expression=column(_FIRST)), true=column(COUNT))])
    was_there = exp.LT(this=over_key(exp.Min(this=at_first), key), expression=exp.Literal.number(0))
    told = exp.and_(
        *(is_not_null(column(name)) for name in key), was_there, *(_is_one_value(name, key) for name in tested)
    )
    return exp.select(*with_bookkeeping(columns), named(told, TOLD)).from_(subquery(dated, "d"))


def completed(
    told: exp.Query,
    view: exp.Query,
    shown: Mapping[str, str],
    outputs: Sequence[str],
    made: Mapping[str, exp.Expr],
    *,
    timed: bool = False,
) -> exp.Query:
    """The view delta of what is told: outputs, COUNT, CSN.

    ``shown`` gives for each column of the key the output that shows it, ``made`` for outputs that the leaf makes their
    expressions over its columns; all other outputs are the view's. ``timed``: rows of the view have a CSN, or NULL.
    """
    values = [named(_over_changes(made[name]) if name in made else column(name, "v"), name) for name in outputs]
    count = exp.Mul(this=column(COUNT, "c"), expression=column(COUNT, "v"))
    csn = call("greatest", column(CSN, "c"), column(CSN, "v")) if timed else column(CSN, "c")
    same = exp.and_(*(exp.EQ(this=column(output, "v"), expression=column(name, "c")) for name, output in shown.items()))
    select = exp.select(*values, named(count, COUNT), named(csn, CSN)).from_(subquery(told, "c"))
    return select.join(subquery(view, "v"), on=same, join_type="INNER").where(column(TOLD, "c"))


def timed_view(
    rows: exp.Query, answers: Sequence[str], names: Sequence[str], within: exp.Expr | None = None
) -> exp.Query:
    """Counted rows of a view, which have no CSN, and kept view deltas, which have one; of the rows those ``within``."""
    bigint = exp.DataType.build("BIGINT")
    base = exp.select(
        *(column(name) for name in names), column(COUNT), named(exp.Cast(this=exp.null(), to=bigint), CSN)
    ).from_(subquery(rows, "r"))
    base = base if within is None else base.where(within)
    kept = [exp.select(*with_bookkeeping(names)).from_(exp.Table(this=quoted(name))) for name in answers]
    parts: list[exp.Query] = [base, *kept]
    return reduce(lambda left, right: exp.union(left, right, distinct=False, copy=False), parts)


def to_be_asked(told: exp.Query, columns: Sequence[str]) -> exp.Query:
    return exp.select(*with_bookkeeping(columns)).from_(subquery(told, "c")).where(exp.not_(column(TOLD)))


def _is_one_value(name: str, key: Sequence[str]) -> exp.Expr:
    """Whether a column has one value, or NULL, in all changes of a key."""

    def over(value: exp.Expr) -> exp.Expr:
        return over_key(value, key)

    present = over(exp.Count(this=column(name)))
    none = exp.EQ(this=present, expression=exp.Literal.number(0))
    everywhere = exp.EQ(this=present.copy(), expression=over(exp.Count(this=exp.Star())))
    alike = exp.EQ(this=over(exp.Min(this=column(name))), expression=over(exp.Max(this=column(name))))
    return exp.or_(none, exp.and_(everywhere, alike))


def _over_changes(value: exp.Expr) -> exp.Expr:
    def qualified(part: exp.Expr) -> exp.Expr:
        return column(part.name, "c") if isinstance(part, exp.Column) else part

    replaced: exp.Expr = value.copy().transform(qualified)
    return replaced
