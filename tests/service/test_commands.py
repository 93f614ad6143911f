"""``headwater costs``, ``status`` and ``run`` where no Spark is needed."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.catalog import CostRecord, open_catalog
from headwater.measured import LAKE
from tests.cli.conftest import Run, run
from tests.service.worlds import JOIN, populate, step

__all__ = ["run"]  # the fixture


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    with (
        open_catalog(f"sqlite:///{tmp_path}/catalog.db", clock=lambda: 1_000_000, create=True) as catalog,
        catalog.lease("all") as lease,
    ):
        populate(catalog, lease)
        step(catalog, lease, "joined", [1, 1], 3.0)
        step(catalog, lease, "joined", [1, 2], 2.0)
        leaves = catalog.leaves("joined")
        catalog.alter_view(lease, JOIN.view_id, options={"response_time": "10s", "priority": "2"}, leaves=leaves)
        catalog.add_cost_samples(
            [
                CostRecord("joined", "apply", 0, 1, 2.0, False, 0),
                CostRecord(LAKE, "capture", 0, 1, 1.0, False, 0),
            ]
        )
    return tmp_path


def test_costs(run: Run, lake: Path, tmp_path: Path) -> None:
    told = run("costs", "joined", "--lake", lake, "--svg", tmp_path / "pictures" / "costs.svg").stdout
    assert "propagate r" in told
    assert "Floor 6.0 s: one changed row of r takes capture 1.0 s + propagate 3.0 s + apply 2.0 s" in told
    assert (tmp_path / "pictures" / "costs.svg").read_text().startswith("<svg")
    found = run("costs", "joined", "--lake", lake, "--json").json()
    assert found["floor"] == 6.0
    assert found["parts"]["s"]["one_row"] == 2.0
    assert found["samples"]["r"] == [{"rows": 10, "seconds": 3.0, "cold": False}]
    untouched = run("costs", "sums", "--lake", lake).stdout
    assert "not measured yet" in untouched
    assert "no floor yet" in untouched
    assert run("costs", "nobody", "--lake", lake, "--json", code=1).json()["code"] == "UNKNOWN_NAME"


def test_status_tells_what_is_promised(run: Run, lake: Path) -> None:
    run("costs", "joined", "--lake", lake)  # takes in what the steps took
    told = run("status", "--lake", lake).stdout
    assert "Promises" in told
    views = {view["name"]: view for view in run("status", "--lake", lake, "--json").json()["views"]}
    promise = views["joined"]["promise"]
    assert (promise["response_time"], promise["priority"], promise["floor"]) == (10.0, 2, 6.0)
    assert promise["predicted"] == pytest.approx(1 + 3 + 2 + 2)
    assert promise["state"] == "kept"
    assert views["sums"]["promise"] is None


@pytest.mark.parametrize(
    "arguments",
    [["run", "--port", "70000"], ["calibrate"], ["calibrate", "v", "--steps", "0"], ["costs"]],
)
def test_wrong_usage(run: Run, lake: Path, arguments: list[str]) -> None:
    assert run("--lake", lake, *arguments, code=2).stdout == ""


def test_run_refuses_what_it_can_not_keep_before_it_starts(run: Run, lake: Path) -> None:
    assert run("run", "nobody", "--lake", lake, "--json", code=1).json()["code"] == "UNKNOWN_NAME"
    assert run("run", "--tick", "soon", "--lake", lake, "--json", code=1).json()["code"] == "INVALID_INPUT"
