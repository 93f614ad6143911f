"""Non-linear nodes as Spark SQL: their bag at a csn, and their exact timed change over an interval.

The change of a node over (a, b] is computed for the touched keys alone. ``touched`` lists every key of the inputs'
changes with each csn at which it changed, and with a; the inputs' rows of a key stand once for each of these versions
(the state at a, and the changes up to the version); the node's own text, with the version as one more grouping,
partition or join column, gives its answer at each; an answer appears at its version and disappears at the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from sqlglot import exp

from headwater.algebra.nodes import Aggregate, Match, MatchKind, Node, Nodes, Top, Window
from headwater.algebra.plan import Attribute, Plan
from headwater.algebra.sums import Sum, totals_of
from headwater.algebra.time import Csn, Interval
from headwater.sql.dialect import VerbatimSpark, bigint, call, column, named, quoted, subquery, to_text
from headwater.sql.relations import COUNT, CSN, Derived, Sources, TableMoments
from headwater.sql.render import state_relation
from headwater.sql.signed_zero import as_they_are, told_apart
from headwater.sql.summing import NEXT, VERSION, partial_totals, summed_answers, summed_state

_LIST, _PLACE = "__hw_versions", "__hw_place"
_TIE = "tie"  # marks what breaks ties in an ORDER BY of ours

# Their answers among rows that tie in ORDER BY depend on which comes first.
_ORDER_BOUND = frozenset({"row_number", "ntile", "lag", "lead"})
_FIRST = frozenset({"first", "first_value"})
# These must see which rows tie; a ROWS frame, which is their own anyway, says nothing of them.
_BY_TIES = frozenset({"rank", "dense_rank", "percent_rank", "cume_dist"})


@dataclass(frozen=True, slots=True)
class InputChange:
    """The staged change of one input of a node; ``retracts``: it takes rows away."""

    table: str
    retracts: bool
    rows: int


class NodeRelations:
    """The nodes of a view as relations, over its tables and the views below it.

    A node's change is staged before it is used, or, where it is used once, given as ``inlined``.
    """

    def __init__(self, nodes: Nodes, moments: TableMoments, views: Derived, begin: Csn) -> None:
        self._nodes = nodes
        self._views = views
        self._begin = begin
        self.inlined: dict[str, exp.Query] = {}
        self.sources = Sources(moments, self)

    def __contains__(self, name: str) -> bool:
        return name in self._nodes or name in self._views

    def state(self, name: str, at: Csn) -> exp.Query:
        return state_of(self._nodes[name], at, self.sources) if name in self._nodes else self._views.state(name, at)

    def changes(self, name: str, interval: Interval) -> exp.Query:
        return self.inlined[name] if name in self._nodes else self._views.changes(name, interval)

    def nothing(self, name: str) -> exp.Query:
        return self.state(name, self._begin).where(exp.false())


class SummedRelations(NodeRelations):
    """The same, but what adds up is put together from totals, as a change of it is."""

    def state(self, name: str, at: Csn) -> exp.Query:
        node = self._nodes.get(name)
        if isinstance(node, Aggregate) and node.sums is not None:
            return summed_state(node, node.sums, state_relation(node.input, at, self.sources))
        return super().state(name, at)


# ---------------------------------------------------------------------- states


def state_of(node: Node, at: Csn, sources: Sources) -> exp.Select:
    """The node's bag at a csn."""
    inputs = [state_relation(plan, at, sources) for plan in node.inputs]
    match node:
        case Aggregate():
            totals = partial_totals(node.sums, None) if node.carried and node.sums is not None else []
            select = exp.select(*_named(node), *totals, copy=False).from_(_rows(node, inputs[0], []))
            return select.group_by(*(column(key) for key in node.keys)) if node.keys else select
        case Match():
            return _joined(node, inputs[0], inputs[1], list(node.conditions)).select(
                *(_columns(node.attributes) or [exp.null()]), copy=False
            )
        case Window():
            return exp.select(*_columns(node.input.attributes), *_window_values(node), copy=False).from_(
                subquery(inputs[0], "i")
            )
        case Top():
            ordered = exp.select(*_columns(node.attributes), copy=False).from_(subquery(inputs[0], "i"))
            ordered = ordered.order_by(*total_order(node)).limit(node.limit)
            ordered = ordered.offset(node.offset) if node.offset else ordered
            return exp.select(*_columns(node.attributes), copy=False).from_(subquery(ordered, "t"))


