"""Propagation over tables of which nothing is copied: what a query needs is asked of the sources.

Each source gets one question for all states that it can tell without another's answer (``asking``), by the keys of the
rows that they can meet. What it answers reaches Spark as Arrow, and is brought to the query's own csn: capture reads
the source's log up to where the answer's snapshot is covered, then units of work that the answer holds and should not
are undone, and those that it lacks are redone, from the table's log. Where that changed a relation that another one
followed inside the source, the keys of the other are computed as if it had been asked by itself; if they are more than
were followed, it is. Sources that time out are asked again; nothing was changed by the failed question.

Every query of a step is answered by itself and kept; the step's one commit puts the answers together, so a step is
exactly once as always, and deterministic: asked again, the sources show another present, and the answer is the same.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from sqlglot import exp

from headwater.algebra.constraints import Knowledge
from headwater.algebra.plan import Scan, scans
from headwater.algebra.query import BaseDelta, Query
from headwater.algebra.time import BEGINNING, Csn
from headwater.capture.driver import capture, problem_of
from headwater.capture.mirror_store import arrow_rows, arrow_schema_text, create_rows_table
from headwater.catalog.records import Columns, MirrorRecord, ViewRecord
from headwater.context import Context, Questions
from headwater.definition import CatalogMoments, Definition
from headwater.engine.files import remove_directory
from headwater.engine.spark import CommitTag, Written
from headwater.errors import DatabaseUnavailable, InternalError
from headwater.pinning import State, providing
from headwater.propagate.asking import Asking, Follow, KeyPath, StateKey, askings, questions
from headwater.propagate.completing import OwnRows
from headwater.propagate.frontier import Frontier
from headwater.sources.feed import Row
from headwater.sources.postgres.answering import Answer, Followed, Relation, can_be_asked_by, can_follow
from headwater.sources.postgres.connection import Address, Retry, connect
from headwater.sources.postgres.positions import Lsn, Xid
from headwater.sources.postgres.stored import table_of_json
from headwater.sources.postgres.visibility import Covered, LoggedUnit, TransactionSnapshot, difference
from headwater.sql.dialect import quoted
from headwater.sql.mirrors import joined_keys_sql, union_sql
from headwater.sql.relations import Sources, current_table, leaf_relation
from headwater.sql.render import view_delta_sql

_PATIENCE = 600.0
_PAUSE = 0.1
MOST_KEYS = 100_000
ROWS_IN_MEMORY = 100_000


def asked_tables(context: Context, tables: Iterable[str]) -> dict[str, MirrorRecord]:
    """The tables of which nothing is copied."""
    found = ((name, context.catalog.mirror(name)) for name in tables)
    return {name: mirror for name, mirror in found if mirror is not None and mirror.mode == "query"}


def append_asked(
    context: Context,
    view: ViewRecord,
    definition: Definition,
    before: Frontier,
    queries: tuple[Query, ...],
    tag: CommitTag,
    known: Knowledge,
) -> Written | None:
    """Answer the queries of a step, in their order, and append the answers to the view delta in one commit."""
    mirrors = asked_tables(context, definition.tables)
    names = [name for name, _ in view.stored]
    with context.engine.under(definition.settings), ExitStack() as kept:
        known = known if len(set(before.times)) == 1 else Knowledge()  # the view is of one moment
        own = OwnRows(context, view, definition, known, before.high_water_mark, kept)
        for query in queries:
            moments = CatalogMoments(context.catalog, definition)
            every = moments.sources(BEGINNING)
            sources = own.answer(query, every) if _asks(query, mirrors) else every
            if sources is None:
                continue
            with _asked_for(context, definition, query, mirrors, sources):
                text = view_delta_sql([query], names, sources)
                own.answers.append(kept.enter_context(context.engine.staging.changes(text)).name)
        frame = context.engine.compute(union_sql(own.answers))
        found = context.engine.columns(frame)[: len(view.stored)]
        if found != view.stored:
            raise InternalError(f"View {view.name} has columns {view.stored}, its delta {found}.")
        return context.engine.append(frame, view.delta_location, tag, f"propagating {view.name}")


def _asks(query: Query, mirrors: Mapping[str, MirrorRecord]) -> bool:
    """Whether a query would ask a source for rows."""
    return any(
        scan.table in mirrors and not isinstance(query.terms[scan.leaf], BaseDelta) for scan in scans(query.plan)
    )


@contextmanager
def asked_whole(context: Context, definition: Definition, csn: Csn) -> Iterator[None]:
    """All rows of the tables that are not copied, at a csn, for who computes a view from scratch."""
    mirrors = asked_tables(context, definition.tables)
    wanted = [_Wanted(mirror, csn, Relation(table_of_json(mirror.described))) for mirror in mirrors.values()]
    with ExitStack() as stack:
        answers = _asked(context, stack, [[each] for each in wanted])
        stack.enter_context(providing({each.key: _state(context, stack, each) for each in answers}))
        yield


@contextmanager
def _asked_for(
    context: Context,
    definition: Definition,
    query: Query,
    mirrors: dict[str, MirrorRecord],
    sources: Sources,
) -> Iterator[None]:
    """Let a query find the states that it needs."""
    kinds = _Kinds(definition, mirrors)
    found = askings(query, mirrors, kinds.comparable, kinds.together)
    with ExitStack() as stack:
        asker = _Asker(context, stack, query, mirrors, sources)
        for number in range(max((each.wave + 1 for each in found), default=0)):
            asker.ask([each for each in found if each.wave == number])
        stack.enter_context(providing(asker.states))
        yield


@dataclass(frozen=True, slots=True)
class _Kinds:
    """Which columns hold values of one kind: for Spark, and in one source."""

    definition: Definition
    mirrors: dict[str, MirrorRecord]

    def comparable(self, asked: Scan, column: str, other: Scan, by: str) -> bool:
        kinds = [self.definition.type_of(asked.table, column), self.definition.type_of(other.table, by)]
        if kinds[0] is None or kinds[0] != kinds[1]:
            return False
        mirror = self.mirrors.get(asked.table)
        return mirror is None or can_be_asked_by(table_of_json(mirror.described), column)

    def together(self, asked: Scan, column: str, other: Scan, by: str) -> bool:
        one, two = self.mirrors[asked.table], self.mirrors[other.table]
        if one.source_id != two.source_id:
            return False
        return can_follow(table_of_json(one.described), column, table_of_json(two.described), by)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A state, and the relation of its source to have it from."""

    mirror: MirrorRecord
    at: Csn
    relation: Relation


