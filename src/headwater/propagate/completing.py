"""Queries of a step answered from the view's own rows, as far as these tell (``headwater.propagate.from_view``).

The queries of a step are answered one after another, each leaf with those before it as they are and those after it as
they were. So the view in which a leaf's changes are looked up is the stored one at the step's start together with the
answers so far. What it tells is kept as an answer like any other; the leaf's other changes are kept too, and the query
is run for them alone, or not at all.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from sqlglot import exp

from headwater.algebra.constraints import Knowledge
from headwater.algebra.plan import Scan, scans
from headwater.algebra.product import products
from headwater.algebra.query import BaseDelta, Query
from headwater.algebra.time import Csn, Interval
from headwater.catalog.records import ViewRecord
from headwater.context import Context
from headwater.definition import Definition, counted_rows
from headwater.engine.staging import StagedRows
from headwater.propagate.from_view import FromView, from_view
from headwater.propagate.stepping import is_plain_type, renamed
from headwater.sql.completion import TOLD, completed, timed_view, to_be_asked, told_changes
from headwater.sql.dialect import column, quoted, to_text
from headwater.sql.fates import with_bookkeeping
from headwater.sql.relations import Sources, changes_of


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

    def answer(self, query: Query, sources: Sources) -> Sources | None:
        """Add what the view tells of a query's changes to the answers.

        What the query is then to read, in which its leaf has the other changes alone; None if there are none.
        """
        how = self._how(query)
        if how is None:
            return sources
        self.context.progress(f"{self.view.name}: changes of {how.scan.table} from its own rows")
        interval = _interval(query, how.scan)
        told = self._told(how, interval, sources)
        self.answers.append(self._kept(self._completed(how, told)).name)
        rest = self._kept(to_be_asked(told.copy(), how.scan.columns))
        if not rest.rows:
            return None
        return replace(sources, changed={**sources.changed, (how.scan.alias, interval): rest.name})

    def _how(self, query: Query) -> FromView | None:
        found = products(query.plan)
        if len(found) != 1 or len(query.marked) != 1:
            return None
        leaf = min(query.marked)
        scan = next(each for each in scans(query.plan) if each.leaf == leaf)
        # Equal values of other types need not be the same.
        if _interval(query, scan).start != self.start or not all(
            is_plain_type(self._kind(scan, name)) for name in scan.columns
        ):
            return None
        return from_view(found[0], leaf, _interval(query, scan), self.known, self._of_one_type)

    def _told(self, how: FromView, interval: Interval, sources: Sources) -> exp.Select:
        columns = how.scan.columns
        changes = changes_of(how.scan.table, interval, columns, sources.moments)
        kept = self._kept(told_changes(changes, columns, how.key, how.tested))
        return exp.select(*with_bookkeeping(columns), column(TOLD)).from_(exp.Table(this=quoted(kept.name)))

    def _completed(self, how: FromView, told: exp.Select) -> exp.Query:
        names = [name for name, _ in self.view.stored]
        of_scan = dict(zip(how.scan.attributes, how.scan.columns, strict=True))
        rows = timed_view(counted_rows(self.view, self.start, names), self.answers, names)
        shown = {name: names[place] for name, place in zip(how.key, how.shown, strict=True)}
        made = {names[place]: renamed(value, of_scan) for place, value in how.made}
        return completed(told.copy(), rows, shown, names, made, timed=True)

    def _kept(self, query: exp.Query) -> StagedRows:
        return self.stack.enter_context(self.context.engine.staging.changes(to_text(query)))

    def _of_one_type(self, one: Scan, column: str, other: Scan, its: str) -> bool:
        kind = self._kind(one, column)
        return bool(kind) and kind == self._kind(other, its)

    def _kind(self, scan: Scan, column: str) -> str:
        use = self.definition.tables.get(scan.table) or self.definition.views.get(scan.table)
        return "" if use is None else dict(use.columns).get(column, "")


def _interval(query: Query, scan: Scan) -> Interval:
    term = query.terms[scan.leaf]
    if not isinstance(term, BaseDelta):
        raise ValueError(f"{term} is no change")
    return term.interval
