"""A view's definition: the text, what it meant when it was created, and the plan that follows from both.

The columns of the tables are frozen at CREATE, so ``SELECT *`` and unqualified names keep their meaning when a
table gains columns; so are the session settings on which expressions depend, such as the time zone. The plan is not
stored: lowering is a function of the text and the frozen columns.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from sqlglot import exp

from headwater.algebra.nodes import Aggregate, Match, Nodes, Top, Verdict, Window, all_scans
from headwater.algebra.plan import Join, LeafId, Plan, Scan
from headwater.algebra.time import Csn, Interval
from headwater.catalog.records import BaseTable, Columns, MirrorRecord, ViewRecord
from headwater.catalog.store import Catalog
from headwater.engine.versions import Version
from headwater.errors import InternalError, MomentBeforeHistory, UnsupportedSql
from headwater.pinning import provided, table_rows
from headwater.sql.carrying import Carried, can_be_told, carrying
from headwater.sql.dialect import column, parse, quoted, subquery, tokens
from headwater.sql.layouts import counted_view
from headwater.sql.lower import Lowered, lower
from headwater.sql.relations import COUNT, CSN, Changes, LoggedChanges, Sources, logged_rows, snapshot_table
from headwater.sql.signed_zero import unsigned_zeros
from headwater.sql.storage import bag, over_relations, stored
from headwater.sql.summing import averaged_as_double, sums_of
from headwater.sql.transitions import NodeRelations, breaks_ties

_MISREAD = "MISREAD"  # the reason code of a view that was made when its text was read otherwise


@dataclass(frozen=True, slots=True)
class TableUse:
    """A base table, or another view, as a view sees it."""

    columns: tuple[tuple[str, str], ...]
    mentioned: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        return {"columns": [list(c) for c in self.columns], "mentioned": list(self.mentioned)}

    def used(self) -> TableUse:
        """The same without columns that the view does not use."""
        return TableUse(tuple((name, kind) for name, kind in self.columns if name in self.mentioned), self.mentioned)

    @classmethod
    def of_json(cls, use: Any) -> TableUse:
        return cls(tuple((c, t) for c, t in use["columns"]), tuple(use["mentioned"]))


@dataclass(frozen=True, slots=True)
class Definition:
    """``tables`` are base tables, ``views`` the views in FROM; ``nodes`` the non-linear parts below ``plan``.

    ``judged`` is what Spark's types said of nodes at CREATE: aggregates that depend on the order of rows (``ordered``)
    or that add up exactly (``summed``, with types), joins whose equality compares different kinds of values and so is
    no key (``keyless``); ``floating`` are their attributes that hold floating-point numbers. ``recomputed`` is the
    reason code of a view that is not kept incrementally; its plan only names its tables. A view that carries the state
    of its aggregate or its first rows (``carried``) has ``hidden`` columns, which its plan gives after the public ones.
    """

    text: str
    tables: Mapping[str, TableUse]
    views: Mapping[str, TableUse]
    plan: Plan
    nodes: Nodes
    settings: Mapping[str, str]
    judged: Mapping[str, Verdict] = field(default_factory=dict)
    floating: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    recomputed: str | None = None
    carried: Carried | None = None
    hidden: Columns = ()

    @classmethod
    def of(
        cls,
        text: str,
        lowered: Lowered,
        tables: Mapping[str, tuple[tuple[str, str], ...]],
        views: Mapping[str, tuple[tuple[str, str], ...]],
        settings: Mapping[str, str],
    ) -> Definition:
        """``tables`` and ``views`` give the columns of all that the text may name."""
        used = lowered.mentioned
        return cls(
            text,
            {name: TableUse(tables[name], used[name]) for name in used if name in tables},
            {name: TableUse(views[name], used[name]) for name in used if name in views},
            lowered.plan,
            lowered.nodes,
            settings,
        )

    @classmethod
    def from_scratch(
        cls,
        text: str,
        tables: Mapping[str, TableUse],
        views: Mapping[str, TableUse],
        settings: Mapping[str, str],
        reason: str,
    ) -> Definition:
        """A view that is computed from its text alone, every time."""
        scans = [
            Scan(LeafId(number), name, name, (), ()) for number, name in enumerate([*sorted(tables), *sorted(views)])
        ]
        plan = scans[0] if len(scans) == 1 else Join(tuple(scans), ())
        return cls(text, tables, views, plan, {}, settings, recomputed=reason)

    @classmethod
    def load(cls, view: ViewRecord) -> Definition:
        return _loaded(view.sql, json.dumps(view.definition, sort_keys=True), view.columns)

    def judge(self, judged: Mapping[str, Verdict], floating: Mapping[str, tuple[str, ...]]) -> Definition:
        """The definition with what Spark's types say of its nodes."""
        return replace(self, nodes=_judged(self.nodes, judged, floating), judged=judged, floating=floating)

    def carrying(self, names: Sequence[str]) -> Definition:
        """The definition with hidden columns for its node's state, where it can have them; without their types."""
        found = carrying(self.plan, self.nodes, names)
        if found is None:
            return self
        plan, nodes, carried = found
        return replace(self, plan=plan, nodes=nodes, carried=carried)

    def stored_in(self, columns: Columns, hidden: Columns) -> bool:
        """Whether a table of these columns has the state that is carried."""
        if self.carried is None or self.carried.hidden != tuple(name for name, _ in hidden):
            return False
        node = self.nodes[self.carried.node]
        return isinstance(node, Aggregate | Top) and can_be_told(node, self.carried, dict((*columns, *hidden)))

    def as_json(self) -> dict[str, Any]:
        return {
            "settings": dict(self.settings),
            "judged": dict(self.judged),
            "floating": {name: list(found) for name, found in self.floating.items()},
            "recomputed": self.recomputed,
            "hidden": [list(column) for column in self.hidden],
            "nodes": sorted(self.nodes),
            "tables": {name: use.as_json() for name, use in self.tables.items()},
            "views": {name: use.as_json() for name, use in self.views.items()},
        }

    def means(self, other: Definition) -> bool:
        """Whether the two texts are one query over the same columns, kept in the same way."""
        return self._meaning() == other._meaning()

    def _meaning(self) -> Definition:
        """Without what may differ: columns that are not used, and the text.

        Where no plan says what a text means, only its spaces and comments: we may read it otherwise than Spark does.
        """
        text = "" if self.recomputed is None else _words(self.text)
        tables, views = ({name: use.used() for name, use in uses.items()} for uses in (self.tables, self.views))
        return replace(self, text=text, tables=tables, views=views)

    def stored_with(self, columns: Columns, hidden: Columns) -> Definition:
        """The same text as a table of these columns keeps it, made by other rules perhaps; as it is if it can't."""
        frozen = {**self.as_json(), "hidden": []}
        return _loaded(self.text, json.dumps(frozen, sort_keys=True), columns).kept_in(columns, hidden) or self

    def kept_in(self, columns: Columns, hidden: Columns) -> Definition | None:
        """How the text is kept in a table of these columns; None if it has others to hold its node's state."""
        if self.recomputed is not None:
            return self
        wider = self.carrying([name for name, _ in columns])
        if wider.stored_in(columns, hidden):
            return replace(wider, hidden=hidden)
        return None if hidden else self

    @property
    def leaves(self) -> tuple[Scan, ...]:
        """The scans of tables and views, above and below nodes, in the order of their numbers in the catalog."""
        return tuple({scan.alias: scan for scan in all_scans(self.plan, self.nodes)}.values())

    @property
    def breaks_ties(self) -> bool:
        """Whether Spark may answer the text in several ways, by the order of rows that tie, and one of them is ours."""
        return any(
            isinstance(node, Top)
            or (isinstance(node, Window) and any(breaks_ties(value) for _, value in node.values))
            or (isinstance(node, Aggregate) and node.ordered)
            for node in self.nodes.values()
        )

    def at(self, catalog: Catalog, csn: Csn) -> str:
        """The user's own text over the tables and views as they were at a csn."""
        relations: dict[str, exp.Query] = {
            name: table_rows(catalog, name, csn, use.mentioned) for name, use in self.tables.items()
        }
        below = ViewRelations(catalog, self.views)
        relations |= {name: below.state(name, csn) for name in self.views}
        return over_relations(self.text, relations)

    def type_of(self, name: str, column: str) -> str | None:
        """The type of a column of a table or view in FROM; None of what is neither, such as a node."""
        use = self.tables.get(name) or self.views.get(name)
        return None if use is None else dict(use.columns).get(column)

    def used_columns(self, table: str) -> tuple[str, ...]:
        found = {c for scan in self.leaves if scan.table == table for c in scan.columns}
        return tuple(name for name, _ in self.tables[table].columns if name in found)


