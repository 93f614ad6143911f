"""Delta tables as sources: what a table is, which commits it has, and which of them change data.

Everything is asked in SQL (DESCRIBE DETAIL, DESCRIBE HISTORY, the change feed), so that it works wherever Spark can
read the table, through Connect too.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from headwater.engine.failures import reading_table, translated
from headwater.engine.spark import SparkEngine, StoredCommit
from headwater.errors import ChangeFeedDisabled, HistoryLost, NotADeltaTable, TableReplaced
from headwater.sql.dialect import quoted, to_text
from headwater.sql.relations import current_table
from headwater.sql.storage import changed_rows_sql

# Commits that rearrange files or change settings; whatever is not listed is taken to change data.
NO_DATA_CHANGE = frozenset(
    {
        "OPTIMIZE",
        "REORG",
        "VACUUM START",
        "VACUUM END",
        "FSCK",
        "SET TBLPROPERTIES",
        "UNSET TBLPROPERTIES",
        "ADD COLUMNS",
        "CHANGE COLUMN",
        "CHANGE COLUMNS",
        "RENAME COLUMN",
        "DROP COLUMNS",
        "REPLACE COLUMNS",
        "ADD CONSTRAINT",
        "DROP CONSTRAINT",
        "CLUSTER BY",
        "UPGRADE PROTOCOL",
        "ADD FEATURE",
        "DROP FEATURE",
        "COMPUTE STATS",
        "ROW TRACKING BACKFILL",
        "ROW TRACKING UNBACKFILL",
        "SET ACTIVE CONSTRAINTS",
    }
)
REPLACING = frozenset(
    {"CREATE OR REPLACE TABLE", "REPLACE TABLE", "CREATE OR REPLACE TABLE AS SELECT", "REPLACE TABLE AS SELECT"}
)
_FEED = "delta.enableChangeDataFeed"
_MAPPING = "delta.columnMapping.mode"
_LOOKS = (5, 100, None)  # commits to look at: nearly always the first few are all that is new


@dataclass(frozen=True, slots=True)
class DeltaTable:
    location: str
    uuid: str
    columns: tuple[tuple[str, str], ...]
    change_feed: bool


class DeltaSource:
    def __init__(self, engine: SparkEngine) -> None:
        self.engine = engine

    def describe(self, name: str, where: str) -> DeltaTable:
        """``where`` is a path, a URI, or the name of a table in Spark's catalog."""
        target = self._identifier(where)
        try:
            row = self.engine.query(f"DESCRIBE DETAIL {target}").collect()[0]  # one row
        except Exception as error:
            raise NotADeltaTable(
                f"{where!r} is not a Delta table that Spark can read: {str(error).splitlines()[0][:300]}",
                table=name,
                remedy="Give the path or URI of a Delta table, or its name in Spark's catalog.",
            ) from error
        if row["format"] != "delta":
            raise NotADeltaTable(
                f"{where!r} is a table of format {row['format']}, not a Delta table.",
                table=name,
                remedy=f"Convert it first, for instance with CONVERT TO DELTA {row['format']}.`<path>`.",
            )
        location = _plain(row["location"])
        with translated(f"reading the columns of {where}"):
            columns = self.engine.columns(self.engine.query(f"SELECT * FROM {to_text(current_table(location))}"))
        feed = str((row["properties"] or {}).get(_FEED, "false")).lower() == "true"
        return DeltaTable(location, row["id"], columns, feed)

    def described(self, name: str, where: str) -> list[tuple[str, str]]:
        """The first two columns of DESCRIBE TABLE EXTENDED."""
        with translated(f"reading the description of {name}"):
            rows = self.engine.query(f"DESCRIBE TABLE EXTENDED {self._identifier(where)}").collect()  # its columns
        return [(row[0] or "", row[1] or "") for row in rows]

    def _identifier(self, where: str) -> str:
        if "/" in where or "\\" in where:
            return to_text(current_table(where))
        parts = [part.strip("`") for part in re.findall(r"`[^`]+`|[^.]+", where)]
        return ".".join(to_text(quoted(part)) for part in parts)

    def enable_change_feed(self, location: str) -> None:
        with translated(f"switching on the change feed of {location}"):
            self.engine.query(f"ALTER TABLE {to_text(current_table(location))} SET TBLPROPERTIES ('{_FEED}' = 'true')")

    def commits_after(
        self, table: str, location: str, uuid: str, version: int, timestamp: int
    ) -> Sequence[StoredCommit]:
        """The commits after a known one, oldest first.

        The table must still be the same one: a known commit with another timestamp is a sign that it was dropped and
        made anew (or copied, which changes file times), and then its identifier decides.
        """
        with reading_table(table, version + 1, f"reading the history of {table}"):
            for limit in _LOOKS:
                found = self.engine.history(location, limit)
                if found[-1].version <= version or limit is None or len(found) < limit:
                    break
        known = next((commit for commit in found if commit.version == version), None)
        other = known is not None and known.timestamp != timestamp and self.describe(table, location).uuid != uuid
        if found[0].version < version or other:
            raise TableReplaced(
                f"{table!r} at {location} is not the table that was tracked: version {version} is "
                + ("missing" if known is None else "another commit now")
                + "; it was dropped and made anew.",
                table=table,
                version=version,
                remedy=f"Start over from its present with lake.resync({table!r}) (headwater resync {table}).",
            )
        new = sorted((commit for commit in found if commit.version > version), key=lambda commit: commit.version)
        if known is None and (not new or new[0].version != version + 1):
            raise HistoryLost(
                f"The commits of {table!r} from version {version + 1} on are no longer in its log; the oldest is "
                f"{found[-1].version}.",
                table=table,
                version=version + 1,
                remedy=f"Start over from its present with lake.resync({table!r}) (headwater resync {table}), and "
                "capture more often than the log is cleaned (delta.logRetentionDuration).",
            )
        return new

    def renaming_commits(self, table: str, location: str, versions: Collection[int]) -> list[StoredCommit]:
        """Of some commits those that may rename or drop columns; none of them may be missing from the log."""
        first = min(versions)
        with reading_table(table, first, f"reading the history of {table}"):
            for limit in _LOOKS:
                found = self.engine.history(location, limit)
                if found[-1].version <= first or limit is None or len(found) < limit:
                    break
            wanted = [commit for commit in found if commit.version in versions]
            if len(wanted) == len(versions):
                return wanted
            described = self.engine.query(f"DESCRIBE DETAIL {to_text(current_table(location))}").collect()[0]  # one row
        if (described["properties"] or {}).get(_MAPPING, "none") == "none":  # columns keep the names in their files
            return []
        raise HistoryLost(
            f"The commits of {table!r} from version {first} on are no longer in its log, so nobody knows whether "
            "its columns are the same ones.",
            table=table,
            version=first,
            remedy=f"Start over from its present with lake.resync({table!r}) (headwater resync {table}).",
        )

    def check_readable(self, table: str, commits: Sequence[StoredCommit]) -> None:
        """Raise unless the changes of these commits are in the change feed of one and the same table."""
        remedy = f"Start over from its present with lake.resync({table!r}) (headwater resync {table})"
        for commit in commits:
            if commit.operation in REPLACING:
                raise TableReplaced(
                    f"{table!r} was replaced ({commit.operation}) at version {commit.version}.",
                    table=table,
                    version=commit.version,
                    remedy=f"{remedy}; use INSERT OVERWRITE to change all rows of a tracked table.",
                )
            if _switches_feed_off(commit):
                raise ChangeFeedDisabled(
                    f"The change feed of {table!r} was switched off at version {commit.version}; changes from there "
                    "on are not known.",
                    table=table,
                    version=commit.version,
                    remedy=f"Switch it on again and then: {remedy}.",
                )

    def changed_rows(self, table: str, location: str, versions: Sequence[int]) -> dict[int, int]:
        """Changed rows by version."""
        with reading_table(table, versions[-1], f"counting the changes of {table}"):
            rows = self.engine.compute(changed_rows_sql(location, versions)).collect()  # one row a commit
        return {int(row[0]): int(row[1]) for row in rows}

    def require_change_feed(self, name: str, table: DeltaTable) -> None:
        if not table.change_feed:
            raise ChangeFeedDisabled(
                f"The change feed of {name!r} at {table.location} is off, so its changes would not be known.",
                table=name,
                remedy=f"Switch it on: lake.track({name!r}, ..., enable_change_feed=True) "
                "(headwater track --enable-change-feed), or ALTER TABLE ... SET TBLPROPERTIES "
                f"('{_FEED}' = 'true'). It costs some writing on UPDATE, DELETE and MERGE.",
            )


