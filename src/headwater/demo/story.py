"""The demo from beginning to end."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from headwater.demo.changes import one_round
from headwater.demo.check import compare, recompute
from headwater.demo.report import Check, DemoReport, Narrator
from headwater.demo.schedule import ReadAt, ToCsn, ToNewest, ToTimestamp, Visit, visits
from headwater.demo.tpch import generate, load
from headwater.demo.views import VIEWS
from headwater.engine.session import TINY_DATA, local_session
from headwater.errors import InvalidInput
from headwater.lake import Lake, connect
from headwater.values import RefreshReport

MARKER = "headwater-demo"
MOST_ROUNDS = 20

# The same for incremental maintenance and recomputation, which are compared.
_SMALL = 0.02
_SHORT_LIVED = TINY_DATA | {
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC",
}


def run(into: Path, narrator: Narrator, *, scale_factor: float = 0.01, rounds: int = 2) -> DemoReport:
    """Make the lake in ``into`` and leave it there; every answer is compared with Spark's own."""
    started = time.monotonic()
    if not 0 < scale_factor <= 10:
        raise InvalidInput(f"A scale factor of {scale_factor} is out of range.", remedy="Give one above 0, up to 10.")
    if not 1 <= rounds <= MOST_ROUNDS:
        raise InvalidInput(f"{rounds} rounds of changes are out of range.", remedy=f"Give 1 to {MOST_ROUNDS}.")
    folder = into.absolute()
    prepare(folder)
    parquet, scratch = folder / "parquet", folder / "recomputed"

    narrator.busy(f"generating TPC-H data at scale factor {scale_factor}")
    generate(parquet, scale_factor)
    narrator.busy("starting Spark")
    spark = local_session("headwater-demo", extra=_SHORT_LIVED if scale_factor <= _SMALL else None)
    with connect(folder, spark=spark, progress=narrator.busy) as lake:
        places = load(spark, parquet, folder / "tables", rounds, narrator.busy)
        for name, place in places.items():
            narrator.busy(f"tracking {name}")
            lake.track(name, place)
        narrator.say(f"tracked {len(places)} Delta tables: {', '.join(places)}")
        for view in VIEWS:
            lake.sql(f"CREATE MATERIALIZED VIEW {view.name} AS\n{view.text}")
        narrator.say(f"created {len(VIEWS)} materialized views: {', '.join(view.name for view in VIEWS)}")

        checks: list[Check] = []
        for number in range(rounds):
            before = lake.status().newest_csn
            one_round(lake, parquet, places, number, narrator)
            narrator.busy("capturing the commits")
            newest = lake.capture()
            narrator.changed([unit for unit in lake.units_of_work() if unit.csn > before])
            for visit in visits(number, rounds, range(before + 1, newest + 1)):
                check = _carry_out(lake, visit, scratch / f"{len(checks)}", narrator)
                narrator.checked(check)
                checks.append(check)
    for leftover in (parquet, scratch):
        shutil.rmtree(leftover, ignore_errors=True)
    return DemoReport(str(folder), scale_factor, rounds, time.monotonic() - started, tuple(checks))


def prepare(folder: Path) -> None:
    """An empty folder with the demo's mark; what another demo left there is removed, and nothing else ever."""
    if folder.exists() and not folder.is_dir():
        raise InvalidInput(f"{folder} is a file.", remedy="Give --into another folder.")
    if folder.is_dir() and any(folder.iterdir()):
        if not (folder / MARKER).exists():
            raise InvalidInput(
                f"{folder} is not empty and not a demo's lake; it was left alone.", remedy="Give --into another folder."
            )
        shutil.rmtree(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / MARKER).write_text("Made by `headwater demo`, which removes this folder when it is run again.\n")
    except OSError as error:
        raise InvalidInput(
            f"{folder} can't be made: {error.strerror}.", remedy="Give --into another folder."
        ) from error


def _carry_out(lake: Lake, visit: Visit, place: Path, narrator: Narrator) -> Check:
    view = visit.view
    definition = next(each for each in VIEWS if each.name == view)
    started = time.monotonic()
    match visit:
        case ReadAt(csn=csn):
            action, moment = "read", f"csn {csn}"
            narrator.busy(f"{view}: reading at csn {csn}")
            stored = str(place.with_name(f"{place.name}-read"))
            lake.read(view, at=csn).write.format("delta").save(stored)
            answer = lake.spark.read.format("delta").load(stored)
            report = RefreshReport(view, csn, csn, "read", "", 0, time.monotonic() - started)
        case ToNewest():
            report = lake.refresh(view)
            action, moment = "refresh", "newest"
            answer = lake.read(view)
        case ToCsn(csn=csn):
            back = csn < next(status.csn for status in lake.status().views if status.name == view)
            report = lake.refresh(view, to=csn)
            action, moment = "refresh", f"back to csn {csn}" if back else f"csn {csn}"
            answer = lake.read(view)
        case ToTimestamp(csn=csn):
            at = next(unit.committed_at for unit in lake.units_of_work() if unit.csn == csn)
            report = lake.refresh(view, to=at.isoformat())
            action, moment = "refresh", at.strftime("at %H:%M:%S.%f")[:-3]
            answer = lake.read(view)
    narrator.busy(f"{view}: recomputing at csn {report.csn} to compare")
    recomputed = recompute(lake, definition, report.csn, place)
    narrator.busy(f"{view}: comparing")
    rows, surplus, missing = compare(answer, recomputed.answer)
    return Check(
        view=view,
        action=action,
        moment=moment,
        csn=report.csn,
        mode=report.mode,
        rows_changed=None if isinstance(visit, ReadAt) else report.rows,
        rows=rows,
        incremental_seconds=report.seconds,
        recompute_seconds=recomputed.seconds,
        surplus=surplus,
        missing=missing,
    )
