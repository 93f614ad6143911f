"""Which strategy computes the change of a block: the one that the user wants, or the one that should take least time.

``OPTIONS (strategy = ...)`` is ``n-term`` (the default), ``tree``, ``recompute`` or ``auto``. For ``auto`` each is
priced by its linear work [Lee01 §2.2] and by the statements that it takes, at rates that the lake's steps have taught
(``headwater.propagate.rates``). Recomputing is dearer by the row: it shuffles what the others send a few rows to, and
goes through all that the join gives and not only through what changed.

The prediction is then multiplied by how far such predictions were off when the strategy was last used for this block,
the geometric mean of its last few steps: what is particular to a block no rates can tell.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from headwater.algebra.plan import Plan
from headwater.algebra.product import products
from headwater.errors import InvalidInput
from headwater.propagate.delta_tree import changed_nodes
from headwater.propagate.linear_work import Cardinalities, WorkBySet
from headwater.propagate.rates import MEASURED, Load, Rates
from headwater.propagate.strategy import ByTree, NTerm, Recompute, Strategy, estimated_work

REMEMBERED = 3  # steps of a strategy that correct its next prediction


class Wanted(Enum):
    N_TERM = "n-term"
    TREE = "tree"
    RECOMPUTE = "recompute"
    AUTO = "auto"

    @classmethod
    def of(cls, options: Mapping[str, object]) -> Wanted:
        return cls.named(str(options.get("strategy", cls.N_TERM.value)))

    @classmethod
    def named(cls, text: str) -> Wanted:
        try:
            return cls(text.lower())
        except ValueError:
            raise InvalidInput(
                f"Unknown strategy {text!r}.", remedy=f"Use one of {', '.join(each.value for each in cls)}."
            ) from None


@dataclass(frozen=True, slots=True)
class Past:
    """An earlier step of a block: its strategy, what that was expected to go through, and what it took."""

    strategy: str
    load: Load
    seconds: float


@dataclass(frozen=True, slots=True)
class Priced:
    """A strategy with its linear work and its load, and seconds as predicted and as corrected by the past."""

    strategy: Strategy
    work: float
    load: Load
    predicted: float
    seconds: float


def price(
    plan: Plan,
    strategies: Sequence[Strategy],
    cardinalities: Cardinalities,
    past: Sequence[Past] = (),
    rates: Rates = MEASURED,
) -> tuple[Priced, ...]:
    """What each strategy is expected to take; ``past`` newest first."""
    found = []
    for strategy in strategies:
        work = estimated_work(plan, strategy, cardinalities)
        count = statements(plan, strategy, cardinalities)
        whole = isinstance(strategy, Recompute)
        load = Load(0, work + _joined_rows(plan, cardinalities), count) if whole else Load(work, 0, count)
        predicted = rates.seconds(load)
        found.append(Priced(strategy, work, load, predicted, predicted * _correction(str(strategy), past, rates)))
    return tuple(found)


def cheapest(priced: Sequence[Priced]) -> Priced:
    """The first of those that take least."""
    return min(priced, key=lambda each: each.seconds)


def statements(plan: Plan, strategy: Strategy, cardinalities: Cardinalities) -> int:
    """Terms that are computed on their own, stages before them included."""
    changed = cardinalities.changed()
    match strategy:
        case Recompute():
            return 1
        case NTerm():
            return sum(len(changed.intersection(block.leaves)) for block in products(plan))
        case ByTree(trees=trees):
            return sum(max(1, len(list(changed_nodes(tree, changed)))) for tree in trees)


def _joined_rows(plan: Plan, cardinalities: Cardinalities) -> float:
    total = 0.0
    for block in products(plan):
        by_set = WorkBySet(block.leaves, cardinalities)
        total += by_set.state_rows(by_set.all)
    return total


def _correction(strategy: str, past: Sequence[Past], rates: Rates) -> float:
    own = [(each.seconds, rates.seconds(each.load)) for each in past if each.strategy == strategy]
    off = [seconds / predicted for seconds, predicted in own if predicted > 0][:REMEMBERED]
    if not off:
        return 1.0
    mean = math.exp(sum(math.log(max(each, 1e-3)) for each in off) / len(off))
    return min(20.0, max(0.05, mean))