def _words(text: str) -> str:
    """A text without its spaces and comments, word for word."""
    return " ".join(text[token.start : token.end + 1] for token in tokens(text))


@lru_cache(maxsize=256)
def _loaded(text: str, frozen: str, columns: Columns) -> Definition:
    """Lowering is a function of the text and of what was frozen with it; drivers ask for it again and again."""
    kept = json.loads(frozen)
    tables = {name: TableUse.of_json(use) for name, use in kept["tables"].items()}
    views = {name: TableUse.of_json(use) for name, use in kept.get("views", {}).items()}
    if kept.get("recomputed") is not None:
        return Definition.from_scratch(text, tables, views, kept["settings"], kept["recomputed"])
    known = {name: tuple(c for c, _ in use.columns) for name, use in {**tables, **views}.items()}
    # Spark judged the functions at CREATE; one that was built in then is part of the view now.
    judged = kept.get("judged", {})
    try:
        lowered = lower(text, known, functions=None)
    except UnsupportedSql as refusal:  # it was made when this was not known to be beyond us
        return Definition.from_scratch(text, tables, views, kept["settings"], str(refusal.code))
    if not _is_read_as_judged(text, lowered.nodes, kept):
        return Definition.from_scratch(text, tables, views, kept["settings"], _MISREAD)
    floating = {name: tuple(found) for name, found in kept.get("floating", {}).items()}
    plain = Definition(text, tables, views, lowered.plan, lowered.nodes, kept["settings"]).judge(judged, floating)
    hidden = tuple((name, kind) for name, kind in kept.get("hidden", ()))
    # Of a view that was made by other rules nobody may know any more what its hidden columns hold.
    return plain.kept_in(columns, hidden) or Definition.from_scratch(text, tables, views, kept["settings"], _MISREAD)


