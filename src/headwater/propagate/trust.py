"""What to check before a step rests on constraints, and what is known afterwards.

A constraint is known to hold over one span of csns, or is known to be broken since some csn, or nothing is known of it
(``Standing``). Before a step over (a, b] is planned, ``checks`` says what to look at, cheapest first:

- known up to some csn and not broken since: the **changes** from there to b, nothing else (``violations_over_sql``);
- nothing known, or broken: the **state** at a (``violations_at_sql``) and then the changes. A look at a whole state is
  asked for only where the caller wants to afford it; without it the constraint is not used, which is always right.

``learned`` turns what a check found into the new standing, and ``knowledge`` into what ``integrity``, ``fates`` and
``from_view`` may use. By induction over checks every span in it is one over which the constraint does hold: a state was
looked at where the span begins, and every change since. A constraint found broken at c is known before c and used
there, not from c on; so a wrong view is never made of it, and nobody is kept from refreshing: queries are run uncut.

Only constraints that say something about the view are looked at: foreign keys that a product of it joins on, the keys
that these refer to, and keys of its tables; and only if one of the tables they speak of changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from headwater.algebra.constraints import (
    Constraint,
    ForeignKey,
    Holding,
    Knowledge,
    Unique,
    broken_at,
    extended,
)
from headwater.algebra.plan import Plan, scans
from headwater.algebra.product import products
from headwater.algebra.time import Csn, Interval
from headwater.propagate.frontier import ChangeLog
from headwater.propagate.integrity import references


@dataclass(frozen=True, slots=True)
class Standing:
    """``held``: the constraint holds at every csn of it, the start included; ``broken``: it was found broken there."""

    constraint: Constraint
    held: Interval | None = None
    broken: Csn | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """First, if ``state``, the whole state at the start of ``changes``; then the changes."""

    constraint: Constraint
    state: bool
    changes: Interval


def checks(
    plan: Plan, interval: Interval, standings: Iterable[Standing], log: ChangeLog, *, states: bool
) -> tuple[Check, ...]:
    """What has to be looked at so that constraints can be used over the interval; ``states``: whole tables too."""
    known = list(standings)
    wanted = _relevant(plan, interval, [each.constraint for each in known], log)
    found = []
    for each in known:
        if each.constraint not in wanted:
            continue
        if each.held is not None and each.broken is None and each.held.start <= interval.start:
            if each.held.end < interval.end:
                found.append(Check(each.constraint, False, Interval(each.held.end, interval.end)))
        elif states and (each.broken is None or each.broken <= interval.start):
            found.append(Check(each.constraint, True, interval))
    return tuple(sorted(found, key=lambda check: check.state))


def learned(standing: Standing, check: Check, broken: Csn | None) -> Standing:
    """The standing after a check that found the constraint broken first at ``broken``, or not at all."""
    before = None if standing.broken is not None else standing.held
    if broken is None:
        return replace(standing, held=extended(before, check.changes), broken=None)
    start = check.changes.start
    if broken <= start:
        return replace(standing, held=broken_at(standing.held, broken), broken=broken)
    verified = Interval(start, Csn(broken - 1))
    return replace(standing, held=broken_at(extended(before, verified), broken), broken=broken)


def knowledge(standings: Iterable[Standing]) -> Knowledge:
    return Knowledge(tuple(Holding(each.constraint, each.held) for each in standings if each.held is not None))


def _relevant(plan: Plan, interval: Interval, declared: Iterable[Constraint], log: ChangeLog) -> frozenset[Constraint]:
    constraints = list(declared)
    foreign = [each for each in constraints if isinstance(each, ForeignKey)]
    joined = {each.foreign_key for product in products(plan) for each in references(product, foreign)}
    read = {scan.table for scan in scans(plan)}
    keys = {
        each
        for each in constraints
        if isinstance(each, Unique) and (each.table in read or any(one.refers_to(each) for one in joined))
    }
    said: list[Constraint] = [*joined, *keys]
    return frozenset(each for each in said if any(log.has_changes(table, interval) for table in each.tables))
