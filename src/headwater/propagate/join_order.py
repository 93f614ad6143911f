"""In which order a small change meets the other inputs of its join.

Greedy: next comes the input of which each row so far meets the fewest rows. That number is estimated as the rows of the
input over the number of values that its join key takes, and the values of a whole number or a date are at most as many
as lie between its smallest and largest one; nothing better is known without reading the data. So customers meet
their orders before they meet all suppliers of their nation, and a cross product comes last.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from headwater.algebra.plan import Attribute
from headwater.algebra.product import attributes_of


@dataclass(frozen=True, slots=True)
class InputSize:
    """Rows of a join's input, and for some of its attributes how many values there can be at most."""

    rows: int
    values: Mapping[Attribute, int] = field(default_factory=dict)

    def matches(self, keys: Collection[Attribute]) -> float:
        """Rows that one value of the keys meets; without keys all of them."""
        if not keys:
            return float(self.rows)
        # Of a key of which nothing is known, neither one value nor as many as there are rows is a good guess.
        distinct = max(self.values.get(key, math.isqrt(self.rows)) for key in keys)
        return self.rows / max(1, min(distinct, self.rows))


def join_order(
    inputs: Sequence[Collection[Attribute]],
    conditions: Sequence[exp.Expr],
    sizes: Sequence[InputSize],
    start: int,
) -> list[int]:
    """All inputs, from ``start`` on; ``inputs`` gives the attributes of each."""
    order, have = [start], set(inputs[start])
    pending = [index for index in range(len(inputs)) if index != start]
    while pending:
        keys = {index: {own for _, own, _ in equalities(conditions, have, inputs[index])} for index in pending}
        costs = {index: (not keys[index], sizes[index].matches(keys[index]), sizes[index].rows) for index in pending}
        chosen = min(pending, key=costs.__getitem__)
        pending.remove(chosen)
        order.append(chosen)
        have |= set(inputs[chosen])
    return order


def equalities(
    conditions: Sequence[exp.Expr], have: Collection[Attribute], own: Collection[Attribute]
) -> Iterator[tuple[exp.Expr, Attribute, exp.Expr]]:
    """The equalities between an expression over what is there and an attribute of an input, with the condition."""
    for condition in conditions:
        if not isinstance(condition, exp.EQ | exp.NullSafeEQ):
            continue
        for one, other in ((condition.this, condition.expression), (condition.expression, condition.this)):
            needs, plain = attributes_of(one), other.unnest()
            if isinstance(plain, exp.Column) and plain.name in own and needs and needs <= set(have):
                yield one.unnest(), plain.name, condition
