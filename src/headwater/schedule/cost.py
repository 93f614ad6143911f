"""What it costs to process k pending modifications of one table in one batch: f(k) [He05 §2].

Every form here is *monotone* (f(x) >= f(y) for x >= y) and *subadditive* (f(0) = 0 and f(x + y) <= f(x) + f(y)): the
two properties on which all of ``headwater.schedule`` rests. They are checked when a value is made, so nobody has to
check them later.

*Why each form has them.*

- ``Linear``: a·k + b with a, b >= 0 pays b once instead of twice when two batches are put together [He05 §3.3].
- ``Blocks``: ⌈k / size⌉·a, the paper's example of a subadditive function that is not concave [He05 §2].
- ``Sum`` and ``Scaled``: both properties survive sums and factors >= 0.
- ``Lowered``: f - c stays concave, so that c <= f(0+) leaves both properties of a concave f. For others, and beyond
  f(0+), it is for lower bounds alone, which need neither.
- ``PiecewiseLinear``: monotone when no slope is negative. For subadditivity take g(x, y) = f(x) + f(y) - f(x + y)
  over the reals x, y > 0. It is linear in each cell cut out by the lines x = κ, y = κ and x + y = κ over the knots
  κ. In the directions (1, 0) and (0, 1), beyond the last knot, it is constant. So it is >= 0 everywhere exactly when
  it is >= 0 at the corners (κ, κ') and (κ, κ' - κ), which are finitely many.

A concave form with f(0+) >= 0 is always subadditive; ``is_concave`` says so where a sharper bound can use it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

from headwater.errors import InvalidInput

ROUNDING = 1e-9  # of the values compared: slopes that came from decimal text are not exact


class CostFunction(Protocol):
    """Seconds (or any other unit) for a batch of ``rows`` modifications; monotone and subadditive."""

    def __call__(self, rows: int, /) -> float: ...

    @property
    def is_concave(self) -> bool: ...

    def to_dict(self) -> dict[str, Any]:
        """A value of plain JSON from which ``cost_from_dict`` makes the function again."""
        ...


@dataclass(frozen=True, slots=True)
class Linear:
    """``fixed`` once for a batch, ``per_row`` for each of its rows."""

    per_row: float
    fixed: float = 0.0

    def __post_init__(self) -> None:
        _refuse_negative(per_row=self.per_row, fixed=self.fixed)

    def __call__(self, rows: int) -> float:
        return self.fixed + self.per_row * rows if rows > 0 else 0.0

    @property
    def is_concave(self) -> bool:
        return True

    def to_dict(self) -> dict[str, Any]:
        return {"form": "linear", "per_row": self.per_row, "fixed": self.fixed}


@dataclass(frozen=True, slots=True)
class PiecewiseLinear:
    """Straight lines between ``points`` (rows, cost), the last one continued; the first is (0, cost of any batch)."""

    points: tuple[tuple[int, float], ...]

    def __post_init__(self) -> None:
        if not self.points or self.points[0][0] != 0:
            raise InvalidInput(
                f"A piecewise-linear cost begins at 0 rows, but the points are {self.points}.",
                remedy="Give (0, what a batch costs however small it is) first.",
            )
        if any(left[0] >= right[0] for left, right in pairwise(self.points)):
            raise InvalidInput(f"The points {self.points} are not in ascending order of rows.", remedy="Sort them.")
        _refuse_negative(cost=self.points[0][1])
        for left, right in pairwise(self.points):
            if right[1] < left[1]:
                raise InvalidInput(f"A bigger batch can't cost less, but {right} follows {left}.")
        if not self.is_concave:
            self._refuse_superadditive()

    def __call__(self, rows: int) -> float:
        return self._at(rows) if rows > 0 else 0.0

    @property
    def is_concave(self) -> bool:
        slopes = self._slopes()
        return all(right <= left * (1 + ROUNDING) for left, right in pairwise(slopes))

    def to_dict(self) -> dict[str, Any]:
        return {"form": "piecewise_linear", "points": [list(point) for point in self.points]}

    def _slopes(self) -> list[float]:
        return [(high - low) / (end - start) for (start, low), (end, high) in pairwise(self.points)]

    def _at(self, rows: int) -> float:
        """The value, with the limit from above at 0."""
        if len(self.points) == 1:
            return self.points[0][1]
        position = min(bisect_right(self.points, (rows, float("inf"))), len(self.points) - 1)
        (start, low), (end, high) = self.points[position - 1], self.points[position]
        return low + (high - low) * (rows - start) / (end - start)

    def _refuse_superadditive(self) -> None:
        knots = [rows for rows, _ in self.points]
        corners = [(x, y) for x in knots for y in (*knots, *(knot - x for knot in knots if knot > x))]
        for x, y in corners:
            together, apart = self._at(x + y), self._at(x) + self._at(y)
            if together > apart + ROUNDING * max(1.0, apart):
                raise InvalidInput(
                    f"A batch of {x + y} rows costs {together}, more than {apart} for batches of {x} and {y}.",
                    remedy="A cost function must be subadditive: what costs more together is processed apart.",
                )


@dataclass(frozen=True, slots=True)
class Blocks:
    """``per_block`` for each block of ``size`` rows that is begun."""

    size: int
    per_block: float

    def __post_init__(self) -> None:
        _refuse_negative(per_block=self.per_block)
        if self.size < 1:
            raise InvalidInput(f"A block of {self.size} rows holds nothing.")

    def __call__(self, rows: int) -> float:
        return -(-rows // self.size) * self.per_block if rows > 0 else 0.0

    @property
    def is_concave(self) -> bool:
        return self.size == 1

    def to_dict(self) -> dict[str, Any]:
        return {"form": "blocks", "size": self.size, "per_block": self.per_block}


@dataclass(frozen=True, slots=True)
class Scaled:
    """``factor`` times another function: a safety margin, a faster machine."""

    function: CostFunction
    factor: float

    def __post_init__(self) -> None:
        _refuse_negative(factor=self.factor)

    def __call__(self, rows: int) -> float:
        return self.factor * self.function(rows)

    @property
    def is_concave(self) -> bool:
        return self.function.is_concave

    def to_dict(self) -> dict[str, Any]:
        return {"form": "scaled", "factor": self.factor, "function": self.function.to_dict()}


@dataclass(frozen=True, slots=True)
class Lowered:
    """Another function less what any batch of it costs at least, or a part of that: what others pay."""

    function: CostFunction
    by: float

    def __post_init__(self) -> None:
        _refuse_negative(by=self.by)

    def __call__(self, rows: int) -> float:
        return max(0.0, self.function(rows) - self.by)

    @property
    def is_concave(self) -> bool:
        """Of the batches there are, from 0 on: nothing, less than f(0+) of the first row, and so on."""
        return self.function.is_concave and self.by <= 2 * self.function(1) - self.function(2)

    def to_dict(self) -> dict[str, Any]:
        return {"form": "lowered", "by": self.by, "function": self.function.to_dict()}


@dataclass(frozen=True, slots=True)
class AtLeast:
    """Another function, but of any batch at least something: of sums of such, the larger side stays the larger."""

    function: CostFunction
    least: float

    def __post_init__(self) -> None:
        _refuse_negative(least=self.least)

    def __call__(self, rows: int) -> float:
        return max(self.function(rows), self.least) if rows else 0.0

    @property
    def is_concave(self) -> bool:
        return self.function.is_concave and self.function(1) >= self.least

    def to_dict(self) -> dict[str, Any]:
        return {"form": "at least", "least": self.least, "function": self.function.to_dict()}


@dataclass(frozen=True, slots=True)
class Sum:
    """Several functions of one batch added up."""

    parts: tuple[CostFunction, ...]

    def __call__(self, rows: int) -> float:
        return sum(part(rows) for part in self.parts)

    @property
    def is_concave(self) -> bool:
        return all(part.is_concave for part in self.parts)

    def to_dict(self) -> dict[str, Any]:
        return {"form": "sum", "parts": [part.to_dict() for part in self.parts]}


def cost_from_dict(value: Mapping[str, Any]) -> CostFunction:
    """The function that ``to_dict`` wrote down."""
    match value:
        case {"form": "linear", "per_row": per_row, "fixed": fixed}:
            return Linear(float(per_row), float(fixed))
        case {"form": "piecewise_linear", "points": [*points]}:
            return PiecewiseLinear(tuple((int(rows), float(cost)) for rows, cost in points))
        case {"form": "blocks", "size": size, "per_block": per_block}:
            return Blocks(int(size), float(per_block))
        case {"form": "scaled", "factor": factor, "function": function}:
            return Scaled(cost_from_dict(function), float(factor))
        case {"form": "lowered", "by": by, "function": function}:
            return Lowered(cost_from_dict(function), float(by))
        case {"form": "at least", "least": least, "function": function}:
            return AtLeast(cost_from_dict(function), float(least))
        case {"form": "sum", "parts": [*parts]}:
            return Sum(tuple(cost_from_dict(part) for part in parts))
        case _:
            raise InvalidInput(
                f"{dict(value)} is not a cost function.",
                remedy="Its form is one of linear, piecewise_linear, blocks, scaled, lowered, at least, sum.",
            )


def largest_batch(function: CostFunction, limit: float, at_most: int) -> int:
    """max { rows <= at_most : f(rows) <= limit }; by bisection, since f is monotone."""
    low, high = 0, at_most
    while low < high:
        middle = (low + high + 1) // 2
        if function(middle) <= limit:
            low = middle
        else:
            high = middle - 1
    return low


def _refuse_negative(**values: float) -> None:
    for name, value in values.items():
        if not 0 <= value < float("inf"):
            raise InvalidInput(f"{name} of a cost function is {value}.", remedy="Give a finite number, 0 or more.")
