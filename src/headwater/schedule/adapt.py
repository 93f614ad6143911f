"""ADAPT: a plan for one refresh time, used for any other [He05 §4.2].

The best LGM plan for an estimated refresh time T0 is followed from the last refresh on. Asked to refresh earlier,
one just does; later, the plan is followed again from its beginning, over and over.

*Periods.* A plan for T0 covers the T0 + 1 steps 0, ..., T0 and ends with everything processed; its repetition begins
with the next step, so the period of the arrivals is T0 + 1 steps. (The paper calls it T0, and counts ⌈T/T0⌉
repetitions; ours are ⌈(T+1)/(T0+1)⌉, never more.)

*What it costs* (Theorem 4, linear costs f_i(k) = a_i·k + b_i): for T < T0, at most OPT_T + Σ b_i. For T > T0 with
periodic arrivals, at most OPT_T + r·Σ b_i over r repetitions, the last one perhaps cut short. The paper leaves out
the second proof: cut an optimal plan for T after each period and process there what is pending, which is at most one
action more for each table and cut, r - 1 of them. What follows has less to process, so it stays valid with no more
actions. Each whole period then costs at least what ADAPT pays in it (the optimum for T0), and the last one at least
that less Σ b_i, by the first half.

*Where we depart.* The paper executes the plan blindly. Arrivals that differ from those it was made for could then
leave a full backlog; here a plan's action tells which tables to *empty*, and if that is not enough, the cheapest
tables are emptied with them. When arrivals are as foreseen, nothing changes.
"""

from __future__ import annotations

from dataclasses import dataclass

from headwater.schedule.plan import Action, MaintenancePlan, greedy_actions
from headwater.schedule.policy import Decision, Situation
from headwater.schedule.problem import Arrivals, Promise, add, subtract
from headwater.schedule.search import best_lgm_plan


@dataclass(frozen=True, slots=True)
class Adapt:
    """Follows ``emptied``: the tables to empty at each step 0, ..., T0; at T0, all."""

    emptied: tuple[frozenset[int], ...]

    @classmethod
    def following(cls, plan: MaintenancePlan) -> Adapt:
        """The greedy plan as a policy; the last step refreshes the view, whatever arrived."""
        *running, last = plan.actions
        everything = frozenset(range(len(last.counts)))
        return cls((*(action.touched for action in running), everything))

    @classmethod
    def to(cls, arrivals: Arrivals, promise: Promise, *, within: float = 0.0) -> Adapt:
        """ADAPT(T0), T0 being the refresh time of these arrivals."""
        return cls.following(best_lgm_plan(arrivals, promise, within=within).plan)

    @property
    def name(self) -> str:
        return "adapt"

    def begin(self, tables: int) -> None:  # noqa: ARG002 the plan is all there is to know
        return None

    def decide(self, memory: None, situation: Situation) -> Decision[None]:  # noqa: ARG002
        planned = self.emptied[situation.time % len(self.emptied)]
        action = Action.emptying(planned, situation.backlog)
        left = subtract(situation.backlog, action.counts)
        if situation.promise.is_full(left):
            more = min(greedy_actions(left, situation.promise), key=lambda each: situation.promise.cost(each.counts))
            action = Action(add(action.counts, more.counts))
        return Decision(action, None)
