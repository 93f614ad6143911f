"""ComputeDelta and Propagate: propagation over tables that show only their present [Salem00 §3.2, Fig. 4 and 5].

A query over such tables is answered as of an *execution time* known only afterwards. ``compute_delta`` is therefore
a generator: it yields a query and is sent the csn as of which the query was answered; every answer is added to the
view delta. It decides from its arguments and the execution times alone, so feeding it recorded execution times
repeats a run exactly: that is how an interrupted run is resumed.

``compute_delta(Q, old, new)`` propagates Q from the vector of times ``old`` to the time ``new``. For each present
table i it runs Q with R_i replaced by ΔR_i(old[i], new]. By Equation 2 of [Salem00 §3.1] the tables left of i
should be seen at ``old`` and those right of i at ``new``, but all were seen at the execution time, and the
difference is undone by propagating the *negated* query from the intended times to the execution time, recursively
until no present table is left.

*Why the earliest csn is right* [Salem00 §3.3, Theorem 4.1; the paper leaves the proof to its long version]. Let a
row of the product be a point of csns (see ``frontier``); U the leaves of Q that are present tables, m the earliest
csn of the point's marked leaves (∞ if none is marked), and box(T) = "c_j <= T_j for all j in U". Restricted to csns
<= t, the answers of ``compute_delta(Q, τ, n)`` add up, at every point inside the marked intervals, to

    box(n) - box(τ)                      if m <= t
    box(max(τ, min(t, n))) - box(τ)      if m > t                                                                (*)

By induction on the size of U; with U empty both sides are 0. For i in U, the query with ΔR_i(τ_i, n] together with
its compensation, by the hypothesis at m' = min(m, c_i) and at the times that Equation 2 intends (I), leaves box(I)
if m' <= t, and box(I) - box(max(I, t)) otherwise. Summing box(I) over i telescopes to box(n) - box(τ), which is the
first line. If m > t and t < n, the second part is not zero only for c_i > t, that is for c_i in (max(τ_i, t), n],
and it telescopes in the same way to box(n) - box(max(τ, t)); the difference of the two sums is the second line. For
Q = V (nothing marked) and τ = [a, ..., a], (*) reads V(t) - V(a) for every t in (a, n]: a timed delta table.

*Where we depart.* Nowhere in substance. A query that is empty by form (unions) is skipped together with its
compensations, which hold the same marked leaves and are empty too; so is, when a change log is given, a query whose
newest delta has no changes. The answer to a query without present tables needs no execution time; one is sent all
the same and not used.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import TypeAlias

from headwater.algebra.plan import Plan, scans
from headwater.algebra.query import BaseDelta, CsnRule, Present, Query
from headwater.algebra.time import Csn, Interval
from headwater.errors import InternalError
from headwater.propagate.frontier import ChangeLog

Execution: TypeAlias = Generator[Query, Csn, None]


def compute_delta(query: Query, old: tuple[Csn, ...], new: Csn, log: ChangeLog | None = None) -> Execution:
    """[Salem00 Fig. 4]: yield the queries that carry ``query`` from the times ``old`` to ``new``.

    ``old[i]`` counts only where leaf i is a present table. A log, if given, must already hold every change up to an
    execution time when that time is sent.
    """
    if query.rule is not CsnRule.EARLIEST:
        raise InternalError("compensation is right with the earliest csn rule only")
    if any(not isinstance(term, Present | BaseDelta) for term in query.terms):
        raise InternalError(f"compensation reads tables live or as base deltas, not as in {query}")
    for scan in scans(query.plan):
        if not isinstance(query.terms[scan.leaf], Present):
            continue
        if old[scan.leaf] > new:
            raise InternalError(f"leaf {scan.alias} can't be propagated from {old[scan.leaf]} back to {new}")
        interval = Interval(old[scan.leaf], new)
        if interval.is_empty or (log is not None and not log.has_changes(scan.table, interval)):
            continue
        terms = list(query.terms)
        terms[scan.leaf] = BaseDelta(interval)
        one_more_marked = replace(query, terms=tuple(terms))
        if one_more_marked.is_empty:
            continue
        execution_time = yield one_more_marked
        if not any(isinstance(term, Present) for term in terms):
            continue
        if execution_time < new:
            raise InternalError(f"{one_more_marked} can't have been answered as of {execution_time}, before {new}")
        intended = old[: scan.leaf] + tuple(new for _ in old[scan.leaf :])
        yield from compute_delta(negate(one_more_marked), intended, execution_time, log)


def propagate_interval(plan: Plan, interval: Interval, log: ChangeLog | None = None) -> Execution:
    """One iteration of Propagate [Salem00 Fig. 5]: the view delta over the interval, timed, after which the mark is its
    end.
    """
    start = tuple(interval.start for _ in scans(plan))
    yield from compute_delta(present_view(plan), start, interval.end, log)


def present_view(plan: Plan) -> Query:
    """The view itself as a propagation query: every table present, nothing marked."""
    return Query(plan, tuple(Present() for _ in scans(plan)), CsnRule.EARLIEST)


def negate(query: Query) -> Query:
    return replace(query, sign=-query.sign)
