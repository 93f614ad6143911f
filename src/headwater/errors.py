"""Every error that Headwater raises.

HeadwaterError
├── NameProblem
│   ├── UnknownName            UNKNOWN_NAME
│   └── NameTaken              NAME_TAKEN
├── InvalidInput               INVALID_INPUT
├── WouldRecompute             WOULD_RECOMPUTE
├── ResponseTimeTooShort       RESPONSE_TIME_TOO_SHORT
├── NothingPending             NOTHING_PENDING
├── ServiceStopped             SERVICE_STOPPED
├── SqlProblem
│   ├── SqlSyntaxError         SQL_SYNTAX
│   ├── SqlAnalysisError       SQL_ANALYSIS
│   └── UnsupportedSql         a reason code of its own for each construct (headwater.sql.constructs)
├── SourceProblem              (what a base table can't give)
│   ├── NotADeltaTable         NOT_A_DELTA_TABLE
│   ├── ChangeFeedDisabled     CHANGE_FEED_DISABLED
│   ├── HistoryLost            HISTORY_LOST
│   ├── TableReplaced          TABLE_REPLACED
│   ├── SchemaChanged          SCHEMA_CHANGED
│   ├── MalformedMessage       MALFORMED_MESSAGE
│   ├── ContradictingMessages  CONTRADICTING_MESSAGES
│   ├── TableNotDecoded        TABLE_NOT_DECODED
│   ├── PublicationIncomplete  PUBLICATION_INCOMPLETE
│   ├── ReplicaIdentityNarrow  REPLICA_IDENTITY_NARROW
│   ├── UnsupportedType        UNSUPPORTED_TYPE
│   └── ValueRefused           VALUE_REFUSED
├── DatabaseProblem            (what a database as a whole can't give)
│   ├── DatabaseUnavailable    DATABASE_UNAVAILABLE (it may be there again later)
│   ├── DatabaseNotReady       DATABASE_NOT_READY
│   ├── SecretMissing          SECRET_MISSING
│   ├── SlotLost               SLOT_LOST
│   ├── SlotBusy               SLOT_BUSY
│   ├── PublicationMissing     PUBLICATION_MISSING
│   ├── LogUnreadable          LOG_UNREADABLE
│   └── DatabaseFailed         DATABASE_FAILED
├── MomentProblem
│   ├── MomentInFuture         MOMENT_IN_FUTURE
│   ├── MomentBeforeHistory    MOMENT_BEFORE_HISTORY
│   ├── BeyondHighWaterMark    BEYOND_HIGH_WATER_MARK
│   ├── NothingReleased        NOTHING_RELEASED
│   └── TooStale               TOO_STALE
├── CatalogProblem
│   ├── NotALake               NOT_A_LAKE
│   ├── LakeTooNew             LAKE_TOO_NEW
│   └── CatalogUnavailable     CATALOG_UNAVAILABLE
├── LeaseProblem
│   ├── LeaseHeld              LEASE_HELD
│   ├── LeaseLost              LEASE_LOST
│   └── SnapshotExpired        SNAPSHOT_EXPIRED
├── EngineProblem
│   ├── EngineUnavailable      ENGINE_UNAVAILABLE
│   ├── StorageFull            STORAGE_FULL
│   └── QueryFailed            QUERY_FAILED
│       └── ExpressionFails    EXPRESSION_FAILS
└── InternalError              INTERNAL (a broken promise of our own: please report it)

Each says what happened, what was expected, and what to do (``remedy``); ``code`` never changes its meaning, so
scripts can act on it.
"""

from __future__ import annotations

from typing import Any


