"""Everything that can be wrong with a CREATE MATERIALIZED VIEW, without making anything.

Spark analyses the user's own text; our plan must say the same, have its names and types, and give the same answers over
made-up rows. What is left is a ``Draft``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from headwater.algebra.plan import scans
from headwater.algebra.query import CsnRule, Query, Snapshot
from headwater.algebra.time import Csn
from headwater.capture.driver import capture
from headwater.catalog.records import Columns, Layout, LeafRecord, Method
from headwater.context import Context
from headwater.definition import CatalogMoments, Definition, TableUse, ViewRelations
from headwater.engine.analysis import (
    printed,
    require_fields_apart,
    require_same_names,
    require_same_reading,
    require_same_schema,
    require_storable,
    require_unpadded,
)
from headwater.engine.failures import reading_table, translated
from headwater.engine.judging import judge
from headwater.engine.second_reading import require_same_answer
from headwater.errors import (
    InternalError,
    InvalidInput,
    SqlAnalysisError,
    SqlProblem,
    SqlSyntaxError,
    UnsupportedSql,
)
from headwater.later_columns import require_columns_that_stay, require_no_later_columns
from headwater.pinning import table_rows
from headwater.propagate.driver import require_captured
from headwater.propagate.states import require_askable, typed_states
from headwater.refresh import Policy, bring_below
from headwater.sql.constructs import RECOMPUTABLE, refuse
from headwater.sql.dialect import parse, quoted, subquery, to_text
from headwater.sql.expressions import Expressions
from headwater.sql.lower import lower, require_tables_known
from headwater.sql.render import named_state, view_delta_sql
from headwater.sql.statements import CreateView
from headwater.sql.storage import over_relations, table_at
from headwater.view_options import layout_of, settings_of

_REFUSED_BY_SPARK_TOO = frozenset({"UNION_BY_NAME", "TIME_TRAVEL", "PARAMETER", "NONDETERMINISTIC"})


@dataclass(frozen=True, slots=True)
class Draft:
    """A view that passed every check and is not yet made."""

    definition: Definition
    columns: tuple[tuple[str, str], ...]
    csn: Csn
    leaves: tuple[LeafRecord, ...]
    method: Method
    layout: Layout = "current"


def check(context: Context, statement: CreateView) -> Draft:
    """Everything that can be wrong with a CREATE, without making anything."""
    csn = capture(context).csn
    with typed_states(context, csn):
        return _checked(context, statement, csn)


def _checked(context: Context, statement: CreateView, csn: Csn) -> Draft:
    text, positioned = statement.query, statement.positioned_query
    policy = Policy.of(statement.options)
    tables = _tables_at(context, positioned, csn)
    views = _views_at(context, positioned, csn)
    names = {name: tuple(column for column, _ in columns) for name, columns in {**tables, **views}.items()}
    relations = _relations_at(context, tables, views, csn)
    try:
        columns = _analyse(context, positioned, relations, names)
    except SqlAnalysisError as error:
        if "UNRESOLVED_COLUMN" in str(error):
            require_no_later_columns(context, tables, csn)
        raise
    require_storable(columns, text)
    functions = context.engine.builtin_functions()
    definition: Definition | None = None
    try:
        definition = _incremental(context, statement, tables, views, relations, columns, functions, csn)
        reason = "POLICY_FULL" if policy is Policy.FULL else None
    except UnsupportedSql as refusal:
        if not policy.may_recompute or refusal.code not in RECOMPUTABLE:
            raise
        reason = refusal.code
    if reason is not None:
        require_tables_known(positioned, names)
        Expressions(positioned, functions).require_deterministic(parse(positioned))
        used = {} if definition is None else {**definition.tables, **definition.views}
        whole = [
            {name: used.get(name) or TableUse(found[name], names[name]) for name in found} for found in (tables, views)
        ]
        definition = Definition.from_scratch(text, whole[0], whole[1], context.engine.meaning(), reason)
    if definition is None:
        raise InternalError("A view is kept by its changes, or recomputed for a reason.")
    require_captured(context, definition)
    require_columns_that_stay(context, definition, csn)
    output = [name for name, _ in columns]
    unknown = [name for name in statement.cluster_by if name not in output]
    if unknown:
        raise InvalidInput(
            f"CLUSTER BY names {', '.join(unknown)}, which the view does not have.",
            remedy=f"Choose among {', '.join(output)}.",
        )
    leaves, method = settings_of(context, statement.options, definition, csn)
    require_askable(context, definition, method)
    return Draft(definition, columns, csn, leaves, method, layout_of(statement.options))


def _incremental(
    context: Context,
    statement: CreateView,
    tables: Mapping[str, Columns],
    views: Mapping[str, Columns],
    relations: Mapping[str, exp.Query],
    columns: Columns,
    functions: frozenset[str],
    csn: Csn,
) -> Definition:
    """The definition of a view that is kept incrementally, or the reason why it can't be."""
    text, positioned = statement.query, statement.positioned_query
    names = {name: tuple(column for column, _ in found) for name, found in {**tables, **views}.items()}
    for name in views:
        if Definition.load(context.catalog.view(name)).recomputed is not None:
            raise refuse("VIEW_ON_RECOMPUTED", name, None, text)
    try:
        lowered = lower(positioned, names, functions=functions)
    except (ValueError, KeyError, IndexError) as error:
        raise refuse("OTHER", f"a text that can't be followed ({error})", None, text) from error
    require_same_names([name for name, _ in columns], lowered.names, text)
    _require_unpadded(context, lowered.mentioned, {**tables, **views}, relations, text)
    own, reread = over_relations(text, relations), over_relations(printed(text), relations)
    require_same_reading(context.engine, text, own, reread)
    definition = Definition.of(text, lowered, tables, views, context.engine.meaning())
    return _require_computable(context, definition, columns, csn)


