"""What a driver process (``tests.support.driver``) can be told besides the methods of ``Lake``.

Among them ``check``: a view against the oracle, which is Spark's own answer to the view's SQL text over the versions
of its tables that each csn means.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from headwater.errors import HeadwaterError
from headwater.lake import Lake

FEED = "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"


# ---------------------------------------------------------------------- tables and statements


def run(lake: Lake, *statements: str) -> list[tuple[Any, ...]]:
    """Spark's own statements, of a writer that knows nothing of Headwater; the last one's rows."""
    rows: list[tuple[Any, ...]] = []
    for text in statements:
        rows = [tuple(row) for row in lake.spark.sql(text).collect()]
    return rows


def statement(lake: Lake, text: str) -> list[tuple[Any, ...]]:
    """A statement of Headwater."""
    return [tuple(row) for row in lake.sql(text).collect()]


def status(lake: Lake) -> dict[str, Any]:
    return lake.status().as_dict()


def view(lake: Lake, name: str) -> dict[str, Any]:
    return next(each for each in status(lake)["views"] if each["name"] == name)


def propagate_to_newest(lake: Lake, name: str, rounds_until: int) -> int:
    """Propagate again and again what another process captures, until the mark is there."""
    return _again_until(lambda: lake.propagate(name), rounds_until)


def capture_until(lake: Lake, csn: int) -> int:
    return _again_until(lake.capture, csn)


def apply_to_mark(lake: Lake, name: str, rounds_until: int) -> int:
    """Bring the view to its mark, which another process moves, again and again."""
    return _again_until(lambda: lake.refresh(name, to=view(lake, name)["high_water_mark"]).csn, rounds_until)


def _again_until(act: Any, csn: int) -> int:
    deadline = time.monotonic() + 300
    while (reached := act()) < csn:
        if time.monotonic() > deadline:
            raise AssertionError(f"csn {reached}, {csn} was not reached")
        time.sleep(0.02)
    return int(reached)


def take_lease(lake: Lake, resource: str, ttl: float = 60.0) -> int:
    """Take and give back a lease by hand, as a second driver would."""
    with lake._context.catalog.lease(resource, ttl=ttl, wait=60) as lease:
        return lease.token


def view_id(lake: Lake, name: str) -> str:
    return lake._context.catalog.view(name).view_id


def commits(lake: Lake, name: str, which: str = "view") -> list[tuple[int, str, Any]]:
    """(version, operation, step) of every commit of a view's table or of its view delta, oldest first."""
    record = lake._context.catalog.view(name)
    location = record.location if which == "view" else record.delta_location
    found = lake._context.engine.history(location)
    return [(c.version, c.operation, c.facts.get("step")) for c in reversed(found)]


