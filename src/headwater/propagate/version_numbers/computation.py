"""The incremental computation of one update for one leaf [SzeLing00 §4, §5].

The changes are sorted by what they need: insertions, and what can't be done otherwise, are *added*, which needs the
rows of all other leaves; deletions and modifications go *by key* where a key route exists, which needs the rows on
the route. Each of the two is a walk (``walk``) over its own access path. The questions of both, to all sources, are
asked at once; every answer is compensated to the update's initial versions (``compensation``) and may lead to more
questions; when both walks are complete, the steps that change the view are known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from headwater.algebra.plan import LeafId
from headwater.algebra.scalar import compile_scalar
from headwater.algebra.zset import Row
from headwater.errors import InternalError
from headwater.propagate.version_numbers import numbers
from headwater.propagate.version_numbers.access import access_path
from headwater.propagate.version_numbers.compensation import Piece, Updates, compensate, is_known, missing_updates
from headwater.propagate.version_numbers.definition import JoinView, attributes_of
from headwater.propagate.version_numbers.numbers import InitialVersion, RefreshedVersion
from headwater.propagate.version_numbers.questions import (
    QuestionId,
    SourceAnswer,
    SubQuery,
    ViewAnswer,
    ViewQuery,
    Wanted,
)
from headwater.propagate.version_numbers.self_maintenance import (
    KeyRoute,
    SelfMaintenance,
    is_irrelevant,
    is_settable,
    is_shown,
    key_route,
    read_chain,
    view_answers,
)
from headwater.propagate.version_numbers.updates import Deletion, Insertion, Modification, Update
from headwater.propagate.version_numbers.view_change import AddRows, DeleteWhere, SetWhere, ViewStep
from headwater.propagate.version_numbers.walk import Walk, output_rows

Question: TypeAlias = SubQuery | ViewQuery
LeafUpdates: TypeAlias = Callable[[LeafId], Updates]
"""For each leaf, the updates of its relation as the leaf sees them."""


@dataclass(slots=True)
class Computation:
    view: JoinView
    leaf: LeafId
    initial: tuple[InitialVersion, ...]
    means: SelfMaintenance
    added: Walk
    route: KeyRoute | None  # None: nothing goes by key
    by_key: Walk | None
    modified: dict[Row, Row]  # old row to new row, of the modifications that go by key
    seen_by_view: set[tuple[LeafId, Row]] = field(default_factory=set)  # probes that the view was asked for
    open: dict[QuestionId, tuple[Walk, Question]] = field(default_factory=dict)

    has_news: bool = True  # something was learned since it last asked

    @property
    def is_complete(self) -> bool:
        return not self.open and not self.has_news

    @property
    def walks(self) -> tuple[Walk, ...]:
        return (self.added,) if self.by_key is None else (self.added, self.by_key)

    def ask(self, fresh: Callable[[], QuestionId]) -> Iterator[Question]:
        """Everything that can be asked now: of the view where it may know, else one sub-query for each group."""
        if not self.has_news:
            return
        self.has_news = False
        for walk in self.walks:
            unmet = walk.unmet()
            for leaf, probes in list(unmet.items()):
                ahead = self._for_view(walk, leaf, probes)
                if ahead:
                    unmet[leaf] = tuple(probe for probe in probes if probe not in ahead)
                    self.seen_by_view.update((leaf, probe) for probe in ahead)
                    positions = self.view.positions(walk.visit(leaf).attributes)
                    yield self._sent(walk, ViewQuery(fresh(), leaf, positions, ahead))
            for group, source in enumerate(walk.path.sources):
                wanted = self._wanted(walk, group, unmet)
                if wanted:
                    yield self._sent(walk, SubQuery(fresh(), source, wanted))

    def hear_source(self, answer: SourceAnswer, updates: LeafUpdates) -> None:
        """Compensate an answer and keep it; ``updates`` must hold all that lie between its states and ours."""
        walk, question = self._closed(answer.question)
        if not isinstance(question, SubQuery):
            raise InternalError(f"{question} was answered by a source")
        for wanted in question.wanted:
            probes = set(wanted.probes)
            if wanted.parent is not None:
                parents = answer.rows.get(wanted.parent, {})
                probes |= {self.view.values(wanted.parent, wanted.parent_attributes, row) for row in parents}
            piece = Piece(
                frozenset(probe for probe in probes if None not in probe),
                answer.rows.get(wanted.leaf, {}),
                numbers.answered_by_source(answer.versions[wanted.table]),
            )
            walk.learn(wanted.leaf, self._at_initial(wanted.leaf, walk, piece, updates))

    def hear_view(self, answer: ViewAnswer, updates: LeafUpdates) -> None:
        """Keep what the view shows, with the missing updates redone; what it does not show is asked elsewhere."""
        walk, question = self._closed(answer.question)
        if not isinstance(question, ViewQuery):
            raise InternalError(f"{question} was answered by the view")
        visit = walk.visit(question.leaf)
        by_key = {tuple(row[position] for position in question.positions): row for row in answer.rows}
        for shown in by_key.values():
            chain = read_chain(self.view, walk.path, visit, shown)
            if all(self._identified(each.leaf, probe, answer.versions, updates) for each, probe, _ in chain.rows):
                for each, probe, row in chain.rows:
                    version = numbers.answered_by_view(answer.versions[each.leaf])
                    piece = Piece(frozenset({probe}), {row: 1}, version)
                    walk.learn(each.leaf, self._at_initial(each.leaf, walk, piece, updates))

    def steps(self) -> tuple[ViewStep, ...]:
        """What the update does to the view: by key first, since an insertion may bring a key back."""
        if not self.is_complete:
            raise InternalError(f"the computation for {self.view.leaves[self.leaf].alias} still waits for {self.open}")
        steps: list[ViewStep] = []
        if self.route is not None and self.by_key is not None:
            key = self.view.key(self.route.keyed)
            positions = self.view.positions(key)
            deleted: set[Row] = set()
            changed: dict[Row, dict[int, object]] = {}
            for rows, _ in self.by_key.joined():
                found = self.view.values(self.route.keyed, key, rows[self.route.keyed])
                new = self.modified.get(rows[self.leaf])
                if new is None:
                    deleted.add(found)
                else:
                    changed[found] = self._settings(rows[self.leaf], new)
            if deleted:
                steps.append(DeleteWhere(positions, frozenset(deleted)))
            if changed:
                steps.append(SetWhere(positions, changed))
        rows_added = output_rows(self.view, self.added)
        if rows_added:
            steps.append(AddRows(tuple(rows_added.items())))
        return tuple(steps)

    def _settings(self, old: Row, new: Row) -> dict[int, object]:
        attributes = self.view.leaves[self.leaf].attributes
        changed = self.view.changed(self.leaf, Modification(old, new))
        return {
            position: compile_scalar(expression, attributes)(new)
            for position, (_, expression) in enumerate(self.view.outputs)
            if attributes_of(expression) & changed
        }

    def _for_view(self, walk: Walk, leaf: LeafId, probes: tuple[Row, ...]) -> tuple[Row, ...]:
        if walk is not self.added or not self.means.view_answers:
            return ()
        if not view_answers(self.view, walk.path, walk.visit(leaf)):
            return ()
        return tuple(probe for probe in probes if is_known(probe) and (leaf, probe) not in self.seen_by_view)

    def _wanted(self, walk: Walk, group: int, unmet: dict[LeafId, tuple[Row, ...]]) -> tuple[Wanted, ...]:
        """One group's leaves with open probes, and those below them in the same group."""
        wanted: list[Wanted] = []
        inside: set[LeafId] = set()
        for visit in walk.path.visits:
            if visit.group != group:
                continue
            probes = unmet.get(visit.leaf, ())
            follows = visit.parent in inside
            if probes or follows:
                inside.add(visit.leaf)
                table = self.view.leaves[visit.leaf].table
                wanted.append(
                    Wanted(visit.leaf, table, visit.attributes, probes, visit.parent, visit.parent_attributes)
                    if follows
                    else Wanted(visit.leaf, table, visit.attributes, probes)
                )
        return tuple(wanted)

    def _sent(self, walk: Walk, question: Question) -> Question:
        self.open[question.question] = (walk, question)
        for leaf, probes in _probes(question):
            walk.asked.setdefault(leaf, set()).update(probes)
        return question

    def _closed(self, number: QuestionId) -> tuple[Walk, Question]:
        walk, question = self.open.pop(number)
        self.has_news = True
        for leaf, probes in _probes(question):
            walk.asked[leaf].difference_update(probes)
        return walk, question

    def _at_initial(self, leaf: LeafId, walk: Walk, piece: Piece, updates: LeafUpdates) -> Piece:
        attributes = walk.visit(leaf).attributes

        def concerns(row: Row) -> bool:
            return self.view.values(leaf, attributes, row) in piece.probes and self.view.selects(leaf, row)

        return compensate(piece, self.initial[leaf], updates(leaf), concerns)

    def _identified(
        self, leaf: LeafId, probe: Row, versions: tuple[RefreshedVersion, ...], updates: LeafUpdates
    ) -> bool:
        """Whether the missing updates of a leaf can be matched with the row that the view shows of it."""
        if versions[leaf] > self.initial[leaf]:
            raise InternalError(f"the view reflects {versions} before an update of {self.initial} was applied to it")
        missing = missing_updates(self.initial[leaf], numbers.answered_by_view(versions[leaf]))
        return is_known(probe) or not any(updates(leaf)(version) for version in missing)