def _rows(node: Aggregate, rows: exp.Query, more_keys: Sequence[str]) -> exp.Subquery:
    """What an aggregate reads: as it comes, or each group in one place and in one order."""
    if not node.ordered:
        return subquery(rows, "i")
    keys = [*more_keys, *node.keys]
    others = [name for name in node.input.attributes if name not in node.keys]
    select = exp.select(*_columns([*more_keys, *node.input.attributes]), copy=False).from_(subquery(rows, "o"))
    select.set("distribute", exp.Distribute(expressions=_columns(keys) or [exp.Literal.number(0)]))
    select.set("sort", exp.Sort(expressions=[_ordered(column(name)) for name in (*keys, *others)]))
    return subquery(select, "i")


def _named(node: Aggregate) -> list[exp.Expr]:
    values = [exp.alias_(value.copy(), name, quoted=True) for name, value in node.values]
    # Of an aggregate without keys and values its one row is left: something must still be aggregated.
    return [*_columns(node.keys), *values] or [call("count", exp.Star())]


def _joined(node: Match, left: exp.Query, right: exp.Query, conditions: Sequence[exp.Expr]) -> exp.Select:
    on = exp.and_(*(condition.copy() for condition in conditions)) if conditions else exp.true()
    select = exp.Select().from_(subquery(left, "l"), copy=False)
    return select.join(subquery(right, "r"), on=on, join_type=node.kind.value, copy=False)


def _window_values(node: Window, *more_keys: exp.Expr) -> list[exp.Expr]:
    found = []
    for name, value in node.values:
        window = value.copy()
        window.set("partition_by", [*(key.copy() for key in more_keys), *(window.args.get("partition_by") or [])])
        if breaks_ties(value):
            given = window.args["order"].expressions if window.args.get("order") else []
            ties = [_ordered(column(each)) for each in node.input.attributes]
            window.set("order", exp.Order(expressions=[*given, *ties]))
        found.append(exp.alias_(window, name, quoted=True))
    return found


def breaks_ties(window: exp.Expr) -> bool:
    """Whether rows that tie in ORDER BY, all where there is none, are ordered by the rest of their columns.

    The answer is then one that Spark could give. Frames of rows that tie must not change by that: the first value of
    such a frame does not, the first that is not NULL does.
    """
    call, ignores_nulls = window.this, False
    while isinstance(call, exp.IgnoreNulls | exp.RespectNulls | exp.Filter):
        ignores_nulls |= isinstance(call, exp.IgnoreNulls)
        call = call.this
    if call.name.lower() in _BY_TIES:
        return False
    spec = window.args.get("spec")
    if spec is not None and str(spec.args.get("kind") or "").upper() == "ROWS":
        return True
    first = call.name.lower() in _FIRST and spec is None and not ignores_nulls and len(call.expressions) == 1
    return window.args.get("order") is not None and (call.name.lower() in _ORDER_BOUND or first)


def total_order(node: Top) -> list[exp.Expr]:
    """By which the rows of a node come; only rows that are the same tie."""
    ties = [_ordered(column(name)) for name in node.attributes]
    return [*(each.copy() for each in node.order), *ties]


def _ordered(value: exp.Expr) -> exp.Ordered:
    ordered = exp.Ordered(this=value, nulls_first=True)
    ordered.meta[_TIE] = True
    return ordered


def with_ties_reversed(query: exp.Query) -> exp.Query:
    """The same query, but rows that tie come in the opposite order."""
    found = query.copy()
    for ordered in found.find_all(exp.Ordered):
        if ordered.meta.get(_TIE):
            ordered.set("desc", True)
            ordered.set("nulls_first", False)
    return found


# ---------------------------------------------------------------------- changes