def _require_unpadded(
    context: Context,
    mentioned: Mapping[str, Sequence[str]],
    columns: Mapping[str, Columns],
    relations: Mapping[str, exp.Query],
    text: str,
) -> None:
    """Refuse a text that names a column of type CHAR; only Spark's analysis tells that from other text."""
    for name, used in mentioned.items():
        if any("string" in kind for column, kind in columns[name] if column in used):
            items = [quoted(column) for column in used]
            rows = exp.select(*items).from_(subquery(relations[name].copy(), "q"))
            require_unpadded(context.engine.query(to_text(rows)).schema, text)


def _require_computable(
    context: Context, definition: Definition, columns: tuple[tuple[str, str], ...], csn: Csn
) -> Definition:
    """The lowered plan must give the view's columns; the definition with what Spark's types say of its nodes."""
    sources = CatalogMoments(context.catalog, definition).sources(csn)
    everything = Query(definition.plan, tuple(Snapshot(csn) for _ in scans(definition.plan)), CsnRule.LATEST)
    with translated("checking the plan"):
        frame = context.engine.query(view_delta_sql([everything], [name for name, _ in columns], sources))
        require_same_schema(columns, context.engine.columns(frame)[: len(columns)])
        judgement = judge(context.engine, definition.plan, definition.nodes, csn, sources, definition.text)
        judged = definition.judge(*judgement)
        uses = {name: use.columns for name, use in {**definition.tables, **definition.views}.items()}
        require_same_answer(
            context.engine, definition.text, judged.plan, judged.nodes, columns, uses, ties=judged.breaks_ties
        )
        return _with_hidden_columns(context, judged, columns, csn)


def _with_hidden_columns(context: Context, definition: Definition, columns: Columns, csn: Csn) -> Definition:
    """The definition with what it stores beside the public columns, where it can carry its state."""
    names = [name for name, _ in columns]
    wider = definition.carrying(names)
    if wider.carried is None:
        return definition
    names += wider.carried.hidden
    sources = CatalogMoments(context.catalog, wider).sources(csn)
    found = context.engine.columns(context.engine.query(to_text(named_state(wider.plan, names, csn, sources))))
    require_same_schema(columns, found[: len(columns)])
    hidden = found[len(columns) :]
    return replace(wider, hidden=hidden) if wider.stored_in(columns, hidden) else definition


