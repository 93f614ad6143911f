"""How the change of a block is computed on Spark by the strategy that was wanted, and what each part of it took.

The values are ``headwater.propagate.strategy``'s: a tree's stages are computed one after another, each kept under its
name and read by later ones as the change of a table; a stage without rows takes with it what joins it. The queries of
a stage are prepared like any others, so a stage that meets large tables is taken apart before each of them
(``headwater.propagate.stepping``), and cut by what constraints tell (``headwater.propagate.knowing``).

A block without a join, and one of whose leaves nothing is known but that they changed, is computed by n terms. What was
expected and what was found of every set of leaves is reported (``BlockReport``), recorded with the step, drawn by
explain, and corrects the next estimates (``headwater.propagate.sizing``).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from headwater.algebra.apart import numbered_anew
from headwater.algebra.plan import Attribute, Filter, Generate, Join, LeafId, Plan, Project, Scan, Union, scans
from headwater.algebra.product import Product, ThroughUnion, products, unchanged
from headwater.algebra.time import Interval
from headwater.catalog.records import JsonObject, ViewRecord
from headwater.context import Context
from headwater.definition import Definition
from headwater.propagate.choosing import Past, Wanted, cheapest, price
from headwater.propagate.completing import OwnRows
from headwater.propagate.delta_tree import DeltaTree, NodeDelta, leaves_of, n_term
from headwater.propagate.fate_driver import prepared_by_fates
from headwater.propagate.fates import change_by_fates
from headwater.propagate.frontier import ChangeLog, block_queries
from headwater.propagate.knowing import Integrity
from headwater.propagate.linear_work import Cardinalities
from headwater.propagate.sizing import LeafFacts, Ratios, ratio, sizes_of
from headwater.propagate.stepping import Prepared, Stepping
from headwater.propagate.strategy import ByTree, NTerm, Recompute, Strategy, change_over, find_tree
from headwater.propagate.tree_json import tree_as_json
from headwater.propagate.tree_stages import StagedDelta, without
from headwater.sql.dialect import to_text
from headwater.sql.relations import Sources
from headwater.sql.render import state_relation

_REMEMBERED = 5  # steps whose figures are looked at
OWN_ROWS = "own rows"  # the change of a block as told by the view itself


@dataclass(slots=True)
class BlockReport:
    """The change of one block: which strategy, why, and for sets of leaves what was expected and found.

    ``uncorrected`` is what would have been expected without what earlier steps found.
    """

    block: str
    strategy: str
    trees: tuple[DeltaTree, ...]
    aliases: Mapping[LeafId, str]
    changed: frozenset[LeafId]
    seconds_expected: Mapping[str, float] = field(default_factory=dict)
    seconds_uncorrected: Mapping[str, float] = field(default_factory=dict)
    work: Mapping[str, float] = field(default_factory=dict)
    search: tuple[str, ...] = ()
    expected: dict[frozenset[LeafId], float] = field(default_factory=dict)
    uncorrected: dict[frozenset[LeafId], float] = field(default_factory=dict)
    found: dict[frozenset[LeafId], JsonObject] = field(default_factory=dict)
    seconds: float | None = None

    def as_json(self) -> JsonObject:
        sets = sorted(self.expected.keys() | self.found.keys(), key=lambda each: (len(each), sorted(each)))
        return {
            "block": self.block,
            "strategy": self.strategy,
            "trees": [tree_as_json(tree) for tree in self.trees],
            "aliases": {str(leaf): alias for leaf, alias in self.aliases.items()},
            "changed": sorted(self.changed),
            "seconds": _rounded(self.seconds),
            "expected_seconds": {name: _rounded(value) for name, value in self.seconds_expected.items()},
            "uncorrected_seconds": {name: _rounded(value) for name, value in self.seconds_uncorrected.items()},
            "work": {name: round(value) for name, value in self.work.items()},
            "search": list(self.search),
            "nodes": [
                {
                    "leaves": sorted(leaves),
                    "expected": _rounded(self.expected.get(leaves)),
                    "uncorrected": _rounded(self.uncorrected.get(leaves)),
                    **self.found.get(leaves, {}),
                }
                for leaves in sets
            ],
        }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


class Blocks:
    """Prepares the blocks of one step, and reports on each."""

    def __init__(
        self, context: Context, view: ViewRecord, definition: Definition, wanted: Wanted, integrity: Integrity
    ) -> None:
        self._context = context
        self._view = view
        self._definition = definition
        self._wanted = wanted
        self._integrity = integrity
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
        searching = self._wanted in (Wanted.TREE, Wanted.AUTO)
        widened = self._through_union(plan, interval, sources) if searching else unchanged
        parts = products(plan, widened)
        report = self._report(name, plan, parts, interval, changed, stepping)
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
                ready = self._staged(self._integrity.cut_staged(delta), report, sources, stepping)
        self._leaves(report, found, interval, stepping)
        return ready

    def answered(self, rows: int, size: int | None = None) -> None:
        """The change of the block that was prepared last has been computed."""
        if self.reports and self.reports[-1].seconds is None:
            report = self.reports[-1]
            report.seconds = time.monotonic() - self._started
            whole = frozenset(report.aliases)
            report.found[whole] = {"rows": rows, "seconds": _rounded(report.seconds), "bytes": size}

    # ------------------------------------------------------------------ terms

    def _terms(self, plan: Plan, interval: Interval, log: ChangeLog, sources: Sources, stepping: Stepping) -> Prepared:
        """One term for each changed leaf, or for each piece of its change where that spares some; a single one from the
        view's own rows where these tell it."""
        left = self._integrity.cut(block_queries(plan, interval, log))
        if not self._definition.nodes and len(left) == 1:
            own = OwnRows(
                self._context, self._view, self._definition, self._integrity.known, interval.start, stepping.stack
            )
            if own.is_worth(left[0]):
                rest = own.answer(left[0], sources)
                ready = Prepared((), sources, frozenset()) if rest is None else stepping.prepared(left, rest)
                return replace(ready, answers=tuple(own.answers))
        if not self._integrity.splits(plan, interval, left):
            return stepping.prepared(left, sources)
        widened = self._through_union(plan, interval, sources)
        delta = change_by_fates(plan, interval, log, self._integrity.known, widened)
        return prepared_by_fates(delta, self._definition, sources, stepping)

    # ------------------------------------------------------------------ stages

    def _staged(self, delta: StagedDelta, report: BlockReport, sources: Sources, stepping: Stepping) -> Prepared:
        while delta.stages:
            stage, started = delta.stages[0], time.monotonic()
            self._context.progress(f"computing {stage.name}")
            ready = stepping.prepared(stage.queries, sources)
            sources = ready.sources
            found = stepping.stage(ready.text(stage.attributes)) if ready.queries else None
            rows = found.rows if found is not None else 0
            seconds = _rounded(time.monotonic() - started)
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
                kept = stepping.kept.get((scan.alias, interval))
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
        if self._wanted in (Wanted.N_TERM, Wanted.RECOMPUTE):
            report = BlockReport(name, self._wanted.value, flat, aliases, changed)
            _expect(report, plain, sizes)
            return report
        searched = [find_tree(product, sizes) for product in parts]
        tree = ByTree(tuple(each.tree for each in searched))
        priced = price(plan, (NTerm(), tree, Recompute()), sizes, _lessons(past))
        chosen: Strategy = tree if self._wanted is Wanted.TREE else cheapest(priced).strategy
        trees = tree.trees if chosen is tree else flat
        report = BlockReport(
            name,
            str(chosen),
            trees,
            aliases,
            changed,
            {str(each.strategy): each.seconds for each in priced},
            {str(each.strategy): each.predicted for each in priced},
            {str(each.strategy): each.work for each in priced},
            tuple(str(each.extent) for each in searched),
        )
        _expect(report, plain, sizes)
        return report

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


