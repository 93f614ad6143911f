"""How large the changes of a join are expected to be: from Delta's statistics, and from what earlier steps found.

``Cardinalities`` asks for the sizes of leaves and for the share that each condition keeps of what it ties together.

- *Sizes* are rows of tables by Delta's log, and rows changed by the commits' own metrics.
- *Equalities.* The values of a column are at most as many as lie between its smallest and its largest, and at most as
  many as there are rows. Of the two columns the one with fewer possible values decides: in a join along a foreign key
  that is the key, which has each value once, while the values of the other column are less than its rows by an unknown
  factor. (Taking the column with more values, as optimizers do with true counts, would trust the worse bound.)
- *Other conditions* keep a third where they compare and half where nothing is known.
- *What was found.* A step records, for every set of leaves whose joint change it computed, how many rows there were
  for how many expected without any correction. That ratio r(S) is kept for the set, and so a correction c(S) with
  Π_{T ⊆ S} c(T) = r(S) is put on each set that was seen. A correction belongs to conditions and data, not to one tree:
  it is right for every tree in which the set is a part, and for supersets better than none.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from sqlglot import exp

from headwater.algebra.plan import Attribute, LeafId
from headwater.algebra.product import Product, attributes_of
from headwater.propagate.join_order import InputSize
from headwater.propagate.linear_work import Cardinalities, LeafSize

COMPARED, UNKNOWN = 1 / 3, 1 / 2
MOST = 1e4  # by which a correction may change an estimate, up or down

Ratios: TypeAlias = Mapping[frozenset[LeafId], float]
"""By sets of leaves: rows found for each row expected."""


@dataclass(frozen=True, slots=True)
class LeafFacts:
    """What is known of a leaf: its size and values, and how many rows of it changed (None: not told)."""

    size: InputSize
    changed: int | None

    def values(self, attribute: Attribute) -> float:
        known = self.size.values.get(attribute, math.isqrt(self.size.rows))
        return float(max(1, min(known, self.size.rows)))


def sizes_of(
    parts: Sequence[Product], facts: Mapping[LeafId, LeafFacts], changed: frozenset[LeafId], found: Ratios | None = None
) -> Cardinalities:
    """The same for the products of a plan with unions, which may share leaves."""
    each = [cardinalities(product, facts, changed, found) for product in parts]
    sizes = {leaf: size for one in each for leaf, size in one.sizes.items()}
    return Cardinalities(sizes, {leaves: share for one in each for leaves, share in one.selectivities.items()})


def cardinalities(
    product: Product, facts: Mapping[LeafId, LeafFacts], changed: frozenset[LeafId], found: Ratios | None = None
) -> Cardinalities:
    """Only leaves that are ``changed`` have changes; one that does not tell how many is taken to have one in 100."""
    sizes = {leaf: _size(facts[leaf], leaf in changed) for leaf in product.leaves}
    selectivities: dict[frozenset[LeafId], float] = {}
    for condition in _conjuncts(each for each in product.conditions if not product.is_late(each)):
        tied = product.leaves_of(condition)
        if tied:
            selectivities[tied] = selectivities.get(tied, 1.0) * _share(condition, product, facts)
    for leaves, factor in corrections(found or {}).items():
        if leaves <= frozenset(product.leaves):
            selectivities[leaves] = selectivities.get(leaves, 1.0) * factor
    return Cardinalities(sizes, selectivities)


def corrections(found: Ratios) -> Ratios:
    """The factors for single sets that make up the ratios: Π_{T ⊆ S} c(T) = r(S)."""
    factors: dict[frozenset[LeafId], float] = {}
    for leaves in sorted(found, key=len):
        below = math.prod(factor for other, factor in factors.items() if other < leaves)
        factors[leaves] = min(MOST, max(1 / MOST, found[leaves] / below))
    return factors


def ratio(expected: float, found: int) -> float:
    """Rows found for each one expected, neither taken for less than one."""
    return max(found, 1) / max(expected, 1.0)


def _size(facts: LeafFacts, is_changed: bool) -> LeafSize:
    rows = float(max(1, facts.size.rows))
    if not is_changed:
        return LeafSize(rows, 0.0)
    return LeafSize(rows, max(1.0, rows / 100 if facts.changed is None else float(facts.changed)))


def _conjuncts(conditions: Iterable[exp.Expr]) -> Iterator[exp.Expr]:
    pending = list(conditions)
    while pending:
        match pending.pop():
            case exp.And() as both:
                pending += [both.this, both.expression]
            case exp.Paren() as inner:
                pending.append(inner.this)
            case other:
                yield other


def _share(condition: exp.Expr, product: Product, facts: Mapping[LeafId, LeafFacts]) -> float:
    match condition:
        case exp.EQ() | exp.NullSafeEQ():
            sides = [_values(side, product, facts) for side in (condition.this, condition.expression)]
            known = [values for values in sides if values is not None]
            return 1 / min(known) if known else UNKNOWN
        case exp.In(expressions=listed) if listed and (values := _values(condition.this, product, facts)) is not None:
            return min(1.0, len(listed) / values)
        case exp.GT() | exp.GTE() | exp.LT() | exp.LTE() | exp.Between():
            return COMPARED
        case exp.Not(this=exp.Is()):
            return 1.0
        case _:
            return UNKNOWN


def _values(side: exp.Expr, product: Product, facts: Mapping[LeafId, LeafFacts]) -> float | None:
    """How many values an expression can have, from the one leaf that it reads; None if it reads none or several."""
    leaves = product.leaves_of(side)
    if len(leaves) != 1:
        return None
    (leaf,) = leaves
    if isinstance(side, exp.Column):
        return facts[leaf].values(side.name)
    return max(facts[leaf].values(name) for name in attributes_of(side))
