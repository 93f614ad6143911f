"""Least squares with coefficients that must not be negative.

Minimises |Σ_j x_j A_j - y|² over x >= 0 with an active set (Lawson and Hanson's NNLS). Coefficients are freed one at
a time, the one along which the error falls fastest, and the free ones go to their unconstrained optimum; where that
lies outside the allowed region they stop at its border, and those that got there are bound again. The error falls
from round to round, so no set of free coefficients comes back and the search ends. It ends where the gradient of
every bound coefficient points out of the region: for a convex error, that is the optimum.

Problems here have some tens of columns, so plain lists do, and the package needs no numeric library.
"""

from __future__ import annotations

from collections.abc import Sequence

_NOTHING = 1e-10  # beside columns of length 1


def non_negative_least_squares(columns: Sequence[Sequence[float]], values: Sequence[float]) -> list[float]:
    """The x >= 0 that minimises |Σ_j x_j columns[j] - values|²."""
    norms = [_dot(column, column) ** 0.5 or 1.0 for column in columns]
    scaled = [[entry / norm for entry in column] for column, norm in zip(columns, norms, strict=True)]
    gram = [[_dot(left, right) for right in scaled] for left in scaled]
    target = [_dot(column, values) for column in scaled]
    steepest = _NOTHING * max(map(abs, target), default=0.0)
    solution = [0.0] * len(scaled)
    free: set[int] = set()
    barred: set[int] = set()  # freed, and bound again without a move: rounding, not progress
    while True:
        gradient = [goal - _dot(row, solution) for goal, row in zip(target, gram, strict=True)]
        candidates = [j for j in range(len(scaled)) if j not in free | barred and gradient[j] > steepest]
        if not candidates:
            return [entry / norm for entry, norm in zip(solution, norms, strict=True)]
        entering = max(candidates, key=lambda j: gradient[j])
        free.add(entering)
        before = list(solution)
        _settle(solution, free, gram, target)
        barred = barred | {entering} if solution == before else set()


def _settle(solution: list[float], free: set[int], gram: list[list[float]], target: list[float]) -> None:
    """Bring the free coefficients to their optimum, or to the border and there bind those that reached it."""
    while free:
        order = sorted(free)
        optimum = _solve([[gram[j][k] for k in order] for j in order], [target[j] for j in order])
        wanted = dict(zip(order, optimum, strict=True))
        outside = [j for j in order if wanted[j] <= 0]
        step = min((solution[j] / (solution[j] - wanted[j]) if solution[j] > 0 else 0.0 for j in outside), default=1.0)
        for j in order:
            solution[j] += step * (wanted[j] - solution[j])
        if not outside:
            return
        for j in outside:
            if solution[j] <= _NOTHING * (1.0 + abs(wanted[j])):
                solution[j] = 0.0
                free.discard(j)


def _dot(left: Sequence[float], right: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(left, right, strict=True))


def _solve(matrix: list[list[float]], values: list[float]) -> list[float]:
    """Gaussian elimination with pivots; a direction without curvature gets 0."""
    size = len(values)
    rows = [[*row, value] for row, value in zip(matrix, values, strict=True)]
    for column in range(size):
        pivot = max(range(column, size), key=lambda row: abs(rows[row][column]))
        rows[column], rows[pivot] = rows[pivot], rows[column]
        if abs(rows[column][column]) < 1e-14:
            rows[column] = [float(index == column) for index in range(size)] + [0.0]
        for row in range(column + 1, size):
            factor = rows[row][column] / rows[column][column]
            rows[row] = [a - factor * b for a, b in zip(rows[row], rows[column], strict=True)]
    solution = [0.0] * size
    for row in reversed(range(size)):
        known = sum(rows[row][column] * solution[column] for column in range(row + 1, size))
        solution[row] = (rows[row][size] - known) / rows[row][row]
    return solution
