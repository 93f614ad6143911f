"""Chunks: how many updates a view takes in at a time [Mauve98 §2.4].

A refresh that has more pending than the view's ``chunk_size`` brings it there in several view updates. Early updates
are then seen before the last is taken in, at the price of a fixed cost for each. A chunk ends with a unit of work (the
paper's footnote 2), as soon as it has as many updates as it should.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from headwater.algebra.time import Csn
from headwater.catalog.records import UnitOfWorkRow
from headwater.errors import InvalidInput

AUTO = "auto"


def wanted_chunk(options: Mapping[str, str]) -> int | str | None:
    """The option ``chunk_size`` of a view: a number of updates, ``auto`` for the advisor's, or None for all at once."""
    text = options.get("chunk_size")
    if text is None or text.strip().lower() == AUTO:
        return None if text is None else AUTO
    if not text.strip().isdigit() or int(text) < 1:
        raise InvalidInput(
            f"A chunk size of {text!r} can't be kept.", remedy="Give a number of changed rows, or 'auto'."
        )
    return int(text)


def updates_of(units: Sequence[UnitOfWorkRow]) -> list[tuple[UnitOfWorkRow, int]]:
    """How many updates each commit brought; one that does not tell is taken for one like the others."""
    known = [unit.rows for unit in units if unit.rows is not None]
    usual = max(1, round(sum(known) / len(known))) if known else 1
    return [(unit, usual if unit.rows is None else unit.rows) for unit in units]


def chunk_ends(units: Iterable[tuple[Csn, int]], size: int, to: Csn) -> list[Csn]:
    """Where to stop on the way to ``to``, which is the last stop; units of work by rising csn, with their updates."""
    ends: list[Csn] = []
    filled, last = 0, None
    for csn, updates in units:
        if last is not None and csn != last and filled >= size:
            ends.append(last)
            filled = 0
        filled += updates
        last = csn
    return [*(end for end in ends if end < to), to]