def _expect(report: BlockReport, plain: Cardinalities, sizes: Cardinalities) -> None:
    for leaves in {leaves for tree in report.trees for leaves in _sets(tree)}:
        if leaves & report.changed:
            report.expected[leaves] = sizes.change_rows(leaves)
            report.uncorrected[leaves] = plain.change_rows(leaves)


def _sets(tree: DeltaTree) -> Iterator[frozenset[LeafId]]:
    yield leaves_of(tree)
    if isinstance(tree, NodeDelta):
        for part in tree.parts:
            yield from _sets(part)


# ---------------------------------------------------------------------- the past


def past_reports(context: Context, view: ViewRecord) -> list[JsonObject]:
    """The reports of a view's last steps, newest first."""
    steps = context.catalog.done_steps(view.view_id, "propagate", limit=_REMEMBERED)
    return [report for step in steps for report in (step.outcome or {}).get("blocks", ())]


def ratios(past: Sequence[JsonObject]) -> Ratios:
    """Of each set of leaves, what the newest step that computed its change found."""
    found: dict[frozenset[LeafId], float] = {}
    for report in past:
        for node in report["nodes"]:
            leaves = frozenset(LeafId(leaf) for leaf in node["leaves"])
            tells = node.get("rows") is not None and node.get("uncorrected") is not None
            if leaves not in found and tells and not node.get("unfiltered"):
                found[leaves] = ratio(float(node["uncorrected"]), int(node["rows"]))
    return found


def _lessons(past: Sequence[JsonObject]) -> list[Past]:
    return [
        Past(report["strategy"], float(report["uncorrected_seconds"][report["strategy"]]), float(report["seconds"]))
        for report in past
        if report.get("seconds") is not None and report["uncorrected_seconds"].get(report["strategy"]) is not None
    ]