def _is_read_as_judged(text: str, nodes: Nodes, kept: Mapping[str, Any]) -> bool:
    """Whether a text has the nodes now that Spark judged at CREATE, so that what was found of them still says all."""
    if "nodes" in kept:
        return nodes.keys() == set(kept["nodes"])
    # An older view says only which nodes something was found of; BETWEEN over a subquery had a node less then.
    found = {*kept.get("judged", ()), *kept.get("floating", ())}
    between = any(each.find(exp.Query) for each in parse(text).find_all(exp.Between))
    return found <= nodes.keys() and not between


def _judged(nodes: Nodes, judged: Mapping[str, Verdict], floating: Mapping[str, tuple[str, ...]]) -> Nodes:
    found = {name: replace(node, floating=floating.get(name, ())) for name, node in nodes.items()}
    for name, verdict in judged.items():
        match found[name], verdict:
            case Aggregate() as node, "ordered":
                found[name] = replace(node, ordered=True)
            case Aggregate() as node, {"doubles": doubles}:
                values = [(output, averaged_as_double(v) if output in doubles else v) for output, v in node.values]
                found[name] = replace(node, values=tuple(values), ordered=True)
            case Aggregate() as node, {"summed": dict() as summed}:
                found[name] = replace(node, sums=sums_of(node.values, summed))
            case Match() as match, "keyless":
                found[name] = replace(match, keys=())
            case _:
                raise InternalError(f"Node {name} can't be {verdict}.")
    return found


