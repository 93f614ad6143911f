"""The view's site: a state machine that keeps a view over autonomous sources completely consistent [SzeLing00].

Events come in (a notification, an answer, the passing of time), instructions go out (ask, apply, ask again); whoever
carries them out does all sending and storing. The same events give the same instructions, so a site that died is
rebuilt from its initial versions and the events since.

1. A notification is kept by its numbers, whatever the order of arrival; a second copy changes nothing.
2. The next transaction of each source, by data source version, is *sent for computation* as soon as it is here: the
   highest processing versions of its leaves advance, leaf by leaf, and are the initial versions of each computation.
   Nothing is waited for, so many transactions are in flight at once.
3. An answer that shows states beyond what has been heard of waits until those updates are here; then it is compensated.
   A second answer to one question is dropped: the first is as true.
4. The changes of a transaction are applied as one, when it is complete and all transactions sent before it are
   applied. No quiet moment of the sources is needed for that: what a computation waits for was already committed.

*Complete consistency* [Theorem 2]. Number the transactions in the order in which they were sent; in it, each source's
own stand in their order. The computation of leaf i in transaction t sees the initial versions: the states after all
transactions before t, and, inside t, the leaves computed before i as after t and those computed later as before t. So
the changes of the leaves of t telescope to V(after t) - V(before t), and since they are applied in this order, each
applied transaction takes the view from one state of complete consistency to the next, and no state is skipped.

*What is forgotten.* Initial versions are at or above the refreshed versions, and so are the states in which sources
answer, since a source has told of them; so no answer needs an update at or below. (An answer from an older state, as a
lagging replica may give, is passed over, and the question asked again in time.) A question to the view pins the
refreshed versions at which it was asked until its answer is here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from headwater.algebra.plan import LeafId
from headwater.errors import ContradictingMessages, InternalError
from headwater.propagate.version_numbers import numbers
from headwater.propagate.version_numbers.compensation import Updates, interfering_updates, missing_updates
from headwater.propagate.version_numbers.computation import Computation, Question, start_computation
from headwater.propagate.version_numbers.definition import JoinView
from headwater.propagate.version_numbers.instructions import (
    Apply,
    Ask,
    AskAgain,
    AskAgainForUpdates,
    Awaited,
    AwaitsAnswer,
    AwaitsTransactions,
    AwaitsUpdates,
    Event,
    Instruction,
    Patience,
    Tick,
)
from headwater.propagate.version_numbers.log import UpdateLog
from headwater.propagate.version_numbers.numbers import (
    BaseRelationVersion,
    DataSourceVersion,
    HighestProcessingVersion,
    InitialVersion,
    RefreshedVersion,
    SourceName,
)
from headwater.propagate.version_numbers.questions import QuestionId, SourceAnswer, SubQuery, ViewAnswer, ViewQuery
from headwater.propagate.version_numbers.self_maintenance import EVERYTHING, SelfMaintenance
from headwater.propagate.version_numbers.updates import Change, Deletion, Transaction, Update


@dataclass(slots=True)
class _InFlight:
    transaction: Transaction
    computations: list[Computation]
    initial: tuple[InitialVersion, ...]  # of its last computation


@dataclass(slots=True)
class _Asked:
    question: Question
    computation: Computation
    since: float
    last: float
    pinned: tuple[RefreshedVersion, ...]  # the refreshed versions when it was first asked
    attempts: int = 1


@dataclass(slots=True)
class _Held:
    answer: SourceAnswer
    since: float
    last: float  # when the lost updates were last asked for, or the answer came


@dataclass(slots=True)
class ViewSite:
    view: JoinView
    patience: Patience
    log: UpdateLog
    highest: list[HighestProcessingVersion]  # by leaf; never decreases
    refreshed: tuple[RefreshedVersion, ...]  # by leaf; never above ``highest``
    means: SelfMaintenance = EVERYTHING
    in_flight: deque[_InFlight] = field(default_factory=deque)  # in the order of sending, which is that of applying
    asked: dict[QuestionId, _Asked] = field(default_factory=dict)
    held: dict[QuestionId, _Held] = field(default_factory=dict)  # answers that wait for updates; still in ``asked``
    heard: dict[SourceName, float] = field(default_factory=dict)  # when something last came from a source
    gaps: dict[SourceName, float] = field(default_factory=dict)  # when a transaction was found to be overtaken
    gaps_asked: dict[SourceName, float] = field(default_factory=dict)  # when it was last asked for; else as in ``gaps``
    questions: int = 0

    @classmethod
    def at(
        cls,
        view: JoinView,
        relations: Mapping[str, BaseRelationVersion],
        sources: Mapping[SourceName, DataSourceVersion],
        patience: Patience,
        *,
        now: float = 0,
        means: SelfMaintenance = EVERYTHING,
    ) -> ViewSite:
        """A view that reflects these states of its relations, each source in one state."""
        versions = [relations[scan.table] for scan in view.leaves]
        return cls(
            view=view,
            patience=patience,
            log=UpdateLog(dict(sources)),
            highest=[numbers.sent_for_computation(version) for version in versions],
            refreshed=tuple(RefreshedVersion(version) for version in versions),
            means=means,
            heard=dict.fromkeys(sources, now),
        )

    def handle(self, event: Event, now: float) -> tuple[Instruction, ...]:
        """Take in one event; what is to be done because of it, in this order."""
        out: list[Instruction] = []
        match event:
            case Transaction():
                self._hear_transaction(event, now)
            case SourceAnswer():
                if self._is_wanted(event):
                    self.held[event.question] = _Held(event, now, now)
            case ViewAnswer():
                asked = self.asked.pop(event.question, None)
                if asked is not None:
                    asked.computation.hear_view(event, self._updates_of)
            case Tick():
                pass
        self._send_for_computation()
        self._resume_answers()
        for flight in self.in_flight:
            for computation in flight.computations:
                for question in computation.ask(self._fresh):
                    self.asked[question.question] = _Asked(question, computation, now, now, self.refreshed)
                    out.append(Ask(question))
        out += self._apply_complete()
        out += self._lose_patience(now)
        return tuple(out)

    def waits_for(self) -> tuple[Awaited, ...]:
        """What the view waits for, and why."""
        answers: list[Awaited] = [
            AwaitsAnswer(asked.question, asked.since, asked.attempts)
            for number, asked in self.asked.items()
            if number not in self.held
        ]
        gaps: list[Awaited] = [
            AwaitsTransactions(source, self.log.lost_transactions(source), since) for source, since in self.gaps.items()
        ]
        updates: list[Awaited] = [
            AwaitsUpdates(self._source_of(table), table, versions, held.since)
            for held in self.held.values()
            for table, versions in self._lacking(held.answer).items()
        ]
        return (*answers, *gaps, *updates)

    def validate(self) -> None:
        for leaf, (refreshed, highest) in enumerate(zip(self.refreshed, self.highest, strict=True)):
            if refreshed > highest:
                raise InternalError(f"leaf {leaf} reflects {refreshed}, but only {highest} was sent for computation")
            table = self.view.leaves[leaf].table
            needed = (BaseRelationVersion(version) for version in range(refreshed + 1, highest + 1))
            if self.log.lost_updates(table, needed):
                raise InternalError(f"updates of {table} between {refreshed} and {highest} were forgotten")
        if set(self.held) - set(self.asked):
            raise InternalError("an answer is held to a question that is not open")
        for flight in self.in_flight:
            for computation in flight.computations:
                if set(computation.open) - set(self.asked):
                    raise InternalError(f"{flight.transaction} waits for an answer that nobody was asked for")
        if not self.in_flight and self.refreshed != numbers.applied(numbers.assigned(self.highest)):
            raise InternalError("nothing is in flight, and the view does not reflect all that was sent")

    def _fresh(self) -> QuestionId:
        self.questions += 1
        return QuestionId(self.questions)

    def _hear_transaction(self, transaction: Transaction, now: float) -> None:
        if transaction.source not in self.log.processed:
            return
        self.heard[transaction.source] = now
        # Its number counts, whatever it changed; of what it changed, only what the view reads.
        read = tuple(update for update in transaction.updates if self.view.leaves_of(update.table))
        self.log.receive(replace(transaction, updates=read))
        if self.log.lost_transactions(transaction.source):
            self.gaps.setdefault(transaction.source, now)
            self.gaps_asked.setdefault(transaction.source, now)

    def _send_for_computation(self) -> None:
        for source in self.log.processed:
            while (transaction := self.log.next(source)) is not None:
                self.in_flight.append(self._in_flight(transaction))
                self.log.send(transaction)
            if not self.log.lost_transactions(source):
                self.gaps.pop(source, None)
                self.gaps_asked.pop(source, None)

    def _in_flight(self, transaction: Transaction) -> _InFlight:
        """Assign initial versions, one leaf after another, and start a computation for each."""
        touched = {leaf: update for update in transaction.updates for leaf in self.view.leaves_of(update.table)}
        for leaf, update in touched.items():
            if update.version != self.highest[leaf] + 1:
                raise ContradictingMessages(
                    f"The {transaction} leads {update.table} to version {update.version}, but the transactions before "
                    f"it led to {self.highest[leaf]}.",
                    table=update.table,
                    version=update.version,
                    remedy="Create the view again from the present state of its sources.",
                )
        untouched = frozenset(scan.leaf for scan in self.view.leaves) - set(touched)
        done: set[LeafId] = set()
        computations = []
        for leaf in self._order(touched):
            self.highest[leaf] = numbers.sent_for_computation(touched[leaf].version)
            computations.append(
                start_computation(
                    self.view,
                    leaf,
                    touched[leaf],
                    numbers.assigned(self.highest),
                    self.means,
                    seen_before=untouched | (set(touched) - done - {leaf}),
                    seen_after=untouched | done,
                )
            )
            done.add(leaf)
        return _InFlight(transaction, computations, numbers.assigned(self.highest))

    def _order(self, touched: Mapping[LeafId, Update]) -> list[LeafId]:
        """Any order is right; referring relations last lets inserted rows be irrelevant, and first deleted ones."""

        def referred_to(leaf: LeafId) -> int:
            tables = {foreign.table for foreign in self.view.relations[leaf].foreign_keys}
            return sum(scan.table in tables for scan in self.view.leaves)

        deletes = any(isinstance(change, Deletion) for update in touched.values() for change in update.changes)
        return sorted(touched, key=lambda leaf: (-referred_to(leaf) if deletes else referred_to(leaf), leaf))

    def _is_wanted(self, answer: SourceAnswer) -> bool:
        asked = self.asked.get(answer.question)
        if asked is None or answer.question in self.held or not isinstance(asked.question, SubQuery):
            return False
        return all(answer.versions[each.table] >= self.refreshed[each.leaf] for each in asked.question.wanted)

    def _resume_answers(self) -> None:
        for number, held in list(self.held.items()):
            if not self._lacking(held.answer):
                del self.held[number]
                self.asked.pop(number).computation.hear_source(held.answer, self._updates_of)

    def _lacking(self, answer: SourceAnswer) -> dict[str, tuple[BaseRelationVersion, ...]]:
        """The lost updates without which an answer can't be compensated, by table."""
        asked = self.asked[answer.question]
        lacking: dict[str, tuple[BaseRelationVersion, ...]] = {}
        if isinstance(asked.question, SubQuery):
            for wanted in asked.question.wanted:
                initial = asked.computation.initial[wanted.leaf]
                queried = numbers.answered_by_source(answer.versions[wanted.table])
                needed = (*missing_updates(initial, queried), *interfering_updates(initial, queried))
                lost = self.log.lost_updates(wanted.table, needed)
                if lost:
                    lacking[wanted.table] = tuple(sorted({*lacking.get(wanted.table, ()), *lost}))
        return lacking

    def _updates_of(self, leaf: LeafId) -> Updates:
        held = self.log.updates.get(self.view.leaves[leaf].table, {})

        def changes(version: BaseRelationVersion) -> tuple[Change, ...]:
            return self.view.as_seen(leaf, held[version].changes)

        return changes

    def _apply_complete(self) -> Iterable[Apply]:
        while self.in_flight and all(each.is_complete for each in self.in_flight[0].computations):
            flight = self.in_flight.popleft()
            steps = tuple(step for computation in flight.computations for step in computation.steps())
            self.refreshed = numbers.applied(flight.initial)
            self._forget()
            yield Apply(flight.transaction, steps, self.refreshed)

    def _forget(self) -> None:
        pins = [self.refreshed, *(each.pinned for each in self.asked.values() if isinstance(each.question, ViewQuery))]
        reflected: dict[str, int] = {}
        for leaf, scan in enumerate(self.view.leaves):
            lowest = min(pin[leaf] for pin in pins)
            reflected[scan.table] = min(lowest, reflected.get(scan.table, lowest))
        self.log.forget(reflected)

    def _lose_patience(self, now: float) -> Iterable[Instruction]:
        for number, asked in self.asked.items():
            if number not in self.held and now - asked.last >= self.patience.answer:
                asked.last = now
                asked.attempts += 1
                yield Ask(asked.question)
        for source, last in list(self.gaps_asked.items()):
            if now - last >= self.patience.notification:
                self.gaps_asked[source] = now
                yield AskAgain(source, versions=self.log.lost_transactions(source))
        for held in self.held.values():
            if now - held.last >= self.patience.notification:
                held.last = now
                for table, versions in self._lacking(held.answer).items():
                    yield AskAgainForUpdates(self._source_of(table), table, versions)
        for source, last in list(self.heard.items()):
            if now - last >= self.patience.silence:
                self.heard[source] = now
                yield AskAgain(source, after=self.log.newest.get(source, self.log.processed[source]))

    def _source_of(self, table: str) -> SourceName:
        return next(relation.source for relation in self.view.relations if relation.table == table)
