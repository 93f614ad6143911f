"""Which strategy computes the change of a block: the one that the user wants, or the one that should take least time.

``OPTIONS (strategy = ...)`` is ``n-term`` (the default), ``tree``, ``recompute`` or ``auto``. For ``auto`` each is
priced by its linear work [Lee01 §2.2], by the statements that it takes and by the relations in them, at rates that the
lake's steps have taught (``headwater.propagate.rates``). Recomputing is dearer by the row: it shuffles what the others
send a few rows to, and goes through all that the join gives and not only through what changed. On tables of a few
million rows the relations decide: Spark looks up, plans and opens each of them anew wherever it stands.

The prediction is then multiplied by how far such predictions were off for this block, the geometric mean of the last
few steps of the strategy and of what all steps of the block say: what is particular to a block no rates can tell, and
a strategy that was never tried shares it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from headwater.algebra.plan import Plan
from headwater.algebra.product import products
from headwater.algebra.query import Patched
from headwater.errors import InvalidInput
from headwater.propagate.linear_work import Cardinalities, WorkBySet
from headwater.propagate.rates import MEASURED, Load, Rates
from headwater.propagate.strategy import Recompute, Strategy, estimated_work
from headwater.propagate.tree_stages import StagedDelta

REMEMBERED = 3  # steps of a strategy that correct its next prediction
ADVANTAGE = 0.9  # what another strategy may take of the time of the first one, at most, to be taken instead


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
    ways: Mapping[Strategy, StagedDelta],
    cardinalities: Cardinalities,
    past: Sequence[Past] = (),
    rates: Rates = MEASURED,
) -> tuple[Priced, ...]:
    """What each strategy is expected to take, by what it would run; ``past`` newest first."""
    found = []
    for strategy, delta in ways.items():
        work = estimated_work(plan, strategy, cardinalities)
        statements, relations = len(delta.stages) + 1, relations_in(delta)
        if isinstance(strategy, Recompute):
            load = Load(0, work + _joined_rows(plan, cardinalities), statements, relations)
        else:
            load = Load(work, 0, statements, relations)
        predicted = rates.seconds(load)
        found.append(Priced(strategy, work, load, predicted, predicted * _correction(str(strategy), past, rates)))
    return tuple(found)


def cheapest(priced: Sequence[Priced]) -> Priced:
    """The one that takes least; the first one unless that is clearly less."""
    least = min(priced, key=lambda each: each.seconds)
    return least if least.seconds < ADVANTAGE * priced[0].seconds else priced[0]


def relations_in(delta: StagedDelta) -> int:
    """How many relations its statements read: a table with its changes is two."""
    return sum(2 if isinstance(term, Patched) else 1 for query in delta.queries() for term in query.terms)


def _joined_rows(plan: Plan, cardinalities: Cardinalities) -> float:
    total = 0.0
    for block in products(plan):
        by_set = WorkBySet(block.leaves, cardinalities)
        total += by_set.state_rows(by_set.all)
    return total


def _correction(strategy: str, past: Sequence[Past], rates: Rates) -> float:
    off = [(each.strategy, each.seconds / rates.seconds(each.load)) for each in past if rates.seconds(each.load) > 0]
    if not off:
        return 1.0
    logarithms = [(name, math.log(max(each, 1e-3))) for name, each in off]
    of_all = sum(each for _, each in logarithms) / len(logarithms)
    known = [*[each for name, each in logarithms if name == strategy][:REMEMBERED], of_all]
    return min(20.0, max(0.05, math.exp(sum(known) / len(known))))
