"""How the change of a block is computed on Spark by the strategy that was wanted, and what each part of it took.

The values are ``headwater.propagate.strategy``'s: a tree's stages are computed one after another, each kept under its
name and read by later ones as the change of a table; a stage without rows takes with it what joins it. The queries of
a stage are prepared like any others, so a stage that meets large tables is taken apart before each of them
(``headwater.propagate.stepping``), and cut by what constraints tell (``headwater.propagate.knowing``).

In a round, the change of a join that several views select from is computed once (``headwater.propagate.sharing``).

A block without a join, and one of whose leaves nothing is known but that they changed, is computed by n terms. What was
expected and what was found of every set of leaves is reported (``BlockReport``), recorded with the step, drawn by
explain, and corrects the next estimates (``headwater.propagate.sizing``).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property

from sqlglot import exp

from headwater.algebra.apart import numbered_anew
from headwater.algebra.plan import Attribute, Filter, Generate, Join, LeafId, Plan, Project, Scan, Union, scans
from headwater.algebra.product import Product, ThroughUnion, products, unchanged
from headwater.algebra.query import BaseDelta, CsnRule, Query
from headwater.algebra.time import Interval
from headwater.catalog.records import JsonObject, ViewRecord
from headwater.context import Context
from headwater.definition import Definition
from headwater.engine.staging import StagedRows
from headwater.propagate.block_report import BlockReport, lessons, past_reports, rates_of, ratios, rounded
from headwater.propagate.choosing import Wanted, cheapest, price
from headwater.propagate.completing import OwnRows
from headwater.propagate.cores import core_of
from headwater.propagate.delta_tree import n_term
from headwater.propagate.fate_driver import prepared_by_fates
from headwater.propagate.fates import change_by_fates
from headwater.propagate.frontier import ChangeLog, block_queries
from headwater.propagate.knowing import Integrity
from headwater.propagate.moments import moments_of
from headwater.propagate.rates import MEASURED, Rates
from headwater.propagate.sharing import KeptCore, Sharing
from headwater.propagate.sizing import LeafFacts, sizes_of
from headwater.propagate.stepping import Prepared, Stepping
from headwater.propagate.strategy import ByTree, NTerm, Recompute, Strategy, change_over, find_tree
from headwater.propagate.tree_stages import StagedDelta, without
from headwater.sql.dialect import to_text
from headwater.sql.relations import Sources
from headwater.sql.render import state_relation

OWN_ROWS = "own rows"  # the change of a block as told by the view itself
SHARED = "as computed for"  # the change of a block as another view of the round has it


class Blocks:
    """Prepares the blocks of one step, and reports on each; ``is_view``: of a view, which has rows of its own."""

    def __init__(
        self,
        context: Context,
        view: ViewRecord,
        definition: Definition,
        wanted: Wanted,
        integrity: Integrity,
        *,
        is_view: bool = True,
    ) -> None:
        self._context = context
        self._view = view
        self._definition = definition
        self._wanted = wanted
        self._integrity = integrity
        self._is_view = is_view
        self._past = past_reports(context, view)
        self._started = 0.0
        self.reports: list[BlockReport] = []

    def as_json(self) -> list[JsonObject]:
        return [report.as_json() for report in self.reports]

    def prepared(
        self, name: str, plan: Plan, interval: Interval, log: ChangeLog, sources: Sources, stepping: Stepping
    ) -> Prepared:
        """The queries whose answers are the block's change over the interval; what they stand on is computed now."""
        self._started = time.monotonic()
        found = list(scans(plan))
        changed = frozenset(scan.leaf for scan in found if log.has_changes(scan.table, interval))
        if not changed or len(found) < 2:
            return stepping.prepared(self._integrity.cut(block_queries(plan, interval, log)), sources)
        shared = self._shared(name, plan, interval, log, sources, stepping)
        return self._own(name, plan, interval, log, sources, stepping) if shared is None else shared

    def _own(
        self, name: str, plan: Plan, interval: Interval, log: ChangeLog, sources: Sources, stepping: Stepping
    ) -> Prepared:
        """By this block's strategy."""
        found = list(scans(plan))
        changed = frozenset(scan.leaf for scan in found if log.has_changes(scan.table, interval))
        searching = self._wanted in (Wanted.TREE, Wanted.AUTO)
        widened = self._through_union(plan, interval, sources) if searching else unchanged
        parts = products(plan, widened)
        report = self._report(name, plan, parts, interval, changed, log, stepping)
        self.reports.append(report)
        match report.strategy:
            case Wanted.N_TERM.value:
                ready = self._terms(plan, interval, log, sources, stepping)
                if ready.answers:
                    report.strategy = OWN_ROWS
            case Wanted.RECOMPUTE.value:
                whole = change_over(plan, interval, log, Recompute())
                ready = replace(stepping.prepared(whole.answer, sources), after=interval.start)
            case _:
                delta = change_over(plan, interval, log, ByTree(report.trees), through_union=widened)
                queries = self._integrity.left_of(block_queries(plan, interval, log))
                sources = stepping.with_leaf_changes(queries, sources)
                ready = self._staged(self._integrity.cut_staged(delta), report, sources, stepping)
        self._leaves(report, found, interval, stepping)
        return ready

    def answered(self, rows: int, size: int | None = None) -> None:
        """The change of the block that was prepared last has been computed."""
        if self.reports and self.reports[-1].seconds is None:
            report = self.reports[-1]
            report.seconds = time.monotonic() - self._started
            whole = frozenset(report.aliases)
            report.found[whole] = {"rows": rows, "seconds": rounded(report.seconds), "bytes": size}

    # ------------------------------------------------------------------ terms

    def _terms(self, plan: Plan, interval: Interval, log: ChangeLog, sources: Sources, stepping: Stepping) -> Prepared:
        """One term for each changed leaf, or for each piece of its change where that spares some; a single one from the
        view's own rows where these tell it."""
        left = self._integrity.cut(block_queries(plan, interval, log))
        own = self._own_rows(left, interval, stepping)
        if own is not None:
            rest = own.answer(left[0], sources)
            ready = Prepared((), sources, frozenset()) if rest is None else stepping.prepared(left, rest)
            return replace(ready, answers=tuple(own.answers))
        if not self._integrity.splits(plan, interval, left):
            return stepping.prepared(left, sources)
        widened = self._through_union(plan, interval, sources)
        delta = change_by_fates(plan, interval, log, self._integrity.known, widened)
        return prepared_by_fates(delta, self._definition, sources, stepping)

    def _own_rows(self, left: Sequence[Query], interval: Interval, stepping: Stepping) -> OwnRows | None:
        """The view's own rows, if they tell what is left to compute."""
        if self._definition.nodes or len(left) != 1 or not self._is_view:
            return None
        known = self._integrity.known
        own = OwnRows(self._context, self._view, self._definition, known, interval.start, stepping.stack)
        return own if own.is_worth(left[0]) else None

    # ------------------------------------------------------------------ what other views need too

    def is_shared(self, plan: Plan, interval: Interval) -> bool:
        """Whether the block's change is one that other views of the round have too."""
        sharing, use = self._context.sharing, core_of(plan) if self._context.sharing is not None else None
        return sharing is not None and use is not None and sharing.serves(use, self._definition, interval)

    def _shared(
        self, name: str, plan: Plan, interval: Interval, log: ChangeLog, sources: Sources, stepping: Stepping
    ) -> Prepared | None:
        """The block over the change of its core, where other views of the round have the same one."""
        sharing = self._context.sharing
        use = core_of(plan) if sharing is not None and self._is_view else None
        if sharing is None or use is None:
            return None
        kept = sharing.kept(use, self._definition, interval)
        if kept is None:
            wanted = sharing.wanted(use, self._definition, interval)
            left = self._integrity.left_of(block_queries(plan, interval, log))
            if wanted is None or (self._wanted is Wanted.N_TERM and self._own_rows(left, interval, stepping)):
                return None
            try:
                kept = self._compute(name, wanted.definition(self._definition, use), interval, sharing)
            except Exception as error:  # noqa: BLE001 (a column that another view reads may be gone)
                self._context.progress(f"{self._view.name}: nothing is shared with other views: {error}")
                sharing.give_up(use, self._definition, interval)
                return None
            sharing.keep(use, self._definition, interval, kept)
        else:
            aliases = {scan.leaf: scan.alias for scan in scans(plan)}
            changed = frozenset(scan.leaf for scan in scans(plan) if log.has_changes(scan.table, interval))
            self.reports.append(BlockReport(name, f"{SHARED} {kept.view}", (), aliases, changed))
        if not kept.rows.rows:
            return Prepared((), sources, frozenset())
        stepping.stages[kept.rows.name] = kept.rows
        over = {**sources.changed, (kept.rows.name, interval): kept.rows.name}
        query = Query(use.over(kept.rows.name), (BaseDelta(interval),), CsnRule.LATEST)
        return stepping.prepared([query], replace(sources, changed=over))

    def _compute(self, name: str, core: Definition, interval: Interval, sharing: Sharing) -> KeptCore:
        """The change of a core by this block's strategy, kept for the round."""
        moments = moments_of(self._context, core)
        with ExitStack() as stack:
            stepping = Stepping(self._context, core, moments, moments, stack)
            shared = stepping.shared_feeds(interval)
            often = [feed for feed in stepping.read_often([core.plan], interval) if feed not in shared]
            sources = replace(moments.sources(interval.start), staged={**shared, **stepping.stage_feeds(often)})
            blocks = Blocks(self._context, self._view, core, self._wanted, self._integrity, is_view=False)
            ready = blocks._own(name, core.plan, interval, moments, sources, stepping)
            kept = StagedRows("", 0, retracts=False)
            if not ready.is_empty:
                text = ready.text(core.plan.attributes)
                kept = sharing.stack.enter_context(self._context.engine.staging.changes(text))
        self.reports += blocks.reports
        return KeptCore(kept, frozenset(core.plan.attributes), self._view.name)

    # ------------------------------------------------------------------ stages

    def _staged(self, delta: StagedDelta, report: BlockReport, sources: Sources, stepping: Stepping) -> Prepared:
        while delta.stages:
            stage, started = delta.stages[0], time.monotonic()
            self._context.progress(f"computing {stage.name}")
            ready = stepping.prepared(stage.queries, sources)
            sources = ready.sources
            found = stepping.stage(ready.text(stage.attributes)) if ready.queries else None
            rows = found.rows if found is not None else 0
            seconds = rounded(time.monotonic() - started)
            size = found.bytes() if found is not None else None
            report.found[stage.leaves] = {"rows": rows, "seconds": seconds, "bytes": size}
            if found is None or not rows:
                delta = without(delta, stage)
                continue
            stepping.stages[stage.name] = found
            changed = {**sources.changed, (stage.name, delta.interval): found.name}
            sources = replace(sources, changed=changed)
            delta = StagedDelta(delta.interval, delta.stages[1:], delta.answer)
        return stepping.prepared(delta.answer, sources)

    def _leaves(self, report: BlockReport, found: Sequence[Scan], interval: Interval, stepping: Stepping) -> None:
        """What is known of the leaves' own changes, now that the block is prepared."""
        for scan in found:
            if scan.leaf in report.changed:
                own = frozenset([scan.leaf])
                kept = stepping.kept_rows(scan, interval)
                told = stepping.known_rows(scan.table, interval)
                if kept is not None:
                    report.found.setdefault(own, {"rows": kept})
                elif told is not None:
                    report.found.setdefault(own, {"rows": told, "unfiltered": True})

    # ------------------------------------------------------------------ the choice

    def _report(
        self,
        name: str,
        plan: Plan,
        parts: Sequence[Product],
        interval: Interval,
        changed: frozenset[LeafId],
        log: ChangeLog,
        stepping: Stepping,
    ) -> BlockReport:
        aliases = {scan.leaf: scan.alias for scan in scans(plan)}
        flat = tuple(n_term(product.leaves) for product in parts)
        facts = {
            scan.leaf: LeafFacts(stepping.size(scan), stepping.known_rows(scan.table, interval)) for scan in scans(plan)
        }
        past = [report for report in self._past if report["block"] == name]
        plain = sizes_of(parts, facts, changed)
        sizes = sizes_of(parts, facts, changed, ratios(past))
        strategies: tuple[Strategy, ...] = (NTerm(), Recompute())
        searched = []
        tree = None
        if self._wanted in (Wanted.TREE, Wanted.AUTO):
            searched = [find_tree(product, sizes) for product in parts]
            tree = ByTree(tuple(each.tree for each in searched))
            strategies = (NTerm(), tree, Recompute())
        ways = {each: self._integrity.left_of_staged(change_over(plan, interval, log, each)) for each in strategies}
        priced = price(plan, ways, sizes, lessons(past), self._rates)
        chosen = str(cheapest(priced).strategy) if self._wanted is Wanted.AUTO else self._wanted.value
        report = BlockReport(
            name,
            chosen,
            tree.trees if tree is not None and chosen == str(tree) else flat,
            aliases,
            changed,
            {str(each.strategy): each.seconds for each in priced},
            {str(each.strategy): each.work for each in priced},
            {str(each.strategy): each.load for each in priced},
            tuple(str(each.extent) for each in searched),
        )
        report.expect(plain, sizes)
        return report

    @cached_property
    def _rates(self) -> Rates:
        """What the lake's steps have taught, for who chooses by it; asked for once a step."""
        return rates_of(self._context) if self._wanted is Wanted.AUTO else MEASURED

    def _through_union(self, plan: Plan, interval: Interval, sources: Sources) -> ThroughUnion:
        """A union widens the types of its branches; a branch on its own must be cast to them."""
        types: dict[Attribute, str] = {}
        for union in _unions(plan):
            relation = state_relation(numbered_anew(union), interval.start, sources)
            found = self._context.engine.columns(self._context.engine.compute(to_text(relation)))
            types |= {name: kind for name, (_, kind) in zip(union.attributes, found, strict=True)}
        if not types:
            return unchanged
        return lambda name, value: exp.Cast(this=value, to=exp.var(types[name]))


def _unions(plan: Plan) -> Iterator[Union]:
    match plan:
        case Union(children=children):
            yield plan
            for child in children:
                yield from _unions(child)
        case Join(children=children):
            for child in children:
                yield from _unions(child)
        case Filter(child=child) | Project(child=child) | Generate(child=child):
            yield from _unions(child)
        case Scan():
            pass
