"""A small change meets large tables, one at a time.

Spark knows the size of a change, but takes the join of a change with a table to be as large as the product of both, and
shuffles every further table to meet it. So before each large table what there is so far is computed and kept: a
few rows, which go to every task of the scan. If there are none, the table is not read at all; if they are many, the
rest is left to Spark in one statement. Small tables in between cost nothing and are joined along.

The first step is the change itself, without rows that the block's own conditions leave out and without what cancels
out: an update of columns that the view does not use is no change. Joins without a large table stay one statement.

What is kept also tells where its keys lie (``headwater.algebra.grid``), so a large table is read within literal ranges,
and Delta leaves out the files that have no row there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from sqlglot import exp

from headwater.algebra.apart import Joined, apart, in_order, of_keys, with_scans
from headwater.algebra.plan import Attribute, LeafId, Plan, Scan, scans
from headwater.algebra.product import attributes_of
from headwater.algebra.query import BaseDelta, CsnRule, Patched, Query, Snapshot, Term
from headwater.algebra.time import Csn, Interval
from headwater.context import Sizes
from headwater.engine.staging import StagedRows
from headwater.propagate.frontier import block_queries
from headwater.propagate.join_order import InputSize, equalities, join_order
from headwater.propagate.kept import CountedLog, Kept, LeafChange, Meeting, few
from headwater.sql.dialect import column, to_text
from headwater.sql.key_condition import spans_condition
from headwater.sql.relations import Only, Sources, leaf_changes
from headwater.sql.render import state_relation, view_delta_sql
from headwater.sql.transitions import key_names, staged_rows

_ASKED = "keys asked for"


@dataclass(frozen=True, slots=True)
class Prepared:
    """Queries that are ready to run as one statement, and what they read."""

    queries: tuple[Query, ...]
    sources: Sources
    broadcast: frozenset[str]
    after: Csn | None = None  # of the answers, only rows of later csns count
    answers: tuple[str, ...] = ()  # that are kept already
    rows: int | None = None  # that the queries go through, where that is known

    @property
    def is_empty(self) -> bool:
        return not self.queries and not self.answers

    def text(self, names: Sequence[str]) -> str:
        return view_delta_sql(
            self.queries, names, self.sources, broadcast=self.broadcast, after=self.after, kept=self.answers
        )


def small_changes(queries: Sequence[Query], log: CountedLog, sizes: Sizes) -> frozenset[str]:
    """The aliases of leaves whose changes are known to be few in every query."""
    known: dict[str, bool] = {}
    for query in queries:
        for scan in scans(query.plan):
            term = query.terms[scan.leaf]
            if isinstance(term, BaseDelta):
                small = few(log.known_rows(scan.table, term.interval), sizes)
                known[scan.alias] = known.get(scan.alias, True) and small
    return frozenset(alias for alias, small in known.items() if small)


class Stepping(Kept):
    """Prepares the queries of one view's blocks."""

    def with_leaf_changes(self, queries: Sequence[Query], sources: Sources) -> Sources:
        """The sources with the changes of the queries' leaves, kept by one job for all stages that need them."""
        return _Run(self, sources).keep_leaf_changes(queries) if self.steps(queries) else sources

    def prepared(self, queries: Sequence[Query], sources: Sources) -> Prepared:
        sources = replace(sources, small=self._small_tables)
        if self.steps(queries):
            return _Run(self, sources).prepared(queries)
        return Prepared(tuple(queries), sources, small_changes(queries, self, self.sizes))

    def steps(self, queries: Sequence[Query]) -> bool:
        """Whether changes meet large tables in these queries: then the change of each leaf is kept first."""
        if any(query.rule is not CsnRule.LATEST or not query.marked for query in queries):
            return False
        return any(self._joins_large(Joined.of(query.plan)) for query in queries)

    def touched_state(
        self, plan: Plan, keys: Sequence[Attribute], asked: str, at: Csn, sources: Sources
    ) -> exp.Query | None:
        """The rows of a plan at a csn with touched keys, kept; None if the plan does not join large tables.

        ``asked`` gives the keys, each once, as a change (``headwater.sql.transitions.asked_keys``).
        """
        product = Joined.of(plan)
        if not keys or not self._reads_large(product):
            return None
        moment = Interval(at, Csn(at + 1))
        names = tuple(key_names(keys))
        scan = Scan(LeafId(0), _ASKED, _ASKED, names, names)
        query = of_keys(plan, keys, scan, BaseDelta(moment), at)
        found = _Run(self, sources).answered(query, scan, moment, asked)
        if not found.queries:
            return state_relation(plan, at, sources).where(exp.false())
        text = view_delta_sql(found.queries, plan.attributes, found.sources, broadcast=found.broadcast)
        return staged_rows(self.stage(text).name, plan.attributes)

    def _joins_large(self, product: Joined) -> bool:
        return len(product.inputs) > 1 and self._reads_large(product)

    def _reads_large(self, product: Joined) -> bool:
        return any(self.is_large(self.size(each)) for each in product.inputs)

    @cached_property
    def _small_tables(self) -> frozenset[str]:
        """Tables that are held in memory and small: Spark takes what it holds for larger than what is read of it."""
        holds = self._context.engine.residents.holds_few
        return frozenset(name for name in self._definition.tables if holds(self._moments.location(name)))

    def read_often(self, plans: Iterable[Plan], interval: Interval) -> list[LeafChange]:
        """The changes of base tables that are read in several places."""
        uses: Counter[str] = Counter()
        for plan in plans:
            changed = [scan.table for scan in scans(plan) if scan.table in self._definition.tables]
            changed = [table for table in changed if self._moments.has_changes(table, interval)]
            kept = self.steps(block_queries(plan, interval, self._log))
            for table in changed:
                uses[table] += 1 if kept else len(changed)
        return [(table, interval) for table, count in uses.items() if count > 1]