def touched_keys(node: Node, begin: Csn, changes: Sequence[InputChange | None]) -> exp.Select:
    """Every touched key with its versions, each with the next one."""
    names = key_names(node.key(0))
    parts: list[exp.Query] = []
    for side, change in enumerate(changes):
        if change is not None:
            keys = [named(column(key), name) for key, name in zip(node.key(side), names, strict=True)]
            parts.append(exp.select(*keys, column(CSN), copy=False).from_(exp.Table(this=quoted(change.table))))
    together = reduce(lambda left, right: exp.union(left, right, distinct=False, copy=False), parts)
    csns = call("array_append", call("collect_set", column(CSN)), bigint(begin))
    listed = exp.select(*_columns(names), named(call("array_sort", csns), _LIST), copy=False).from_(
        subquery(together, "t")
    )
    listed = listed.group_by(*_columns(names)) if names else listed
    following = call("get", column(_LIST), exp.Add(this=column(_PLACE), expression=exp.Literal.number(1)))
    select = exp.select(*_columns(names), column(VERSION), named(following, NEXT), copy=False).from_(
        subquery(listed, "k")
    )
    select.set("laterals", [_lateral_view(call("posexplode", column(_LIST)), [_PLACE, VERSION])])
    return select


def change_of(
    node: Node,
    interval: Interval,
    changes: Sequence[InputChange | None],
    touched: str,
    before: Sequence[exp.Query],
    sources: Sources,
) -> exp.Query:
    """The node's timed change, consolidated.

    ``changes`` are the staged changes of its inputs (None: unchanged), ``touched`` what ``touched_keys`` gives, staged,
    ``before`` the rows of each input with touched keys at the beginning.
    """
    versions = [_versions(node, side, before[side], change, touched) for side, change in enumerate(changes)]
    return _emitted(node, _answers(node, versions, touched, interval.start, sources), interval.start)


def summed_change(
    node: Aggregate, sums: Sequence[Sum], interval: Interval, change: InputChange, before: exp.Query
) -> exp.Query:
    """The timed change of an aggregate that adds up; ``before`` gives the totals of touched keys at the beginning."""
    return _emitted(node, summed_answers(node, sums, before, change.table, interval.start), interval.start)


def changed_keys(keys: Sequence[Attribute], change: InputChange) -> exp.Select:
    """The keys in a change, each as often as it changed."""
    pairs = zip(keys, key_names(keys), strict=True)
    items = [named(column(key), name) for key, name in pairs]
    return exp.select(*(items or [exp.null()]), copy=False).from_(exp.Table(this=quoted(change.table)))


def asked_keys(keys: Sequence[Attribute], touched: exp.Query, at: Csn) -> str:
    """Touched keys, each once, as a change after a csn."""
    items = [*_columns(key_names(keys)), named(bigint(1), COUNT), named(bigint(at + 1), CSN)]
    return to_text(exp.select(*items, copy=False).from_(subquery(touched, "t")).distinct())


def staged_rows(table: str, names: Sequence[str]) -> exp.Select:
    """Columns of a staged relation."""
    return exp.select(*(_columns(names) or [exp.null()]), copy=False).from_(exp.Table(this=quoted(table)))


def key_names(keys: Sequence[Attribute]) -> list[str]:
    """What the columns of touched keys are called."""
    return [f"__hw_key{index}" for index in range(len(keys))]


def _versions(node: Node, side: int, before: exp.Query, change: InputChange | None, touched: str) -> exp.Query:
    """The rows of an input with touched keys, as a bag for each version of their key."""
    keys, names = node.key(side), key_names(node.key(0))
    attributes = node.inputs[side].attributes
    version = [column(VERSION), column(NEXT)]
    state = _with_versions(before, [*_columns(attributes), *version, named(bigint(1), COUNT)], keys, names, touched)
    if change is None:
        return state
    table = exp.select(*_columns(attributes), column(COUNT), column(CSN), copy=False).from_(
        exp.Table(this=quoted(change.table))
    )
    so_far = exp.LTE(this=column(CSN), expression=column(VERSION))
    columns = [*_columns(attributes), *(each.copy() for each in version)]
    added = _with_versions(table, [*columns, column(COUNT)], keys, names, touched, so_far)
    both: exp.Query = exp.union(state, added, distinct=False, copy=False)
    if change.retracts:
        total = exp.Sum(this=column(COUNT))
        both = (
            exp.select(*as_they_are(attributes, node.floating), *version, named(total, COUNT), copy=False)
            .from_(subquery(both, "b"))
            .group_by(*told_apart(attributes, node.floating), *(each.copy() for each in version))
            .having(exp.GT(this=total.copy(), expression=exp.Literal.number(0)))
        )
    return _repeated(both, columns)