def carried_totals(carried: Carried, view: ViewRecord, at: Csn) -> exp.Query:
    """The keys and totals of a view's aggregate at a csn, from the view's own table."""
    return carried.state(counted_rows(view, at, carried.names))


def carried_rows(carried: Carried, view: ViewRecord, at: Csn) -> exp.Query:
    """The first rows that a view has at a csn, from the view's own table."""
    return carried.state(bag(counted_rows(view, at, carried.names), carried.names))


def require_kept(view: ViewRecord, csn: Csn) -> None:
    """Raise unless the view's past goes back to a csn: what leads from its table to moments before is gone."""
    if csn < view.kept_from:
        raise MomentBeforeHistory(
            f"View {view.name!r} is kept from csn {view.kept_from} on; csn {csn} is before that.",
            remedy=f"Ask for csn {view.kept_from} or later.",
            view=view.name,
            kept_from=view.kept_from,
        )


def counted_rows(view: ViewRecord, at: Csn, names: Sequence[str]) -> exp.Query:
    """The view's own rows at a csn, each distinct one with its count."""
    require_kept(view, at)
    timeline = view.layout == "timeline"
    return counted_view(view.location, view.version, view.csn, view.delta_location, at, names, timeline=timeline)


def base_tables_of(catalog: Catalog, definition: Definition) -> frozenset[str]:
    """The base tables that a view depends on, through other views too."""
    below = [base_tables_of(catalog, Definition.load(catalog.view(name))) for name in definition.views]
    return frozenset(definition.tables).union(*below)


class ViewRelations:
    """Other views, as relations of a view that reads them."""

    def __init__(self, catalog: Catalog, names: Iterable[str]) -> None:
        self._catalog = catalog
        self._names = frozenset(names)
        self._records: dict[str, ViewRecord] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def _record(self, name: str) -> tuple[ViewRecord, list[str]]:
        if name not in self._records:
            self._records[name] = self._catalog.view(name)
        record = self._records[name]
        return record, [column for column, _ in record.columns]

    def state(self, name: str, at: Csn) -> exp.Query:
        view, columns = self._record(name)
        return bag(counted_rows(view, at, columns), columns)

    def changes(self, name: str, interval: Interval) -> exp.Query:
        view, columns = self._record(name)
        require_kept(view, interval.start)
        rows = logged_rows(view.delta_location, interval, columns)
        unsigned = dict(unsigned_zeros(view.columns))
        if not unsigned:
            return rows
        kept = [unsigned.get(each) or column(each) for each in (*columns, COUNT, CSN)]
        return exp.select(*kept, copy=False).from_(subquery(rows, "z"))

    def nothing(self, name: str) -> exp.Query:
        view, columns = self._record(name)
        return stored(view.location, view.version, columns).where(exp.false())


