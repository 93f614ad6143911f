"""Spark, as Headwater uses it: SQL text in, committed tables out.

Only public, Connect-safe calls (no py4j, no DeltaTable). A write is one Delta commit that names itself: an
idempotence identifier ``(application, number)`` makes Delta pass over a repeat, and the commit's user metadata tells
which step it was, so that after a crash the step is recognised as done.
"""

from __future__ import annotations

import json
import re
import threading
import uuid
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from headwater.engine.failures import translated, user_sql
from headwater.engine.meaning import MEANING
from headwater.engine.residents import Residents
from headwater.engine.session import CODE, NO_CODE
from headwater.engine.staging import Staging
from headwater.engine.type_text import type_text
from headwater.engine.versions import Versions
from headwater.sql.dialect import to_text
from headwater.sql.relations import COUNT, current_table
from headwater.sql.storage import CHANGED, count_sql

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_APPLICATION = "spark.databricks.delta.write.txnAppId"
_NUMBER = "spark.databricks.delta.write.txnVersion"
_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
_LAST_COMMIT = "spark.databricks.delta.lastCommitVersionInSession"
_FEED_COLUMNS = "spark.databricks.delta.changeDataFeed.defaultSchemaModeForColumnMappingTable"
MOST_FEW = 100_000  # rows to go through that are so few that writing code for them takes longer than it spares
_RECENT = 5  # newest commits among which one made before is looked for


@dataclass(frozen=True, slots=True)
class CommitTag:
    """The name of a write. Of one application, numbers rise; Delta passes over a number it has seen or passed.

    That is also the fence in storage: a driver that lost its lease and wakes up late carries an older number.
    """

    application: str
    number: int
    facts: Mapping[str, Any]

    def metadata(self) -> str:
        return json.dumps({"headwater": dict(self.facts)}, sort_keys=True)

    def is_on(self, commit: StoredCommit) -> bool:
        """Whether a commit is of the same step (and query of it), whoever made it."""
        return all(commit.facts.get(key) == self.facts.get(key) for key in ("step", "ordinal"))


@dataclass(frozen=True, slots=True)
class Written:
    """The commit that carries a tag: its version, its rows written or affected, and what it says of itself."""

    version: int
    rows: int
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class StoredCommit:
    version: int
    timestamp: int
    operation: str
    metadata: str | None
    metrics: Mapping[str, str]
    parameters: Mapping[str, str]

    @property
    def rows(self) -> int:
        """Rows written, of a commit that only writes."""
        return int(self.metrics.get("numOutputRows", 0))

    @property
    def facts(self) -> Mapping[str, Any]:
        """What a commit of ours says of itself; empty for others."""
        try:
            found = json.loads(self.metadata or "{}")
        except ValueError:
            return {}
        own = found.get("headwater") if isinstance(found, dict) else None
        return own if isinstance(own, dict) else {}


