"""The executable specification of checking constraints: on a state, and on the changes of an interval.

**On a state** a constraint is checked as it is defined.

**On changes.** Let a constraint hold at a; over (a, b] it can be broken only at keys that somebody touched, and not by
every touch. So that nobody has to read a whole table again:

- ``Unique``: only a key that has *more* rows after some csn than before it can get a second one. Of the state at a, the
  rows with such keys are needed; their number at each csn follows by running sums. Updates and deletions by key need
  nothing of it.
- ``ForeignKey``: a key can be broken by an inserted referring row, or by a deleted referred one. Of the referred table
  at a, the rows with such keys are needed. Of the **referring** table at a, only rows that refer to a *deleted* key:
  if no referred row of key k was deleted and one was there at a, k is never broken; and if none was there at a,
  nothing referred to k then, as the constraint held. With referred rows only inserted, which is what new orders are,
  the large table is therefore not read.

The answer is exact at every csn: a constraint broken at 5 and mended at 6 is found broken at 5. ``first_violation`` is
what the SQL of ``headwater.sql.verification`` is compared with.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from headwater.algebra.constraints import Constraint, ForeignKey, Unique
from headwater.algebra.time import Csn, Interval
from headwater.algebra.zset import Row, ZSet

Columns: TypeAlias = Mapping[str, Sequence[str]]
"""The columns of each table, in the order of its rows."""


@dataclass(frozen=True, slots=True)
class Violation:
    """The constraint is broken at ``csn`` by rows with these values of its columns."""

    constraint: Constraint
    csn: Csn
    key: Row


class Tables(Protocol):
    """``headwater.engine.reference.History`` is one."""

    def state(self, table: str, at: Csn) -> ZSet: ...
    def base_delta(self, table: str, interval: Interval) -> ZSet: ...


def violations_at(constraint: Constraint, tables: Tables, columns: Columns, at: Csn) -> Iterator[Violation]:
    """All keys by which the state at a csn breaks the constraint."""
    own = _counted(tables.state(constraint.table, at), columns[constraint.table], constraint.columns)
    match constraint:
        case Unique(primary=primary):
            broken = [key for key, count in own.items() if count > 1 and None not in key]
            broken += [key for key, count in own.items() if primary and None in key and count > 0]
        case ForeignKey(referred_table=other, referred_columns=referred):
            there = _counted(tables.state(other, at), columns[other], referred)
            broken = [key for key, count in own.items() if None not in key and count > 0 and there.get(key, 0) <= 0]
    yield from (Violation(constraint, at, key) for key in broken)


def violations_over(constraint: Constraint, tables: Tables, columns: Columns, interval: Interval) -> list[Violation]:
    """All (csn, key) at which the changes of the interval break a constraint that held at its start, by csn.

    Only rows of touched keys are taken from the state at the start, as the header says.
    """
    table = constraint.table
    changes = tables.base_delta(table, interval)
    key_of = _key(columns[table], constraint.columns)
    before = tables.state(table, interval.start)
    found: list[Violation] = []
    match constraint:
        case Unique(primary=primary):
            grown = _grown(changes, key_of)
            known = before.where(lambda row: key_of(row) in grown)
            for key, counts in _running(known, changes, key_of, grown).items():
                if primary or None not in key:
                    most = 0 if None in key else 1
                    rows = _at_every_csn(counts, interval)
                    found += [Violation(constraint, csn, key) for csn, n in rows if n > most]
        case ForeignKey(referred_table=other, referred_columns=referred):
            referred_key = _key(columns[other], referred)
            other_changes = tables.base_delta(other, interval)
            deleted = {referred_key(row) for row, count, _ in other_changes if count < 0}
            touched = {key_of(row) for row, count, _ in changes if count > 0} | deleted
            touched = {key for key in touched if None not in key}
            children = _running(before.where(lambda row: key_of(row) in deleted), changes, key_of, touched)
            there = tables.state(other, interval.start).where(lambda row: referred_key(row) in touched)
            parents = _running(there, other_changes, referred_key, touched)
            for key in touched:
                parent = dict(_at_every_csn(parents[key], interval))
                referring = _at_every_csn(children[key], interval)
                found += [Violation(constraint, csn, key) for csn, n in referring if n > 0 and parent[csn] <= 0]
    return sorted(found, key=lambda each: each.csn)


def first_violation(constraint: Constraint, tables: Tables, columns: Columns, interval: Interval) -> Csn | None:
    """The earliest csn of the interval at which the constraint, which held at its start, is broken."""
    return next((each.csn for each in violations_over(constraint, tables, columns, interval)), None)


KeyOf: TypeAlias = Callable[[Row], Row]


def _key(names: Sequence[str], columns: Sequence[str]) -> KeyOf:
    places = [list(names).index(name) for name in columns]
    return lambda row: tuple(row[place] for place in places)


def _counted(state: ZSet, names: Sequence[str], columns: Sequence[str]) -> dict[Row, int]:
    return state.project(_key(names, columns)).counts()


def _grown(changes: ZSet, key_of: KeyOf) -> set[Row]:
    """The keys that some csn gives more rows than it takes away."""
    net: Counter[tuple[Row, Csn | None]] = Counter()
    for row, count, csn in changes:
        net[key_of(row), csn] += count
    return {key for (key, _), count in net.items() if count > 0}


def _running(before: ZSet, changes: ZSet, key_of: KeyOf, keys: set[Row]) -> dict[Row, list[tuple[Csn, int]]]:
    """For each key the number of its rows after each csn that changed it; at csn 0 what there was before."""
    steps: dict[Row, dict[Csn, int]] = {key: {Csn(0): 0} for key in keys}
    for row, count, csn in before + changes:
        key = key_of(row)
        if key in steps:
            at = csn if csn is not None else Csn(0)
            steps[key][at] = steps[key].get(at, 0) + count
    found: dict[Row, list[tuple[Csn, int]]] = {}
    for key, by_csn in steps.items():
        total, found[key] = 0, []
        for at in sorted(by_csn):
            total += by_csn[at]
            found[key].append((at, total))
    return found


def _at_every_csn(running: Sequence[tuple[Csn, int]], interval: Interval) -> list[tuple[Csn, int]]:
    counts = dict(running)
    total, found = counts.get(Csn(0), 0), []
    for number in range(interval.start + 1, interval.end + 1):
        total = counts.get(Csn(number), total)
        found.append((Csn(number), total))
    return found