def _switches_feed_off(commit: StoredCommit) -> bool:
    settings = commit.parameters.get("properties") or ""
    match commit.operation:
        case "SET TBLPROPERTIES":
            return bool(re.search(rf'"{re.escape(_FEED)}"\s*:\s*"false"', settings, re.IGNORECASE))
        case "UNSET TBLPROPERTIES":
            return f'"{_FEED}"' in settings
        case _:
            return False


def rows_of(commit: StoredCommit) -> int | None:
    """Rows that a commit changed, where its metrics tell all of it."""
    metrics = commit.metrics

    def number(*names: str) -> int:
        return sum(int(metrics.get(name, 0)) for name in names)

    match commit.operation:
        case "WRITE" if number("numRemovedFiles", "numDeletedRows") == 0 and "numOutputRows" in metrics:
            return number("numOutputRows")
        case "STREAMING UPDATE" if number("numRemovedFiles") == 0 and "numOutputRows" in metrics:
            return number("numOutputRows")
        case "MERGE":
            return number("numTargetRowsInserted", "numTargetRowsDeleted") + 2 * number("numTargetRowsUpdated")
        case "UPDATE":
            return 2 * number("numUpdatedRows")
        case "DELETE" if "numDeletedRows" in metrics:
            return number("numDeletedRows")
        case _:
            return None


def _plain(location: str) -> str:
    """``file:/path`` as ``/path``; other URIs as they are."""
    return re.sub(r"^file:(//)?(?=/)", "", location)