@dataclass(frozen=True, slots=True)
class _Told:
    """Rows as a source has them: in memory or, where they are many, a Delta table of a while; or nothing was asked."""

    wanted: _Wanted
    snapshot: TransactionSnapshot | None = None
    covered: Covered | None = None
    held: pa.Table | None = None
    location: str | None = None

    @property
    def key(self) -> StateKey:
        return self.wanted.mirror.name, self.wanted.at

    def has(self, columns: Sequence[str], values: Collection[tuple[Any, ...]]) -> bool:
        """Whether all of these stand in its columns; if there are many rows, nobody looks."""
        if self.held is None:
            return not values
        return set(values) <= set(zip(*(self.held.column(name).to_pylist() for name in columns), strict=True))


@dataclass(slots=True)
class _Asker:
    """Has the states that a query needs, wave by wave; ``unmended`` are those that are as their source told them."""

    context: Context
    stack: ExitStack
    query: Query
    mirrors: dict[str, MirrorRecord]
    sources: Sources
    states: dict[StateKey, State] = field(default_factory=dict)
    unmended: set[StateKey] = field(default_factory=set)

    def ask(self, wave: Sequence[Asking]) -> None:
        by_source = questions(wave, {name: mirror.source_id for name, mirror in self.mirrors.items()})
        asked = [question for group in by_source for question in self._questions(group)]
        told = {answer.key: answer for answer in _asked(self.context, self.stack, asked)}
        for each in wave:
            answer = self._followed(each, told) if each.follows else told[each.state]
            state = _state(self.context, self.stack, answer)
            self.states[each.state] = state
            if answer is told.get(each.state) and not state.interfering and not state.missing:
                self.unmended.add(each.state)

    def _questions(self, group: Sequence[Asking]) -> list[list[_Wanted]]:
        """One question for what keys or other relations limit, and one for each table that is asked for whole."""
        together: dict[StateKey, _Wanted] = {}
        whole: list[list[_Wanted]] = []
        for each in group:
            if not all(follow.state in together for follow in each.follows):
                continue  # what it follows has too many keys: it waits for that answer
            wanted = self._wanted(each, each.sent)
            if wanted.relation.keys is None and not each.follows:
                whole.append([wanted])
                continue
            places = {state: place for place, state in enumerate(together)}
            follows = tuple(Followed(places[follow.state], follow.pairs) for follow in each.follows)
            together[each.state] = replace(wanted, relation=replace(wanted.relation, follows=follows))
        return [*([list(together.values())] if together else []), *whole]

    def _followed(self, asking: Asking, told: Mapping[StateKey, _Told]) -> _Told:
        """The answer, unless what it followed leads further now that it is of the query's csn; then another."""
        answer = told.get(asking.state)
        if answer and all(follow.state in self.unmended and not follow.changed for follow in asking.follows):
            return answer
        alone = self._wanted(asking, asking.by)
        if answer and all(_leads(told[follow.state], follow, alone.relation) for follow in asking.follows):
            return answer
        return _asked(self.context, self.stack, [[alone]])[0]

    def _wanted(self, asking: Asking, by: KeyPath | None) -> _Wanted:
        """A table by keys, or whole: without any to ask by, or with so many that they are most of it."""
        mirror = self.mirrors[asking.table]
        table = table_of_json(mirror.described)
        keys = None if by is None else self._keys(by)
        columns = () if by is None or keys is None else tuple(column for column, _ in by.pairs)
        return _Wanted(mirror, asking.at, Relation(table, columns, keys))

    def _keys(self, by: KeyPath) -> list[tuple[Any, ...]] | None:
        """None: more than the driver should hold."""
        with providing(self.states):
            relations: list[exp.Query] = [
                leaf_relation(scan, self.query.terms[scan.leaf], self.sources) for scan in by.scans
            ]
        text = joined_keys_sql(relations, by.conditions, [attribute for _, attribute in by.pairs])
        found = self.context.engine.compute(text).limit(MOST_KEYS + 1).collect()  # bounded by the limit
        return None if len(found) > MOST_KEYS else [tuple(row) for row in found]


