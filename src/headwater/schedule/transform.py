"""Any valid plan made lazy, or lazy, greedy and minimal [He05 §3.1, §3.2].

``make_lazy`` (MAKELAZYPLAN) puts off what a plan does until it must be done. When that is, the post-action backlog
is the original's, so the result is valid; each of its actions is a sum of original ones, so by subadditivity it
costs no more (Lemma 1).

``make_lgm`` (MAKELGMPLAN) follows the original at a distance: when forced to act, it empties the tables of which it
has more pending than the original keeps, then leaves out what it need not. So it is valid (Lemma 2) and LGM. It acts
on a table at most twice in the modifications of one original action (Lemma 3), so it costs at most twice as much for
each table, and OPT_LGM <= 2·OPT (Theorem 1); between two original actions on a table it acts on it at most once
(Lemmas 5 and 6), so it never acts more often, and with linear costs it costs no more: OPT_LGM = OPT (Theorem 2).
"""

from __future__ import annotations

from headwater.errors import InternalError
from headwater.schedule.plan import Action, MaintenancePlan, replay
from headwater.schedule.problem import Arrivals, Counts, Promise, add, nothing, subtract


def make_lazy(plan: MaintenancePlan, arrivals: Arrivals, promise: Promise) -> MaintenancePlan:
    """The plan with each action put off until the backlog is full."""
    none = nothing(arrivals.tables)
    actions = []
    backlog = owed = none
    for time, (action, arrived) in enumerate(zip(plan.actions, arrivals.steps, strict=True)):
        owed = add(owed, action.counts)
        backlog = add(backlog, arrived)
        if promise.is_full(backlog) or time == arrivals.refresh_time:
            actions.append(Action(owed))
            backlog, owed = subtract(backlog, owed), none
        else:
            actions.append(Action(none))
    return MaintenancePlan(tuple(actions))


def make_lgm(plan: MaintenancePlan, arrivals: Arrivals, promise: Promise) -> MaintenancePlan:
    """A lazy, greedy and minimal plan of at most twice the cost, and with at most as many actions on each table."""
    actions = []
    backlog = nothing(arrivals.tables)
    for followed, arrived in zip(replay(plan, arrivals), arrivals.steps, strict=True):
        backlog = add(backlog, arrived)
        if followed.time == arrivals.refresh_time:
            action = Action(backlog)
        elif promise.is_full(backlog):
            ahead = frozenset(
                table for table, (ours, theirs) in enumerate(zip(backlog, followed.after, strict=True)) if ours > theirs
            )
            action = minimize_action(ahead, backlog, promise)
        else:
            action = Action.none(arrivals.tables)
        actions.append(action)
        backlog = subtract(backlog, action.counts)
    return MaintenancePlan(tuple(actions))


def minimize_action(emptied: frozenset[int], backlog: Counts, promise: Promise) -> Action:
    """MINIMIZEACTION: empties some of these tables, none of which could be left out.

    The paper leaves open which of them stay. We keep what is dear to process now, table after table: that is the most
    that one greedy pass can save. After the pass nothing more can be left out: the backlog that stays has only grown
    since a table was tried.
    """
    if promise.is_full(subtract(backlog, Action.emptying(emptied, backlog).counts)):
        raise InternalError(f"emptying {sorted(emptied)} leaves the backlog {backlog} full")
    kept = set(emptied)
    dear_first = sorted(emptied, key=lambda table: (-promise.costs[table](backlog[table]), table))
    for table in dear_first:
        fewer = Action.emptying(frozenset(kept - {table}), backlog)
        if not promise.is_full(subtract(backlog, fewer.counts)):
            kept.discard(table)
    return Action.emptying(frozenset(kept), backlog)
