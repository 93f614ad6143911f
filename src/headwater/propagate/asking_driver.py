"""Propagation over tables of which nothing is copied: what a query needs is asked of the sources.

Each state is asked for by the keys of the rows that it can meet, reaches Spark as Arrow, and is brought to the query's
own csn: capture reads the source's log up to where the answer's snapshot is covered, then units of work that the answer
holds and should not are undone, and those that it lacks are redone, from the table's log. Answers of sources that time
out are asked for again; nothing was changed by the failed question.

Every query of a step is answered by itself and kept; the step's one commit puts the answers together, so a step is
exactly once as always, and deterministic: asked again, the sources show another present, and the answer is the same.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow as pa
from sqlglot import exp

from headwater.algebra.plan import Scan
from headwater.algebra.query import Query
from headwater.algebra.time import BEGINNING, Csn
from headwater.capture.driver import capture, problem_of
from headwater.capture.mirror_store import arrow_rows, arrow_schema_text, create_rows_table
from headwater.catalog.records import Columns, MirrorRecord, ViewRecord
from headwater.context import Context
from headwater.definition import CatalogMoments, Definition
from headwater.engine.files import remove_directory
from headwater.engine.spark import CommitTag, Written
from headwater.errors import DatabaseUnavailable, InternalError
from headwater.pinning import State, providing
from headwater.propagate.asking import Asking, askings
from headwater.sources.feed import Row
from headwater.sources.postgres.answering import Answer, can_be_asked_by
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
    queries: tuple[Query, ...],
    tag: CommitTag,
) -> Written | None:
    """Answer queries and append their answers to the view delta in one commit."""
    mirrors = asked_tables(context, definition.tables)
    names = [name for name, _ in view.stored]
    with context.engine.under(definition.settings), ExitStack() as kept:
        answers = []
        for query in queries:
            moments = CatalogMoments(context.catalog, definition)
            sources = moments.sources(BEGINNING)
            with _asked_for(context, definition, query, mirrors, sources):
                text = view_delta_sql([query], names, sources)
                answers.append(kept.enter_context(context.engine.staging.changes(text)).name)
        frame = context.engine.compute(union_sql(answers))
        found = context.engine.columns(frame)[: len(view.stored)]
        if found != view.stored:
            raise InternalError(f"View {view.name} has columns {view.stored}, its delta {found}.")
        return context.engine.append(frame, view.delta_location, tag, f"propagating {view.name}")


@contextmanager
def asked_whole(context: Context, definition: Definition, csn: Csn) -> Iterator[None]:
    """All rows of the tables that are not copied, at a csn, for who computes a view from scratch."""
    mirrors = asked_tables(context, definition.tables)
    questions = [_Question(mirror, csn, (), None) for mirror in mirrors.values()]
    with ExitStack() as stack:
        states = _answered(context, stack, questions)
        stack.enter_context(providing({(q.mirror.name, csn): s for q, s in zip(questions, states, strict=True)}))
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
    with ExitStack() as stack:
        given: dict[tuple[str, Csn], State] = {}
        for wave in _waves(askings(query, mirrors, _Comparable(definition, mirrors)), mirrors):
            with providing(given):
                questions = [_question(context, each, mirrors[each.table], query, sources) for each in wave]
            states = _answered(context, stack, questions)
            given |= {(each.table, each.at): state for each, state in zip(wave, states, strict=True)}
        stack.enter_context(providing(given))
        yield


def _waves(found: Sequence[Asking], mirrors: Collection[str]) -> list[list[Asking]]:
    """Questions that do not wait for one another's answers go together."""
    waves: list[list[Asking]] = []
    for each in found:
        waits = each.by is not None and any(scan.table in mirrors for scan in each.by.scans[1:])
        if waits or not waves:
            waves.append([each])
        else:
            waves[-1].append(each)
    return waves


@dataclass(frozen=True, slots=True)
class _Comparable:
    definition: Definition
    mirrors: dict[str, MirrorRecord]

    def __call__(self, asked: Scan, column: str, other: Scan, by: str) -> bool:
        kinds = [self._kind(asked.table, column), self._kind(other.table, by)]
        if kinds[0] is None or kinds[0] != kinds[1]:
            return False
        mirror = self.mirrors.get(asked.table)
        return mirror is None or can_be_asked_by(table_of_json(mirror.described), column)

    def _kind(self, table: str, column: str) -> str | None:
        use = self.definition.tables.get(table) or self.definition.views.get(table)
        return None if use is None else dict(use.columns).get(column)


