"""A simulator of autonomous sources and of a network that delays, misorders, doubles and loses their messages.

Sources commit when they like, answer in the state that they are in, and know nothing of views. Everything is decided
by the random generator that is passed in. After every change of the view its state is compared with the defining query
over the states of the sources that the view should reflect, computed by the reference engine: complete consistency is
that each change takes the view to the next transaction of one source, and that every one of these states is right.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from headwater.algebra.plan import LeafId, Plan, scans
from headwater.algebra.zset import Row, ZSet
from headwater.engine.reference import evaluate_plan, latest_csn
from headwater.propagate.version_numbers.definition import BaseRelation, JoinView
from headwater.propagate.version_numbers.instructions import (
    Apply,
    Ask,
    AskAgain,
    AskAgainForUpdates,
    Event,
    Instruction,
    Patience,
    Tick,
)
from headwater.propagate.version_numbers.numbers import (
    BaseRelationVersion,
    DataSourceVersion,
    RefreshedVersion,
    SourceName,
)
from headwater.propagate.version_numbers.questions import SourceAnswer, SubQuery, ViewAnswer, ViewQuery
from headwater.propagate.version_numbers.self_maintenance import EVERYTHING, SelfMaintenance
from headwater.propagate.version_numbers.site import ViewSite
from headwater.propagate.version_numbers.updates import Change, Transaction, Update, signed
from headwater.propagate.version_numbers.view_change import apply_steps

Tables = dict[str, Counter[Row]]

FIRST = DataSourceVersion(1)


@dataclass(slots=True)
class AutonomousSource:
    name: SourceName
    tables: Tables
    version: DataSourceVersion = FIRST
    versions: dict[str, BaseRelationVersion] = field(default_factory=dict)
    told: list[Transaction] = field(default_factory=list)
    past: dict[DataSourceVersion, tuple[Tables, dict[str, BaseRelationVersion]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.versions = dict.fromkeys(self.tables, BaseRelationVersion(1))
        self._remember()

    def commit(self, changes: Mapping[str, Sequence[Change]]) -> Transaction:
        self.version = DataSourceVersion(self.version + 1)
        updates = []
        for table, made in changes.items():
            self.versions[table] = BaseRelationVersion(self.versions[table] + 1)
            self.tables[table] = changed(self.tables[table], made)
            updates.append(Update(table, self.versions[table], tuple(made)))
        self._remember()
        self.told.append(Transaction(self.name, self.version, tuple(updates)))
        return self.told[-1]

    def answer(self, query: SubQuery, view: JoinView) -> SourceAnswer:
        found: dict[LeafId, dict[Row, int]] = {}
        for wanted in query.wanted:
            probes = set(wanted.probes)
            if wanted.parent is not None:
                probes |= {view.values(wanted.parent, wanted.parent_attributes, row) for row in found[wanted.parent]}
            found[wanted.leaf] = {
                row: count
                for row, count in self.tables[wanted.table].items()
                if view.values(wanted.leaf, wanted.attributes, row) in probes
                and None not in view.values(wanted.leaf, wanted.attributes, row)
                and view.selects(wanted.leaf, row)
            }
        versions = {wanted.table: self.versions[wanted.table] for wanted in query.wanted}
        return SourceAnswer(query.question, found, versions)

    def _remember(self) -> None:
        self.past[self.version] = ({table: Counter(rows) for table, rows in self.tables.items()}, dict(self.versions))


def changed(rows: Counter[Row], changes: Sequence[Change]) -> Counter[Row]:
    after = Counter(rows)
    for row, count in signed(tuple(changes)):
        after[row] += count
    assert min(after.values(), default=0) >= 0, "a source deletes what it does not have"
    return Counter({row: count for row, count in after.items() if count})


@dataclass(slots=True)
class Network:
    """Messages arrive after a delay of their own, so they overtake each other; some arrive twice, some never."""

    random: Random
    longest: int
    loses: float
    doubles: float
    now: int = 0
    lost: int = 0
    overtakes: int = 0
    _sent: int = 0
    _under_way: list[tuple[int, int, Callable[[], None]]] = field(default_factory=list)

    def send(self, deliver: Callable[[], None]) -> None:
        copies = 2 if self.random.random() < self.doubles else 1
        for _ in range(copies):
            if self.random.random() < self.loses:
                self.lost += 1
            else:
                self.send_safely(deliver)

    def send_safely(self, deliver: Callable[[], None]) -> None:
        self._sent += 1
        arrives = self.now + self.random.randint(0, self.longest)
        self.overtakes += any(other > arrives for other, _, _ in self._under_way)
        heapq.heappush(self._under_way, (arrives, self._sent, deliver))

    def pass_time(self) -> None:
        self.now += 1
        while self._under_way and self._under_way[0][0] <= self.now:
            heapq.heappop(self._under_way)[2]()

    @property
    def is_quiet(self) -> bool:
        return not self._under_way


@dataclass(slots=True)
class Warehouse:
    """The view, its site and its sources; every instruction of the site is carried out over the network."""

    plan: Plan
    view: JoinView
    sources: dict[SourceName, AutonomousSource]
    network: Network
    site: ViewSite
    stored: dict[Row, int] = field(default_factory=dict)
    stored_versions: tuple[RefreshedVersion, ...] = ()
    position: dict[SourceName, DataSourceVersion] = field(default_factory=dict)
    states: list[dict[Row, int]] = field(default_factory=list)
    instructions: list[Instruction] = field(default_factory=list)
    events: list[tuple[Event, float]] = field(default_factory=list)
    most_in_flight: int = 0

    @classmethod
    def over(
        cls,
        plan: Plan,
        relations: Sequence[BaseRelation],
        tables: Mapping[str, Sequence[Row]],
        network: Network,
        means: SelfMaintenance = EVERYTHING,
        patience: Patience | None = None,
    ) -> Warehouse:
        view = JoinView.of(plan, relations)
        names = dict.fromkeys(relation.source for relation in relations)
        sources = {
            name: AutonomousSource(
                name, {each.table: Counter(tables[each.table]) for each in relations if each.source == name}
            )
            for name in names
        }
        site = ViewSite.at(
            view,
            {relation.table: BaseRelationVersion(1) for relation in relations},
            dict.fromkeys(names, DataSourceVersion(1)),
            patience or Patience(answer=9, notification=7, silence=11),
            means=means,
        )
        warehouse = cls(plan, view, sources, network, site)
        warehouse.position = dict.fromkeys(names, DataSourceVersion(1))
        warehouse.stored = warehouse.defining_query()
        warehouse.stored_versions = site.refreshed
        warehouse.states.append(warehouse.stored)
        return warehouse

    def defining_query(self) -> dict[Row, int]:
        """The view over the states that it should reflect, on the reference engine."""
        inputs = {}
        for scan in scans(self.plan):
            source = self.sources[self.view.source(scan.leaf)]
            rows = source.past[self.position[source.name]][0][scan.table]
            inputs[scan.leaf] = ZSet.of((row, count, None) for row, count in rows.items())
        return evaluate_plan(self.plan, inputs, latest_csn).counts()

    def commit(self, source: SourceName, changes: Mapping[str, Sequence[Change]]) -> None:
        transaction = self.sources[source].commit(changes)
        self.network.send(lambda: self.hear(transaction))

    def hear(self, event: Event) -> None:
        self.events.append((event, self.network.now))
        for instruction in self.site.handle(event, self.network.now):
            self.instructions.append(instruction)
            self.carry_out(instruction)
        self.most_in_flight = max(self.most_in_flight, len(self.site.in_flight))
        self.site.validate()

    def carry_out(self, instruction: Instruction) -> None:
        match instruction:
            case Ask(question=SubQuery() as query):
                self.network.send(lambda: self.answer(query))
            case Ask(question=ViewQuery() as query):
                self.network.send_safely(lambda: self.read_view(query))
            case AskAgain(source=source, versions=versions, after=after):
                self.network.send(lambda: self.retell(source, lambda each: _named(each, versions, after)))
            case AskAgainForUpdates(source=source, table=table, versions=wanted):
                self.network.send(
                    lambda: self.retell(
                        source, lambda each: any(u.table == table and u.version in wanted for u in each.updates)
                    )
                )
            case Apply():
                self.apply(instruction)

    def answer(self, query: SubQuery) -> None:
        answer = self.sources[query.source].answer(query, self.view)
        self.network.send(lambda: self.hear(answer))

    def read_view(self, query: ViewQuery) -> None:
        rows = tuple(row for row in self.stored if tuple(row[p] for p in query.positions) in query.keys)
        answer = ViewAnswer(query.question, rows, self.stored_versions)
        self.network.send_safely(lambda: self.hear(answer))

    def retell(self, source: SourceName, wanted: Callable[[Transaction], bool]) -> None:
        for transaction in filter(wanted, self.sources[source].told):
            self.network.send(lambda told=transaction: self.hear(told))

    def apply(self, change: Apply) -> None:
        source = change.transaction.source
        assert change.transaction.version == self.position[source] + 1, "a state was skipped, or came twice"
        self.position[source] = change.transaction.version
        self.stored = apply_steps(self.stored, change.steps)
        self.stored_versions = change.refreshed
        self.states.append(self.stored)
        expected = self.defining_query()
        assert self.stored == expected, f"after {change.transaction} the view is {self.stored}, should be {expected}"
        for scan in scans(self.plan):
            there = self.sources[self.view.source(scan.leaf)].past[self.position[self.view.source(scan.leaf)]]
            assert change.refreshed[scan.leaf] == there[1][scan.table]

    @property
    def is_up_to_date(self) -> bool:
        return all(self.position[name] == source.version for name, source in self.sources.items())

    def settle(self, steps: int = 3000) -> None:
        """Let time pass, without further commits, until the view reflects everything."""
        for _ in range(steps):
            if self.is_up_to_date:
                return
            self.network.pass_time()
            self.hear(Tick())
        raise AssertionError(f"the view still waits for {[str(each) for each in self.site.waits_for()]}")

    def sub_queries(self) -> list[SubQuery]:
        found = (each.question for each in self.instructions if isinstance(each, Ask))
        return list({each.question: each for each in found if isinstance(each, SubQuery)}.values())

    def view_queries(self) -> list[ViewQuery]:
        found = (each.question for each in self.instructions if isinstance(each, Ask))
        return list({each.question: each for each in found if isinstance(each, ViewQuery)}.values())


def _named(each: Transaction, versions: tuple[DataSourceVersion, ...], after: DataSourceVersion | None) -> bool:
    return each.version in versions or (after is not None and each.version > after)