class CatalogMoments:
    """Versions and changes of base tables by csn, as the catalog knows them; read once: the past does not change.

    ``named`` may have a name for a version of a table in the session that computes.
    """

    def __init__(
        self, catalog: Catalog, definition: Definition, named: Callable[[Version], str | None] | None = None
    ) -> None:
        self._catalog = catalog
        self._definition = definition
        self._named = named
        self._tables: dict[str, BaseTable] = {}
        self._versions: dict[tuple[str, Csn], int] = {}
        self._changes: dict[tuple[str, Interval], tuple[tuple[int, Csn], ...]] = {}
        self._below: dict[str, frozenset[str]] = {}
        self._mirrors: dict[str, MirrorRecord | None] = {}

    def sources(self, begin: Csn) -> Sources:
        """Everything that a plan of the view may scan; ``begin`` is a csn at which all of it can be had."""
        return self.relations(begin).sources

    def relations(self, begin: Csn) -> NodeRelations:
        views = ViewRelations(self._catalog, self._definition.views)
        return NodeRelations(self._definition.nodes, self, views, begin)

    def base_tables(self, name: str) -> frozenset[str]:
        """The base tables that a table or view in FROM stands on."""
        if name not in self._definition.views:
            return frozenset({name})
        if name not in self._below:
            self._below[name] = base_tables_of(self._catalog, Definition.load(self._catalog.view(name)))
        return self._below[name]

    def table(self, name: str) -> BaseTable:
        if name not in self._tables:
            self._tables[name] = self._catalog.base_table(name)
        return self._tables[name]

    def location(self, table: str) -> str:
        return self.table(table).location

    def types(self, table: str) -> Mapping[str, str]:
        return dict(self._definition.tables[table].columns)

    def version(self, table: str, csn: Csn) -> int:
        if (table, csn) not in self._versions:
            self._versions[table, csn] = self._catalog.version_at(table, csn)
        return self._versions[table, csn]

    def identified(self, table: str, csn: Csn) -> Version:
        found = self.table(table)
        return Version(found.location, found.table_uuid, self.version(table, csn))

    def mirror(self, table: str) -> MirrorRecord | None:
        """How the table is kept, if it is a mirror."""
        if table not in self._mirrors:
            self._mirrors[table] = self._catalog.mirror(table)
        return self._mirrors[table]

    def state(self, table: str, csn: Csn) -> exp.Expr:
        mirror = self.mirror(table)
        if mirror is None:
            name = None if self._named is None else self._named(self.identified(table, csn))
            known = snapshot_table(self.location(table), self.version(table, csn))
            return known if name is None else exp.Table(this=quoted(name))
        used = self._definition.used_columns(table) if table in self._definition.tables else ()
        if mirror.mode == "query" and provided(table, csn) is None:
            # Shown by explain; nobody can run it.
            return exp.Table(this=quoted(f"{table} at csn {csn}, asked of its source"))
        return subquery(table_rows(self._catalog, table, csn, used or None), "__hw_source")

    def _numbered(self, table: str, interval: Interval) -> tuple[tuple[int, Csn], ...]:
        if (table, interval) not in self._changes:
            units = self._catalog.units(table, interval.start, interval.end)
            self._changes[table, interval] = tuple((unit.version, unit.csn) for unit in units)
        return self._changes[table, interval]

    def changes(self, table: str, interval: Interval) -> Changes | LoggedChanges:
        versions = self._numbered(table, interval)
        if not versions:
            raise InternalError(f"{table} has no changes in {interval}, yet a query asks for them.")
        mirror = self.mirror(table)
        if mirror is None:
            self.version(table, interval.start)  # before a table was begun anew, its changes are of another
            return Changes(versions)
        self._catalog.require_logged(table, interval.start)
        return LoggedChanges(mirror.log_location)

    def has_changes(self, name: str, interval: Interval) -> bool:
        return any(self._numbered(table, interval) for table in self.base_tables(name))

    def rows_by_csn(self, name: str, interval: Interval) -> list[tuple[Csn, int]]:
        """Rows changed at each csn, where they are known; ``headwater.propagate.driver`` sees to it that they are."""
        found: dict[Csn, int] = {}
        for table in self.base_tables(name):
            for unit in self._catalog.units(table, interval.start, interval.end):
                found[unit.csn] = found.get(unit.csn, 0) + (unit.rows or 0)
        return sorted(found.items())

    def known_rows(self, name: str, interval: Interval) -> int | None:
        """Rows changed in the interval; None if a commit did not tell, and for views."""
        if name in self._definition.views:
            return None
        rows = [unit.rows for unit in self._catalog.units(name, interval.start, interval.end)]
        return None if any(count is None for count in rows) else sum(count or 0 for count in rows)
