"""What the service sees of a lake, from the catalog alone; no Spark."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from headwater.catalog import Catalog, CostKind, CostRecord, Lease, ViewRecord
from headwater.context import Context
from headwater.errors import QueryFailed
from headwater.measured import LAKE, Backlog, backlog_of
from headwater.service import spark_lake
from headwater.service.loop import Loop, Refreshed
from headwater.service.metrics import Metrics
from headwater.service.spark_lake import SparkLake
from tests.service.fake_lake import FakeClock
from tests.service.worlds import SUMS, leaves, view

RECOMPUTED = view("turned", SUMS.sql, "r", "s", definition={**SUMS.definition, "recomputed": "PIVOT"})


@pytest.fixture
def lease(catalog: Catalog, lease: Lease) -> Lease:
    catalog.set_rows("r", 3, 20)
    return lease


def promising(catalog: Catalog, lease: Lease, name: str, options: dict[str, str]) -> None:
    catalog.alter_view(lease, name, options=options, leaves=catalog.leaves(name))


class WithoutSpark(SparkLake):
    """Looks as the real one does, and notes what it is told to do."""

    def __init__(self, catalog: Catalog) -> None:
        nothing = cast(Any, None)
        self.context = Context(catalog, nothing, nothing, "/", lambda: 1_000_000)
        self.deeds: list[str] = []
        super().__init__(self.context, lambda: 0, lambda: None)

    def capture(self) -> None:
        pass

    def process(self, view: str, counts: tuple[int, ...], csn: int) -> None:
        self.deeds.append(view)

    def refresh(self, view: str) -> Refreshed:
        self.deeds.append(view)
        return Refreshed(0, "incremental", "CHANGES_APPLIED", 0)


@pytest.mark.parametrize("promise", [{"response_time": "10s"}, {"max_staleness": "1m"}])
def test_a_view_that_can_not_be_looked_at_does_not_keep_the_service_from_the_others(
    catalog: Catalog, lease: Lease, monkeypatch: pytest.MonkeyPatch, promise: dict[str, str]
) -> None:
    def counted(context: Context, record: ViewRecord) -> Backlog:
        if record.name == "sums":
            raise QueryFailed("its definition can't be read")
        return backlog_of(context.catalog, record)

    monkeypatch.setattr(spark_lake, "counted_backlog", counted)
    promising(catalog, lease, "sums", promise)
    promising(catalog, lease, "joined", {"response_time": "10s"})
    lake, told = WithoutSpark(catalog), list[dict[str, Any]]()
    loop = Loop(lake, FakeClock(), told.append)
    assert loop.round()
    assert lake.deeds == ["joined"]
    bad = next(each for each in told if each["event"] == "promise")
    assert (bad["view"], bad["promise"], bad["predicted"]) == ("sums", "broken", None)
    assert "its definition can't be read" in bad["stuck"]
    assert 'headwater_promise{state="broken",view="sums"} 1' in Metrics().text(loop.seen, busy=0.0, pressed=False)


def test_each_kind_of_step_is_cold_until_one_of_it_was_run(catalog: Catalog, lease: Lease) -> None:
    """A service that only recomputed counted with the first step of a process for ever: nothing was propagated."""

    def steps(view: str, kind: CostKind) -> list[CostRecord]:
        warm = CostRecord(view, kind, 0, 1, 1.0, False, 0)
        return [warm, replace(warm, seconds=30.0, cold=True)]

    catalog.insert_view(lease, RECOMPUTED, leaves("r", "s"))
    for name in ("turned", "sums"):
        promising(catalog, lease, name, {"response_time": "1h"})
    for name, kind in (("turned", "recompute"), ("sums", "propagate"), ("sums", "apply"), (LAKE, "capture")):
        catalog.add_cost_samples(steps(name, cast(CostKind, kind)))
    lake = WithoutSpark(catalog)

    def takes(ran: str | None) -> dict[str, tuple[float, ...]]:
        """Seconds of capture, of propagation or recomputation, and of apply, as the next of them are expected."""
        if ran is not None:
            lake.context.ran.add(ran)
        found = {}
        for seen in lake.look():
            functions = (seen.costs.capture, seen.costs.part(0), seen.costs.apply)
            found[seen.name] = tuple(round(f(1)) for f in functions if f is not None)
        return found

    assert takes(None) == {"turned": (30, 30), "sums": (30, 30, 30)}
    assert takes("capture") == {"turned": (1, 30), "sums": (1, 30, 30)}
    assert takes("recompute") == {"turned": (1, 1), "sums": (1, 30, 30)}
    assert takes("propagate") == {"turned": (1, 1), "sums": (1, 1, 30)}
    assert takes("apply") == {"turned": (1, 1), "sums": (1, 1, 1)}


@pytest.mark.parametrize(("policy", "state"), [("default", "at risk"), ("strict", "broken")])
def test_a_view_that_must_be_recomputed_does_not_keep_its_promise_surely_and_a_strict_one_not_at_all(
    catalog: Catalog, lease: Lease, policy: str, state: str
) -> None:
    promising(catalog, lease, "sums", {"response_time": "1000s", "refresh": policy})
    catalog.set_view_problem(lease, catalog.view("sums").view_id, {"code": "TABLE_RESYNCED", "message": "lost"})
    (seen,) = WithoutSpark(catalog).look()
    assert (seen.name, seen.state) == ("sums", state)
