"""The fixed cost of a refresh.

A join view of three tables (1,000,000 facts, 100,000 and 1,000 dimension rows) is refreshed for changes of 100 rows:
inserted, updated in place (scattered over the table) and deleted. Beside each refresh, in the same session, the same
100 rows are merged by key into a plain Delta table with the view's columns and rows: the least that anybody who keeps
such a table must do. The two take turns, and the figure is the median, after warm-up, of each refresh's ratio to the
MERGE beside it.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.apply.driver import apply
from headwater.bench.observed import SETTINGS, Observer, Work
from headwater.bench.report import at_most, write
from headwater.capture.driver import capture
from headwater.engine.session import describe_machine, local_session
from headwater.lake import Lake, connect
from headwater.propagate.driver import propagate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LIMIT = 2.5
CHANGED = 100
WARM_UP = 2
ROUNDS = 5
FACTS = 1_000_000
VIEW = """SELECT f.id, f.amount, f.note, c.name, p.part
FROM facts f JOIN customers c ON f.customer = c.customer JOIN parts p ON f.part_key = p.part_key"""
_FACT = (
    "id, id % 100000 AS customer, id % 1000 AS part_key, CAST(id % 977 AS DECIMAL(12, 2)) AS amount, "
    "concat('note ', id) AS note"
)


def run(*, sf: float | None, json_path: Path | None, progress: Callable[[str], None]) -> dict[str, Any]:
    facts = int(FACTS * (sf or 1))
    folder = Path(tempfile.mkdtemp(prefix="headwater-fixed-cost-"))
    spark = local_session("headwater-bench", master="local[2]", memory="3g", extra=SETTINGS)
    try:
        progress(f"making {facts:,} facts in {folder}")
        _tables(spark, folder, facts)
        with connect(folder / "lake", spark=spark) as lake:
            for name in ("facts", "customers", "parts"):
                lake.track(name, folder / name)
            progress("computing the view")
            lake.sql(f"CREATE MATERIALIZED VIEW joined AS {VIEW}")
            lake.read("joined").repartition(10).write.format("delta").save(str(folder / "plain"))
            rounds = _rounds(spark, lake, folder, facts, progress)
            equal = _equal(spark, lake, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return _report(spark, facts, rounds, equal, json_path)


def _tables(spark: SparkSession, folder: Path, facts: int) -> None:
    def make(name: str, files: int, select: str) -> None:
        frame = spark.sql(select).repartition(files)
        frame.write.format("delta").option("delta.enableChangeDataFeed", "true").save(str(folder / name))

    make("facts", 10, f"SELECT {_FACT} FROM range({facts})")
    make("customers", 2, "SELECT id AS customer, concat('customer ', id) AS name FROM range(100000)")
    make("parts", 1, "SELECT id AS part_key, concat('part ', id) AS part FROM range(1000)")


def _rounds(
    spark: SparkSession, lake: Lake, folder: Path, facts: int, progress: Callable[[str], None]
) -> list[dict[str, Any]]:
    observer = Observer(spark)
    table = f"delta.`{folder / 'facts'}`"
    step = facts // CHANGED
    found = []
    for number in range(WARM_UP + ROUNDS):
        first = 10 * facts + number * CHANGED
        inserted = f"id BETWEEN {first} AND {first + CHANGED - 1}"
        changes = {
            "insert": (f"INSERT INTO {table} SELECT {_FACT} FROM range({first}, {first + CHANGED})", inserted),
            "update": (
                f"UPDATE {table} SET amount = amount + 1 WHERE id % {step} = {number} AND id < {facts}",
                f"id % {step} = {number} AND id < {facts}",
            ),
            "delete": (f"DELETE FROM {table} WHERE {inserted}", inserted),
        }
        for kind, (statement, where) in changes.items():
            progress(f"round {number + 1} of {WARM_UP + ROUNDS}: {kind} of {CHANGED} rows")
            spark.sql(statement)
            parts, csn = _refresh(observer, lake)
            bare = _bare_merge(spark, observer, lake, folder, kind, where)
            ratio = sum(work.seconds for work in parts.values()) / bare.seconds
            if number >= WARM_UP:
                found.append({"kind": kind, "csn": csn, "parts": parts, "bare": bare, "ratio": ratio})
    return found


def _refresh(observer: Observer, lake: Lake) -> tuple[dict[str, Work], int]:
    context = lake._context  # noqa: SLF001 (the drivers one by one, to time each)
    with observer.watch() as capturing:
        csn = capture(context).csn
    with observer.watch() as propagating:
        propagate(context, "joined", csn)
    with observer.watch() as applying:
        applied = apply(context, "joined", csn)
    applying.extra["rows"] = applied.rows
    return {"capture": capturing, "propagate": propagating, "apply": applying}, csn


def _bare_merge(spark: SparkSession, observer: Observer, lake: Lake, folder: Path, kind: str, where: str) -> Work:
    """The same change, merged by key into a plain table; its rows lie ready in a small table, which is not timed."""
    staged = str(folder / "staged")
    if kind == "delete":
        rows = spark.sql(f"SELECT *, true AS gone FROM delta.`{folder / 'plain'}` WHERE {where}")
    else:
        rows = lake.read("joined").where(where).selectExpr("*", "false AS gone")
    rows.coalesce(1).write.format("delta").mode("overwrite").save(staged)
    columns = ("amount", "note", "name", "part")
    text = (
        f"MERGE INTO delta.`{folder / 'plain'}` t USING delta.`{staged}` s ON t.id = s.id "
        "WHEN MATCHED AND s.gone THEN DELETE "
        f"WHEN MATCHED THEN UPDATE SET {', '.join(f't.{c} = s.{c}' for c in columns)} "
        f"WHEN NOT MATCHED THEN INSERT (id, {', '.join(columns)}) VALUES (s.id, {', '.join(f's.{c}' for c in columns)})"
    )
    with observer.watch() as work:
        affected = spark.sql(text).collect()[0][0]  # one row of metrics
    work.extra["rows"] = affected
    return work


def _equal(spark: SparkSession, lake: Lake, folder: Path) -> bool:
    """View, plain table and recomputation hold the same rows at the end."""
    view = lake.read("joined")
    for name in ("facts", "customers", "parts"):
        spark.read.format("delta").load(str(folder / name)).createOrReplaceTempView(name)
    others = [spark.read.format("delta").load(str(folder / "plain")), spark.sql(VIEW)]
    return all(not view.exceptAll(other).count() and not other.exceptAll(view).count() for other in others)


def _report(
    spark: SparkSession, facts: int, rounds: list[dict[str, Any]], equal: bool, json_path: Path | None
) -> dict[str, Any]:
    kinds = {}
    for kind in ("insert", "update", "delete"):
        own = [each for each in rounds if each["kind"] == kind]
        phases = {phase: _median([each["parts"][phase] for each in own]) for phase in ("capture", "propagate", "apply")}
        bare = _median([each["bare"] for each in own])
        refresh = statistics.median(sum(w.seconds for w in each["parts"].values()) for each in own)
        kinds[kind] = {
            "refresh_seconds": round(refresh, 3),
            "bare_merge_seconds": bare["seconds"],
            "ratio": round(statistics.median(each["ratio"] for each in own), 3),
            "ratios": [round(each["ratio"], 3) for each in own],
            "phases": phases,
            "bare_merge": bare,
        }
    overall = statistics.median(each["ratio"] for each in rounds)
    report = {
        "benchmark": "fixed-cost",
        "command": "headwater bench fixed-cost",
        "machine": describe_machine(spark),
        "data": {"facts": facts, "customers": 100_000, "parts": 1_000, "changed_rows": CHANGED, "rounds": ROUNDS},
        "view": VIEW,
        "equal": equal,
        "kinds": kinds,
        "ratio": round(overall, 3),
    }
    targets = [at_most("refresh of 100 rows / bare MERGE of the same rows", LIMIT, overall)]
    targets += [at_most(f"the same, {kind} only", LIMIT, found["ratio"]) for kind, found in kinds.items()]
    if json_path is not None:
        _draw(kinds, json_path.with_suffix(".svg"))
    return write(json_path, report, targets)


def _median(works: list[Work]) -> dict[str, Any]:
    def middle(name: str) -> float:
        return float(statistics.median(getattr(work, name) for work in works))

    return {
        "seconds": round(middle("seconds"), 3),
        **{name: int(middle(name)) for name in ("jobs", "tasks", "files_read", "rows_read", "bytes_read")},
    }


def _draw(kinds: dict[str, Any], path: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 3.2))
    colours = {"capture": "#9ecae1", "propagate": "#4292c6", "apply": "#08519c"}
    for position, (_kind, found) in enumerate(kinds.items()):
        left = 0.0
        for phase, colour in colours.items():
            width = found["phases"][phase]["seconds"]
            axes.barh(position + 0.18, width, 0.34, left=left, color=colour, label=phase if position == 0 else None)
            left += width
        axes.barh(
            position - 0.18,
            found["bare_merge_seconds"],
            0.34,
            color="#fd8d3c",
            label="bare MERGE" if position == 0 else None,
        )
        axes.text(left, position + 0.18, f"  {found['ratio']:.2f}x", va="center", fontsize=9)
    axes.set_yticks(range(len(kinds)), [f"{kind} 100 rows" for kind in kinds])
    axes.invert_yaxis()
    axes.set_xlabel("seconds (median)")
    axes.set_title("Refresh of a three-table join view beside the bare MERGE of the same rows", fontsize=10)
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path)
    pyplot.close(figure)