def in_threads(lake: Lake, calls: Sequence[tuple[str, tuple[Any, ...]]], *, own_lakes: bool) -> list[Any]:
    """Several calls at once, from threads of this process, on one lake object or on one each (and one session)."""
    import headwater

    answers: list[Any] = [None] * len(calls)
    ready = threading.Barrier(len(calls))

    def act(number: int, name: str, arguments: tuple[Any, ...]) -> None:
        mine = headwater.connect(lake.location, spark=lake.spark) if own_lakes else lake
        ready.wait()
        try:
            action = globals().get(name)
            answers[number] = action(mine, *arguments) if action else getattr(mine, name)(*arguments)
        except Exception as error:  # noqa: BLE001 (it is told to the test, which fails on it)
            answers[number] = f"{type(error).__name__}: {error}"
        finally:
            if own_lakes:
                mine.close()

    threads = [threading.Thread(target=act, args=(n, *call)) for n, call in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def write_while_refreshing(
    lake: Lake, name: str, table: str, first: int, moments: Sequence[int]
) -> tuple[int, list[str]]:
    """Refresh a view to one moment after another while another thread inserts rows into a table, one a commit.

    Both in one Spark session. How many of the inserted rows are missing, and what metadata their commits carry.
    """
    done = threading.Event()
    failures: list[BaseException] = []

    def refresh() -> None:
        try:
            for csn in moments:
                lake.refresh(name, to=csn)
        except BaseException as error:  # noqa: BLE001 (raised again below)
            failures.append(error)
        finally:
            done.set()

    before = run(lake, f"DESCRIBE HISTORY {table} LIMIT 1")[0][0]
    thread = threading.Thread(target=refresh)
    thread.start()
    written = 0
    while not done.is_set():
        run(lake, f"INSERT INTO {table} VALUES ({first + written}, 'while refreshing', NULL)")
        written += 1
    thread.join()
    if failures:
        raise failures[0]
    found = run(lake, f"SELECT count(*) FROM {table} WHERE name = 'while refreshing'")[0][0]
    history = lake.spark.sql(f"DESCRIBE HISTORY {table}").where(f"version > {before} AND userMetadata IS NOT NULL")
    return written - found, [row["userMetadata"] for row in history.collect()]


# ---------------------------------------------------------------------- the oracle


def check(lake: Lake, name: str, since: int | None = None, *, read_all: bool = False) -> dict[str, Any]:
    """The law at every csn from ``since`` (else from where the view is kept) up to the mark; where the view stands.

    From storage, both ways: what the view's table holds now, whatever version the catalog names, is the oracle's
    answer at the view's csn, and the view delta is, csn by csn, the difference between the oracle's answers. Then the
    public reads, at the view's csn and at the first and the last moment, or at every one. And no step may be open.
    """
    record = lake._context.catalog.view(name)
    standing = view(lake, name)
    first = max(standing["kept_from"], since or 0)
    moments = range(first, standing["high_water_mark"] + 1)
    wanted = {csn: oracle(lake, name, csn) for csn in {*moments, record.csn}}
    columns = ", ".join(f"`{column}`" for column, _ in record.columns)

    counted = f"SELECT __hw_count, {columns} FROM delta.`{record.location}`"
    stored = Counter({tuple(row[1:]): row[0] for row in lake.spark.sql(counted).collect()})
    _assert_same(stored, wanted[record.csn], f"the table of {name}, at csn {record.csn}")

    logged = f"SELECT __hw_csn, __hw_count, {columns} FROM delta.`{record.delta_location}` WHERE __hw_csn > {first}"
    changes: dict[int, Counter[Any]] = {}
    for csn, count, *row in lake.spark.sql(logged).collect():
        changes.setdefault(csn, Counter())[tuple(row)] += count
    for csn in moments[1:]:
        _assert_same(_net(changes.get(csn)), _net(wanted[csn], wanted[csn - 1]), f"the view delta of {name} at {csn}")

    for csn in moments if read_all else {moments[0], moments[-1]}:
        _assert_same(_bag(lake.read(name, at=csn)), wanted[csn], f"{name} read at csn {csn}")
    _assert_same(_bag(lake.read(name)), wanted[record.csn], f"{name} read at its own csn {record.csn}")
    left_open = lake._context.catalog.open_steps(record.view_id)
    assert left_open == [], left_open
    return standing


def open_steps(lake: Lake) -> list[str]:
    return [str(step) for step in lake._context.catalog.open_steps()]


@cache
def oracle(lake: Lake, name: str, csn: int) -> Counter[Any]:
    """Spark's own answer to the view's text over its tables as they were at a csn, as a bag.

    The tables, of a few rows, are read at their versions once and stand in the text as they are: Spark takes a second
    to find its way into a version of a Delta table, and a hundredth of one to join ten rows.
    """
    for table, place in tables_at(lake, csn).items():
        _contents(lake, *place).createOrReplaceTempView(table)
    return _bag(lake.spark.sql(lake._context.catalog.view(name).sql))


@cache
def _contents(lake: Lake, location: str, version: int) -> Any:
    frame = lake.spark.sql(f"SELECT * FROM delta.`{location}` VERSION AS OF {version}")
    return lake.spark.createDataFrame([tuple(row) for row in frame.collect()], frame.schema)


def tables_at(lake: Lake, csn: int) -> dict[str, tuple[str, int]]:
    """Where each table is and which version a csn means, from the unit-of-work table."""
    found: dict[str, tuple[str, int]] = {}
    for table in lake._context.catalog.base_tables():
        versions = [u.version for u in lake.units_of_work() if u.table == table.name and table.since_csn < u.csn <= csn]
        found[table.name] = (table.location, max(versions, default=table.since_version))
    return found


def _bag(frame: Any) -> Counter[Any]:
    return Counter(tuple(row) for row in frame.collect())


def _net(plus: Counter[Any] | None, minus: Counter[Any] | None = None) -> Counter[Any]:
    total = Counter(plus or {})
    total.subtract(minus or {})
    return Counter({row: count for row, count in total.items() if count})


def _assert_same(actual: Counter[Any], expected: Counter[Any], label: str) -> None:
    """Equal both ways: a difference of either kind is a count other than zero."""
    differences = _net(actual, expected)
    shown = [f"{count:+d} x {row}" for row, count in differences.most_common()[:8]]
    assert not differences, f"{label}: the bags differ (+ surplus, - missing): {', '.join(shown)}"


# ---------------------------------------------------------------------- directories


def directories(lake: Lake) -> list[str]:
    """Every table directory of the lake, as kind/name."""
    kinds = (Path(lake.location) / kind for kind in ("views", "deltas"))
    return sorted(f"{kind.name}/{each.name}" for kind in kinds if kind.is_dir() for each in kind.iterdir())


def expected_directories(lake: Lake) -> list[str]:
    """The directories of the views that have a name."""
    places = [place for each in lake._context.catalog.views() for place in (each.location, each.delta_location)]
    return sorted("/".join(Path(place).parts[-2:]) for place in places)


def failing(lake: Lake, action: str, *arguments: Any) -> str | None:
    """The code of the error that a call raises; None when it succeeds."""
    try:
        getattr(lake, action)(*arguments)
    except HeadwaterError as error:
        return error.code
    return None
