"""Spark's and Delta's exceptions as Headwater's errors.

What the error condition tells gets its own class and remedy; the rest becomes QueryFailed with the first lines of the
original, which stays attached as the cause.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import AnalysisException, ParseException, PySparkException

from headwater.errors import (
    ChangeFeedDisabled,
    EngineUnavailable,
    ExpressionFails,
    HeadwaterError,
    HistoryLost,
    QueryFailed,
    SchemaChanged,
    SqlAnalysisError,
    SqlSyntaxError,
    StorageFull,
)

_FULL = ("No space left on device", "Disk quota exceeded", "disk is full", "There is not enough space")
_GONE = ("Connection refused", "Failed to connect", "UNAVAILABLE", "SparkContext was shut down", "stopped SparkContext")
_LOST_HISTORY = (
    "DELTA_VERSION_NOT_FOUND",
    "DELTA_CDC_START_VERSION_AFTER_LATEST",
    "DELTA_TRUNCATED_TRANSACTION_LOG",
    "DELTA_LOG_FILE_NOT_FOUND",
    "DELTA_FILE_NOT_FOUND",
    "FAILED_READ_FILE",
    "FILE_NOT_EXIST",
)
# A data exception, a subquery of several rows, raise_error: the text itself, not its surroundings.
_NO_VALUE = re.compile(r"SQLSTATE: (?:22\d{3}|21000|P0001)\b|\[USER_RAISED_EXCEPTION\]")
_RESYNC = (
    "Start over from its present with lake.resync({table!r}) (headwater resync {table}); views on it are then rebuilt."
)


def condition(error: BaseException) -> str:
    """Spark's stable name of an error, or nothing."""
    if isinstance(error, PySparkException):
        return error.getCondition() or ""
    return ""


def _first_lines(error: BaseException) -> str:
    lines = [line for line in str(error).splitlines() if line.strip() and not line.lstrip().startswith("at ")]
    return " ".join(lines[:2])[:500]


def is_driver_failure(error: BaseException) -> bool:
    """Whether an exception comes from Spark, its bridge to Java, or its network."""
    module = type(error).__module__
    return isinstance(error, PySparkException) or module.startswith(("py4j", "grpc", "pyspark"))


def translate(error: BaseException, doing: str) -> HeadwaterError:
    text = str(error)
    if any(sign in text for sign in _FULL):
        return StorageFull(
            f"The disk is full; {doing} was not done.", remedy="Free some space and run it again: nothing is half done."
        )
    if not isinstance(error, PySparkException) and any(sign in text for sign in _GONE):
        return EngineUnavailable(
            f"Spark does not answer; {doing} was not done.", remedy="Start the session again and run it again."
        )
    if no_value := _NO_VALUE.search(text):
        found = next((line for line in text.splitlines() if no_value[0] in line), text)
        return ExpressionFails(
            f"The view's text fails over some row while {doing}: {found[max(0, found.find('[')) :][:500]}",
            remedy="Correct the row in its table, or write the text so that it does not fail (try_divide, try_cast); "
            "nothing is half done.",
            condition=condition(error),
        )
    return QueryFailed(
        f"Spark failed while {doing}: {_first_lines(error)}",
        remedy="The cause is attached; nothing is half done, so it can be run again.",
        condition=condition(error),
    )


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Errors of anything Spark does on our own account."""
    try:
        yield
    except HeadwaterError:
        raise
    except Exception as error:
        if is_driver_failure(error):
            raise translate(error, doing) from error
        raise


@contextmanager
def user_sql() -> Iterator[None]:
    """Errors of a text that the user wrote."""
    try:
        yield
    except (ParseException, AnalysisException) as error:
        place = re.search(r"line (\d+),? pos (\d+)", str(error))
        line, column = (int(place[1]), int(place[2]) + 1) if place else (None, None)
        kind = SqlSyntaxError if isinstance(error, ParseException) else SqlAnalysisError
        message = re.sub(r"\s*SQLSTATE:.*", "", _first_lines(error))
        raise kind(
            f"Spark refuses the query: {message}",
            line=line,
            column=column,
            remedy="Correct the text; nothing was created.",
            condition=condition(error),
        ) from error


@contextmanager
def reading_table(table: str, version: int, doing: str) -> Iterator[None]:
    """Errors of a read of one base table's version or of its changes up to it."""
    try:
        yield
    except HeadwaterError:
        raise
    except Exception as error:
        raise table_failure(error, table, version, doing) from error


def after_a_change_of_columns(table: str) -> str:
    """Putting a column back would not help: there are changed rows that were written without it."""
    return (
        "Drop the view and create it again on the columns that there are; to keep it, on whatever has the old names "
        f"now, start over with lake.resync({table!r}) (headwater resync {table})."
    )


def table_failure(error: Exception, table: str, version: int, doing: str) -> HeadwaterError:
    name = condition(error)
    text = f"{name} {error}"
    if name.startswith("DELTA_MISSING_CHANGE_DATA"):
        found = re.search(r"not recorded for version \[(\d+)\]", text)
        at = int(found[1]) if found else version
        return ChangeFeedDisabled(
            f"The change feed of {table!r} was off at version {at}, so the changes there are not known.",
            table=table,
            version=at,
            remedy=_RESYNC.format(table=table),
        )
    overwritten = "INCOMPATIBLE" in name and "SCHEMA" in name
    if overwritten or name.startswith("UNRESOLVED_COLUMN"):
        # Where columns are not mapped by name, Delta reads no feed once any of them is gone.
        which = "" if overwritten else " that the view uses"
        return SchemaChanged(
            f"A column of {table!r}{which} was dropped, renamed or retyped by version {version}: {_first_lines(error)}",
            table=table,
            version=version,
            remedy=after_a_change_of_columns(table),
        )
    if any(sign in text for sign in _LOST_HISTORY) or "FileNotFound" in text or "does not exist" in text:
        return HistoryLost(
            f"Version {version} of {table!r} can't be read any more: {_first_lines(error)}",
            table=table,
            version=version,
            remedy=_RESYNC.format(table=table) + " Keep more history, or VACUUM later, to avoid this.",
        )
    if is_driver_failure(error):
        return translate(error, doing)
    raise error
