"""Every construct through a scripted history: refreshed on the way, right at every csn, never recomputed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from headwater.errors import UnsupportedSql
from tests.spark.constructs import HISTORY, TABLES, UPSTREAM, VIEWS
from tests.spark.oracle import WAYS, World


@dataclass
class Constructs:
    """The tables with all of their history, and the views where they were created."""

    world: World
    stops: list[int]  # csns at which views are to be refreshed
    refused: dict[str, str]


@pytest.fixture(scope="module")
def constructs(make_world: Callable[..., World], request: pytest.FixtureRequest) -> Constructs:
    world = make_world("constructs")
    wanted = [item.callspec.params["view"] for item in request.session.items if item.path == request.path]  # type: ignore[attr-defined]
    refused = {}
    for name, (columns, rows) in TABLES.items():
        world.make(name, columns, rows)
    world.look()
    for name, sql in UPSTREAM.items():
        world.create(name, sql)
    for name in dict.fromkeys(wanted):
        try:
            world.create(f"v_{name}", VIEWS[name])
        except UnsupportedSql as error:
            refused[name] = f"{error.code}: {error}"
    stops = []
    for event in HISTORY:
        if event == "refresh":
            stops.append(world.lake.capture())
        else:
            world.run(event)
    return Constructs(world, [*stops, world.lake.capture()], refused)


@pytest.mark.parametrize("view", VIEWS)
def test_construct(constructs: Constructs, view: str) -> None:
    assert view not in constructs.refused, constructs.refused[view]
    world, name = constructs.world, f"v_{view}"
    for number, stop in enumerate(constructs.stops, start=list(VIEWS).index(view)):
        world.lake._context.sizes = WAYS[number % len(WAYS)]
        report = world.lake.refresh(name, to=stop)
        assert report.mode in ("incremental", "none"), report
    begin = world.kept_from(name)
    upstream = ", ".join(f"{each} AS ({text})" for each, text in UPSTREAM.items() if each in VIEWS[view])
    world.views[name] = f"WITH {upstream} {VIEWS[view]}" if upstream else VIEWS[view]
    world.check(name, label=view)
    assert world.check_law(name, label=view) == constructs.stops[-1] - begin + 1