class HeadwaterError(Exception):
    """The base of every error; ``str(error)`` is the message followed by the remedy."""

    code: str = "HEADWATER"

    def __init__(self, message: str, *, remedy: str | None = None, code: str | None = None, **fields: Any) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        if code is not None:
            self.code = code
        self.fields = fields

    def __str__(self) -> str:
        text = f"[{self.code}] {self.message}"
        return f"{text} {self.remedy}" if self.remedy else text

    def as_dict(self) -> dict[str, Any]:
        """What ``--json`` prints."""
        return {"code": self.code, "message": self.message, "remedy": self.remedy, **self.fields}


class NameProblem(HeadwaterError):
    pass


class UnknownName(NameProblem):
    code = "UNKNOWN_NAME"


class NameTaken(NameProblem):
    code = "NAME_TAKEN"


class InvalidInput(HeadwaterError):
    code = "INVALID_INPUT"


class WouldRecompute(HeadwaterError):
    """A refresh that its view's policy forbids."""

    code = "WOULD_RECOMPUTE"


class ResponseTimeTooShort(HeadwaterError):
    """A promise below what a refresh was measured to take; ``response_time`` and ``floor`` in seconds."""

    code = "RESPONSE_TIME_TOO_SHORT"


class NothingPending(HeadwaterError):
    """There is no change to measure with."""

    code = "NOTHING_PENDING"


class ServiceStopped(HeadwaterError):
    """``headwater run`` ends; what was asked of it is not done."""

    code = "SERVICE_STOPPED"


class SqlProblem(HeadwaterError):
    """``line`` and ``column`` count from 1 in the text that the user gave, where known."""

    def __init__(
        self,
        message: str,
        *,
        line: int | None = None,
        column: int | None = None,
        remedy: str | None = None,
        code: str | None = None,
        **fields: Any,
    ) -> None:
        where = f" (line {line}, column {column})" if line is not None else ""
        super().__init__(message + where, remedy=remedy, code=code, line=line, column=column, **fields)
        self.line = line
        self.column = column


class SqlSyntaxError(SqlProblem):
    code = "SQL_SYNTAX"


class SqlAnalysisError(SqlProblem):
    code = "SQL_ANALYSIS"


class UnsupportedSql(SqlProblem):
    """The SQL is right but can't be kept incrementally; ``code`` is the reason code of the construct."""

    code = "UNSUPPORTED"


