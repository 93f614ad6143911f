"""Queries of a step answered from the view's own rows, as far as these tell (``headwater.propagate.from_view``).

The queries of a step are answered one after another, each leaf with those before it as they are and those after it as
they were. So the view in which a leaf's changes are looked up is the stored one at the step's start together with the
answers so far. What it tells is kept as an answer like any other; the leaf's other changes are kept too, and the query
is run for them alone, or not at all.

*When.* Where rows would have to be asked of a database, always. Where all tables are in the lake, if one leaf changed,
a table that it meets is large, and of the view little need be read: because it is small, or because the leaf's key is
shown by the column in whose order the view is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from sqlglot import exp

from headwater.algebra.constraints import Constraint, Knowledge, Unique
from headwater.algebra.plan import Scan, scans
from headwater.algebra.product import products
from headwater.algebra.query import BaseDelta, CsnRule, Query, Snapshot, Term
from headwater.algebra.time import Csn, Interval
from headwater.catalog.records import ViewRecord
from headwater.context import Context
from headwater.definition import CatalogMoments, Definition, counted_rows
from headwater.engine.staging import Spread, StagedRows
from headwater.engine.statistics import COUNTABLE, Extent
from headwater.propagate.extents import table_extent
from headwater.propagate.from_view import FromView, from_view
from headwater.propagate.stepping import interval_of, renamed
from headwater.sql.completion import TOLD, completed, timed_view, to_be_asked, told_changes
from headwater.sql.dialect import column, quoted, to_text
from headwater.sql.fates import with_bookkeeping
from headwater.sql.key_condition import spans_condition
from headwater.sql.plain_types import is_plain_type
from headwater.sql.relations import Sources, changes_of

_APPENDS = frozenset({"WRITE", "STREAMING UPDATE", "COPY INTO"})  # Delta's operations that mostly add rows


def telling_keys(
    context: Context, view: ViewRecord, definition: Definition, declared: Sequence[Constraint], interval: Interval
) -> frozenset[Constraint]:
    """Declared keys of the one changed leaf of a view by which its own rows would tell the change, or much of it."""
    keys = [each for each in declared if isinstance(each, Unique)]
    moments = CatalogMoments(context.catalog, definition)
    changed = [scan for scan in definition.leaves if moments.has_changes(scan.table, interval)]
    if not keys or definition.nodes or len(changed) != 1 or not _changes_rows(context, changed[0], interval):
        return frozenset()
    terms: list[Term] = [Snapshot(interval.start) for _ in definition.leaves]
    terms[changed[0].leaf] = BaseDelta(interval)
    query = Query(definition.plan, tuple(terms), CsnRule.LATEST)

    def tells(key: Unique) -> bool:
        known = Knowledge.of([key], interval)
        return OwnRows(context, view, definition, known, interval.start, ExitStack()).is_worth(query)

    return frozenset(key for key in keys if tells(key))


def _changes_rows(context: Context, scan: Scan, interval: Interval) -> bool:
    """Whether a table has other changes than new rows, of which the view can't tell."""
    units = context.catalog.units(scan.table, interval.start, interval.end)
    return any(unit.operation not in _APPENDS for unit in units)