def touched_rows(plan: Plan, keys: Sequence[Attribute], touched: exp.Query, at: Csn, sources: Sources) -> exp.Query:
    """The rows of an input with touched keys at a csn."""
    return _of_keys(state_relation(plan, at, sources), plan.attributes, keys, touched)


def touched_totals(node: Aggregate, sums: Sequence[Sum], carried: exp.Query, touched: exp.Query) -> exp.Query:
    """Of totals that a view carries, those of touched keys."""
    return _of_keys(carried, [*node.keys, *totals_of(sums)], node.keys, touched)


def _of_keys(rows: exp.Query, names: Sequence[str], keys: Sequence[Attribute], touched: exp.Query) -> exp.Query:
    """The rows whose keys are among the touched ones; all rows are of the one key where there is no other."""
    if not keys:
        return rows
    select = exp.select(*_columns(names), copy=False).from_(subquery(rows, "s"))
    return select.join(subquery(touched, "k"), on=_same(keys, key_names(keys)), join_type="LEFT SEMI", copy=False)


def _with_versions(
    rows: exp.Query,
    columns: Sequence[exp.Expr],
    keys: Sequence[Attribute],
    names: Sequence[str],
    touched: str,
    *conditions: exp.Expr,
) -> exp.Select:
    on = [*([_same(keys, names)] if keys else []), *conditions]
    return (
        exp.select(*columns, copy=False)
        .from_(subquery(rows, "x"))
        .join(
            _table(touched, "v"),
            on=exp.and_(*on) if on else None,
            join_type="INNER" if on else "CROSS",
            copy=False,
        )
    )


def _repeated(rows: exp.Query, columns: Sequence[exp.Expr]) -> exp.Select:
    """Rows with counts as rows."""
    copies = exp.Anonymous(
        this="array_repeat", expressions=[exp.Literal.number(0), exp.cast(column(COUNT), "INT", dialect=VerbatimSpark)]
    )
    select = exp.select(*(each.copy() for each in columns), copy=False).from_(subquery(rows, "n"))
    select.set("laterals", [_lateral_view(exp.Anonymous(this="explode", expressions=[copies]), ["__hw_copy"])])
    return select


def _answers(node: Node, versions: Sequence[exp.Query], touched: str, begin: Csn, sources: Sources) -> exp.Select:
    """The node's rows at every version, with the version and the next."""
    version = [column(VERSION), column(NEXT)]
    match node:
        case Aggregate():
            select = exp.select(*_named(node), *version, copy=False).from_(_rows(node, versions[0], [VERSION, NEXT]))
            grouped = select.group_by(*(column(key) for key in node.keys), *(each.copy() for each in version))
            return grouped if node.keys else _always_one(node, grouped, touched, begin, sources)
        case Match():
            same = exp.EQ(this=column(VERSION, "l"), expression=column(VERSION, "r"))
            select = _joined(node, versions[0], versions[1], [same, *node.conditions])
            match node.kind:
                case MatchKind.FULL:
                    stamps = [_coalesced(name) for name in (VERSION, NEXT)]
                case MatchKind.RIGHT:
                    stamps = [column(VERSION, "r"), column(NEXT, "r")]
                case _:
                    stamps = [column(VERSION, "l"), column(NEXT, "l")]
            return select.select(
                *_columns(node.attributes), named(stamps[0], VERSION), named(stamps[1], NEXT), copy=False
            )
        case Window():
            values = _window_values(node, column(VERSION))
            columns = [*_columns(node.input.attributes), *values, *version]
            return exp.select(*columns, copy=False).from_(subquery(versions[0], "i"))
        case Top():
            place = exp.Window(
                this=exp.Anonymous(this="row_number"),
                partition_by=[column(VERSION)],
                order=exp.Order(expressions=total_order(node)),
            )
            ranked = exp.select(*_columns(node.attributes), *version, named(place, "__hw_place"), copy=False).from_(
                subquery(versions[0], "i")
            )
            inside = exp.and_(
                exp.GT(this=column("__hw_place"), expression=exp.Literal.number(node.offset)),
                exp.LTE(this=column("__hw_place"), expression=exp.Literal.number(node.offset + node.limit)),
            )
            columns = [*_columns(node.attributes), *(each.copy() for each in version)]
            return exp.select(*columns, copy=False).from_(subquery(ranked, "p")).where(inside)