class SourceProblem(HeadwaterError):
    """``table`` and ``version`` name what can't be read."""

    def __init__(
        self,
        message: str,
        *,
        table: str,
        version: int | None = None,
        remedy: str | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(message, remedy=remedy, code=code, table=table, version=version)
        self.table = table
        self.version = version


class NotADeltaTable(SourceProblem):
    code = "NOT_A_DELTA_TABLE"


class ChangeFeedDisabled(SourceProblem):
    code = "CHANGE_FEED_DISABLED"


class HistoryLost(SourceProblem):
    code = "HISTORY_LOST"


class TableReplaced(SourceProblem):
    code = "TABLE_REPLACED"


class SchemaChanged(SourceProblem):
    code = "SCHEMA_CHANGED"


class MalformedMessage(SourceProblem):
    """A change message that can't be read; nothing of it was taken."""

    code = "MALFORMED_MESSAGE"


class ContradictingMessages(SourceProblem):
    """Messages that can't all be true; the later one was not taken."""

    code = "CONTRADICTING_MESSAGES"


class TableNotDecoded(SourceProblem):
    """A relation of PostgreSQL whose changes its log does not tell as a table's own."""

    code = "TABLE_NOT_DECODED"


class PublicationIncomplete(SourceProblem):
    """A publication that leaves out a table, or some of its rows, columns or kinds of change."""

    code = "PUBLICATION_INCOMPLETE"


class ReplicaIdentityNarrow(SourceProblem):
    code = "REPLICA_IDENTITY_NARROW"


class UnsupportedType(SourceProblem):
    code = "UNSUPPORTED_TYPE"


class ValueRefused(SourceProblem):
    """A value that the column's Spark type can't hold without loss. The value itself is not shown."""

    code = "VALUE_REFUSED"


class DatabaseProblem(HeadwaterError):
    """``database`` names the source, never with its password."""

    def __init__(
        self, message: str, *, database: str, remedy: str | None = None, code: str | None = None, **fields: Any
    ) -> None:
        super().__init__(message, remedy=remedy, code=code, database=database, **fields)
        self.database = database


class DatabaseUnavailable(DatabaseProblem):
    code = "DATABASE_UNAVAILABLE"


class DatabaseNotReady(DatabaseProblem):
    code = "DATABASE_NOT_READY"


class SecretMissing(DatabaseProblem):
    code = "SECRET_MISSING"


class SlotLost(DatabaseProblem):
    """Changes between what was read and what the slot still has are gone: only ``resync`` finds them again."""

    code = "SLOT_LOST"


class SlotBusy(DatabaseProblem):
    code = "SLOT_BUSY"


class PublicationMissing(DatabaseProblem):
    code = "PUBLICATION_MISSING"


class LogUnreadable(DatabaseProblem):
    code = "LOG_UNREADABLE"


class DatabaseFailed(DatabaseProblem):
    code = "DATABASE_FAILED"


class MomentProblem(HeadwaterError):
    pass


class MomentInFuture(MomentProblem):
    code = "MOMENT_IN_FUTURE"


class MomentBeforeHistory(MomentProblem):
    code = "MOMENT_BEFORE_HISTORY"


class BeyondHighWaterMark(MomentProblem):
    code = "BEYOND_HIGH_WATER_MARK"


class NothingReleased(MomentProblem):
    """There is no release yet that a snapshot could read."""

    code = "NOTHING_RELEASED"


class TooStale(MomentProblem):
    """``staleness`` and ``max_staleness`` in seconds: how old the oldest change is that a snapshot would not show."""

    code = "TOO_STALE"

    def __init__(self, message: str, *, staleness: float, max_staleness: float, remedy: str | None = None) -> None:
        super().__init__(message, remedy=remedy, staleness=staleness, max_staleness=max_staleness)
        self.staleness = staleness
        self.max_staleness = max_staleness


class CatalogProblem(HeadwaterError):
    pass


class NotALake(CatalogProblem):
    code = "NOT_A_LAKE"


class LakeTooNew(CatalogProblem):
    code = "LAKE_TOO_NEW"


class CatalogUnavailable(CatalogProblem):
    code = "CATALOG_UNAVAILABLE"


class LeaseProblem(HeadwaterError):
    pass


class LeaseHeld(LeaseProblem):
    code = "LEASE_HELD"


class LeaseLost(LeaseProblem):
    code = "LEASE_LOST"


class SnapshotExpired(LeaseProblem):
    """A reader's lease ran out and garbage collection came by: its moment may be gone."""

    code = "SNAPSHOT_EXPIRED"


class EngineProblem(HeadwaterError):
    pass


class EngineUnavailable(EngineProblem):
    code = "ENGINE_UNAVAILABLE"


class StorageFull(EngineProblem):
    code = "STORAGE_FULL"


class QueryFailed(EngineProblem):
    code = "QUERY_FAILED"


class ExpressionFails(QueryFailed):
    """An expression of the view's text has no value over some row: a division by zero, text that is no number."""

    code = "EXPRESSION_FAILS"


class InternalError(HeadwaterError):
    code = "INTERNAL"


def by_code() -> dict[str, type[HeadwaterError]]:
    """Every class that has a code of its own, by that code."""
    found: dict[str, type[HeadwaterError]] = {}
    pending: list[type[HeadwaterError]] = [HeadwaterError]
    while pending:
        cls = pending.pop()
        pending.extend(cls.__subclasses__())
        if "code" in cls.__dict__:
            found[cls.code] = cls
    return found


OF_THE_LAKE = (CatalogProblem, EngineUnavailable, InternalError, LeaseLost, StorageFull)
"""What is wrong with more than the one view that met it first."""