@dataclass(slots=True)
class OwnRows:
    """The view as it stands between the queries of a step that takes all leaves from ``start``.

    ``answers`` are the kept answers of the queries so far; whoever runs a query adds its own.
    """

    context: Context
    view: ViewRecord
    definition: Definition
    known: Knowledge
    start: Csn
    stack: ExitStack
    answers: list[str] = field(default_factory=list)

    def is_worth(self, query: Query) -> bool:
        """Whether the view tells of a query's changes, for less than the tables do."""
        how = self._how(query)
        if how is None:
            return False
        met = (scan for scan in scans(query.plan) if scan.leaf != how.scan.leaf)
        if not any(self._rows(scan) >= self.context.sizes.large_table for scan in met):
            return False
        return self._extent().rows < self.context.sizes.large_table or self._spread(how) is not None

    def answer(self, query: Query, sources: Sources) -> Sources | None:
        """Add what the view tells of a query's changes to the answers.

        What the query is then to read, in which its leaf has the other changes alone; None if there are none.
        """
        how = self._how(query)
        if how is None:
            return sources
        self.context.progress(f"{self.view.name}: changes of {how.scan.table} from its own rows")
        interval = interval_of(query.terms[how.scan.leaf])
        told, within = self._told(how, interval, sources)
        self.answers.append(self._kept(self._completed(how, told, within)).name)
        rest = self._kept(to_be_asked(told.copy(), how.scan.columns))
        if not rest.rows:
            return None
        return replace(sources, changed={**sources.changed, (how.scan.alias, interval): rest.name})

    def _how(self, query: Query) -> FromView | None:
        found = products(query.plan)
        if len(found) != 1 or len(query.marked) != 1:
            return None
        leaf = min(query.marked)
        scan, interval = next(each for each in scans(query.plan) if each.leaf == leaf), interval_of(query.terms[leaf])
        kinds = [self.definition.type_of(scan.table, name) or "" for name in scan.columns]
        # Equal values of other types need not be the same.
        if interval.start != self.start or not all(map(is_plain_type, kinds)):
            return None
        return from_view(found[0], leaf, interval, self.known, self._of_one_type)

    def _told(self, how: FromView, interval: Interval, sources: Sources) -> tuple[exp.Select, exp.Expr | None]:
        """The leaf's changes, each with whether the view tells of it, and where their keys lie in the view."""
        columns = how.scan.columns
        changes = changes_of(how.scan.table, interval, columns, sources.moments)
        spread = self._spread(how)
        kept = self._kept(told_changes(changes, columns, how.key, how.tested), spread)
        told = exp.select(*with_bookkeeping(columns), column(TOLD)).from_(exp.Table(this=quoted(kept.name)))
        spans = spread[1].spans(kept.cells[0]) if spread is not None and kept.cells[0] is not None else None
        if spread is None or spans is None:
            return told, None
        return told, spans_condition(column(self._shown(how)[spread[0]]), spans, nulls_meet=False)

    def _completed(self, how: FromView, told: exp.Select, within: exp.Expr | None) -> exp.Query:
        names = [name for name, _ in self.view.stored]
        of_scan = dict(zip(how.scan.attributes, how.scan.columns, strict=True))
        rows = timed_view(counted_rows(self.view, self.start, names), self.answers, names, within)
        made = {names[place]: renamed(value, of_scan) for place, value in how.made}
        return completed(told.copy(), rows, self._shown(how), names, made, timed=True)

    def _shown(self, how: FromView) -> dict[str, str]:
        """For each column of the key, the view's column that shows it."""
        return {name: self.view.stored[place][0] for name, place in zip(how.key, how.shown, strict=True)}

    def _spread(self, how: FromView) -> Spread | None:
        """A column of the key by which the view is ordered, and where its values lie."""
        for name, output in self._shown(how).items():
            if output in self.view.cluster_by[:1] and output in self._extent().grids:
                return name, self._extent().grids[output]
        return None

    def _extent(self) -> Extent:
        ordered = [name for name, kind in self.view.stored if name in self.view.cluster_by[:1] and kind in COUNTABLE]
        return self.context.statistics.extent(self.view.location, ordered)

    def _rows(self, scan: Scan) -> int:
        moments = CatalogMoments(self.context.catalog, self.definition)
        return table_extent(self.context, self.definition, moments, scan).rows

    def _kept(self, query: exp.Query, spread: Spread | None = None) -> StagedRows:
        spreads = [] if spread is None else [spread]
        return self.stack.enter_context(self.context.engine.staging.changes(to_text(query), spreads))

    def _of_one_type(self, one: Scan, column: str, other: Scan, its: str) -> bool:
        kind = self.definition.type_of(one.table, column)
        if kind == "string" and any(self.context.catalog.mirror(scan.table) is None for scan in (one, other)):
            return False  # CHAR(n) of Delta says the same, and is padded where it is compared
        return kind is not None and kind == self.definition.type_of(other.table, its)
