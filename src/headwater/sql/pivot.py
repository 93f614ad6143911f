"""PIVOT as Spark expands it: a group for all columns that it does not mention, and one aggregate for each value.

``r PIVOT (sum(v) FOR k IN (1, 2))`` groups r by its other columns and selects them with ``sum(v)`` of the rows where k
is 1, and of those where it is 2. Where a group has no row of a value, its column is NULL, also for COUNT.

That is so if the answers of all aggregates are numbers or truth values. If one is text, say, Spark takes each aggregate
over all rows of the group instead, with NULL in place of the values of other rows: a COUNT is 0 then, collect_list is
an empty array, and first passes over NULLs. Types are not known here, so the aggregates must be such that the answers
are numbers whatever they are over, or that both ways come to the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from headwater.sql.context import Lowering
from headwater.sql.dialect import call, to_text
from headwater.sql.expressions import is_aggregate_call

_NUMBERS_WITHOUT_ROWS = frozenset({"count", "count_if", "regr_count", "approx_count_distinct"})
# Numbers or truth values, and NULL over nothing but NULLs.
_NUMBERS = frozenset(
    """sum try_sum avg mean try_avg std stddev stddev_pop stddev_samp var_pop var_samp variance skewness kurtosis
    bool_and bool_or every some any bit_and bit_or bit_xor""".split()  # noqa: SIM905
)
_OF_ANY_TYPE = frozenset({"min", "max"})


def unpivoted(node: exp.Expr) -> exp.Expr:
    """The table or subquery itself."""
    plain = node.copy()
    plain.set("pivots", None)
    plain.set("joins", None)
    return plain


def pivoted(lowering: Lowering, node: exp.Expr, names: Sequence[str]) -> exp.Select:
    """The query that a table or subquery with PIVOT stands for; ``names`` are the columns of it without."""
    pivot: exp.Pivot = node.args["pivots"][0]
    fields, titles = pivot.args.get("fields") or [], pivot.args.get("columns") or []
    values = fields[0].expressions if fields and isinstance(fields[0], exp.In) else []
    calls = [each.this if isinstance(each, exp.Alias) else each for each in pivot.expressions]
    plain = (
        len(node.args["pivots"]) == 1 == len(fields)
        and not pivot.args.get("unpivot")
        and len(values) * len(calls) == len(titles) > 0
        and all(title.name for title in titles)
        and all(is_aggregate_call(each) for each in calls)
        and _is_known(calls)
        and isinstance(fields[0].this, exp.Column)
    )
    if not plain:
        raise lowering.expressions.refuse("PIVOT", to_text(pivot).strip(), pivot)
    mentioned = {column.name.lower() for part in (*calls, fields[0].this) for column in part.find_all(exp.Column)}
    keys = [exp.column(name, quoted=True) for name in names if name.lower() not in mentioned]
    items: list[exp.Expr] = list(keys)
    for place, title in enumerate(titles):
        value, aggregate = values[place // len(calls)], calls[place % len(calls)]
        wanted = value.this if isinstance(value, exp.PivotAlias) else value
        here = exp.NullSafeEQ(this=fields[0].this.copy(), expression=wanted.copy())
        some = exp.GT(this=call("count_if", here), expression=exp.Literal.number(0))
        filtered = exp.Filter(this=aggregate.copy(), expression=exp.Where(this=here.copy()))
        items.append(exp.alias_(exp.Case(ifs=[exp.If(this=some, true=filtered)]), title.name, quoted=True))
    select = exp.select(*items).from_(unpivoted(node), copy=False)
    return select.group_by(*(key.copy() for key in keys)) if keys else select


def _is_known(calls: Sequence[exp.Expr]) -> bool:
    """Whether it is known without types how Spark expands these aggregates."""
    names = {each.name.lower() if isinstance(each, exp.Anonymous) else each.key for each in calls}
    return names <= _NUMBERS_WITHOUT_ROWS | _NUMBERS or names <= _NUMBERS | _OF_ANY_TYPE
