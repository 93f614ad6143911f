"""What a driver process (``tests.support.driver``) can be told besides the methods of ``Lake``.

Among them ``check``: a view against the oracle, which is Spark's own answer to the view's SQL text over the versions
of its tables that each csn means.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headwater.errors import HeadwaterError
from headwater.lake import Lake
from tests.support.bags import assert_bag_equal

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


# ---------------------------------------------------------------------- the oracle


def check(lake: Lake, name: str, since: int | None = None) -> dict[str, Any]:
    """The law at every csn from ``since`` (else from where the view is kept) up to the mark; where the view stands.

    Four things, each both ways: the public read at every csn; the view delta, summed csn by csn from storage; what
    the view's table itself holds now, whatever version the catalog names; and that no step is open.
    """
    record = lake._context.catalog.view(name)
    standing = view(lake, name)
    first = max(standing["kept_from"], since or 0)
    moments = range(first, standing["high_water_mark"] + 1)
    columns = ", ".join(f"`{column}`" for column, _ in record.columns)
    assert_bag_equal(
        _by_csn({csn: lake.read(name, at=csn) for csn in moments}),
        _by_csn({csn: oracle(lake, record.sql, csn) for csn in moments}),
        label=f"{name} read at csns {first} to {standing['high_water_mark']}",
    )
    delta = lake.spark.sql(
        f"SELECT __hw_csn, {columns}, SUM(__hw_count) FROM delta.`{record.delta_location}` "
        f"WHERE __hw_csn > {first} AND __hw_csn <= {standing['high_water_mark']} "
        f"GROUP BY __hw_csn, {columns} HAVING SUM(__hw_count) <> 0"
    )
    _assert_delta(lake, record.sql, delta, moments, columns, name)
    stored = lake.spark.sql(
        f"SELECT {columns} FROM (SELECT {columns}, explode(sequence(1, __hw_count)) FROM delta.`{record.location}`)"
    )
    assert_bag_equal(stored, oracle(lake, record.sql, record.csn), label=f"the table of {name}, at csn {record.csn}")
    assert_bag_equal(lake.read(name), oracle(lake, record.sql, record.csn), label=f"{name} at csn {record.csn}")
    left_open = lake._context.catalog.open_steps()
    assert left_open == [], left_open
    return standing


def _assert_delta(lake: Lake, text: str, delta: Any, moments: range, columns: str, name: str) -> None:
    """The view delta at each csn is the difference between the oracle there and just before."""
    if len(moments) < 2:
        assert delta.limit(1).collect() == []
        return
    signed = []
    for csn in moments[1:]:
        for at, sign in ((csn, 1), (csn - 1, -1)):
            signed.append(f"SELECT {csn}L AS csn, *, {sign} AS n FROM ({oracle_text(lake, text, at)})")
    wanted = lake.spark.sql(
        f"SELECT csn, {columns}, SUM(n) FROM ({' UNION ALL '.join(signed)}) GROUP BY csn, {columns} HAVING SUM(n) <> 0"
    )
    names = [f"c{i}" for i in range(len(delta.columns))]
    assert_bag_equal(delta.toDF(*names), wanted.toDF(*names), label=f"the view delta of {name}")


def _by_csn(frames: dict[int, Any]) -> Any:
    from pyspark.sql import functions as sf

    union = None
    for csn, frame in frames.items():
        marked = frame.withColumn("__csn", sf.lit(csn))
        union = marked if union is None else union.unionAll(marked)
    return union


def oracle(lake: Lake, text: str, csn: int) -> Any:
    return lake.spark.sql(oracle_text(lake, text, csn))


def oracle_text(lake: Lake, text: str, csn: int) -> str:
    bound = [
        f"`{table}` AS (SELECT * FROM delta.`{location}` VERSION AS OF {version})"
        for table, (location, version) in tables_at(lake, csn).items()
    ]
    return f"WITH {', '.join(bound)} SELECT * FROM ({text})"


def tables_at(lake: Lake, csn: int) -> dict[str, tuple[str, int]]:
    """Where each table is and which version a csn means, from the unit-of-work table."""
    found: dict[str, tuple[str, int]] = {}
    for table in lake._context.catalog.base_tables():
        versions = [u.version for u in lake.units_of_work() if u.table == table.name and table.since_csn < u.csn <= csn]
        found[table.name] = (table.location, max(versions, default=table.since_version))
    return found


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


def open_steps(lake: Lake) -> list[str]:
    return [str(step) for step in lake._context.catalog.open_steps()]
