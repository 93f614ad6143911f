"""Which steps to measure: batches of several sizes out of what is pending.

A cost function is known where there are samples, and it bends most where batches are small. So the sizes double from
step to step, and together they make up the backlog: with n steps, the first is 1/(2^n - 1) of it.
"""

from __future__ import annotations


def batch_sizes(pending: int, steps: int) -> list[int]:
    """At most ``steps`` sizes, each about twice the one before, that add up to ``pending``."""
    sizes: list[int] = []
    left = pending
    for remaining in range(min(steps, pending), 0, -1):
        size = left if remaining == 1 else max(1, left // (2**remaining - 1))
        sizes.append(size)
        left -= size
    return sizes