def _leads(followed: _Told, follow: Follow, alone: Relation) -> bool:
    """Whether the rows that were followed lead to all keys of a question of its own."""
    if alone.keys is None:
        return False
    places = [alone.columns.index(own) for own, _ in follow.pairs]
    return followed.has([its for _, its in follow.pairs], {tuple(key[place] for place in places) for key in alone.keys})


def _asked(context: Context, stack: ExitStack, asked: Sequence[Sequence[_Wanted]]) -> list[_Told]:
    """What sources answer to questions, all at once; kept until the stack is closed."""
    if not asked:
        return []
    with ThreadPoolExecutor(max_workers=min(8, len(asked))) as pool:
        shipped = list(pool.map(lambda question: _shipped(context, question), asked))
    for answers, counts in shipped:
        context.questions.queries += counts.queries
        context.questions.keys += counts.keys
        context.questions.rows += counts.rows
        for answer in answers:
            if answer.location is not None:
                stack.callback(remove_directory, answer.location)
    return [answer for answers, _ in shipped for answer in answers]


def _shipped(context: Context, question: Sequence[_Wanted]) -> tuple[list[_Told], Questions]:
    relations = [each.relation for each in question]
    if all(relation.follows or relation.keys == [] for relation in relations):
        return [_Told(each) for each in question], Questions()
    source = context.catalog.source(question[0].mirror.source_id)
    address = Address.parse(source.address)
    context.progress(f"asking {source.source_id} for {', '.join(each.mirror.name for each in question)}")

    def once() -> tuple[list[_Told], Questions]:
        answer = Answer(relations)
        piles = [_Pile(context, relation.table.spark_columns) for relation in relations]
        try:
            with closing(connect(address)) as connection:
                _pile_up(piles, answer.rows(connection, source.source_id))
        except BaseException:
            for pile in piles:
                pile.remove()
            raise
        kept = [
            _Told(each, answer.snapshot, answer.covered, pile.held(), pile.location)
            for each, pile in zip(question, piles, strict=True)
        ]
        keys = sum(len(relation.keys or ()) for relation in relations)
        return kept, Questions(answer.queries, keys, answer.shipped)

    return Retry().run(once)


