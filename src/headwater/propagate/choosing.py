"""Which strategy computes the change of a block: the one that the user wants, or the one that should take least time.

``OPTIONS (strategy = ...)`` is ``n-term`` (the default), ``tree``, ``recompute`` or ``auto``. For ``auto`` each is
priced by its linear work [Lee01 §2.2] and by the statements that it takes:

    seconds = a row's seconds · work + a statement's seconds · statements

Recomputing is dearer by the row: it shuffles what the others send a few rows to, and goes through all that the join
gives and not only through what changed, so its work counts ``SHUFFLED`` times and with the rows of the join.

The prediction is then multiplied by how far such predictions were off when the strategy was last used for this block,
the geometric mean of its last few steps. So the constants below only have to be right to a factor, and each strategy
learns its own.
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
from headwater.propagate.strategy import ByTree, NTerm, Recompute, Strategy, estimated_work

ROW_SECONDS = 5e-7  # of a row that a few broadcast ones go through, on two cores
SHUFFLED = 2.5  # times as much for a row that is shuffled and joined with all others
STATEMENT_SECONDS = 0.5
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
    """An earlier step of a block: what was predicted for its strategy, before correction, and what it took."""

    strategy: str
    predicted: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Priced:
    """A strategy with its linear work, and seconds as predicted and as corrected by the past."""

    strategy: Strategy
    work: float
    predicted: float
    seconds: float


def price(
    plan: Plan, strategies: Sequence[Strategy], cardinalities: Cardinalities, past: Sequence[Past] = ()
) -> tuple[Priced, ...]:
    """What each strategy is expected to take; ``past`` newest first."""
    found = []
    for strategy in strategies:
        work = estimated_work(plan, strategy, cardinalities)
        rows = SHUFFLED * (work + _joined_rows(plan, cardinalities)) if isinstance(strategy, Recompute) else work
        predicted = ROW_SECONDS * rows + STATEMENT_SECONDS * statements(plan, strategy, cardinalities)
        found.append(Priced(strategy, work, predicted, predicted * _correction(str(strategy), past)))
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


def _correction(strategy: str, past: Sequence[Past]) -> float:
    off = [each.seconds / each.predicted for each in past if each.strategy == strategy and each.predicted > 0]
    if not off:
        return 1.0
    mean = math.exp(sum(math.log(max(each, 1e-3)) for each in off[:REMEMBERED]) / len(off[:REMEMBERED]))
    return min(20.0, max(0.05, mean))