def _named(text: str) -> set[str]:
    return {table.name.lower() for table in parse(text).find_all(exp.Table)}


def _tables_at(context: Context, text: str, csn: Csn) -> dict[str, tuple[tuple[str, str], ...]]:
    """The tracked tables that a text names, with their columns as they are at a csn."""
    tracked = {table.name.lower(): table for table in context.catalog.base_tables()}
    found = {}
    for name in sorted(_named(text) & tracked.keys()):
        table = tracked[name]
        version = context.catalog.version_at(table.name, csn)
        if context.catalog.mirror(table.name) is not None:
            found[table.name] = table.columns
            continue
        with reading_table(table.name, version, f"reading the columns of {table.name}"):
            frame = context.engine.query(to_text(table_at(table.location, version)))
            found[table.name] = context.engine.columns(frame)
    return found


def named_views(context: Context, text: str) -> dict[str, Columns]:
    """The views that a text names, with their columns."""
    named = _named(text)
    return {view.name: view.columns for view in context.catalog.views() if view.name.lower() in named}


def _views_at(context: Context, text: str, csn: Csn) -> dict[str, Columns]:
    """The views that a text names, brought to a csn."""
    found = named_views(context, text)
    uses = {name: TableUse(columns, ()) for name, columns in found.items()}
    if uses:
        bring_below(context, Definition.from_scratch(text, {}, uses, {}, "CREATE"), csn)
    return found


def _relations_at(context: Context, tables: Iterable[str], views: Iterable[str], csn: Csn) -> dict[str, exp.Query]:
    """Tables and views as they are at a csn, by name."""
    relations: dict[str, exp.Query] = {name: table_rows(context.catalog, name, csn) for name in tables}
    below = ViewRelations(context.catalog, views)
    return relations | {name: below.state(name, csn) for name in views}


def _analyse(
    context: Context, positioned: str, relations: Mapping[str, exp.Query], names: Mapping[str, tuple[str, ...]]
) -> tuple[tuple[str, str], ...]:
    """Spark's names and types for the text; its errors with their place in the user's statement."""
    try:
        frame = context.engine.user_query(over_relations(positioned, relations))
    except (SqlAnalysisError, SqlSyntaxError) as error:
        if any(sign in str(error) for sign in ("TABLE_OR_VIEW_NOT_FOUND", "PATH_NOT_FOUND", "DELTA_TABLE_NOT_FOUND")):
            # Say it as lowering does: with the names that are known, and where.
            known = dict(names)
            for table in context.catalog.base_tables():
                known.setdefault(table.name, tuple(column for column, _ in table.columns))
            for view in context.catalog.views():
                known.setdefault(view.name, tuple(column for column, _ in view.columns))
            lower(positioned, known, functions=None)
        # A name that nobody knows is Spark's to explain: it tells the likely ones.
        if "UNRESOLVED_COLUMN" not in str(error):
            _refuse_by_code(positioned, names)
        if error.line is not None and relations:
            raise type(error)(
                error.message.rsplit(" (line", 1)[0],
                line=error.line - 1,  # the names are bound in a line of ours before the text
                column=error.column,
                remedy=error.remedy,
            ) from error
        raise
    require_fields_apart(frame.schema, positioned)
    return context.engine.columns(frame)


def _refuse_by_code(positioned: str, names: Mapping[str, tuple[str, ...]]) -> None:
    """Some constructs Spark refuses too, in its own words; ours have a code, a place and a way out."""
    try:
        lower(positioned, names, functions=None)
    except UnsupportedSql as refusal:
        if refusal.code in _REFUSED_BY_SPARK_TOO:
            raise
    except (SqlProblem, ValueError, LookupError):  # lowering expects a text that Spark has accepted
        pass