@dataclass(frozen=True, slots=True)
class _Question:
    """``keys`` None asks for all rows."""

    mirror: MirrorRecord
    at: Csn
    columns: tuple[str, ...]
    keys: list[tuple[Any, ...]] | None


def _question(context: Context, asking: Asking, mirror: MirrorRecord, query: Query, sources: Sources) -> _Question:
    if asking.by is None:
        return _Question(mirror, asking.at, (), None)
    by = asking.by
    relations: list[exp.Query] = [leaf_relation(scan, query.terms[scan.leaf], sources) for scan in by.scans]
    text = joined_keys_sql(relations, by.conditions, [attribute for _, attribute in by.pairs])
    found = context.engine.compute(text).limit(MOST_KEYS + 1).collect()  # bounded by the limit
    if len(found) > MOST_KEYS:
        # So many are most of the table, or more than the driver should hold.
        return _Question(mirror, asking.at, (), None)
    return _Question(mirror, asking.at, tuple(column for column, _ in by.pairs), [tuple(row) for row in found])


def _answered(context: Context, stack: ExitStack, questions: Sequence[_Question]) -> list[State]:
    """The states that questions ask for, all sources at once; kept until the stack is closed."""
    if not questions:
        return []
    with ThreadPoolExecutor(max_workers=min(8, len(questions))) as pool:
        shipped = list(pool.map(lambda question: _shipped(context, question), questions))
    states = []
    for question, found in zip(questions, shipped, strict=True):
        context.questions.queries += found.queries
        context.questions.keys += len(question.keys or ())
        context.questions.rows += found.rows
        states.append(_state(context, stack, question, found))
    return states


@dataclass(frozen=True, slots=True)
class _Shipped:
    """An answer: in memory, or, where it is large, as a Delta table of a while."""

    snapshot: TransactionSnapshot | None
    covered: Covered | None
    queries: int = 0
    rows: int = 0
    held: pa.Table | None = None
    location: str | None = None


def _shipped(context: Context, question: _Question) -> _Shipped:
    if question.keys == []:
        return _Shipped(None, None)
    source = context.catalog.source(question.mirror.source_id)
    address = Address.parse(source.address)
    context.progress(f"asking {source.source_id} for {question.mirror.name}")

    def once() -> _Shipped:
        answer = Answer(table_of_json(question.mirror.described))
        with closing(connect(address)) as connection:
            rows = answer.rows(connection, source.source_id, question.columns, question.keys)
            held, location = _kept(context, rows, answer.table.spark_columns)
        return _Shipped(answer.snapshot, answer.covered, answer.queries, answer.shipped, held, location)

    return Retry().run(once)


def _kept(context: Context, rows: Iterator[Row], columns: Columns) -> tuple[pa.Table | None, str | None]:
    first = list(islice(rows, ROWS_IN_MEMORY))
    if len(first) < ROWS_IN_MEMORY:
        return arrow_rows(first, columns), None
    location = f"{context.location.rstrip('/')}/staging/__hw_asked_{uuid.uuid4().hex}"
    create_rows_table(context.engine, location, columns)
    number, chunk = 0, first
    while chunk:
        tag = CommitTag(location, number, {"step": 0, "ordinal": number})
        frame = context.engine.frame(arrow_rows(chunk, columns), arrow_schema_text(columns))
        context.engine.append(frame, location, tag, "keeping what a source answered")
        number, chunk = number + 1, list(islice(rows, ROWS_IN_MEMORY))
    return None, location


def _state(context: Context, stack: ExitStack, question: _Question, found: _Shipped) -> State:
    columns = context.catalog.base_table(question.mirror.name).columns
    log = question.mirror.log_location
    if found.snapshot is None or found.covered is None:
        return State(columns, None, (), (), log)
    rows: exp.Expr
    if found.location is not None:
        stack.callback(remove_directory, found.location)
        rows = current_table(found.location)
    else:
        frame = context.engine.frame(found.held, arrow_schema_text(columns))
        rows = exp.Table(this=quoted(stack.enter_context(context.engine.named(frame))))
    interfering, missing = _difference(context, question.mirror, found.snapshot, found.covered, question.at)
    return State(columns, rows, interfering, missing, log)


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
