"""What to do for one view now: nothing, process some parts, or refresh.

The policies of ``headwater.schedule`` decide which parts to process; around them stands what the paper leaves out
[He05 §2 takes a refresh for propagation alone, and the cost functions for given]:

- *What is left for the backlog.* Of the response time C, capture and apply are paid first, each by its upper bound,
  then views below, then the longest step of another view that may be running when somebody asks (they share one
  Spark), and something is kept back for what arrives while the loop is not looking. The rest is the cost limit.
- *While it is not looking.* The paper's actions take no time. Who asks while the view itself is being refreshed waits
  for that, and then for one more refresh that brings what was committed meanwhile. The cost of that one, and at least a
  tenth of C, is kept back.
- *Learning.* While something of a view was never measured, whatever is pending is processed at once: that measures.
  Nor does a cost function say much of batches far beyond those that it was fitted from, so a backlog of
  ``MOST_BEYOND`` times the largest of them is processed too, and so much more than was ever applied at once is applied.
  After a few such steps all that comes up is known. Whoever processes one part at a time never sees what several would
  save, and may keep at it where together they would long not be full: while that is not known, or known of too long
  ago, all that is pending is processed together.
- *Apply grows too.* What was propagated and not applied costs at the refresh. When that has taken half of what would
  be left right after a refresh, the view is refreshed.
- *Steps that others can bear.* A step can't be interrupted, so while it runs no other view is served. What the others
  keep free for that (at most half of their C) is also the longest step taken: a larger action is cut, and goes on
  after a look. A view is considerate of those of its priority and above.
- *Staleness.* A refresh begins when the oldest change would be too old by the time it is done, and by the time that
  what others are doing is done.
- *Tables that can't be captured.* A view that reads one is at the newest state that is known and yet no refresh
  succeeds: its promise is broken, however little is pending.

A verdict carries all numbers that it was made from.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import Any, Literal, TypeAlias

from headwater.schedule.cost import largest_batch
from headwater.schedule.outlook import Outlook
from headwater.schedule.plan import Action
from headwater.schedule.policy import Alternative, Situation
from headwater.schedule.problem import Counts, Promise, nothing
from headwater.schedule.service_level import ServiceLevel
from headwater.schedule.view_costs import CONFIDENCE, ViewCosts

HEADROOM = 0.1  # of C, at least, for what arrives between two looks
MOST_BEYOND = 2  # times the largest batch that was measured
MOST_INTERFERENCE = 0.5  # of C: more can't be kept free for others' steps
_MOST_STEPS = 100  # that a pause is cut into for the policy's rates

State: TypeAlias = Literal["none", "unknown", "kept", "at risk", "broken"]
Deed: TypeAlias = Literal["wait", "process", "refresh"]


@dataclass(frozen=True, slots=True)
class Seen:
    """A view as it stands at a look."""

    name: str
    level: ServiceLevel
    labels: tuple[str, ...]  # of its parts
    backlog: Counts
    unapplied: int  # changed rows that the view's table does not show
    staleness: float  # seconds that the oldest of them has waited
    costs: ViewCosts
    csn: int = 0
    newest_csn: int = 0
    below: float = 0.0  # seconds that the views it reads are expected to take
    below_bound: float = 0.0  # and stay under
    apart: bool = True  # whether parts can be processed without a refresh; a recomputed view has no such
    outlook: Outlook | None = None
    problem: str | None = None  # why it can't be propagated; a refresh recomputes it
    stuck: str | None = None  # which of its tables can't be captured, and why; a refresh fails

    @property
    def is_behind(self) -> bool:
        return self.unapplied > 0 or any(self.backlog)

    @property
    def predicted(self) -> float | None:
        """What a refresh now is expected to take."""
        found = self.costs.expected(self.backlog, self.unapplied)
        return None if found is None else found + self.below

    @property
    def bound(self) -> float | None:
        """What it stays under, with confidence."""
        found = self.costs.bound(self.backlog, self.unapplied)
        return None if found is None else found + self.below_bound

    @property
    def next_action(self) -> float:
        """What a refresh now stays under: no action takes longer."""
        return (self.bound or 0.0) if self.is_behind else 0.0

    @property
    def state(self) -> State:
        """Whether the promises are kept: it is not too old, and an answer to who asks now would be in time."""
        level = self.level
        if not level.is_kept:
            return "none"
        if self.stuck is not None or (level.max_staleness is not None and self.staleness > level.max_staleness):
            return "broken"
        limit = level.response_time
        if limit is None:
            return "kept"
        if self.problem is not None:
            return "at risk"  # a refresh recomputes, of which nothing was measured
        predicted, bound = self.predicted, self.bound
        if predicted is None or bound is None:
            return "unknown"
        if predicted > limit:
            return "broken"
        shaky = self.outlook is not None and self.outlook.state != "sound"
        return "at risk" if bound > limit or shaky else "kept"


@dataclass(frozen=True, slots=True)
class Memory:
    """What is remembered of a view between looks."""

    policy: Any
    policy_name: str
    left: Counts  # the backlog after the last deed
    looked_at: float
    refreshed_at: float
    spent: float = 0.0  # F_t: seconds of processing since the last refresh

    @classmethod
    def begin(cls, seen: Seen, now: float) -> Memory:
        parts = len(seen.backlog)
        return cls(seen.level.chosen_policy().begin(parts), seen.level.policy, nothing(parts), now, now)


@dataclass(frozen=True, slots=True)
class Verdict:
    deed: Deed
    reason: str
    counts: Counts
    seen: Seen
    limit: float | None = None  # what the backlog may cost
    interference: float = 0.0
    considered: tuple[Alternative, ...] = field(default=())

    @property
    def urgency(self) -> float:
        """How far the worse of the two promises is used up; beyond 1 it is broken."""
        level, seen = self.seen.level, self.seen
        response = (seen.bound or 0.0) / level.response_time if level.response_time else 0.0
        staleness = seen.staleness / level.max_staleness if level.max_staleness else 0.0
        return max(response, staleness)

    def as_dict(self) -> dict[str, Any]:
        """The numbers behind it, for the log."""
        seen = self.seen
        functions = [seen.costs.part(number) for number in range(len(seen.backlog))]
        promise = seen.costs.promise(0.0)
        return {
            "view": seen.name,
            "action": self.deed,
            "reason": self.reason,
            "policy": seen.level.policy,
            "rows": dict(zip(seen.labels, self.counts, strict=True)) if self.deed == "process" else None,
            "backlog": dict(zip(seen.labels, seen.backlog, strict=True)),
            "f": {
                label: None if f is None else round(f(rows), 3)
                for label, f, rows in zip(seen.labels, functions, seen.backlog, strict=True)
            },
            "shared": round(seen.costs.joint.shared, 3),
            "shared_surely": None if promise is None else round(promise.shared, 3),
            "unapplied": seen.unapplied,
            "overhead": round(seen.costs.overhead(seen.unapplied), 3),
            "predicted": _rounded(seen.predicted),
            "bound": _rounded(seen.bound),
            "limit": _rounded(self.limit),
            "interference": round(self.interference, 3),
            "response_time": seen.level.response_time,
            "staleness": round(seen.staleness, 3),
            "max_staleness": seen.level.max_staleness,
            "promise": seen.state,
            "stuck": seen.stuck,
            "csn": seen.csn,
            "newest_csn": seen.newest_csn,
            "alternatives": [
                {
                    "empties": [seen.labels[number] for number in sorted(each.action.touched)],
                    "cost": round(each.cost, 3),
                    "score": round(each.score, 6),
                }
                for each in self.considered
            ],
        }


def decide(
    seen: Seen,
    memory: Memory,
    now: float,
    *,
    tick: float,
    interference: float = 0.0,
    longest: float = inf,
    demanded: bool = False,
) -> tuple[Verdict, Memory]:
    """What to do for the view, and what to remember; the same in, the same out.

    ``interference`` is the longest step of another view that may have to be waited for, ``longest`` the longest that
    the others can wait for.
    """
    if memory.policy_name != seen.level.policy or len(memory.left) != len(seen.backlog):
        memory = Memory.begin(seen, now)
    limit = cost_limit(seen, interference)
    policy = seen.level.chosen_policy()
    arrived = tuple(max(0, count - left) for count, left in zip(seen.backlog, memory.left, strict=True))
    promise = seen.costs.promise(limit) if limit is not None else None
    known = noticed = memory.policy
    last = arrived
    if promise is not None:
        known, last = _caught_up(policy, memory, arrived, promise, now, tick)
        noticed = _noticed(policy, known, last, promise)
    looked = Memory(noticed, memory.policy_name, seen.backlog, now, memory.refreshed_at, memory.spent)
    others = interference
    interference = min(interference, MOST_INTERFERENCE * (seen.level.response_time or 0.0))

    def verdict(deed: Deed, reason: str, counts: Counts | None = None) -> Verdict:
        chosen = nothing(len(seen.backlog)) if counts is None else counts
        return Verdict(deed, reason, chosen, seen, limit, interference)

    def process(reason: str, counts: Counts, considered: tuple[Alternative, ...] = ()) -> Verdict:
        if not seen.apart or not any(counts):
            return verdict("refresh", reason)
        chosen = _bearable(counts, seen, longest)
        told = reason if chosen == counts else f"{reason}; cut short for other views"
        return Verdict("process", told, chosen, seen, limit, interference, considered)

    def refresh(reason: str) -> Verdict:
        """In two steps or more if it would keep others waiting."""
        if seen.problem is None and any(seen.backlog) and _bearable(seen.backlog, seen, longest) != seen.backlog:
            return process(reason, seen.backlog)
        return verdict("refresh", reason)

    if not seen.is_behind and not demanded:
        return verdict("wait", "nothing is pending"), looked
    if demanded:
        return verdict("refresh", "a reader asks"), looked
    level = seen.level
    if level.max_staleness is not None:
        ahead = (seen.bound or seen.predicted or 0.0) + 2 * tick + min(others, MOST_INTERFERENCE * level.max_staleness)
        if seen.staleness + ahead >= level.max_staleness:
            return refresh("the oldest change would become too old"), looked
    if level.response_time is None:
        return verdict("wait", "not stale yet"), looked
    if seen.problem is not None:
        return verdict("refresh", f"it can't be propagated: {seen.problem}"), looked
    if promise is None:
        return process("not measured yet", seen.backlog), looked
    if beyond := _beyond(seen):
        return process("more than was ever measured", beyond), looked
    if _unmeasured(seen):
        return verdict("refresh", "applying is not measured yet"), looked
    fresh = cost_limit(seen, interference, unapplied=1)
    if seen.unapplied and fresh is not None and fresh > 0 and promise.cost_limit < fresh / 2:
        return refresh("what is to be applied has grown"), looked
    if _beyond_applied(seen):
        return refresh("more than was ever applied"), looked
    steps = int((now - memory.refreshed_at) / tick)
    decision = policy.decide(known, Situation(steps, last, seen.backlog, memory.spent, promise))
    looked = Memory(decision.memory, memory.policy_name, seen.backlog, now, memory.refreshed_at, memory.spent)
    if decision.action.is_none:
        return verdict("wait", "a refresh would keep the bound"), looked
    together = _bearable(seen.backlog, seen, longest) == seen.backlog != decision.action.counts
    if together and not seen.costs.joint.is_known and seen.costs.are_measured(seen.backlog):
        return process("what parts share is not measured yet", seen.backlog, decision.considered), looked
    return process("the backlog is full", decision.action.counts, decision.considered), looked


def done(memory: Memory, verdict: Verdict, now: float, seconds: float) -> Memory:
    """What is remembered after a deed that took so long."""
    if verdict.deed == "refresh":
        parts = len(verdict.seen.backlog)
        return Memory(memory.policy, memory.policy_name, nothing(parts), memory.looked_at, now)
    left = tuple(count - taken for count, taken in zip(verdict.seen.backlog, verdict.counts, strict=True))
    return Memory(
        memory.policy, memory.policy_name, left, memory.looked_at, memory.refreshed_at, memory.spent + seconds
    )


def cost_limit(seen: Seen, interference: float = 0.0, *, unapplied: int | None = None) -> float | None:
    """What the backlog may cost: C less all that a refresh pays besides; None while that can't be told."""
    limit = seen.level.response_time
    if limit is None or seen.costs.upper() is None:
        return None
    kept_free = min(interference, MOST_INTERFERENCE * limit)
    overhead = seen.costs.overhead(seen.unapplied if unapplied is None else unapplied, CONFIDENCE)
    again = seen.costs.again() if seen.apart else 0.0
    return max(0.0, limit - max(HEADROOM * limit, again) - overhead - seen.below_bound - kept_free)