@dataclass(slots=True)
class _Pile:
    """Rows of a relation as they come; put aside into a Delta table where they are many."""

    context: Context
    columns: Columns
    rows: list[Row] = field(default_factory=list)
    location: str | None = None
    commits: int = 0

    def put_aside(self) -> None:
        if self.location is None:
            self.location = f"{self.context.location.rstrip('/')}/staging/__hw_asked_{uuid.uuid4().hex}"
            create_rows_table(self.context.engine, self.location, self.columns)
        tag = CommitTag(self.location, self.commits, {"step": 0, "ordinal": self.commits})
        frame = self.context.engine.frame(arrow_rows(self.rows, self.columns), arrow_schema_text(self.columns))
        self.context.engine.append(frame, self.location, tag, "keeping what a source answered")
        self.commits += 1
        self.rows = []

    def held(self) -> pa.Table | None:
        return arrow_rows(self.rows, self.columns) if self.location is None else None

    def remove(self) -> None:
        if self.location is not None:
            remove_directory(self.location)


def _pile_up(piles: Sequence[_Pile], rows: Iterable[tuple[int, Row]]) -> None:
    """Never with more than some rows in memory, of all relations together."""
    held = 0
    for place, row in rows:
        piles[place].rows.append(row)
        held += 1
        if held >= ROWS_IN_MEMORY:
            largest = max(piles, key=lambda pile: len(pile.rows))
            held -= len(largest.rows)
            largest.put_aside()
    for pile in piles:
        if pile.location is not None and pile.rows:
            pile.put_aside()


def _state(context: Context, stack: ExitStack, found: _Told) -> State:
    mirror = found.wanted.mirror
    columns = context.catalog.base_table(mirror.name).columns
    if found.snapshot is None or found.covered is None:
        return State(columns, None, (), (), mirror.log_location)
    rows: exp.Expr
    if found.location is not None:
        rows = current_table(found.location)
    else:
        frame = context.engine.frame(found.held, arrow_schema_text(columns))
        rows = exp.Table(this=quoted(stack.enter_context(context.engine.named(frame))))
    interfering, missing = _difference(context, mirror, found.snapshot, found.covered, found.wanted.at)
    return State(columns, rows, interfering, missing, mirror.log_location)


def _difference(
    context: Context, mirror: MirrorRecord, snapshot: TransactionSnapshot, covered: Covered, at: Csn
) -> tuple[tuple[Csn, ...], tuple[Csn, ...]]:
    """The units to undo and to redo, once capture has read all that the answer may hold."""
    deadline = time.monotonic() + _PATIENCE
    while not _is_covered(context, mirror, covered):
        problem = capture(context).unreachable.get(mirror.name)
        require_sound(context, mirror.name)
        if time.monotonic() > deadline:
            raise problem or DatabaseUnavailable(
                f"The log of {mirror.source_id} could not be read up to where {mirror.name!r} was asked.",
                database=mirror.source_id,
                remedy="Try again.",
            )
        if not _is_covered(context, mirror, covered):
            time.sleep(_PAUSE)
    units = context.catalog.units_to_compare(mirror.name, at, snapshot.xmin)
    log = [LoggedUnit(unit.csn, Xid(int(unit.transaction))) for unit in units if unit.transaction is not None]
    found = difference(log, snapshot, at)
    return tuple(unit.csn for unit in found.interfering), tuple(unit.csn for unit in found.missing)


def _is_covered(context: Context, mirror: MirrorRecord, covered: Covered) -> bool:
    position = context.catalog.source(mirror.source_id).position
    return position is not None and covered.by(Lsn(position["lsn"]))


def require_sound(context: Context, name: str) -> None:
    table = context.catalog.base_table(name)
    if table.problem is not None:
        raise problem_of(table)
