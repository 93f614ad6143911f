"""The lake: Headwater's public face.

Each call does one thing with the drivers and returns a value. A refresh is capture, propagate and apply in one call;
each can be called, suspended and run in a process of its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from sqlglot import exp

from headwater import lifecycle
from headwater.algebra.time import Csn
from headwater.apply.driver import high_water_mark
from headwater.calibration import STEPS, Calibration, calibrate, refresh_within
from headwater.capture.attach import attach, detach, is_source, reattach
from headwater.capture.driver import capture, resync, track
from headwater.capture.ordering import unit_of_work_metadata
from headwater.catalog.database import system_clock
from headwater.catalog.records import BaseTable, JsonObject, MirrorRecord, ViewRecord
from headwater.catalog.store import open_catalog
from headwater.context import Context, name_lease, propagate_lease, silent
from headwater.declaring import Declaration, declare, declare_from_table, declared, undeclare, verify
from headwater.definition import Definition, base_tables_of
from headwater.durable import Listener, nobody
from headwater.engine.session import local_session, require_delta
from headwater.engine.spark import SparkEngine
from headwater.errors import InvalidInput, NameTaken, NotALake, UnknownName
from headwater.explain import Explanation, explain, explain_draft
from headwater.measured import ViewMeasure, backlog_of, costs_below, gather, measure_of
from headwater.moments import Moment, from_micros, resolve
from headwater.propagate.driver import propagate, require_usable
from headwater.propagate.sharing import together
from headwater.refresh import beyond_mending, refresh, refresh_together
from headwater.rehearsal import Rehearsal, rehearse
from headwater.schedule.keeping import Seen
from headwater.schedule.service_level import ServiceLevel, seconds_of
from headwater.serve.freshness import averaged, measured_of, staleness_report
from headwater.serve.keeping import change_retention, collect_garbage, release_value, retention_report
from headwater.serve.reading import pin_table, pin_view
from headwater.serve.releases import Released, release
from headwater.serve.snapshots import DEFAULT_TTL, Freshness, Snapshot, open_snapshot
from headwater.sources.delta import DeltaSource
from headwater.sql.dialect import parse, to_text
from headwater.sql.pinned import pinned_relation
from headwater.sql.statements import (
    NAME,
    AlterView,
    CreateView,
    DropView,
    ExplainQuery,
    ExplainView,
    RefreshView,
    SelectQuery,
    ShowViews,
    parse_statement,
)
from headwater.sql.storage import over_relations
from headwater.values import (
    CollectionReport,
    Columns,
    ConstraintStatus,
    LakeStatus,
    PromiseStatus,
    RefreshReport,
    RefreshRound,
    Release,
    RetentionReport,
    StalenessReport,
    TableStatus,
    UnitOfWork,
    Verification,
    ViewStatus,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from typing_extensions import Self


class Lake:
    """Made by ``headwater.connect``; close it, or use it in a ``with`` block."""

    def __init__(self, context: Context, catalog_url: str) -> None:
        self._context = context
        self._catalog_url = catalog_url

    # ------------------------------------------------------------------ tables

    def track(
        self,
        name: str,
        where: str | Path,
        *,
        enable_change_feed: bool = False,
        mode: str | None = None,
        **source: Any,
    ) -> None:
        """Follow a table under a name that views use.

        ``where`` is a Delta table (a path, a URI or its name in Spark's catalog), ``postgresql://user@host/database``,
        or ``messages:`` and the place of change messages. ``mode`` of a Delta table is 'versioned', or 'live' if its
        past can't be read (short retention): views on it are propagated by compensation. A table of a database is
        kept as a 'mirror', or in mode 'query', which copies nothing. ``source`` are the options of the source
        (``headwater.capture.attach``): ``table='schema.name'``, ``columns``, ``types``, ``prepare`` and others.
        """
        if not NAME.fullmatch(name):
            raise InvalidInput(f"{name!r} is not a name.", remedy="Use letters, digits and _, not a digit first.")
        if is_source(str(where)):
            self._require_free(name)
            attach(self._context, name, str(where), mode, source)
            return
        if source:
            raise InvalidInput(
                f"A Delta table takes no option {', '.join(sorted(source))}.", remedy="Leave it out, or give a source."
            )
        mode = mode or "versioned"
        if mode not in ("versioned", "live"):
            raise InvalidInput(f"Unknown mode {mode!r}.", remedy="Use 'versioned' or 'live'.")
        self._require_free(name)
        table = self._context.source.describe(name, _place_of(where))
        if not table.change_feed and enable_change_feed:
            self._context.source.enable_change_feed(table.location)
            table = self._context.source.describe(name, table.location)
        self._context.source.require_change_feed(name, table)
        track(self._context, name, table, mode)

    def resync(self, name: str, *, state: str | Path | None = None, version: int | None = None) -> None:
        """Begin anew with a table whose changes were lost.

        Views on a Delta table are recomputed at their next refresh. Of a mirrored table the difference is found,
        deletions too, and views take it in as one more change. A table that only messages tell of can't be asked:
        ``state`` is then a Delta table with its rows as they were at ``version`` of its numbering.
        """
        record = self._context.catalog.base_table(name)
        if self._context.catalog.mirror(name) is not None:
            reattach(self._context, name, None if state is None else _place_of(state), version)
            return
        if state is not None or version is not None:
            raise InvalidInput("A Delta table is its own state.", remedy="Give no state and no version.")
        table = self._context.source.describe(name, record.location)
        self._context.source.require_change_feed(name, table)
        resync(self._context, name, table)

    def untrack(self, name: str) -> None:
        """Stop following a table; refused while a view uses it."""
        self._context.catalog.base_table(name)
        if self._context.catalog.mirror(name) is not None:
            detach(self._context, name)
            return
        with self._context.catalog.lease(name_lease(name), wait=self._context.lease_wait) as lease:
            self._context.catalog.remove_base_table(lease, name)

    def unit_of_work(self, tag: str, commits: int) -> str:
        """The ``userMetadata`` to give to each of several Delta commits that are to count as one unit of work."""
        return unit_of_work_metadata(tag, commits)

    # ------------------------------------------------------------------ constraints

    def declare(
        self,
        table: str,
        *,
        primary_key: Columns | None = None,
        unique: Columns | None = None,
        foreign_key: Mapping[str, str] | None = None,
        name: str | None = None,
        from_ddl: bool | str = False,
    ) -> list[ConstraintStatus]:
        """Say what is true of a tracked table: a key, or a foreign key such as ``{"customer": "customers.id"}``.

        It is used for propagation once ``verify`` found it to hold, and until changes break it. ``from_ddl`` reads the
        PRIMARY KEY, UNIQUE and FOREIGN KEY that the table's own DDL declares instead; a string is its name in Spark's
        catalog.
        """
        if from_ddl:
            if primary_key is not None or unique is not None or foreign_key is not None or name is not None:
                raise InvalidInput("The table's own DDL says it all.", remedy="Leave the other arguments out.")
            return declare_from_table(self._context, table, from_ddl if isinstance(from_ddl, str) else None)
        return declare(self._context, table, Declaration(primary_key, unique, foreign_key), name)

    def undeclare(self, constraint: str) -> None:
        """Forget a constraint, by its name."""
        undeclare(self._context, constraint)

    def constraints(self, table: str | None = None) -> list[ConstraintStatus]:
        """The declared constraints of a table, or of all, and what is known of each."""
        return declared(self._context, table)

    def verify(self, table: str | None = None, *, full: bool = False) -> list[Verification]:
        """Look at the data whether the constraints of a table, or of all, hold at the newest csn.

        Where one is known to hold up to some csn, the changes since decide, unless ``full`` asks for all rows.
        """
        return verify(self._context, table, full=full)

    # ------------------------------------------------------------------ SQL

    def sql(self, text: str) -> DataFrame:
        """Run a statement of Headwater, or any query over views and tracked tables at the newest state."""
        match parse_statement(text):
            case CreateView() as statement:
                made = lifecycle.create(self._context, statement)
                return self._answer([(statement.name, made is not None)], "view string, created boolean")
            case AlterView(name=name, options=options):
                altered = lifecycle.alter(self._context, name, options)
                return self._answer([(name, json.dumps(altered.options))], "view string, options string")
            case RefreshView(name=name, csn=csn, timestamp=timestamp):
                report = self.refresh(name, to=csn if csn is not None else timestamp)
                return self._answer(
                    [(report.view, report.csn, report.mode, report.reason, report.rows, report.seconds)],
                    "view string, csn long, mode string, reason string, rows long, seconds double",
                )
            case DropView(name=name, if_exists=if_exists):
                return self._answer(
                    [(name, lifecycle.drop(self._context, name, if_exists=if_exists))], "view string, dropped boolean"
                )
            case ShowViews():
                rows = [
                    (v.name, v.csn, v.high_water_mark, v.newest_csn, v.staleness, v.last_mode, v.last_reason)
                    for v in self.status().views
                ]
                return self._answer(
                    rows,
                    "view string, csn long, high_water_mark long, newest_csn long, staleness double, last_mode string, "
                    "last_reason string",
                )
            case ExplainView(name=name):
                return self._answer([(str(self.explain(name)),)], "plan string")
            case ExplainQuery(view=view):
                return self._answer([(str(explain_draft(self._context, view)),)], "plan string")
            case SelectQuery(text=query):
                return self._query(query)

    def _answer(self, rows: Sequence[tuple[object, ...]], schema: str) -> DataFrame:
        return self._context.engine.spark.createDataFrame(rows, schema)

    def _query(self, text: str) -> DataFrame:
        named = {table.name.lower() for table in parse(text).find_all(exp.Table) if not table.args.get("db")}
        relations: dict[str, exp.Query] = {}
        for view in self._context.catalog.views():
            if view.name.lower() in named:
                relations[view.name] = pinned_relation(pin_view(self._context, view.name, None))
        for table in self._context.catalog.base_tables():
            if table.name.lower() in named:
                relations[table.name] = self._table_relation(table.name, self._context.catalog.newest_csn())
        return self._context.engine.user_query(over_relations(text, relations))

    # ------------------------------------------------------------------ the drivers

    def capture(self) -> int:
        """Number the commits made since the last capture; the newest csn.

        If a table can't be read any further, the others are captured all the same and then its problem is raised.
        """
        captured = capture(self._context)
        if captured.problems:
            raise captured.problems[0]
        for unreachable in captured.unreachable.values():
            raise unreachable
        return captured.csn

    def propagate(self, view: str, to: Moment | None = None, *, strategy: str | None = None) -> int:
        """Compute the view delta up to a moment (None: the newest captured one); the high-water mark.

        ``strategy`` ('n-term', 'tree', 'recompute' or 'auto') overrules the view's own.
        """
        require_usable(self._context.catalog.view(view))
        return propagate(self._context, view, self._moment(to), strategy)

    def refresh(self, view: str, to: Moment | None = None, *, within: float | str | None = None) -> RefreshReport:
        """Bring the view to a moment: None is the newest state of its tables.

        ``within`` (seconds, or '10s') asks how long that will take, before and after: the report then has ``predicted``
        beside ``seconds``, and ``met``. It refreshes in any case.
        """
        self._context.catalog.view(view)
        moment = None if to is None else self._moment(to)
        if within is None:
            return refresh(self._context, view, moment)
        return refresh_within(self._context, view, moment, seconds_of(str(within)))

    def refresh_all(self, views: Iterable[str] | None = None, to: Moment | None = None) -> RefreshRound:
        """Bring several views (None: all) to one moment; what more than one of them needs is computed once.

        A view that can't be refreshed does not keep the others from it: ``failed`` tells why.
        """
        chosen = [view.name for view in self._context.catalog.views()] if views is None else list(views)
        for view in chosen:
            self._context.catalog.view(view)
        return refresh_together(self._context, chosen, None if to is None else self._moment(to))

    def calibrate(self, view: str, *, steps: int = STEPS) -> Calibration:
        """Measure what the view's refreshes take, by propagating its backlog in batches of several sizes."""
        return calibrate(self._context, view, steps=steps)

    def costs(self, view: str) -> ViewMeasure:
        """The view's cost functions as they are known now, and the samples behind them."""
        record = self._context.catalog.view(view)
        gather(self._context.catalog, record)
        return measure_of(self._context.catalog, record)

    def simulate(self, view: str, *, response_time: str | None = None, step: str | None = None) -> Rehearsal:
        """What each policy would have done under a bound ('10s') with the commits recorded so far; runs nothing."""
        bounds = (None if given is None else seconds_of(given) for given in (response_time, step))
        return rehearse(self._context.catalog, view, *bounds)

    def set_width(self, view: str, leaf: str, *, rows: int | None = None, csns: int | None = None) -> None:
        """How far one propagation step advances a leaf (by its alias): by changed rows, by csns, or unlimited."""
        if rows is not None and csns is not None:
            raise InvalidInput("A width is by rows or by csns, not both.", remedy="Give one of them.")
        record = self._context.catalog.view(view)
        leaves = {each.alias.lower(): each for each in self._context.catalog.leaves(record.view_id)}
        if leaf.lower() not in leaves:
            raise UnknownName(
                f"View {view!r} has no leaf {leaf!r}.", remedy=f"Its leaves are {', '.join(sorted(leaves))}."
            )
        value = rows if rows is not None else csns
        if value is not None and value < 1:
            raise InvalidInput(f"A width of {value} would never advance.", remedy="Give 1 or more.")
        kind = None if value is None else ("rows" if rows is not None else "csn")
        with self._context.catalog.lease(propagate_lease(record.view_id), wait=self._context.lease_wait) as lease:
            self._context.catalog.set_width(lease, record.view_id, leaves[leaf.lower()].leaf, kind, value)

    # ------------------------------------------------------------------ reading

    def read(self, name: str, at: Moment | None = None) -> DataFrame:
        """The public columns of a view, or a tracked table, as a bag; ``at`` any moment up to the high-water mark.

        Reads do not change the view's table and do not wait for anybody.
        """
        if name.lower() in {table.name.lower() for table in self._context.catalog.base_tables()}:
            return self._context.engine.query(to_text(self._table_relation(name, self._moment(at))))
        self._context.catalog.view(name)
        moment = None if at is None else self._moment(at)
        return self._context.engine.query(to_text(pinned_relation(pin_view(self._context, name, moment))))

    def _table_relation(self, name: str, csn: Csn) -> exp.Query:
        return pinned_relation(pin_table(self._context, name, csn))

    # ------------------------------------------------------------------ releases and snapshots

    def release(self) -> Released:
        """Bring all views to the newest csn and publish that: what snapshots read from now on."""
        return _Upkeep(self._context).release()

    def tag(self, name: str, at: int | None = None) -> int:
        """Name the release of a csn (None: the newest), so that it is kept and found again; the csn."""
        return self._context.catalog.tag_release(name, None if at is None else Csn(at))

    def untag(self, name: str) -> None:
        """Take a name away; the release goes with the next collection if nothing else keeps it."""
        self._context.catalog.untag_release(name)

    def releases(self) -> list[Release]:
        """Those that are kept, by csn; dropped views are no longer in them."""
        return [release_value(self._context.catalog, found) for found in self._context.catalog.releases()]

    def retention(self) -> RetentionReport:
        """How much of the past is to be kept, how much is there, and who reads it."""
        return retention_report(self._context.catalog)

    def set_retention(
        self,
        *,
        count: int | None = None,
        age: float | timedelta | None = None,
        tags: Iterable[str] | Literal["any"] | None = None,
    ) -> RetentionReport:
        """Keep the newest ``count`` releases, the past ``age`` (seconds), and releases with one of ``tags``.

        What is None stays as it is. Collections go by it from now on; what is gone does not come back.
        """
        change_retention(self._context.catalog, count=count, age=age, tags=tags)
        return self.retention()

    def collect(self, *, grace: float | None = None) -> CollectionReport:
        """Take away what no release kept, no tag, no open snapshot and no driver needs.

        ``grace``, in seconds: files that were in use so long ago stay, for statements that still run (1 hour).
        """
        return collect_garbage(self._context, grace)

    def snapshot(
        self,
        at: Moment | None = None,
        *,
        tag: str | None = None,
        max_staleness: float | None = None,
        refresh: bool = False,
        ttl: float = DEFAULT_TTL,
    ) -> Snapshot[DataFrame]:
        """All views and tracked tables at one moment: the newest release, a tagged one, or any that is kept.

        ``max_staleness`` in seconds: a newest release older than that is an error, or with ``refresh`` a new one is
        made first. While the snapshot is open, nothing that it reads is taken away.
        """
        freshness = None if max_staleness is None else Freshness(max_staleness, refresh)
        if freshness is None and refresh:
            raise InvalidInput("Refreshing needs to know how stale is too stale.", remedy="Give max_staleness.")
        return open_snapshot(
            self._context.catalog,
            self._context.engine,
            _Upkeep(self._context),
            clock=self._context.clock,
            at=at,
            tag=tag,
            freshness=freshness,
            ttl=ttl,
        )

    # ------------------------------------------------------------------ looking

    def units_of_work(self) -> list[UnitOfWork]:
        return [
            UnitOfWork(
                u.csn,
                u.source or "delta",
                u.table,
                u.version,
                from_micros(u.committed_at),
                u.operation,
                u.rows,
                u.transaction,
            )
            for u in self._context.catalog.units()
        ]

    def status(self) -> LakeStatus:
        catalog = self._context.catalog
        newest = catalog.newest_csn()
        mirrors = {mirror.name: mirror for mirror in catalog.mirrors()}
        waiting = {source.source_id: source.waiting or [] for source in catalog.sources()}
        tables = tuple(_table_status(t, mirrors.get(t.name), waiting) for t in catalog.base_tables())
        return LakeStatus(
            self._context.location,
            catalog.url,
            newest,
            tables,
            tuple(self._view_status(view, newest) for view in catalog.views()),
        )

    def _view_status(self, view: ViewRecord, newest: Csn) -> ViewStatus:
        catalog = self._context.catalog
        tables = base_tables_of(catalog, Definition.load(view))
        waiting = [unit.committed_at for unit in catalog.units(start=view.csn) if unit.table in tables]
        staleness = max(0.0, (self._context.clock() - min(waiting)) / 1e6) if waiting else 0.0
        own = catalog.units(start=Csn(max(view.csn - 1, 0)), end=view.csn)
        problem = view.problem
        for table in tables:
            problem = problem or catalog.base_table(table).problem
        return ViewStatus(
            name=view.name,
            csn=view.csn,
            timestamp=from_micros(own[0].committed_at) if own else None,
            high_water_mark=high_water_mark(self._context, view),
            kept_from=view.kept_from,
            newest_csn=newest,
            staleness=staleness,
            method=view.method,
            last_mode=view.last_mode,
            last_reason=view.last_reason,
            problem=problem,
            layout=view.layout,
            measured=averaged(measured_of(catalog, view).staleness),
            promise=self._promise_status(view, staleness, problem),
        )

    def _promise_status(self, view: ViewRecord, staleness: float, problem: JsonObject | None) -> PromiseStatus | None:
        level = ServiceLevel.of(view.options)
        if not level.is_kept:
            return None
        catalog = self._context.catalog
        measure, backlog, below = measure_of(catalog, view), backlog_of(catalog, view), costs_below(catalog, view)
        seen = Seen(
            view.name,
            level,
            measure.parts.labels,
            backlog.pending,
            backlog.unapplied,
            staleness,
            measure.costs,
            below=below.expected,
            below_bound=below.bound,
            outlook=measure.outlook(level),
            problem=None if view.problem is None else str(view.problem.get("code", "PROBLEM")),
            stuck=None if problem is None else beyond_mending(view) if view.problem else str(problem.get("message")),
        )
        floor = measure.costs.floor()
        return PromiseStatus(
            level.response_time,
            level.max_staleness,
            level.policy,
            level.priority,
            seen.state,
            predicted=seen.predicted,
            floor=None if floor is None else floor.seconds,
            outlook=None if seen.outlook is None else str(seen.outlook),
        )

    def staleness(self, view: str) -> StalenessReport:
        """How long updates took to reach a view, refresh by refresh, and what other chunk sizes would give."""
        return staleness_report(self._context.catalog, self._context.catalog.view(view))

    def explain(self, view: str) -> Explanation:
        return explain(self._context, self._context.catalog.view(view))

    @property
    def spark(self) -> SparkSession:
        return self._context.engine.spark

    @property
    def location(self) -> str:
        return self._context.location

    def close(self) -> None:
        """Close the catalog; the Spark session stays, it may be the caller's."""
        self._context.feeds.close()
        self._context.engine.close()
        self._context.catalog.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ------------------------------------------------------------------

    def _moment(self, moment: Moment | None) -> Csn:
        """A csn that is not given yet, or any timestamp, is looked for only after a capture."""
        newest = self._context.catalog.newest_csn()
        if moment is None:
            return newest
        if not isinstance(moment, int) or moment > newest:
            capture(self._context)
        return resolve(self._context.catalog, moment, self._context.clock())

    def _require_free(self, name: str) -> None:
        taken = {t.name.lower() for t in self._context.catalog.base_tables()}
        views = {v.name.lower() for v in self._context.catalog.views()}
        if name.lower() in taken | views:
            kind = "tracked table" if name.lower() in taken else "view"
            raise NameTaken(f"There is a {kind} {name!r} already.", remedy="Choose another name.", name=name)


def _table_status(
    table: BaseTable, mirror: MirrorRecord | None, waiting: Mapping[str, list[dict[str, Any]]]
) -> TableStatus:
    found = TableStatus(table.name, table.location, table.mode, table.since_csn, table.captured_version, table.problem)
    if mirror is None:
        return found
    awaited = tuple(each for each in waiting.get(mirror.source_id, ()) if each.get("table") in (None, table.name))
    return replace(found, mode=mirror.mode, source=mirror.source_id, waiting=awaited)


class _Upkeep:
    """The drivers as releases and snapshots ask for them."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def capture(self) -> Csn:
        return capture(self._context).csn

    @contextmanager
    def round(self, views: Sequence[str], to: Csn) -> Iterator[None]:
        alone = self._context
        with together(alone, views, to) as self._context:
            try:
                yield
            finally:
                self._context = alone

    def refresh(self, view: str, to: Csn) -> None:
        refresh(self._context, view, to, never_back=True)

    def release(self) -> Released:
        context = self._context
        return release(context.catalog, self, wait=context.lease_wait, ttl=context.lease_ttl, reached=context.reached)


def connect(
    location: str | Path,
    *,
    spark: SparkSession | None = None,
    catalog: str | None = None,
    create: bool = True,
    clock: Callable[[], int] = system_clock,
    clock_skew: float = 0.0,
    lease_wait: float = 60.0,
    progress: Callable[[str], None] = silent,
    on_durable_point: Listener = nobody,
) -> Lake:
    """Open a lake, or make one where there is none.

    ``location`` is a folder or any URI that Spark can write. The catalog is a SQLite file in the folder unless
    ``catalog`` gives a database URL, which a URI location needs. ``spark`` is your own session (classic or Connect)
    with Delta Lake; without it a local one is started at the first call that needs it. ``clock_skew`` is how far, in
    seconds, the clocks of the tables' writers may disagree.
    """
    place, catalog_url = _places(str(location), catalog, create=create)
    opened = open_catalog(catalog_url, clock=clock, create=create)
    if spark is not None:
        try:
            require_delta(spark)
        except BaseException:
            opened.close()
            raise

    def session() -> SparkSession:
        if spark is not None:
            return spark
        progress("starting Spark")
        return local_session(extra=_own_folders(place))

    engine = SparkEngine(session, scratch=f"{place.rstrip('/')}/staging")
    context = Context(
        catalog=opened,
        engine=engine,
        source=DeltaSource(engine),
        location=place,
        clock=clock,
        clock_skew=clock_skew,
        lease_wait=lease_wait,
        reached=on_durable_point,
        progress=progress,
    )
    return Lake(context, catalog_url)


def _own_folders(place: str) -> dict[str, str]:
    """Keep Spark from leaving a warehouse folder wherever it happens to be started."""
    return {} if len(urlsplit(place).scheme) > 1 else {"spark.sql.warehouse.dir": f"{place}/.spark-warehouse"}


def _place_of(where: str | Path) -> str:
    """A local path from the root on: Spark takes a relative one for the name of a table."""
    if isinstance(where, str) and ("/" not in where or urlsplit(where).scheme):
        return where
    return str(Path(where).absolute())


def _places(location: str, catalog: str | None, *, create: bool) -> tuple[str, str]:
    scheme = urlsplit(location).scheme
    if len(scheme) > 1 and scheme != "file":
        if catalog is None:
            raise InvalidInput(
                f"A lake at {location} needs a catalog of its own.",
                remedy="Give catalog='postgresql://...' (or sqlite:///path for one machine).",
            )
        return location, catalog
    folder = Path(urlsplit(location).path if scheme == "file" else location).absolute()
    if folder.exists() and not folder.is_dir():
        raise NotALake(f"{folder} is a file, not a folder.", remedy="Give the folder of a lake, or a new one.")
    if create:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise NotALake(f"{folder} can't be made: {error.strerror}.", remedy="Choose another place.") from error
    return str(folder), catalog or f"sqlite:///{folder}/catalog.db"