def _bearable(counts: Counts, seen: Seen, longest: float) -> Counts:
    """As much of an action as others can wait for, and always something: the first parts first."""
    promise = seen.costs.promise(longest)
    if promise is None or not seen.apart:
        return counts
    left = longest
    found: list[int] = []
    for f, rows in zip(promise.costs, counts, strict=True):
        shared = promise.shared if any(found) else 0.0
        taken = largest_batch(f, left + shared, rows)
        found.append(taken if taken or not rows or any(found) else 1)
        left -= f(found[-1]) - (shared if found[-1] else 0.0)
    return tuple(found)


def _beyond(seen: Seen) -> Counts | None:
    """The pending rows of parts that are far more than any batch of them that was measured."""
    parts = [seen.costs.part(number) for number in range(len(seen.backlog))]
    far = [f is not None and rows > MOST_BEYOND * f.largest for f, rows in zip(parts, seen.backlog, strict=True)]
    chosen = tuple(rows if beyond else 0 for rows, beyond in zip(seen.backlog, far, strict=True))
    return chosen if any(chosen) and seen.apart else None


def _beyond_applied(seen: Seen) -> bool:
    """The same of what a refresh would apply, which stands between a reader and the answer too."""
    apply = seen.costs.apply
    return seen.apart and apply is not None and seen.unapplied > MOST_BEYOND * apply.largest


def _unmeasured(seen: Seen) -> bool:
    return seen.apart and seen.costs.apply is None and seen.unapplied > 0


def _caught_up(
    policy: Any, memory: Memory, arrived: Counts, promise: Promise, now: float, tick: float
) -> tuple[Any, Counts]:
    """The policy's memory after the steps that passed since the last look, and what arrived at the present one.

    Policies estimate rates by the step, and a look after a long deed stands for many: what arrived meanwhile is spread
    over them.
    """
    steps = min(_MOST_STEPS, max(1, round((now - memory.looked_at) / tick)))
    known = memory.policy
    for step in range(1, steps):
        share = tuple(count * step // steps - count * (step - 1) // steps for count in arrived)
        known = _noticed(policy, known, share, promise)
    return known, tuple(count - count * (steps - 1) // steps for count in arrived)


def _noticed(policy: Any, known: Any, arrived: Counts, promise: Promise) -> Any:
    """The policy's memory after a step at which it is not asked: shown with no backlog, which calls for no action."""
    return policy.decide(known, Situation(0, arrived, nothing(len(arrived)), 0.0, promise)).memory


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


__all__ = ["Action", "Deed", "Memory", "Seen", "State", "Verdict", "cost_limit", "decide", "done"]