def _always_one(node: Aggregate, grouped: exp.Select, touched: str, begin: Csn, sources: Sources) -> exp.Select:
    """An aggregate without keys has a row over no rows too: Spark's own answer to that."""
    nothing = state_relation(node.input, begin, sources).where(exp.false())
    empty = exp.select(*_named(node), copy=False).from_(subquery(nothing, "n"))
    missing = exp.Is(this=column(VERSION, "f"), expression=exp.null())
    values = [
        named(
            exp.Case(ifs=[exp.If(this=missing.copy(), true=column(name, "e"))], default=column(name, "f")),
            name,
        )
        for name in node.attributes
    ]
    same = exp.EQ(this=column(VERSION, "v"), expression=column(VERSION, "f"))
    return (
        exp.select(*values, column(VERSION, "v"), column(NEXT, "v"), copy=False)
        .from_(_table(touched, "v"))
        .join(subquery(grouped, "f"), on=same, join_type="LEFT", copy=False)
        .join(subquery(empty, "e"), join_type="CROSS", copy=False)
    )


def _emitted(node: Node, answers: exp.Select, begin: Csn) -> exp.Query:
    """Every answer added at its version and taken away at the next; what did not change cancels out."""
    columns = _columns(node.attributes)
    pairs = [bigint(1), column(VERSION), bigint(-1), column(NEXT)]
    both = exp.Anonymous(this="stack", expressions=[exp.Literal.number(2), *pairs])
    select = exp.select(*columns, column(COUNT), column(CSN), copy=False).from_(subquery(answers, "f"))
    select.set("laterals", [_lateral_view(both, [COUNT, CSN])])
    select = select.where(exp.GT(this=column(CSN), expression=exp.Literal.number(begin)))
    total = exp.Sum(this=column(COUNT))
    return (
        exp.select(*as_they_are(node.attributes, node.floating), named(total, COUNT), column(CSN), copy=False)
        .from_(subquery(select, "c"))
        .group_by(*told_apart(node.attributes, node.floating), column(CSN))
        .having(exp.NEQ(this=total.copy(), expression=exp.Literal.number(0)))
    )


# ---------------------------------------------------------------------- small parts


def _table(name: str, alias: str) -> exp.Table:
    return exp.Table(this=quoted(name), alias=exp.TableAlias(this=quoted(alias)))


def _columns(names: Sequence[str]) -> list[exp.Expr]:
    return [column(name) for name in names]


def _same(keys: Sequence[Attribute], names: Sequence[str]) -> exp.Expr:
    return exp.and_(
        *(exp.NullSafeEQ(this=column(key), expression=column(name)) for key, name in zip(keys, names, strict=True))
    )


def _coalesced(name: str) -> exp.Expr:
    return exp.Anonymous(this="coalesce", expressions=[column(name, "l"), column(name, "r")])


def _lateral_view(generator: exp.Expr, names: Sequence[str]) -> exp.Lateral:
    alias = exp.TableAlias(this=quoted("__hw_made"), columns=[quoted(name) for name in names])
    return exp.Lateral(this=generator, view=True, outer=False, alias=alias)
