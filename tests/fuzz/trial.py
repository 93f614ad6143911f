"""Cases on a lake: create the views, make the commits, refresh, and compare with Spark's own answer.

The oracle is the view's text over the versions of the tables that a csn means (``tests.spark.oracle``); for a view on
views their texts are common table expressions of it. Cases that differ in their views alone run on one lake, which
costs less than one lake each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import headwater
from headwater.errors import HeadwaterError, UnsupportedSql
from tests.fuzz.case import Case
from tests.fuzz.histories import TABLES, TYPES, Contents, Row, schema, values
from tests.fuzz.queries import View
from tests.spark.oracle import WAYS, World, plain
from tests.support.bags import assert_same_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Read = Callable[[headwater.Lake, str, int | None], "DataFrame"]


def plain_read(lake: headwater.Lake, view: str, at: int | None) -> DataFrame:
    return lake.read(view) if at is None else lake.read(view, at=at)


@dataclass(frozen=True)
class Failure:
    view: str
    kind: str
    """``rows``, ``mode`` or the name of an error: what a shrunk case must share."""
    message: str
    round: int
    """The number of rounds that had been made."""
    commit: int | None = None
    """The csn inside the round whose reading was wrong, counted from the round's beginning."""


@dataclass
class Outcome:
    failures: list[Failure] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    """View and reason code."""
    unanswered: dict[str, str] = field(default_factory=dict)
    """Views whose text makes Spark itself fail, and how."""
    contents: list[tuple[Contents, ...]] = field(default_factory=list)
    """Before each round."""
    checks: int = 0


class Trial:
    """One lake."""

    def __init__(
        self,
        spark: SparkSession,
        folder: Path,
        contents: Sequence[Contents],
        *,
        supported: frozenset[str] = frozenset(),
        read: Read = plain_read,
    ) -> None:
        self.supported = supported
        self.read = read
        self.world = World(spark, headwater.connect(folder / "lake", spark=spark), folder)
        for each in contents:
            self.world.make(each.table, schema(each.table), values(each.rows))
        self.world.look()
        self.texts: dict[str, str] = {}
        self.outcome = Outcome()
        self.csn = 0
        self.rounds = 0

    def close(self) -> None:
        self.world.lake.close()

    def create(self, view: View, text: str) -> bool:
        """Whether the lake has the view now; ``text`` is what the oracle asks."""
        try:
            self.world.lake.sql(
                f"CREATE MATERIALIZED VIEW {view.name} OPTIONS (refresh = 'incremental') AS {view.text()}"
            )
        except UnsupportedSql as error:
            if error.code in self.supported:
                self.fail(view.name, f"refused {error.code}", str(error))
            else:
                self.outcome.refused[view.name] = error.code
            return False
        except Exception as error:  # noqa: BLE001 (any error is a finding)
            self.fail(view.name, f"create {_code(error)}", str(error))
            return False
        self.texts[view.name] = text
        return True

    def run(self, rounds: Sequence[Sequence[Any]]) -> Outcome:
        for commits in rounds:
            if not self.texts:
                break
            self.outcome.contents.append(self.contents())
            for commit in commits:
                self.world.run(commit.text(f"{{{commit.table}}}"))
            self.rounds += 1
            start, self.csn = self.csn, self.world.lake.capture()
            # A read at an earlier moment costs as much as half a refresh, so views take turns.
            for number, view in enumerate(list(self.texts)):
                self.refresh(view, start, look_back=number % 2 == self.rounds % 2)
        return self.outcome

    def refresh(self, view: str, start: int, *, look_back: bool) -> None:
        """Refresh and compare; ``look_back`` compares at a moment inside the round too."""
        self.world.lake._context.sizes = WAYS[(self.rounds + list(self.texts).index(view)) % len(WAYS)]
        try:
            report = self.world.lake.refresh(view)
        except Exception as error:  # noqa: BLE001 (any error is a finding)
            self.fail(view, f"refresh {_code(error)}", str(error))
            return
        if report.mode not in ("incremental", "none"):
            self.fail(view, "mode", f"{report.mode}, {report.reason}")
            return
        self.check(view, None)
        if look_back and self.csn - start > 1 and view in self.texts:
            self.check(view, (start + self.csn) // 2, start)

    def check(self, view: str, at: int | None, start: int = 0) -> None:
        from pyspark.errors import PySparkException

        csn = self.csn if at is None else at
        self.outcome.checks += 1
        try:
            expected = self.world.expected(self.texts[view], csn)
            wanted = Counter(map(plain, expected.collect()))
        except PySparkException as error:
            self.outcome.unanswered[view] = str(error)
            del self.texts[view]
            return
        commit = None if at is None else csn - start
        try:
            actual = self.read(self.world.lake, view, at)
            assert_same_schema(actual, expected)
            found = Counter(map(plain, actual.collect()))
        except AssertionError as error:
            self.fail(view, "schema", str(error), commit)
        except Exception as error:  # noqa: BLE001 (any error is a finding)
            self.fail(view, f"read {_code(error)}", str(error), commit)
        else:
            found.subtract(wanted)
            wrong = [f"{'surplus' if n > 0 else 'missing'} {abs(n)} x {row}" for row, n in found.items() if n]
            if wrong:
                self.fail(view, "rows", f"{view} at csn {csn}: {'; '.join(wrong[:6])}", commit)

    def fail(self, view: str, kind: str, message: str, commit: int | None = None) -> None:
        self.texts.pop(view, None)
        self.outcome.failures.append(Failure(view, kind, message, self.rounds, commit))

    def contents(self) -> tuple[Contents, ...]:
        found = []
        for name in self.world.tables:
            rows = self.world.table_at(name, self.csn).collect()
            found.append(Contents(name, tuple(_row(row) for row in rows)))
        return tuple(found)


def run_cases(
    spark: SparkSession, folder: Path, cases: Sequence[Case], *, supported: frozenset[str], read: Read = plain_read
) -> list[Failure | None]:
    """The first failure of each case; the cases share their contents and rounds."""
    trial = Trial(spark, folder, cases[0].contents, supported=supported, read=read)
    owner: dict[str, int] = {}
    try:
        for number, case in enumerate(cases):
            names = {view.name: f"{view.name}_{number}" for view in case.views}
            renamed = case.with_names(names)
            owner |= dict.fromkeys(names.values(), number)
            for view in renamed.views:
                if not trial.create(view, renamed.text_of(view.name)):
                    break
        trial.run(cases[0].rounds)
    finally:
        trial.close()
    found: list[Failure | None] = [None] * len(cases)
    for failure in reversed(trial.outcome.failures):
        name = failure.view.rsplit("_", 1)[0]
        found[owner[failure.view]] = replace(failure, view=name)
    return found


def is_accepted(spark: SparkSession, text: str) -> bool:
    """Whether Spark takes the text, over empty tables."""
    from pyspark.errors import PySparkException

    tables = ", ".join(f"{name} AS (SELECT {_nulls(name)} WHERE false)" for name in TABLES)
    try:
        return len(spark.sql(f"WITH {tables} SELECT * FROM ({text})").schema.fields) > 0
    except PySparkException:
        return False


def _nulls(table: str) -> str:
    return ", ".join(f"CAST(NULL AS {TYPES[kind]}) AS {name}" for name, kind in TABLES[table].items())


def _code(error: Exception) -> str:
    return error.code if isinstance(error, HeadwaterError) else type(error).__name__


def _row(row: Any) -> Row:
    return tuple(_literal(value) for value in row)


def _literal(value: Any) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case date():
            return f"DATE'{value.isoformat()}'"
        case str():
            return f"'{value}'"
        case _:
            return str(value)
