"""What was expected and found of each block of a step, recorded with it; and what the last of these records tell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from headwater.algebra.plan import LeafId
from headwater.catalog.records import JsonObject, StepRecord, ViewRecord
from headwater.context import Context
from headwater.propagate.choosing import Past
from headwater.propagate.delta_tree import DeltaTree, NodeDelta, leaves_of
from headwater.propagate.linear_work import Cardinalities
from headwater.propagate.rates import MEASURED, Load, Rates, fitted
from headwater.propagate.sizing import Ratios, ratio
from headwater.propagate.tree_json import tree_as_json

_REMEMBERED = 5  # steps of a view whose figures are looked at
_OF_ALL = 60  # steps of all views


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
    work: Mapping[str, float] = field(default_factory=dict)
    loads: Mapping[str, Load] = field(default_factory=dict)
    search: tuple[str, ...] = ()
    expected: dict[frozenset[LeafId], float] = field(default_factory=dict)
    uncorrected: dict[frozenset[LeafId], float] = field(default_factory=dict)
    found: dict[frozenset[LeafId], JsonObject] = field(default_factory=dict)
    seconds: float | None = None

    def expect(self, plain: Cardinalities, sizes: Cardinalities) -> None:
        """Note what is expected of the sets of leaves in the trees, without and with what earlier steps found."""
        for leaves in {leaves for tree in self.trees for leaves in _sets(tree)}:
            if leaves & self.changed:
                self.expected[leaves] = sizes.change_rows(leaves)
                self.uncorrected[leaves] = plain.change_rows(leaves)

    def as_json(self) -> JsonObject:
        sets = sorted(self.expected.keys() | self.found.keys(), key=lambda each: (len(each), sorted(each)))
        return {
            "block": self.block,
            "strategy": self.strategy,
            "trees": [tree_as_json(tree) for tree in self.trees],
            "aliases": {str(leaf): alias for leaf, alias in self.aliases.items()},
            "changed": sorted(self.changed),
            "seconds": rounded(self.seconds),
            "expected_seconds": {name: rounded(value) for name, value in self.seconds_expected.items()},
            "work": {name: round(value) for name, value in self.work.items()},
            "load": [round(value) for value in load.parts()] if (load := self.loads.get(self.strategy)) else None,
            "search": list(self.search),
            "nodes": [
                {
                    "leaves": sorted(leaves),
                    "expected": rounded(self.expected.get(leaves)),
                    "uncorrected": rounded(self.uncorrected.get(leaves)),
                    **self.found.get(leaves, {}),
                }
                for leaves in sets
            ],
        }


def rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _sets(tree: DeltaTree) -> Iterator[frozenset[LeafId]]:
    yield leaves_of(tree)
    if isinstance(tree, NodeDelta):
        for part in tree.parts:
            yield from _sets(part)


# ---------------------------------------------------------------------- the past


def past_reports(context: Context, view: ViewRecord) -> list[JsonObject]:
    """The reports of a view's last steps, newest first."""
    return _reports(context.catalog.done_steps(view.view_id, "propagate", limit=_REMEMBERED))


def rates_of(context: Context) -> Rates:
    """What the last steps of all views tell of seconds."""
    past = lessons(_reports(context.catalog.done_steps(None, "propagate", limit=_OF_ALL)))
    return fitted([(each.load, each.seconds) for each in past])


def _reports(steps: Sequence[StepRecord]) -> list[JsonObject]:
    """Of steps; those that found Spark warm, if there are any."""
    warm = [step for step in steps if not (step.outcome or {}).get("cold")]
    return [report for step in warm or steps for report in (step.outcome or {}).get("blocks", ())]


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


def lessons(past: Sequence[JsonObject]) -> list[Past]:
    return [
        Past(report["strategy"], Load(*report["load"]), float(report["seconds"]))
        for report in past
        # Loads were told by three figures once.
        if report.get("seconds") is not None and len(report.get("load") or ()) == len(MEASURED.parts())
    ]