class _Run:
    """The queries of one block, each with another of its inputs changed."""

    def __init__(self, stepping: Stepping, sources: Sources) -> None:
        self._stepping = stepping
        self._sources = sources
        self._sizes = stepping.sizes
        self._inputs: dict[tuple[str, ...], InputSize] = {}
        self._rows: dict[str, int | None] = {}

    def prepared(self, queries: Sequence[Query]) -> Prepared:
        queries = self._with_leaf_changes(queries)
        stepped = [self._stepped(query) for query in queries]
        left = tuple(query for query in stepped if query is not None)
        return Prepared(left, self._sources, self._small())

    def keep_leaf_changes(self, queries: Sequence[Query]) -> Sources:
        self._with_leaf_changes(queries)
        return self._sources

    def answered(self, query: Query, asked: Scan, moment: Interval, keys: str) -> Prepared:
        """A query for the rows that some keys ask for."""
        meetings = self._meetings(asked, Joined.of(query.plan))
        kept = self._stepping.stage(keys, [each.spread for each in meetings])
        self._keep(asked.alias, moment, kept, meetings)
        self._inputs[_key(asked)] = InputSize(kept.rows)
        stepped = self._stepped(query)
        return Prepared((stepped,) if stepped is not None else (), self._sources, self._small())

    def _small(self) -> frozenset[str]:
        return frozenset(alias for alias, rows in self._rows.items() if few(rows, self._sizes))

    def _with_leaf_changes(self, queries: Sequence[Query]) -> list[Query]:
        """Keep the changes of all leaves, in one job; queries whose change is empty fall away.

        What is kept of a leaf has a name of its own by the conditions that it was kept under.
        """
        texts: dict[LeafChange, str] = {}
        rows: dict[LeafChange, int] = {}
        meetings: dict[LeafChange, dict[Meeting, None]] = {}
        over: list[Query] = []
        feeds: dict[tuple[str, Interval], int | None] = {}
        for query in queries:
            product = Joined.of(query.plan)
            changed: dict[str, Scan] = {}
            for scan in scans(query.plan):
                term = query.terms[scan.leaf]
                if not isinstance(term, BaseDelta | Patched):
                    continue
                if self._stepping.is_kept(scan):
                    self._rows[scan.alias] = self._stepping.known_rows(scan.table, term.interval)
                    continue
                own = [each for each in product.conditions if attributes_of(each) <= set(scan.attributes)]
                kept_as = self._stepping.named(scan.alias, [to_text(each) for each in own])
                changed[scan.alias] = replace(scan, alias=kept_as)
                key = (kept_as, term.interval)
                if key in self._sources.changed and key in self._stepping.kept:
                    rows[key] = self._stepping.kept[key]  # an earlier stage needed them too
                else:
                    feeds[scan.table, term.interval] = self._stepping.known_rows(scan.table, term.interval)
                    texts[key] = leaf_changes(scan, term.interval, own, self._sources, self._stepping.is_plain(scan))
                    meetings.setdefault(key, {}).update(dict.fromkeys(self._meetings(scan, product)))
            over.append(replace(query, plan=with_scans(query.plan, changed)))
        spreads = {key: [each.spread for each in found] for key, found in meetings.items()}
        told = None if None in feeds.values() else sum(count or 0 for count in feeds.values())
        for key, kept in self._stepping.stage_leaves(texts, spreads, rows=told).items():
            self._keep(*key, kept, list(meetings[key]))
            rows[key] = kept.rows
        self._stepping.kept.update(rows)
        empty = {key for key, count in rows.items() if not count}
        for (alias, _), count in rows.items():
            self._rows[alias] = max(count, self._rows.get(alias) or 0)
        return [left for query in over if (left := _without(query, empty)) is not None]

    def _stepped(self, query: Query) -> Query | None:
        product = Joined.of(query.plan)
        interval = interval_of(query.terms[min(query.marked)])
        sizes = [self._size(each) for each in product.inputs]
        inputs = [each.attributes for each in product.inputs]
        changed = {product.input_with(leaf) for leaf in query.marked}
        order = join_order(inputs, product.conditions, sizes, product.input_with(min(query.marked)))
        order.sort(key=lambda index: index not in changed)  # changes meet one another first
        order = self._near_first(query, product, order, len(changed))
        query = in_order(query, order)
        large = [index not in changed and self._stepping.is_large(sizes[index]) for index in order]
        together = len(changed)
        known = [self._rows.get(scan.alias) for scan in scans(query.plan) if scan.leaf in query.marked]
        rows = None if None in known else max(count for count in known if count is not None)
        while few(rows, self._sizes):
            ahead = [place for place in range(together, len(large)) if large[place]]
            if not ahead or (together == 1 and ahead == [1]):
                break
            first = ahead[0] if ahead[0] > 1 else 2
            query, rows = self._step(query, first, interval)
            large, together = [False, *large[first:]], 1
            if rows == 0:
                return None
        return self._limited(query)

    def _near_first(self, query: Query, product: Joined, order: list[int], together: int) -> list[int]:
        """A single change meets first what it meets in a few ranges of keys, known already: nothing is kept between."""
        start = product.inputs[order[0]]
        if together > 1 or not isinstance(start, Scan):
            return order
        change = (start.alias, interval_of(query.terms[start.leaf]))
        for index in order[1:]:
            if self._within(change, start, product.inputs[index], product):
                return [order[0], index, *(other for other in order[1:] if other != index)]
        return order

    def _size(self, plan: Plan) -> InputSize:
        key = _key(plan)
        if key not in self._inputs:
            self._inputs[key] = self._stepping.size(plan)
        return self._inputs[key]

    def _step(self, query: Query, first: int, interval: Interval) -> tuple[Query, int]:
        name = self._stepping.next_name()
        inner, rest = apart(query, first, name, interval)
        inner = self._limited(inner)
        text = view_delta_sql([inner], inner.plan.attributes, self._sources, broadcast=self._small())
        product = Joined.of(rest.plan)
        start = product.inputs[0]
        meetings = self._meetings(start, product) if isinstance(start, Scan) else []
        found = self._stepping.stage(text, [each.spread for each in meetings])
        self._keep(name, interval, found, meetings)
        return rest, found.rows

    def _keep(self, alias: str, interval: Interval, kept: StagedRows, meetings: Sequence[Meeting]) -> None:
        """Have it that a leaf's changes are kept, and what they tell of the tables that they meet."""
        self._rows[alias] = max(kept.rows, self._rows.get(alias) or 0)
        self._sources = replace(self._sources, changed={**self._sources.changed, (alias, interval): kept.name})
        for meeting, cells in zip(meetings, kept.cells, strict=True):
            spans = None if cells is None else meeting.grid.spans(cells)
            if spans is not None:
                condition = spans_condition(column(meeting.key), spans, nulls_meet=meeting.nulls)
                self._stepping.spans[kept.name, meeting] = condition

    def _meetings(self, start: Scan, product: Joined) -> list[Meeting]:
        """Where a change meets a large table by a key."""
        return [found for each in product.inputs for found in self._meetings_with(each, start, product)]

    def _meetings_with(self, each: Plan, start: Scan, product: Joined) -> list[Meeting]:
        if not isinstance(each, Scan) or each.leaf == start.leaf:
            return []
        own = dict(zip(start.attributes, start.columns, strict=True))
        names = dict(zip(each.attributes, each.columns, strict=True))
        found = []
        for value, key, condition in equalities(product.conditions, start.attributes, each.attributes):
            grid = self._stepping.grid(each, key)
            if grid is not None and isinstance(value, exp.Column):
                nulls = isinstance(condition, exp.NullSafeEQ)
                found.append(Meeting(own[value.name], grid, key, names[key], nulls))
        return found

    def _within(self, change: LeafChange, start: Scan, each: Plan, product: Joined) -> list[exp.Expr]:
        """In which ranges of its keys a kept change meets an input, by the conditions of this product alone."""
        kept = self._sources.changed.get(change)
        if kept is None:
            return []
        found = [self._stepping.spans.get((kept, meeting)) for meeting in self._meetings_with(each, start, product)]
        return [condition for condition in found if condition is not None]

    def _limited(self, query: Query) -> Query:
        """Of a node or another view, only rows that the kept change meets need to be had; of a large table, files.

        What it meets is this query's own: the scan gets a name of its own.
        """
        product = Joined.of(query.plan)
        start = product.inputs[0]
        if not isinstance(start, Scan) or not few(self._rows.get(start.alias), self._sizes):
            return query
        change = (start.alias, interval_of(query.terms[start.leaf]))
        kept = self._sources.changed.get(change)
        if kept is None:
            return query
        inputs: list[Plan] = [start]
        for each in product.inputs[1:]:
            if isinstance(each, Scan) and not isinstance(query.terms[each.leaf], BaseDelta):
                each = self._only_met(each, start, change, kept, product)
            inputs.append(each)
        return replace(query, plan=replace(product, inputs=tuple(inputs)).plan())

    def _only_met(self, each: Scan, start: Scan, change: LeafChange, kept: str, product: Joined) -> Scan:
        """The scan under a name that stands for what a kept change meets of it; as it is where that is not known."""
        within = self._within(change, start, each, product)
        pairs: tuple[tuple[str, exp.Expr], ...] = ()
        if self._stepping.is_derived(each):
            names = dict(zip(start.attributes, start.columns, strict=True))
            own = dict(zip(each.attributes, each.columns, strict=True))
            pairs = tuple(
                (own[attribute], renamed(value, names))
                for value, attribute, condition in equalities(product.conditions, start.attributes, each.attributes)
                if isinstance(condition, exp.EQ)
            )
        if not within and not pairs:
            return each
        meant = (kept, [to_text(condition) for condition in within], [(name, to_text(value)) for name, value in pairs])
        limited = replace(each, alias=self._stepping.named(f"{each.alias} of {start.alias} {change[1]}", meant))
        # Its own changes, where it has some in this query, stay what they are.
        changed = {
            (limited.alias, interval): name
            for (alias, interval), name in self._sources.changed.items()
            if alias == each.alias
        }
        self._sources = replace(self._sources, changed={**self._sources.changed, **changed})
        if within:
            conditions = {**self._sources.within, limited.alias: exp.and_(*within)}
            self._sources = replace(self._sources, within=conditions)
        if pairs:
            self._sources = replace(self._sources, only={**self._sources.only, limited.alias: Only(kept, pairs)})
        return limited


def _key(plan: Plan) -> tuple[str, ...]:
    return tuple(scan.alias for scan in scans(plan))


def interval_of(term: Term) -> Interval:
    if not isinstance(term, BaseDelta):
        raise ValueError(f"{term} is no change")
    return term.interval


def _without(query: Query, empty: set[LeafChange]) -> Query | None:
    """The query without changes that are none; None if it is all about one."""
    terms = list(query.terms)
    for scan in scans(query.plan):
        match terms[scan.leaf]:
            case BaseDelta(interval=interval) if (scan.alias, interval) in empty:
                return None
            case Patched(interval=interval) if (scan.alias, interval) in empty:
                terms[scan.leaf] = Snapshot(interval.start)
            case _:
                pass
    return replace(query, terms=tuple(terms))


def renamed(value: exp.Expr, names: Mapping[str, str]) -> exp.Expr:
    """An expression over a scan's attributes as one over its columns."""

    def rename(part: exp.Expr) -> exp.Expr:
        if isinstance(part, exp.Column):
            return exp.column(names[part.name], quoted=True)
        return part

    renamed: exp.Expr = value.copy().transform(rename)
    return renamed