def start_computation(
    view: JoinView,
    leaf: LeafId,
    update: Update,
    initial: tuple[InitialVersion, ...],
    means: SelfMaintenance,
    seen_before: frozenset[LeafId],
    seen_after: frozenset[LeafId],
) -> Computation:
    """Sort an update's changes by what they need, and forget those that can't change the view."""
    route = key_route(view, leaf) if means.by_key else None
    added: dict[Row, int] = {}
    removed: dict[Row, int] = {}
    modified: dict[Row, Row] = {}

    def count(into: dict[Row, int], row: Row, copies: int) -> None:
        into[row] = into.get(row, 0) + copies

    for change in view.as_seen(leaf, update.changes):
        match change:
            case Modification(old=old, new=new):
                if not view.selects(leaf, old) or not is_shown(view, leaf, change):
                    continue
                if route is not None and is_settable(view, leaf, change):
                    modified[old] = new
                else:
                    count(added, old, -1)
                    count(added, new, 1)
            case Insertion(row=row) | Deletion(row=row):
                if not view.selects(leaf, row):
                    continue
                if means.referential_integrity and is_irrelevant(view, leaf, change, update, seen_before, seen_after):
                    continue
                if isinstance(change, Insertion):
                    count(added, row, 1)
                elif route is not None:
                    count(removed, row, 1)
                else:
                    count(added, row, -1)
    by_key = None
    if route is not None and (removed or modified):
        path = access_path(view, leaf, frozenset(route.through))
        by_key = Walk(view, path, {**removed, **dict.fromkeys(modified, 1)})
    everywhere = Walk(view, access_path(view, leaf), {row: copies for row, copies in added.items() if copies})
    return Computation(view, leaf, initial, means, everywhere, route, by_key, modified)


def _probes(question: Question) -> Iterator[tuple[LeafId, tuple[Row, ...]]]:
    match question:
        case SubQuery(wanted=wanted):
            for each in wanted:
                yield each.leaf, each.probes
        case ViewQuery(leaf=leaf, keys=keys):
            yield leaf, keys