class SparkEngine:
    """``session`` is asked for the session at its first use: looking at a lake (status, explain) needs none.

    ``scratch`` is a place for files of a while.
    """

    def __init__(self, session: Callable[[], SparkSession], scratch: str | None = None) -> None:
        self._session = session
        self._started: SparkSession | None = None
        self._starting = threading.Lock()
        self._own = threading.local()
        self._defaults: dict[str, str | None] = {}
        self._rows: dict[str, tuple[int, int]] = {}  # of tables that we write, with the version that has them
        self.staging = Staging(lambda: self._work, scratch)
        self.versions = Versions(lambda: self._work)
        self.residents = Residents(self.versions)
        self._endings: list[weakref.finalize[..., SparkEngine]] = []

    @property
    def spark(self) -> SparkSession:
        with self._starting:
            if self._started is None:
                self._started = self._session()
            return self._started

    def query(self, text: str) -> DataFrame:
        """A query in the user's session: its catalog, and frames that are handed out."""
        return self.spark.sql(text)

    def compute(self, text: str) -> DataFrame:
        """A query in this thread's own session, whose answer is to be written."""
        return self._work.sql(text)

    def frame(self, rows: pa.Table, schema: str) -> DataFrame:
        """Rows of the driver's as a frame of this thread's own session; what the driver can hold is the bound."""
        return self._work.createDataFrame(rows, schema)

    def number(self, text: str) -> int:
        """The answer of a query for one number."""
        return int(self.compute(text).collect()[0][0])  # one row

    @contextmanager
    def named(self, frame: DataFrame) -> Iterator[str]:
        """A frame of this thread's own session under a name, for the statements that follow."""
        name = f"__hw_named_{uuid.uuid4().hex}"
        frame.createOrReplaceTempView(name)
        try:
            yield name
        finally:
            self._work.catalog.dropTempView(name)

    def user_query(self, text: str) -> DataFrame:
        """A text of the user's: its errors are theirs."""
        with user_sql():
            frame = self.spark.sql(text)
            frame.schema  # noqa: B018 (Connect analyses only now)
            return frame

    def columns(self, frame: DataFrame) -> tuple[tuple[str, str], ...]:
        return tuple((field.name, type_text(field.dataType)) for field in frame.schema.fields)

    def builtin_functions(self) -> frozenset[str]:
        with translated("listing Spark's functions"):
            rows = self.spark.sql("SHOW SYSTEM FUNCTIONS").collect()  # some 600 names
        return frozenset(row[0].lower() for row in rows)

    def optimized_plan(self, text: str) -> str:
        """Spark's optimized plan as text, with expression ids numbered by appearance.

        So are the names that Spark gives to what nullif, BETWEEN and their like use twice. A comma and CROSS JOIN say
        the same; Spark remembers which was written.
        """
        key = "spark.sql.debug.maxToStringFields"
        with _setting(self.spark, {key: "100000"}):
            explained = self.spark.sql(f"EXPLAIN EXTENDED {text}").collect()[0][0]  # one row of text
        plan = explained.split("== Optimized Logical Plan ==")[1].split("== Physical Plan ==")[0]
        plan = plan.replace("Join Cross", "Join Inner")
        seen: dict[str, str] = {}
        return re.sub(r"#\d+|\b_common_expr_\d+", lambda found: seen.setdefault(found[0], f"#{len(seen)}"), plan)

    def close(self) -> None:
        """Let go of what is held in memory, and of the engine's own sessions on a Connect server; the user's stays."""
        self.residents.close()
        while self._endings:
            self._endings.pop()()

    # ------------------------------------------------------------------ commits

    def run(self, text: str, doing: str) -> None:
        with translated(doing):
            self.spark.sql(text)

    def append(
        self,
        frame: DataFrame,
        location: str,
        tag: CommitTag,
        doing: str,
        *,
        mode: str = "append",
        of: tuple[str, int] | None = None,
    ) -> Written | None:
        """Write a frame of ``compute`` to a Delta table in one tagged commit; ``of`` as in ``merge``.

        The commit is an earlier one where Delta had seen the tag, and None where Delta had passed it, as for a driver
        that woke up late: nothing was written then, and the frame was not even run.
        """
        with translated(doing):
            written = _even_if_overtaken(lambda: self._append(frame, location, tag, mode))
        if written is not None:
            self._remember(of, written.version, written.rows)
        return written

    def _append(self, frame: DataFrame, location: str, tag: CommitTag, mode: str) -> Written | None:
        from pyspark.sql import Observation
        from pyspark.sql.functions import count, lit

        written = Observation()
        self._work.conf.unset(_LAST_COMMIT)
        observed = frame.observe(written, count(lit(1)).alias("rows"))
        writer = observed.write.format("delta").mode(mode).option("userMetadata", tag.metadata())
        writer.option("txnAppId", tag.application).option("txnVersion", tag.number).save(location)
        version = self._work.conf.get(_LAST_COMMIT, None)
        if version is not None:
            return Written(int(version), int(written.get["rows"]), tag.facts)
        earlier = next((commit for commit in self.history(location, _RECENT) if tag.is_on(commit)), None)
        return None if earlier is None else Written(earlier.version, earlier.rows, earlier.facts)

    def rewrite(self, text: str, location: str, tag: CommitTag, doing: str) -> Written | None:
        """Write a table anew in one tagged commit, from rows of which some are gone and some are marked as changed.

        The rows of the answer are the changed ones; None if Delta had seen the tag.
        """
        from pyspark.sql import Observation
        from pyspark.sql.functions import coalesce, col, lit, sum  # noqa: A004

        seen = Observation()
        with translated(doing):
            # Where nothing is left to read, Spark leaves out what stands below: it must be counted above all of it.
            changed = coalesce(sum(col(CHANGED)), lit(0)).alias("rows")
            frame = self.compute(text).observe(seen, changed).where(col(COUNT) != 0).drop(CHANGED)
            return self.overwrite(frame, location, tag, doing, changed=lambda: int(seen.get["rows"]))

    def overwrite(
        self, frame: DataFrame, location: str, tag: CommitTag, doing: str, *, changed: Callable[[], int]
    ) -> Written | None:
        """Write a table anew in one tagged commit that changes so many rows; None if Delta had seen the tag."""
        with translated(doing):
            written = _even_if_overtaken(lambda: self._append(frame, location, tag, "overwrite"))
            own = self._work.conf.get(_LAST_COMMIT, None) is not None
            if written is None or not own:
                return None
            self._rows[location] = (written.version, written.rows)
            return replace(written, rows=changed())

    def merge(self, text: str, tag: CommitTag, doing: str, *, of: tuple[str, int] | None = None) -> Written | None:
        """Run a MERGE in one tagged commit; None if Delta made none, having seen the tag or found nothing to change.

        ``of`` is the table and its version before, where its rows are to be remembered.
        """
        with translated(doing):
            return _even_if_overtaken(lambda: self._merge(text, tag, of))

    def _merge(self, text: str, tag: CommitTag, of: tuple[str, int] | None) -> Written | None:
        session = self._work
        session.conf.unset(_LAST_COMMIT)
        with _setting(session, {_APPLICATION: tag.application, _NUMBER: str(tag.number), _METADATA: tag.metadata()}):
            rows = session.sql(text).collect()  # one row of metrics, or none
        version = session.conf.get(_LAST_COMMIT, None)
        if version is None:
            return None
        affected, inserted, deleted = (int(rows[0][f"num_{kind}_rows"]) for kind in ("affected", "inserted", "deleted"))
        self._remember(of, int(version), inserted - deleted)
        return Written(int(version), affected, tag.facts)

    def _remember(self, of: tuple[str, int] | None, version: int, more: int) -> None:
        """How many rows a table has after a commit, where it is known how many it had before."""
        before = self._rows.get(of[0]) if of is not None else None
        if of is not None and before is not None and before[0] == of[1]:
            self._rows[of[0]] = (version, before[1] + more)

    @property
    def _work(self) -> SparkSession:
        """This thread's session beside the user's, with its settings: here Headwater computes and writes.

        Delta takes a SQL statement's commit tag from session settings and leaves the version of a commit there. In the
        user's own session the tag would be on whatever other threads write meanwhile, and Delta would pass over all of
        it but the first commit to each table.
        """
        own: SparkSession | None = getattr(self._own, "session", None)
        if own is None:
            if hasattr(self.spark, "cloneSession"):  # Connect
                own = self.spark.cloneSession()
                setattr(own, "release_session_on_close", True)  # noqa: B010 (a clone lacks what stop() looks at)
                # Left to the end of the interpreter, closing its channel would wait for threads that are gone.
                self._endings.append(weakref.finalize(self, own.stop))
            else:
                own = self.spark.newSession()
                for key, value in self.spark.conf.getAll.items():
                    if own.conf.get(key, None) != value and own.conf.isModifiable(key):
                        own.conf.set(key, value)
            # A feed is read with the columns that the table had at its end, not those of today.
            own.conf.set(_FEED_COLUMNS, "endVersion")
            # What Spark holds in memory it leaves out by the smallest and largest values that it noted, and it notes no
            # NaN: rows with NaN, which is larger than any number, would be lost.
            own.conf.set("spark.sql.inMemoryColumnarStorage.partitionPruning", "false")
            # Whatever the user's files hold, what we keep for a while keeps its microseconds.
            own.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
            # Spark writes out the plan of each statement, and of every staged relation in it, over and over.
            own.conf.set("spark.sql.maxPlanStringLength", "65536")
            self._own.session, self._own.settings = own, {}
        return own

    def meaning(self) -> dict[str, str]:
        """The settings of this session that decide what a text means."""
        found = {key: self._value(self.spark, key) for key in MEANING}
        return {key: value for key, value in found.items() if value is not None}

    def _value(self, session: SparkSession, key: str) -> str | None:
        """What a setting is in a session, also if nobody has set it; None if this Spark does not know it."""
        value: str | None = session.conf.get(key, None)
        if value is None and key not in self._defaults:
            try:
                self._defaults[key] = session.conf.get(key)
            except Exception:  # noqa: BLE001 (classic and Connect raise different ones)
                self._defaults[key] = None
        return self._defaults[key] if value is None else value

    @property
    def fails_on_overflow(self) -> bool:
        """Whether a sum that no decimal can hold is an error; without ANSI it is NULL."""
        return str(self.spark.conf.get("spark.sql.ansi.enabled", "true")).lower() == "true"

    @contextmanager
    def under(self, settings: Mapping[str, str]) -> Iterator[None]:
        """Compute with the settings that a view was created under; costs nothing when the session has them.

        Nobody else sets anything in this thread's own session, so each setting is asked for once.
        """
        session = self._work
        known: dict[str, str | None] = self._own.settings
        for key in settings.keys() - known.keys():
            known[key] = self._value(session, key)
        before = {key: known[key] for key, value in settings.items() if known[key] != value}
        different = {key: settings[key] for key in before}
        with _setting(session, different):
            known.update(different)
            try:
                yield
            finally:
                known.update(before)

    def for_rows(self, rows: int | None) -> AbstractContextManager[None]:
        """Compute something that goes through so many rows; None if that is not known."""
        few = rows is not None and rows <= MOST_FEW
        return self.under({CODE: NO_CODE if few else self._value(self.spark, CODE) or "FALLBACK"})

    def rows_in(self, location: str, version: int) -> int:
        """Rows of a table at a version; Delta knows without reading them, and of our own commits we know."""
        known = self._rows.get(location)
        if known is None or known[0] != version:
            with translated(f"counting {location}"):
                known = (version, self.number(count_sql(location, version)))
            self._rows[location] = known  # other threads may put another version there
        return known[1]

    def history(self, location: str, limit: int | None = None) -> Sequence[StoredCommit]:
        """The newest commits of a Delta table, newest first; bounded by ``limit`` or by the log's retention."""
        text = f"DESCRIBE HISTORY {to_text(current_table(location))}" + (f" LIMIT {limit}" if limit else "")
        frame = self.spark.sql(text).selectExpr(
            "version", "unix_micros(timestamp)", "operation", "userMetadata", "operationMetrics", "operationParameters"
        )
        return [
            StoredCommit(int(row[0]), int(row[1]), row[2] or "", row[3], row[4] or {}, row[5] or {})
            for row in frame.collect()
        ]

    def newest_version(self, location: str) -> int:
        return self.history(location, 1)[0].version


@contextmanager
def _setting(session: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    before: dict[str, str | None] = {key: session.conf.get(key, None) for key in settings}
    try:
        for key, value in settings.items():
            session.conf.set(key, value)
        yield
    finally:
        for key, old in before.items():
            if old is None:
                session.conf.unset(key)
            else:
                session.conf.set(key, old)


def _even_if_overtaken(write: Callable[[], Written | None]) -> Written | None:
    """Run a tagged write, and again if a write of the same application was committed while it ran.

    That is the statement of a driver that died: on a Connect server or a cluster it may outlive its driver. The second
    time, Delta sees the tag of the first and passes over this one.
    """
    try:
        return write()
    except Exception as error:
        if "DELTA_CONCURRENT_TRANSACTION" not in str(error):
            raise
        return write()
